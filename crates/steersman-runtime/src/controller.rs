//! A queue, its sources and its workers.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryFutureExt;
use futures::future::try_join_all;
use steersman_cache::{Cached, HandlerHandle, Object, ObjectKey};
use steersman_workqueue::{Item, RateLimiter, WorkQueue};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::caches::User;
use crate::enqueue::{Concerned, Panics, owners};
use crate::kind::Kind;
use crate::layers::{Layer, Layered, PanicGuard, Timeout, Tracing, guarded};
use crate::manager::{Launch, WeakManager, wait_with_reminders};
use crate::predicate::Predicate;
use crate::reconciler::{DynReconciler, Erased};
use crate::scope::OwnerScope;
use crate::sources::{Attached, Channel, WatchSource, Watched};
use crate::stop::Stop;
use crate::{Context, Error, Failure, Manager, Reconciler};

/// Says what a controller watches and how it works. Made with [`Manager::controller`].
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use steersman_runtime::{Error, GenerationChanged, Manager, ObjectKey, Reconciler, kind};
/// # fn example(manager: &Manager, reconciler: impl Reconciler<Deployment>) -> Result<(), Error> {
/// manager
///     .controller(kind::<Deployment>().predicate(GenerationChanged))
///     .owns(kind::<Pod>())
///     .watches(kind::<ConfigMap>(), |map| {
///         map.meta().label("deployment").map(|name| ObjectKey::new(map.meta().namespace(), name)).into_iter().collect()
///     })
///     .max_concurrent(4)
///     .complete(reconciler)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller is not there before complete(…)"]
pub struct ControllerBuilder<K> {
    manager: Manager,
    primary: Kind<K>,
    name: Option<String>,
    sources: Vec<Box<dyn WatchSource>>,
    /// Where the owners are, if it owns anything.
    owner_scope: Option<OwnerScope>,
    predicates: Vec<Arc<dyn Predicate>>,
    max_concurrent: usize,
    limiter: Option<Box<dyn RateLimiter<ObjectKey>>>,
    timeout: Option<Duration>,
    layers: Vec<Arc<dyn Layer<K>>>,
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("primary", &self.primary)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Object> ControllerBuilder<K> {
    pub(crate) fn new(manager: &Manager, primary: Kind<K>) -> Self {
        Self {
            manager: manager.clone(),
            primary,
            name: None,
            sources: Vec::new(),
            owner_scope: None,
            predicates: Vec::new(),
            max_concurrent: 1,
            limiter: None,
            timeout: None,
            layers: Vec::new(),
        }
    }

    /// Its name in logs, metrics and errors; the kind in small letters unless said otherwise. Names are unique within a manager.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Watches objects that belong to those of the controller's own kind: a change of one has its owner reconciled, also when it was
    /// deleted while nobody looked. Its owner is the one that controls it, or [every one](Kind::every_owner) of the kind.
    ///
    /// Owners of a dynamic kind are in namespaces or not as discovery shows, which is asked before
    /// the controller starts, unless [`in_no_namespace`](Kind::in_no_namespace) was called.
    pub fn owns<W: Object>(mut self, kind: Kind<W>) -> Self {
        let scope = self.owner_scope.get_or_insert_with(|| OwnerScope::of(&self.primary.identity));
        let concerned = Concerned::Mapped(Arc::new(owners(scope.clone(), kind.owners)));
        self.sources.push(Box::new(Watched { kind, informer: None, in_use: None, concerned }));
        self
    }

    /// Watches objects of which `map` knows whom they concern. Of an update it is asked about both states, so that who is no longer
    /// concerned hears of it. It may look into the cache of another kind: see [`Manager::declare`].
    pub fn watches<W: Object>(
        mut self,
        kind: Kind<W>,
        map: impl Fn(&Cached<W>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let concerned = Concerned::Mapped(Arc::new(map));
        self.sources.push(Box::new(Watched { kind, informer: None, in_use: None, concerned }));
        self
    }

    /// Reconciles the keys that come from a channel: whatever happens outside of Kubernetes. The channel may end, and is closed when
    /// the controller stops.
    pub fn channel(mut self, keys: mpsc::Receiver<ObjectKey>) -> Self {
        self.sources.push(Box::new(Channel(Some(keys))));
        self
    }

    /// Only changes that matter to `predicate`, from whichever source. Keys from channels are not asked about.
    pub fn predicate(mut self, predicate: impl Predicate) -> Self {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// How many keys are reconciled at the same time: 1 unless said otherwise. Never twice the same key.
    pub fn max_concurrent(mut self, workers: usize) -> Self {
        self.max_concurrent = workers.max(1);
        self
    }

    /// How long a key waits after a failure: 5 ms doubled each time up to 1000 s unless said otherwise.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Ends a reconcile that takes longer, as a failure. Without it a reconcile may take as long as it likes.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Puts a layer around every reconcile. The first is the outermost; all are inside tracing and outside the timeout and the guard
    /// against panics (test `layers_are_in_this_order`). One that panics itself fails the reconcile likewise.
    pub fn layer(mut self, layer: impl Layer<K>) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Adds the controller to the manager, which starts it.
    pub fn complete(mut self, reconciler: impl Reconciler<K>) -> Result<Controller, Error> {
        let name = self.name.take().unwrap_or_else(|| self.primary.identity.kind.to_lowercase());
        // Before anything is declared for it.
        self.manager.check_name(&name)?;
        let (found, in_use) = self.manager.declare_for(&mut self.primary, User::Controller(&name))?;
        for source in &mut self.sources {
            source.declare(&self.manager, &name)?;
        }
        let mut innermost: Arc<dyn DynReconciler<K>> = Arc::new(Erased(reconciler));
        let mut wrap = |layer: Arc<dyn Layer<K>>| {
            innermost = Arc::new(Layered { layer, inner: Arc::clone(&innermost) });
        };
        wrap(Arc::new(PanicGuard));
        if let Some(limit) = self.timeout {
            wrap(Arc::new(Timeout(limit)));
        }
        if !self.layers.is_empty() {
            self.layers.into_iter().rev().for_each(&mut wrap);
            // They may panic as well, and that is to be logged.
            wrap(Arc::new(PanicGuard));
        }
        wrap(Arc::new(Tracing));

        let limiter = self.limiter.unwrap_or_else(|| Box::new(steersman_workqueue::controller_runtime_default()));
        let shared = Arc::new(Shared {
            name: name.clone(),
            queue: WorkQueue::with_rate_limiter(limiter),
            failing: Mutex::default(),
            reconciles: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            predicates: self.predicates,
            panics: Arc::new(Panics { controller: name.clone(), total: AtomicU64::new(0) }),
            ending: AtomicBool::new(false),
            manager: self.manager.downgrade(),
        });
        let informer = found.informer.clone();
        let context = Context::new(name.clone(), self.manager.client().clone(), found);
        let primary = Watched { kind: self.primary, informer: Some(informer), in_use, concerned: Concerned::Itself };
        let mut sources: Vec<Box<dyn WatchSource>> = vec![Box::new(primary)];
        sources.extend(self.sources);
        let run = Run {
            shared: Arc::clone(&shared),
            context,
            reconciler: innermost,
            sources,
            owner_scope: self.owner_scope,
            workers: self.max_concurrent,
            sync_timeout: self.manager.sync_timeout(),
        };
        self.manager.add_controller(&name, move |launch| run.run(launch))?;
        Ok(Controller { shared })
    }
}

/// A controller of a manager, to be asked and changed. Clones are the same controller.
///
/// **What is promised** (the tests of these names are in `tests/controllers`).
/// - A key is reconciled by one worker at a time, and once more when it changed meanwhile (contract 5,
///   `a_key_is_never_reconciled_twice_at_a_time_and_no_change_is_lost`,
///   `parallel_workers_never_have_the_same_key_and_lose_no_change`).
/// - A failure is tried again after a time that grows by the key, until it succeeds (`an_error_backs_off_per_key`); a
///   [terminal](Failure::terminal) one when something changes (`a_terminal_error_is_not_retried`); a panic is a failure
///   (`a_panic_is_the_error_of_its_reconcile_only`).
/// - What changes comes before what was there from the start and before resyncs
///   (`live_changes_come_before_the_initial_list`).
/// - A predicate or filter that panics lets the change through, and a map function that panics about one state of an object is asked
///   about the other (`a_predicate_or_filter_that_panics_lets_the_event_through`,
///   `a_map_function_that_panics_about_one_state_tells_of_the_other`).
#[derive(Clone)]
pub struct Controller {
    shared: Arc<Shared>,
}

/// What a controller's tasks and handles share.
pub(crate) struct Shared {
    name: String,
    pub(crate) queue: WorkQueue<ObjectKey>,
    /// The keys that failed and have not succeeded since.
    failing: Mutex<HashMap<ObjectKey, Failing>>,
    reconciles: AtomicU64,
    failures: AtomicU64,
    active: AtomicUsize,
    pub(crate) predicates: Vec<Arc<dyn Predicate>>,
    pub(crate) panics: Arc<Panics>,
    /// A worker has died: the others finish what they are doing.
    ending: AtomicBool,
    manager: WeakManager,
}

/// What is known of a key that fails.
struct Failing {
    times: u32,
    last: Arc<Failure>,
}

/// Figures of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// How many reconciles have ended.
    pub reconciles_total: u64,
    /// How many of them failed.
    pub errors_total: u64,
    /// How many run now.
    pub active: usize,
    /// How many keys wait for a worker.
    pub queued: usize,
    /// How often a predicate, a filter or a map function panicked. A change that a predicate or filter panicked about counts as one that
    /// matters; a map function is asked about the old and the new state apart.
    pub source_panics_total: u64,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.shared.name).field("metrics", &self.metrics()).finish()
    }
}

