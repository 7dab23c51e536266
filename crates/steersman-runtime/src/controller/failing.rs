//! The keys of a controller that fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_cache::ObjectKey;

use crate::ReconcileError;

/// The keys that failed and have not succeeded since.
#[derive(Default)]
pub(super) struct FailingKeys {
    keys: Mutex<HashMap<ObjectKey, Failing>>,
    /// How many there are: usually none, and then no lock is taken. A worker sees the last change
    /// of its own key, because the lock of the queue is between two reconciles of a key.
    count: AtomicUsize,
}

/// The state of a key that fails.
#[derive(Clone)]
pub(super) struct Failing {
    pub(super) times: u32,
    pub(super) last: Arc<ReconcileError>,
}

impl FailingKeys {
    /// Reads the state of a key, if it fails.
    pub(super) fn get<T>(&self, key: &ObjectKey, read: impl FnOnce(&Failing) -> T) -> Option<T> {
        if self.is_empty() { None } else { self.lock().get(key).map(read) }
    }

    /// A key has failed once more.
    pub(super) fn failed(&self, key: &ObjectKey, last: Arc<ReconcileError>) {
        let mut keys = self.lock();
        let failing = keys.entry(key.clone()).or_insert_with(|| Failing { times: 0, last: Arc::clone(&last) });
        failing.times = failing.times.saturating_add(1);
        failing.last = last;
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    /// A key has succeeded.
    pub(super) fn remove(&self, key: &ObjectKey) {
        if !self.is_empty() {
            let mut keys = self.lock();
            keys.remove(key);
            self.count.store(keys.len(), Ordering::Relaxed);
        }
    }

    /// All failing keys.
    pub(super) fn all(&self) -> Vec<(ObjectKey, Failing)> {
        self.lock().iter().map(|(key, failing)| (key.clone(), failing.clone())).collect()
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Failing>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
