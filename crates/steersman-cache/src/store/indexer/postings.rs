//! Which objects have which values in one index.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::index::Values;
use super::slots::{SlotId, widen};

/// The number of a value: it means one text for as long as an object has it.
type ValueId = u32;

/// Which objects have which values. Both ways are kept, each with the place in the other, so that taking an object out costs
/// the same however many share its values.
#[derive(Default)]
pub(super) struct Postings {
    /// By slot.
    postings: Vec<Posted>,
    /// By [`ValueId`].
    values: Vec<ValueEntry>,
    /// The values that are free.
    free: Vec<ValueId>,
    by_text: HashTable<Place>,
    hasher: DefaultHashBuilder,
}

/// One value of an object.
#[derive(Clone, Copy)]
struct Posting {
    value: ValueId,
    /// Where the object stands among the members of the value.
    position: u32,
}

/// The values of an object.
#[expect(clippy::box_collection, reason = "a vector in here would make the usual case, one value, take twice as much")]
#[derive(Default)]
enum Posted {
    #[default]
    None,
    One(Posting),
    Several(Box<Vec<Posting>>),
}

/// An object among those that have a value.
#[derive(Clone, Copy)]
struct Member {
    slot: SlotId,
    /// Which one of the object's values this is.
    ordinal: u32,
}

/// The objects that have a value.
enum Members {
    One(Member),
    Several(Vec<Member>),
}

struct ValueEntry {
    text: Box<str>,
    members: Members,
}

struct Place {
    value: ValueId,
    hash: u32,
}

impl Postings {
    /// The slots of the objects that have this value.
    pub(super) fn find(&self, value: &str) -> impl ExactSizeIterator<Item = SlotId> {
        let members =
            self.find_value(value, self.hash(value)).map_or(&[][..], |id| self.values[id as usize].members.get());
        members.iter().map(|member| member.slot)
    }

    /// Every value that an object has.
    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_text.iter().map(|place| &*self.values[place.value as usize].text)
    }

    /// The object in this slot now has these values, and none of those it had before.
    pub(super) fn set(&mut self, slot: SlotId, values: &Values) {
        if self.has(slot, values) {
            return;
        }
        self.remove(slot);
        if self.postings.len() <= slot as usize {
            self.postings.resize_with(slot as usize + 1, Posted::default);
        }
        for value in values.iter() {
            self.add(slot, value);
        }
    }

    /// The object in this slot is gone.
    pub(super) fn remove(&mut self, slot: SlotId) {
        let Some(posted) = self.postings.get_mut(slot as usize) else { return };
        let posted = std::mem::take(posted);
        for posting in posted.get() {
            self.take_out(*posting);
        }
    }

    /// Whether the object has exactly these values already, as most have that change. Told without a look at the table.
    fn has(&self, slot: SlotId, values: &Values) -> bool {
        let posted = self.postings.get(slot as usize).map_or(&[][..], Posted::get);
        let texts = posted.iter().map(|posting| &*self.values[posting.value as usize].text);
        posted.len() == values.len() && texts.eq(values.iter())
    }

    fn add(&mut self, slot: SlotId, text: &str) {
        let ordinal = self.postings[slot as usize].get().len() as u32;
        let member = Member { slot, ordinal };
        let hash = self.hash(text);
        let posting = if let Some(value) = self.find_value(text, hash) {
            let members = &mut self.values[value as usize].members;
            // Its values are added one after the other: one that it has twice has it as the last member already.
            if members.get().last().is_some_and(|last| last.slot == slot) {
                return;
            }
            Posting { value, position: members.push(member) }
        } else {
            Posting { value: self.insert_value(text, hash, member), position: 0 }
        };
        self.postings[slot as usize].push(posting);
    }

    fn take_out(&mut self, posting: Posting) {
        let entry = &mut self.values[posting.value as usize];
        match &mut entry.members {
            Members::Several(members) if members.len() > 1 => {
                members.swap_remove(posting.position as usize);
                if members.len() * 4 <= members.capacity() {
                    members.shrink_to(members.len() * 2);
                }
                if let Some(moved) = members.get(posting.position as usize) {
                    let moved = &mut self.postings[moved.slot as usize].get_mut()[moved.ordinal as usize];
                    moved.position = posting.position;
                }
            }
            Members::One(_) | Members::Several(_) => self.remove_value(posting.value),
        }
    }

    fn find_value(&self, text: &str, hash: u32) -> Option<ValueId> {
        let is_value = |place: &Place| place.hash == hash && *self.values[place.value as usize].text == *text;
        self.by_text.find(widen(hash), is_value).map(|place| place.value)
    }

    fn insert_value(&mut self, text: &str, hash: u32, member: Member) -> ValueId {
        let entry = ValueEntry { text: text.into(), members: Members::One(member) };
        let value = if let Some(value) = self.free.pop() {
            self.values[value as usize] = entry;
            value
        } else {
            self.values.push(entry);
            u32::try_from(self.values.len() - 1).expect("fewer than four billion values")
        };
        self.by_text.insert_unique(widen(hash), Place { value, hash }, |place| widen(place.hash));
        value
    }

    fn remove_value(&mut self, value: ValueId) {
        let entry = &mut self.values[value as usize];
        let hash = self.hasher.hash_one(&*entry.text) as u32;
        (entry.text, entry.members) = (Box::default(), Members::Several(Vec::new()));
        if let Ok(found) = self.by_text.find_entry(widen(hash), |place| place.value == value) {
            found.remove();
        }
        self.free.push(value);
    }

    fn hash(&self, text: &str) -> u32 {
        self.hasher.hash_one(text) as u32
    }
}

