//! The queue without waiting: each behaviour of the work queues of client-go and controller-runtime
//! by name, at times that the test chooses.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steersman_workqueue::{
    AddOptions, Core, ItemExponentialFailureRateLimiter, Outcome, QueueMetrics, Ticket, Unfinished, metrics,
};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A core and its clock.
struct Queue {
    core: Core<&'static str>,
    now: Instant,
}

impl Queue {
    fn new() -> Self {
        Self { core: Core::new(), now: Instant::now() }
    }

    fn add(&mut self, key: &'static str) {
        self.core.add(key, AddOptions::new(), self.now);
    }

    fn add_after(&mut self, key: &'static str, delay: Duration) {
        self.core.add(key, AddOptions::new().after(delay), self.now);
    }

    fn add_priority(&mut self, key: &'static str, priority: i8) {
        self.core.add(key, AddOptions::new().priority(priority), self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.core.advance(self.now);
    }

    fn get(&mut self) -> (Ticket, &'static str) {
        self.core.get(self.now).expect("a key is ready")
    }

    fn finish(&mut self, ticket: Ticket, outcome: Outcome) {
        self.core.finish(ticket, outcome, self.now);
    }

    /// Takes and finishes every key that is ready.
    fn drain(&mut self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        while let Some((ticket, key)) = self.core.get(self.now) {
            self.finish(ticket, Outcome::Done);
            keys.push(key);
        }
        keys
    }
}

#[test]
fn keys_come_in_the_order_in_which_they_were_added() {
    let mut queue = Queue::new();
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.core.len(), 3);
    assert_eq!(queue.drain(), ["a", "b", "c"]);
    assert!(queue.core.is_empty());
}

#[test]
fn a_key_that_is_ready_is_not_added_again_and_keeps_its_place() {
    let mut queue = Queue::new();
    ["a", "b", "a", "a"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.core.len(), 2);
    assert_eq!(queue.drain(), ["a", "b"]);
}

#[test]
fn a_key_added_while_it_is_processed_is_processed_once_more_afterwards() {
    let mut queue = Queue::new();
    queue.add("a");
    let (ticket, _) = queue.get();
    queue.add("a");
    queue.add("a");
    assert_eq!(queue.core.len(), 0, "no other worker may have it now");
    assert!(queue.core.get(queue.now).is_none());
    queue.finish(ticket, Outcome::Done);
    assert_eq!(queue.drain(), ["a"]);
}

#[test]
fn a_finished_key_is_kept_nowhere() {
    let key = Arc::new(());
    let mut core = Core::new();
    let now = Instant::now();
    core.add(Arc::clone(&key), AddOptions::new(), now);
    let (ticket, taken) = core.get(now).unwrap();
    core.finish(ticket, Outcome::Done, now);
    drop(taken);
    assert_eq!((core.keys(), Arc::strong_count(&key)), (0, 1));
}

#[test]
fn a_delayed_key_comes_when_its_time_has_come() {
    let mut queue = Queue::new();
    queue.add_after("a", ms(50));
    assert_eq!((queue.core.len(), queue.core.delayed()), (0, 1));
    assert_eq!(queue.core.next_deadline(), Some(queue.now + ms(50)));
    queue.pass(ms(49));
    assert_eq!(queue.core.len(), 0);
    queue.pass(ms(1));
    assert_eq!((queue.core.len(), queue.core.delayed(), queue.core.next_deadline()), (1, 0, None));
    assert_eq!(queue.drain(), ["a"]);
}

#[test]
fn delayed_keys_come_in_the_order_of_their_times() {
    let mut queue = Queue::new();
    queue.add_after("late", s(3));
    queue.add_after("soon", s(1));
    queue.add_after("soon too", s(1));
    queue.add_after("later", s(2));
    queue.pass(s(5));
    assert_eq!(queue.drain(), ["soon", "soon too", "later", "late"]);
}

/// Found by the model: a delay that was cancelled and set again kept the place of its first
/// setting.
#[test]
fn of_equal_times_the_one_set_first_comes_first_also_when_one_was_cancelled_between() {
    let mut queue = Queue::new();
    queue.add_after("sooner", ms(500));
    queue.add_after("cancelled", s(1));
    queue.add("cancelled");
    queue.add_after("other", s(1));
    let (ticket, _) = queue.get();
    queue.finish(ticket, Outcome::RequeueAfter(s(1)));
    queue.pass(s(1));
    assert_eq!(queue.drain(), ["sooner", "other", "cancelled"]);
}

#[test]
fn of_several_delays_the_earliest_counts_and_there_is_one_delivery() {
    let mut queue = Queue::new();
    queue.add_after("a", s(10));
    queue.add_after("a", s(2));
    queue.add_after("a", s(20));
    assert_eq!(queue.core.delayed(), 1);
    queue.pass(s(2));
    assert_eq!(queue.drain(), ["a"]);
    queue.pass(s(60));
    assert_eq!(queue.drain(), [""; 0]);
}

