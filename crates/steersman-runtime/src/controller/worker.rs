//! Runs a controller: waits for its caches, starts its workers, stops them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant as StdInstant};

use futures::TryFutureExt;
use futures::future::try_join_all;
use steersman_cache::{HandlerHandle, Object, ObjectKey};
use steersman_client::Trace;
use steersman_workqueue::{AddOptions, Item, Outcome};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::Shared;
use super::enqueue::LOW_PRIORITY;
use super::sources::{Attached, WatchSource};
use crate::caches::CacheHandle;
use crate::flight_recorder::{Causes, Ending, Source, error_text, log};
use crate::layer::{Next, guarded};
use crate::leader_election::{Epoch, Leadership};
use crate::manager::{Launch, wait_with_reminders};
use crate::reconciler::DynReconciler;
use crate::scope::OwnerScope;
use crate::stop::{StopSignal, Stopper};
use crate::{CachedClient, Context, Error, EventRecorder, ReconcileError};

/// A controller that is about to run.
pub(super) struct Run<K> {
    pub(super) shared: Arc<Shared>,
    pub(super) client: CachedClient,
    pub(super) cache: CacheHandle<K>,
    pub(super) reconciler: Arc<dyn DynReconciler<K>>,
    pub(super) sources: Vec<Box<dyn WatchSource>>,
    pub(super) owner_scope: Option<OwnerScope>,
    pub(super) workers: usize,
    /// Set if the controller runs on the leader alone.
    pub(super) leadership: Option<Leadership>,
    pub(super) events: EventRecorder,
    pub(super) sync_timeout: Option<Duration>,
    /// Dropped when the controller has ended, or never starts.
    pub(super) _ended: Stopper,
}

impl<K: Object> Run<K> {
    pub(super) async fn run(mut self, Launch { stop, late }: Launch) -> Result<(), ReconcileError> {
        let stop = stop.or(&self.shared.removal);
        let queue = self.shared.queue.clone();
        let mut attached = Attached::new(queue);
        tokio::select! {
            biased;
            () = stop.stopped() => return Ok(()),
            prepared = self.prepare(late, &mut attached, &stop) => prepared?,
        }
        self.shared.manager.upgrade()?.started(&self.shared.name);
        match self.leadership.clone() {
            None => self.work(&stop, attached).await,
            Some(leadership) => self.work_in_terms(&stop, attached, &leadership).await,
        }
    }

