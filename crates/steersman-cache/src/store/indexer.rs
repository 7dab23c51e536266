//! Objects by key and by named indexes.

mod index;
mod postings;
mod slots;
mod snapshot;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use steersman_wire::LabelSelector;

use self::postings::Postings;
use self::slots::{SlotId, Slots};
use crate::{Cached, Error, Object, ObjectKey};

pub use self::index::Index;
pub(crate) use self::index::Values;
pub use self::snapshot::Snapshot;

/// The index that every indexer has: by namespace, empty for cluster-scoped objects.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Objects of a list whose keys are hashed before they are inserted.
const AHEAD: usize = 64;

/// The objects of one kind by key and by named indexes, and the version that they have reached.
///
/// It is a plain state machine: it has no lock, no task and no clock. Results are in no particular
/// order.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{Index, Indexer, Storage};
///
/// let storage: Storage<Pod> = Storage::default();
/// let mut pods = Indexer::new();
/// pods.add_index("node", Index::path("spec.nodeName".parse()?))?;
/// pods.upsert(storage.store(br#"{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"nodeName":"n1"}}"#, None)?);
///
/// assert_eq!(pods.by_index("node", "n1")?.len(), 1);
/// assert_eq!(storage.metrics().decodes_total, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Guarantees.** Every read sees all earlier writes, in every index (test
/// `agrees_with_an_obvious_model`). A search costs time by the number of results. A change or
/// deletion costs the same however many objects share its values. Deleting and replacing do not
/// read the body of the old state, and only an [`Index::function`] decodes (test
/// `nothing_is_decoded_for_indexes_and_selectors`).
///
/// **Memory**, in addition to the objects: about 30 bytes per object. Each index, including the one
/// by namespace, takes at most 48 bytes per object with one value and 128 bytes per value, without
/// its text (test `an_index_takes_at_most_48_bytes_for_an_object_and_128_for_a_value`).
pub struct Indexer<K> {
    slots: Slots<K>,
    /// The first is [`NAMESPACE_INDEX`].
    indexes: Vec<NamedIndex<K>>,
    resource_version: String,
    prepared: PreparedValues,
}

/// Values of states in indexes that were read in advance, by [`Cached::address`] and the position
/// of the index.
pub(crate) type PreparedValues = HashMap<(usize, usize), Values>;

struct NamedIndex<K> {
    name: String,
    index: Index<K>,
    postings: Postings,
    /// The values of the object that is being written. Reuses the allocation.
    values: Values,
}

/// The result of [`Indexer::replace`]. Every object of the list is in `added` or `updated`.
pub struct Replaced<K> {
    /// New objects.
    pub added: Vec<Cached<K>>,
    /// Existing objects: the old state and the new one, which may be the same.
    pub updated: Vec<(Cached<K>, Cached<K>)>,
    /// The last states of the objects that are not in the list.
    pub deleted: Vec<Cached<K>>,
}

impl<K> fmt::Debug for Replaced<K> {
    /// Keys and versions, without any content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaced")
            .field("added", &self.added)
            .field("updated", &self.updated)
            .field("deleted", &self.deleted)
            .finish()
    }
}

impl<K> NamedIndex<K> {
    fn new(name: String, index: Index<K>) -> Self {
        Self { name, index, postings: Postings::default(), values: Values::default() }
    }
}

impl<K: Object> Default for Indexer<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Indexer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes = self.indexes.iter().map(|index| (&index.name, &index.index));
        f.debug_struct("Indexer")
            .field("len", &self.slots.len())
            .field("resource_version", &self.resource_version)
            .field("indexes", &indexes.collect::<Vec<_>>())
            .finish()
    }
}

impl<K: Object> Indexer<K> {
    /// An empty indexer.
    pub fn new() -> Self {
        let namespace = NamedIndex::new(NAMESPACE_INDEX.to_owned(), Index::namespace());
        Self {
            slots: Slots::new(),
            indexes: vec![namespace],
            resource_version: String::new(),
            prepared: PreparedValues::new(),
        }
    }

    /// Adds an index, with the objects that are already stored.
    pub fn add_index(&mut self, name: impl Into<String>, index: Index<K>) -> Result<(), Error> {
        self.add_index_with(name.into(), index, read)
    }

    /// As [`add_index`](Self::add_index), with the values from `read`.
    pub(crate) fn add_index_with(
        &mut self,
        name: String,
        index: Index<K>,
        mut read: impl FnMut(&Index<K>, &Cached<K>, &mut Values),
    ) -> Result<(), Error> {
        if self.indexes.iter().any(|index| index.name == name) {
            return Err(Error::IndexExists { name });
        }
        let mut added = NamedIndex::new(name, index);
        for (slot, object) in self.slots.iter() {
            read(&added.index, object, &mut added.values);
            added.postings.set(slot, &added.values);
        }
        self.indexes.push(added);
        Ok(())
    }

