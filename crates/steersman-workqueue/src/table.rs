//! Finds the number of a key by its hash.

/// In a place that is free.
const FREE: u32 = u32::MAX;
/// As many places as the smallest table has.
const SMALLEST: usize = 8;

/// The numbers under which keys are kept elsewhere, found by the keys' hashes.
///
/// A hash and its number lie side by side, at the place that the hash asks for or at the next one that is free. So one line of
/// memory tells who is there and takes who comes, and can be fetched before it is needed: in a table of a million keys that is
/// most of the cost. It grows without a look at the keys.
#[derive(Clone, Default)]
pub(crate) struct Table {
    /// A power of two of them, or none.
    places: Vec<Place>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Place {
    hash: u32,
    number: u32,
}

impl Table {
    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// The place of the number that `is_it` among those with this hash.
    #[inline]
    fn place_of(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Some places are always free.
        loop {
            let place = self.places[at];
            if place.number == FREE {
                return None;
            }
            if place.hash == hash && is_it(place.number) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The number that `is_it` among those with this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_of(hash, is_it).map(|at| self.places[at].number)
    }

    /// Takes in a number that is not there, and is less than the largest there is.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        debug_assert_ne!(number, FREE);
        // With more of them, those that are not there would be looked for too long.
        if (self.len + 1) * 8 > self.places.len() * 5 {
            self.grow();
        }
        self.put(Place { hash, number });
        self.len += 1;
    }

    fn put(&mut self, place: Place) {
        let mask = self.mask();
        let mut at = place.hash as usize & mask;
        while self.places[at].number != FREE {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    fn grow(&mut self) {
        let room = (self.places.len() * 2).max(SMALLEST);
        let before = std::mem::replace(&mut self.places, vec![Place { hash: 0, number: FREE }; room]);
        before.into_iter().filter(|place| place.number != FREE).for_each(|place| self.put(place));
    }

    /// Takes a number out, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let Some(mut free) = self.place_of(hash, |other| other == number) else { return };
        let mask = self.mask();
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.number == FREE {
                break;
            }
            // One that was put off beyond the place that is free now comes back to it.
            let put_off = at.wrapping_sub(place.hash as usize) & mask;
            if put_off >= at.wrapping_sub(free) & mask {
                self.places[free] = place;
                free = at;
            }
        }
        self.places[free].number = FREE;
        self.len -= 1;
    }

    /// Looks at the places of these hashes, and does nothing. They are anywhere in memory; looked at one right after the other
    /// they come all together, and are there when they are needed one by one.
    pub(crate) fn look_ahead(&self, hashes: &[u32]) {
        let mask = self.mask();
        let look = |seen, hash: &u32| seen ^ self.places.get(*hash as usize & mask).map_or(0, |place| place.hash);
        std::hint::black_box(hashes.iter().fold(0, look));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hashes, so that many keys want the same place, and hashes whose places are at both ends of the table.
        #[test]
        fn it_holds_what_a_slow_map_holds(
            operations in prop::collection::vec((prop_oneof![0_u32..4, 0xFFFF_FFF8_u32.., any::<u32>()], 0_u32..40, any::<bool>()), 0..400),
        ) {
            let mut table = Table::default();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for (hash, number, add) in operations {
                let held = model.get(&number).copied();
                match (held, add) {
                    (None, true) => {
                        table.insert(hash, number);
                        model.insert(number, hash);
                    }
                    (Some(held), false) => {
                        table.remove(held, number);
                        model.remove(&number);
                    }
                    // It is there under another hash, or not at all.
                    (held, _) => {
                        if held != Some(hash) {
                            table.remove(hash, number);
                        }
                    }
                }
                prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
                for (number, hash) in &model {
                    prop_assert_eq!(table.find(*hash, |other| other == *number), Some(*number));
                }
                let there: Vec<u32> = (0..4).filter(|hash| table.find(*hash, |_| true).is_some()).collect();
                let expected: Vec<u32> = (0..4).filter(|hash| model.values().any(|other| other == hash)).collect();
                prop_assert_eq!(there, expected);
                table.look_ahead(&[hash, 0, u32::MAX]);
            }
        }
    }

    #[test]
    fn an_empty_table_is_looked_at_without_harm() {
        let table = Table::default();
        table.look_ahead(&[0, 1, u32::MAX]);
        assert_eq!(table.find(1, |_| true), None);
    }
}