#[test]
fn an_immediate_add_cancels_the_delayed_one() {
    let mut queue = Queue::new();
    queue.add_after("a", s(10));
    queue.add("a");
    assert_eq!((queue.core.len(), queue.core.delayed()), (1, 0));
    assert_eq!(queue.drain(), ["a"]);
    queue.pass(s(60));
    assert_eq!((queue.drain(), queue.core.keys()), (vec![], 0));
}

#[test]
fn a_key_that_is_ready_is_not_delayed() {
    let mut queue = Queue::new();
    queue.add("a");
    queue.add_after("a", s(10));
    assert_eq!((queue.core.len(), queue.core.delayed()), (1, 0));
}

#[test]
fn a_delay_of_nothing_means_now() {
    let mut queue = Queue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!((queue.core.len(), queue.core.delayed()), (1, 0));
}

#[test]
fn a_huge_delay_never_ends_and_does_not_overflow() {
    let mut queue = Queue::new();
    queue.add_after("never", Duration::MAX);
    queue.add_after("soon", ms(1));
    queue.pass(s(1_000_000_000));
    assert_eq!(queue.drain(), ["soon"]);
    assert_eq!(queue.core.delayed(), 1);
    assert!(queue.core.next_deadline().unwrap() > queue.now);
}

#[test]
fn a_delay_that_ends_while_the_key_is_processed_counts_as_an_add() {
    let mut queue = Queue::new();
    queue.add("a");
    let (ticket, _) = queue.get();
    queue.add_after("a", s(1));
    queue.pass(s(2));
    assert!(queue.core.get(queue.now).is_none());
    queue.finish(ticket, Outcome::Done);
    assert_eq!(queue.drain(), ["a"]);
}

#[test]
fn a_delay_that_outlasts_the_work_stays() {
    let mut queue = Queue::new();
    queue.add("a");
    let (ticket, _) = queue.get();
    queue.add_after("a", s(10));
    queue.finish(ticket, Outcome::Done);
    assert_eq!((queue.core.len(), queue.core.delayed()), (0, 1));
    queue.pass(s(10));
    assert_eq!(queue.drain(), ["a"]);
}

#[test]
fn times_that_were_changed_often_are_not_kept() {
    let mut queue = Queue::new();
    queue.add_after("kept", s(1_000_000));
    for round in 0..100_000 {
        queue.add_after("a", s(200_000 - round));
    }
    // Each round leaves a stale entry. If they stayed, this would walk all of them.
    assert_eq!(queue.core.next_deadline(), Some(queue.now + s(100_001)));
    queue.pass(s(100_001));
    assert_eq!(queue.drain(), ["a"]);
    assert_eq!(queue.core.delayed(), 1);
}

#[test]
fn retry_waits_for_the_rate_limiter_and_done_forgets() {
    let limiter = ItemExponentialFailureRateLimiter::new(ms(10), s(1));
    let mut queue = Queue { core: Core::with_rate_limiter(limiter), now: Instant::now() };
    queue.add("a");
    for failures in 1..=3 {
        let (ticket, _) = queue.get();
        queue.finish(ticket, Outcome::Retry);
        assert_eq!(queue.core.retries(&"a"), failures);
        let wait = ms(10 << (failures - 1));
        assert_eq!(queue.core.next_deadline(), Some(queue.now + wait));
        queue.pass(wait);
    }
    let (ticket, _) = queue.get();
    queue.finish(ticket, Outcome::Done);
    assert_eq!((queue.core.retries(&"a"), queue.core.keys()), (0, 0));
}

#[test]
fn requeue_after_forgets_failures() {
    let mut queue = Queue::new();
    queue.core.add("a", AddOptions::new().rate_limited(), queue.now);
    assert_eq!(queue.core.retries(&"a"), 1);
    queue.pass(ms(5));
    let (ticket, _) = queue.get();
    queue.finish(ticket, Outcome::RequeueAfter(s(7)));
    assert_eq!(queue.core.retries(&"a"), 0);
    assert_eq!(queue.core.next_deadline(), Some(queue.now + s(7)));
}

#[test]
fn failures_can_be_forgotten_by_a_call() {
    let mut queue = Queue::new();
    queue.core.add("a", AddOptions::new().rate_limited(), queue.now);
    queue.core.forget(&"a");
    assert_eq!(queue.core.retries(&"a"), 0);
}

#[test]
fn an_add_while_processing_comes_before_a_retry() {
    let mut queue = Queue::new();
    queue.add("a");
    let (ticket, _) = queue.get();
    queue.add("a");
    queue.finish(ticket, Outcome::Retry);
    assert_eq!((queue.core.len(), queue.core.delayed(), queue.core.retries(&"a")), (1, 0, 1));
}

