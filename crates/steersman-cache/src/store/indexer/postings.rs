//! The objects and values of one index.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::index::Values;
use super::slots::{SlotId, widen};

/// The number of a value. It means one text while an object has that value.
type ValueId = u32;

/// Maps objects to values and values to objects. Each side holds the position in the other, so that
/// removing an object costs the same however many objects share its values.
#[derive(Default)]
pub(super) struct Postings {
    /// By slot.
    postings: Vec<Posted>,
    /// By [`ValueId`].
    values: Vec<ValueEntry>,
    /// Unused value numbers.
    free: Vec<ValueId>,
    by_text: HashTable<TextSlot>,
    hasher: DefaultHashBuilder,
}

/// One value of an object.
#[derive(Clone, Copy)]
struct Posting {
    value: ValueId,
    /// The position of the object among the members of the value.
    position: u32,
}

/// The values of an object.
#[expect(clippy::box_collection, reason = "an unboxed vector would double the size of the usual case, one value")]
#[derive(Default)]
enum Posted {
    #[default]
    None,
    One(Posting),
    Several(Box<Vec<Posting>>),
}

/// An object that has a value.
#[derive(Clone, Copy)]
struct Member {
    slot: SlotId,
    /// The position of the value among those of the object.
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

/// A value in the table of texts.
struct TextSlot {
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
        self.by_text.iter().map(|slot| &*self.values[slot.value as usize].text)
    }

    /// Replaces the values of the object in this slot.
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

    /// Removes the values of the object in this slot.
    pub(super) fn remove(&mut self, slot: SlotId) {
        let Some(posted) = self.postings.get_mut(slot as usize) else { return };
        let posted = std::mem::take(posted);
        for posting in posted.get() {
            self.remove_posting(*posting);
        }
    }

    /// Whether the object has exactly these values, as most changed objects do. Does not use the
    /// table.
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
            // The values of an object are added one after the other, so a value that it has twice
            // already has it as the last member.
            if members.get().last().is_some_and(|last| last.slot == slot) {
                return;
            }
            Posting { value, position: members.push(member) }
        } else {
            Posting { value: self.insert_value(text, hash, member), position: 0 }
        };
        self.postings[slot as usize].push(posting);
    }

    fn remove_posting(&mut self, posting: Posting) {
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
        let is_value = |slot: &TextSlot| slot.hash == hash && *self.values[slot.value as usize].text == *text;
        self.by_text.find(widen(hash), is_value).map(|slot| slot.value)
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
        self.by_text.insert_unique(widen(hash), TextSlot { value, hash }, |slot| widen(slot.hash));
        value
    }

    fn remove_value(&mut self, value: ValueId) {
        let entry = &mut self.values[value as usize];
        let hash = self.hasher.hash_one(&*entry.text) as u32;
        (entry.text, entry.members) = (Box::default(), Members::Several(Vec::new()));
        if let Ok(found) = self.by_text.find_entry(widen(hash), |slot| slot.value == value) {
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

    /// Adds a member. Returns its position.
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
        // Tables double in size, so one more than a power of two is the worst case.
        for (objects, values) in [(1 << 16, 1), (1 + (1 << 16), 1), (100_000, 1_000), (1 + (1 << 16), 1 + (1 << 16))] {
            let postings = fill(objects, values);
            let bound = 48 * objects as usize + 128 * values as usize + 1_000;
            assert!(postings.memory() <= bound, "{objects} {values}: {} > {bound}", postings.memory());
        }
    }

    #[test]
    fn values_with_the_same_hash_are_distinguished() {
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
    fn removed_values_leave_no_memory_behind() {
        let mut postings = fill(1_000, 10);
        let before = postings.memory();
        for round in 0..50 {
            for slot in 0..1_000 {
                postings.set(slot, &value(&format!("r{round}-{}", slot % 10)));
            }
        }
        assert_eq!(postings.texts().len(), 10);
        assert!(postings.values.len() <= 20, "{} value numbers are in use", postings.values.len());
        assert!(postings.memory() <= 2 * before, "{} after {before}", postings.memory());
    }

    #[test]
    fn a_value_of_many_objects_frees_their_memory() {
        let mut postings = fill(10_000, 1);
        for slot in 1..10_000 {
            postings.remove(slot);
        }
        assert_eq!(postings.find("v0").collect::<Vec<_>>(), [0]);
        assert!(matches!(&postings.values[0].members, Members::Several(members) if members.capacity() < 10));
    }
}
