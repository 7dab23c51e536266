//! Applies changes to the cache and notifies handlers.
//!
//! [`Informer`] is the type. `lifecycle.rs` starts and stops its tasks: `source_task.rs` for each
//! list and watch, and `resync.rs`. `processor.rs` applies batches under one lock and sends their
//! events to `handlers`. `factory.rs` shares informers.

mod add_index;
mod config;
mod factory;
pub(crate) mod handlers;
mod inner;
mod lifecycle;
mod options;
mod prepare;
mod processor;
mod registry;
mod resync;
pub(crate) mod source_task;
mod subscription;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_all;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

pub use config::{InformerConfig, InformerMetrics};
pub use factory::SharedInformerFactory;
pub use handlers::{Event, EventHandler, FilteringHandler, HandlerHandle, handler};
pub(crate) use inner::{Inner, Progress};
pub use options::{InformerOptions, NamespaceOptions};
pub use subscription::Subscription;

use crate::object::cached::Object;
use crate::queue::source::{Source, SourceStore};
use crate::reflector::backoff_control::BackoffControl;
use crate::reflector::lister_watcher::ListerWatcher;
use crate::reflector::{
    ErrorHook, Phase, Reason, Reflector, ReflectorContext, ReflectorError, ReflectorStatus, ShortBackoff,
};
use crate::store::indexer::Indexer;
use crate::{Error, Lister, Storage, StorageOptions};
use handlers::{STOP_TIMEOUT, stop_result};
use lifecycle::{Lifecycle, Starter, TaskGuard};
use processor::Processor;
use resync::run_resyncs;
use source_task::run_source;

/// Keeps the objects of one kind in a cache and notifies handlers of changes. Clones are the same
/// informer.
///
/// **Guarantees.** The tests of these names are in `tests/contracts.rs`.
///
/// - When a handler receives a state, the cache holds that state or a later one (contract 4).
/// - A handler receives each object's states in their order. After a disconnect, or a list because
///   the server no longer has the version, it receives every change since. A deletion that was not
///   seen has its final state unknown. An object that was recreated under the same name, with
///   another uid, is deleted and then added (contracts 1 and 2).
/// - A handler that is added to a running informer first receives every object in the cache
///   (contract 3).
/// - A resync sends every object to one handler again, as an update with equal versions. Other
///   handlers do not receive it (contract 8).
/// - While the server is unreachable, the cache can be read (contract 9).
///
/// The informer runs until it is stopped or its last clone is dropped. Listers and handles do not
/// keep it running. A clone in one of its own handlers does, until it is stopped.
pub struct Informer<K> {
    inner: Arc<Inner<K>>,
    lifecycle: Arc<Lifecycle<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), lifecycle: Arc::clone(&self.lifecycle) }
    }
}

impl<K: Object> Informer<K> {
    /// An informer of the objects that these list and watch. Each comes with the namespace of its
    /// objects, or `None` for all namespaces.
    pub fn new<L: ListerWatcher>(lister_watchers: Vec<(Option<String>, L)>, config: InformerConfig<K>) -> Self {
        let storage = Storage::new(config.storage);
        let source = |(namespace, lister_watcher): &(Option<String>, L)| {
            Arc::new(Source::new(namespace.clone(), lister_watcher.describe()))
        };
        let sources: Vec<_> = lister_watchers.iter().map(source).collect();
        let inner = Arc::new(Inner {
            kind: config.kind,
            indexer: RwLock::new(Indexer::new()),
            storage: storage.clone(),
            processor: Mutex::new(Processor::new(sources.clone())),
            progress: watch::Sender::new(Progress::default()),
            handlers_changed: Notify::new(),
            index_panics: AtomicU64::new(0),
            backoff_control: Arc::new(BackoffControl::new(config.world.clone())),
            on_error: ErrorHook::default(),
            failure: OnceLock::new(),
        });
        let mut reflectors = Vec::new();
        for ((_, lister_watcher), source) in lister_watchers.into_iter().zip(&sources) {
            let context = ReflectorContext {
                status: source.status.clone(),
                backoff_control: Arc::clone(&inner.backoff_control),
                on_error: inner.on_error.clone(),
                world: config.world.clone(),
            };
            let (storage, options) = (storage.clone(), config.reflector.clone());
            let store = SourceStore { source: Arc::clone(source), inner: Arc::clone(&inner) };
            let reflector = Reflector::with_context(context, lister_watcher, storage, store, options);
            reflectors.push((reflector, Arc::clone(source)));
        }
        // Each task holds a sender, and so does the starter, which may run when the informer stops.
        let (running, tasks_ended) = watch::channel(());
        let lifecycle = Arc::new_cyclic(|lifecycle: &Weak<Lifecycle<K>>| {
            let (shared, lifecycle) = (Arc::clone(&inner), lifecycle.clone());
            let starter: Starter = Box::new(move || {
                let guard = || TaskGuard::new(&lifecycle, &running);
                let mut tasks = vec![tokio::spawn(guard().run(run_resyncs(Arc::clone(&shared))))];
                for (index, (reflector, source)) in reflectors.into_iter().enumerate() {
                    let task = run_source(reflector.run(), Arc::clone(&shared), index, source);
                    tasks.push(tokio::spawn(guard().run(task)));
                }
                tasks
            });
            Lifecycle::new(Arc::clone(&inner), starter, sources, tasks_ended)
        });
        Self { inner, lifecycle }
    }

