//! Storing the objects of a list while the next ones are read.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use steersman_wire::{Fault, Item, ObjectError, TypeMeta};
use tokio::task::JoinHandle;

use crate::object::cached::Object;
use crate::object::storage::Kept;
use crate::{ObjectKey, Storage};

/// So many objects are stored together.
const BATCH: usize = 64;
/// So many batches are left to other threads. What is read meanwhile is stored by its reader, so that nobody waits for anybody, and
/// no more than this is in memory as it came.
const ELSEWHERE_MAX: usize = 3;

/// So many batches may be there at a time; then the first is waited for. What is stored behind one that is not has not been compared with
/// what is kept, so of a list that changes little everything could be in memory twice.
const BATCHES_MAX: usize = 32;

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
    pub(super) fn read(&self, object: &Item) -> Result<Kept<K>, ObjectError> {
        self.read_item(object, self.type_meta.as_ref())
    }

    fn read_item(&self, item: &Item, type_meta: Option<&TypeMeta>) -> Result<Kept<K>, ObjectError> {
        self.storage.keep_item(item, type_meta).and_then(|kept| self.of_our_kind(kept))
    }

    fn of_our_kind(&self, kept: Kept<K>) -> Result<Kept<K>, ObjectError> {
        let Some(expected) = &self.type_meta else { return Ok(kept) };
        let meta = kept.object.meta();
        if meta.kind() == expected.kind && meta.api_version() == expected.api_version {
            return Ok(kept);
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
    There(Result<Kept<K>, ObjectError>),
    Gone(Result<ObjectKey, ObjectError>),
}

/// What of a list is not stored yet, in its order.
pub(super) struct Storing<K> {
    reader: Reader<K>,
    /// The type of those items that do not say it.
    item_type: Option<TypeMeta>,
    batch: Vec<Raw>,
    batches: VecDeque<Batch<K>>,
}

enum Batch<K> {
    Stored(Vec<Stored<K>>),
    /// On whichever thread has nothing to do.
    Elsewhere(JoinHandle<Vec<Stored<K>>>),
}

impl<K> Batch<K> {
    fn is_stored(&self) -> bool {
        match self {
            Self::Stored(_) => true,
            Self::Elsewhere(task) => task.is_finished(),
        }
    }
}

impl<K: Object> Storing<K> {
    pub(super) fn new(reader: Reader<K>) -> Self {
        Self { reader, item_type: None, batch: Vec::new(), batches: VecDeque::new() }
    }

    /// Says of which type the items are that do not say it themselves.
    pub(super) fn set_item_type(&mut self, item_type: Option<TypeMeta>) {
        self.item_type = item_type;
    }

    /// Takes the next of the list.
    pub(super) fn push(&mut self, raw: Raw) {
        self.batch.push(raw);
        if self.batch.len() < BATCH {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let elsewhere = self.batches.iter().filter(|batch| !batch.is_stored()).count();
        self.batches.push_back(if elsewhere < ELSEWHERE_MAX {
            let (reader, item_type) = (self.reader.clone(), self.item_type.clone());
            let task = tokio::spawn(async move { store(&reader, item_type.as_ref(), batch) });
            // The task that was spawned last waits for this thread, and no other takes it. This one may.
            tokio::spawn(async {});
            Batch::Elsewhere(task)
        } else {
            Batch::Stored(store(&self.reader, self.item_type.as_ref(), batch))
        });
    }

    /// The next batch that is stored, if it is by now, or if there are too many behind it.
    pub(super) async fn next_stored(&mut self) -> Option<Vec<Stored<K>>> {
        let is_wanted = self.batches.front()?.is_stored() || self.batches.len() > BATCHES_MAX;
        if is_wanted { Some(self.next_batch().await) } else { None }
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
        let stored = match self.batches.front_mut() {
            None => return Vec::new(),
            Some(Batch::Stored(stored)) => Ok(std::mem::take(stored)),
            Some(Batch::Elsewhere(task)) => task.await,
        };
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
        Raw::Gone(object) => Stored::Gone(reader.read(&object).map(|kept| kept.object.key())),
    };
    batch.into_iter().map(store).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn storing() -> Storing<Value> {
        Storing::new(Reader::new(Storage::default(), None))
    }

    fn push(storing: &mut Storing<Value>, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let json = format!(r#"{{"metadata":{{"name":"{number}"}}}}"#);
            storing.push(Raw::Object(bytes::Bytes::from(json).into()));
        }
    }

    fn names(stored: Vec<Stored<Value>>) -> Vec<String> {
        let name = |stored| match stored {
            Stored::There(Ok(kept)) => kept.object.meta().name().to_owned(),
            _ => panic!("all of them can be read"),
        };
        stored.into_iter().map(name).collect()
    }

    async fn objects_come_out_in_their_order() {
        for count in [0, 1, BATCH, 10 * BATCH + 7, 100 * BATCH] {
            let (mut storing, mut out) = (storing(), Vec::new());
            for number in 0..count {
                push(&mut storing, number..number + 1);
                while let Some(stored) = storing.next_stored().await {
                    out.extend(names(stored));
                }
            }
            loop {
                let rest = storing.rest().await;
                if rest.is_empty() {
                    break;
                }
                out.extend(names(rest));
            }
            let expected: Vec<_> = (0..count).map(|number| number.to_string()).collect();
            assert_eq!(out, expected);
        }
    }

    #[tokio::test]
    async fn objects_come_out_in_their_order_on_one_thread() {
        objects_come_out_in_their_order().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn objects_come_out_in_their_order_on_several_threads() {
        objects_come_out_in_their_order().await;
    }

    #[tokio::test]
    async fn a_reader_stores_what_is_more_than_others_have_to_do() {
        let mut storing = storing();
        push(&mut storing, 0..(ELSEWHERE_MAX + 2) * BATCH);
        let elsewhere = storing.batches.iter().filter(|batch| !batch.is_stored()).count();
        assert_eq!((storing.batches.len(), elsewhere), (ELSEWHERE_MAX + 2, ELSEWHERE_MAX));
        assert!(storing.next_stored().await.is_none(), "the first one has not had its turn");
        tokio::task::yield_now().await;
        let first = storing.next_stored().await.expect("it has had its turn");
        assert_eq!(first.len(), BATCH);
    }

    #[tokio::test]
    async fn a_batch_that_has_not_had_its_turn_is_waited_for_when_there_are_many_behind_it() {
        let mut storing = storing();
        push(&mut storing, 0..BATCHES_MAX * BATCH);
        assert!(storing.next_stored().await.is_none());
        push(&mut storing, 0..BATCH);
        while storing.next_stored().await.is_some() {}
        assert!(storing.batches.is_empty(), "{} batches wait", storing.batches.len());
    }
}
