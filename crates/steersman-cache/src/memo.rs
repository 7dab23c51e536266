//! Decoded bodies that are kept for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::cached::{Body, Entry};

/// The objects that were decoded last, up to a bound. What has been asked for since it was last looked at gets a second chance.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    kept: Mutex<Kept<K>>,
}

struct Kept<K> {
    queue: VecDeque<Slot<K>>,
    bytes: usize,
}

struct Slot<K> {
    entry: Weak<Entry<K>>,
    /// Held, so that the weak reference in the entry stays good.
    _object: Arc<K>,
    bytes: usize,
}

impl<K> Memo<K> {
    /// Keeps objects whose encoded forms have at most so many bytes together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::new(Kept { queue: VecDeque::new(), bytes: 0 }) }
    }

    /// Keeps `object`, which is what the body of `entry` decodes to.
    pub(crate) fn keep(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        if bytes > self.bytes_max {
            return;
        }
        let mut dropped = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Each is looked at most twice: the first look takes its second chance away.
        let mut looks = kept.queue.len() * 2;
        while kept.bytes + bytes > self.bytes_max && looks > 0 {
            looks -= 1;
            let Some(oldest) = kept.queue.pop_front() else { break };
            if looks > kept.queue.len() && take_second_chance(&oldest.entry) {
                kept.queue.push_back(oldest);
            } else {
                kept.bytes -= oldest.bytes;
                dropped.push(oldest);
            }
        }
        kept.bytes += bytes;
        kept.queue.push_back(Slot { entry: Arc::downgrade(entry), _object: Arc::clone(object), bytes });
        drop(kept);
        // Freeing a large object takes its time, and others need not wait for it.
        drop(dropped);
    }

    /// How many objects are kept, and how many bytes their encoded forms have.
    pub(crate) fn size(&self) -> (usize, usize) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.queue.len(), kept.bytes)
    }
}

/// Whether the object has been asked for since the last look. One that is being read at this moment counts.
fn take_second_chance<K>(entry: &Weak<Entry<K>>) -> bool {
    let Some(entry) = entry.upgrade() else { return false };
    // Never wait for an entry here: its reader may be waiting for the memo.
    let Ok(mut body) = entry.body.try_lock() else { return true };
    match &mut *body {
        Body::Encoded { used, .. } => std::mem::take(used),
        Body::Decoded(_) => false,
    }
}
