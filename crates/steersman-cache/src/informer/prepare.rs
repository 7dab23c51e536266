//! Calls the user's index functions before the cache is locked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cached::{Cached, Object};
use crate::delta_fifo::{Batch, Delta, Work};
use crate::indexer::{Index, Ready, Values};

/// The values of an object in an index. A function that panics is counted, and the object has no values there.
pub(super) fn values<K: Object>(index: &Index<K>, object: &Cached<K>, panics: &AtomicU64) -> Values {
    let mut values = Values::default();
    if catch_unwind(AssertUnwindSafe(|| index.read(object, &mut values))).is_ok() {
        return values;
    }
    panics.fetch_add(1, Ordering::Relaxed);
    tracing::error!(?object, ?index, "the function of an index panicked; the object has no values in it");
    Values::default()
}

/// The values of a batch's objects in those indexes, for each that is not `held` as it is.
pub(super) fn batch<K: Object>(
    batch: &Batch<Cached<K>>,
    indexes: &[(usize, Index<K>)],
    held: impl Fn(&Cached<K>) -> bool,
    panics: &AtomicU64,
) -> Ready {
    let mut ready = Ready::new();
    if indexes.is_empty() {
        return ready;
    }
    let mut read = |object: &Cached<K>| {
        if !held(object) {
            ready.extend(
                indexes.iter().map(|(place, index)| ((object.address(), *place), values(index, object, panics))),
            );
        }
    };
    match &batch.work {
        Work::Changes(changes) => {
            for delta in changes.iter().flatten() {
                if !matches!(delta, Delta::Deleted { .. }) {
                    read(delta.object());
                }
            }
        }
        Work::Replace(objects) => objects.iter().for_each(read),
        Work::Nothing => {}
    }
    ready
}
