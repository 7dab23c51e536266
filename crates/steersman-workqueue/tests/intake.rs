//! Plain adds are put down and taken in later. None of that shows: each of these keys would be handed out too often, too soon or
//! in another order if it did.
#![cfg(not(steersman_loom))]

use std::time::Duration;

use steersman_workqueue::{Item, ItemFastSlowRateLimiter, WorkQueue};
use tokio::time::{Instant, advance};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A queue whose worker has "busy", so that nobody waits and adds are put down; and that item.
async fn busy_queue() -> (WorkQueue<&'static str>, Item<'static, &'static str>) {
    let queue = WorkQueue::with_rate_limiter(ItemFastSlowRateLimiter::new(s(10), s(10), 1));
    queue.add("busy");
    let item = queue.get_owned().await.expect("it is ready");
    (queue, item)
}

/// Takes in what was put down.
fn take_in(queue: &WorkQueue<&'static str>) {
    let _ = queue.len();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_again_while_it_is_ready_is_handed_out_once() {
    let (queue, busy) = busy_queue().await;
    queue.add("a");
    queue.add("b");
    take_in(&queue);
    queue.add("b");
    queue.add("a");
    for expected in ["a", "b"] {
        let item = queue.get().await.unwrap();
        assert_eq!(*item, expected);
        item.done();
    }
    busy.done();
    assert_eq!(queue.len(), 0, "a key was handed out once more");
}

#[tokio::test(start_paused = true)]
async fn an_add_after_the_key_was_handed_out_counts_also_in_a_burst() {
    let (queue, busy) = busy_queue().await;
    queue.add("a");
    take_in(&queue);
    queue.add("a");
    let item = queue.get().await.unwrap();
    // The last thing that was put down is the same add: this one must not be taken for it.
    queue.add("a");
    item.done();
    assert_eq!(queue.len(), 1, "the add was lost");
    busy.done();
}

#[tokio::test(start_paused = true)]
async fn an_add_before_a_delay_is_over_leaves_one_delivery_also_when_nobody_looked() {
    let (queue, busy) = busy_queue().await;
    queue.add_after("a", s(5));
    advance(s(3)).await;
    queue.add("a");
    advance(s(3)).await;
    queue.get().await.unwrap().done();
    busy.done();
    assert_eq!((queue.len(), queue.delayed()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_although_its_key_was_added_before_it_was_handed_out() {
    let (queue, busy) = busy_queue().await;
    queue.add("a");
    take_in(&queue);
    queue.add("a");
    queue.get().await.unwrap().retry();
    assert_eq!((queue.len(), queue.delayed()), (0, 1));
    let started = Instant::now();
    assert_eq!(*queue.get().await.unwrap(), "a");
    assert_eq!(started.elapsed(), s(10));
    busy.done();
}

#[tokio::test(start_paused = true)]
async fn what_was_added_before_a_delay_was_over_comes_before_it() {
    let (queue, busy) = busy_queue().await;
    queue.add_after("delayed", s(5));
    queue.add("a");
    advance(s(6)).await;
    for expected in ["a", "delayed"] {
        let item = queue.get().await.unwrap();
        assert_eq!(*item, expected);
        item.done();
    }
    busy.done();
}
