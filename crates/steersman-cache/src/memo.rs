//! Decoded bodies that are kept for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::cached::Entry;

/// The objects that were decoded last, up to a bound.
///
/// One that is decoded for the first time gets a place in a small queue, from which it goes soon unless it is asked for again: so
/// reading every object once, as a resync does, neither drives out those that are read all the time nor touches much memory.
/// One that is decoded a second time, or was asked for again, gets a place in the large queue, where it has another chance each
/// time it has been asked for.
///
/// A state is in it at most once: it is put in when it is decoded, which does not happen while its object is still held. An
/// entry that nobody holds any more gets no second chance, so what the memo keeps of it goes with the next ones that come.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    kept: Mutex<Kept<K>>,
}

/// The small queue has this part of the memo.
const SMALL_PART: usize = 16;

struct Kept<K> {
    small: Queue<K>,
    large: Queue<K>,
}

struct Queue<K> {
    slots: VecDeque<Slot<K>>,
    bytes: usize,
}

struct Slot<K> {
    entry: Weak<Entry<K>>,
    /// Held, so that the weak reference in the entry stays good.
    _object: Arc<K>,
    bytes: usize,
}

impl<K> Slot<K> {
    fn take_used(&self) -> bool {
        self.entry.upgrade().is_some_and(|entry| entry.take_used())
    }
}

impl<K> Queue<K> {
    fn new() -> Self {
        Self { slots: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, slot: Slot<K>) {
        self.bytes += slot.bytes;
        self.slots.push_back(slot);
    }

    fn pop(&mut self) -> Option<Slot<K>> {
        let slot = self.slots.pop_front()?;
        self.bytes -= slot.bytes;
        Some(slot)
    }
}

impl<K> Memo<K> {
    /// Keeps objects whose encoded forms have at most so many bytes together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::new(Kept { small: Queue::new(), large: Queue::new() }) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `object`, which is what the body of `entry` decodes to.
    pub(crate) fn keep(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        if bytes > self.bytes_max {
            return;
        }
        let slot = Slot { entry: Arc::downgrade(entry), _object: Arc::clone(object), bytes };
        let again = entry.was_decoded();
        let small_max = self.bytes_max / SMALL_PART;
        let mut dropped = Vec::new();
        let mut kept = self.kept();
        if again || bytes > small_max {
            self.keep_long(&mut kept, slot, &mut dropped);
        } else {
            while kept.small.bytes + bytes > small_max {
                let Some(oldest) = kept.small.pop() else { break };
                if oldest.take_used() { self.keep_long(&mut kept, oldest, &mut dropped) } else { dropped.push(oldest) }
            }
            kept.small.push(slot);
        }
        drop(kept);
        // Freeing a large object takes its time, and others need not wait for it.
        drop(dropped);
    }

    fn keep_long(&self, kept: &mut Kept<K>, slot: Slot<K>, dropped: &mut Vec<Slot<K>>) {
        // Readers may go on asking meanwhile: there are no more second chances than objects, so this ends.
        let mut chances = kept.large.slots.len();
        while kept.small.bytes + kept.large.bytes + slot.bytes > self.bytes_max {
            let Some(oldest) = kept.large.pop() else { break };
            if chances > 0 && oldest.take_used() {
                chances -= 1;
                kept.large.push(oldest);
            } else {
                dropped.push(oldest);
            }
        }
        // One that is nearly as large as the memo has it for itself.
        while kept.small.bytes + kept.large.bytes + slot.bytes > self.bytes_max {
            let Some(oldest) = kept.small.pop() else { break };
            dropped.push(oldest);
        }
        kept.large.push(slot);
    }

    /// How many objects are kept, and how many bytes their encoded forms have.
    pub(crate) fn size(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.small.slots.len() + kept.large.slots.len(), kept.small.bytes + kept.large.bytes)
    }
}
