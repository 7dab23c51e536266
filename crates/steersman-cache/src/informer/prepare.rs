//! Calls index functions before the cache is locked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_wire::ObjectError;

use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::{Batch, Delta, Work};
use crate::store::indexer::{Index, PreparedValues, Values};

/// The results of index functions for a batch.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) values: PreparedValues,
    /// Objects that did not decode, except those that were reported on arrival.
    pub(super) decode_errors: Vec<ObjectError>,
}

/// The values of an object in an index.
///
/// An object has no values if it does not decode, or if the function panics, which is counted.
pub(super) fn values<K: Object>(
    index: &Index<K>,
    object: &Cached<K>,
    panics: &AtomicU64,
) -> (Values, Option<ObjectError>) {
    let mut values = Values::default();
    match catch_unwind(AssertUnwindSafe(|| index.read(object, &mut values))) {
        Ok(Ok(())) => (values, None),
        Ok(Err(error)) => (Values::default(), (!object.failed_eager_decode()).then(|| error.into_object_error())),
        Err(_) => {
            panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(?object, ?index, "index function panicked, the object has no values in the index");
            (Values::default(), None)
        }
    }
}

/// The values of a batch's objects in these indexes, except for objects that `is_cached`.
pub(super) fn batch<K: Object>(
    batch: &Batch<Cached<K>>,
    indexes: &[(usize, Index<K>)],
    is_cached: impl Fn(&Cached<K>) -> bool,
    panics: &AtomicU64,
) -> Prepared {
    let mut prepared = Prepared::default();
    if indexes.is_empty() {
        return prepared;
    }
    let mut read = |object: &Cached<K>| {
        if is_cached(object) {
            return;
        }
        // One error per object, however many indexes fail to decode it.
        let mut decode_error = None;
        for (position, index) in indexes {
            let (values, error) = values(index, object, panics);
            prepared.values.insert((object.address(), *position), values);
            decode_error = decode_error.or(error);
        }
        prepared.decode_errors.extend(decode_error);
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
    prepared
}