    /// Starts to list and watch; does nothing if it has started. Must be called within a tokio
    /// runtime.
    pub fn start(&self) -> Result<(), Error> {
        self.inner.require_runtime()?;
        self.lifecycle.start()
    }

    /// Stops the informer for good, and waits up to 30 s until no handler is called any more.
    ///
    /// Handlers still receive the events that were sent to them. The cache stays readable as it
    /// was. The error names the handlers that are still in a call.
    ///
    /// Each call waits for the same end, also if the informer has been stopped before (test
    /// `each_call_of_stop_waits_for_a_task_that_is_stuck`). The informer stops at the first poll,
    /// also if the future is then dropped.
    pub async fn stop(&self) -> Result<(), Error> {
        self.stop_within(STOP_TIMEOUT).await
    }

    /// As [`stop`](Self::stop), with another limit. Call it again to continue waiting.
    pub async fn stop_within(&self, limit: Duration) -> Result<(), Error> {
        self.lifecycle.stop();
        let handlers = self.inner.processor().ending();
        let mut tasks_ended = self.lifecycle.tasks_ended.clone();
        let end = async {
            while tasks_ended.changed().await.is_ok() {}
            for handler in &handlers {
                handler.ended().await;
            }
        };
        let _ = timeout(limit, end).await;
        let is_running = self.lifecycle.tasks_ended.has_changed().is_ok();
        let task = is_running.then(|| format!("a task of the informer for {}", self.inner.kind));
        let waiting = task.into_iter().chain(handlers.iter().filter_map(HandlerHandle::still_running)).collect();
        stop_result(limit, waiting)
    }

    /// Whether it was stopped, or has [failed](Self::has_failed).
    pub fn is_stopped(&self) -> bool {
        self.lifecycle.is_stopped()
    }

    /// Whether one of its tasks panicked, which is a bug, in this crate or in a [`ListerWatcher`].
    /// The informer has then stopped, and [`status`](Self::status) contains the panic. The factory
    /// returns a new informer for the next request.
    pub fn has_failed(&self) -> bool {
        self.lifecycle.has_failed()
    }

    /// Calls a function with the panic message when the informer [fails](Self::has_failed). Only
    /// the first function is called.
    pub(crate) fn on_failure(&self, function: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.lifecycle.on_failure.set(Box::new(function));
    }

    /// Calls a function with each failure of a list or a watch before the reflector backs off, as
    /// `SetWatchErrorHandler` of client-go does. Failures are logged in any case. Only the first
    /// function is called. It runs on the task of the reflector, and has to return soon.
    pub fn set_watch_error_handler(&self, function: impl Fn(&ReflectorError) + Send + Sync + 'static) {
        self.inner.on_error.set(function);
    }

    /// Adds a handler without resyncs. Must be called within a tokio runtime.
    pub fn add_event_handler(&self, handler: impl EventHandler<K>) -> Result<HandlerHandle, Error> {
        self.add_handler(handler, None)
    }

    /// Adds a handler that receives every object again at each interval of `every`, at least a
    /// second. Must be called within a tokio runtime.
    ///
    /// A handler that has not finished the last resync skips the next one:
    /// [`InformerMetrics::resyncs_skipped_total`] counts these.
    pub fn add_event_handler_with_resync(
        &self,
        handler: impl EventHandler<K>,
        every: Duration,
    ) -> Result<HandlerHandle, Error> {
        self.add_handler(handler, Some(every))
    }

