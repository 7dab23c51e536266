//! Decoded bodies that are kept for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::object::cached::Entry;

/// Objects that are read again and again, decoded, up to a bound.
///
/// One that is decoded for the first time is not kept, beyond a [few](FIRST_READS): it goes with its reader, on the reader's own thread. So
/// reading every object once, as the first reconciles and every resync do, costs no memory here, and drives out nothing that is read all
/// the time. One that is decoded a second time before [`LATELY`] has passed is kept, and has another chance each time it has been asked for
/// when its turn to go has come.
///
/// What is kept is held by its entry, where readers find it, and goes with it; the memo knows in which order, and takes it out again.
/// Besides, entries know the objects that they decode to by weak references, so that all who hold one at the same time share it. A weak
/// reference keeps the memory of its object, so those that nobody holds any more are taken away soon (test
/// `what_was_read_leaves_no_memory_behind`).
///
/// A state is in it at most once: it is put in when it is decoded, which does not happen while its object is still held.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    first_reads: &'static FirstReads,
    /// How many bytes have been decoded so far: the clock by which a decoding was lately or long ago.
    decoded: AtomicU64,
    kept: Mutex<Queue<K>>,
    /// Entries with weak references to objects that are not kept here.
    loose: Mutex<VecDeque<Weak<Entry<K>>>>,
}

/// How many objects may be kept that were read once: where there are few, even the second read need not decode them. For all memos
/// together, because there are as many as kinds.
pub(crate) struct FirstReads(AtomicUsize);

static FIRST_READS: FirstReads = FirstReads::new(128);

/// An object that takes more than this part of a memo has to be read twice.
const FIRST_READ_PART: usize = 64;

impl FirstReads {
    pub(crate) const fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    fn take(&'static self) -> Option<FirstRead> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(FirstRead(self))
    }
}

/// One of them, until it is dropped.
struct FirstRead(&'static FirstReads);

impl Drop for FirstRead {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
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
    bytes: usize,
    /// Set if it was kept when it was read once.
    _first_read: Option<FirstRead>,
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

    /// Drops the oldest ones as long as their entries are gone: there are other states of those objects by now.
    fn drop_gone(&mut self) {
        while self.slots.front().is_some_and(|oldest| oldest.entry.strong_count() == 0) {
            self.pop();
        }
    }
}

impl<K> Memo<K> {
    /// Keeps objects whose encoded forms have at most so many bytes together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::with_first_reads(bytes_max, &FIRST_READS)
    }

    fn with_first_reads(bytes_max: usize, first_reads: &'static FirstReads) -> Self {
        let kept = Mutex::new(Queue { slots: VecDeque::new(), bytes: 0 });
        Self { bytes_max, first_reads, decoded: AtomicU64::new(0), kept, loose: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Queue<K>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `object`, which is what the body of `entry` decodes to, if it is worth keeping.
    pub(crate) fn keep(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        let again = self.was_decoded_lately(entry, bytes);
        let first_read = if again { None } else { self.first_read(bytes) };
        if bytes > self.bytes_max || !(again || first_read.is_some()) {
            return self.let_go_later(Arc::downgrade(entry));
        }
        let slot = Slot { entry: Arc::downgrade(entry), bytes, _first_read: first_read };
        entry.set_memoized(Some(Arc::clone(object)));
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
        for slot in dropped {
            if let Some(entry) = slot.entry.upgrade() {
                entry.set_memoized(None);
                self.let_go_later(slot.entry);
            }
        }
    }

    /// Whether an object may be kept that has not been read before, lately: where nothing has to go for it, but states that are gone.
    fn first_read(&self, bytes: usize) -> Option<FirstRead> {
        if bytes > self.bytes_max / FIRST_READ_PART {
            return None;
        }
        let mut kept = self.kept();
        kept.drop_gone();
        if kept.bytes + bytes > self.bytes_max { None } else { self.first_reads.take() }
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{Cached, Storage, StorageOptions};

    fn storage(first_reads: usize) -> Storage<Value> {
        let options = StorageOptions { memo_bytes_max: 4096, ..StorageOptions::default() };
        let first_reads = Box::leak(Box::new(FirstReads::new(first_reads)));
        let memo = Memo::with_first_reads(options.memo_bytes_max, first_reads);
        Storage::with_memo(options, memo)
    }

    fn objects(storage: &Storage<Value>, count: usize) -> Vec<Cached<Value>> {
        let object = |index| format!(r#"{{"kind":"A","metadata":{{"name":"a{index}"}}}}"#);
        (0..count).map(|index| storage.store(object(index).as_bytes(), None).expect("it is kept")).collect()
    }

    /// Reads all of them, and says how many were decoded.
    fn decodes(storage: &Storage<Value>, objects: &[Cached<Value>]) -> u64 {
        let before = storage.metrics().decodes_total;
        objects.iter().for_each(|object| drop(object.get().expect("it decodes")));
        storage.metrics().decodes_total - before
    }

    #[test]
    fn some_objects_are_kept_when_they_are_read_once() {
        let storage = storage(10);
        let all = objects(&storage, 30);
        assert_eq!(decodes(&storage, &all), 30);
        assert_eq!(decodes(&storage, &all), 20);
        assert_eq!(decodes(&storage, &all), 0, "all have been read twice");
    }

    #[test]
    fn what_is_read_once_drives_nothing_out() {
        let storage = storage(10_000);
        let popular = objects(&storage, 50);
        (0..2).for_each(|_| _ = decodes(&storage, &popular));
        let others = objects(&storage, 1000);
        assert_eq!(decodes(&storage, &others), 1000);
        let kept = storage.metrics().memo_objects;
        assert!((51..200).contains(&kept), "as many as there is room for: {kept}");
        assert_eq!(decodes(&storage, &popular), 0);
    }

    #[test]
    fn a_state_that_is_gone_makes_room_for_another_first_read() {
        let storage = storage(10);
        for _ in 0..3 {
            let all = objects(&storage, 10);
            assert_eq!(decodes(&storage, &all), 10);
            assert_eq!(decodes(&storage, &all), 0);
        }
    }

    #[test]
    fn what_the_memo_keeps_goes_with_its_state() {
        let storage = storage(1);
        let mut all = objects(&storage, 1);
        let object = Arc::downgrade(&all[0].get().expect("it decodes"));
        assert_eq!(object.strong_count(), 1);
        all.clear();
        assert_eq!(object.strong_count(), 0);
    }

    #[test]
    fn an_object_can_be_looked_at_while_it_is_looked_at() {
        let storage = storage(1);
        let object = objects(&storage, 1).remove(0);
        let name = |value: &Value| value["metadata"]["name"].clone();
        for _ in 0..2 {
            let nested = object.with(|_| object.with(|value| (name(value), name(&object.get().unwrap()))).unwrap());
            assert_eq!(nested.expect("it decodes"), ("a0".into(), "a0".into()));
        }
    }
}
