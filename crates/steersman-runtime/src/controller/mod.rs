//! A queue, its sources and its workers.

mod builder;
mod enqueue;
mod sources;
mod worker;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_cache::{Cached, HandlerHandle, Object, ObjectKey};
use steersman_workqueue::WorkQueue;

use crate::caches::User;
use crate::kind::Kind;
use crate::manager::WeakManager;
use crate::predicate::Predicate;
use crate::{Error, ReconcileError};

pub use builder::ControllerBuilder;
pub use enqueue::LOW_PRIORITY;

use enqueue::{EnqueueFor, Panics};
use sources::Watched;

pub(crate) use enqueue::OwnerMatch;

/// A controller of a manager, to be asked and changed. Clones are the same controller.
///
/// **What is promised** (the tests of these names are in `tests/controllers`).
/// - A key is reconciled by one worker at a time, and once more when it changed meanwhile (contract
///   5, `a_key_is_never_reconciled_twice_at_a_time_and_no_change_is_lost`,
///   `parallel_workers_never_have_the_same_key_and_lose_no_change`).
/// - A failure is tried again after a time that grows by the key, until it succeeds
///   (`an_error_backs_off_per_key`); a [terminal](ReconcileError::terminal) one when something
///   changes (`a_terminal_error_is_not_retried`); a panic is a failure
///   (`a_panic_is_the_error_of_its_reconcile_only`).
/// - What changes comes before what was there from the start and before resyncs
///   (`live_changes_come_before_the_initial_list`).
/// - A predicate or filter that panics lets the change through, and a map function that panics
///   about one state of an object is asked about the other
///   (`a_predicate_or_filter_that_panics_lets_the_event_through`,
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
    last: Arc<ReconcileError>,
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
    /// How often a predicate, a filter or a map function panicked. A change that a predicate or
    /// filter panicked about counts as one that matters; a map function is asked about the old and
    /// the new state apart.
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

    /// How often a key has failed since it last succeeded. A request to be
    /// [requeued](crate::Action::requeue_after) is a success.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.shared.failing().get(key).map_or(0, |failing| failing.times)
    }

    /// What a key failed with last; `None` once it has succeeded.
    pub fn last_error(&self, key: &ObjectKey) -> Option<Arc<ReconcileError>> {
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

    /// Adds a watch, also while the manager runs, and then the kind's cache is started if it is
    /// new. The handle takes the watch away again. The cache stays, for others may read it, until
    /// it is [undeclared](crate::Manager::undeclare).
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
        let mut source = Watched { kind, informer: None, in_use: None, enqueue_for };
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
