//! Map functions that wait, for the client for instance.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use steersman_cache::{Cached, Event, Object, ObjectKey};
use steersman_workqueue::{AddOptions, WorkQueue};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::enqueue::{LOW_PRIORITY, Panics, merge};
use crate::ReconcileError;
use crate::flight_recorder::Causes;
use crate::layer::panic_message;

/// How many calls of one map function run at a time.
const CONCURRENT_MAX: usize = 16;
/// The first wait after a call that failed. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest wait after a call that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The keys that a state of an object concerns.
pub(crate) type AsyncMapFn<K> =
    dyn Fn(Cached<K>) -> BoxFuture<'static, Result<Vec<ObjectKey>, ReconcileError>> + Send + Sync;

/// Changes that wait for an async map function. Changes of one object are merged, so a slow
/// function takes memory by the number of objects.
pub(crate) struct AsyncMap<K> {
    map: Arc<AsyncMapFn<K>>,
    waiting: Mutex<Waiting<K>>,
    changed: Notify,
}

struct Waiting<K> {
    order: VecDeque<ObjectKey>,
    changes: HashMap<ObjectKey, Change<K>>,
}

/// The states of an object that the function has to see.
struct Change<K> {
    new: Cached<K>,
    old: Option<Cached<K>>,
    is_low: bool,
    causes: Causes,
}

impl<K: Object> AsyncMap<K> {
    pub(crate) fn new(map: Arc<AsyncMapFn<K>>) -> Self {
        let waiting = Mutex::new(Waiting { order: VecDeque::new(), changes: HashMap::new() });
        Self { map, waiting, changed: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change. `is_low` is for initial objects and resyncs.
    pub(crate) fn push(&self, event: &Event<K>, is_low: bool, causes: Causes) {
        let (new, old) = match event {
            Event::Update { old, new } if !old.is_same_state(new) => (new.clone(), Some(old.clone())),
            event => (event.object().clone(), None),
        };
        let key = new.key();
        let mut waiting = self.waiting();
        let Waiting { order, changes } = &mut *waiting;
        match changes.get_mut(&key) {
            // The first old state and the last new one are enough: states in between begin and end
            // with the merged change.
            Some(change) => {
                let before = change.old.take().unwrap_or_else(|| change.new.clone());
                *change = Change { new, old: Some(before), is_low: change.is_low && is_low, causes };
            }
            None => {
                order.push_back(key.clone());
                changes.insert(key, Change { new, old, is_low, causes });
            }
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<Change<K>> {
        let mut waiting = self.waiting();
        let key = waiting.order.pop_front()?;
        waiting.changes.remove(&key)
    }

    /// Maps changes until it is dropped.
    pub(crate) async fn run(self: Arc<Self>, queue: WorkQueue<ObjectKey, Causes>, kind: String, panics: Arc<Panics>) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < CONCURRENT_MAX {
                let Some(change) = self.pop() else { break };
                running.push(self.map(change, &queue, &kind, &panics));
            }
            tokio::select! {
                biased;
                Some(()) = running.next() => {}
                () = self.changed.notified(), if running.len() < CONCURRENT_MAX => {}
            }
        }
    }

    async fn map(&self, change: Change<K>, queue: &WorkQueue<ObjectKey, Causes>, kind: &str, panics: &Panics) {
        let options = AddOptions::new().priority(if change.is_low { LOW_PRIORITY } else { 0 });
        let mut keys = self.keys(change.new, kind, panics).await;
        if let Some(old) = change.old {
            merge(&mut keys, self.keys(old, kind, panics).await);
        }
        keys.into_iter().for_each(|key| queue.add_with_payload(key, options, change.causes.clone()));
    }

    /// Calls the function until it succeeds. After a panic there are no keys.
    async fn keys(&self, object: Cached<K>, kind: &str, panics: &Panics) -> Vec<ObjectKey> {
        let mut retry_in = FIRST_RETRY;
        loop {
            let call = AssertUnwindSafe(async { (self.map)(object.clone()).await });
            let controller = &*panics.controller;
            match call.catch_unwind().await {
                Ok(Ok(keys)) => return keys,
                Ok(Err(error)) => {
                    let object = object.key();
                    tracing::warn!(controller, kind, %object, %error, ?retry_in, "map function failed, will retry");
                    sleep(retry_in).await;
                    retry_in = LONGEST_RETRY.min(retry_in * 2);
                }
                Err(panic) => {
                    panics.total.fetch_add(1, Ordering::Relaxed);
                    let (object, panic) = (object.key(), panic_message(&*panic));
                    tracing::error!(controller, kind, %object, panic, "a map function panicked");
                    return Vec::new();
                }
            }
        }
    }
}
