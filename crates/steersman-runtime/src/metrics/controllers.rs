//! The figures of controllers and their queues.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use steersman_workqueue::metrics::{QueueMetrics, Unfinished};

use super::families::Families;
use super::histogram::{Histogram, QUEUE_TIME, RECONCILE_TIME};
use crate::flight_recorder::Source;
use crate::layer::{Panicked, TimedOut};
use crate::{Action, ReconcileError};

/// Different values of the label `priority`; the keys of further ones are counted together.
const PRIORITIES_MAX: usize = 25;

/// How a reconcile ended: the label `result`, in this order.
const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];

/// What one controller counts. Workers and the queue add to it without a lock.
#[derive(Debug)]
pub(crate) struct ControllerFigures {
    name: String,
    max_concurrent: usize,
    /// Whether times are observed.
    is_measured: bool,
    pub(crate) active: AtomicUsize,
    results: [AtomicU64; 4],
    terminal_errors: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    time: Histogram,
    /// By [`Source`].
    triggers: [AtomicU64; Source::ALL.len()],
    queue: QueueFigures,
}

#[derive(Debug)]
struct QueueFigures {
    adds: AtomicU64,
    retries: AtomicU64,
    waited: Histogram,
    worked: Histogram,
    /// By priority, from −128 on.
    depth: Box<[Depth; 256]>,
    /// The priorities that were used, in order of their first use.
    priorities: Mutex<Vec<i8>>,
}

#[derive(Debug, Default)]
struct Depth {
    keys: AtomicUsize,
    used: AtomicBool,
}

impl ControllerFigures {
    pub(crate) fn new(name: &str, max_concurrent: usize, is_measured: bool) -> Arc<Self> {
        let queue = QueueFigures {
            adds: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            waited: Histogram::new(&QUEUE_TIME),
            worked: Histogram::new(&QUEUE_TIME),
            depth: Box::new(std::array::from_fn(|_| Depth::default())),
            priorities: Mutex::default(),
        };
        queue.set_depth(0, 0);
        Arc::new(Self {
            name: name.to_owned(),
            max_concurrent,
            is_measured,
            active: AtomicUsize::new(0),
            results: Default::default(),
            terminal_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            time: Histogram::new(&RECONCILE_TIME),
            triggers: Default::default(),
            queue,
        })
    }

