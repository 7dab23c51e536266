//! Changes that are not yet in the cache, queued by object.

mod delta;
mod version;

use std::collections::VecDeque;
use std::fmt;

use hashbrown::HashTable;

pub use delta::{Batch, Changes, Delta, Work};

use crate::queue::queued::{KeyHasher, Queued, has_same_key};
use version::Version;

/// An emptied queue with a larger capacity frees its memory.
const CAPACITY_KEPT: usize = 4096;

/// The queue between the reflector, which writes the server's events, and the informer, which
/// applies them to the cache.
///
/// It is a plain state machine: it has no lock, does not wait and reads no clock.
///
/// **Guarantees** (the tests in `tests/delta_fifo.rs` hold them, and
/// `every_promise_holds_in_any_order_of_operations` all of them at once):
///
/// - A key is in the queue once, in the order of first arrival. Later deltas of the key are
///   appended to its list and do not move it. No delta is dropped, except that of two consecutive
///   deletions one remains: the newer one, unless its final state is unknown.
/// - A [`replace`](Self::replace) is one entry. Earlier entries come out before it and later
///   entries after it, also for the same key. A replace that directly follows another takes its
///   place.
/// - [`Batch::reached`] is the watermark: every event up to it has been popped. With A@1, B@2, A@3,
///   the first key brings both changes of A but reaches only 1; the second brings B and reaches 3.
///   Bookmarks keep their place among the events. A deletion that was not seen is no event of the
///   stream, so it neither moves nor holds back the version.
///
/// **The consumer's part**, because only the consumer knows the cache: it finds out what a
/// [`Work::Replace`] deletes, and ignores the deletion of an object that the cache does not hold.
/// Resyncs do not pass through the queue: the informer sends them to the handlers that are due.
///
/// ```
/// use steersman_cache::{DeltaFifo, Queued, Work};
///
/// #[derive(Clone)]
/// struct Pod(&'static str, &'static str);
/// impl Queued for Pod {
///     fn namespace(&self) -> &str { "shop" }
///     fn name(&self) -> &str { self.0 }
///     fn resource_version(&self) -> &str { self.1 }
/// }
///
/// let mut fifo = DeltaFifo::new();
/// fifo.add(Pod("a", "1"));
/// fifo.add(Pod("b", "2"));
/// fifo.update(Pod("a", "3"));
/// let batch = fifo.pop(1).unwrap();
/// let Work::Changes(changes) = batch.work else { panic!() };
/// assert_eq!((changes[0].len(), batch.reached.as_deref()), (2, Some("1")));
/// assert_eq!(fifo.pop(1).unwrap().reached.as_deref(), Some("3"));
/// ```
pub struct DeltaFifo<T> {
    /// Entries are numbered in order and without gaps. This is the number of the first one queued.
    head: u64,
    queue: VecDeque<Entry<T>>,
    /// The keys behind the last replace: the lists that further deltas are appended to.
    slots: HashTable<Slot>,
    hasher: KeyHasher,
    /// The highest number of an entry that holds an event. The entries of all other events are in
    /// front of it, so when it is popped, all events so far are. It therefore carries the version
    /// of the newest event.
    newest: u64,
    /// The version of the newest event, if no event is queued and no batch has carried it yet.
    passed: Version,
    deltas: usize,
    synced: Synced,
}

/// Where the entry of a key is. It is small and contains the hash: otherwise a table that grows to
/// millions of keys spends most of its time fetching the entries.
struct Slot {
    hash: u32,
    /// The lower half of the entry's number. It is unique, because 2^32 entries do not fit in
    /// memory.
    number: u32,
}

impl Slot {
    /// The hash for the table, which uses the highest and the lowest bits.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

struct Entry<T> {
    item: Item<T>,
    /// The version that is reached when this and all earlier entries are popped; none if it does
    /// not move.
    reached: Version,
}

enum Item<T> {
    Key { hash: u32, changes: Changes<T> },
    Replace(Vec<T>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    No,
    /// When the queued replace is popped.
    AfterReplace,
    Yes,
}

impl<T> fmt::Debug for DeltaFifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("len", &self.queue.len())
            .field("deltas", &self.deltas)
            .finish_non_exhaustive()
    }
}