impl Posted {
    fn get(&self) -> &[Posting] {
        match self {
            Self::None => &[],
            Self::One(posting) => std::slice::from_ref(posting),
            Self::Several(postings) => postings,
        }
    }

    fn get_mut(&mut self) -> &mut [Posting] {
        match self {
            Self::None => &mut [],
            Self::One(posting) => std::slice::from_mut(posting),
            Self::Several(postings) => postings,
        }
    }

    fn push(&mut self, posting: Posting) {
        match self {
            Self::None => *self = Self::One(posting),
            Self::One(first) => *self = Self::Several(Box::new(vec![*first, posting])),
            Self::Several(postings) => postings.push(posting),
        }
    }
}

impl Members {
    fn get(&self) -> &[Member] {
        match self {
            Self::One(member) => std::slice::from_ref(member),
            Self::Several(members) => members,
        }
    }

    /// Adds a member, and tells its position.
    fn push(&mut self, member: Member) -> u32 {
        match self {
            Self::One(first) => *self = Self::Several(vec![*first, member]),
            Self::Several(members) => members.push(member),
        }
        self.get().len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Postings {
        /// How many bytes this has allocated, without the texts.
        fn memory(&self) -> usize {
            let several = |posted: &Posted| match posted {
                Posted::Several(postings) => size_of::<Vec<Posting>>() + postings.capacity() * size_of::<Posting>(),
                Posted::None | Posted::One(_) => 0,
            };
            let members = |entry: &ValueEntry| match &entry.members {
                Members::Several(members) => members.capacity() * size_of::<Member>(),
                Members::One(_) => 0,
            };
            let sets = self.values.iter().map(members).sum::<usize>();
            let slots = self.postings.iter().map(several).sum::<usize>();
            let (postings, values) = (self.postings.capacity(), self.values.capacity());
            let tables = postings * size_of::<Posted>() + values * size_of::<ValueEntry>();
            let free = self.free.capacity() * size_of::<ValueId>();
            sets + slots + tables + free + self.by_text.allocation_size()
        }
    }

    fn value(text: &str) -> Values {
        let mut values = Values::default();
        values.push(text);
        values
    }

    fn fill(objects: u32, values: u32) -> Postings {
        let mut postings = Postings::default();
        for slot in 0..objects {
            postings.set(slot, &value(&format!("v{}", slot % values)));
        }
        postings
    }

    #[test]
    fn an_index_takes_at_most_48_bytes_for_an_object_and_128_for_a_value() {
        // Tables double: one more than a power of two is the worst.
        for (objects, values) in [(1 << 16, 1), (1 + (1 << 16), 1), (100_000, 1_000), (1 + (1 << 16), 1 + (1 << 16))] {
            let postings = fill(objects, values);
            let bound = 48 * objects as usize + 128 * values as usize + 1_000;
            assert!(postings.memory() <= bound, "{objects} {values}: {} > {bound}", postings.memory());
        }
    }

    #[test]
    fn values_with_the_same_hash_are_told_apart() {
        let mut postings = Postings::default();
        let (mut by_hash, mut number) = (std::collections::HashMap::new(), 0_u32);
        // Among half a million numbers there are dozens of such pairs.
        let pair = loop {
            if let Some(same) = by_hash.insert(postings.hash(&number.to_string()), number) {
                break [same, number];
            }
            number += 1;
        };
        for slot in [0, 1] {
            postings.set(slot, &value(&pair[slot as usize].to_string()));
        }
        for slot in [0, 1] {
            assert_eq!(postings.find(&pair[slot as usize].to_string()).collect::<Vec<_>>(), [slot]);
        }
        postings.remove(0);
        assert_eq!(postings.texts().collect::<Vec<_>>(), [pair[1].to_string()]);
    }

    #[test]
    fn values_that_come_and_go_leave_nothing_behind() {
        let mut postings = fill(1_000, 10);
        let before = postings.memory();
        for round in 0..50 {
            for slot in 0..1_000 {
                postings.set(slot, &value(&format!("r{round}-{}", slot % 10)));
            }
        }
        assert_eq!(postings.texts().len(), 10);
        assert!(postings.values.len() <= 20, "{} values have a place", postings.values.len());
        assert!(postings.memory() <= 2 * before, "{} after {before}", postings.memory());
    }

    #[test]
    fn a_value_that_many_had_gives_their_memory_back() {
        let mut postings = fill(10_000, 1);
        for slot in 1..10_000 {
            postings.remove(slot);
        }
        assert_eq!(postings.find("v0").collect::<Vec<_>>(), [0]);
        assert!(matches!(&postings.values[0].members, Members::Several(members) if members.capacity() < 10));
    }
}