    /// A reconcile begins because of this source.
    pub(crate) fn triggered(&self, source: Source) {
        self.triggers[source as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A reconcile has ended.
    pub(crate) fn ended(&self, result: &Result<Action, ReconcileError>, took: Duration) {
        if self.is_measured {
            self.time.observe(took);
        }
        let place = match result {
            Ok(action) => match action.after() {
                None => 0,
                Some(Duration::ZERO) => 2,
                Some(_) => 3,
            },
            Err(error) => {
                self.count_error(error);
                1
            }
        };
        self.results[place].fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn count_error(&self, error: &ReconcileError) {
        if error.is_terminal() {
            self.terminal_errors.fetch_add(1, Ordering::Relaxed);
        }
        if error.error().is::<Panicked>() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        if error.error().is::<TimedOut>() {
            self.timeouts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many reconciles have ended.
    pub(crate) fn reconciles(&self) -> u64 {
        self.results.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// How many of them failed.
    pub(crate) fn errors(&self) -> u64 {
        self.results[1].load(Ordering::Relaxed)
    }
}

impl QueueFigures {
    fn priorities(&self) -> MutexGuard<'_, Vec<i8>> {
        self.priorities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_depth(&self, priority: i8, keys: usize) {
        let depth = &self.depth[place(priority)];
        depth.keys.store(keys, Ordering::Relaxed);
        if !depth.used.load(Ordering::Relaxed) {
            self.first_use(priority);
        }
    }

    #[cold]
    fn first_use(&self, priority: i8) {
        if !self.depth[place(priority)].used.swap(true, Ordering::Relaxed) {
            self.priorities().push(priority);
        }
    }

    /// The ready keys by value of the label `priority`.
    fn depths(&self) -> Vec<(String, usize)> {
        let priorities = self.priorities().clone();
        let keys = |priority: &i8| self.depth[place(*priority)].keys.load(Ordering::Relaxed);
        let (named, others) = priorities.split_at(priorities.len().min(PRIORITIES_MAX));
        let mut depths: Vec<_> = named.iter().map(|priority| (priority.to_string(), keys(priority))).collect();
        if !others.is_empty() {
            depths.push(("exceeded_cardinality_limit".to_owned(), others.iter().map(keys).sum()));
        }
        depths
    }
}

fn place(priority: i8) -> usize {
    usize::from(priority.wrapping_sub(i8::MIN).cast_unsigned())
}

/// Passes the events of a queue on to the figures.
pub(crate) struct CountQueue(pub(crate) Arc<ControllerFigures>);

impl QueueMetrics for CountQueue {
    fn depth(&mut self, priority: i8, depth: usize) {
        self.0.queue.set_depth(priority, depth);
    }

    fn add(&mut self) {
        self.0.queue.adds.fetch_add(1, Ordering::Relaxed);
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.0.queue.waited.observe(waited);
    }

    fn work_duration(&mut self, worked: Duration) {
        self.0.queue.worked.observe(worked);
    }

    fn retry(&mut self) {
        self.0.queue.retries.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is read of a controller at each scrape.
#[derive(Default)]
pub(crate) struct Moment {
    /// What its workers hold.
    pub(crate) unfinished: Unfinished,
    pub(crate) hot_loops: u64,
}

pub(crate) type ReadMoment = Box<dyn Fn() -> Moment + Send + Sync>;

/// All controllers of a manager.
#[derive(Default)]
pub(crate) struct Controllers(Mutex<Vec<(Arc<ControllerFigures>, ReadMoment)>>);

impl Controllers {
    pub(crate) fn add(&self, figures: Arc<ControllerFigures>, read: ReadMoment) {
        let mut all = self.all();
        // A controller may be removed, and another one may have its name.
        all.retain(|(other, _)| other.name != figures.name);
        all.push((figures, read));
    }

    /// Shows the figures of a removed controller no longer.
    pub(crate) fn remove(&self, figures: &Arc<ControllerFigures>) {
        self.all().retain(|(other, _)| !Arc::ptr_eq(other, figures));
    }

    fn all(&self) -> MutexGuard<'_, Vec<(Arc<ControllerFigures>, ReadMoment)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().iter().map(|(figures, _)| &figures.name)).finish()
    }
}

impl Collector for Controllers {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        let mut families = Families(encoder);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let figures = || all.iter().map(|(figures, _)| &**figures);
        let by_name = || figures().map(|figures| ([("controller", &*figures.name)], figures));
        let queues =
            || figures().map(|figures| ([("name", &*figures.name), ("controller", &*figures.name)], &figures.queue));

        families.counter(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller.",
            figures().flat_map(|figures| {
                let counts = RESULTS.iter().zip(&figures.results);
                counts.map(|(result, count)| ([("controller", &*figures.name), ("result", result)], load(count)))
            }),
        )?;
        families.counter(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller.",
            by_name().map(|(labels, figures)| (labels, figures.errors())),
        )?;
        families.counter(
            "controller_runtime_terminal_reconcile_errors",
            "Total number of reconciliation errors per controller that are not retried.",
            by_name().map(|(labels, figures)| (labels, load(&figures.terminal_errors))),
        )?;
        families.counter(
            "controller_runtime_reconcile_panics",
            "Total number of reconciliation panics per controller.",
            by_name().map(|(labels, figures)| (labels, load(&figures.panics))),
        )?;
        families.counter(
            "controller_runtime_reconcile_timeouts",
            "Total number of reconciliations per controller that exceeded their time limit.",
            by_name().map(|(labels, figures)| (labels, load(&figures.timeouts))),
        )?;
        families.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller.",
            by_name().map(|(labels, figures)| (labels, &figures.time)),
        )?;
        families.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller.",
            by_name().map(|(labels, figures)| (labels, figures.max_concurrent as u64)),
        )?;
        families.gauge(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller.",
            by_name().map(|(labels, figures)| (labels, figures.active.load(Ordering::Relaxed) as u64)),
        )?;

        let depths: Vec<_> = figures().map(|figures| (&*figures.name, figures.queue.depths())).collect();
        families.gauge(
            "workqueue_depth",
            "Current depth of the work queue by name and priority.",
            depths.iter().flat_map(|(name, depths)| {
                let labels = move |priority| [("name", *name), ("controller", *name), ("priority", priority)];
                depths.iter().map(move |(priority, depth)| (labels(&**priority), *depth as u64))
            }),
        )?;
        families.counter(
            "workqueue_adds",
            "Total number of adds handled by the work queue.",
            queues().map(|(labels, queue)| (labels, load(&queue.adds))),
        )?;
        families.counter(
            "workqueue_retries",
            "Total number of retries handled by the work queue.",
            queues().map(|(labels, queue)| (labels, load(&queue.retries))),
        )?;
        families.histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in the work queue before it is handed out.",
            queues().map(|(labels, queue)| (labels, &queue.waited)),
        )?;
        families.histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds the processing of an item from the work queue takes.",
            queues().map(|(labels, queue)| (labels, &queue.worked)),
        )?;
        let moments: Vec<_> = all.iter().map(|(figures, read)| (&*figures.name, read())).collect();
        let unfinished = || {
            let labels = |name| [("name", name), ("controller", name)];
            moments.iter().map(move |(name, moment)| (labels(*name), &moment.unfinished))
        };
        families.gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of work that is in progress and has not been observed by work_duration. Large values are stuck workers.",
            unfinished().map(|(labels, unfinished)| (labels, unfinished.total.as_secs_f64())),
        )?;
        families.gauge(
            "workqueue_longest_running_processor_seconds",
            "For how many seconds the longest running worker of the work queue has been running.",
            unfinished().map(|(labels, unfinished)| (labels, unfinished.longest.as_secs_f64())),
        )?;

        families.counter(
            "reconcile_trigger",
            "Number of reconciles by the source of their first cause.",
            figures().flat_map(|figures| {
                let counts = Source::ALL.into_iter().zip(&figures.triggers);
                counts
                    .map(|(source, count)| ([("controller", &*figures.name), ("source", source.as_str())], load(count)))
            }),
        )?;
        families.counter(
            "reconcile_hot_loops",
            "Number of hot loops that were found.",
            moments.iter().map(|(name, moment)| ([("controller", *name)], moment.hot_loops)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_priorities_are_counted_together() {
        let figures = ControllerFigures::new("pod", 1, true);
        let mut queue = CountQueue(Arc::clone(&figures));
        for priority in [i8::MIN, -100, i8::MAX] {
            queue.depth(priority, 2);
        }
        queue.depth(-100, 1);
        let named = |pairs: &[(&str, usize)]| -> Vec<_> {
            pairs.iter().map(|(name, keys)| ((*name).to_owned(), *keys)).collect()
        };
        assert_eq!(figures.queue.depths(), named(&[("0", 0), ("-128", 2), ("-100", 1), ("127", 2)]));
        for priority in 1..=25 {
            queue.depth(priority, 1);
        }
        let depths = figures.queue.depths();
        assert_eq!(depths.len(), PRIORITIES_MAX + 1);
        assert_eq!(depths[PRIORITIES_MAX], ("exceeded_cardinality_limit".to_owned(), 4));
    }
}
