//! Storing the objects of a list while the next ones are read.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use steersman_wire::{Fault, Item, ObjectError, TypeMeta};
use tokio::task::JoinHandle;

use crate::cached::{Cached, Object};
use crate::{ObjectKey, Storage};

/// So many objects are stored together, on whichever thread has nothing to do.
const BATCH: usize = 64;
/// More batches than that do not wait to be stored: what has been read takes memory until then.
const BATCHES_MAX: usize = 2;

/// Makes cached objects of one kind out of bytes.
pub(super) struct Reader<K> {
    storage: Storage<K>,
    /// What the objects are. Others are errors.
    type_meta: Option<TypeMeta>,
}

impl<K> Clone for Reader<K> {
    fn clone(&self) -> Self {
        Self { storage: self.storage.clone(), type_meta: self.type_meta.clone() }
    }
}

impl<K: Object> Reader<K> {
    pub(super) fn new(storage: Storage<K>, type_meta: Option<TypeMeta>) -> Self {
        Self { storage, type_meta }
    }

    /// The object of an event.
    pub(super) fn read(&self, object: &Item) -> Result<Cached<K>, ObjectError> {
        self.read_item(object, self.type_meta.as_ref())
    }

    fn read_item(&self, item: &Item, type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        self.storage.store_item(item, type_meta).and_then(|object| self.of_our_kind(object))
    }

    fn of_our_kind(&self, object: Cached<K>) -> Result<Cached<K>, ObjectError> {
        let Some(expected) = &self.type_meta else { return Ok(object) };
        let meta = object.meta();
        if meta.kind() == expected.kind && meta.api_version() == expected.api_version {
            return Ok(object);
        }
        let found =
            format!("{} {} instead of {} {}", meta.api_version(), meta.kind(), expected.api_version, expected.kind);
        let fault = Fault::Decode { message: found, line: 0, column: 0 };
        Err(ObjectError { index: None, key: Some(meta.key()), fault })
    }
}

/// Something that a list says, as it came.
pub(super) enum Raw {
    /// An object is there.
    Object(Item),
    /// The same, in a plain list, where it may not say its type.
    Item(Item),
    /// An object is there that cannot be read.
    Unreadable(ObjectError),
    /// An object is gone.
    Gone(Item),
}

/// The same when it has been read.
pub(super) enum Stored<K> {
    There(Result<Cached<K>, ObjectError>),
    Gone(Result<ObjectKey, ObjectError>),
}

/// What of a list is not stored yet, in its order.
pub(super) struct Storing<K> {
    reader: Reader<K>,
    /// The type of those items that do not say it.
    item_type: Option<TypeMeta>,
    batch: Vec<Raw>,
    batches: VecDeque<JoinHandle<Vec<Stored<K>>>>,
}

impl<K: Object> Storing<K> {
    pub(super) fn new(reader: Reader<K>) -> Self {
        Self { reader, item_type: None, batch: Vec::new(), batches: VecDeque::new() }
    }

    /// Says of which type the items are that do not say it themselves.
    pub(super) fn set_item_type(&mut self, item_type: Option<TypeMeta>) {
        self.item_type = item_type;
    }

    /// Takes the next of the list, and gives what has been stored, if there is more under way than should be.
    pub(super) async fn push(&mut self, raw: Raw) -> Vec<Stored<K>> {
        self.batch.push(raw);
        if self.batch.len() < BATCH {
            return Vec::new();
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let (reader, item_type) = (self.reader.clone(), self.item_type.clone());
        self.batches.push_back(tokio::spawn(async move { store(&reader, item_type.as_ref(), batch) }));
        if self.batches.len() > BATCHES_MAX { self.next_batch().await } else { Vec::new() }
    }

    /// What is left, in batches; an empty one at the end.
    pub(super) async fn rest(&mut self) -> Vec<Stored<K>> {
        if self.batches.is_empty() {
            return store(&self.reader, self.item_type.as_ref(), std::mem::take(&mut self.batch));
        }
        self.next_batch().await
    }

    async fn next_batch(&mut self) -> Vec<Stored<K>> {
        // It stays where it is until it is ready: whoever waits for it may be dropped.
        let Some(batch) = self.batches.front_mut() else { return Vec::new() };
        let stored = batch.await;
        self.batches.pop_front();
        match stored {
            Ok(stored) => stored,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and we go with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

fn store<K: Object>(reader: &Reader<K>, item_type: Option<&TypeMeta>, batch: Vec<Raw>) -> Vec<Stored<K>> {
    let store = |raw| match raw {
        Raw::Object(object) => Stored::There(reader.read(&object)),
        Raw::Item(item) => Stored::There(reader.read_item(&item, item_type)),
        Raw::Unreadable(error) => Stored::There(Err(error)),
        Raw::Gone(object) => Stored::Gone(reader.read(&object).map(|object| object.key())),
    };
    batch.into_iter().map(store).collect()
}
