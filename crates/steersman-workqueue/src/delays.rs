//! When delayed keys become ready.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

use crate::slots::{Pending, SlotId, Slots};

/// So many entries may be out of date before they are looked at.
const STALE_MIN: usize = 1 << 10;

/// The times of all delayed keys, soonest first; among equal times the one that was set first.
///
/// A time that is changed or cancelled stays here, out of date, until it is met or there are more such than good ones. An
/// entry is good when the slot still waits for that very time.
pub(crate) struct Delays {
    heap: BinaryHeap<Reverse<(u64, u32, SlotId)>>,
    /// How many keys are delayed.
    good: usize,
    sequence: u32,
}

impl Delays {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), good: 0, sequence: 0 }
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
        self.heap.push(Reverse((time, self.sequence, id)));
        if self.heap.len() > 2 * self.good + STALE_MIN {
            self.heap.retain(|Reverse((time, _, id))| is_good(slots, *id, *time));
        }
    }

    /// Says that a delayed slot is delayed no longer.
    pub(crate) fn cancel<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, id: SlotId) {
        slots.get_mut(id).pending = Pending::No;
        self.good -= 1;
        if self.good == 0 {
            self.heap.clear();
        }
    }

    /// The soonest time for which a key waits.
    pub(crate) fn next<T: Hash + Eq>(&mut self, slots: &Slots<T>) -> Option<u64> {
        while let Some(Reverse((time, _, id))) = self.heap.peek() {
            if is_good(slots, *id, *time) {
                return Some(*time);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the slot whose time came first, if its time has come by `now`. It is delayed no longer.
    pub(crate) fn pop_due<T: Hash + Eq>(&mut self, slots: &mut Slots<T>, now: u64) -> Option<(SlotId, u64)> {
        let time = self.next(slots).filter(|time| *time <= now)?;
        let Reverse((_, _, id)) = self.heap.pop()?;
        self.cancel(slots, id);
        Some((id, time))
    }

    /// Takes any delayed slot. It is delayed no longer.
    pub(crate) fn pop_any<T: Hash + Eq>(&mut self, slots: &mut Slots<T>) -> Option<SlotId> {
        self.pop_due(slots, u64::MAX).map(|(id, _)| id)
    }
}

fn is_good<T: Hash + Eq>(slots: &Slots<T>, id: SlotId, time: u64) -> bool {
    slots.get_used(id).is_some_and(|slot| slot.pending == Pending::Delayed && slot.time == time)
}
