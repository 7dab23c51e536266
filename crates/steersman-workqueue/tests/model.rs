//! The queue against a slow and obvious model: random operations of several workers with a clock
//! that the test advances. First the core, then the queue with waiting.
#![cfg(not(steersman_loom))]

use std::collections::HashMap;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use steersman_workqueue::{AddOptions, Core, Item, ItemExponentialFailureRateLimiter, Outcome, Ticket, WorkQueue};

const BASE: Duration = Duration::from_millis(4);
const MAX: Duration = Duration::from_millis(50);
/// The worth of a point of priority.
const WORTH_MS: i64 = 10;

type Key = u8;

#[derive(Clone, Debug)]
enum Operation {
    Add {
        key: Key,
        priority: i8,
        delay: Option<u64>,
    },
    AddRateLimited {
        key: Key,
    },
    Forget {
        key: Key,
    },
    Get,
    /// A worker that holds a key reports an outcome.
    Finish {
        worker: usize,
        outcome: Outcome,
    },
    Pass {
        milliseconds: u64,
    },
    ShutDown,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = 0..6_u8;
    let priority = prop_oneof![4 => Just(0_i8), 1 => Just(-2), 1 => Just(1), 1 => Just(3)];
    let delay = prop_oneof![3 => Just(None), 2 => (0..40_u64).prop_map(Some)];
    let outcome = prop_oneof![
        3 => Just(Outcome::Done),
        1 => Just(Outcome::Retry),
        1 => (0..40_u64).prop_map(|ms| Outcome::RequeueAfter(Duration::from_millis(ms))),
    ];
    prop_oneof![
        8 => (key.clone(), priority, delay).prop_map(|(key, priority, delay)| Operation::Add { key, priority, delay }),
        1 => key.clone().prop_map(|key| Operation::AddRateLimited { key }),
        1 => key.prop_map(|key| Operation::Forget { key }),
        6 => Just(Operation::Get),
        6 => (0..4_usize, outcome).prop_map(|(worker, outcome)| Operation::Finish { worker, outcome }),
        3 => (0..30_u64).prop_map(|milliseconds| Operation::Pass { milliseconds }),
        1 => Just(Operation::ShutDown),
    ]
}

/// The state of a key.
#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    priority: i8,
    pending: Pending,
    processing: bool,
    /// When it got to its current state, for the order of equal keys.
    order: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Pending {
    No,
    Ready { since: u64 },
    Delayed { until: u64 },
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    failures: HashMap<Key, u32>,
    now: u64,
    order: u64,
    shut_down: bool,
}

impl Model {
    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn when(&mut self, key: Key) -> u64 {
        let failures = self.failures.entry(key).or_default();
        let wait = (BASE.as_millis() as u64).checked_shl(*failures).unwrap_or(u64::MAX).min(MAX.as_millis() as u64);
        *failures += 1;
        wait
    }

    fn add(&mut self, key: Key, priority: i8, delay: Option<u64>) {
        if self.shut_down {
            return;
        }
        let (now, order) = (self.now, self.next_order());
        if !self.entries.iter().any(|entry| entry.key == key) {
            self.entries.push(Entry { key, priority, pending: Pending::No, processing: false, order });
        }
        let entry = self.entries.iter_mut().find(|entry| entry.key == key).unwrap();
        let wanted = match delay.unwrap_or(0) {
            0 => Pending::Ready { since: now },
            delay => Pending::Delayed { until: now + delay },
        };
        match (&entry.pending, wanted) {
            (Pending::No, wanted) => {
                entry.pending = wanted;
                entry.priority = priority;
                entry.order = order;
            }
            (Pending::Ready { .. }, _) => {
                if priority > entry.priority {
                    entry.priority = priority;
                    if !entry.processing {
                        entry.order = order;
                    }
                }
            }
            (Pending::Delayed { until }, wanted) => {
                let earlier = match wanted {
                    Pending::Delayed { until: new } => new < *until,
                    _ => true,
                };
                entry.priority = entry.priority.max(priority);
                if earlier {
                    entry.pending = wanted;
                    entry.order = order;
                }
            }
        }
    }

    /// Makes keys ready whose time has come, one after the other.
    fn advance(&mut self) {
        loop {
            let due = self.entries.iter().enumerate().filter_map(|(place, entry)| match entry.pending {
                Pending::Delayed { until } if until <= self.now => Some((until, entry.order, place)),
                _ => None,
            });
            let Some((until, _, place)) = due.min() else { return };
            let order = self.next_order();
            self.entries[place].pending = Pending::Ready { since: until };
            self.entries[place].order = order;
        }
    }

