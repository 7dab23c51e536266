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
type Entry = (u64, u32, SlotId);

/// The times of all delayed keys, soonest first; among equal times the one that was set first.
///
/// Only the stretch of time that comes next is in order. Later ones are heaps in the ordinary sense: a million keys in one
/// ordered heap cost a walk through cold memory for each key that becomes ready.
///
/// A time that is changed or cancelled stays here, out of date, until it is met or there are more such than good ones. An
/// entry is good when the slot still waits by that very setting.
pub(crate) struct Delays {
    /// What lies in the stretch `horizon` or before it.
    near: BinaryHeap<Reverse<Entry>>,
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
        Self { near: BinaryHeap::new(), horizon: 0, far: BTreeMap::new(), entries: 0, good: 0, sequence: 0 }
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
            stretch if stretch <= self.horizon => self.near.push(Reverse(entry)),
            stretch => self.far.entry(stretch).or_default().push(entry),
        }
        if self.entries > 2 * self.good + STALE_MIN {
            self.forget_stale(slots);
        }
    }

    fn forget_stale<T: Hash + Eq>(&mut self, slots: &Slots<T>) {
        self.near.retain(|Reverse(entry)| is_good(slots, entry));
        self.far.retain(|_, entries| {
            entries.retain(|entry| is_good(slots, entry));
            !entries.is_empty()
        });
        self.entries = self.near.len() + self.far.values().map(Vec::len).sum::<usize>();
    }

    /// Says that a delayed slot is delayed no longer.
    pub(crate) fn cancel<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId) {
        slots.get_mut(id).pending = Pending::No;
        self.good -= 1;
        if self.good == 0 {
            self.near.clear();
            self.far.clear();
            self.entries = 0;
        }
    }

    /// The soonest time for which a key waits.
    pub(crate) fn next<T: Hash + Eq>(&mut self, slots: &Slots<T>) -> Option<u64> {
        loop {
            while let Some(Reverse(entry)) = self.near.peek() {
                if is_good(slots, entry) {
                    return Some(entry.0);
                }
                self.near.pop();
                self.entries -= 1;
            }
            let (stretch, entries) = self.far.pop_first()?;
            self.horizon = stretch;
            self.near.extend(entries.into_iter().map(Reverse));
        }
    }

    /// Takes the slot whose time came first, if its time has come by `now`. It is delayed no longer.
    pub(crate) fn pop_due<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, now: u64) -> Option<(SlotId, u64)> {
        let time = self.next(slots).filter(|time| *time <= now)?;
        let Reverse((_, _, id)) = self.near.pop()?;
        self.entries -= 1;
        self.cancel(slots, id);
        Some((id, time))
    }

    /// Takes any delayed slot. It is delayed no longer.
    pub(crate) fn pop_any<T: Hash + Eq>(&mut self, slots: &mut Slots<T>) -> Option<SlotId> {
        self.pop_due(slots, u64::MAX).map(|(id, _)| id)
    }
}

fn is_good<T: Hash + Eq>(slots: &Slots<T>, (_, sequence, id): &Entry) -> bool {
    slots.get_used(*id).is_some_and(|slot| slot.pending == Pending::Delayed && slot.delay == *sequence)
}
