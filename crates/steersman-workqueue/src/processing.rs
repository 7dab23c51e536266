//! The keys that workers have.

use crate::core::Stamp;
use crate::slots::SlotId;

/// Who works on what, and since when: one place for each key that was handed out and has not come back. There are as many as
/// workers, so that what each of a million keys would carry for this is kept here.
#[derive(Default)]
pub(crate) struct Processing {
    places: Vec<Place>,
    free: Vec<PlaceId>,
}

/// The number of a place. It means one key for as long as a worker has that.
pub(crate) type PlaceId = u32;

struct Place {
    /// `None` in a place that is free.
    slot: Option<SlotId>,
    /// When the worker got the key.
    started: u64,
    /// How many adds there had been then.
    handed_out: Stamp,
}

impl Processing {
    /// A worker gets the key of `slot`.
    pub(crate) fn start(&mut self, slot: SlotId, started: u64, handed_out: Stamp) -> PlaceId {
        let place = Place { slot: Some(slot), started, handed_out };
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = place;
            return id;
        }
        self.places.push(place);
        u32::try_from(self.places.len() - 1).expect("fewer than four billion workers")
    }

    /// Whether the place is that of `slot`.
    pub(crate) fn is_at(&self, id: PlaceId, slot: SlotId) -> bool {
        self.places.get(id as usize).is_some_and(|place| place.slot == Some(slot))
    }

    /// How many adds there had been when the worker got its key.
    pub(crate) fn handed_out(&self, id: PlaceId) -> Stamp {
        self.places[id as usize].handed_out
    }

    /// A worker has given its key back. Says since when it had it.
    pub(crate) fn finish(&mut self, id: PlaceId) -> u64 {
        let place = &mut self.places[id as usize];
        place.slot = None;
        self.free.push(id);
        place.started
    }

    /// The keys that workers have, and since when.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, u64)> {
        self.places.iter().filter_map(|place| Some((place.slot?, place.started)))
    }

    /// How many keys workers have.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
