//! The sources of a controller's keys.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use steersman_cache::{HandlerHandle, Informer, Object, ObjectKey, ReflectorStatus};
use steersman_workqueue::{AddOptions, WorkQueue};
use tokio::task::{JoinError, JoinSet};

use super::Shared;
use super::enqueue::{Enqueue, EnqueueFor};
use crate::access::KindAccess;
use crate::caches::{FOREVER, InUse, User};
use crate::flight_recorder::{Causes, Source, SourceInfo};
use crate::kind::Kind;
use crate::layer::panic_message;
use crate::stop::{StopSignal, Stopper};
use crate::{Error, Manager, ReconcileError};

/// A source of keys.
pub(crate) trait WatchSource: Send + Sync {
    /// Declares the cache that it needs.
    fn declare(&mut self, manager: &Manager, controller: &str) -> Result<(), Error>;

    /// Starts to add keys to the queue. `stop` shows when to end.
    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached, stop: &StopSignal) -> Result<(), Error>;

    /// Waits until its cache has synced, for as long as that takes.
    fn synced(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// The reflectors whose first list is missing.
    fn waiting(&self) -> Vec<ReflectorStatus>;

    /// Whether the controller owns the objects and declares writes that may set owner references.
    fn may_set_owners(&self) -> bool {
        false
    }
}

/// The sources that add keys to a queue. Dropping it stops them, and the queue accepts no more
/// keys.
pub(crate) struct Attached {
    pub(crate) queue: WorkQueue<ObjectKey, Causes>,
    pub(crate) handles: Vec<HandlerHandle>,
    /// Tasks that are dropped at the end.
    pub(crate) tasks: JoinSet<Result<(), ReconcileError>>,
    /// Tasks that are waited for at the end.
    pub(crate) customs: JoinSet<Result<(), ReconcileError>>,
    pub(crate) stopper: Stopper,
}

impl Attached {
    pub(crate) fn new(queue: WorkQueue<ObjectKey, Causes>) -> Self {
        let (tasks, customs) = (JoinSet::new(), JoinSet::new());
        Self { queue, handles: Vec::new(), tasks, customs, stopper: Stopper::new() }
    }

    /// Waits until a source fails, or panics.
    pub(crate) async fn failed(&mut self) -> ReconcileError {
        loop {
            let ended = tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => ended,
                Some(ended) = self.customs.join_next() => ended,
                else => std::future::pending().await,
            };
            if let Err(error) = source_result(ended) {
                return error;
            }
        }
    }

    /// Ends all sources, and waits for those that are functions.
    pub(crate) async fn finish(mut self) -> Result<(), ReconcileError> {
        self.handles.iter().for_each(HandlerHandle::remove);
        self.queue.shut_down();
        self.tasks.abort_all();
        self.stopper.stop();
        let mut result = Ok(());
        while let Some(ended) = self.customs.join_next().await {
            result = result.and(source_result(ended));
        }
        result
    }
}

fn source_result(ended: Result<Result<(), ReconcileError>, JoinError>) -> Result<(), ReconcileError> {
    ended.unwrap_or_else(|error| {
        let panic = error.try_into_panic().ok();
        let problem = panic.map_or_else(String::new, |panic| panic_message(&*panic));
        Err(ReconcileError::message(format!("a source panicked: {problem}")))
    })
}

/// Puts keys into the queue of a controller: what a [source](crate::ControllerBuilder::source) is
/// given. Clones are for the same controller.
#[derive(Clone)]
pub struct KeySender {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for KeySender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySender").finish_non_exhaustive()
    }
}

impl KeySender {
    /// Has a key reconciled. Predicates are not asked. After the controller has stopped, nothing
    /// happens.
    pub fn send(&self, key: ObjectKey) {
        self.shared.add(key, AddOptions::new(), Source::Custom);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.handles.iter().for_each(HandlerHandle::remove);
        self.queue.shut_down();
    }
}

