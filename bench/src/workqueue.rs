//! The work queue jobs of this project's contestant. `bench/README.md` describes each of them; the
//! Go contestant's files of the same names do the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use steersman_workqueue::{AddOptions, ItemExponentialFailureRateLimiter, RateLimiter, WorkQueue, client_go_default};
use tokio::task::JoinHandle;

use crate::contestant::{Ask, Cost, Outcome, Stopwatch, memory, reset_peak};

/// The shortest total time of a job's repetitions, so that the resolution of the clock does not
/// matter.
const ENOUGH_WORK: Duration = Duration::from_millis(300);
/// The producer yields after this number of keys, as an event handler does between two batches of
/// events. A tokio task that never waits keeps its thread, and with it the worker that it has
/// woken; Go's scheduler preempts it.
const BATCH: usize = 256;
/// The priority of an initial list.
const LOW_PRIORITY: i8 = -100;
/// How often each key is added in a row: a burst of changes to one object.
const ADDS_PER_KEY: u64 = 10;
/// How often each key fails.
const FAILURES_PER_KEY: u64 = 5;
/// Visits the delays in an order that is neither rising nor falling; a prime, so that none is left
/// out.
const DELAY_STRIDE: u64 = 7919;

/// Runs one of the work queue jobs. Must be called in a runtime.
pub async fn run(ask: &Ask) -> Result<Outcome> {
    match ask.job.as_str() {
        "workqueue-together" => Ok(flow(ask, Shape::Together).await),
        "workqueue-queued" => Ok(flow(ask, Shape::Queued).await),
        "workqueue-priority" => Ok(flow(ask, Shape::Priorities).await),
        "workqueue-dedup" => Ok(dedup(ask).await),
        "workqueue-delay" => Ok(delay(ask).await),
        "workqueue-ratelimit" => rate_limit(ask),
        other => bail!("no work queue job is called {other:?}"),
    }
}

/// A key is cloned as cheaply as Go copies a string: its text is shared.
type Key = Arc<str>;

fn keys(count: u64) -> Vec<Key> {
    (0..count).map(|i| format!("ns-{}/name-{i}", i % 100).into()).collect()
}

/// The queue that client-go's contestant uses.
fn queue() -> WorkQueue<Key> {
    WorkQueue::with_rate_limiter(client_go_default())
}

/// Workers that take from a queue until it is shut down and empty, and say how many keys they had.
fn start_workers(queue: &WorkQueue<Key>, count: u64) -> Vec<JoinHandle<u64>> {
    let worker = || {
        let queue = queue.clone();
        tokio::spawn(async move {
            let mut handled = 0;
            while let Some(item) = queue.get().await {
                item.done();
                handled += 1;
            }
            handled
        })
    };
    (0..count).map(|_| worker()).collect()
}

async fn wait(workers: Vec<JoinHandle<u64>>) -> u64 {
    let mut count = 0;
    for worker in workers {
        count += worker.await.expect("workers do not panic");
    }
    count
}

enum Shape {
    /// Workers take keys while they are added.
    Together,
    /// Workers start when all keys are there.
    Queued,
    /// Workers take keys while they are added, every other one with the priority of an initial
    /// list.
    Priorities,
}

impl Shape {
    fn add(&self, queue: &WorkQueue<Key>, batch: &[Key]) {
        if let Self::Priorities = self {
            for (i, key) in batch.iter().enumerate() {
                let priority = if i % 2 == 0 { LOW_PRIORITY } else { 0 };
                queue.add_with(Arc::clone(key), AddOptions::new().priority(priority));
            }
        } else {
            batch.iter().for_each(|key| queue.add(Arc::clone(key)));
        }
    }
}

async fn flow(ask: &Ask, shape: Shape) -> Outcome {
    let keys = keys(ask.size);
    let (mut count, mut repeats) = (0, 0);
    let mut cost = Cost::default();
    let mut draining = Duration::ZERO;
    while cost.wall < ENOUGH_WORK {
        let queue = queue();
        let mut workers = Vec::new();
        if !matches!(shape, Shape::Queued) {
            workers = start_workers(&queue, ask.workers);
        }
        let stopwatch = Stopwatch::start();
        for batch in keys.chunks(BATCH) {
            shape.add(&queue, batch);
            // Without workers, no other task has to run.
            if !matches!(shape, Shape::Queued) {
                tokio::task::yield_now().await;
            }
        }
        queue.shut_down(); // What is in the queue is still handed out.
        let queued = Instant::now();
        if let Shape::Queued = shape {
            workers = start_workers(&queue, ask.workers);
        }
        count += wait(workers).await;
        draining += queued.elapsed();
        cost += stopwatch.cost();
        repeats += 1;
    }
    let mut figures = vec![("repeats", f64::from(repeats)), ("ns_per_item", nanoseconds_each(cost.wall, count))];
    if let Shape::Queued = shape {
        figures.push(("drain_ns_per_item", nanoseconds_each(draining, count)));
    }
    Outcome { count, cost, memory: None, figures }
}

