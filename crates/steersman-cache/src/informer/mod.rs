//! Brings what changes into the cache and tells the handlers.

mod factory;
pub(crate) mod handlers;
mod prepare;
mod processor;
mod subscription;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_all;
use steersman_wire::ObjectError;
use steersman_world::World;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

pub use factory::{InformerOptions, SharedInformerFactory};
pub use handlers::{Event, EventHandler, FilteringHandler, HandlerHandle, handler};
pub use subscription::Subscription;

use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::Batch;
use crate::queue::source::{Intake, Source};
use crate::reflector::haste::{Haste, Hurry};
use crate::reflector::lister_watcher::ListerWatcher;
use crate::reflector::{Phase, Reason, Reflector, ReflectorOptions, ReflectorStatus, report_undecoded};
use crate::store::indexer::{Index, Indexer, Values};
use crate::{Error, Lister, Storage, StorageMetrics, StorageOptions};
use handlers::{ENDS_WITHIN, ended_or};
use prepare::Prepared;
use processor::{Processed, Processor, Task};

/// If objects change faster than the function of a new index reads them, the last round holds up
/// the changes.
const UNLOCKED_ROUNDS_MAX: u32 = 16;

/// Keeps the objects of one kind in a cache and tells handlers what changes. Clones are the same informer.
///
/// **What is promised.**
/// - When a handler is told of a state, the cache holds that state or a later one (contract 4).
/// - A handler is told of each object's states in their order. After any disconnect, or a list because the server has forgotten
///   the version, it is told of everything that came, changed or went meanwhile: what went unseen as deleted with its final state
///   unknown, and an object of the same name but another uid as deleted, then added (contracts 1 and 2).
/// - A handler that is added to a running informer is first told of every object that is in the cache (contract 3).
/// - A resync tells a handler of every object again, as an update with equal versions, and no other handler (contract 8).
/// - While the server is away, the cache can be read (contract 9).
///
/// The tests of these names are in `tests/contracts.rs`.
///
/// It runs until it is stopped or its last clone is dropped; listers and handles do not keep it running. A clone in one of its own
/// handlers does, until it is stopped.
pub struct Informer<K> {
    inner: Arc<Inner<K>>,
    life: Arc<Life<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), life: Arc::clone(&self.life) }
    }
}

/// What the tasks, listers and subscriptions share.
pub(crate) struct Inner<K> {
    kind: String,
    indexer: RwLock<Indexer<K>>,
    storage: Storage<K>,
    /// Held while a batch is applied and sent out, so that all handlers see the same order.
    processor: Mutex<Processor<K>>,
    progress: watch::Sender<Progress>,
    /// Wakes the task that sees to resyncs.
    handlers_changed: Notify,
    index_panics: AtomicU64,
    haste: Arc<Haste>,
    /// The message of the panic that ended a task.
    failure: OnceLock<String>,
}

/// How far an informer is, for those who wait.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// How many batches have been applied.
    pub(crate) batches: u64,
    /// How many of them changed any object.
    pub(crate) changes: u64,
    /// Everything that was there from the start is in the cache.
    pub(crate) synced: bool,
    /// Nothing more will come.
    pub(crate) stopped: bool,
}

/// The tasks of an informer.
struct Life<K> {
    inner: Arc<Inner<K>>,
    state: Mutex<LifeState>,
    sources: Vec<Arc<Source<K>>>,
    /// Called once with the message if a task panics.
    on_failure: OnceLock<OnFailure>,
    /// Closed when the last task has ended. Nothing is ever sent.
    tasks_ended: watch::Receiver<()>,
}

type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// Starts the tasks.
type Starter = Box<dyn FnOnce() -> Vec<JoinHandle<()>> + Send>;

enum LifeState {
    New(Starter),
    Running(Vec<JoinHandle<()>>),
    Stopped,
    /// One of the tasks panicked.
    Failed,
}

/// Ends the informer with its task, however that ends: those who wait would else wait for ever.
struct Sentinel<K> {
    life: Weak<Life<K>>,
    /// Dropped last, when the task has ended.
    _running: watch::Sender<()>,
}