#[test]
fn higher_priorities_come_first_and_each_is_first_in_first_out() {
    let mut queue = Queue::new();
    queue.add("ordinary 1");
    queue.add_priority("low", -100);
    queue.add_priority("high 1", 10);
    queue.add_priority("high 2", 10);
    queue.add("ordinary 2");
    assert_eq!(queue.drain(), ["high 1", "high 2", "ordinary 1", "ordinary 2", "low"]);
}

#[test]
fn a_re_add_raises_the_priority_and_never_lowers_it() {
    let mut queue = Queue::new();
    queue.add_priority("low", -10);
    queue.add_priority("raised", -10);
    queue.add_priority("first of its kind", 5);
    queue.add_priority("raised", 5);
    queue.add_priority("raised", -100);
    assert_eq!(queue.core.len(), 3);
    assert_eq!(
        queue.drain(),
        ["first of its kind", "raised", "low"],
        "a raised key goes to the end of its new priority"
    );
}

#[test]
fn a_delayed_key_keeps_the_higher_priority_and_the_earlier_time() {
    let mut queue = Queue::new();
    queue.core.add("a", AddOptions::new().priority(-50).after(s(1)), queue.now);
    queue.core.add("a", AddOptions::new().priority(50).after(s(9)), queue.now);
    queue.pass(s(1));
    queue.add("b");
    let (ticket, key) = queue.get();
    assert_eq!((key, ticket.priority()), ("a", 50));
}

#[test]
fn a_key_added_while_processed_takes_the_priority_of_that_add() {
    let mut queue = Queue::new();
    queue.add_priority("a", 50);
    let (ticket, _) = queue.get();
    queue.add_priority("a", -5);
    queue.add_priority("a", -3);
    queue.finish(ticket, Outcome::Done);
    assert_eq!(queue.get().0.priority(), -3);
}

#[test]
fn a_retry_keeps_the_priority() {
    let mut queue = Queue::new();
    queue.add_priority("a", -100);
    let (ticket, _) = queue.get();
    queue.finish(ticket, Outcome::Retry);
    queue.pass(s(1));
    assert_eq!(queue.get().0.priority(), -100);
}

#[test]
fn low_priority_is_not_starved() {
    let mut queue = Queue::new();
    queue.core.set_ageing(s(1));
    queue.add_priority("low", -10);
    let mut overtaken = 0;
    loop {
        queue.add_priority("high", 0);
        let (ticket, key) = queue.get();
        queue.finish(ticket, Outcome::Done);
        if key == "low" {
            break;
        }
        overtaken += 1;
        assert!(overtaken < 100, "starved");
        queue.pass(ms(500));
    }
    // Ten points are worth ten seconds: the keys of the first ten seconds overtake it, and the one
    // that becomes ready at that moment.
    assert_eq!(overtaken, 21);
}

#[test]
fn ageing_can_be_turned_off() {
    let mut queue = Queue::new();
    queue.core.set_ageing(Duration::MAX);
    queue.add_priority("low", -1);
    queue.pass(s(1_000_000));
    queue.add_priority("high", 0);
    assert_eq!(queue.drain(), ["high", "low"]);
}

#[test]
fn keys_from_before_the_first_priority_are_not_taken_for_old() {
    let mut queue = Queue::new();
    assert!(!queue.core.needs_time());
    queue.add("ordinary");
    queue.pass(s(3600));
    queue.add_priority("high", 1);
    assert!(queue.core.needs_time());
    assert_eq!(queue.drain(), ["high", "ordinary"]);
}

#[test]
fn the_first_priority_leaves_the_time_of_a_key_that_is_delayed_while_it_is_processed() {
    let mut queue = Queue::new();
    queue.add("a");
    let (ticket, _) = queue.get();
    queue.add_after("a", s(10));
    queue.add_priority("other", 1);
    queue.add_after("a", s(1));
    queue.finish(ticket, Outcome::Done);
    queue.drain();
    assert_eq!(queue.core.next_deadline(), Some(queue.now + s(1)));
}

#[test]
fn extreme_priorities_are_ordered_too() {
    let mut queue = Queue::new();
    queue.add_priority("lowest", i8::MIN);
    queue.add_priority("highest", i8::MAX);
    assert_eq!(queue.drain(), ["highest", "lowest"]);
}

#[test]
fn after_shut_down_adds_are_ignored_and_ready_keys_still_handed_out() {
    let mut queue = Queue::new();
    queue.add("ready");
    queue.add("dirty");
    let (ticket, _) = queue.get();
    queue.add("ready");
    queue.core.shut_down();
    queue.add("too late");
    queue.add_after("too late", ms(1));
    queue.finish(ticket, Outcome::Done);
    queue.pass(s(1));
    assert_eq!(queue.drain(), ["dirty", "ready"], "what was added before, also while it was processed");
    assert!(queue.core.is_drained());
}

