//! Decoded bodies that are kept for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::cached::Entry;

/// Objects that are read again and again, decoded, up to a bound.
///
/// One that is decoded for the first time is not kept: it goes with its reader, on the reader's own thread. So reading every object
/// once, as the first reconciles and every resync do, costs no memory here, and drives out nothing that is read all the time. One that
/// is decoded a second time before [`LATELY`] has passed is kept, and has another chance each time it has been asked for when
/// its turn to go has come.
///
/// A state is in it at most once: it is put in when it is decoded, which does not happen while its object is still held. An
/// entry that nobody holds any more gets no second chance, so what the memo keeps of it goes with the next ones that come.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    /// How many bytes have been decoded so far: the clock by which a decoding was lately or long ago.
    decoded: AtomicU64,
    kept: Mutex<Queue<K>>,
}

/// As long as so many memos full have been decoded.
const LATELY: u16 = 4;

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
        let kept = Mutex::new(Queue { slots: VecDeque::new(), bytes: 0 });
        Self { bytes_max, decoded: AtomicU64::new(0), kept }
    }

    fn kept(&self) -> MutexGuard<'_, Queue<K>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `object`, which is what the body of `entry` decodes to, if it is worth keeping.
    pub(crate) fn keep(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        if bytes > self.bytes_max || !self.was_decoded_lately(entry, bytes) {
            return;
        }
        let slot = Slot { entry: Arc::downgrade(entry), _object: Arc::clone(object), bytes };
        let mut dropped = Vec::new();
        let mut kept = self.kept();
        // Readers may go on asking meanwhile: there are no more second chances than objects, so this ends.
        let mut chances = kept.slots.len();
        while kept.bytes + bytes > self.bytes_max {
            let Some(oldest) = kept.pop() else { break };
            if chances > 0 && oldest.take_used() {
                chances -= 1;
                kept.push(oldest);
            } else {
                dropped.push(oldest);
            }
        }
        kept.push(slot);
        drop(kept);
        // Freeing a large object takes its time, and others need not wait for it.
        drop(dropped);
    }

    /// Whether it was decoded before, and not long ago. Notes that it is now.
    fn was_decoded_lately(&self, entry: &Entry<K>, bytes: usize) -> bool {
        let decoded = self.decoded.fetch_add(bytes as u64, Ordering::Relaxed);
        let turns = decoded / self.bytes_max.max(1) as u64;
        // Zero means never.
        let now = (turns % u64::from(u16::MAX)) as u16 + 1;
        entry.decoded_at(now).is_some_and(|before| now.wrapping_sub(before) <= LATELY)
    }

    /// How many objects are kept, and how many bytes their encoded forms have.
    pub(crate) fn size(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.slots.len(), kept.bytes)
    }
}