    /// Runs the workers until the controller stops.
    async fn work(&self, stop: &StopSignal, mut attached: Attached) -> Result<(), ReconcileError> {
        let mut workers = self.start_workers(stop, None);
        let mut result = Ok(());
        let mut failed = None;
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            error = attached.failed() => failed = Some(error),
            Some(ended) = workers.join_next() => result = self.worker_ended(ended),
        }
        let finished = attached.finish().await;
        while let Some(ended) = workers.join_next().await {
            result = result.and(ended);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(result.map(|()| finished)??),
        }
    }

    /// Runs the workers while this replica leads. The queue fills in both roles, so that a new
    /// leader begins at once.
    async fn work_in_terms(
        &self,
        stop: &StopSignal,
        mut attached: Attached,
        leadership: &Leadership,
    ) -> Result<(), ReconcileError> {
        let mut is_first_term = true;
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return attached.finish().await,
                error = attached.failed() => return Err(error),
                () = leadership.elected() => {}
            }
            let Some(epoch) = leadership.epoch() else { continue };
            if !std::mem::take(&mut is_first_term) {
                // Another leader may have acted on objects that have not changed since.
                let options = AddOptions::new().priority(LOW_PRIORITY);
                self.cache
                    .informer
                    .lister()
                    .keys()
                    .into_iter()
                    .for_each(|key| self.shared.add(key, options, Source::NewTerm));
            }
            let term = Stopper::new();
            let mut workers = self.start_workers(&term.signal(), Some((leadership, &epoch)));
            let mut result = Ok(());
            let mut is_stopping = false;
            let mut failed = None;
            tokio::select! {
                biased;
                () = stop.stopped() => is_stopping = true,
                error = attached.failed() => (is_stopping, failed) = (true, Some(error)),
                () = leadership.lost(&epoch) => {}
                Some(ended) = workers.join_next() => result = self.worker_ended(ended),
            }
            term.stop();
            // The manager aborts whatever does not stop in time. A lost term ends before, also
            // while the manager stops.
            let all_ended = async {
                while let Some(ended) = workers.join_next().await {
                    result = std::mem::replace(&mut result, Ok(())).and(ended);
                }
            };
            let is_cancelled = tokio::select! {
                biased;
                () = all_ended => false,
                () = leadership.cancelled(&epoch) => true,
            };
            if is_cancelled {
                tracing::warn!(controller = self.shared.name, "reconciles cancelled, because the leadership was lost");
                workers.shutdown().await;
            }
            if is_stopping || result.is_err() {
                let finished = attached.finish().await;
                return match failed {
                    Some(error) => Err(error),
                    None => Ok(result.map(|()| finished)??),
                };
            }
        }
    }

    /// A worker ends early only after a panic outside the reconcile, for example in a rate limiter.
    fn worker_ended(&self, ended: Result<(), JoinError>) -> Result<(), JoinError> {
        if let Err(error) = &ended {
            self.shared.ending.store(true, Ordering::Release);
            let controller = &*self.shared.name;
            tracing::error!(controller, %error, "a worker panicked: the others finish their reconciles, and the controller ends");
        }
        ended
    }

    /// Waits for the caches of this controller, and then until the queue has all initial objects.
    /// For a controller that is not `late`, the manager logs what is missing, and ends the wait at
    /// its limit.
    async fn prepare(&mut self, late: bool, attached: &mut Attached, stop: &StopSignal) -> Result<(), Error> {
        let controller = &*self.shared.name;
        let synced = try_join_all(self.sources.iter().map(|source| source.synced())).map_ok(drop);
        if late {
            let waiting = || self.sources.iter().flat_map(|source| source.waiting()).collect();
            let remind = |missing: &str| tracing::warn!(missing, "controller {controller} waits for its caches");
            wait_with_reminders(self.sync_timeout, synced, waiting, remind).await?;
        } else {
            synced.await?;
        }
        if let Some(scope) = &self.owner_scope {
            scope.discover(self.client.live(), controller).await;
        }
        for source in &mut self.sources {
            source.attach(&self.shared, attached, stop)?;
        }
        for handle in &attached.handles {
            handler_synced(handle, self.sync_timeout, controller).await?;
        }
        Ok(())
    }

    /// Starts the workers. Waiting workers of a term of leadership end when `stop` shows it, others
    /// when the queue is shut down.
    fn start_workers(&self, stop: &StopSignal, term: Option<(&Leadership, &Epoch)>) -> JoinSet<()> {
        let client = match term {
            Some((leadership, epoch)) => self.client.with_write_gate(leadership.write_gate(epoch.clone())),
            None => self.client.clone(),
        };
        let context = Context::new(
            self.shared.name.clone(),
            client,
            self.cache.clone(),
            stop.clone(),
            term.map(|(leadership, epoch)| (leadership.clone(), epoch.clone())),
            self.events.clone(),
        );
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let worker = Worker {
                shared: Arc::clone(&self.shared),
                context: context.clone(),
                reconciler: Arc::clone(&self.reconciler),
                stop: stop.clone(),
                wake: term.is_some(),
            };
            workers.spawn(worker.run());
        }
        tracing::info!(controller = self.shared.name, workers = self.workers, "controller started");
        workers
    }
}

/// The time between two log lines about a handler that has not synced.
const REMINDER: Duration = Duration::from_secs(10);

/// Waits until a handler has added all initial objects to the queue, or never will. If the manager
/// has a limit for its caches, the wait ends after it, but not before the first reminder.
async fn handler_synced(handle: &HandlerHandle, limit: Option<Duration>, controller: &str) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        match handle.wait_for_sync(REMINDER).await {
            Ok(()) | Err(steersman_cache::Error::HandlerNotSynced { ended: true, .. }) => return Ok(()),
            Err(error) if limit.is_some_and(|limit| started.elapsed() >= limit) => return Err(error.into()),
            Err(error) => tracing::warn!(%error, "controller {controller} waits for its handlers"),
        }
    }
}

struct Worker<K> {
    shared: Arc<Shared>,
    context: Context<K>,
    reconciler: Arc<dyn DynReconciler<K>>,
    stop: StopSignal,
    wake: bool,
}

/// Counts a reconcile while it runs, until it ends in any way.
struct Active<'a>(&'a AtomicUsize);