#[test]
fn shut_down_drops_delayed_keys() {
    let mut queue = Queue::new();
    queue.add_after("a", s(1));
    queue.core.shut_down();
    queue.core.shut_down();
    queue.pass(s(2));
    assert_eq!((queue.core.delayed(), queue.core.keys(), queue.core.next_deadline()), (0, 0, None));
    assert!(queue.core.is_shut_down() && queue.core.is_drained());
}

#[test]
fn after_shut_down_a_retry_is_the_end() {
    let mut queue = Queue::new();
    queue.add("a");
    queue.add("b");
    let (a, _) = queue.get();
    let (b, _) = queue.get();
    queue.core.shut_down();
    assert!(!queue.core.is_drained());
    queue.finish(a, Outcome::Retry);
    queue.finish(b, Outcome::RequeueAfter(s(1)));
    assert!(queue.core.is_drained());
    assert_eq!(queue.core.keys(), 0);
}

#[test]
#[should_panic(expected = "another queue")]
fn a_ticket_of_another_queue_is_refused() {
    let (mut one, mut other) = (Queue::new(), Queue::new());
    one.add("a");
    other.add("a");
    let (ticket, _) = one.get();
    other.finish(ticket, Outcome::Done);
}

/// Records the calls.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl QueueMetrics for Recorder {
    fn depth(&mut self, priority: i8, depth: usize) {
        self.note(format!("depth[{priority}]={depth}"));
    }

    fn add(&mut self) {
        self.note("add".to_owned());
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.note(format!("waited {waited:?}"));
    }

    fn work_duration(&mut self, worked: Duration) {
        self.note(format!("worked {worked:?}"));
    }

    fn retry(&mut self) {
        self.note("retry".to_owned());
    }
}

#[test]
fn metrics_see_what_happens() {
    let recorder = Recorder::default();
    let mut queue = Queue::new();
    queue.core.set_metrics(recorder.clone());
    queue.add("a");
    queue.add("a");
    assert_eq!(recorder.take(), ["add", "depth[0]=1"], "an add of a key that is ready is not counted");
    queue.pass(s(2));
    let (ticket, _) = queue.get();
    assert_eq!(recorder.take(), ["depth[0]=0", "waited 2s"]);
    queue.pass(s(3));
    queue.add("a");
    assert_eq!(recorder.take(), ["add"], "it is not in the queue while a worker has it");
    queue.pass(s(1));
    queue.finish(ticket, Outcome::Retry);
    assert_eq!(recorder.take(), ["retry", "depth[0]=1", "worked 4s"]);
    let (ticket, _) = queue.get();
    assert_eq!(recorder.take(), ["depth[0]=0", "waited 1s"], "ready since it was added");
    queue.finish(ticket, Outcome::Done);
    recorder.take();

    queue.core.add("b", AddOptions::new().priority(-100).after(s(1)), queue.now);
    assert_eq!(recorder.take(), ["retry"]);
    queue.pass(s(3));
    assert_eq!(recorder.take(), ["add", "depth[-100]=1"]);
    queue.drain();
    assert_eq!(recorder.take()[..2], ["depth[-100]=0", "waited 2s"], "ready since its time, not since we looked");
}

#[test]
fn unfinished_work_is_known_at_any_moment() {
    let mut queue = Queue::new();
    queue.core.set_metrics(Recorder::default());
    queue.add("a");
    queue.add("b");
    let (a, _) = queue.get();
    queue.pass(s(3));
    let (b, _) = queue.get();
    queue.pass(s(4));
    assert_eq!(queue.core.unfinished(queue.now), Unfinished { count: 2, total: s(11), longest: s(7) });
    queue.finish(a, Outcome::Done);
    assert_eq!(queue.core.unfinished(queue.now), Unfinished { count: 1, total: s(4), longest: s(4) });
    queue.finish(b, Outcome::Done);
    assert_eq!(queue.core.unfinished(queue.now), Unfinished::default());
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let names = [
        metrics::DEPTH,
        metrics::ADDS,
        metrics::QUEUE_DURATION,
        metrics::WORK_DURATION,
        metrics::UNFINISHED_WORK,
        metrics::LONGEST_RUNNING_PROCESSOR,
        metrics::RETRIES,
    ];
    let expected = [
        "depth",
        "adds_total",
        "queue_duration_seconds",
        "work_duration_seconds",
        "unfinished_work_seconds",
        "longest_running_processor_seconds",
        "retries_total",
    ];
    assert_eq!(names.map(str::to_owned), expected.map(|name| format!("workqueue_{name}")));
}