impl<K> Sentinel<K> {
    /// Runs a task of the informer. If it panics, the informer fails.
    async fn watch<T>(self, task: impl Future<Output = T>) {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await
            && let Some(life) = self.life.upgrade()
        {
            life.task_ended(Some(panic_message(&*panic)));
        }
    }
}

impl<K> Drop for Sentinel<K> {
    fn drop(&mut self) {
        if let Some(life) = self.life.upgrade() {
            life.task_ended(None);
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

/// What an [`Informer`] is for, and how it asks and keeps.
#[derive(Debug)]
pub struct InformerConfig<K> {
    /// What it is for, in words for an error: `Pod`.
    pub kind: String,
    /// How objects are kept.
    pub storage: StorageOptions<K>,
    /// How the server is asked.
    pub reflector: ReflectorOptions,
    /// The randomness of its back-offs and watch timeouts.
    pub world: World,
}

/// Figures of an informer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InformerMetrics {
    /// How many objects are in the cache.
    pub objects: usize,
    /// How many deltas wait to be brought into the cache.
    pub deltas_pending: usize,
    /// How many events wait for their handlers, all together.
    pub events_pending: usize,
    /// How many events were merged into others of the same object, because their handler was far behind: see [`EventHandler`].
    pub events_merged_total: u64,
    /// How many times a handler was not told of everything again because it was not through with the resync before.
    pub resyncs_skipped_total: u64,
    /// How many times the function of an index panicked: that object has no values in that index.
    pub index_panics_total: u64,
    /// What the storage has done.
    pub storage: StorageMetrics,
}

impl<K: Object> Informer<K> {
    /// An informer for what these list and watch, each with the namespace whose objects it brings, or none for all.
    pub fn new<L: ListerWatcher>(sources: Vec<(Option<String>, L)>, config: InformerConfig<K>) -> Self {
        let storage = Storage::new(config.storage);
        let source = |(namespace, lister_watcher): &(Option<String>, L)| {
            Arc::new(Source::new(namespace.clone(), lister_watcher.describe()))
        };
        let fifos: Vec<_> = sources.iter().map(source).collect();
        let inner = Arc::new(Inner {
            kind: config.kind,
            indexer: RwLock::new(Indexer::new()),
            storage: storage.clone(),
            processor: Mutex::new(Processor::new(fifos.clone())),
            progress: watch::Sender::new(Progress::default()),
            handlers_changed: Notify::new(),
            index_panics: AtomicU64::new(0),
            haste: Arc::new(Haste::new(config.world.clone())),
            failure: OnceLock::new(),
        });
        let mut reflectors = Vec::new();
        for ((_, lister_watcher), source) in sources.into_iter().zip(&fifos) {
            let intake = Intake { source: Arc::clone(source), inner: Arc::clone(&inner) };
            let (status, reflector) = (source.status.clone(), config.reflector.clone());
            let (haste, world) = (Arc::clone(&inner.haste), config.world.clone());
            let storage = storage.clone();
            reflectors.push(Reflector::reporting_to(status, haste, world, lister_watcher, storage, intake, reflector));
        }
        let sources = fifos.clone();
        // Each task holds a sender, and so does the starter, which may be at work when the informer is stopped.
        let (running, tasks_ended) = watch::channel(());
        let life = Arc::new_cyclic(|life: &Weak<Life<K>>| {
            let (shared, life) = (Arc::clone(&inner), life.clone());
            let starter: Starter = Box::new(move || {
                let sentinel = || Sentinel { life: life.clone(), _running: running.clone() };
                let (resync, watched) = (resync(Arc::clone(&shared)), sentinel());
                let mut tasks = vec![tokio::spawn(watched.watch(resync))];
                for (index, (reflector, source)) in reflectors.into_iter().zip(fifos).enumerate() {
                    let (consume, watched) = (consume(Arc::clone(&shared), index, source), sentinel());
                    // One task, in this order: what has been read is in the cache without anybody having to be woken.
                    let task = async move { tokio::join!(biased; reflector.run(), consume) };
                    tasks.push(tokio::spawn(watched.watch(task)));
                }
                tasks
            });
            let (inner, on_failure) = (Arc::clone(&inner), OnceLock::new());
            Life { inner, state: Mutex::new(LifeState::New(starter)), sources, on_failure, tasks_ended }
        });
        Self { inner, life }
    }

    /// Begins to list and watch; does nothing if it has begun already. Must be called within a tokio runtime.
    pub fn start(&self) -> Result<(), Error> {
        self.inner.runtime()?;
        let mut state = self.life.state();
        let starter = match std::mem::replace(&mut *state, LifeState::Running(Vec::new())) {
            LifeState::New(starter) => starter,
            running @ LifeState::Running(_) => {
                *state = running;
                return Ok(());
            }
            ended @ (LifeState::Stopped | LifeState::Failed) => {
                *state = ended;
                return Err(self.inner.stopped());
            }
        };
        drop(state);
        // With nothing held: on a runtime that shuts down, a task ends before it has begun, and the informer with it.
        let started = starter();
        if let LifeState::Running(tasks) = &mut *self.life.state() {
            tasks.extend(started);
            return Ok(());
        }
        started.iter().for_each(JoinHandle::abort);
        Err(self.inner.stopped())
    }

    /// Ends it for good and waits until no handler is called any more, for at most 30 s. Handlers are still told what they have been
    /// sent. The cache can be read as it was at the end. The error names the handlers that are still in a call.
    ///
    /// Each call waits for the same end, also when the informer has been stopped before (test
    /// `each_call_of_stop_waits_for_a_task_that_is_stuck`).
    ///
    /// It ends with the first poll, whatever happens to the future then; only the waiting takes as long as the handlers do.
    pub async fn stop(&self) -> Result<(), Error> {
        self.stop_within(ENDS_WITHIN).await
    }

    /// As [`stop`](Self::stop), with another limit. It can be called again to go on waiting for the handlers.
    pub async fn stop_within(&self, limit: Duration) -> Result<(), Error> {
        self.life.end();
        let handlers = self.inner.processor().ending();
        let mut tasks_ended = self.life.tasks_ended.clone();
        let end = async {
            while tasks_ended.changed().await.is_ok() {}
            for handler in &handlers {
                handler.ended().await;
            }
        };
        let _ = timeout(limit, end).await;
        let unfinished = self.life.tasks_ended.has_changed().is_ok();
        let task = unfinished.then(|| format!("a task of the informer for {}", self.inner.kind));
        let waiting = task.into_iter().chain(handlers.iter().filter_map(HandlerHandle::unended)).collect();
        ended_or(limit, waiting)
    }

    /// Whether it was stopped, or has [failed](Self::has_failed).
    pub fn is_stopped(&self) -> bool {
        matches!(*self.life.state(), LifeState::Stopped | LifeState::Failed)
    }

    /// Whether one of its tasks panicked, which is a bug, here or in a [`ListerWatcher`]. It has ended then as if it had been stopped, and
    /// [`status`](Self::status) says so; the factory has a new one for who asks.
    pub fn has_failed(&self) -> bool {
        matches!(*self.life.state(), LifeState::Failed)
    }

    /// Calls a function with the message of the panic when the informer [fails](Self::has_failed).
    /// The first function counts.
    pub(crate) fn on_failure(&self, function: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.life.on_failure.set(Box::new(function));
    }

    /// Adds a handler without resyncs. Must be called within a tokio runtime, like its sibling.
    pub fn add_event_handler(&self, handler: impl EventHandler<K>) -> Result<HandlerHandle, Error> {
        self.add_handler(handler, None)
    }

    /// Adds a handler that is told of every object again each time `every` has passed, which is at least a second. One that has not been
    /// told of all of the last resync by then is spared the next, which [`InformerMetrics::resyncs_skipped_total`] counts.
    pub fn add_event_handler_with_resync(
        &self,
        handler: impl EventHandler<K>,
        every: Duration,
    ) -> Result<HandlerHandle, Error> {
        self.add_handler(handler, Some(every))
    }

    fn add_handler(&self, handler: impl EventHandler<K>, resync: Option<Duration>) -> Result<HandlerHandle, Error> {
        self.inner.runtime()?;
        let objects = || self.inner.indexer().list();
        let added = self.inner.processor().add_handler(handler, &self.inner.kind, resync, objects);
        let handle = added.ok_or_else(|| self.inner.stopped())?;
        self.inner.handlers_changed.notify_one();
        Ok(handle)
    }

    /// Adds an index, also when there are objects already. The cache can be read and goes on to
    /// change while their values are gathered: the function of an index runs without any lock (test
    /// `an_index_function_holds_up_neither_reads_nor_events`).
    ///
    /// If there is the same index under that name, all is well: two who share an informer need not know of each other. Functions
    /// cannot be compared, so share a clone of the [`Index`] there.
    pub fn add_index(&self, name: &str, index: Index<K>) -> Result<(), Error> {
        let exists = || match self.inner.indexer().find_index(name) {
            Some(other) if other.is_same(&index) => Some(Ok(())),
            Some(_) => Some(Err(Error::IndexExists { name: name.to_owned() })),
            None => None,
        };
        // The objects stay here until the end, so that no later one can have the address of one of
        // them.
        let mut ready: HashMap<_, (Cached<K>, Values)> = HashMap::new();
        let read = |ready: &mut HashMap<_, _>, object: &Cached<K>| {
            ready.entry(object.address()).or_insert_with(|| {
                let (values, undecoded) = prepare::values(&index, object, &self.inner.index_panics);
                if let Some(error) = undecoded {
                    self.life.report_undecoded(object, error);
                }
                (object.clone(), values)
            });
        };
        let mut round = 1;
        loop {
            if let Some(result) = exists() {
                return result;
            }
            // Each round reads only what has changed during the round before.
            let objects = self.inner.indexer().list();
            objects.iter().for_each(|object| read(&mut ready, object));
            // With this lock the cache does not change.
            let _processor = self.inner.processor();
            if let Some(result) = exists() {
                return result;
            }
            let objects = self.inner.indexer().list();
            if round < UNLOCKED_ROUNDS_MAX && objects.iter().any(|object| !ready.contains_key(&object.address())) {
                round += 1;
                continue;
            }
            objects.iter().for_each(|object| read(&mut ready, object));
            let mut indexer = self.inner.indexer.write().unwrap_or_else(PoisonError::into_inner);
            return indexer.add_index_with(name.to_owned(), index, |_, object, values| {
                *values = ready.remove(&object.address()).map(|(_, values)| values).unwrap_or_default();
            });
        }
    }

    /// Whether both are clones of one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether it keeps objects as these options say.
    pub(crate) fn is_stored_as(&self, options: &StorageOptions<K>) -> bool {
        self.inner.storage.options().is_same(options)
    }

    /// Reads the cache.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(Arc::clone(&self.inner))
    }

    /// Follows the whole set of objects rather than single changes.
    pub fn subscribe(&self) -> Subscription<K> {
        Subscription::new(self.lister(), self.inner.progress.subscribe())
    }

    /// Whether everything that was there from the start is in the cache. It is `false` once the
    /// informer has [failed](Self::has_failed), because the cache does not follow the server any
    /// more. Handlers may be told of it a little later: see [`HandlerHandle::has_synced`].
    pub fn has_synced(&self) -> bool {
        self.inner.progress.borrow().synced && self.inner.failure.get().is_none()
    }

    /// Waits until everything that was there from the start is in the cache. The error says what
    /// the reflector is waiting for, or at once that the informer is stopped or has failed.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), Error> {
        let mut progress = self.inner.progress.subscribe();
        let ended = timeout(limit, progress.wait_for(|progress| progress.synced || progress.stopped)).await;
        if let Ok(Ok(progress)) = ended {
            let is_synced = progress.synced && self.inner.failure.get().is_none();
            return if is_synced { Ok(()) } else { Err(self.inner.stopped()) };
        }
        let waiting = self.waiting().iter().map(ToString::to_string).collect();
        Err(Error::NotSynced { waited: limit, waiting })
    }