impl<'a> Active<'a> {
    fn new(active: &'a AtomicUsize) -> Self {
        active.fetch_add(1, Ordering::Relaxed);
        Self(active)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K: Object> Worker<K> {
    async fn run(self) {
        match &self.shared.recorder {
            Some(recorder) => log::logged(recorder, self.work()).await,
            None => self.work().await,
        }
    }

    /// Reconciles keys one after another. On shutdown, the running reconcile finishes. Queued keys
    /// are dropped; the next start lists them again.
    async fn work(&self) {
        while let Some(mut item) = self.next().await {
            if self.stop.is_stopped() || self.shared.ending.load(Ordering::Acquire) {
                self.leave(item);
                continue;
            }
            // The clock is read twice: by the queue before the reconcile, and after it.
            let (active, began) = (Active::new(&self.shared.figures.active), item.taken_at());
            self.begin_record(&mut item);
            // Layers of the user are outside the innermost guard.
            let reconcile = guarded(Next::new(&*self.reconciler, &self.context, &item));
            let result = self.traced(reconcile).await;
            drop(active);
            // Without a clock, a key that is done is done at any time. A delay begins now.
            let is_done = result.as_ref().is_ok_and(|action| action.after().is_none());
            let needs_time = self.shared.is_timed || !is_done;
            let now = if needs_time { Instant::now().into_std() } else { began };
            let took = if self.shared.is_timed { now.saturating_duration_since(began) } else { Duration::ZERO };
            self.shared.figures.ended(&result, took);
            let ending = match result {
                Ok(action) => self.succeeded(item, action.after(), now),
                Err(failure) => self.failed(item, failure, now),
            };
            if let Some(recorder) = &self.shared.recorder {
                recorder.end(ending, took, now);
            }
        }
    }

    /// Leaves a key that came with the end. If only the term ends, the next term has it.
    fn leave(&self, item: Item<'_, ObjectKey, Causes>) {
        leave(item, self.wake && !self.shared.ending.load(Ordering::Acquire));
    }

    /// Runs a reconcile in a trace of its own, if its requests carry one.
    async fn traced<F: Future>(&self, reconcile: F) -> F::Output {
        if self.shared.traces {
            Trace::new(self.context.client().world()).scope(reconcile).await
        } else {
            reconcile.await
        }
    }

    /// Begins the record of a reconcile, if there is a recorder.
    fn begin_record(&self, item: &mut Item<'_, ObjectKey, Causes>) {
        let Some(recorder) = &self.shared.recorder else { return };
        let failures = self.shared.failing.get(item.key(), |failing| failing.times).unwrap_or(0);
        let (causes, attempt) = (item.take_payload(), failures.saturating_add(1));
        let record = recorder.start(item.key().clone(), causes, attempt, item.waited(), item.taken_at());
        // An event that has overtaken a requeue is the first cause now.
        if let Some(source) = record.causes.source() {
            self.shared.figures.triggered(source);
        }
        log::begin(record);
    }

    async fn next(&self) -> Option<Item<'_, ObjectKey, Causes>> {
        if !self.wake {
            return self.shared.queue.get().await;
        }
        tokio::select! {
            biased;
            () = self.stop.stopped() => None,
            item = self.shared.queue.get() => item,
        }
    }

    fn succeeded(&self, item: Item<'_, ObjectKey, Causes>, after: Option<Duration>, now: StdInstant) -> Ending {
        self.shared.failing.remove(&item);
        match after {
            None => {
                item.finish_at(Outcome::Done, Causes::None, now);
                Ending::Done
            }
            Some(delay) => {
                item.finish_at(Outcome::RequeueAfter(delay), self.cause(Source::RequeueAfter), now);
                Ending::RequeueAfter(delay)
            }
        }
    }

    fn cause(&self, source: Source) -> Causes {
        if self.shared.recorder.is_some() { Causes::Call(source, None) } else { Causes::None }
    }

    fn failed(&self, item: Item<'_, ObjectKey, Causes>, failure: ReconcileError, now: StdInstant) -> Ending {
        let terminal = failure.is_terminal();
        let last = Arc::new(failure);
        let error = if self.shared.recorder.is_some() { error_text(&last) } else { Box::default() };
        self.shared.failing.failed(item.key(), last);
        let outcome = if terminal { Outcome::Done } else { Outcome::Retry };
        Ending::Failed { error, retry_after: item.finish_at(outcome, self.cause(Source::Retry), now) }
    }
}

fn leave(item: Item<'_, ObjectKey, Causes>, is_term: bool) {
    if is_term {
        item.give_back();
    } else {
        item.done();
    }
}

#[cfg(test)]
mod tests {
    use steersman_workqueue::{Core, WorkQueue, controller_runtime_default};

    use super::*;
    use crate::flight_recorder::{Cause, SourceInfo};

    #[tokio::test(start_paused = true)]
    async fn a_key_that_comes_with_the_end_of_a_term_is_left_for_the_next_one() {
        let core: Core<ObjectKey, Causes> = Core::with_payloads(controller_runtime_default());
        let queue = WorkQueue::from_core(core);
        let causes = Causes::one(Cause::new(&SourceInfo::new(Source::Manual, "")));
        queue.add_with_payload(ObjectKey::new("default", "gone"), AddOptions::new().rate_limited(), causes);
        leave(queue.get().await.unwrap(), true);
        assert_eq!(queue.len(), 1);
        let mut item = queue.get().await.unwrap();
        assert_eq!((item.take_payload().source(), queue.retries(item.key())), (Some(Source::Manual), 1));
        leave(item, false);
        assert_eq!((queue.len(), queue.delayed()), (0, 0));
    }
}
