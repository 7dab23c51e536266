//! The work queue: events add keys, two workers take them. One key fails twice, one worker panics,
//! one key is added while it is processed, one is added with a delay, and one has a higher
//! priority. Every line is printed when it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steersman::workqueue::{AddOptions, ItemExponentialFailureRateLimiter, WorkQueue};

const WORKERS: usize = 2;
/// How long the simulated work on a key takes.
const WORK: Duration = Duration::from_millis(30);
/// Whether default/web has been added once more.
static ADDED_AGAIN: AtomicBool = AtomicBool::new(false);

/// Prints lines with the time since the start.
#[derive(Clone, Copy)]
struct Log(Instant);

impl Log {
    fn line(self, who: &str, what: &str) {
        println!("{:>5} ms  {who:<9} {what}", self.0.elapsed().as_millis());
    }
}

#[tokio::main]
async fn main() {
    let log = Log(Instant::now());
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(
        Duration::from_millis(100),
        Duration::from_secs(10),
    ));
    // A worker that panics is reported by its line below, not by a backtrace.
    std::panic::set_hook(Box::new(|_| {}));

    log.line("events", "default/web is added three times, default/db and default/cache once");
    for key in ["default/web", "default/web", "default/web", "default/db", "default/cache"] {
        queue.add(key);
    }
    log.line("events", "default/report is added for 400 ms from now");
    queue.add_after("default/report", Duration::from_millis(400));
    log.line("events", "default/urgent is added with priority 10");
    queue.add_with("default/urgent", AddOptions::new().priority(10));

    let tries = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (1..=WORKERS)
        .map(|number| {
            let (queue, tries) = (queue.clone(), Arc::clone(&tries));
            tokio::spawn(async move {
                let name = format!("worker {number}");
                // A panic ends one attempt of one key: the key comes back, and the worker
                // continues.
                while !matches!(tokio::spawn(work(queue.clone(), name.clone(), log)).await, Ok(None)) {
                    tries.fetch_add(1, Ordering::Relaxed);
                }
                log.line(&name, "stops");
            })
        })
        .collect();

    labs::drained(&queue).await;
    log.line("main", "shuts the queue down and waits for the workers");
    let drained = queue.shut_down_with_drain().await;
    for worker in workers {
        worker.await.expect("the workers' loops do not panic");
    }
    log.line(
        "main",
        &format!("{} attempts, drained: {drained}, keys left: {}", tries.load(Ordering::Relaxed), queue.len()),
    );
}

/// One attempt of one key. `None` when the queue is empty.
async fn work(queue: WorkQueue<&'static str>, name: String, log: Log) -> Option<()> {
    let item = queue.get().await?;
    let failures = queue.retries(&item);
    log.line(&name, &format!("has {} (failed {failures} times before)", *item));
    tokio::time::sleep(WORK).await;
    match (*item, failures) {
        ("default/db", 0 | 1) => {
            log.line(&name, "fails on default/db: it comes back after a pause that doubles");
            item.retry();
        }
        ("default/cache", 0) => {
            log.line(&name, "panics on default/cache: it is retried");
            panic!("as planned");
        }
        ("default/web", 0) if !ADDED_AGAIN.swap(true, Ordering::Relaxed) => {
            log.line(&name, "still has default/web when it is added again: it will be processed once more");
            queue.add("default/web");
            tokio::time::sleep(WORK + Duration::from_millis(150)).await;
            item.done();
        }
        (key, _) => {
            log.line(&name, &format!("is done with {key}"));
            item.done();
        }
    }
    Some(())
}
