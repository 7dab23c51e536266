//! The queue with waiting: workers, cancellation, panics, timers and shutdown, in tokio's paused
//! time.
#![cfg(not(steersman_loom))]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use steersman_workqueue::{AddOptions, BucketRateLimiter, Item, ItemFastSlowRateLimiter, RateLimiter, WorkQueue};
use tokio::time::Instant;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls until the future waits for a wake-up from outside.
fn poll_until_it_waits<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(count));
    loop {
        let before = count.0.load(Ordering::SeqCst);
        let polled = std::pin::Pin::new(&mut *future).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() || count.0.load(Ordering::SeqCst) == before {
            return polled;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_a_key() {
    let queue = WorkQueue::<&str>::new();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::time::advance(s(60)).await;
    queue.add("a");
    assert_eq!(worker.await.unwrap(), Some("a"));
}

#[tokio::test]
async fn a_burst_of_adds_by_reference_clones_the_key_once() {
    let key: Arc<str> = "a".into();
    let queue = WorkQueue::new();
    (0..10).for_each(|_| queue.add_ref(&key));
    assert_eq!(Arc::strong_count(&key), 2);
    let item = queue.get().await.expect("it is ready");
    queue.add_ref(&key);
    item.done();
    let item = queue.get().await.expect("it was added while it was worked on");
    item.done();
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_at_its_time_and_one_worker_sleeps_for_all() {
    let queue = WorkQueue::<&str>::new();
    let started = Instant::now();
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, arrivals) = (queue.clone(), Arc::clone(&arrivals));
            tokio::spawn(async move {
                while let Some(item) = queue.get().await {
                    arrivals.lock().unwrap().push((*item, started.elapsed().as_secs()));
                    item.done();
                }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_after("third", s(30));
    queue.add_after("first", s(10)); // earlier than what the sleeping worker sleeps for
    queue.add_after("second", s(20));
    tokio::time::sleep(s(40)).await;
    queue.add_after("fourth", s(10));
    tokio::time::sleep(s(20)).await;
    queue.shut_down();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(*arrivals.lock().unwrap(), [("first", 10), ("second", 20), ("third", 30), ("fourth", 50)]);
}

#[tokio::test(start_paused = true)]
async fn one_timer_serves_all_waiting_workers() {
    let queue = WorkQueue::new();
    (0..100).for_each(|key| queue.add_after(key, s(10)));
    let counts: Vec<_> = (0..5).map(|_| Arc::new(Count::default())).collect();
    let mut workers: Vec<_> = counts.iter().map(|_| Box::pin(queue.get())).collect();
    for (worker, count) in workers.iter_mut().zip(&counts) {
        assert!(poll_until_it_waits(worker, count).is_pending());
    }
    let woken = || counts.iter().map(|count| count.0.load(Ordering::SeqCst)).sum::<usize>();
    let before = woken();
    tokio::time::sleep(s(20)).await;
    assert_eq!(woken() - before, 1, "more than one worker had a timer");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_due_does_not_wait_for_a_sleeping_worker_to_go() {
    // The sleeping worker is dropped, and another has to take its place.
    let queue = WorkQueue::new();
    queue.add_after("a", s(10));
    let mut sleeper = Box::pin(queue.get());
    let mut other = Box::pin(queue.get());
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    assert!(poll_until_it_waits(&mut sleeper, &first).is_pending());
    assert!(poll_until_it_waits(&mut other, &second).is_pending());
    let before = second.0.load(Ordering::SeqCst);
    drop(sleeper);
    assert!(second.0.load(Ordering::SeqCst) > before, "no worker sleeps for the delayed key");
    let started = Instant::now();
    assert_eq!(*other.await.unwrap(), "a");
    assert_eq!(started.elapsed(), s(10));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_get_leaves_its_key_in_front() {
    let queue = WorkQueue::new();
    // At any progress of the future.
    for polls in 0..6 {
        let mut get = Box::pin(queue.get());
        let waker = Waker::from(Arc::new(Count::default()));
        for _ in 0..polls {
            assert!(get.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        queue.add("a");
        queue.add("b");
        drop(get);
        assert_eq!(queue.len(), 2);
        for expected in ["a", "b"] {
            let item = queue.get().await.unwrap();
            assert_eq!(*item, expected, "after {polls} polls");
            item.done();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_is_passed_on_when_its_worker_is_cancelled() {
    let queue = WorkQueue::new();
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let mut cancelled = Box::pin(queue.get());
    let mut other = Box::pin(queue.get());
    assert!(poll_until_it_waits(&mut cancelled, &first).is_pending());
    assert!(poll_until_it_waits(&mut other, &second).is_pending());
    let (first_woken, second_woken) = (first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst));
    queue.add("a");
    assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (first_woken + 1, second_woken));
    drop(cancelled);
    assert_eq!(second.0.load(Ordering::SeqCst), second_woken + 1, "the other worker was not woken");
    assert!(poll_until_it_waits(&mut other, &second).is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_gives_its_key_back_with_back_off() {
    let queue = WorkQueue::new();
    queue.add("a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await;
            panic!("as planned");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!((queue.len(), queue.delayed(), queue.retries(&"a")), (0, 1, 1));
    assert_eq!(*queue.get().await.unwrap(), "a");
}

/// A limiter that always panics.
struct Panics;

impl RateLimiter<&'static str> for Panics {
    fn when(&mut self, _: &&'static str, _: std::time::Instant) -> Duration {
        panic!("as planned");
    }

    fn forget(&mut self, _: &&'static str) {}

    fn retries(&self, _: &&'static str) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_gets_the_key_whose_rate_limiter_panicked() {
    let queue = WorkQueue::with_rate_limiter(Panics);
    queue.add("a");
    let item = queue.get_owned().await.unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(Item::done) }
    });
    tokio::task::yield_now().await;
    let failed = tokio::spawn(async move { item.retry() });
    assert!(failed.await.unwrap_err().is_panic());
    let worked = tokio::time::timeout(s(60), waiting).await.expect("the waiting worker was not notified").unwrap();
    assert_eq!((worked, queue.delayed()), (Some(()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_cancelled_at_any_await_gives_its_key_back() {
    for polls in 0..8 {
        let queue = WorkQueue::new();
        queue.add("a");
        {
            let work = async {
                let item = queue.get().await.unwrap();
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                item.retry();
                std::future::pending::<()>().await;
            };
            let mut work = pin!(work);
            for _ in 0..polls {
                let waker = Waker::from(Arc::new(Count::default()));
                assert!(work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }
        assert_eq!(*queue.get().await.unwrap(), "a", "lost after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_decide_when_a_key_comes_back() {
    let queue = WorkQueue::with_rate_limiter(ItemFastSlowRateLimiter::new(s(1), s(60), 1));
    let started = Instant::now();
    queue.add("a");
    queue.get().await.unwrap().retry();
    let item = queue.get().await.unwrap();
    assert_eq!((started.elapsed(), queue.retries(&item)), (s(1), 1));
    item.retry();
    let item = queue.get().await.unwrap();
    assert_eq!((started.elapsed(), queue.retries(&item)), (s(61), 2));
    item.requeue_after(s(9));
    let item = queue.get().await.unwrap();
    assert_eq!((started.elapsed(), queue.retries(&item)), (s(70), 0));
    item.done();
    assert_eq!((queue.len(), queue.delayed()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_spreads_keys_over_time() {
    let queue = WorkQueue::with_rate_limiter(BucketRateLimiter::new(1.0, 2).unwrap());
    let started = Instant::now();
    (0..5).for_each(|key| queue.add_rate_limited(key));
    let mut arrivals = Vec::new();
    for _ in 0..5 {
        let item = queue.get().await.unwrap();
        arrivals.push((*item, started.elapsed().as_secs()));
        item.done();
    }
    assert_eq!(arrivals, [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)]);
}

#[tokio::test(start_paused = true)]
async fn shut_down_hands_out_what_is_ready_and_then_ends_workers() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_after("delayed", s(1));
    queue.shut_down();
    queue.shut_down();
    queue.add("too late");
    queue.add_with("too late", AddOptions::new().priority(3));
    assert!(queue.is_shut_down());
    queue.get().await.unwrap().done();
    assert!(queue.get().await.is_none());
    assert_eq!((queue.len(), queue.delayed()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shut_down_wakes_every_worker_that_waits() {
    let queue = WorkQueue::<u32>::new();
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::time::advance(s(1)).await;
    queue.shut_down();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_every_key_to_be_done() {
    let queue = WorkQueue::new();
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key));
    let item = queue.get().await.unwrap();
    queue.add(*item); // once more afterwards
    let drained = tokio::spawn(queue.shut_down_with_drain());
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut keys = Vec::new();
            while let Some(item) = queue.get().await {
                tokio::time::sleep(s(5)).await;
                keys.push(*item);
                item.done();
            }
            keys
        }
    });
    tokio::time::sleep(s(1)).await;
    item.done();
    tokio::time::sleep(s(1)).await;
    assert!(!drained.is_finished());
    assert!(drained.await.unwrap());
    assert_eq!(worker.await.unwrap(), ["b", "c", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_waits_for_keys_that_come_once_more() {
    // One task takes keys, and others process them. At shutdown it must not end while another task
    // may give back a key that was added again, or no task would be left to take it.
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.get_owned().await.unwrap();
    queue.add("a");
    let drained = tokio::spawn(queue.shut_down_with_drain());
    let dispatcher = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut keys = Vec::new();
            while let Some(item) = queue.get().await {
                keys.push(*item);
                item.done();
            }
            keys
        }
    });
    tokio::time::sleep(s(1)).await;
    assert!(!dispatcher.is_finished() && !drained.is_finished());
    item.done();
    assert_eq!(dispatcher.await.unwrap(), ["a"]);
    assert!(drained.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_end_of_keys_lets_others_run() {
    const KEYS: u32 = 10_000;
    let queue = WorkQueue::new();
    (0..KEYS).for_each(|key| queue.add(key));
    queue.shut_down();
    let worker = async {
        let mut keys = 0;
        while let Some(item) = queue.get().await {
            item.done();
            keys += 1;
        }
        keys
    };
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let keys = tokio::select! {
        biased;
        keys = worker => keys,
        () = others => 0,
    };
    assert_eq!(keys, KEYS);
    assert!(turns > 10, "others had {turns} turns");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_alone_is_not_late() {
    let queue = WorkQueue::new();
    let started = Instant::now();
    queue.add_after("a", Duration::from_millis(5));
    let mut arrivals = Vec::new();
    for _ in 0..5 {
        let item = queue.get().await.unwrap();
        arrivals.push(started.elapsed().as_millis());
        item.requeue_after(Duration::from_millis(5));
    }
    assert_eq!(arrivals, [5, 10, 15, 20, 25]);
}

#[tokio::test(start_paused = true)]
async fn a_huge_delay_is_waited_for_and_another_comes_before_it() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::time::sleep(s(1)).await;
    queue.add_after("soon", s(1));
    assert_eq!(worker.await.unwrap(), Some("soon"));
}

#[tokio::test(start_paused = true)]
async fn draining_begins_without_being_awaited() {
    let queue = WorkQueue::new();
    drop(queue.shut_down_with_drain());
    queue.add("too late");
    assert!(queue.is_shut_down() && queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_later_shut_down_ends_the_wait_for_draining() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.get().await.unwrap();
    let drained = tokio::spawn(queue.shut_down_with_drain());
    tokio::time::sleep(s(1)).await;
    queue.shut_down();
    assert!(!drained.await.unwrap());
    item.done();
}

#[tokio::test(start_paused = true)]
async fn a_key_dropped_while_draining_is_not_tried_again() {
    let queue = WorkQueue::new();
    queue.add("a");
    let item = queue.get().await.unwrap();
    let drained = tokio::spawn(queue.shut_down_with_drain());
    tokio::time::sleep(s(1)).await;
    drop(item);
    assert!(drained.await.unwrap());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_drained_at_once() {
    assert!(WorkQueue::<u32>::new().shut_down_with_drain().await);
}

#[test]
fn no_runtime_is_needed_without_delays() {
    let queue = WorkQueue::new();
    queue.add("a");
    let count = Arc::new(Count::default());
    let mut get = Box::pin(queue.get());
    let Poll::Ready(Some(item)) = poll_until_it_waits(&mut get, &count) else { panic!("a key is ready") };
    item.done();
}

/// Many producers and many workers on real threads: every key is processed after its last add, by
/// one worker at a time.
#[test]
fn no_key_is_lost_and_none_is_worked_on_twice_at_a_time() {
    const KEYS: usize = 50;
    const PRODUCERS: usize = 4;
    const WORKERS: usize = 6;
    let rounds = if std::env::var_os("STEERSMAN_SOAK").is_some() { 200_000 } else { 5_000 };
    let queue = WorkQueue::<usize>::new();
    let at_work: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    // How often a key was added, counted before the add; and the count that a worker saw when it
    // began.
    let wanted: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let seen: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let shared = Arc::new((at_work, wanted, seen));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (queue, shared) = (queue.clone(), Arc::clone(&shared));
            runtime.spawn(async move {
                let mut outcomes = worker;
                while let Some(item) = queue.get().await {
                    let (at_work, wanted, seen) = &*shared;
                    let others = at_work[*item].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(others, 0, "two workers have {}", *item);
                    let before = wanted[*item].load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    seen[*item].fetch_max(before, Ordering::SeqCst);
                    at_work[*item].fetch_sub(1, Ordering::SeqCst);
                    outcomes += 1;
                    match outcomes % 5 {
                        0 => drop(item),
                        1 => item.retry(),
                        2 => item.requeue_after(Duration::from_micros(50)),
                        _ => item.done(),
                    }
                }
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (queue, shared) = (&queue, &shared);
            scope.spawn(move || {
                for round in 0..rounds {
                    let key = (round * 31 + producer * 7) % KEYS;
                    shared.1[key].fetch_add(1, Ordering::SeqCst);
                    match round % 7 {
                        0 => queue.add_after(key, Duration::from_micros(100)),
                        1 => queue.add_with(key, AddOptions::new().priority(5)),
                        _ => queue.add(key),
                    }
                }
            });
        }
    });
    let (_, wanted, seen) = &*shared;
    // Keys that were retried or delayed come back. Wait until each was seen after its last add.
    let started = std::time::Instant::now();
    let behind = || -> HashMap<usize, (usize, usize)> {
        let states = (0..KEYS).map(|key| (key, (seen[key].load(Ordering::SeqCst), wanted[key].load(Ordering::SeqCst))));
        states.filter(|(_, (seen, wanted))| seen != wanted).collect()
    };
    while !behind().is_empty() {
        assert!(started.elapsed() < s(60), "lost keys (seen, wanted): {:?}", behind());
        std::thread::yield_now();
    }
    runtime.block_on(async {
        assert!(queue.shut_down_with_drain().await);
        for worker in workers {
            worker.await.unwrap();
        }
    });
}
