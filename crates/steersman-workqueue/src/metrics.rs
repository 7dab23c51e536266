//! The metrics of a queue, with the names that client-go and controller-runtime use.

use std::time::Duration;

/// `workqueue_depth`: how many keys are ready and wait for a worker. A gauge, by priority.
pub const DEPTH: &str = "workqueue_depth";
/// `workqueue_adds_total`: how many keys became ready. A counter. It does not count adds of a key
/// that is ready already.
pub const ADDS: &str = "workqueue_adds_total";
/// `workqueue_queue_duration_seconds`: how long a key was ready before a worker got it. A
/// histogram.
pub const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
/// `workqueue_work_duration_seconds`: how long a worker held a key. A histogram.
pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
/// `workqueue_unfinished_work_seconds`: see [`Unfinished::total`]. A gauge.
pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
/// `workqueue_longest_running_processor_seconds`: see [`Unfinished::longest`]. A gauge.
pub const LONGEST_RUNNING_PROCESSOR: &str = "workqueue_longest_running_processor_seconds";
/// `workqueue_retries_total`: how many keys were added with a delay or a rate limit. A counter.
pub const RETRIES: &str = "workqueue_retries_total";

/// Receives the events of a queue. Each method belongs to the metric of its name in this module.
/// [`Unfinished`] has the metrics that are read at one moment.
///
/// The queue calls the methods under its lock: they must not block and must not use the queue. The
/// queue catches their panics and goes on; the figure is wrong then.
pub trait QueueMetrics: Send {
    /// The number of ready keys of this priority changed to `depth` ([`DEPTH`]).
    fn depth(&mut self, priority: i8, depth: usize);
    /// A key became ready ([`ADDS`]).
    fn add(&mut self);
    /// A worker got a key that was ready for `waited` ([`QUEUE_DURATION`]).
    fn queue_duration(&mut self, waited: Duration);
    /// A worker gave a key back after `worked` ([`WORK_DURATION`]).
    fn work_duration(&mut self, worked: Duration);
    /// A key was added with a delay or a rate limit ([`RETRIES`]).
    fn retry(&mut self);
}

/// The keys that workers hold at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// How many keys workers hold.
    pub count: usize,
    /// The sum of the times for which workers have held their keys ([`UNFINISHED_WORK`]). It grows
    /// without end when workers are stuck.
    pub total: Duration,
    /// The longest time for which a worker has held its key ([`LONGEST_RUNNING_PROCESSOR`]).
    pub longest: Duration,
}