    /// The index with this name.
    pub(crate) fn find_index(&self, name: &str) -> Option<&Index<K>> {
        self.indexes.iter().find(|index| index.name == name).map(|index| &index.index)
    }

    /// The number of indexes, and those that call user functions, with their positions.
    pub(crate) fn functions(&self) -> (usize, Vec<(usize, Index<K>)>) {
        let named = self.indexes.iter().enumerate().map(|(position, named)| (position, &named.index));
        let functions =
            named.filter(|(_, index)| index.is_function()).map(|(position, index)| (position, index.clone()));
        (self.indexes.len(), functions.collect())
    }

    /// Whether this state itself is stored.
    pub(crate) fn contains_state(&self, object: &Cached<K>) -> bool {
        let stored = self.get(object.meta().namespace(), object.meta().name());
        stored.is_some_and(|stored| Arc::ptr_eq(&stored.0, &object.0))
    }

    /// Sets values that writes use instead of reading them.
    pub(crate) fn set_prepared(&mut self, prepared: PreparedValues) {
        self.prepared = prepared;
    }

    /// The names of the indexes, [`NAMESPACE_INDEX`] first.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(|index| &*index.name)
    }

    /// Adds or replaces an object. Returns the previous state.
    pub fn upsert(&mut self, object: Cached<K>) -> Option<Cached<K>> {
        self.put(object).1
    }

    /// Removes and returns an object.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Cached<K>> {
        let slot = self.slots.find(namespace, name)?;
        self.remove(slot)
    }

    /// Replaces all objects by those of a list. If a key is listed twice, the last object counts.
    pub fn replace(&mut self, objects: Vec<Cached<K>>) -> Replaced<K> {
        self.replace_in(None, objects)
    }

    /// As [`replace`](Self::replace), within one namespace: objects of other namespaces stay, and
    /// are ignored in `objects`.
    pub fn replace_in(&mut self, namespace: Option<&str>, objects: Vec<Cached<K>>) -> Replaced<K> {
        let (mut added, mut updated) = (Vec::new(), Vec::new());
        let (mut listed, mut repeated) = (SlotSet::default(), false);
        self.slots.reserve(objects.len());
        let (mut objects, mut hashes) = (objects.into_iter(), Vec::with_capacity(AHEAD));
        loop {
            if hashes.is_empty() {
                // Several at a time, so that their cache misses overlap.
                let ahead = objects.as_slice().iter().take(AHEAD);
                hashes.extend(ahead.map(|object| self.slots.hash_of(object)).rev());
            }
            let Some((object, hash)) = objects.next().zip(hashes.pop()) else { break };
            if namespace.is_some_and(|namespace| object.meta().namespace() != namespace) {
                continue;
            }
            let (slot, old) = self.put_hashed(object.clone(), hash);
            if !listed.insert(slot) {
                repeated = true;
            } else if let Some(old) = old {
                updated.push((old, object));
            } else {
                added.push(object);
            }
        }
        if repeated {
            for new in added.iter_mut().chain(updated.iter_mut().map(|(_, new)| new)) {
                if let Some(last) = self.get(new.meta().namespace(), new.meta().name()) {
                    *new = last.clone();
                }
            }
        }
        let unlisted: Vec<SlotId> = match namespace {
            None => self.slots.iter().map(|(slot, _)| slot).filter(|slot| !listed.contains(*slot)).collect(),
            Some(namespace) => self.slots_in(namespace).filter(|slot| !listed.contains(*slot)).collect(),
        };
        Replaced { added, updated, deleted: unlisted.into_iter().filter_map(|slot| self.remove(slot)).collect() }
    }

    /// Sets the version that has been reached: every change up to it is stored. The indexer does
    /// not compare the versions of objects, because changes need not come in their order.
    pub fn set_resource_version(&mut self, resource_version: &str) {
        resource_version.clone_into(&mut self.resource_version);
    }

    /// The version that has been reached; empty before the first one.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// The object with this name. The namespace is empty for cluster-scoped objects.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Cached<K>> {
        self.slots.get(self.slots.find(namespace, name)?)
    }

    /// The object with this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<&Cached<K>> {
        self.get(key.namespace().unwrap_or_default(), key.name())
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::with_capacity(self.len());
        keys.extend(self.slots.iter().map(|(_, object)| object.key()));
        keys
    }

    /// All objects at this moment.
    pub fn list(&self) -> Snapshot<K> {
        self.slots.snapshot()
    }

    /// The objects in a namespace. With an empty one, the cluster-scoped objects.
    pub fn namespace(&self, namespace: &str) -> Vec<Cached<K>> {
        self.handles(self.slots_in(namespace))
    }

    /// The objects that have this value in the index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Cached<K>>, Error> {
        Ok(self.handles(self.index_named(name)?.postings.find(value)))
    }

    /// The keys of the objects that have this value in the index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        Ok(self.objects(self.index_named(name)?.postings.find(value)).map(Cached::key).collect())
    }

    /// Every value that an object has in the index, each once.
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, Error> {
        Ok(self.index_named(name)?.postings.texts().map(str::to_owned).collect())
    }

    /// The objects that share a value in the index with `object`, which need not be stored.
    pub fn index(&self, name: &str, object: &Cached<K>) -> Result<Vec<Cached<K>>, Error> {
        let (index, mut values) = (self.index_named(name)?, Values::default());
        index.index.read(object, &mut values)?;
        let mut slots: Vec<SlotId> = values.iter().flat_map(|value| index.postings.find(value)).collect();
        slots.sort_unstable();
        slots.dedup();
        Ok(self.handles(slots.into_iter()))
    }

    /// The objects that the selector matches: all of them, or those in a namespace.
    pub fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Cached<K>> {
        match namespace {
            None => matching(self.slots.iter().map(|(_, object)| object), selector),
            Some(namespace) => matching(self.objects(self.slots_in(namespace)), selector),
        }
    }

    /// The objects that have this value in the index and that the selector matches.
    pub fn select_by_index(&self, name: &str, value: &str, selector: &LabelSelector) -> Result<Vec<Cached<K>>, Error> {
        Ok(matching(self.objects(self.index_named(name)?.postings.find(value)), selector))
    }

    fn put(&mut self, object: Cached<K>) -> (SlotId, Option<Cached<K>>) {
        let hash = self.slots.hash_of(&object);
        self.put_hashed(object, hash)
    }

    fn put_hashed(&mut self, object: Cached<K>, hash: u32) -> (SlotId, Option<Cached<K>>) {
        let found = self.slots.find_same(&object, hash);
        if let Some(slot) = found
            && let Some(stored) = self.slots.get(slot)
            && Arc::ptr_eq(&stored.0, &object.0)
        {
            return (slot, Some(object));
        }
        // Reads all values before the first change, so that a panicking function changes nothing.
        for (position, index) in self.indexes.iter_mut().enumerate() {
            let prepared =
                if self.prepared.is_empty() { None } else { self.prepared.remove(&(object.address(), position)) };
            match prepared {
                Some(values) => index.values = values,
                None => read(&index.index, &object, &mut index.values),
            }
        }
        let (slot, old) = self.slots.put(found, object, hash);
        for index in &mut self.indexes {
            index.postings.set(slot, &index.values);
        }
        (slot, old)
    }

    fn remove(&mut self, slot: SlotId) -> Option<Cached<K>> {
        let object = self.slots.remove(slot);
        let is_empty = self.slots.len() == 0;
        for index in &mut self.indexes {
            index.postings.remove(slot);
            if is_empty {
                index.postings = Postings::default();
            }
        }
        object
    }

    fn index_named(&self, name: &str) -> Result<&NamedIndex<K>, Error> {
        self.indexes.iter().find(|index| index.name == name).ok_or_else(|| Error::NoSuchIndex {
            name: name.to_owned(),
            known: self.index_names().map(str::to_owned).collect(),
        })
    }

    fn slots_in(&self, namespace: &str) -> impl ExactSizeIterator<Item = SlotId> {
        self.indexes[0].postings.find(namespace)
    }

    fn handles(&self, slots: impl ExactSizeIterator<Item = SlotId>) -> Vec<Cached<K>> {
        let mut handles = Vec::with_capacity(slots.len());
        handles.extend(self.objects(slots).cloned());
        handles
    }

    fn objects(&self, slots: impl Iterator<Item = SlotId>) -> impl Iterator<Item = &Cached<K>> {
        slots.filter_map(|slot| self.slots.get(slot))
    }
}

/// The values of a new object. An object that cannot be decoded has none.
fn read<K: Object>(index: &Index<K>, object: &Cached<K>, values: &mut Values) {
    if let Err(error) = index.read(object, values) {
        tracing::warn!(?index, %error, "object does not decode, it has no values in the index");
    }
}

pub(crate) fn matching<'a, K: 'a>(
    objects: impl IntoIterator<Item = &'a Cached<K>>,
    selector: &LabelSelector,
) -> Vec<Cached<K>> {
    objects.into_iter().filter(|object| selector.matches(|key| object.meta().label(key))).cloned().collect()
}

/// A set of slots.
#[derive(Default)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    /// Adds a slot. Returns whether it is new.
    fn insert(&mut self, slot: SlotId) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    fn contains(&self, slot: SlotId) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word & 1 << (slot % 64) != 0)
    }
}
