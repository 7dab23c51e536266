//! Decodes the objects of a list on other threads while the next ones are read.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use steersman_wire::{ObjectError, RawItem, TypeMeta};
use tokio::task::JoinHandle;

use super::item_decoder::ItemDecoder;
use crate::ObjectKey;
use crate::object::cached::Object;
use crate::object::storage::Stored;

/// Entries per batch.
const BATCH: usize = 64;
/// Batches that other threads decode at a time. The reflector decodes further ones itself, so that
/// it never waits, and raw entries of no more than this number of batches are in memory.
const SPAWNED_MAX: usize = 3;
/// Batches in the pipeline. Beyond it, the reflector waits for the first one. Decoded entries
/// behind an unfinished batch are not yet compared with the cache, so without a limit, a list that
/// changes little could be in memory twice.
const BATCHES_MAX: usize = 32;

/// An entry of a list as it was received.
pub(super) enum RawEntry {
    /// An object of a streaming list.
    Object(RawItem),
    /// An item of a plain list, which may not name its type.
    Item(RawItem),
    /// An object that exists and cannot be read.
    Unreadable(ObjectError),
    /// A deletion during a streaming list.
    Deleted(RawItem),
}

/// An entry of a list after decoding.
pub(super) enum DecodedEntry<K> {
    Present(Result<Stored<K>, ObjectError>),
    Deleted(Result<ObjectKey, ObjectError>),
}

/// Takes raw entries in and gives decoded ones out, in the same order.
pub(super) struct ListPipeline<K> {
    decoder: ItemDecoder<K>,
    /// The type of items that do not name their own.
    item_type: Option<TypeMeta>,
    batch: Vec<RawEntry>,
    batches: VecDeque<Batch<K>>,
}

enum Batch<K> {
    Decoded(Vec<DecodedEntry<K>>),
    Spawned(JoinHandle<Vec<DecodedEntry<K>>>),
}

impl<K> Batch<K> {
    fn is_decoded(&self) -> bool {
        match self {
            Self::Decoded(_) => true,
            Self::Spawned(task) => task.is_finished(),
        }
    }
}

impl<K: Object> ListPipeline<K> {
    pub(super) fn new(decoder: ItemDecoder<K>) -> Self {
        Self { decoder, item_type: None, batch: Vec::new(), batches: VecDeque::new() }
    }

    /// Sets the type of items that do not name their own.
    pub(super) fn set_item_type(&mut self, item_type: Option<TypeMeta>) {
        self.item_type = item_type;
    }

    pub(super) fn push(&mut self, entry: RawEntry) {
        self.batch.push(entry);
        if self.batch.len() < BATCH {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let spawned = self.batches.iter().filter(|batch| !batch.is_decoded()).count();
        self.batches.push_back(if spawned < SPAWNED_MAX {
            let (decoder, item_type) = (self.decoder.clone(), self.item_type.clone());
            let task = tokio::spawn(async move { decode(&decoder, item_type.as_ref(), batch) });
            // Tokio keeps the task spawned last for the current thread. This empty one takes that
            // place, so that another thread can steal the first.
            tokio::spawn(async {});
            Batch::Spawned(task)
        } else {
            Batch::Decoded(decode(&self.decoder, self.item_type.as_ref(), batch))
        });
    }

    /// The first batch, if it is decoded. Waits for it if too many are behind it.
    pub(super) async fn next_decoded(&mut self) -> Option<Vec<DecodedEntry<K>>> {
        let is_due = self.batches.front()?.is_decoded() || self.batches.len() > BATCHES_MAX;
        if is_due { Some(self.next_batch().await) } else { None }
    }

    /// The next batch of the remaining entries. An empty one is the end.
    pub(super) async fn rest(&mut self) -> Vec<DecodedEntry<K>> {
        if self.batches.is_empty() {
            return decode(&self.decoder, self.item_type.as_ref(), std::mem::take(&mut self.batch));
        }
        self.next_batch().await
    }

    async fn next_batch(&mut self) -> Vec<DecodedEntry<K>> {
        // The batch stays in the queue until it is ready, because this future may be dropped.
        let decoded = match self.batches.front_mut() {
            None => return Vec::new(),
            Some(Batch::Decoded(decoded)) => Ok(std::mem::take(decoded)),
            Some(Batch::Spawned(task)) => task.await,
        };
        self.batches.pop_front();
        match decoded {
            Ok(decoded) => decoded,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down, and drops this task too.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

fn decode<K: Object>(
    decoder: &ItemDecoder<K>,
    item_type: Option<&TypeMeta>,
    batch: Vec<RawEntry>,
) -> Vec<DecodedEntry<K>> {
    let decode = |entry| match entry {
        RawEntry::Object(object) => DecodedEntry::Present(decoder.decode(&object)),
        RawEntry::Item(item) => DecodedEntry::Present(decoder.decode_item(&item, item_type)),
        RawEntry::Unreadable(error) => DecodedEntry::Present(Err(error)),
        RawEntry::Deleted(object) => DecodedEntry::Deleted(decoder.decode(&object).map(|stored| stored.object.key())),
    };
    batch.into_iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Storage;

    fn pipeline() -> ListPipeline<Value> {
        ListPipeline::new(ItemDecoder::new(Storage::default(), None))
    }

    fn push(pipeline: &mut ListPipeline<Value>, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let json = format!(r#"{{"metadata":{{"name":"{number}"}}}}"#);
            pipeline.push(RawEntry::Object(bytes::Bytes::from(json).into()));
        }
    }

    fn names(entries: Vec<DecodedEntry<Value>>) -> Vec<String> {
        let name = |entry| match entry {
            DecodedEntry::Present(Ok(stored)) => stored.object.meta().name().to_owned(),
            _ => panic!("every entry can be read"),
        };
        entries.into_iter().map(name).collect()
    }

    async fn objects_come_out_in_their_order() {
        for count in [0, 1, BATCH, 10 * BATCH + 7, 100 * BATCH] {
            let (mut pipeline, mut out) = (pipeline(), Vec::new());
            for number in 0..count {
                push(&mut pipeline, number..number + 1);
                while let Some(decoded) = pipeline.next_decoded().await {
                    out.extend(names(decoded));
                }
            }
            loop {
                let rest = pipeline.rest().await;
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
    async fn batches_beyond_the_spawned_ones_are_decoded_at_once() {
        let mut pipeline = pipeline();
        push(&mut pipeline, 0..(SPAWNED_MAX + 2) * BATCH);
        let spawned = pipeline.batches.iter().filter(|batch| !batch.is_decoded()).count();
        assert_eq!((pipeline.batches.len(), spawned), (SPAWNED_MAX + 2, SPAWNED_MAX));
        assert!(pipeline.next_decoded().await.is_none(), "the first task has not run yet");
        tokio::task::yield_now().await;
        let first = pipeline.next_decoded().await.expect("the first task has run");
        assert_eq!(first.len(), BATCH);
    }

    #[tokio::test]
    async fn the_first_batch_is_awaited_when_many_follow_it() {
        let mut pipeline = pipeline();
        push(&mut pipeline, 0..BATCHES_MAX * BATCH);
        assert!(pipeline.next_decoded().await.is_none());
        push(&mut pipeline, 0..BATCH);
        while pipeline.next_decoded().await.is_some() {}
        assert!(pipeline.batches.is_empty(), "{} batches wait", pipeline.batches.len());
    }
}
