//! Calls the user's index functions before the cache is locked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_wire::ObjectError;

use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::{Batch, Delta, Work};
use crate::store::indexer::{Index, Ready, Values};

/// What the user's functions made of objects.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) ready: Ready,
    /// Those that did not decode, but for those of which that was said when they came.
    pub(super) undecoded: Vec<ObjectError>,
}

/// The values of an object in an index. A function that panics is counted, and the object has no values there; nor has one that does not
/// decode.
pub(super) fn values<K: Object>(
    index: &Index<K>,
    object: &Cached<K>,
    panics: &AtomicU64,
) -> (Values, Option<ObjectError>) {
    let mut values = Values::default();
    match catch_unwind(AssertUnwindSafe(|| index.read(object, &mut values))) {
        Ok(Ok(())) => (values, None),
        Ok(Err(error)) => (Values::default(), (!object.came_undecoded()).then(|| error.into_object_error())),
        Err(_) => {
            panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(?object, ?index, "the function of an index panicked; the object has no values in it");
            (Values::default(), None)
        }
    }
}

/// The values of a batch's objects in those indexes, for each that is not `held` as it is.
pub(super) fn batch<K: Object>(
    batch: &Batch<Cached<K>>,
    indexes: &[(usize, Index<K>)],
    held: impl Fn(&Cached<K>) -> bool,
    panics: &AtomicU64,
) -> Prepared {
    let mut prepared = Prepared::default();
    if indexes.is_empty() {
        return prepared;
    }
    let mut read = |object: &Cached<K>| {
        if held(object) {
            return;
        }
        // However many indexes find it so.
        let mut undecoded = None;
        for (place, index) in indexes {
            let (values, error) = values(index, object, panics);
            prepared.ready.insert((object.address(), *place), values);
            undecoded = undecoded.or(error);
        }
        prepared.undecoded.extend(undecoded);
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
