//! Keeps frequently read objects decoded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::object::body::Entry;

/// Frequently read objects in decoded form, up to a limit.
///
/// **Admission.** An object that is decoded for the first time is not kept, except for a
/// [few](FIRST_READS): its reader drops it, on the reader's own thread. Reading every object once,
/// as the first reconciles and every resync do, therefore costs no memory here and evicts no
/// frequently read object. An object that is decoded a second time within [`RECENT`] is kept.
///
/// **Eviction.** The oldest object goes first, but one that was read since it was last considered
/// gets a second chance.
///
/// **Ownership.** The entry owns the decoded object, where readers find it; the memo holds the
/// order and removes objects. Entries also have weak references to objects that are not in the
/// memo, so that concurrent readers share them. A weak reference keeps the memory of its object, so
/// it is dropped soon after the last reader (test `a_decoded_object_leaves_no_memory_behind`).
///
/// A state is in the memo at most once: it is inserted when it is decoded, which does not happen
/// while its object is alive.
pub(crate) struct Memo<K> {
    bytes_max: usize,
    first_reads: &'static FirstReads,
    /// Number of bytes decoded so far: the clock that decides whether a decoding is recent.
    decoded: AtomicU64,
    queue: Mutex<Queue<K>>,
    /// Entries with weak references to objects that the memo does not keep.
    unpinned: Mutex<VecDeque<Weak<Entry<K>>>>,
}

/// Budget of objects that are kept after one read. With few objects, the second read then decodes
/// nothing. All memos share it, because there is one memo per kind.
pub(crate) struct FirstReads(AtomicUsize);

static FIRST_READS: FirstReads = FirstReads::new(128);

/// An object larger than this fraction of a memo is not kept after one read.
const FIRST_READ_FRACTION: usize = 64;

impl FirstReads {
    pub(crate) const fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    fn take(&'static self) -> Option<FirstRead> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        Some(FirstRead(self))
    }
}

