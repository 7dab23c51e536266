//! Turns the raw objects of lists and watches into stored ones.

use steersman_wire::{ObjectError, ObjectFault, RawItem, TypeMeta};

use crate::Storage;
use crate::object::cached::Object;
use crate::object::storage::Stored;

/// Stores the objects of one kind. Rejects objects of other kinds.
pub(super) struct ItemDecoder<K> {
    storage: Storage<K>,
    /// Expected type; any type without.
    type_meta: Option<TypeMeta>,
}

impl<K> Clone for ItemDecoder<K> {
    fn clone(&self) -> Self {
        Self { storage: self.storage.clone(), type_meta: self.type_meta.clone() }
    }
}

impl<K: Object> ItemDecoder<K> {
    pub(super) fn new(storage: Storage<K>, type_meta: Option<TypeMeta>) -> Self {
        Self { storage, type_meta }
    }

    /// The object of a watch event.
    pub(super) fn decode(&self, object: &RawItem) -> Result<Stored<K>, ObjectError> {
        self.decode_item(object, self.type_meta.as_ref())
    }

    /// An item of a list. `type_meta` is the type of items that do not name their own.
    pub(super) fn decode_item(&self, item: &RawItem, type_meta: Option<&TypeMeta>) -> Result<Stored<K>, ObjectError> {
        self.storage.store_item_reporting(item, type_meta).and_then(|stored| self.check_type(stored))
    }

    fn check_type(&self, stored: Stored<K>) -> Result<Stored<K>, ObjectError> {
        let Some(expected) = &self.type_meta else { return Ok(stored) };
        let meta = stored.object.meta();
        if meta.kind() == expected.kind && meta.api_version() == expected.api_version {
            return Ok(stored);
        }
        let found =
            format!("{} {} instead of {} {}", meta.api_version(), meta.kind(), expected.api_version, expected.kind);
        let fault = ObjectFault::Decode { message: found, line: 0, column: 0 };
        Err(ObjectError { index: None, key: Some(meta.key()), fault })
    }
}
