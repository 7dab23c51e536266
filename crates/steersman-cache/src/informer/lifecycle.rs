//! The tasks of an informer: started once, stopped once.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures::FutureExt;
use steersman_wire::ObjectError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::inner::Inner;
use crate::Error;
use crate::object::cached::Cached;
use crate::queue::source::Source;
use crate::reflector::report_decode_error;

/// The tasks of an informer. Dropping it stops the informer.
pub(super) struct Lifecycle<K> {
    inner: Arc<Inner<K>>,
    state: Mutex<State>,
    pub(super) sources: Vec<Arc<Source<K>>>,
    /// Called once with the panic message if a task panics.
    pub(super) on_failure: OnceLock<OnFailure>,
    /// Closed when the last task has ended. No value is ever sent.
    pub(super) tasks_ended: watch::Receiver<()>,
}

pub(super) type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// Spawns the tasks.
pub(super) type Starter = Box<dyn FnOnce() -> Vec<JoinHandle<()>> + Send>;

enum State {
    New(Starter),
    Running(Vec<JoinHandle<()>>),
    Stopped,
    /// A task panicked.
    Failed,
}

/// Ends the informer when its task ends, also by a panic. Without it, waiting callers would hang.
pub(super) struct TaskGuard<K> {
    lifecycle: Weak<Lifecycle<K>>,
    /// The last field, so that it is dropped after the task has ended.
    _running: watch::Sender<()>,
}

impl<K> TaskGuard<K> {
    pub(super) fn new(lifecycle: &Weak<Lifecycle<K>>, running: &watch::Sender<()>) -> Self {
        Self { lifecycle: Weak::clone(lifecycle), _running: running.clone() }
    }

    /// Runs a task of the informer. If it panics, the informer fails.
    pub(super) async fn run<T>(self, task: impl Future<Output = T>) {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await
            && let Some(lifecycle) = self.lifecycle.upgrade()
        {
            lifecycle.task_ended(Some(panic_message(&*panic)));
        }
    }
}

impl<K> Drop for TaskGuard<K> {
    fn drop(&mut self) {
        if let Some(lifecycle) = self.lifecycle.upgrade() {
            lifecycle.task_ended(None);
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

impl<K> Lifecycle<K> {
    pub(super) fn new(
        inner: Arc<Inner<K>>,
        starter: Starter,
        sources: Vec<Arc<Source<K>>>,
        tasks_ended: watch::Receiver<()>,
    ) -> Self {
        let (state, on_failure) = (Mutex::new(State::New(starter)), OnceLock::new());
        Self { inner, state, sources, on_failure, tasks_ended }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.state(), State::Stopped | State::Failed)
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(*self.state(), State::Failed)
    }

    /// Spawns the tasks, unless they were spawned before.
    pub(super) fn start(&self) -> Result<(), Error> {
        let mut state = self.state();
        let starter = match std::mem::replace(&mut *state, State::Running(Vec::new())) {
            State::New(starter) => starter,
            running @ State::Running(_) => {
                *state = running;
                return Ok(());
            }
            ended @ (State::Stopped | State::Failed) => {
                *state = ended;
                return Err(self.inner.stopped());
            }
        };
        drop(state);
        // Runs without the lock: on a runtime that is shutting down, a task ends before it begins,
        // and its guard takes the lock.
        let started = starter();
        if let State::Running(tasks) = &mut *self.state() {
            tasks.extend(started);
            return Ok(());
        }
        started.iter().for_each(JoinHandle::abort);
        Err(self.inner.stopped())
    }

    /// Reports an object in the cache that does not decode to the source of its namespace.
    pub(super) fn report_decode_error(&self, object: &Cached<K>, error: ObjectError) {
        let has_namespace = |source: &&Arc<Source<K>>| {
            source.namespace.as_deref().is_none_or(|namespace| namespace == object.meta().namespace())
        };
        if let Some(source) = self.sources.iter().find(has_namespace) {
            report_decode_error(&source.status, error);
        }
    }

    /// Aborts the tasks. Handlers end when they have received the events that were sent to them.
    pub(super) fn stop(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Stopped);
        self.end_from(before);
    }

    /// A task ended, with the message of its panic if it panicked. Unless the informer was stopped,
    /// the other tasks end too.
    fn task_ended(&self, panic: Option<String>) {
        let mut state = self.state();
        if matches!(*state, State::Stopped | State::Failed) {
            return;
        }
        let after = if panic.is_some() { State::Failed } else { State::Stopped };
        let before = std::mem::replace(&mut *state, after);
        let panic = panic.map(|panic| &**self.inner.failure.get_or_init(|| panic));
        drop(state);
        if let Some(panic) = panic {
            tracing::error!(kind = self.inner.kind, panic, "informer task panicked, its cache is out of date");
            let why = format!("a task of its informer panicked: {panic}");
            self.sources.iter().for_each(|source| source.status.send_modify(|status| status.fail(&why)));
        }
        // Before `end_from`, so that the failure is known when waits for this informer end.
        if let (Some(panic), Some(on_failure)) = (panic, self.on_failure.get()) {
            on_failure(panic);
        }
        self.end_from(before);
    }

    fn end_from(&self, before: State) {
        if let State::Running(tasks) = before {
            tasks.iter().for_each(JoinHandle::abort);
        }
        self.inner.processor().stop();
        self.inner.progress.send_modify(|progress| progress.stopped = true);
    }
}

impl<K> Drop for Lifecycle<K> {
    fn drop(&mut self) {
        self.stop();
    }
}