    /// Shortens the back-off of its reflectors: one that is under way, or begins while the result lives, lasts for at most 1 to 2 s,
    /// but never less than a Retry-After of the server. Call it where something waits for the cache, or where a request has just
    /// succeeded, so that the server is there. [`Lister::wait_until`] and [`Lister::wait_for_version`] do so themselves.
    pub fn hurry(&self) -> Hurry {
        self.inner.haste.hurry()
    }

    /// Shortens the back-offs that are under way.
    pub(crate) fn hurry_once(&self) {
        self.inner.haste.hurry_once();
    }

    /// The reflectors whose first list is not in the cache yet; none once the informer has
    /// [synced](Self::has_synced).
    pub fn waiting(&self) -> Vec<ReflectorStatus> {
        if self.has_synced() {
            return Vec::new();
        }
        let status = self.status();
        let waiting: Vec<_> = status.iter().filter(|status| status.lists == 0).cloned().collect();
        // Listed, but on the way into the cache.
        if waiting.is_empty() { status } else { waiting }
    }

    /// Whether it has not synced because the server does not serve the kind.
    pub(crate) fn is_missing(&self) -> bool {
        !self.has_synced() && self.life.sources.iter().any(|source| is_missing(&source.status.borrow()))
    }

    /// Waits until it has synced, has found that the server does not serve the kind, or has ended.
    pub(crate) async fn synced_or_missing(&self) {
        let mut progress = self.inner.progress.subscribe();
        let missing = self.life.sources.iter().map(|source| {
            let mut status = source.status.subscribe();
            async move { status.wait_for(is_missing).await.map(drop) }.boxed()
        });
        tokio::select! {
            biased;
            _ = progress.wait_for(|progress| progress.synced || progress.stopped) => {}
            _ = select_all(missing), if !self.life.sources.is_empty() => {}
        }
    }

