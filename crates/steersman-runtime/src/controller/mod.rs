//! A queue, its sources and its workers.

mod async_map;
mod builder;
mod debug;
mod enqueue;
mod failing;
mod sources;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steersman_cache::{Cached, HandlerHandle, Object, ObjectKey};
use steersman_workqueue::{AddOptions, WorkQueue};

use crate::caches::User;
use crate::flight_recorder::{Causes, ControllerRecorder, Source};
use crate::kind::Kind;
use crate::manager::WeakManager;
use crate::metrics::ControllerFigures;
use crate::predicate::Predicate;
use crate::stop::{StopSignal, Stopper};
use crate::{Error, ReconcileError};

pub use builder::ControllerBuilder;
pub use enqueue::LOW_PRIORITY;
pub use sources::KeySender;

use enqueue::{EnqueueFor, Panics};
use failing::FailingKeys;
use sources::Watched;

pub(crate) use enqueue::OwnerMatch;

/// A handle of a controller: its state, its metrics, and its watches. Clones are the same
/// controller.
///
/// **Contract** (the tests are in `tests/controllers`).
/// - A key is reconciled by one worker at a time, and once more if it changed during the reconcile
///   (contract 5, `a_key_is_never_reconciled_twice_at_a_time_and_no_change_is_lost`,
///   `parallel_workers_never_have_the_same_key_and_lose_no_change`).
/// - A failed key is retried with a delay that grows with each failure of the key
///   (`an_error_backs_off_per_key`). After a [terminal](ReconcileError::terminal) error it is
///   reconciled when something changes (`a_terminal_error_is_not_retried`). A panic is a failure
///   (`a_panic_is_the_error_of_its_reconcile_only`).
/// - Changes come before the initial list and before resyncs
///   (`live_changes_come_before_the_initial_list`).
/// - If a predicate or filter panics, the change is reconciled. If a map function panics for one
///   state of an object, the keys of the other state are still enqueued
///   (`a_predicate_or_filter_that_panics_lets_the_event_through`,
///   `a_map_function_that_panics_for_one_state_maps_the_other`).
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
}

/// The state that a controller's tasks and handles share.
pub(crate) struct Shared {
    name: String,
    /// The kind that it reconciles.
    kind: String,
    pub(crate) queue: WorkQueue<ObjectKey, Causes>,
    /// Whether the times of reconciles are wanted.
    is_timed: bool,
    /// `None` if nothing is recorded.
    pub(crate) recorder: Option<ControllerRecorder>,
    /// Whether requests carry the trace of their reconcile.
    traces: bool,
    /// The keys that failed and have not succeeded since.
    failing: FailingKeys,
    figures: Arc<ControllerFigures>,
    pub(crate) predicates: Vec<Arc<dyn Predicate>>,
    pub(crate) panics: Arc<Panics>,
    /// A worker has panicked: the others finish their running reconciles.
    ending: AtomicBool,
    /// Stops this controller alone.
    pub(crate) removal: Stopper,
    /// Shows that all tasks of the controller have ended.
    pub(crate) ended: StopSignal,
    manager: WeakManager,
}

/// The metrics of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// The number of reconciles that have ended.
    pub reconciles_total: u64,
    /// The number of reconciles that failed.
    pub errors_total: u64,
    /// The number of reconciles that run now.
    pub active: usize,
    /// The number of keys that wait for a worker.
    pub queued: usize,
    /// How often a predicate, a filter or a map function panicked. A change for which a predicate
    /// or filter panics is reconciled. A map function is called separately for the old and the new
    /// state.
    pub source_panics_total: u64,
    /// How many hot loops were found: see [`FlightRecorder`](crate::FlightRecorder).
    pub hot_loops_total: u64,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.shared.name).field("metrics", &self.metrics()).finish()
    }
}

impl Controller {
    /// The name of the controller.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// How often a key has failed since it last succeeded.
    /// [`Action::requeue_after`](crate::Action::requeue_after) is a success.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.shared.failing.get(key, |failing| failing.times).unwrap_or(0)
    }

    /// The last error of a key. `None` once it has succeeded.
    pub fn last_error(&self, key: &ObjectKey) -> Option<Arc<ReconcileError>> {
        self.shared.failing.get(key, |failing| Arc::clone(&failing.last))
    }

    /// Reconciles a key now.
    pub fn enqueue(&self, key: ObjectKey) {
        self.shared.add(key, AddOptions::new(), Source::Manual);
    }

    /// The metrics of the controller.
    pub fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            reconciles_total: self.shared.figures.reconciles(),
            errors_total: self.shared.figures.errors(),
            active: self.shared.figures.active.load(Ordering::Relaxed),
            queued: self.shared.queue.len(),
            source_panics_total: self.shared.panics.total.load(Ordering::Relaxed),
            hot_loops_total: self.shared.hot_loops(),
        }
    }

    /// Adds a watch, also while the manager runs; a new cache for the kind then starts at once. The
    /// returned handle removes the watch. The cache stays, because others may read it, until it is
    /// [undeclared](crate::Manager::undeclare).
    pub fn watch<W, I>(
        &self,
        kind: Kind<W>,
        map: impl Fn(&Cached<W>) -> I + Send + Sync + 'static,
    ) -> Result<HandlerHandle, Error>
    where
        W: Object,
        I: IntoIterator<Item = ObjectKey>,
    {
        if self.shared.queue.is_shut_down() {
            return Err(Error::Stopped);
        }
        let enqueue_for = EnqueueFor::mapped(map);
        let mut source = Watched { kind, informer: None, in_use: None, enqueue_for, source: Source::Mapped };
        let manager = self.shared.manager.upgrade()?;
        let (found, in_use) = manager.declare_for(&mut source.kind, User::Controller(&self.shared.name))?;
        source.in_use = in_use;
        manager.with_caches(|_| source.listen(&found.informer, &self.shared))
    }
}

impl Shared {
    /// Adds a key that does not come from a watch.
    pub(crate) fn add(&self, key: ObjectKey, options: AddOptions, source: Source) {
        match &self.recorder {
            Some(_) => self.queue.add_with_payload(key, options, Causes::Call(source, None)),
            None => self.queue.add_with(key, options),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.figures.active.load(Ordering::Relaxed) == 0
    }
}