    fn add_handler(&self, handler: impl EventHandler<K>, resync: Option<Duration>) -> Result<HandlerHandle, Error> {
        self.inner.require_runtime()?;
        let objects = || self.inner.indexer().list();
        let added = self.inner.processor().add_handler(handler, &self.inner.kind, resync, objects);
        let handle = added.ok_or_else(|| self.inner.stopped())?;
        self.inner.handlers_changed.notify_one();
        Ok(handle)
    }

    /// Whether both are clones of one informer.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether it stores objects by these options.
    pub(crate) fn is_stored_as(&self, options: &StorageOptions<K>) -> bool {
        self.inner.storage.options().is_same(options)
    }

    /// A lister of the cache.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(Arc::clone(&self.inner))
    }

    /// Follows the whole set of objects instead of single changes.
    pub fn subscribe(&self) -> Subscription<K> {
        Subscription::new(self.lister(), self.inner.progress.subscribe())
    }

    /// Whether the initial objects are in the cache. `false` once the informer has
    /// [failed](Self::has_failed), because the cache no longer follows the server. Handlers may
    /// receive the objects a little later: see [`HandlerHandle::has_synced`].
    pub fn has_synced(&self) -> bool {
        self.inner.progress.borrow().synced && self.inner.failure.get().is_none()
    }

    /// Waits until the initial objects are in the cache. The error contains the status of the
    /// reflector. It returns at once if the informer is stopped or has failed.
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

    /// Shortens the back-off of its reflectors.
    ///
    /// A current back-off, and one that begins while the guard lives, lasts for at most 1 to 2 s,
    /// but never less than a Retry-After of the server. Call it where a caller waits for the cache,
    /// or after a successful request, which shows that the server is reachable.
    /// [`Lister::wait_until`] and [`Lister::wait_for_version`] do so themselves.
    pub fn shorten_backoff(&self) -> ShortBackoff {
        self.inner.shorten_backoff()
    }

    /// Shortens current back-offs.
    pub(crate) fn shorten_current_backoff(&self) {
        self.inner.backoff_control.shorten_current();
    }

    /// The reflectors whose first list is not in the cache; none once the informer has
    /// [synced](Self::has_synced).
    pub fn waiting(&self) -> Vec<ReflectorStatus> {
        if self.has_synced() {
            return Vec::new();
        }
        let status = self.status();
        let waiting: Vec<_> = status.iter().filter(|status| status.lists == 0).cloned().collect();
        // If all are listed, a list is not applied yet.
        if waiting.is_empty() { status } else { waiting }
    }

    /// Whether it has not synced because the server does not serve the kind.
    pub(crate) fn is_missing(&self) -> bool {
        !self.has_synced() && self.lifecycle.sources.iter().any(|source| is_missing(&source.status.borrow()))
    }

    /// Waits until it has synced, has found that the server does not serve the kind, or has
    /// stopped.
    pub(crate) async fn synced_or_missing(&self) {
        let mut progress = self.inner.progress.subscribe();
        let missing = self.lifecycle.sources.iter().map(|source| {
            let mut status = source.status.subscribe();
            async move { status.wait_for(is_missing).await.map(drop) }.boxed()
        });
        tokio::select! {
            biased;
            _ = progress.wait_for(|progress| progress.synced || progress.stopped) => {}
            _ = select_all(missing), if !self.lifecycle.sources.is_empty() => {}
        }
    }

    /// The status of its reflectors: one per namespace, or one for all.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        let stopped = self.is_stopped();
        let status = self.lifecycle.sources.iter().map(|source| {
            let mut status = source.status.borrow().clone();
            if stopped {
                status.phase = Phase::Stopped;
            }
            status
        });
        status.collect()
    }

    /// Its metrics.
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

    /// What it is for: [`InformerConfig::kind`].
    pub fn kind(&self) -> &str {
        &self.inner.kind
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("kind", &self.inner.kind).finish_non_exhaustive()
    }
}

/// Whether the kind has not been listed because the server does not serve it.
fn is_missing(status: &ReflectorStatus) -> bool {
    status.lists == 0 && status.last_error.as_ref().is_some_and(|error| error.reason == Reason::NotInstalled)
}
