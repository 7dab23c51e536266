//! What a queue is made with.
#![cfg(not(steersman_loom))]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use steersman_workqueue::metrics::QueueMetrics;
use steersman_workqueue::{AddOptions, WorkQueue};
use tokio::time::advance;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Adds a key, five seconds later another one whose priority is higher by 2, and returns them as
/// they are handed out.
async fn order(queue: WorkQueue<&'static str>) -> [&'static str; 2] {
    queue.add_with("early", AddOptions::new().priority(1));
    advance(s(5)).await;
    queue.add_with("urgent", AddOptions::new().priority(3));
    let mut keys = [""; 2];
    for key in &mut keys {
        let item = queue.get().await.unwrap();
        *key = item.key();
        item.done();
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn ageing_sets_how_long_a_point_of_priority_overtakes() {
    // Two points are worth two seconds, and the key comes five seconds later.
    assert_eq!(order(WorkQueue::new().with_ageing(s(1))).await, ["early", "urgent"]);
    assert_eq!(order(WorkQueue::new().with_ageing(s(3))).await, ["urgent", "early"]);
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn push(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }
}

impl QueueMetrics for Notes {
    fn depth(&mut self, _: i8, _: usize) {}

    fn add(&mut self) {
        self.push("add");
    }

    fn queue_duration(&mut self, waited: Duration) {
        self.push(format!("waited {waited:?}"));
    }

    fn work_duration(&mut self, worked: Duration) {
        self.push(format!("worked {worked:?}"));
    }

    fn retry(&mut self) {
        self.push("retry");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_get_the_events_of_the_queue() {
    let notes = Notes::default();
    let queue = WorkQueue::new().with_metrics(notes.clone());
    queue.add("a");
    advance(s(3)).await;
    let item = queue.get().await.unwrap();
    advance(s(2)).await;
    item.done();
    queue.add_after("a", s(60));
    assert_eq!(*notes.0.lock().unwrap(), ["add", "waited 3s", "worked 2s", "retry"]);
}
