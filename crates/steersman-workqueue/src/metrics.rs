//! What can be measured of a queue, under the names that client-go and controller-runtime use.

use std::time::Duration;

/// `workqueue_depth`: keys that are ready and wait for a worker. A gauge, by priority.
pub const DEPTH: &str = "workqueue_depth";
/// `workqueue_adds_total`: keys that became ready. A counter; an add of a key that is ready already is not counted.
pub const ADDS: &str = "workqueue_adds_total";
/// `workqueue_queue_duration_seconds`: how long a key was ready before a worker got it. A histogram.
pub const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
/// `workqueue_work_duration_seconds`: how long a worker had a key. A histogram.
pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
/// `workqueue_unfinished_work_seconds`: see [`Unfinished::total`]. A gauge.
pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
/// `workqueue_longest_running_processor_seconds`: see [`Unfinished::longest`]. A gauge.
pub const LONGEST_RUNNING_PROCESSOR: &str = "workqueue_longest_running_processor_seconds";
/// `workqueue_retries_total`: keys that were added with a delay or a rate limit. A counter.
pub const RETRIES: &str = "workqueue_retries_total";

/// Is told what happens in a queue. Each method belongs to the metric of its name in this module; what can only be asked
/// for at one moment is in [`Unfinished`].
///
/// The methods are called under the queue's lock: they must not block and must not use the queue. A panic in one of them is
/// caught: the queue goes on, and the figure is wrong.
pub trait Metrics: Send {
    /// So many keys of this priority are ready now ([`DEPTH`]).
    fn depth(&mut self, priority: i8, depth: usize);
    /// A key became ready ([`ADDS`]).
    fn add(&mut self);
    /// A worker got a key that had been ready for so long ([`QUEUE_DURATION`]).
    fn queue_duration(&mut self, waited: Duration);
    /// A worker gave a key back after so long ([`WORK_DURATION`]).
    fn work_duration(&mut self, worked: Duration);
    /// A key was added with a delay or a rate limit ([`RETRIES`]).
    fn retry(&mut self);
}

/// The keys that workers have at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// How many keys.
    pub count: usize,
    /// How long workers have had them, added up ([`UNFINISHED_WORK`]). Grows without end when workers are stuck.
    pub total: Duration,
    /// How long a worker has had the one that was got first ([`LONGEST_RUNNING_PROCESSOR`]).
    pub longest: Duration,
}
