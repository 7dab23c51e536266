//! Objects in numbered slots, found by key.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::Snapshot;
use crate::Cached;

/// Slots per chunk. A write copies this number of handles if a snapshot holds the chunk.
pub(super) const CHUNK: usize = 64;

/// The number of a slot. It means one key while that key is stored.
pub(super) type SlotId = u32;

/// Slots that are shared with the snapshots since their last change.
pub(super) struct Chunk<K>([Option<Cached<K>>; CHUNK]);

impl<K> Clone for Chunk<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Chunk<K> {
    fn new() -> Self {
        Self([const { None }; CHUNK])
    }

    /// The handle in a slot. `None` if the slot is free or out of range.
    pub(super) fn get(&self, slot: usize) -> Option<&Cached<K>> {
        self.0.get(slot)?.as_ref()
    }
}

/// A key in the table. It contains the hash, so that growing the table, and most comparisons, do
/// not read the object, which would be a cache miss.
struct KeySlot {
    id: SlotId,
    hash: u32,
}

/// The hash for the table. The lower bits choose the bucket and the seven highest distinguish
/// neighbours, so both have to be well mixed. With fewer than 2^25 buckets, they are different bits
/// of the stored half.
pub(super) fn widen(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The slots.
pub(super) struct Slots<K> {
    chunks: Vec<Arc<Chunk<K>>>,
    /// Free slots before the end.
    free: Vec<SlotId>,
    /// The first unused slot.
    end: SlotId,
    /// The keys themselves are in the metadata of each object.
    by_key: HashTable<KeySlot>,
    hasher: DefaultHashBuilder,
}

impl<K> Slots<K> {
    pub(super) fn new() -> Self {
        let (by_key, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        Self { chunks: Vec::new(), free: Vec::new(), end: 0, by_key, hasher }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, id: SlotId) -> Option<&Cached<K>> {
        self.chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)
    }

    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<SlotId> {
        self.find_hashed(namespace, name, self.hash(namespace, name))
    }

    /// Reserves capacity for this total number of objects.
    pub(super) fn reserve(&mut self, objects: usize) {
        self.by_key.reserve(objects.saturating_sub(self.len()), |key| widen(key.hash));
        self.chunks.reserve(objects.div_ceil(CHUNK).saturating_sub(self.chunks.len()));
    }

    /// Every used slot with its object.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotId, &Cached<K>)> {
        (0..self.end).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// The slot of the object with the same key. `hash` is the hash of the key.
    pub(super) fn find_same(&self, object: &Cached<K>, hash: u32) -> Option<SlotId> {
        self.find_hashed(object.meta().namespace(), object.meta().name(), hash)
    }

    /// Replaces the object in the slot that was found, or adds it in a free slot. Returns the slot
    /// and the previous object.
    pub(super) fn put(&mut self, found: Option<SlotId>, object: Cached<K>, hash: u32) -> (SlotId, Option<Cached<K>>) {
        if let Some(id) = found {
            return (id, self.set(id, Some(object)));
        }
        let id = self.free.pop().unwrap_or_else(|| {
            let id = self.end;
            self.end = id.checked_add(1).expect("fewer than four billion objects");
            id
        });
        if id as usize / CHUNK == self.chunks.len() {
            self.chunks.push(Arc::new(Chunk::new()));
        }
        self.set(id, Some(object));
        self.by_key.insert_unique(widen(hash), KeySlot { id, hash }, |key| widen(key.hash));
        (id, None)
    }

    /// Frees a slot. Returns its object.
    pub(super) fn remove(&mut self, id: SlotId) -> Option<Cached<K>> {
        let object = self.set(id, None)?;
        let hash = self.hash_of(&object);
        if let Ok(found) = self.by_key.find_entry(widen(hash), |key| key.id == id) {
            found.remove();
        }
        self.free.push(id);
        if self.by_key.is_empty() {
            // Frees the memory of a formerly large store.
            (self.chunks, self.free, self.end, self.by_key) = (Vec::new(), Vec::new(), 0, HashTable::new());
        }
        Some(object)
    }

    /// All objects at this moment.
    pub(super) fn snapshot(&self) -> Snapshot<K> {
        Snapshot::new(self.chunks.clone(), self.len())
    }

    fn set(&mut self, id: SlotId, object: Option<Cached<K>>) -> Option<Cached<K>> {
        let chunk = self.chunks.get_mut(id as usize / CHUNK)?;
        std::mem::replace(&mut Arc::make_mut(chunk).0[id as usize % CHUNK], object)
    }

    /// The hash of an object's key.
    pub(super) fn hash_of(&self, object: &Cached<K>) -> u32 {
        self.hash(object.meta().namespace(), object.meta().name())
    }

    fn hash(&self, namespace: &str, name: &str) -> u32 {
        self.hasher.hash_one((namespace, name)) as u32
    }

    fn find_hashed(&self, namespace: &str, name: &str, hash: u32) -> Option<SlotId> {
        let is_key = |object: &Cached<K>| object.meta().name() == name && object.meta().namespace() == namespace;
        let is_slot = |key: &KeySlot| key.hash == hash && self.get(key.id).is_some_and(is_key);
        self.by_key.find(widen(hash), is_slot).map(|key| key.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Storage;

    fn object(name: u32) -> Cached<Value> {
        let object = json!({"metadata": {"name": name.to_string()}}).to_string();
        Storage::default().store(object.as_bytes(), None).expect("it is stored")
    }

    fn put(slots: &mut Slots<Value>, name: u32) -> SlotId {
        let object = object(name);
        let hash = slots.hash_of(&object);
        slots.put(slots.find_same(&object, hash), object, hash).0
    }

    #[test]
    fn a_free_slot_is_reused() {
        let mut slots = Slots::new();
        for name in 0..100 {
            put(&mut slots, name);
        }
        for name in 100..1_000 {
            let slot = slots.find("", &(name - 100).to_string()).expect("it was put there");
            slots.remove(slot);
            assert_eq!(put(&mut slots, name), slot);
        }
        assert_eq!((slots.len(), slots.end, slots.chunks.len()), (100, 100, 2));
    }

    #[test]
    fn an_empty_store_frees_its_memory() {
        let mut slots = Slots::new();
        for name in 0..1_000 {
            put(&mut slots, name);
        }
        for slot in 0..1_000 {
            slots.remove(slot);
        }
        let allocated = (slots.chunks.capacity(), slots.free.capacity(), slots.by_key.capacity());
        assert_eq!((slots.len(), allocated), (0, (0, 0, 0)));
    }

    #[test]
    fn only_written_chunks_are_copied_while_a_snapshot_is_held() {
        let mut slots = Slots::new();
        for name in 0..200 {
            put(&mut slots, name);
        }
        let snapshot = slots.snapshot();
        put(&mut slots, 0);
        put(&mut slots, 1);
        let shared = slots.chunks.iter().filter(|chunk| Arc::strong_count(chunk) == 2).count();
        assert_eq!((slots.chunks.len(), shared, snapshot.len()), (4, 3, 200));
    }
}
