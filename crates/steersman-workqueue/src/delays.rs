//! The times at which delayed keys become ready.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hash;

use crate::slots::{Pending, SlotId, Slots};

/// A bucket of times spans 2 to this power nanoseconds, about a quarter of a second. It is sorted
/// when its turn comes.
const BUCKET_BITS: u32 = 28;
/// How many entries may be stale before they are removed.
const STALE_MIN: usize = 1 << 10;

/// A time, the sequence number of the delay, and the delayed slot.
pub(crate) type Entry = (u64, u32, SlotId);

/// The times of all delayed keys, soonest first; of equal times the one that was set first.
///
/// Only the next bucket of times is sorted. Later buckets are unsorted: with a million keys in one
/// binary heap, each key that becomes ready would cost a walk through cold memory.
///
/// If a delay changes or is cancelled, its entry stays as a stale one. Stale entries are removed
/// when their time comes, or when they outnumber the current ones. An entry is current if its slot
/// is delayed with that sequence number.
pub(crate) struct Delays {
    /// The entries of the bucket `horizon` and before, as of the moment when it was sorted. The
    /// soonest is the last.
    near: Vec<Entry>,
    /// The entries up to `horizon` that were added since.
    fresh: BinaryHeap<Reverse<Entry>>,
    horizon: u64,
    /// The later entries by bucket, unsorted.
    far: BTreeMap<u64, Vec<Entry>>,
    /// How many entries there are, current or stale.
    entries: usize,
    /// How many entries are current: one for each delayed key.
    current: usize,
    sequence: u32,
}

impl Delays {
    pub(crate) fn new() -> Self {
        Self {
            near: Vec::new(),
            fresh: BinaryHeap::new(),
            horizon: 0,
            far: BTreeMap::new(),
            entries: 0,
            current: 0,
            sequence: 0,
        }
    }

    /// How many keys are delayed.
    pub(crate) fn len(&self) -> usize {
        self.current
    }

    /// Delays a slot that is not delayed, until `time`.
    pub(crate) fn delay<T: Hash + Eq, P: Default>(&mut self, slots: &mut Slots<T, P>, id: SlotId, time: u64) {
        self.current += 1;
        self.set(slots, id, time);
    }

    /// Gives a delayed slot an earlier time.
    pub(crate) fn shorten<T: Hash + Eq, P: Default>(&mut self, slots: &mut Slots<T, P>, id: SlotId, time: u64) {
        self.set(slots, id, time);
    }

    fn set<T: Hash + Eq, P: Default>(&mut self, slots: &mut Slots<T, P>, id: SlotId, time: u64) {
        let slot = slots.get_mut(id);
        slot.pending = Pending::Delayed;
        slot.time = time;
        self.sequence = self.sequence.wrapping_add(1);
        slot.delay = self.sequence;
        self.entries += 1;
        let entry = (time, self.sequence, id);
        match time >> BUCKET_BITS {
            bucket if bucket <= self.horizon => self.fresh.push(Reverse(entry)),
            bucket => self.far.entry(bucket).or_default().push(entry),
        }
        if self.entries > 2 * self.current + STALE_MIN {
            self.forget_stale(slots);
        }
    }

    fn forget_stale<T: Hash + Eq, P: Default>(&mut self, slots: &Slots<T, P>) {
        self.near.retain(|entry| is_current(slots, entry));
        self.fresh.retain(|Reverse(entry)| is_current(slots, entry));
        self.far.retain(|_, entries| {
            entries.retain(|entry| is_current(slots, entry));
            !entries.is_empty()
        });
        self.entries = self.near.len() + self.fresh.len() + self.far.values().map(Vec::len).sum::<usize>();
    }

    /// Ends the delay of a slot before its time.
    pub(crate) fn cancel<T: Hash + Eq, P: Default>(&mut self, slots: &mut Slots<T, P>, id: SlotId) {
        slots.get_mut(id).pending = Pending::No;
        self.current -= 1;
        if self.current == 0 {
            self.near.clear();
            self.fresh.clear();
            self.far.clear();
            self.entries = 0;
        }
    }

    /// The soonest entry, current or stale.
    fn first(&mut self) -> Option<Entry> {
        loop {
            match (self.near.last(), self.fresh.peek()) {
                (Some(near), Some(Reverse(fresh))) => return Some(*near.min(fresh)),
                (Some(near), None) => return Some(*near),
                (None, Some(Reverse(fresh))) => return Some(*fresh),
                (None, None) => {}
            }
            let (bucket, entries) = self.far.pop_first()?;
            self.horizon = bucket;
            self.near = entries;
            self.near.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// Removes `first`, which is the soonest entry.
    fn pop(&mut self, first: &Entry) {
        if self.near.last() == Some(first) {
            self.near.pop();
        } else {
            self.fresh.pop();
        }
        self.entries -= 1;
    }

    /// The soonest time at which a key becomes ready.
    pub(crate) fn next<T: Hash + Eq, P: Default>(&mut self, slots: &Slots<T, P>) -> Option<u64> {
        loop {
            let first = self.first()?;
            // Without stale entries the slot, which may be anywhere in memory, need not be read.
            if self.entries == self.current || is_current(slots, &first) {
                return Some(first.0);
            }
            self.pop(&first);
        }
    }

    /// Takes the entries whose time has come by `now`, in order. The caller passes each of them to
    /// [`end`](Self::end).
    ///
    /// The two steps are separate so that the caller can prefetch the slots of all of them.
    pub(crate) fn take_due(&mut self, now: u64, due: &mut Vec<Entry>) {
        while let Some(first) = self.first().filter(|(time, ..)| *time <= now) {
            self.pop(&first);
            due.push(first);
        }
    }

    /// Ends the delay of an entry that was taken. Returns the slot and the time since which it is
    /// ready, or `None` if the entry is stale.
    pub(crate) fn end<T: Hash + Eq, P: Default>(
        &mut self,
        slots: &mut Slots<T, P>,
        entry: Entry,
    ) -> Option<(SlotId, u64)> {
        if !is_current(slots, &entry) {
            return None;
        }
        let (time, _, id) = entry;
        self.cancel(slots, id);
        Some((id, time))
    }
}

fn is_current<T: Hash + Eq, P: Default>(slots: &Slots<T, P>, (_, sequence, id): &Entry) -> bool {
    slots.get_used(*id).is_some_and(|slot| slot.pending == Pending::Delayed && slot.delay == *sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_were_changed_are_forgotten_before_they_are_many() {
        let (mut delays, mut slots) = (Delays::new(), Slots::<&str, ()>::new());
        let id = slots.find_or_insert("a", |key| key);
        delays.delay(&mut slots, id, u64::MAX);
        for earlier in 1..100_000 {
            delays.shorten(&mut slots, id, u64::MAX - earlier);
            assert!(delays.entries <= 2 + STALE_MIN, "{} entries for one key", delays.entries);
        }
        assert_eq!(delays.next(&slots), Some(u64::MAX - 99_999));
    }
}
