//! The keys that workers hold.

use crate::slots::SlotId;

/// The keys that workers hold, and since when: one place for each. There are as many places as
/// workers, which takes less memory than a field in each of a million slots.
#[derive(Default)]
pub(crate) struct Processing {
    places: Vec<HeldKey>,
    free: Vec<PlaceId>,
}

/// The number of a place. It stands for one key as long as a worker holds that key.
pub(crate) type PlaceId = u32;

struct HeldKey {
    /// `None` in a free place.
    slot: Option<SlotId>,
    /// When the worker got the key.
    started: u64,
}

impl Processing {
    /// Records that a worker gets the key of `slot`.
    pub(crate) fn start(&mut self, slot: SlotId, started: u64) -> PlaceId {
        let place = HeldKey { slot: Some(slot), started };
        if let Some(id) = self.free.pop() {
            self.places[id as usize] = place;
            return id;
        }
        self.places.push(place);
        u32::try_from(self.places.len() - 1).expect("fewer than four billion workers")
    }

    /// Whether the place belongs to `slot`.
    pub(crate) fn is_at(&self, id: PlaceId, slot: SlotId) -> bool {
        self.places.get(id as usize).is_some_and(|place| place.slot == Some(slot))
    }

    /// Records that a worker has given its key back. Returns since when the worker held it.
    pub(crate) fn finish(&mut self, id: PlaceId) -> u64 {
        let place = &mut self.places[id as usize];
        place.slot = None;
        self.free.push(id);
        place.started
    }

    /// The keys that workers hold, and since when.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, u64)> {
        self.places.iter().filter_map(|place| Some((place.slot?, place.started)))
    }

    /// How many keys workers hold.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
