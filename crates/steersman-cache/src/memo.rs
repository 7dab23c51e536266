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
/// Entries know the objects that they decode to by weak references, so that all who hold one at the same time share it. A weak
/// reference keeps the memory of its object, so those that nobody holds any more are taken away soon (test
/// `what_was_read_leaves_no_memory_behind`).
///
/// A state is in it at most once: it is put in when it is decoded, which does not happen while its object is still held. An
/// entry that nobody holds any more gets no second chance, so what the memo keeps of it goes with the next ones that come.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    /// How many bytes have been decoded so far: the clock by which a decoding was lately or long ago.
    decoded: AtomicU64,
    kept: Mutex<Queue<K>>,
    /// Entries with weak references to objects that are not kept here.
    loose: Mutex<VecDeque<Weak<Entry<K>>>>,
}

/// So many loose entries are left alone: the readers of the last ones are likely to hold their objects still.
const LOOSE: usize = 16;

/// As long as so many memos full have been decoded.
const LATELY: u16 = 4;

struct Queue<K> {
    slots: VecDeque<Slot<K>>,
    bytes: usize,
}

struct Slot<K> {
    entry: Weak<Entry<K>>,
    /// Held, so that the weak reference in the entry stays good.
    object: Arc<K>,
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
        Self { bytes_max, decoded: AtomicU64::new(0), kept, loose: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Queue<K>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `object`, which is what the body of `entry` decodes to, if it is worth keeping.
    pub(crate) fn keep(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        if bytes > self.bytes_max || !self.was_decoded_lately(entry, bytes) {
            return self.let_go_later(Arc::downgrade(entry));
        }
        let slot = Slot { entry: Arc::downgrade(entry), object: Arc::clone(object), bytes };
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
        for Slot { entry, object, .. } in dropped {
            drop(object);
            self.let_go_later(entry);
        }
    }

    /// Takes the weak reference out of the entry when nobody holds its object any more.
    fn let_go_later(&self, entry: Weak<Entry<K>>) {
        let mut loose = self.loose.lock().unwrap_or_else(PoisonError::into_inner);
        loose.push_back(entry);
        // Two go for one that comes, so that there are not many more than are held.
        for _ in 0..2 {
            if loose.len() <= LOOSE {
                break;
            }
            let Some(oldest) = loose.pop_front() else { break };
            if oldest.upgrade().is_some_and(|entry| !entry.let_go()) {
                loose.push_back(oldest);
            }
        }
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
