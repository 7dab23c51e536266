//! A list on its way in.

use std::collections::{HashMap, HashSet};

use crate::ObjectKey;
use crate::object::cached::Cached;

/// What has been read of a list so far. A streaming list may tell of changes before it is complete.
pub(super) struct Listing<K> {
    objects: Vec<Cached<K>>,
    /// Objects that are there, though they could not be read.
    unreadable: Vec<ObjectKey>,
    /// Objects that went, each with how many there were by then: what comes after that is there again.
    gone: Vec<(ObjectKey, usize)>,
}

impl<K> Listing<K> {
    pub(super) fn new() -> Self {
        Self { objects: Vec::new(), unreadable: Vec::new(), gone: Vec::new() }
    }

    pub(super) fn add(&mut self, object: Cached<K>) {
        self.objects.push(object);
    }

    pub(super) fn add_unreadable(&mut self, key: ObjectKey) {
        self.unreadable.push(key);
    }

    pub(super) fn remove(&mut self, key: ObjectKey) {
        self.unreadable.retain(|other| *other != key);
        self.gone.push((key, self.objects.len()));
    }

    /// All objects; of several states of one the last counts. One that could not be read keeps the state in which it was read
    /// before: in this list or, as `known` tells, an earlier one.
    pub(super) fn finish(mut self, known: impl Fn(&ObjectKey) -> Option<Cached<K>>) -> Vec<Cached<K>> {
        if !self.gone.is_empty() {
            let gone: HashMap<ObjectKey, usize> = self.gone.into_iter().collect();
            let mut index = 0;
            self.objects.retain(|object| {
                index += 1;
                gone.get(&object.key()).is_none_or(|gone_by| index > *gone_by)
            });
        }
        if !self.unreadable.is_empty() {
            let read: HashSet<ObjectKey> = self.objects.iter().map(Cached::key).collect();
            let missing = self.unreadable.iter().filter(|key| !read.contains(*key));
            self.objects.extend(missing.filter_map(known));
        }
        self.objects
    }
}
