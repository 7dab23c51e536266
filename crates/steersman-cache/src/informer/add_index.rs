//! Adds an index to a cache that is in use.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::{Informer, prepare};
use crate::Error;
use crate::object::cached::{Cached, Object};
use crate::store::indexer::{Index, Values};

/// Rounds that read values without a lock. If objects change faster than the function of a new
/// index reads them, the last round blocks changes.
const UNLOCKED_ROUNDS_MAX: u32 = 16;

impl<K: Object> Informer<K> {
    /// Adds an index, also to a cache with objects.
    ///
    /// The cache can be read and changed while the values are read: the function of an index runs
    /// without a lock (test `an_index_function_holds_up_neither_reads_nor_events`).
    ///
    /// Adding the same index under the same name again succeeds, so that independent users of an
    /// informer can each add it. Functions cannot be compared: share a clone of the [`Index`].
    pub fn add_index(&self, name: &str, index: Index<K>) -> Result<(), Error> {
        let exists = || match self.inner.indexer().find_index(name) {
            Some(other) if other.is_same(&index) => Some(Ok(())),
            Some(_) => Some(Err(Error::IndexExists { name: name.to_owned() })),
            None => None,
        };
        // Holds the objects until the end, so that no later object has the address of one of them.
        let mut values: HashMap<_, (Cached<K>, Values)> = HashMap::new();
        let read = |values: &mut HashMap<_, _>, object: &Cached<K>| {
            values.entry(object.address()).or_insert_with(|| {
                let (read, decode_error) = prepare::values(&index, object, &self.inner.index_panics);
                if let Some(error) = decode_error {
                    self.lifecycle.report_decode_error(object, error);
                }
                (object.clone(), read)
            });
        };
        let mut round = 1;
        loop {
            if let Some(result) = exists() {
                return result;
            }
            // Each round reads only the objects that changed during the previous one.
            let objects = self.inner.indexer().list();
            objects.iter().for_each(|object| read(&mut values, object));
            // The cache does not change while this lock is held.
            let _processor = self.inner.processor();
            if let Some(result) = exists() {
                return result;
            }
            let objects = self.inner.indexer().list();
            if round < UNLOCKED_ROUNDS_MAX && objects.iter().any(|object| !values.contains_key(&object.address())) {
                round += 1;
                continue;
            }
            objects.iter().for_each(|object| read(&mut values, object));
            let mut indexer = self.inner.indexer.write().unwrap_or_else(PoisonError::into_inner);
            return indexer.add_index_with(name.to_owned(), index, |_, object, read| {
                *read = values.remove(&object.address()).map(|(_, values)| values).unwrap_or_default();
            });
        }
    }
}