    /// What its reflectors are doing: one for each namespace, or one for all.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        let stopped = self.is_stopped();
        let status = self.life.sources.iter().map(|source| {
            let mut status = source.status.borrow().clone();
            if stopped {
                status.phase = Phase::Stopped;
            }
            status
        });
        status.collect()
    }

    /// Its figures.
    pub fn metrics(&self) -> InformerMetrics {
        let processor = self.inner.processor();
        InformerMetrics {
            objects: self.inner.indexer().len(),
            deltas_pending: processor.deltas_pending(),
            events_pending: processor.events_pending(),
            events_merged_total: processor.events_merged(),
            resyncs_skipped_total: processor.resyncs_skipped(),
            index_panics_total: self.inner.index_panics.load(Ordering::Relaxed),
            storage: self.inner.storage.metrics(),
        }
    }

    /// What it is for.
    pub fn kind(&self) -> &str {
        &self.inner.kind
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("kind", &self.inner.kind).finish_non_exhaustive()
    }
}

impl<K> Life<K> {
    fn state(&self) -> MutexGuard<'_, LifeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says of an object that is in the cache that it does not decode.
    fn report_undecoded(&self, object: &Cached<K>, error: ObjectError) {
        let is_its = |source: &&Arc<Source<K>>| {
            source.namespace.as_deref().is_none_or(|namespace| namespace == object.meta().namespace())
        };
        if let Some(source) = self.sources.iter().find(is_its) {
            report_undecoded(&source.status, error);
        }
    }

