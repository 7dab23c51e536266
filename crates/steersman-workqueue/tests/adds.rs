//! Adds of a key that the queue holds already, in tokio's paused time.
#![cfg(not(steersman_loom))]

use std::time::Duration;

use steersman_workqueue::{AddOptions, Item, ItemFastSlowRateLimiter, WorkQueue};
use tokio::time::Instant;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn every_operation_sees_the_adds_before_it() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.len(), 1);
    queue.add("b");
    assert!(!queue.is_empty());
    queue.add("c");
    queue.add_after("c", s(1));
    assert_eq!((queue.len(), queue.delayed()), (3, 0));
    queue.add_after("d", s(1));
    queue.add("d");
    assert_eq!((queue.len(), queue.delayed()), (4, 0));
    queue.add("e");
    queue.add_with("f", AddOptions::new().priority(-1));
    queue.add("g");
    queue.shut_down();
    let mut keys = Vec::new();
    while let Some(item) = queue.get().await {
        keys.push(*item);
        item.done();
    }
    assert_eq!(keys, ["a", "b", "c", "d", "e", "g", "f"]);
}

/// A queue whose only worker holds "busy", so that no worker waits; and that item.
async fn busy_queue() -> (WorkQueue<&'static str>, Item<'static, &'static str>) {
    let queue = WorkQueue::with_rate_limiter(ItemFastSlowRateLimiter::new(s(10), s(10), 1));
    queue.add("busy");
    let item = queue.get_owned().await.expect("it is ready");
    (queue, item)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_again_while_it_is_ready_is_handed_out_once() {
    let (queue, busy) = busy_queue().await;
    for key in ["a", "b", "b", "a"] {
        queue.add(key);
    }
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
    queue.add("a");
    let item = queue.get().await.unwrap();
    queue.add("a");
    item.done();
    assert_eq!(queue.len(), 1, "the add was lost");
    busy.done();
}

#[tokio::test(start_paused = true)]
async fn an_add_before_a_delay_is_over_leaves_one_delivery() {
    let (queue, busy) = busy_queue().await;
    queue.add_after("a", s(5));
    tokio::time::advance(s(3)).await;
    queue.add("a");
    tokio::time::advance(s(3)).await;
    queue.get().await.unwrap().done();
    busy.done();
    assert_eq!((queue.len(), queue.delayed()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_although_its_key_was_added_before_it_was_handed_out() {
    let (queue, busy) = busy_queue().await;
    queue.add("a");
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
    tokio::time::advance(s(6)).await;
    for expected in ["a", "delayed"] {
        let item = queue.get().await.unwrap();
        assert_eq!(*item, expected);
        item.done();
    }
    busy.done();
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_one_key_is_one_key() {
    let queue = WorkQueue::new();
    for _ in 0..100_000 {
        queue.add("a");
    }
    assert_eq!(queue.len(), 1);
}
