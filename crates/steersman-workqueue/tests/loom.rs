//! The queue that is shipped under a model checker: every interleaving of a few operations, up to a
//! bound on preemptions. `cargo xtask test` runs it with `RUSTFLAGS="--cfg steersman_loom"`.
#![cfg(steersman_loom)]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use steersman_workqueue::model_time::advance;
use steersman_workqueue::{AddOptions, ItemExponentialFailureRateLimiter, WorkQueue};

/// How many times a thread may be interrupted where it need not stop. The published bugs of this
/// kind need two.
const PREEMPTIONS: usize = 3;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(check);
}

#[test]
fn no_wake_up_is_lost() {
    model(|| {
        let queue = WorkQueue::new();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add("a"))
        };
        let item = block_on(queue.get()).expect("the queue is not shut down");
        assert_eq!(*item, "a");
        item.done();
        producer.join().unwrap();
        assert!(queue.is_empty());
    });
}

#[test]
fn no_wake_up_is_lost_when_two_add_the_same_key() {
    model(|| {
        let queue = WorkQueue::new();
        let add = |queue: &WorkQueue<&'static str>| {
            let queue = queue.clone();
            thread::spawn(move || queue.add_ref(&"a"))
        };
        let producers = [add(&queue), add(&queue)];
        let item = block_on(queue.get()).expect("the queue is not shut down");
        assert_eq!(*item, "a");
        item.done();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        // The second add came while the first was processed, or after.
        assert!(queue.len() <= 1);
    });
}

#[test]
fn two_workers_share_two_keys() {
    model(|| {
        let queue = WorkQueue::new();
        let worker = |queue: WorkQueue<u32>| {
            let item = block_on(queue.get()).expect("the queue is not shut down");
            let key = *item;
            item.done();
            key
        };
        let other = {
            let queue = queue.clone();
            thread::spawn(move || worker(queue))
        };
        queue.add(1);
        queue.add(2);
        let mut keys = [worker(queue), other.join().unwrap()];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
    });
}

#[test]
fn a_key_added_while_it_is_processed_comes_once_more() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add("a");
        let item = block_on(queue.get()).expect("the queue is not shut down");
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add("a"))
        };
        item.done();
        producer.join().unwrap();
        assert_eq!(queue.len(), 1);
        block_on(queue.get()).expect("the queue is not shut down").done();
        assert!(queue.is_empty());
    });
}

#[test]
fn a_key_is_handed_out_after_its_last_add_and_with_all_that_was_done_before_that() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add("a");
        let changes = loom::sync::Arc::new(AtomicUsize::new(0));
        let producer = {
            let (queue, changes) = (queue.clone(), loom::sync::Arc::clone(&changes));
            thread::spawn(move || {
                for change in 1..=2 {
                    changes.store(change, Ordering::Relaxed);
                    queue.add("a");
                }
            })
        };
        let work = || {
            let item = block_on(queue.get()).expect("the queue is not shut down");
            let seen = changes.load(Ordering::Relaxed);
            item.done();
            seen
        };
        let mut seen = work();
        producer.join().unwrap();
        while !queue.is_empty() {
            seen = work();
        }
        assert_eq!(seen, 2, "the last change is not known to the last who worked on the key");
    });
}

#[test]
fn a_key_that_was_added_again_is_handed_out_while_the_queue_drains() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add("a");
        let item = block_on(queue.get_owned()).expect("the queue is not shut down");
        queue.add("a");
        let dispatcher = {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut keys = 0;
                while let Some(item) = block_on(queue.get()) {
                    item.done();
                    keys += 1;
                }
                keys
            })
        };
        let drained = queue.shut_down_with_drain();
        item.done();
        assert!(block_on(drained));
        assert_eq!(dispatcher.join().unwrap(), 1);
    });
}

/// Does nothing when it is called.
struct Deaf;

