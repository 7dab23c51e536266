//! A hash table from keys to numbers that does not store the keys.

/// The number in a free place.
const FREE: u32 = u32::MAX;
/// How many places the smallest table has.
const SMALLEST: usize = 8;

/// The numbers of keys that are stored elsewhere, found by the hashes of the keys.
///
/// A hash and its number lie side by side, in the place that the hash selects or in the next free
/// one. So a lookup, an insertion or a removal usually touches one cache line, which with a million
/// keys is most of its cost. Growing reads no key.
#[derive(Clone, Default)]
pub(crate) struct Table {
    /// Empty, or as many as a power of two.
    places: Vec<Bucket>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Bucket {
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

    /// The place of the number with this hash for which `is_it` holds.
    #[inline]
    fn place_of(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Ends, because some places are always free.
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

    /// The number with this hash for which `is_it` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_of(hash, is_it).map(|at| self.places[at].number)
    }

    /// Inserts a number that the table does not contain. `u32::MAX` is reserved.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        debug_assert_ne!(number, FREE);
        // In a fuller table, searches for absent keys take too long.
        if (self.len + 1) * 8 > self.places.len() * 5 {
            self.grow();
        }
        self.put(Bucket { hash, number });
        self.len += 1;
    }

    fn put(&mut self, place: Bucket) {
        let mask = self.mask();
        let mut at = place.hash as usize & mask;
        while self.places[at].number != FREE {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    fn grow(&mut self) {
        let room = (self.places.len() * 2).max(SMALLEST);
        let before = std::mem::replace(&mut self.places, vec![Bucket { hash: 0, number: FREE }; room]);
        before.into_iter().filter(|place| place.number != FREE).for_each(|place| self.put(place));
    }

    /// Removes a number, if the table contains it.
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
            // An entry that did not fit in an earlier place moves back to the free one.
            let displaced_by = at.wrapping_sub(place.hash as usize) & mask;
            if displaced_by >= at.wrapping_sub(free) & mask {
                self.places[free] = place;
                free = at;
            }
        }
        self.places[free].number = FREE;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hashes, so that many keys select the same place, and hashes of places at both ends
        /// of the table.
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
                    // Present under another hash, or absent.
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
            }
        }
    }

    #[test]
    fn nothing_is_found_in_an_empty_table() {
        let table = Table::default();
        assert_eq!(table.find(1, |_| true), None);
    }
}