    /// The first key of each priority, and of those the one with the smallest rank.
    fn get(&mut self) -> Option<(Key, i8)> {
        self.advance();
        let ready = |entry: &&Entry| matches!(entry.pending, Pending::Ready { .. }) && !entry.processing;
        let mut heads: HashMap<i8, &Entry> = HashMap::new();
        for entry in self.entries.iter().filter(ready) {
            let head = heads.entry(entry.priority).or_insert(entry);
            if entry.order < head.order {
                *head = entry;
            }
        }
        let rank = |entry: &Entry| match entry.pending {
            Pending::Ready { since } => since as i64 - i64::from(entry.priority) * WORTH_MS,
            _ => unreachable!("only ready keys have a rank"),
        };
        let first = heads.values().min_by_key(|entry| (rank(entry), -i16::from(entry.priority)))?.key;
        let entry = self.entries.iter_mut().find(|entry| entry.key == first).unwrap();
        entry.pending = Pending::No;
        entry.processing = true;
        Some((entry.key, entry.priority))
    }

    fn finish(&mut self, key: Key, priority: i8, outcome: Outcome) {
        match outcome {
            Outcome::Done => drop(self.failures.remove(&key)),
            Outcome::Retry => {
                let wait = self.when(key);
                self.add(key, priority, Some(wait));
            }
            Outcome::RequeueAfter(delay) => {
                self.failures.remove(&key);
                self.add(key, priority, Some(delay.as_millis() as u64));
            }
        }
        let order = self.next_order();
        let entry = self.entries.iter_mut().find(|entry| entry.key == key).unwrap();
        entry.processing = false;
        if let Pending::Ready { .. } = entry.pending {
            entry.order = order;
        }
        self.entries.retain(|entry| entry.processing || entry.pending != Pending::No);
    }

    fn shut_down(&mut self) {
        self.shut_down = true;
        for entry in &mut self.entries {
            if let Pending::Delayed { .. } = entry.pending {
                entry.pending = Pending::No;
            }
        }
        self.entries.retain(|entry| entry.processing || entry.pending != Pending::No);
    }

    fn count(&self, matches: impl Fn(&Entry) -> bool) -> usize {
        self.entries.iter().filter(|entry| matches(entry)).count()
    }
}

fn check(operations: Vec<Operation>) {
    let limiter = ItemExponentialFailureRateLimiter::new(BASE, MAX);
    let mut core = Core::with_rate_limiter(limiter);
    core.set_ageing(Duration::from_millis(WORTH_MS as u64));
    let start = Instant::now();
    let mut model = Model::default();
    // The order of keys of equal age is defined only while the queue uses the clock. The first
    // priority turns that on.
    core.add(Key::MAX, AddOptions::new().priority(1), start);
    model.add(Key::MAX, 1, None);
    let mut workers: Vec<(Ticket, Key, i8)> = Vec::new();

    for operation in operations {
        let now = start + Duration::from_millis(model.now);
        match operation {
            Operation::Add { key, priority, delay } => {
                let options = AddOptions::new().priority(priority);
                let options = delay.map_or(options, |ms| options.after(Duration::from_millis(ms)));
                core.add(key, options, now);
                model.add(key, priority, delay);
            }
            Operation::AddRateLimited { key } => {
                core.add(key, AddOptions::new().rate_limited(), now);
                if !model.shut_down {
                    let wait = model.when(key);
                    model.add(key, 0, Some(wait));
                }
            }
            Operation::Forget { key } => {
                core.forget(&key);
                model.failures.remove(&key);
            }
            Operation::Get => {
                let expected = model.get();
                let got = core.get(now);
                assert_eq!(got.as_ref().map(|(ticket, key)| (*key, ticket.priority())), expected);
                if let Some((ticket, key)) = got {
                    assert!(workers.iter().all(|(_, other, _)| *other != key), "two workers have {key}");
                    let priority = ticket.priority();
                    workers.push((ticket, key, priority));
                }
            }
            Operation::Finish { worker, outcome } => {
                if workers.is_empty() {
                    continue;
                }
                let (ticket, key, priority) = workers.swap_remove(worker % workers.len());
                core.finish(ticket, outcome, now);
                model.finish(key, priority, outcome);
            }
            Operation::Pass { milliseconds } => {
                model.now += milliseconds;
                model.advance();
                core.advance(start + Duration::from_millis(model.now));
            }
            Operation::ShutDown => {
                core.shut_down();
                model.shut_down();
            }
        }
        let ready = |entry: &Entry| matches!(entry.pending, Pending::Ready { .. }) && !entry.processing;
        assert_eq!(core.len(), model.count(ready));
        assert_eq!(core.delayed(), model.count(|entry| matches!(entry.pending, Pending::Delayed { .. })));
        assert_eq!(core.keys(), model.entries.len());
        let deadline = model.entries.iter().filter_map(|entry| match entry.pending {
            Pending::Delayed { until } => Some(start + Duration::from_millis(until)),
            _ => None,
        });
        assert_eq!(core.next_deadline(), deadline.min());
        for key in 0..6 {
            assert_eq!(core.retries(&key), model.failures.get(&key).copied().unwrap_or(0));
        }
    }

    // In the end, every remaining key comes out once, and nothing is left.
    model.now += 1_000_000;
    let now = start + Duration::from_millis(model.now);
    for (ticket, key, priority) in workers {
        core.finish(ticket, Outcome::Done, now);
        model.finish(key, priority, Outcome::Done);
    }
    while let Some((key, priority)) = model.get() {
        let (ticket, got) = core.get(now).expect("the model has a key that the queue lost");
        assert_eq!(got, key);
        core.finish(ticket, Outcome::Done, now);
        model.finish(key, priority, Outcome::Done);
    }
    assert!(core.get(now).is_none() && core.is_drained());
    assert_eq!(core.keys(), 0, "nothing is retained");
}

