//! Objects by key.

use std::fmt;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::ObjectKey;
use crate::queue::queued::{KeyHasher, Queued, has_same_key};

/// The newest object of each key, without a queue or indexes: [`DeltaFifo`](crate::DeltaFifo) and
/// [`Indexer`](crate::Indexer) have those. client-go's `Store`; no informer uses it.
///
/// ```
/// use steersman_cache::{Queued, Store};
///
/// #[derive(Clone)]
/// struct Pod(&'static str, &'static str);
/// impl Queued for Pod {
///     fn namespace(&self) -> &str { "shop" }
///     fn name(&self) -> &str { self.0 }
///     fn resource_version(&self) -> &str { self.1 }
/// }
///
/// let mut store = Store::new();
/// store.add(Pod("web", "1"));
/// store.update(Pod("web", "2"));
/// let pod = store.get_by_key(&"shop/web".parse()?).unwrap();
/// assert_eq!(pod.resource_version(), "2");
/// # Ok::<(), steersman_cache::Error>(())
/// ```
#[derive(Clone)]
pub struct Store<T> {
    objects: HashTable<T>,
    hasher: KeyHasher,
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.objects.len()).finish_non_exhaustive()
    }
}

impl<T: Queued> Default for Store<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Queued> Store<T> {
    /// An empty store.
    pub fn new() -> Self {
        Self { objects: HashTable::new(), hasher: KeyHasher::default() }
    }

    /// Stores the object. Returns the previous object of its key.
    pub fn add(&mut self, object: T) -> Option<T> {
        let hash = self.hasher.hash(&object);
        match self.objects.entry(hash, |other| has_same_key(other, &object), |other| self.hasher.hash(other)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), object)),
            Entry::Vacant(entry) => {
                entry.insert(object);
                None
            }
        }
    }

    /// The same as [`add`](Self::add).
    pub fn update(&mut self, object: T) -> Option<T> {
        self.add(object)
    }

    /// Removes and returns the object with the same key, which may be another state of it.
    pub fn delete(&mut self, object: &T) -> Option<T> {
        let entry = self.objects.find_entry(self.hasher.hash(object), |other| has_same_key(other, object)).ok()?;
        Some(entry.remove().0)
    }

    /// The object with the same key.
    pub fn get(&self, object: &T) -> Option<&T> {
        self.find(object.namespace(), object.name())
    }

    /// The object with this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<&T> {
        self.find(key.namespace().unwrap_or(""), key.name())
    }

    /// All objects, in no order.
    pub fn list(&self) -> impl Iterator<Item = &T> {
        self.objects.iter()
    }

    /// All keys, in no order.
    pub fn list_keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.objects.iter().map(|object| ObjectKey::new(object.namespace(), object.name()))
    }

    /// Stores these objects and no others. If a key comes twice, the later object counts.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) {
        self.objects = HashTable::new();
        for object in objects {
            self.add(object);
        }
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn find(&self, namespace: &str, name: &str) -> Option<&T> {
        let is_it = |object: &T| object.name() == name && object.namespace() == namespace;
        self.objects.find(self.hasher.hash_parts(namespace, name), is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::queued::tests::{State, state, states};

    fn sorted(store: &Store<State>) -> Vec<State> {
        let mut states: Vec<_> = store.list().cloned().collect();
        states.sort();
        states
    }

    #[test]
    fn the_newest_object_of_a_key_is_kept() {
        let mut store = Store::new();
        assert_eq!(store.add(state("x/a@1")), None);
        assert_eq!(store.add(state("y/a@2")), None);
        assert_eq!(store.update(state("x/a@3")), Some(state("x/a@1")));
        assert_eq!(store.get(&state("x/a@0")), Some(&state("x/a@3")));
        assert_eq!(store.get_by_key(&ObjectKey::new("y", "a")), Some(&state("y/a@2")));
        assert_eq!(store.get_by_key(&ObjectKey::cluster("a")), None);
        assert_eq!(sorted(&store), states("x/a@3 y/a@2"));
        let mut keys: Vec<_> = store.list_keys().collect();
        keys.sort();
        assert_eq!(keys, [ObjectKey::new("x", "a"), ObjectKey::new("y", "a")]);
    }

    #[test]
    fn a_deletion_removes_the_object_of_the_key() {
        let mut store = Store::new();
        store.add(state("a@1"));
        assert_eq!(store.delete(&state("b@1")), None);
        assert_eq!(store.delete(&state("a@2")), Some(state("a@1")));
        assert_eq!((store.len(), store.is_empty(), store.get(&state("a@1"))), (0, true, None));
    }

    #[test]
    fn a_replace_removes_all_earlier_objects() {
        let mut store = Store::new();
        store.add(state("a@1"));
        store.replace(states("b@2 c@3 b@4"));
        assert_eq!(sorted(&store), states("b@4 c@3"));
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn many_objects_are_found_again() {
        let mut store = Store::new();
        for number in 0..1000 {
            store.add(state(&format!("{}/{number}@{number}", number % 7)));
        }
        for number in 0..1000 {
            let wanted = state(&format!("{}/{number}@{number}", number % 7));
            assert_eq!(store.get(&wanted), Some(&wanted));
        }
    }
}