    /// Cancels the tasks, and lets the handlers end.
    fn end(&self) {
        let before = std::mem::replace(&mut *self.state(), LifeState::Stopped);
        self.end_from(before);
    }

    /// A task has ended, perhaps with a panic. Unless the informer was stopped, its other tasks end
    /// as well.
    fn task_ended(&self, panic: Option<String>) {
        let mut state = self.state();
        if matches!(*state, LifeState::Stopped | LifeState::Failed) {
            return;
        }
        let after = if panic.is_some() { LifeState::Failed } else { LifeState::Stopped };
        let before = std::mem::replace(&mut *state, after);
        let panic = panic.map(|panic| &**self.inner.failure.get_or_init(|| panic));
        drop(state);
        if let Some(panic) = panic {
            tracing::error!(kind = self.inner.kind, panic, "a task of the informer panicked: its cache is out of date");
            let why = format!("its informer has ended, because a task of it panicked: {panic}");
            self.sources.iter().for_each(|source| source.status.send_modify(|status| status.fail(&why)));
        }
        // First, so that the failure is known when the waits for this informer end.
        if let (Some(panic), Some(on_failure)) = (panic, self.on_failure.get()) {
            on_failure(panic);
        }
        self.end_from(before);
    }

    fn end_from(&self, before: LifeState) {
        if let LifeState::Running(tasks) = before {
            tasks.iter().for_each(JoinHandle::abort);
        }
        self.inner.processor().stop();
        self.inner.progress.send_modify(|progress| progress.stopped = true);
    }
}