async fn dedup(ask: &Ask) -> Outcome {
    let keys = keys(ask.size);
    let (mut count, mut adds, mut repeats) = (0, 0, 0);
    let mut cost = Cost::default();
    while cost.wall < ENOUGH_WORK {
        let queue = queue();
        let workers = start_workers(&queue, ask.workers);
        let stopwatch = Stopwatch::start();
        for batch in keys.chunks(BATCH) {
            for key in batch {
                for _ in 0..ADDS_PER_KEY {
                    queue.add_ref(key);
                    adds += 1;
                }
            }
            tokio::task::yield_now().await;
        }
        queue.shut_down();
        count += wait(workers).await;
        cost += stopwatch.cost();
        repeats += 1;
    }
    let figures = vec![
        ("repeats", f64::from(repeats)),
        ("adds", adds as f64),
        ("ns_per_item", nanoseconds_each(cost.wall, adds)),
    ];
    Outcome { count, cost, memory: None, figures }
}

async fn delay(ask: &Ask) -> Outcome {
    let keys = keys(ask.size);
    reset_peak();
    let before = memory().resident.unwrap_or(0);
    let queue = queue();
    let fired = Arc::new(AtomicU64::new(0));
    let worker = || {
        let (queue, fired, size) = (queue.clone(), Arc::clone(&fired), ask.size);
        tokio::spawn(async move {
            while let Some(item) = queue.get().await {
                item.done();
                if fired.fetch_add(1, Ordering::Relaxed) + 1 == size {
                    queue.shut_down();
                }
            }
        })
    };
    let workers: Vec<_> = (0..ask.workers).map(|_| worker()).collect();
    let stopwatch = Stopwatch::start();
    for (i, key) in (0..).zip(&keys) {
        let share = (i * DELAY_STRIDE % ask.size) as f64 / ask.size as f64;
        queue.add_after(Arc::clone(key), Duration::from_secs(ask.window).mul_f64(share));
    }
    for worker in workers {
        worker.await.expect("workers do not panic");
    }
    let cost = stopwatch.cost();
    let bytes = memory().peak.unwrap_or(0).saturating_sub(before);
    let count = fired.load(Ordering::Relaxed);
    Outcome { count, cost, memory: None, figures: vec![("bytes_per_key", bytes as f64 / ask.size as f64)] }
}

fn rate_limit(ask: &Ask) -> Result<Outcome> {
    let keys = keys(ask.size);
    let now = Instant::now();
    let (mut count, mut calls, mut repeats) = (0, 0, 0);
    let (mut cost, mut asking) = (Cost::default(), Duration::ZERO);
    while cost.wall < ENOUGH_WORK {
        let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000));
        let stopwatch = Stopwatch::start();
        let mut sum = Duration::ZERO;
        for _ in 0..FAILURES_PER_KEY {
            for key in &keys {
                sum += limiter.when(key, now);
            }
        }
        asking += stopwatch.cost().wall;
        for key in keys.iter().step_by(2) {
            limiter.forget(key);
        }
        count += keys.iter().filter(|key| limiter.retries(key) > 0).count() as u64;
        cost += stopwatch.cost();
        // 5, 10, 20, 40 and 80 ms for every key.
        let expected = Duration::from_millis(155 * ask.size);
        ensure!(sum == expected, "the limiter asked for {sum:?} in all, not for {expected:?}");
        calls += ask.size * FAILURES_PER_KEY;
        repeats += 1;
    }
    let figures = vec![("repeats", f64::from(repeats)), ("ns_per_item", nanoseconds_each(asking, calls))];
    Ok(Outcome { count, cost, memory: None, figures })
}

fn nanoseconds_each(wall: Duration, count: u64) -> f64 {
    wall.as_nanos() as f64 / count.max(1) as f64
}
