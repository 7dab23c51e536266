//! Map functions that wait, for the client for instance.

use std::collections::{BTreeMap, HashMap, VecDeque};
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
use tokio::time::{Instant, sleep_until};

use super::enqueue::{LOW_PRIORITY, Panics, merge};
use crate::ReconcileError;
use crate::flight_recorder::Causes;
use crate::layer::panic_message;

/// How many calls of one map function run at a time.
const CONCURRENT_MAX: usize = 16;
/// How many states of an object wait. Of further ones, the first and the newest are kept.
const STATES_MAX: usize = 8;
/// The first wait after a call that failed. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest wait after a call that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The keys that a state of an object concerns.
pub(crate) type AsyncMapFn<K> =
    dyn Fn(Cached<K>) -> BoxFuture<'static, Result<Vec<ObjectKey>, ReconcileError>> + Send + Sync;

/// Changes that wait for an async map function. Changes of one object are merged, so a slow or
/// failing function takes memory by the number of objects.
pub(crate) struct AsyncMap<K> {
    map: Arc<AsyncMapFn<K>>,
    waiting: Mutex<Waiting<K>>,
    changed: Notify,
}

struct Waiting<K> {
    /// The objects whose turn comes, in order.
    order: VecDeque<ObjectKey>,
    /// The objects that back off, by the end of the wait and a number.
    delayed: BTreeMap<(Instant, u64), ObjectKey>,
    delays_total: u64,
    changes: HashMap<ObjectKey, Change<K>>,
}

/// The states of an object that the function has to see.
struct Change<K> {
    /// Oldest first.
    states: Vec<Cached<K>>,
    is_low: bool,
    causes: Causes,
    /// How many attempts have failed.
    failures: u32,
    /// The place in `delayed`. `None` if the object is in `order`.
    delay: Option<(Instant, u64)>,
}

impl<K: Object> Change<K> {
    /// Adds newer states.
    fn extend(&mut self, newer: impl IntoIterator<Item = Cached<K>>) {
        for state in newer {
            if self.states.last().is_none_or(|last| !last.is_same_state(&state)) {
                self.states.push(state);
            }
            if self.states.len() > STATES_MAX {
                // The first state lasted longest: it is the one that others have seen.
                self.states.remove(1);
            }
        }
    }
}

impl<K: Object> AsyncMap<K> {
    pub(crate) fn new(map: Arc<AsyncMapFn<K>>) -> Self {
        let waiting =
            Waiting { order: VecDeque::new(), delayed: BTreeMap::new(), delays_total: 0, changes: HashMap::new() };
        Self { map, waiting: Mutex::new(waiting), changed: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change. `is_low` is for initial objects and resyncs.
    pub(crate) fn push(&self, event: &Event<K>, is_low: bool, causes: Causes) {
        let new = event.object().clone();
        let key = new.key();
        let old = if let Event::Update { old, .. } = event { Some(old.clone()) } else { None };
        let states = old.into_iter().filter(|old| !old.is_same_state(&new)).chain([new.clone()]);
        let mut waiting = self.waiting();
        let Waiting { order, delayed, changes, .. } = &mut *waiting;
        if let Some(change) = changes.get_mut(&key) {
            change.extend(states);
            change.is_low &= is_low;
            change.causes = causes;
            // A change does not wait for the back-off of earlier ones.
            if let Some(place) = change.delay.take() {
                delayed.remove(&place);
                order.push_back(key);
            }
        } else {
            let mut change = Change { states: Vec::new(), is_low, causes, failures: 0, delay: None };
            change.extend(states);
            order.push_back(key.clone());
            changes.insert(key, change);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<(ObjectKey, Change<K>)> {
        let mut waiting = self.waiting();
        let Waiting { order, delayed, changes, .. } = &mut *waiting;
        let now = Instant::now();
        while let Some(entry) = delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            if let Some(change) = changes.get_mut(&key) {
                change.delay = None;
                order.push_back(key);
            }
        }
        let key = order.pop_front()?;
        changes.remove(&key).map(|change| (key, change))
    }

    /// Puts the states back for which the function failed. Newer ones do not wait for them.
    fn put_back(&self, key: ObjectKey, mut failed: Change<K>, retry_in: Duration) {
        let mut waiting = self.waiting();
        let Waiting { delayed, delays_total, changes, .. } = &mut *waiting;
        if let Some(newer) = changes.get_mut(&key) {
            failed.extend(std::mem::take(&mut newer.states));
            newer.states = failed.states;
            newer.failures = newer.failures.max(failed.failures);
            newer.is_low &= failed.is_low;
            return;
        }
        *delays_total += 1;
        let place = (Instant::now() + retry_in, *delays_total);
        delayed.insert(place, key.clone());
        failed.delay = Some(place);
        changes.insert(key, failed);
    }

    /// The end of the next back-off.
    fn next_retry(&self) -> Option<Instant> {
        self.waiting().delayed.keys().next().map(|(until, _)| *until)
    }

    /// Maps changes until it is dropped.
    pub(crate) async fn run(self: Arc<Self>, queue: WorkQueue<ObjectKey, Causes>, kind: String, panics: Arc<Panics>) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < CONCURRENT_MAX {
                let Some((key, change)) = self.pop() else { break };
                running.push(self.map(key, change, &queue, &kind, &panics));
            }
            let (is_free, retry) = (running.len() < CONCURRENT_MAX, self.next_retry());
            tokio::select! {
                biased;
                Some(()) = running.next() => {}
                () = self.changed.notified(), if is_free => {}
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if is_free && retry.is_some() => {}
            }
        }
    }

    /// Calls the function for each state. A failure of one does not hold up the keys of the others.
    async fn map(
        &self,
        key: ObjectKey,
        mut change: Change<K>,
        queue: &WorkQueue<ObjectKey, Causes>,
        kind: &str,
        panics: &Panics,
    ) {
        let retry_in = LONGEST_RETRY.min(FIRST_RETRY.saturating_mul(1 << change.failures.min(16)));
        let (mut keys, mut failed) = (Vec::new(), Vec::new());
        for state in std::mem::take(&mut change.states).into_iter().rev() {
            match self.keys(&state, kind, panics, retry_in).await {
                Some(found) => merge(&mut keys, found),
                None => failed.push(state),
            }
        }
        let options = AddOptions::new().priority(if change.is_low { LOW_PRIORITY } else { 0 });
        keys.into_iter().for_each(|key| queue.add_with_payload(key, options, change.causes.clone()));
        if !failed.is_empty() {
            failed.reverse();
            let failures = change.failures.saturating_add(1);
            self.put_back(key, Change { states: failed, failures, ..change }, retry_in);
        }
    }

    /// Calls the function once. Returns `None` if it failed. After a panic there are no keys.
    async fn keys(
        &self,
        object: &Cached<K>,
        kind: &str,
        panics: &Panics,
        retry_in: Duration,
    ) -> Option<Vec<ObjectKey>> {
        let call = AssertUnwindSafe(async { (self.map)(object.clone()).await });
        let (controller, object) = (&*panics.controller, object.key());
        match call.catch_unwind().await {
            Ok(Ok(keys)) => Some(keys),
            Ok(Err(error)) => {
                tracing::warn!(controller, kind, %object, %error, ?retry_in, "map function failed, will retry");
                None
            }
            Err(panic) => {
                panics.total.fetch_add(1, Ordering::Relaxed);
                let panic = panic_message(&*panic);
                tracing::error!(controller, kind, %object, panic, "a map function panicked");
                Some(Vec::new())
            }
        }
    }
}
