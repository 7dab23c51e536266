//! Where the keys are kept: each key once, in a numbered slot, found by its hash, and linked into at most one list.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::processing::PlaceId;
use crate::table::Table;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// With more keys than this it is worth looking ahead.
const LARGE: usize = 1 << 14;
/// An empty queue keeps room for this many keys and gives the rest back.
const KEPT_WHEN_EMPTY: usize = 1 << 12;

/// The number of a slot. It means one key for as long as the key is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId(u32);

/// What is to become of a key, beside being worked on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Nothing.
    No,
    /// It waits for its time, [`Slot::time`].
    Delayed,
    /// It is ready since [`Slot::time`]: in a list of its priority or, while a worker has it, as soon as that is done.
    Ready,
}

/// One key and what is known of it.
pub(crate) struct Slot<T> {
    /// `None` in a slot that is free.
    key: Option<T>,
    hash: u32,
    /// See [`Pending`].
    pub(crate) time: u64,
    previous: u32,
    /// The next slot of the list; in a free slot, the next free one; in one that a worker has, its place among those.
    next: u32,
    /// The number under which [`Pending::Delayed`] was last set.
    pub(crate) delay: u32,
    pub(crate) priority: i8,
    pub(crate) pending: Pending,
    /// Whether a worker has the key.
    pub(crate) processing: bool,
}

impl<T> Slot<T> {
    pub(crate) fn key(&self) -> &T {
        self.key.as_ref().expect("slots that are in use have a key")
    }

    /// A worker has the key, which is in no list.
    pub(crate) fn hand_out(&mut self, place: PlaceId) {
        self.processing = true;
        self.next = place;
    }

    /// Its place among the keys that workers have, if one has it.
    pub(crate) fn place(&self) -> Option<PlaceId> {
        self.processing.then_some(self.next)
    }
}

/// A list of slots, oldest first.
#[derive(Clone, Copy)]
pub(crate) struct List {
    first: u32,
    last: u32,
    len: usize,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<SlotId> {
        (self.first != NONE).then_some(SlotId(self.first))
    }
}

/// The slots.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    by_key: Table,
    hasher: DefaultHashBuilder,
    free: u32,
}

impl<T: Hash + Eq> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), by_key: Table::default(), hasher: DefaultHashBuilder::default(), free: NONE }
    }

    /// The slot of `key`, in use or made for it. A key that was there before is kept, and the new one dropped.
    pub(crate) fn find_or_insert(&mut self, key: T) -> SlotId {
        let Self { slots, by_key, hasher, free } = self;
        let hash = hasher.hash_one(&key) as u32;
        if let Some(id) = by_key.find(hash, |id| *slots[id as usize].key() == key) {
            return SlotId(id);
        }
        let slot = Slot {
            key: Some(key),
            hash,
            time: 0,
            previous: NONE,
            next: NONE,
            delay: 0,
            priority: 0,
            pending: Pending::No,
            processing: false,
        };
        let id = *free;
        let id = if id == NONE {
            let id = u32::try_from(slots.len()).ok().filter(|id| *id != NONE).expect("fewer than four billion keys");
            slots.push(slot);
            id
        } else {
            *free = slots[id as usize].next;
            slots[id as usize] = slot;
            id
        };
        by_key.insert(hash, id);
        SlotId(id)
    }

    /// The hash of a key.
    pub(crate) fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// The hash of the key in a slot.
    pub(crate) fn hash_of(&self, id: SlotId) -> u32 {
        self.slots[id.0 as usize].hash
    }

    /// Whether the table is so large that a place in it is probably not in the processor's cache.
    pub(crate) fn is_large(&self) -> bool {
        self.by_key.len() > LARGE
    }

    /// Fetches the places of keys with these hashes.
    pub(crate) fn look_ahead(&self, hashes: &[u32]) {
        self.by_key.look_ahead(hashes);
    }

    /// Looks at these slots and their keys, those that are in use, and does nothing: see [`Table::look_ahead`].
    pub(crate) fn look_at(&self, ids: impl Iterator<Item = SlotId>) {
        let look = |seen, id| self.get_used(id).map_or(seen, |slot| seen ^ self.hash(slot.key()));
        std::hint::black_box(ids.fold(0, look));
    }

    /// Frees a slot that is in no list, and gives its key back.
    pub(crate) fn remove(&mut self, id: SlotId) -> T {
        let slot = &mut self.slots[id.0 as usize];
        let key = slot.key.take().expect("only slots in use are removed");
        slot.next = self.free;
        self.free = id.0;
        self.by_key.remove(slot.hash, id.0);
        if self.by_key.is_empty() && self.slots.capacity() > KEPT_WHEN_EMPTY {
            self.slots = Vec::new();
            self.by_key = Table::default();
            self.free = NONE;
        }
        key
    }

    pub(crate) fn get(&self, id: SlotId) -> &Slot<T> {
        &self.slots[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> &mut Slot<T> {
        &mut self.slots[id.0 as usize]
    }

    /// The slot, if it is in use.
    pub(crate) fn get_used(&self, id: SlotId) -> Option<&Slot<T>> {
        self.slots.get(id.0 as usize).filter(|slot| slot.key.is_some())
    }

    /// Puts a slot that is in no list at the end of `list`.
    pub(crate) fn push_back(&mut self, list: &mut List, id: SlotId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.previous = list.last;
        slot.next = NONE;
        match list.last {
            NONE => list.first = id.0,
            last => self.slots[last as usize].next = id.0,
        }
        list.last = id.0;
        list.len += 1;
    }

    /// Takes a slot out of `list`, in which it is.
    pub(crate) fn unlink(&mut self, list: &mut List, id: SlotId) {
        let Slot { previous, next, .. } = self.slots[id.0 as usize];
        match previous {
            NONE => list.first = next,
            previous => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.slots[next as usize].previous = previous,
        }
        list.len -= 1;
    }

    /// Changes each slot of `list`.
    pub(crate) fn for_each(&mut self, list: &List, mut change: impl FnMut(&mut Slot<T>)) {
        let mut next = list.first;
        while let Some(slot) = self.slots.get_mut(next as usize) {
            change(slot);
            next = slot.next;
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}
