//! The task of one source: reads from the server and applies what it read to the cache.

use std::convert::Infallible;
use std::sync::Arc;

use super::inner::Inner;
use super::prepare::{self, Prepared};
use super::processor::{PreparedBatch, Processed};
use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::Batch;
use crate::queue::source::Source;
use crate::reflector::report_decode_error;

/// Runs the reflector of a source and its consumer as one task, in this order.
///
/// **Invariant.** [`Source::non_empty`], on which the consumer waits, registers no waker. The
/// consumer makes progress because both futures are in this `join!`:
///
/// - Only the reflector pushes, and it pushes while it is polled.
/// - `biased` polls the reflector first, and a `join!` polls every branch that has not finished on
///   each wake. So each push is followed by a poll of the consumer.
///
/// An event is therefore in the cache without a second wake-up. Do not spawn the two futures
/// separately, do not swap them, and do not push from another task: the consumer would sleep until
/// the next event. The consumer wakes the reflector in the other direction with a [`Notify`]
/// (`Source::mark_applied`).
///
/// [`Notify`]: tokio::sync::Notify
pub(crate) async fn run_source<K: Object>(
    reflector: impl Future<Output = Infallible>,
    inner: Arc<Inner<K>>,
    index: usize,
    source: Arc<Source<K>>,
) {
    tokio::join!(biased; reflector, consume(inner, index, source));
}

/// Applies what a reflector has read to the cache, batch by batch.
async fn consume<K: Object>(inner: Arc<Inner<K>>, index: usize, source: Arc<Source<K>>) -> Infallible {
    loop {
        source.non_empty().await;
        let was_full = source.is_full();
        let Some((batch, synced)) = source.pop() else { continue };
        let processed = process(&inner, index, &source, batch, synced);
        inner.progress.send_if_modified(|progress| {
            progress.batches += 1;
            progress.changes += u64::from(processed.changed);
            progress.synced |= processed.synced;
            // A later subscriber reads the current value first, so it needs no notification.
            inner.progress.receiver_count() > 0
        });
        // Under load, other tasks must run, the handlers above all: their backlogs would grow.
        // Without load, yielding would only wake another thread.
        if was_full || source.pending() > 0 {
            tokio::task::yield_now().await;
        }
        // Last, because it wakes the reflector, and with it this task.
        source.mark_applied();
    }
}

/// Applies a batch to the cache. Index functions run without a lock.
fn process<K: Object>(
    inner: &Inner<K>,
    index: usize,
    source: &Source<K>,
    batch: Batch<Cached<K>>,
    synced: bool,
) -> Processed {
    let mut functions = inner.indexer().functions();
    loop {
        let is_cached = |object: &Cached<K>| inner.indexer().contains_state(object);
        let Prepared { values, decode_errors } = prepare::batch(&batch, &functions.1, is_cached, &inner.index_panics);
        let mut processor = inner.processor();
        let now = inner.indexer().functions();
        // An index was added since.
        if now.0 != functions.0 {
            functions = now;
            continue;
        }
        // Before the objects can be read from the cache.
        decode_errors.into_iter().for_each(|error| report_decode_error(&source.status, error));
        return processor.process(index, PreparedBatch { batch, synced, values }, &inner.indexer);
    }
}