impl Controller {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// How often a key has failed since it last succeeded. A request to be [requeued](crate::Action::requeue_after) is a success.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.shared.failing().get(key).map_or(0, |failing| failing.times)
    }

    /// What a key failed with last; `None` once it has succeeded.
    pub fn last_error(&self, key: &ObjectKey) -> Option<Arc<Failure>> {
        self.shared.failing().get(key).map(|failing| Arc::clone(&failing.last))
    }

    /// Has a key reconciled now.
    pub fn enqueue(&self, key: ObjectKey) {
        self.shared.queue.add(key);
    }

    /// Its figures.
    pub fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            reconciles_total: self.shared.reconciles.load(Ordering::Relaxed),
            errors_total: self.shared.failures.load(Ordering::Relaxed),
            active: self.shared.active.load(Ordering::Relaxed),
            queued: self.shared.queue.len(),
            source_panics_total: self.shared.panics.total.load(Ordering::Relaxed),
        }
    }

    /// Adds a watch, also while the manager runs, and then the kind's cache is started if it is new. The handle takes the watch away
    /// again. The cache stays, for others may read it, until it is [undeclared](Manager::undeclare).
    pub fn watch<W: Object>(
        &self,
        kind: Kind<W>,
        map: impl Fn(&Cached<W>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Result<HandlerHandle, Error> {
        if self.shared.queue.is_shut_down() {
            return Err(Error::Stopped);
        }
        let concerned = Concerned::Mapped(Arc::new(map));
        let mut source = Watched { kind, informer: None, in_use: None, concerned };
        let manager = self.shared.manager.upgrade()?;
        let (found, in_use) = manager.declare_for(&mut source.kind, User::Controller(&self.shared.name))?;
        source.in_use = in_use;
        manager.with_caches(|_| source.listen(&found.informer, &self.shared))
    }
}

impl Shared {
    fn failing(&self) -> MutexGuard<'_, HashMap<ObjectKey, Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller that is about to run.
struct Run<K> {
    shared: Arc<Shared>,
    context: Context<K>,
    reconciler: Arc<dyn DynReconciler<K>>,
    sources: Vec<Box<dyn WatchSource>>,
    owner_scope: Option<OwnerScope>,
    workers: usize,
    sync_timeout: Option<Duration>,
}

impl<K: Object> Run<K> {
    async fn run(mut self, Launch { stop, late }: Launch) -> Result<(), Failure> {
        let queue = self.shared.queue.clone();
        let mut attached = Attached { queue, handles: Vec::new(), channels: JoinSet::new() };
        tokio::select! {
            biased;
            () = stop.stopped() => return Ok(()),
            prepared = self.prepare(late, &mut attached) => prepared?,
        }
        let mut workers = self.start_workers(&stop);
        tracing::info!(controller = self.shared.name, workers = self.workers, "controller started");
        self.shared.manager.upgrade()?.started(&self.shared.name);
        let mut result = Ok(());
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            // They end before only by a panic outside of the reconcile, in a rate limiter for instance.
            Some(ended) = workers.join_next() => result = ended,
        }
        if let Err(error) = &result {
            self.shared.ending.store(true, Ordering::Release);
            let controller = &*self.shared.name;
            tracing::error!(controller, %error, "a worker died: the others finish what they are doing, and the controller ends");
        }
        drop(attached);
        while let Some(ended) = workers.join_next().await {
            result = result.and(ended);
        }
        Ok(result?)
    }

    /// Waits for the caches of this controller, and then until the queue has everything that was
    /// there from the start. For one that is not `late`, the manager logs what is missing, and ends
    /// the wait if there is a limit.
    async fn prepare(&mut self, late: bool, attached: &mut Attached) -> Result<(), Error> {
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
            scope.discover(self.context.client().live(), controller).await;
        }
        for source in &mut self.sources {
            source.attach(&self.shared, attached)?;
        }
        for handle in &attached.handles {
            told(handle, self.sync_timeout, controller).await?;
        }
        Ok(())
    }

    fn start_workers(&self, stop: &Stop) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            let worker = Worker {
                shared: Arc::clone(&self.shared),
                context: self.context.clone(),
                reconciler: Arc::clone(&self.reconciler),
                stop: stop.clone(),
            };
            workers.spawn(worker.work());
        }
        workers
    }
}