impl Wake for Deaf {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_worker_that_gives_up_takes_no_key_and_no_wake_up_with_it() {
    model(|| {
        let queue = WorkQueue::<&str>::new();
        let fickle = {
            let queue = queue.clone();
            thread::spawn(move || {
                let waker = Waker::from(Arc::new(Deaf));
                let mut get = Box::pin(queue.get());
                // Often enough to wait by then.
                for _ in 0..5 {
                    if let std::task::Poll::Ready(item) = Pin::new(&mut get).poll(&mut Context::from_waker(&waker)) {
                        item.expect("the queue is not shut down").done();
                        return true;
                    }
                }
                false
            })
        };
        queue.add("a");
        if fickle.join().unwrap() {
            assert!(queue.is_empty());
        } else {
            assert_eq!(*block_on(queue.get()).expect("the queue is not shut down"), "a");
        }
    });
}

#[test]
fn a_wake_up_of_a_worker_that_gives_up_goes_to_another() {
    model(|| {
        let queue = WorkQueue::<&str>::new();
        let patient = {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).map(|item| *item.key()))
        };
        let waker = Waker::from(Arc::new(Deaf));
        let mut fickle = Box::pin(queue.get());
        for _ in 0..5 {
            assert!(Pin::new(&mut fickle).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        queue.add("a");
        drop(fickle);
        assert_eq!(patient.join().unwrap(), Some("a"));
    });
}

#[test]
fn shut_down_reaches_a_worker_whenever_it_begins_to_wait() {
    model(|| {
        let queue = WorkQueue::<u32>::new();
        let worker = {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).is_none())
        };
        queue.shut_down();
        assert!(worker.join().unwrap());
    });
}

#[test]
fn draining_ends_when_the_last_key_is_done() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add("a");
        let item = block_on(queue.get_owned()).expect("the queue is not shut down");
        let worker = thread::spawn(move || item.done());
        assert!(block_on(queue.shut_down_with_drain()));
        worker.join().unwrap();
    });
}

const SECOND: Duration = Duration::from_secs(1);

/// A queue whose failed keys come back after a second, each time.
fn retries_after_a_second<T: std::hash::Hash + Eq + Clone + Send + 'static>() -> WorkQueue<T> {
    WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(SECOND, SECOND))
}

/// Takes the next key and finishes it.
fn work<T: std::hash::Hash + Eq + Clone>(queue: &WorkQueue<T>) -> T {
    let item = block_on(queue.get()).expect("the queue is not shut down");
    let key = item.key().clone();
    item.done();
    key
}

/// Runs [`work`] on a thread of its own.
fn worker<T: std::hash::Hash + Eq + Clone + Send + 'static>(queue: &WorkQueue<T>) -> thread::JoinHandle<T> {
    let queue = queue.clone();
    thread::spawn(move || work(&queue))
}

/// From the first priority on, the queue reads the clock, even for a plain add that is in progress.
#[test]
fn no_wake_up_is_lost_when_the_first_priority_meets_a_plain_add() {
    model(|| {
        let queue = WorkQueue::new();
        let plain = {
            let queue = queue.clone();
            thread::spawn(move || queue.add(1))
        };
        let urgent = {
            let queue = queue.clone();
            thread::spawn(move || queue.add_with(2, AddOptions::new().priority(10)))
        };
        let mut keys = [work(&queue), work(&queue)];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
        plain.join().unwrap();
        urgent.join().unwrap();
        assert!(queue.is_empty());
    });
}

#[test]
fn an_urgent_key_comes_first_however_a_plain_add_of_it_meets_the_urgent_one() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add(1);
        let plain = {
            let queue = queue.clone();
            thread::spawn(move || queue.add(2))
        };
        queue.add_with(2, AddOptions::new().priority(10));
        plain.join().unwrap();
        assert_eq!([work(&queue), work(&queue)], [2, 1]);
        assert!(queue.is_empty());
    });
}