/// One unit of the budget, returned on drop.
struct FirstRead(&'static FirstReads);

impl Drop for FirstRead {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Unpinned entries that are not checked: their readers probably still hold the objects.
const UNPINNED_MIN: usize = 16;

/// A decoding is recent until this multiple of the memo's size has been decoded.
const RECENT: u16 = 4;

struct Queue<K> {
    slots: VecDeque<Slot<K>>,
    bytes: usize,
}

struct Slot<K> {
    entry: Weak<Entry<K>>,
    bytes: usize,
    /// Set if it was kept after one read.
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

    /// Drops the oldest slots whose entries no longer exist: their objects have newer states.
    fn drop_dead(&mut self) {
        while self.slots.front().is_some_and(|oldest| oldest.entry.strong_count() == 0) {
            self.pop();
        }
    }
}

impl<K> Memo<K> {
    /// A memo of objects whose encoded forms have at most `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self::with_first_reads(bytes_max, &FIRST_READS)
    }

    fn with_first_reads(bytes_max: usize, first_reads: &'static FirstReads) -> Self {
        let queue = Mutex::new(Queue { slots: VecDeque::new(), bytes: 0 });
        Self { bytes_max, first_reads, decoded: AtomicU64::new(0), queue, unpinned: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `object`, the decoded body of `entry`, if it is admitted. `bytes` is its encoded size.
    pub(crate) fn insert(&self, entry: &Arc<Entry<K>>, object: &Arc<K>, bytes: usize) {
        let is_recent = self.was_decoded_recently(entry, bytes);
        let first_read = if is_recent { None } else { self.first_read(bytes) };
        if bytes > self.bytes_max || !(is_recent || first_read.is_some()) {
            return self.release_later(Arc::downgrade(entry));
        }
        let slot = Slot { entry: Arc::downgrade(entry), bytes, _first_read: first_read };
        entry.set_memoized(Some(Arc::clone(object)));
        let mut evicted = Vec::new();
        let mut queue = self.queue();
        // Readers may set the flags again during this loop. A limit on second chances ends it.
        let mut chances = queue.slots.len();
        while queue.bytes + bytes > self.bytes_max {
            let Some(oldest) = queue.pop() else { break };
            if chances > 0 && oldest.take_used() {
                chances -= 1;
                queue.push(oldest);
            } else {
                evicted.push(oldest);
            }
        }
        queue.push(slot);
        drop(queue);
        // Without the lock, because freeing a large object takes time.
        for slot in evicted {
            if let Some(entry) = slot.entry.upgrade() {
                entry.set_memoized(None);
                self.release_later(slot.entry);
            }
        }
    }

    /// Whether an object is kept after one read: if that evicts nothing but dead slots.
    fn first_read(&self, bytes: usize) -> Option<FirstRead> {
        if bytes > self.bytes_max / FIRST_READ_FRACTION {
            return None;
        }
        let mut queue = self.queue();
        queue.drop_dead();
        if queue.bytes + bytes > self.bytes_max { None } else { self.first_reads.take() }
    }

    /// Drops the weak reference of the entry once no reader holds its object.
    fn release_later(&self, entry: Weak<Entry<K>>) {
        let mut unpinned = self.unpinned.lock().unwrap_or_else(PoisonError::into_inner);
        unpinned.push_back(entry);
        // Checks two entries for each new one, so that few more remain than readers hold.
        for _ in 0..2 {
            if unpinned.len() <= UNPINNED_MIN {
                break;
            }
            let Some(oldest) = unpinned.pop_front() else { break };
            if oldest.upgrade().is_some_and(|entry| !entry.release()) {
                unpinned.push_back(oldest);
            }
        }
    }

    /// Whether it was decoded recently. Records this decoding.
    fn was_decoded_recently(&self, entry: &Entry<K>, bytes: usize) -> bool {
        let decoded = self.decoded.fetch_add(bytes as u64, Ordering::Relaxed);
        let turns = decoded / self.bytes_max.max(1) as u64;
        // Zero means never.
        let now = (turns % u64::from(u16::MAX)) as u16 + 1;
        entry.set_decoded_at(now).is_some_and(|before| now.wrapping_sub(before) <= RECENT)
    }

    /// Number of objects, and the size of their encoded forms.
    pub(crate) fn size(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.slots.len(), queue.bytes)
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
        (0..count).map(|index| storage.store(object(index).as_bytes(), None).expect("it is stored")).collect()
    }

    /// Reads all objects. Returns the number of decodings.
    fn decodes(storage: &Storage<Value>, objects: &[Cached<Value>]) -> u64 {
        let before = storage.metrics().decodes_total;
        objects.iter().for_each(|object| drop(object.get().expect("it decodes")));
        storage.metrics().decodes_total - before
    }

    #[test]
    fn some_objects_are_kept_after_one_read() {
        let storage = storage(10);
        let all = objects(&storage, 30);
        assert_eq!(decodes(&storage, &all), 30);
        assert_eq!(decodes(&storage, &all), 20);
        assert_eq!(decodes(&storage, &all), 0, "all have been read twice");
    }

    #[test]
    fn an_object_that_is_read_once_evicts_nothing() {
        let storage = storage(10_000);
        let popular = objects(&storage, 50);
        (0..2).for_each(|_| _ = decodes(&storage, &popular));
        let others = objects(&storage, 1000);
        assert_eq!(decodes(&storage, &others), 1000);
        let kept = storage.metrics().memo_objects;
        assert!((51..200).contains(&kept), "as many as fit: {kept}");
        assert_eq!(decodes(&storage, &popular), 0);
    }

    #[test]
    fn a_dropped_state_makes_room_for_another_first_read() {
        let storage = storage(10);
        for _ in 0..3 {
            let all = objects(&storage, 10);
            assert_eq!(decodes(&storage, &all), 10);
            assert_eq!(decodes(&storage, &all), 0);
        }
    }

    #[test]
    fn the_memo_does_not_outlive_a_state() {
        let storage = storage(1);
        let mut all = objects(&storage, 1);
        let object = Arc::downgrade(&all[0].get().expect("it decodes"));
        assert_eq!(object.strong_count(), 1);
        all.clear();
        assert_eq!(object.strong_count(), 0);
    }

    #[test]
    fn an_object_can_be_read_while_it_is_read() {
        let storage = storage(1);
        let object = objects(&storage, 1).remove(0);
        let name = |value: &Value| value["metadata"]["name"].clone();
        for _ in 0..2 {
            let nested = object.with(|_| object.with(|value| (name(value), name(&object.get().unwrap()))).unwrap());
            assert_eq!(nested.expect("it decodes"), ("a0".into(), "a0".into()));
        }
    }
}