/// The time between two log lines about a handler that is waited for.
const REMINDER: Duration = Duration::from_secs(10);

/// Waits until a handler has put everything that was there from the start into the queue, or never will. If the manager has a limit
/// for its caches, the wait ends after it, though not before the first reminder.
async fn told(handle: &HandlerHandle, limit: Option<Duration>, controller: &str) -> Result<(), Error> {
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
    stop: Stop,
}

/// Counts a reconcile while it runs, however it ends.
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
    /// Reconciles key after key. What runs when the word to stop comes is finished; what waits is left for the next start.
    async fn work(self) {
        while let Some(item) = self.shared.queue.get().await {
            if self.stop.is_stopped() || self.shared.ending.load(Ordering::Acquire) {
                item.done();
                continue;
            }
            let active = Active::new(&self.shared.active);
            // Layers of the user's are outside of the innermost guard.
            let result = guarded(&*self.reconciler, &self.context, &item).await;
            drop(active);
            self.shared.reconciles.fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(action) => self.succeeded(item, action.after()),
                Err(failure) => self.failed(item, failure),
            }
        }
    }

    fn succeeded(&self, item: Item<'_, ObjectKey>, after: Option<Duration>) {
        {
            let mut failing = self.shared.failing();
            if !failing.is_empty() {
                failing.remove(&*item);
            }
        }
        match after {
            None => item.done(),
            Some(delay) => item.requeue_after(delay),
        }
    }

    fn failed(&self, item: Item<'_, ObjectKey>, failure: Failure) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        let terminal = failure.is_terminal();
        let last = Arc::new(failure);
        self.shared
            .failing()
            .entry(item.key().clone())
            .and_modify(|failing| {
                failing.times = failing.times.saturating_add(1);
                failing.last = Arc::clone(&last);
            })
            .or_insert(Failing { times: 1, last });
        if terminal { item.done() } else { item.retry() }
    }
}