pub(crate) struct Watched<W> {
    pub(crate) kind: Kind<W>,
    pub(crate) informer: Option<Informer<W>>,
    /// Until the handler owns it.
    pub(crate) in_use: Option<InUse>,
    pub(crate) enqueue_for: EnqueueFor<W>,
    pub(crate) source: Source,
}

impl<W: Object> Watched<W> {
    pub(crate) fn listen(&mut self, informer: &Informer<W>, shared: &Arc<Shared>) -> Result<HandlerHandle, Error> {
        let mut conditions = std::mem::take(&mut self.kind.conditions);
        conditions.add(&shared.predicates);
        let handler = Enqueue {
            queue: shared.queue.clone(),
            conditions,
            enqueue_for: self.enqueue_for.clone(),
            kind: self.kind.identity.kind.clone(),
            panics: Arc::clone(&shared.panics),
            source: shared.recorder.is_some().then(|| SourceInfo::new(self.source, &self.kind.identity.kind)),
            _in_use: self.in_use.take(),
        };
        Ok(match self.kind.resync {
            None => informer.add_event_handler(handler)?,
            Some(every) => informer.add_event_handler_with_resync(handler, every)?,
        })
    }
}

impl<W: Object> WatchSource for Watched<W> {
    fn declare(&mut self, manager: &Manager, controller: &str) -> Result<(), Error> {
        let (found, in_use) = manager.declare_for(&mut self.kind, User::Controller(controller))?;
        (self.informer, self.in_use) = (Some(found.informer), in_use);
        Ok(())
    }

    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached, _: &StopSignal) -> Result<(), Error> {
        if let Some(informer) = self.informer.clone() {
            attached.handles.push(self.listen(&informer, shared)?);
            if let EnqueueFor::MappedLater(map) = &self.enqueue_for {
                let (kind, panics) = (self.kind.identity.kind.clone(), Arc::clone(&shared.panics));
                let run = Arc::clone(map).run(shared.queue.clone(), kind, panics);
                attached.tasks.spawn(run.map(Ok));
            }
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            match &self.informer {
                Some(informer) => Ok(informer.wait_for_sync(FOREVER).await?),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        self.informer.iter().flat_map(Informer::waiting).collect()
    }

    fn may_set_owners(&self) -> bool {
        self.source == Source::Owned && self.kind.access.iter().any(KindAccess::may_set_owners)
    }
}

/// Keys out of a stream.
///
/// The lock makes it [`Sync`]; nothing waits for it.
pub(crate) struct Channel(pub(crate) Mutex<Option<BoxStream<'static, ObjectKey>>>);

impl WatchSource for Channel {
    fn declare(&mut self, _: &Manager, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached, _: &StopSignal) -> Result<(), Error> {
        let keys = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut keys) = keys {
            let shared = Arc::clone(shared);
            attached.tasks.spawn(async move {
                while let Some(key) = keys.next().await {
                    shared.add(key, AddOptions::new(), Source::Custom);
                }
                Ok(())
            });
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        Vec::new()
    }
}

type RunSource = dyn FnOnce(KeySender, StopSignal) -> BoxFuture<'static, Result<(), ReconcileError>> + Send + Sync;

/// A function that sends keys.
pub(crate) struct Custom {
    pub(crate) name: String,
    pub(crate) run: Option<Box<RunSource>>,
}

impl WatchSource for Custom {
    fn declare(&mut self, _: &Manager, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn attach(&mut self, shared: &Arc<Shared>, attached: &mut Attached, stop: &StopSignal) -> Result<(), Error> {
        if let Some(run) = self.run.take() {
            let (keys, stop, name) =
                (KeySender { shared: Arc::clone(shared) }, stop.clone().or(&attached.stopper), self.name.clone());
            attached.customs.spawn(async move {
                run(keys, stop).await.map_err(|error| ReconcileError::message(format!("source {name}: {error}")))
            });
        }
        Ok(())
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        Vec::new()
    }
}
