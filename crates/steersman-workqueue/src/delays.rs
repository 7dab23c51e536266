//! When delayed keys become ready.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hash;

use crate::slots::{Pending, SlotId, Slots};

/// Times are put in order within a stretch of 2 to this power nanoseconds, about a quarter of a second, when it comes.
const STRETCH_BITS: u32 = 28;
/// So many entries may be out of date before they are looked at.
const STALE_MIN: usize = 1 << 10;

/// A time, the number of its setting, and the slot that waits for it.
pub(crate) type Entry = (u64, u32, SlotId);

/// The times of all delayed keys, soonest first; among equal times the one that was set first.
///
/// Only the stretch of time that comes next is in order. Later ones are heaps in the ordinary sense: a million keys in one
/// ordered heap cost a walk through cold memory for each key that becomes ready.
///
/// A time that is changed or cancelled stays here, out of date, until it is met or there are more such than good ones. An
/// entry is good when the slot still waits by that very setting.
pub(crate) struct Delays {
    /// What lay in the stretch `horizon` or before it when that was put in order: the soonest is the last.
    near: Vec<Entry>,
    /// What was set since then and lies there too.
    fresh: BinaryHeap<Reverse<Entry>>,
    horizon: u64,
    /// What lies after it, by stretch, as it came.
    far: BTreeMap<u64, Vec<Entry>>,
    /// How many entries there are, good or out of date.
    entries: usize,
    /// How many keys are delayed.
    good: usize,
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
            good: 0,
            sequence: 0,
        }
    }

    /// How many keys are delayed.
    pub(crate) fn len(&self) -> usize {
        self.good
    }

    /// Delays a slot that is not delayed, until `time`.
    pub(crate) fn delay<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId, time: u64) {
        self.good += 1;
        self.set(slots, id, time);
    }

    /// Gives a delayed slot an earlier time.
    pub(crate) fn hasten<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId, time: u64) {
        self.set(slots, id, time);
    }

    fn set<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId, time: u64) {
        let slot = slots.get_mut(id);
        slot.pending = Pending::Delayed;
        slot.time = time;
        self.sequence = self.sequence.wrapping_add(1);
        slot.delay = self.sequence;
        self.entries += 1;
        let entry = (time, self.sequence, id);
        match time >> STRETCH_BITS {
            stretch if stretch <= self.horizon => self.fresh.push(Reverse(entry)),
            stretch => self.far.entry(stretch).or_default().push(entry),
        }
        if self.entries > 2 * self.good + STALE_MIN {
            self.forget_stale(slots);
        }
    }

    fn forget_stale<T: Hash + Eq>(&mut self, slots: &Slots<T>) {
        self.near.retain(|entry| is_good(slots, entry));
        self.fresh.retain(|Reverse(entry)| is_good(slots, entry));
        self.far.retain(|_, entries| {
            entries.retain(|entry| is_good(slots, entry));
            !entries.is_empty()
        });
        self.entries = self.near.len() + self.fresh.len() + self.far.values().map(Vec::len).sum::<usize>();
    }

    /// Says that a delayed slot is delayed no longer.
    pub(crate) fn cancel<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId) {
        slots.get_mut(id).pending = Pending::No;
        self.good -= 1;
        if self.good == 0 {
            self.near.clear();
            self.fresh.clear();
            self.far.clear();
            self.entries = 0;
        }
    }

    /// The soonest entry, good or not.
    fn first(&mut self) -> Option<Entry> {
        loop {
            match (self.near.last(), self.fresh.peek()) {
                (Some(near), Some(Reverse(fresh))) => return Some(*near.min(fresh)),
                (Some(near), None) => return Some(*near),
                (None, Some(Reverse(fresh))) => return Some(*fresh),
                (None, None) => {}
            }
            let (stretch, entries) = self.far.pop_first()?;
            self.horizon = stretch;
            self.near = entries;
            self.near.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// Takes `first`, which is the soonest entry.
    fn pop(&mut self, first: &Entry) {
        if self.near.last() == Some(first) {
            self.near.pop();
        } else {
            self.fresh.pop();
        }
        self.entries -= 1;
    }

    /// The soonest time for which a key waits.
    pub(crate) fn next<T: Hash + Eq>(&mut self, slots: &Slots<T>) -> Option<u64> {
        loop {
            let first = self.first()?;
            // If none is out of date the slot, which may be anywhere in memory, need not be looked at.
            if self.entries == self.good || is_good(slots, &first) {
                return Some(first.0);
            }
            self.pop(&first);
        }
    }

    /// Whether [`take_due`](Self::take_due) would find anything.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        self.first().is_some_and(|(time, ..)| time <= now)
    }

    /// Takes the entries whose time has come by `now`, in order. For each of them [`end`](Self::end) is to be called.
    ///
    /// The slots are looked at when all are known: each may be anywhere in memory, and so the waits for it overlap.
    pub(crate) fn take_due(&mut self, now: u64, due: &mut Vec<Entry>) {
        while let Some(first) = self.first().filter(|(time, ..)| *time <= now) {
            self.pop(&first);
            due.push(first);
        }
    }

    /// Ends the delay of an entry that was taken. Gives the slot, and the time since when it is ready, unless the entry was
    /// out of date.
    pub(crate) fn end<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, entry: Entry) -> Option<(SlotId, u64)> {
        if !is_good(slots, &entry) {
            return None;
        }
        let (time, _, id) = entry;
        self.cancel(slots, id);
        Some((id, time))
    }
}

fn is_good<T: Hash + Eq>(slots: &Slots<T>, (_, sequence, id): &Entry) -> bool {
    slots.get_used(*id).is_some_and(|slot| slot.pending == Pending::Delayed && slot.delay == *sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_were_changed_are_forgotten_before_they_are_many() {
        let (mut delays, mut slots) = (Delays::new(), Slots::new());
        let id = slots.find_or_insert("a");
        delays.delay(&mut slots, id, u64::MAX);
        for earlier in 1..100_000 {
            delays.hasten(&mut slots, id, u64::MAX - earlier);
            assert!(delays.entries <= 2 + STALE_MIN, "{} entries for one key", delays.entries);
        }
        assert_eq!(delays.next(&slots), Some(u64::MAX - 99_999));
    }
}
