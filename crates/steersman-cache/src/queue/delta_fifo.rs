//! What has changed and is not yet in the cache.

mod delta;
mod version;

use std::collections::VecDeque;
use std::fmt;

use hashbrown::HashTable;

pub use delta::{Batch, Changes, Delta, Work};

use crate::queue::queued::{KeyHasher, Queued, has_same_key};
use version::Version;

/// Above this many places the queue gives its memory back when it has been emptied.
const PLACES_KEPT: usize = 4096;

/// The queue between the reflector, which puts in what the server says, and the informer, which applies it to the cache.
///
/// It is a plain state machine: it has no lock, does not wait and knows no time.
///
/// **What is promised** (held by the tests in `tests/delta_fifo.rs`, all of it at once by
/// `every_promise_holds_in_any_order_of_operations`):
///
/// - A key is in the queue once, in the order of first arrival. What happens to it while it waits is appended to its own list and
///   does not move it. Nothing is left out but a deletion that follows a deletion: of the two the newer is kept, unless its final
///   state is unknown.
/// - A [`replace`](Self::replace) is one entry. What was put in before comes out before it, what is put in after it comes out
///   after it, also for the same key. A replace that directly follows another takes its place.
/// - [`Batch::reached`] is the watermark: every event up to it has been handed out. With A@1, B@2, A@3 the first key that is
///   popped brings both changes of A, but reaches only 1; the second brings B and reaches 3. Bookmarks keep their place among the
///   events. What is not an event of the stream (a resync, a deletion nobody saw) neither moves nor holds back the version.
///
/// **What is left to whoever pops**, because only they know the cache: what a [`Work::Replace`] deletes; to take a deletion of what
/// the cache does not hold for nothing (while a replace waits, the queue cannot know); to hand out for a [`Delta::Sync`] what the
/// cache holds by then, if batches are popped before the ones before are applied.
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
    /// Entries have numbers, in order and without gaps; this is the number of the first one that is still queued.
    head: u64,
    queue: VecDeque<Entry<T>>,
    /// The keys behind the last replace: those that a further delta is appended to.
    slots: HashTable<Slot>,
    hasher: KeyHasher,
    /// The highest number of an entry that holds an event. Before that entry is popped, not every event so far is handed out; when
    /// it is popped, all are, because the entries of all of them are in front of it. So it carries the version of the newest event.
    newest: u64,
    /// The version of the newest event, if no event is queued and nobody has been told.
    passed: Version,
    /// How many replaces are queued.
    replaces: usize,
    deltas: usize,
    synced: Synced,
}

/// Where the entry of a key is. It is small and has the hash in it, because a table that grows with millions of keys would else
/// spend most of its time fetching the entries.
struct Slot {
    hash: u32,
    /// The lower half of the entry's number. No two entries that are queued share it: they would not fit in memory.
    number: u32,
}

impl Slot {
    /// The hash as the table wants it: it looks at the highest and at the lowest bits.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

struct Entry<T> {
    item: Item<T>,
    /// Which version is reached when this and all before are popped; none if it does not move.
    reached: Version,
}

enum Item<T> {
    Key { hash: u32, changes: Changes<T> },
    Replace(Vec<T>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    No,
    /// When the replace that is queued has been popped.
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
            replaces: 0,
            deltas: 0,
            synced: Synced::No,
        }
    }

    /// The watch says that an object was added.
    pub fn add(&mut self, object: T) {
        self.event(Delta::Added(object));
    }

    /// The watch says that an object was changed.
    pub fn update(&mut self, object: T) {
        self.event(Delta::Updated(object));
    }

    /// The watch says that an object was deleted, and gives its last state.
    ///
    /// `known` says whether the cache holds the object, or may hold it when all that was popped is applied. If it does not and the
    /// queue does not either, nobody has to be told, and only the version counts.
    pub fn delete(&mut self, object: T, known: bool) {
        if known || self.holds(&object) {
            self.event(Delta::Deleted { object, final_state_unknown: false });
        } else {
            self.populated();
            self.reach(Version::from(object.resource_version()));
        }
    }

    /// An object turned out to be gone, and the watch has not said so: `object` is the last state that was known. Nothing is queued
    /// if the object is not known, as in [`delete`](Self::delete).
    pub fn delete_unseen(&mut self, object: T, known: bool) {
        self.populated();
        if known || self.holds(&object) {
            self.push(Delta::Deleted { object, final_state_unknown: true });
        }
    }