/// Two keys wake one worker. It wakes the other one when it takes its key, not only when it is
/// done.
#[test]
fn a_worker_that_takes_a_key_with_a_priority_wakes_another_for_the_next() {
    model(|| {
        let queue = WorkQueue::new();
        let take = |queue: &WorkQueue<u32>| {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get_owned()).expect("the queue is not shut down"))
        };
        let workers = [take(&queue), take(&queue)];
        queue.add_with(1, AddOptions::new().priority(-10));
        queue.add_with(2, AddOptions::new().priority(10));
        let items = workers.map(|worker| worker.join().unwrap());
        let mut keys = items.each_ref().map(|item| *item.key());
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
        items.into_iter().for_each(steersman_workqueue::Item::done);
    });
}

#[test]
fn a_key_added_with_a_priority_while_it_is_processed_comes_once_more_with_that() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add("a");
        let item = block_on(queue.get()).expect("the queue is not shut down");
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add_with("a", AddOptions::new().priority(10)))
        };
        item.done();
        producer.join().unwrap();
        assert_eq!(queue.len(), 1);
        let item = block_on(queue.get()).expect("the queue is not shut down");
        assert_eq!(item.priority(), 10);
        item.done();
        assert!(queue.is_empty());
    });
}

#[test]
fn a_failed_key_comes_back_whenever_a_worker_begins_to_wait() {
    model(|| {
        let queue = retries_after_a_second();
        queue.add("a");
        let item = block_on(queue.get()).expect("the queue is not shut down");
        let other = worker(&queue);
        item.retry();
        advance(SECOND);
        assert_eq!(other.join().unwrap(), "a");
        assert_eq!((queue.len(), queue.delayed()), (0, 0));
    });
}

#[test]
fn a_failed_key_that_is_added_at_the_same_time_comes_once_more_and_at_once() {
    model(|| {
        let queue = retries_after_a_second();
        queue.add("a");
        let item = block_on(queue.get()).expect("the queue is not shut down");
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add("a"))
        };
        item.retry();
        producer.join().unwrap();
        assert_eq!((work(&queue), queue.len(), queue.delayed()), ("a", 0, 0));
    });
}

#[test]
fn a_delayed_key_is_handed_out_whenever_a_worker_begins_to_wait() {
    model(|| {
        let queue = WorkQueue::new();
        let other = worker(&queue);
        queue.add_after("a", SECOND);
        advance(SECOND);
        assert_eq!(other.join().unwrap(), "a");
    });
}

#[test]
fn a_key_with_an_earlier_time_wakes_the_worker_that_sleeps_for_a_later_one() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add_after("later", 10 * SECOND);
        let other = worker(&queue);
        queue.add_after("earlier", SECOND);
        advance(SECOND);
        assert_eq!(other.join().unwrap(), "earlier");
        assert_eq!(queue.delayed(), 1);
    });
}

#[test]
fn a_timer_serves_two_workers() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add_after(1, SECOND);
        queue.add_after(2, 2 * SECOND);
        let other = worker(&queue);
        let clock = thread::spawn(|| {
            advance(SECOND);
            advance(SECOND);
        });
        let mut keys = [work(&queue), other.join().unwrap()];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
        clock.join().unwrap();
    });
}

#[test]
fn the_timer_of_a_worker_that_gives_up_goes_to_another() {
    model(|| {
        let queue = WorkQueue::<&str>::new();
        queue.add_after("a", SECOND);
        let waker = Waker::from(Arc::new(Deaf));
        let mut fickle = Box::pin(queue.get());
        // This one sleeps until the delay is over.
        assert!(Pin::new(&mut fickle).poll(&mut Context::from_waker(&waker)).is_pending());
        let patient = worker(&queue);
        drop(fickle);
        advance(SECOND);
        assert_eq!(patient.join().unwrap(), "a");
    });
}

#[test]
fn a_key_that_is_due_and_one_that_is_added_both_come() {
    model(|| {
        let queue = WorkQueue::new();
        queue.add_after(1, SECOND);
        let clock = thread::spawn(|| advance(SECOND));
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add(2))
        };
        let mut keys = [work(&queue), work(&queue)];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
        clock.join().unwrap();
        producer.join().unwrap();
    });
}
