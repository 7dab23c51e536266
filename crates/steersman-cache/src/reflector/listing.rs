//! The objects of a list that is being read.

use std::collections::{HashMap, HashSet};

use crate::ObjectKey;
use crate::object::cached::Cached;

/// The entries of a list so far. A streaming list may bring changes before it is complete.
pub(super) struct Listing<K> {
    objects: Vec<Cached<K>>,
    /// Objects that exist and could not be read.
    unreadable: Vec<ObjectKey>,
    /// Deleted objects, each with the number of objects at that time. The object exists again if it
    /// was added after that.
    deleted: Vec<(ObjectKey, usize)>,
}

impl<K> Listing<K> {
    pub(super) fn new() -> Self {
        Self { objects: Vec::new(), unreadable: Vec::new(), deleted: Vec::new() }
    }

    pub(super) fn add(&mut self, object: Cached<K>) {
        self.objects.push(object);
    }

    pub(super) fn add_unreadable(&mut self, key: ObjectKey) {
        self.unreadable.push(key);
    }

    pub(super) fn remove(&mut self, key: ObjectKey) {
        self.unreadable.retain(|other| *other != key);
        self.deleted.push((key, self.objects.len()));
    }

    /// All objects; of several states of one the last counts. An object that could not be read
    /// keeps its last readable state: from this list, or else from `stored`.
    pub(super) fn finish(mut self, stored: impl Fn(&ObjectKey) -> Option<Cached<K>>) -> Vec<Cached<K>> {
        if !self.deleted.is_empty() {
            let deleted: HashMap<ObjectKey, usize> = self.deleted.into_iter().collect();
            let mut index = 0;
            self.objects.retain(|object| {
                index += 1;
                deleted.get(&object.key()).is_none_or(|deleted_at| index > *deleted_at)
            });
        }
        if !self.unreadable.is_empty() {
            let read: HashSet<ObjectKey> = self.objects.iter().map(Cached::key).collect();
            let missing = self.unreadable.iter().filter(|key| !read.contains(*key));
            self.objects.extend(missing.filter_map(stored));
        }
        self.objects
    }
}
