//! Decoded bodies that are kept for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::cached::Entry;

/// The objects that were decoded last, up to a bound. What has been asked for since it was last looked at gets a second chance.
///
/// A state is in it at most once: it is put in when it is decoded, which does not happen while its object is still held. An
/// entry that nobody holds any more gets no second chance, so what the memo keeps of it goes with the next ones that come.
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
        // Readers may go on asking meanwhile: there are no more second chances than objects, so this ends.
        let mut chances = kept.queue.len();
        while kept.bytes + bytes > self.bytes_max {
            let Some(oldest) = kept.queue.pop_front() else { break };
            if chances > 0 && oldest.entry.upgrade().is_some_and(|entry| entry.take_used()) {
                chances -= 1;
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
