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

/// The name of the index that is always there: by namespace, empty for objects in none.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Of so many objects of a list the keys are hashed before they are put in.
const AHEAD: usize = 64;

/// The objects of one kind by their keys and by named indexes, and the version they have reached.
///
/// It does what it is told, at once: no lock, no task, no clock. What it gives is in no particular order.
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
/// **What is promised.** Every read sees all writes before it, in every index (test `agrees_with_an_obvious_model`). Finding objects
/// costs as much as there are objects found; changing or deleting one costs the same however many share its values. Deleting and
/// replacing never look at the body of the old state, and only an [`Index::function`] decodes (test
/// `nothing_is_decoded_for_indexes_and_selectors`).
///
/// **Memory**, beside the objects: about 30 bytes for each object, and for each index, that by namespace included, at most 48 bytes for an
/// object with one value and 128 for each value, its text not counted (test
/// `an_index_takes_at_most_48_bytes_for_an_object_and_128_for_a_value`).
pub struct Indexer<K> {
    slots: Slots<K>,
    /// The first is [`NAMESPACE_INDEX`].
    indexes: Vec<NamedIndex<K>>,
    resource_version: String,
    ready: Ready,
}

/// Values of states in indexes, read before they are needed: by [`Cached::address`] and the place of the index.
pub(crate) type Ready = HashMap<(usize, usize), Values>;

struct NamedIndex<K> {
    name: String,
    index: Index<K>,
    postings: Postings,
    /// The values of the object that is being written.
    values: Values,
}

/// What [`Indexer::replace`] has changed. Every object of the list is in `added` or `updated`.
pub struct Replaced<K> {
    /// Those that were not there before.
    pub added: Vec<Cached<K>>,
    /// Those that were there before: the old state, and the new one, which may be the same.
    pub updated: Vec<(Cached<K>, Cached<K>)>,
    /// The last known states of those that are not there any more.
    pub deleted: Vec<Cached<K>>,
}

impl<K> fmt::Debug for Replaced<K> {
    /// Which states they are, and nothing of what is in them.
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
    /// An empty store.
    pub fn new() -> Self {
        let namespace = NamedIndex::new(NAMESPACE_INDEX.to_owned(), Index::namespace());
        Self { slots: Slots::new(), indexes: vec![namespace], resource_version: String::new(), ready: Ready::new() }
    }

    /// Adds an index. The objects that are there already are found by it at once.
    pub fn add_index(&mut self, name: impl Into<String>, index: Index<K>) -> Result<(), Error> {
        self.add_index_with(name.into(), index, read)
    }

    /// The same, with the values that `read` gives.
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

    /// The index of that name, if there is one.
    pub(crate) fn find_index(&self, name: &str) -> Option<&Index<K>> {
        self.indexes.iter().find(|index| index.name == name).map(|index| &index.index)
    }

    /// How many indexes there are, and those that call functions of the user's, with their places.
    pub(crate) fn functions(&self) -> (usize, Vec<(usize, Index<K>)>) {
        let named = self.indexes.iter().enumerate().map(|(place, named)| (place, &named.index));
        let functions = named.filter(|(_, index)| index.is_function()).map(|(place, index)| (place, index.clone()));
        (self.indexes.len(), functions.collect())
    }

    /// Whether this very state is in the store.
    pub(crate) fn holds(&self, object: &Cached<K>) -> bool {
        let held = self.get(object.meta().namespace(), object.meta().name());
        held.is_some_and(|held| Arc::ptr_eq(&held.0, &object.0))
    }

    /// Uses these values for the states they are of, instead of reading them, until it is told otherwise.
    pub(crate) fn set_ready(&mut self, ready: Ready) {
        self.ready = ready;
    }

    /// The names of the indexes, [`NAMESPACE_INDEX`] first.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(|index| &*index.name)
    }

    /// Adds an object, or puts it in place of the state that was there, which is given back.
    pub fn upsert(&mut self, object: Cached<K>) -> Option<Cached<K>> {
        self.put(object).1
    }

    /// Takes an object out, and gives it back.
    pub fn delete(&mut self, namespace: &str, name: &str) -> Option<Cached<K>> {
        let slot = self.slots.find(namespace, name)?;
        self.remove(slot)
    }

    /// Puts the objects of a list in place of all that there are. Of several with the same key the last one counts.
    pub fn replace(&mut self, objects: Vec<Cached<K>>) -> Replaced<K> {
        self.replace_in(None, objects)
    }

    /// The same within one namespace: objects of others stay as they are, and are ignored in `objects`.
    pub fn replace_in(&mut self, namespace: Option<&str>, objects: Vec<Cached<K>>) -> Replaced<K> {
        let (mut added, mut updated) = (Vec::new(), Vec::new());
        let (mut listed, mut repeated) = (Marks::default(), false);
        self.slots.reserve(objects.len());
        let (mut objects, mut hashes) = (objects.into_iter(), Vec::with_capacity(AHEAD));
        loop {
            if hashes.is_empty() {
                // Some at a time are looked at together, so that their memory is waited for once.
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
        let gone: Vec<SlotId> = match namespace {
            None => self.slots.iter().map(|(slot, _)| slot).filter(|slot| !listed.contains(*slot)).collect(),
            Some(namespace) => self.slots_in(namespace).filter(|slot| !listed.contains(*slot)).collect(),
        };
        Replaced { added, updated, deleted: gone.into_iter().filter_map(|slot| self.remove(slot)).collect() }
    }

    /// Notes the version that has been reached: every change up to it is in the store. The store does not look at the versions of
    /// objects, because changes need not come in their order.
    pub fn set_resource_version(&mut self, resource_version: &str) {
        resource_version.clone_into(&mut self.resource_version);
    }

    /// The version that has been reached; empty if none was noted.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// The object of that name; the namespace is empty for objects in none.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Cached<K>> {
        self.slots.get(self.slots.find(namespace, name)?)
    }

    /// The object with that key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<&Cached<K>> {
        self.get(key.namespace().unwrap_or_default(), key.name())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::with_capacity(self.len());
        keys.extend(self.slots.iter().map(|(_, object)| object.key()));
        keys
    }

    /// All objects as they are now.
    pub fn list(&self) -> Snapshot<K> {
        self.slots.snapshot()
    }

    /// The objects in a namespace, or with the empty one those in none.
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

    /// The objects that have a value in the index which `object` has too. It need not be in the store itself.
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
            && let Some(held) = self.slots.get(slot)
            && Arc::ptr_eq(&held.0, &object.0)
        {
            return (slot, Some(object));
        }
        // All values are read before anything is changed: a function that panics leaves everything as it was.
        for (place, index) in self.indexes.iter_mut().enumerate() {
            let ready = if self.ready.is_empty() { None } else { self.ready.remove(&(object.address(), place)) };
            match ready {
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

/// The values of an object that comes in. One that cannot be read for them has none, and is otherwise like any other.
fn read<K: Object>(index: &Index<K>, object: &Cached<K>, values: &mut Values) {
    if let Err(error) = index.read(object, values) {
        tracing::warn!(?index, %error, "an object has no values in an index");
    }
}

pub(crate) fn matching<'a, K: 'a>(
    objects: impl IntoIterator<Item = &'a Cached<K>>,
    selector: &LabelSelector,
) -> Vec<Cached<K>> {
    objects.into_iter().filter(|object| selector.matches(|key| object.meta().label(key))).cloned().collect()
}

/// Some slots.
#[derive(Default)]
struct Marks(Vec<u64>);

impl Marks {
    /// Marks a slot, and tells whether it was not marked before.
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
