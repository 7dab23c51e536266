//! Where a reflector writes.

use std::future::Future;

use crate::object::cached::Cached;

/// Where a [`Reflector`](crate::Reflector) writes what it reads: usually a
/// [`DeltaFifo`](crate::DeltaFifo).
pub trait ReflectorStore<K>: Send + Sync {
    /// The stored state of an object.
    ///
    /// When a later list returns an object in the same state, the reflector passes on this one, so
    /// that the state is in memory once. The reflector does not call it during its first list.
    fn get(&self, namespace: &str, name: &str) -> Option<Cached<K>>;

    /// An object was added.
    fn add(&self, object: Cached<K>);

    /// An object was modified.
    fn update(&self, object: Cached<K>);

    /// An object was deleted; `object` is its final state.
    fn delete(&self, object: Cached<K>);

    /// An object was deleted and its final state cannot be read. `object` is the state that
    /// [`get`](Self::get) returned.
    fn delete_unseen(&self, object: Cached<K>);

    /// All events up to this version have been written.
    fn bookmark(&self, resource_version: &str);

    /// Replaces all objects by this list, which has this version. If the list contains several
    /// states of one object, the last one counts.
    fn replace(&self, objects: Vec<Cached<K>>, resource_version: &str);

    /// Waits until the store accepts another event.
    fn wait_for_capacity(&self) -> impl Future<Output = ()> + Send;

    /// Waits until [`get`](Self::get) sees everything that was written.
    fn wait_until_applied(&self) -> impl Future<Output = ()> + Send;
}