    /// The watch says that it has told everything up to this version.
    pub fn bookmark(&mut self, version: &str) {
        self.reach(Version::from(version));
    }

    /// The server has been asked for all objects, and this is the list and its version.
    pub fn replace(&mut self, objects: Vec<T>, version: &str) {
        if self.synced == Synced::No {
            self.synced = if objects.is_empty() { Synced::Yes } else { Synced::AfterReplace };
        }
        self.deltas += objects.len();
        // Applied one right after the other, the second list undoes whatever of the first is not in it. What was only in the first
        // was never told and need not be taken back; an object made anew in between has another uid. And what was reached with the
        // first is reached with the second, because no event lies between them.
        if matches!(self.queue.back(), Some(Entry { item: Item::Replace(_), .. }))
            && let Some(overtaken) = self.queue.pop_back()
        {
            self.forget(&overtaken.item);
        }
        self.newest = self.push_entry(Item::Replace(objects));
        self.replaces += 1;
        self.slots.clear();
        self.reach(Version::from(version));
    }

    /// Hands out again each of these objects that does not wait to be handed out anyway; while a replace waits, none.
    pub fn resync(&mut self, objects: impl IntoIterator<Item = T>) {
        if self.replaces > 0 {
            return;
        }
        for object in objects {
            let hash = self.hash(&object);
            if self.find(hash, &object).is_none() {
                self.push_key(hash, Delta::Sync(object));
            }
        }
    }

    /// Takes out what is to be done next: the first `keys_max` keys, fewer if there are fewer before a replace, or one replace.
    /// `None` if there is nothing.
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

    /// Whether everything that was there at first has been popped: the first replace, or nothing if it was empty or if an object
    /// came before any replace. Whether it has been applied is for the one who popped it to say.
    pub fn has_synced(&self) -> bool {
        self.synced == Synced::Yes
    }

    /// How many keys are queued; a replace counts as one.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// How many deltas are queued, the objects of replaces among them: how far the cache is behind.
    pub fn deltas(&self) -> usize {
        self.deltas
    }

    /// Whether there is nothing to pop, not even a version.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.passed.is_none()
    }

    /// Whether the object may be in the cache when what is put in now is applied, as far as the queue knows.
    fn holds(&self, object: &T) -> bool {
        // Looking through the list of a replace for each deletion would take too long: whoever applies the deletion sees it.
        self.replaces > 0 || self.find(self.hash(object), object).is_some()
    }

    /// Something came: where it came before any replace, there is nothing else to wait for.
    fn populated(&mut self) {
        if self.synced == Synced::No {
            self.synced = Synced::Yes;
        }
    }

    /// A delta that the watch gave, so its version has a place in the stream.
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

    /// Puts a delta into the list of its key, and gives the number of the entry.
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
        let is_its = |slot: &Slot| {
            slot.hash == hash
                && match &self.queue[index(slot) as usize].item {
                    Item::Key { changes, .. } => has_same_key(changes.oldest().object(), object),
                    Item::Replace(_) => false,
                }
        };
        let slot = self.slots.find(Slot::spread(hash), is_its)?;
        Some(self.head + u64::from(index(slot)))
    }

    /// Takes out the first entry, if it is a key or `replace_too`.
    fn pop_entry(&mut self, replace_too: bool) -> Option<Entry<T>> {
        if !replace_too && matches!(self.queue.front()?.item, Item::Replace(_)) {
            return None;
        }
        let entry = self.queue.pop_front()?;
        if let Item::Key { hash, .. } = entry.item
            && let Ok(slot) = self.slots.find_entry(Slot::spread(hash), |slot| slot.number == self.head as u32)
        {
            slot.remove();
        }
        self.forget(&entry.item);
        self.head += 1;
        if self.queue.is_empty() && self.queue.capacity() > PLACES_KEPT {
            self.queue = VecDeque::new();
            self.slots = HashTable::new();
        }
        Some(entry)
    }

    /// Counts an entry as no longer queued.
    fn forget(&mut self, item: &Item<T>) {
        match item {
            Item::Key { changes, .. } => self.deltas -= changes.len(),
            Item::Replace(objects) => {
                self.deltas -= objects.len();
                self.replaces -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::queued::tests::state;

    #[test]
    fn an_emptied_queue_gives_its_memory_back() {
        let mut fifo = DeltaFifo::new();
        for number in 0..=PLACES_KEPT {
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
