//! The storage of keys. Each key is stored once, in a numbered slot, found by its hash, and linked
//! into at most one list.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::table::Table;

/// Marks the end of a list.
const NONE: u32 = u32::MAX;
/// With more keys than this, prefetching pays.
const LARGE: usize = 1 << 14;
/// The capacity, in keys, that an empty queue keeps.
const KEPT_WHEN_EMPTY: usize = 1 << 12;

/// The number of a slot. It stands for one key as long as the queue holds that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId(u32);

/// The state of a key, apart from whether a worker holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Neither delayed nor ready.
    No,
    /// Becomes ready at [`Slot::time`].
    Delayed,
    /// Ready since [`Slot::time`]. It is in the list of its priority; if a worker holds it, it
    /// joins that list when the worker is done.
    Ready,
}

/// One key and its state.
pub(crate) struct Slot<T, P> {
    /// `None` in a free slot.
    key: Option<T>,
    hash: u32,
    /// See [`Pending`].
    pub(crate) time: u64,
    previous: u32,
    /// The next slot of the list; in a free slot, the next free one.
    next: u32,
    /// The sequence number of the delay that was set last, see [`Delays`](crate::delays::Delays).
    pub(crate) delay: u32,
    pub(crate) priority: i8,
    pub(crate) pending: Pending,
    /// Whether a worker holds the key.
    pub(crate) processing: bool,
    /// What the adds since the last handing out carried.
    pub(crate) payload: P,
}

impl<T, P> Slot<T, P> {
    pub(crate) fn key(&self) -> &T {
        self.key.as_ref().expect("slots that are in use have a key")
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

/// All slots, and the table that finds them.
pub(crate) struct Slots<T, P> {
    slots: Vec<Slot<T, P>>,
    by_key: Table,
    hasher: DefaultHashBuilder,
    free: u32,
}

impl<T: Hash + Eq, P: Default> Slots<T, P> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), by_key: Table::default(), hasher: DefaultHashBuilder::default(), free: NONE }
    }

    /// Returns the slot of `key`. A new slot stores the key that `into_key` returns; an existing
    /// one keeps its key.
    pub(crate) fn find_or_insert<Q: Borrow<T>>(&mut self, key: Q, into_key: impl FnOnce(Q) -> T) -> SlotId {
        let Self { slots, by_key, hasher, free } = self;
        let hash = hasher.hash_one(key.borrow()) as u32;
        if let Some(id) = by_key.find(hash, |id| slots[id as usize].key() == key.borrow()) {
            return SlotId(id);
        }
        let slot = Slot {
            key: Some(into_key(key)),
            hash,
            time: 0,
            previous: NONE,
            next: NONE,
            delay: 0,
            priority: 0,
            pending: Pending::No,
            processing: false,
            payload: P::default(),
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

    /// The slot of `key`.
    pub(crate) fn find(&self, key: &T) -> Option<&Slot<T, P>> {
        let hash = self.hasher.hash_one(key) as u32;
        let id = self.by_key.find(hash, |id| {
            count_look();
            self.slots[id as usize].key() == key
        })?;
        self.slots.get(id as usize)
    }

    /// Whether the slots probably exceed the processor's cache.
    pub(crate) fn is_large(&self) -> bool {
        self.by_key.len() > LARGE
    }

    /// Loads these slots and their keys into the processor's cache. They are anywhere in memory,
    /// and loads in quick succession overlap.
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = SlotId>) {
        let load = |seen, id| self.get_used(id).map_or(seen, |slot| seen ^ self.hasher.hash_one(slot.key()));
        std::hint::black_box(ids.fold(0, load));
    }

    /// Frees a slot that is in no list, and returns its key.
    pub(crate) fn remove(&mut self, id: SlotId) -> T {
        let slot = &mut self.slots[id.0 as usize];
        let key = slot.key.take().expect("only slots in use are removed");
        slot.payload = P::default();
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

    pub(crate) fn get(&self, id: SlotId) -> &Slot<T, P> {
        &self.slots[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> &mut Slot<T, P> {
        &mut self.slots[id.0 as usize]
    }

    /// The slot, if it is in use.
    pub(crate) fn get_used(&self, id: SlotId) -> Option<&Slot<T, P>> {
        self.slots.get(id.0 as usize).filter(|slot| slot.key.is_some())
    }

    /// Appends a slot that is in no list to `list`.
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

    /// Removes a slot from `list`, which contains it.
    pub(crate) fn unlink(&mut self, list: &mut List, id: SlotId) {
        let Slot { previous, next, .. } = &self.slots[id.0 as usize];
        let (previous, next) = (*previous, *next);
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

    /// The slots of `list`, in order.
    pub(crate) fn iter(&self, list: &List) -> impl Iterator<Item = &Slot<T, P>> {
        let get = |id: u32| self.slots.get(id as usize).inspect(|_| count_look());
        std::iter::successors(get(list.first), move |slot| get(slot.next))
    }

    /// Calls `change` for each slot of `list`.
    pub(crate) fn for_each(&mut self, list: &List, mut change: impl FnMut(&mut Slot<T, P>)) {
        let mut next = list.first;
        while let Some(slot) = self.slots.get_mut(next as usize) {
            count_look();
            change(slot);
            next = slot.next;
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}

/// Tests count how many slots an operation looks at.
#[inline]
fn count_look() {
    #[cfg(test)]
    tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    #[cfg(not(steersman_loom))]
    use std::time::{Duration, Instant};

    #[cfg(not(steersman_loom))]
    use crate::{AddOptions, Core};

    thread_local! {
        pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// A page shows this while workers wait for the lock of the queue.
    #[cfg(not(steersman_loom))]
    #[test]
    fn what_a_page_shows_costs_the_same_with_any_number_of_keys() {
        const SHOWN: usize = 20;
        let looks = |keys: u64| {
            let (mut core, now) = (Core::new(), Instant::now());
            for key in 0..keys {
                core.add(key, AddOptions::new().priority([0, 5, -100][key as usize % 3]), now);
                core.add(keys + key, AddOptions::new().after(Duration::from_secs(60)), now);
            }
            LOOKS.set(0);
            assert_eq!(core.waiting(SHOWN, now).len(), SHOWN);
            for key in 0..SHOWN as u64 {
                assert_eq!(core.delay_of(&(keys + key), now), Some(Duration::from_secs(60)));
            }
            LOOKS.get()
        };
        let most = 3 * (SHOWN + 1) + 2 * SHOWN;
        for keys in [1_000, 100_000] {
            let looks = looks(keys);
            assert!(looks <= most, "{looks} slots for {keys} keys");
        }
    }
}