impl<K> Drop for Life<K> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<K> Inner<K> {
    pub(crate) fn indexer(&self) -> RwLockReadGuard<'_, Indexer<K>> {
        self.indexer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn processor(&self) -> MutexGuard<'_, Processor<K>> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing can be asked of it any more.
    fn stopped(&self) -> Error {
        let kind = self.kind.clone();
        match self.failure.get() {
            Some(panic) => Error::Failed { informer: kind, panic: panic.clone() },
            None => Error::Stopped { kind },
        }
    }

    /// Tasks can be started here.
    fn runtime(&self) -> Result<(), Error> {
        Handle::try_current().map(drop).map_err(|_| Error::NoRuntime { kind: self.kind.clone() })
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn hurry(&self) -> Hurry {
        self.haste.hurry()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }
}

/// Whether the server does not serve what has not been listed yet.
fn is_missing(status: &ReflectorStatus) -> bool {
    status.lists == 0 && status.last_error.as_ref().is_some_and(|error| error.reason == Reason::NotInstalled)
}

/// Brings a batch into the cache. The user's functions are called while nothing is locked.
fn process<K: Object>(
    inner: &Inner<K>,
    index: usize,
    source: &Source<K>,
    batch: Batch<Cached<K>>,
    synced: bool,
) -> Processed {
    let mut functions = inner.indexer().functions();
    loop {
        let held = |object: &Cached<K>| inner.indexer().holds(object);
        let Prepared { ready, undecoded } = prepare::batch(&batch, &functions.1, held, &inner.index_panics);
        let mut processor = inner.processor();
        let now = inner.indexer().functions();
        // An index was added meanwhile.
        if now.0 != functions.0 {
            functions = now;
            continue;
        }
        // Before anybody can find them in the cache.
        undecoded.into_iter().for_each(|error| report_undecoded(&source.status, error));
        return processor.process(index, Task { batch, synced, ready }, &inner.indexer);
    }
}

/// Brings what a reflector has read into the cache, batch by batch.
async fn consume<K: Object>(inner: Arc<Inner<K>>, index: usize, source: Arc<Source<K>>) -> Infallible {
    loop {
        source.filled().await;
        let full = source.is_full();
        let Some((batch, synced)) = source.take() else { continue };
        let processed = process(&inner, index, &source, batch, synced);
        inner.progress.send_if_modified(|progress| {
            progress.batches += 1;
            progress.changes += u64::from(processed.changed);
            progress.synced |= processed.synced;
            // Whoever comes later looks first.
            inner.progress.receiver_count() > 0
        });
        // Others want to run as well, however much there is to do: handlers first of all, or what they have not been told piles up. Where
        // there is no more, a needless wake-up would only call another thread to help.
        if full || source.pending() > 0 {
            tokio::task::yield_now().await;
        }
        // Only now: it wakes the reflector, and with it this task.
        source.applied();
    }
}

/// Tells handlers of all objects again, each in its own rhythm.
async fn resync<K: Object>(inner: Arc<Inner<K>>) {
    loop {
        let next = inner.processor().next_resync();
        let due = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = inner.handlers_changed.notified() => {}
            () = due => inner.processor().resync(Instant::now(), || inner.indexer().list()),
        }
    }
}