/// What a worker gets that looks for a key: `None` if it has to wait, `Some(None)` if it can end.
fn poll_get(queue: &WorkQueue<Key>) -> Option<Option<Item<'static, Key>>> {
    let mut get = Box::pin(queue.get_owned());
    let mut context = Context::from_waker(Waker::noop());
    // It may yield a few times first.
    (0..5).find_map(|_| match get.as_mut().poll(&mut context) {
        Poll::Ready(item) => Some(item),
        Poll::Pending => None,
    })
}

/// The same for the queue with waiting. Priorities are left out: without them the queue reads no
/// clock while no key is delayed.
async fn check_queue(operations: Vec<Operation>) {
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(BASE, MAX));
    let mut model = Model::default();
    let mut workers: Vec<Item<'static, Key>> = Vec::new();
    let mut draining = None;
    for (number, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Add { key, delay: None, priority } => {
                // Serves as a coin.
                if priority == 0 {
                    queue.add(key);
                } else {
                    queue.add_ref(&key);
                }
                model.add(key, 0, None);
            }
            Operation::Add { key, delay: Some(delay), .. } => {
                queue.add_after(key, Duration::from_millis(delay));
                model.add(key, 0, Some(delay));
            }
            Operation::AddRateLimited { key } => {
                queue.add_rate_limited(key);
                if !model.shut_down {
                    let wait = model.when(key);
                    model.add(key, 0, Some(wait));
                }
            }
            Operation::Forget { key } => {
                queue.forget(&key);
                model.failures.remove(&key);
            }
            Operation::Get => {
                let expected = model.get().map(|(key, _)| key);
                let waits = !model.shut_down || model.count(|entry| entry.pending != Pending::No) > 0;
                match poll_get(&queue) {
                    Some(Some(item)) => {
                        assert_eq!(Some(*item), expected);
                        assert!(workers.iter().all(|other| **other != *item), "two workers have {}", *item);
                        workers.push(item);
                    }
                    other => {
                        assert_eq!(expected, None, "the queue lost a key");
                        assert_eq!(other.is_none(), waits, "a worker waits while something can come, and no longer");
                    }
                }
            }
            Operation::Finish { worker, outcome } => {
                if workers.is_empty() {
                    continue;
                }
                let item = workers.swap_remove(worker % workers.len());
                model.finish(*item, 0, outcome);
                match outcome {
                    Outcome::Done => item.done(),
                    Outcome::Retry if number % 2 == 0 => drop(item),
                    Outcome::Retry => item.retry(),
                    Outcome::RequeueAfter(delay) => item.requeue_after(delay),
                }
            }
            Operation::Pass { milliseconds } => {
                model.now += milliseconds;
                tokio::time::advance(Duration::from_millis(milliseconds)).await;
            }
            Operation::ShutDown => {
                draining = Some(Box::pin(queue.shut_down_with_drain()));
                model.shut_down();
            }
        }
        if number % 7 == 0 {
            model.advance();
            let ready = |entry: &Entry| matches!(entry.pending, Pending::Ready { .. }) && !entry.processing;
            assert_eq!(queue.len(), model.count(ready));
            assert_eq!(queue.delayed(), model.count(|entry| matches!(entry.pending, Pending::Delayed { .. })));
        }
    }

    // In the end, every remaining key comes out once, and the queue is drained.
    model.now += 1_000_000;
    tokio::time::advance(Duration::from_millis(1_000_000)).await;
    for item in workers {
        model.finish(*item, 0, Outcome::Done);
        item.done();
    }
    while let Some((key, _)) = model.get() {
        let left = draining
            .as_mut()
            .is_some_and(|drained| drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(!left, "{key} is not drained");
        let item = poll_get(&queue).flatten().expect("the model has a key that the queue lost");
        assert_eq!(*item, key);
        item.done();
        model.finish(key, 0, Outcome::Done);
    }
    assert_eq!((queue.len(), queue.delayed(), queue.unfinished().count), (0, 0, 0));
    assert!(queue.shut_down_with_drain().await);
    assert!(queue.get().await.is_none());
}

/// Many more under `cargo xtask test --soak`.
fn cases() -> u32 {
    if std::env::var_os("STEERSMAN_SOAK").is_some() { 100_000 } else { 2_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(operations in prop::collection::vec(operation(), 1..120)) {
        check(operations);
    }

    #[test]
    fn the_queue_with_waiting_does_what_the_model_does(operations in prop::collection::vec(operation(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check_queue(operations));
    }
}