impl<T: Queued> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Queued> DeltaFifo<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            head: 1,
            queue: VecDeque::new(),
            slots: HashTable::new(),
            hasher: KeyHasher::default(),
            newest: 0,
            passed: Version::None,
            deltas: 0,
            synced: Synced::No,
        }
    }

    /// The watch reported an added object.
    pub fn add(&mut self, object: T) {
        self.event(Delta::Added(object));
    }

    /// The watch reported a modified object.
    pub fn update(&mut self, object: T) {
        self.event(Delta::Updated(object));
    }

    /// The watch reported a deleted object; `object` is its final state.
    pub fn delete(&mut self, object: T) {
        self.event(Delta::Deleted { object, final_state_unknown: false });
    }

    /// An object was deleted, and its final state is unknown: `object` is the last state that was
    /// seen.
    pub fn delete_unseen(&mut self, object: T) {
        self.populated();
        self.push(Delta::Deleted { object, final_state_unknown: true });
    }

    /// The watch has reported every event up to this version.
    pub fn bookmark(&mut self, version: &str) {
        self.reach(Version::from(version));
    }

    /// Replaces all objects by this list, which has this version.
    pub fn replace(&mut self, objects: Vec<T>, version: &str) {
        if self.synced == Synced::No {
            self.synced = if objects.is_empty() { Synced::Yes } else { Synced::AfterReplace };
        }
        self.deltas += objects.len();
        // The consumer would apply one right after the other. Objects that are only in the first
        // list reach no handler, so they need no deletion; a recreated object has another uid. The
        // second list reaches at least what the first reached, because no event lies between them.
        if matches!(self.queue.back(), Some(Entry { item: Item::Replace(_), .. }))
            && let Some(replaced) = self.queue.pop_back()
        {
            self.uncount(&replaced.item);
        }
        self.newest = self.push_entry(Item::Replace(objects));
        self.slots.clear();
        self.reach(Version::from(version));
    }

    /// Takes out the next batch: one replace, or the first `keys_max` keys, up to the next replace.
    /// `None` if the queue is empty.
    pub fn pop(&mut self, keys_max: usize) -> Option<Batch<T>> {
        if self.is_empty() {
            return None;
        }
        let mut reached = std::mem::take(&mut self.passed);
        let keys_max = keys_max.max(1);
        let mut popped = Vec::with_capacity(keys_max.min(self.queue.len()));
        while popped.len() < keys_max
            && let Some(entry) = self.pop_entry(popped.is_empty())
        {
            if !entry.reached.is_none() {
                reached = entry.reached;
            }
            match entry.item {
                Item::Key { changes, .. } => popped.push(changes),
                Item::Replace(objects) => {
                    if self.synced == Synced::AfterReplace {
                        self.synced = Synced::Yes;
                    }
                    return Some(Batch { work: Work::Replace(objects), reached: reached.into_text() });
                }
            }
        }
        let work = if popped.is_empty() { Work::Nothing } else { Work::Changes(popped) };
        Some(Batch { work, reached: reached.into_text() })
    }

    /// Whether the initial objects have been popped: those of the first replace. There are none if
    /// that is empty, or if an event came before it. The consumer knows whether they are applied.
    pub fn has_synced(&self) -> bool {
        self.synced == Synced::Yes
    }

    /// Number of queued keys; a replace counts as one.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Number of queued deltas, including the objects of replaces: how far the cache is behind.
    pub fn deltas(&self) -> usize {
        self.deltas
    }

    /// Whether there is nothing to pop, including a version.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.passed.is_none()
    }

    /// An event before the first replace: there are no initial objects to wait for.
    fn populated(&mut self) {
        if self.synced == Synced::No {
            self.synced = Synced::Yes;
        }
    }

    /// A delta of the watch: its version has a place in the stream.
    fn event(&mut self, delta: Delta<T>) {
        self.populated();
        let version = Version::from(delta.object().resource_version());
        self.newest = self.newest.max(self.push(delta));
        self.reach(version);
    }

    /// Every event up to the version is in the queue or has been popped.
    fn reach(&mut self, version: Version) {
        if version.is_none() {
            return;
        }
        match self.newest.checked_sub(self.head) {
            Some(index) => self.queue[index as usize].reached = version,
            None => self.passed = version,
        }
    }

    /// Appends a delta to the list of its key. Returns the number of the entry.
    fn push(&mut self, delta: Delta<T>) -> u64 {
        let hash = self.hash(delta.object());
        let Some(number) = self.find(hash, delta.object()) else { return self.push_key(hash, delta) };
        if let Item::Key { changes, .. } = &mut self.queue[(number - self.head) as usize].item {
            self.deltas += changes.push(delta);
        }
        number
    }

    fn push_key(&mut self, hash: u32, delta: Delta<T>) -> u64 {
        let number = self.push_entry(Item::Key { hash, changes: Changes::new(delta) });
        self.deltas += 1;
        let slot = Slot { hash, number: number as u32 };
        self.slots.insert_unique(Slot::spread(hash), slot, |slot| Slot::spread(slot.hash));
        number
    }

    fn push_entry(&mut self, item: Item<T>) -> u64 {
        self.queue.push_back(Entry { item, reached: Version::None });
        self.head + self.queue.len() as u64 - 1
    }

    fn hash(&self, object: &T) -> u32 {
        self.hasher.hash(object) as u32
    }

    /// The number of the entry that a further delta of the object is appended to.
    fn find(&self, hash: u32, object: &T) -> Option<u64> {
        let index = |slot: &Slot| slot.number.wrapping_sub(self.head as u32);
        let matches = |slot: &Slot| {
            slot.hash == hash
                && match &self.queue[index(slot) as usize].item {
                    Item::Key { changes, .. } => has_same_key(changes.oldest().object(), object),
                    Item::Replace(_) => false,
                }
        };
        let slot = self.slots.find(Slot::spread(hash), matches)?;
        Some(self.head + u64::from(index(slot)))
    }

    /// Takes out the first entry: a key, or also a replace if `allow_replace`.
    fn pop_entry(&mut self, allow_replace: bool) -> Option<Entry<T>> {
        if !allow_replace && matches!(self.queue.front()?.item, Item::Replace(_)) {
            return None;
        }
        let entry = self.queue.pop_front()?;
        if let Item::Key { hash, .. } = entry.item
            && let Ok(slot) = self.slots.find_entry(Slot::spread(hash), |slot| slot.number == self.head as u32)
        {
            slot.remove();
        }
        self.uncount(&entry.item);
        self.head += 1;
        if self.queue.is_empty() && self.queue.capacity() > CAPACITY_KEPT {
            self.queue = VecDeque::new();
            self.slots = HashTable::new();
        }
        Some(entry)
    }

    /// Subtracts an entry from the counts.
    fn uncount(&mut self, item: &Item<T>) {
        match item {
            Item::Key { changes, .. } => self.deltas -= changes.len(),
            Item::Replace(objects) => self.deltas -= objects.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::queued::tests::state;

    #[test]
    fn an_emptied_queue_frees_its_memory() {
        let mut fifo = DeltaFifo::new();
        for number in 0..=CAPACITY_KEPT {
            fifo.add(state(&format!("{number}@{number}")));
        }
        while fifo.pop(1000).is_some() {}
        assert_eq!((fifo.queue.capacity(), fifo.slots.capacity()), (0, 0));
    }

    #[test]
    fn keys_are_found_when_the_numbers_outgrow_their_slots() {
        let mut fifo = DeltaFifo::new();
        fifo.head = u64::from(u32::MAX) - 1;
        for (version, name) in "abcdabcdabcd".chars().enumerate() {
            fifo.update(state(&format!("{name}@{version}")));
            if version == 9 {
                assert_eq!(fifo.pop(3).map(|batch| batch.reached), Some(Some("2".to_owned())));
            }
        }
        assert_eq!((fifo.len(), fifo.deltas(), fifo.slots.len()), (2, 4, 2));
        assert_eq!(fifo.pop(3).map(|batch| batch.reached), Some(Some("11".to_owned())));
        assert_eq!((fifo.len(), fifo.deltas(), fifo.slots.len()), (0, 0, 0));
    }
}
