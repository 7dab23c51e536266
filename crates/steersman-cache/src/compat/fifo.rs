//! A queue of the newest states of objects.

use std::collections::VecDeque;
use std::fmt;

use hashbrown::HashTable;

use crate::queue::queued::{KeyHasher, Queued, has_same_key};

/// Holes of deleted objects that the queue may contain before it is compacted.
const HOLES_MAX: usize = 64;

/// A queue of the newest state of each object, in the order of first arrival. It does not report
/// earlier states or deletions: [`DeltaFifo`](crate::DeltaFifo) does.
///
/// It is a plain state machine: it has no lock and does not wait. client-go's `FIFO`; no informer
/// uses it.
pub struct Fifo<T> {
    /// Slots are numbered in order and without gaps. This is the number of the first one.
    head: u64,
    /// A deleted object leaves a hole.
    queue: VecDeque<Option<T>>,
    numbers: HashTable<u64>,
    hasher: KeyHasher,
    /// The number behind the last initial object; `None` before the first call.
    initial_end: Option<u64>,
}

impl<T> fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").field("len", &self.numbers.len()).finish_non_exhaustive()
    }
}

impl<T: Queued> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Queued> Fifo<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            head: 0,
            queue: VecDeque::new(),
            numbers: HashTable::new(),
            hasher: KeyHasher::default(),
            initial_end: None,
        }
    }

    /// Appends the object. If its key is queued, replaces the queued object in its place.
    pub fn add(&mut self, object: T) {
        self.initial_end.get_or_insert(self.head);
        self.put(object);
    }

    /// The same as [`add`](Self::add).
    pub fn update(&mut self, object: T) {
        self.add(object);
    }

    /// Removes the queued object with the same key.
    pub fn delete(&mut self, object: &T) {
        self.initial_end.get_or_insert(self.head);
        let hash = self.hasher.hash(object);
        let Some(number) = self.find(hash, object) else { return };
        self.forget(hash, number);
        self.queue[(number - self.head) as usize] = None;
        self.drop_holes();
    }

    /// Takes out the object whose key arrived first.
    pub fn pop(&mut self) -> Option<T> {
        let object = self.queue.pop_front()??;
        self.forget(self.hasher.hash(&object), self.head);
        self.head += 1;
        self.drop_holes();
        Some(object)
    }

    /// Queues these objects and no others. If a key comes twice, the later object counts.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) {
        let has_synced = self.has_synced();
        self.queue.clear();
        self.numbers.clear();
        for object in objects {
            self.put(object);
        }
        if !has_synced {
            self.initial_end = Some(self.end());
        }
    }

    /// Whether the initial objects have been popped or deleted: those of the first replace, or of
    /// the one that replaced it. There are none if an object came before any replace.
    pub fn has_synced(&self) -> bool {
        self.initial_end.is_some_and(|end| self.head >= end)
    }

    /// Number of queued objects.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no object is queued.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn end(&self) -> u64 {
        self.head + self.queue.len() as u64
    }

    fn put(&mut self, object: T) {
        let hash = self.hasher.hash(&object);
        if let Some(number) = self.find(hash, &object) {
            self.queue[(number - self.head) as usize] = Some(object);
            return;
        }
        let number = self.end();
        self.queue.push_back(Some(object));
        let (queue, head, hasher) = (&self.queue, self.head, &self.hasher);
        self.numbers.insert_unique(hash, number, |number| {
            queue[(number - head) as usize].as_ref().map_or(0, |object| hasher.hash(object))
        });
    }

    fn find(&self, hash: u64, object: &T) -> Option<u64> {
        let is_it = |number: &u64| {
            self.queue[(number - self.head) as usize].as_ref().is_some_and(|other| has_same_key(other, object))
        };
        self.numbers.find(hash, is_it).copied()
    }

    fn forget(&mut self, hash: u64, number: u64) {
        if let Ok(found) = self.numbers.find_entry(hash, |other| *other == number) {
            found.remove();
        }
    }

    /// Removes the holes in front, and all holes if there are many.
    fn drop_holes(&mut self) {
        while let Some(None) = self.queue.front() {
            self.queue.pop_front();
            self.head += 1;
        }
        if self.queue.len() <= 2 * self.numbers.len() + HOLES_MAX {
            return;
        }
        let initial = self.initial_end.map(|end| end.saturating_sub(self.head) as usize);
        let initial = initial.map(|count| self.queue.iter().take(count).flatten().count());
        let objects = std::mem::take(&mut self.queue);
        self.numbers.clear();
        for object in objects.into_iter().flatten() {
            self.put(object);
        }
        self.initial_end = initial.map(|count| self.head + count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::queued::tests::{State, state, states};

    fn drain(fifo: &mut Fifo<State>) -> Vec<State> {
        std::iter::from_fn(|| fifo.pop()).collect()
    }

    #[test]
    fn the_newest_object_is_popped_in_the_place_of_its_key() {
        let mut fifo = Fifo::new();
        fifo.add(state("a@1"));
        fifo.add(state("b@2"));
        fifo.update(state("a@3"));
        assert_eq!(fifo.len(), 2);
        assert_eq!(drain(&mut fifo), states("a@3 b@2"));
        fifo.update(state("a@4"));
        assert_eq!(drain(&mut fifo), states("a@4"));
        assert_eq!((fifo.len(), fifo.is_empty()), (0, true));
    }

    #[test]
    fn a_deleted_object_is_not_popped() {
        let mut fifo = Fifo::new();
        for object in states("a@1 b@2 c@3 d@4") {
            fifo.add(object);
        }
        for object in states("a@5 c@5 d@5 e@5") {
            fifo.delete(&object);
        }
        fifo.add(state("a@6"));
        assert_eq!(fifo.len(), 2);
        assert_eq!(drain(&mut fifo), states("b@2 a@6"), "a re-added object is at the end");
    }

    #[test]
    fn a_replace_removes_all_earlier_objects() {
        let mut fifo = Fifo::new();
        fifo.add(state("a@1"));
        fifo.replace(states("b@2 c@3 b@4"));
        assert_eq!(drain(&mut fifo), states("b@4 c@3"));
    }

    #[test]
    fn it_has_synced_once_the_first_replace_is_popped_or_deleted() {
        let mut fifo = Fifo::new();
        assert!(!fifo.has_synced());
        fifo.replace(states("a@1 b@2"));
        fifo.add(state("c@3"));
        assert!(!fifo.has_synced());
        fifo.pop();
        assert!(!fifo.has_synced());
        fifo.delete(&state("b@2"));
        assert!(fifo.has_synced());
        fifo.replace(states("a@1"));
        assert!(fifo.has_synced(), "later replaces do not count");
    }

    #[test]
    fn it_has_synced_only_with_the_replace_that_replaced_the_first() {
        let mut fifo = Fifo::new();
        fifo.replace(states("a@1"));
        fifo.replace(states("b@2 c@3"));
        fifo.pop();
        assert!(!fifo.has_synced());
        fifo.pop();
        assert!(fifo.has_synced());
    }

    #[test]
    fn it_has_synced_at_once_with_an_empty_replace_or_an_earlier_object() {
        let mut fifo = Fifo::<State>::new();
        fifo.replace([]);
        assert!(fifo.has_synced());

        let comes: [fn(&mut Fifo<State>); 2] = [|fifo| fifo.add(state("a@1")), |fifo| fifo.delete(&state("a@1"))];
        for come in comes {
            let mut fifo = Fifo::new();
            come(&mut fifo);
            fifo.replace(states("a@1"));
            assert!(fifo.has_synced());
        }
    }

    #[test]
    fn deleted_objects_do_not_pile_up_behind_one_that_waits() {
        let mut fifo = Fifo::new();
        fifo.replace(states("a@1 deleted@1 b@1"));
        fifo.delete(&state("deleted@1"));
        fifo.add(state("c@1"));
        for number in 0..1000 {
            fifo.add(state(&format!("x{number}@1")));
            if number > 0 {
                fifo.delete(&state(&format!("x{}@1", number - 1)));
            }
            assert!(fifo.queue.len() < 100, "{}", fifo.queue.len());
        }
        assert_eq!(fifo.len(), 4);
        fifo.pop();
        assert!(!fifo.has_synced());
        fifo.pop();
        assert!(fifo.has_synced());
        assert_eq!(drain(&mut fifo), states("c@1 x999@1"));
    }
}
