//! The last reconciles of a controller.

use std::collections::VecDeque;

use super::record::Record;

/// A key is busy if the records at these distances from the newest are all of it. Several keys that
/// take turns have one of the distances in common, because many numbers divide them.
const BUSY: [usize; 3] = [12, 24, 36];

/// Keeps the newest records, within a number and a size. In a full ring, a busy key replaces its
/// own records: a hot loop does not push out what led to it.
///
/// A record stays in its slot, and only the order of the slots changes: a record is some 200 bytes,
/// its place in the order is 8.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Option<Record>>,
    /// The used slots, the oldest record first.
    order: VecDeque<RingEntry>,
    unused: Vec<u32>,
    records_max: usize,
    bytes: usize,
    bytes_max: usize,
}

/// A record of the ring.
#[derive(Debug, Clone, Copy)]
struct RingEntry {
    slot: u32,
    bytes: u32,
}

impl Ring {
    pub(crate) fn new(records_max: usize, bytes_max: usize) -> Self {
        let (slots, order, unused) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { slots, order, unused, records_max: records_max.min(u32::MAX as usize), bytes: 0, bytes_max }
    }

    pub(crate) fn push(&mut self, record: Record) {
        let bytes = record.bytes();
        let Ok(bytes_kept) = u32::try_from(bytes) else { return };
        if self.records_max == 0 || bytes > self.bytes_max {
            return;
        }
        if self.is_full(bytes)
            && let Some(place) = self.busy(&record).and_then(|place| self.order.remove(place))
        {
            self.remove(place);
        }
        while self.is_full(bytes) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.remove(oldest);
        }
        self.bytes += bytes;
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(record);
                slot
            }
            None => {
                self.slots.push(Some(record));
                (self.slots.len() - 1) as u32
            }
        };
        self.order.push_back(RingEntry { slot, bytes: bytes_kept });
    }

    fn is_full(&self, bytes: usize) -> bool {
        self.order.len() >= self.records_max || self.bytes + bytes > self.bytes_max
    }

    /// Empties the slot of a record that has left the order.
    fn remove(&mut self, RingEntry { slot, bytes }: RingEntry) {
        self.bytes -= bytes as usize;
        self.slots[slot as usize] = None;
        self.unused.push(slot);
    }

    /// The place of the record that a busy key replaces.
    fn busy(&self, record: &Record) -> Option<usize> {
        let place = |distance: usize| self.order.len().checked_sub(distance);
        let is_same = |distance: &usize| {
            let other = place(*distance).and_then(|place| self.slots[self.order[place].slot as usize].as_ref());
            other.is_some_and(|other| other.key == record.key)
        };
        if BUSY.iter().all(is_same) { place(BUSY[2]) } else { None }
    }

    /// The records, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.order.iter().filter_map(|place| self.slots[place.slot as usize].as_ref())
    }

    /// The memory of all records.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use steersman_cache::ObjectKey;
    use steersman_workqueue::Payload;

    use super::super::cause::{Cause, Causes, Source, SourceInfo};
    use super::super::record::{Actions, ERROR_MAX, Ending, WaitedRead, Write, truncated};
    use super::*;

    fn record(id: u64, causes: Causes, actions: Option<Box<Actions>>, error: &str) -> Record {
        let now = Instant::now();
        let ending = Ending::Failed { error: truncated(error, ERROR_MAX), retry_after: None };
        let (queued, took) = (Duration::ZERO, Duration::ZERO);
        Record { id, key: ObjectKey::new("a", "b"), attempt: 1, causes, queued, started: now, took, actions, ending }
    }

    fn ids(ring: &Ring) -> Vec<u64> {
        ring.iter().map(|record| record.id).collect()
    }

    #[test]
    fn the_newest_records_are_kept() {
        let mut ring = Ring::new(3, 1 << 20);
        (0..10).for_each(|id| ring.push(record(id, Causes::None, None, "")));
        assert_eq!(ids(&ring), [7, 8, 9]);
        let mut off = Ring::new(0, 1 << 20);
        off.push(record(1, Causes::None, None, ""));
        assert_eq!(off.iter().count(), 0);
    }

    #[test]
    fn a_hot_loop_does_not_push_out_what_led_to_it() {
        for hot_keys in [1, 2, 3] {
            let mut ring = Ring::new(256, 1 << 20);
            for id in 0..100 {
                ring.push(record(id, Causes::None, None, ""));
            }
            for id in 100..10_000 {
                let key = ObjectKey::new("hot", &(id % hot_keys).to_string());
                ring.push(Record { key, ..record(id, Causes::None, None, "") });
            }
            let ids = ids(&ring);
            assert!(ids.len() == 256 && ids.starts_with(&[0, 1, 2]) && ids.ends_with(&[9_998, 9_999]), "{ids:?}");
            assert_eq!(ring.bytes(), ring.iter().map(Record::bytes).sum::<usize>());
        }
    }

    #[test]
    fn the_memory_is_bounded_whatever_reconciles_do() {
        const BYTES: usize = 64 << 10;
        let long = "x".repeat(253);
        let key = ObjectKey::new(&long[..63], &long);
        let source = SourceInfo::new(Source::Owned, &long);
        let mut ring = Ring::new(256, BYTES);
        for id in 0..2_000 {
            let (mut causes, mut actions) = (Causes::default(), Actions::default());
            for _ in 0..50 {
                let cause = Cause { object: Some(key.clone()), ..Cause::new(&source) };
                causes.merge(Causes::one(cause), Instant::now(), None);
                let (kind, key) = (long.as_str().into(), key.clone());
                actions.wrote(Write { verb: "update", kind, key, version: id, content: None });
                actions.waited(WaitedRead { kind: long.as_str().into(), waited: Duration::ZERO });
            }
            let big = record(id, causes, Some(Box::new(actions)), &long.repeat(100));
            assert!(big.bytes() < 20 << 10, "one needs {} bytes", big.bytes());
            ring.push(big);
            assert!(ring.bytes() <= BYTES);
            assert_eq!(ring.bytes(), ring.iter().map(Record::bytes).sum::<usize>());
        }
        assert!(ring.iter().count() > 2 && ids(&ring).ends_with(&[1_999]), "{:?}", ids(&ring));
        // One that needs more than all may is not kept, and the others stay.
        let mut small = Ring::new(256, 600);
        small.push(record(1, Causes::None, None, ""));
        small.push(record(2, Causes::None, None, &long.repeat(4)));
        assert_eq!(ids(&small), [1]);
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(&*truncated("short", 16), "short");
        assert_eq!(&*truncated("ääääääääää", 10), "äää…");
        assert!(truncated(&"ä".repeat(999), ERROR_MAX).len() <= ERROR_MAX);
    }
}
