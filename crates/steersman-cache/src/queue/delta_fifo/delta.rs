//! The output of the queue.

use std::{iter, slice, vec};

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<T> {
    /// The watch reported it as added.
    Added(T),
    /// The watch reported it as modified.
    Updated(T),
    /// It was deleted.
    Deleted {
        /// Its final state, or the last one that was seen.
        object: T,
        /// Whether later states may have existed, because the deletion was not seen.
        final_state_unknown: bool,
    },
}

impl<T> Delta<T> {
    /// The changed object.
    pub fn object(&self) -> &T {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted { object, .. } => object,
        }
    }
}

/// The deltas of one object, oldest first. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// Separate from the rest: most objects change once between two pops, which needs no
    /// allocation.
    first: Delta<T>,
    rest: Vec<Delta<T>>,
}

impl<T> Changes<T> {
    pub(super) fn new(first: Delta<T>) -> Self {
        Self { first, rest: Vec::new() }
    }

    /// Appends a delta. Returns by how much the number of deltas grew: 0 if two deletions became
    /// one.
    pub(super) fn push(&mut self, delta: Delta<T>) -> usize {
        let newest = self.rest.last_mut().unwrap_or(&mut self.first);
        match (newest, delta) {
            (Delta::Deleted { .. }, Delta::Deleted { final_state_unknown: true, .. }) => 0,
            (newest @ Delta::Deleted { .. }, delta @ Delta::Deleted { .. }) => {
                *newest = delta;
                0
            }
            (_, delta) => {
                self.rest.push(delta);
                1
            }
        }
    }

    /// The first delta.
    pub fn oldest(&self) -> &Delta<T> {
        &self.first
    }

    /// The last delta.
    pub fn newest(&self) -> &Delta<T> {
        self.rest.last().unwrap_or(&self.first)
    }

    /// Number of deltas, at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// The deltas, oldest first.
    pub fn iter(&self) -> iter::Chain<iter::Once<&Delta<T>>, slice::Iter<'_, Delta<T>>> {
        iter::once(&self.first).chain(&self.rest)
    }
}

impl<T> IntoIterator for Changes<T> {
    type Item = Delta<T>;
    type IntoIter = iter::Chain<iter::Once<Delta<T>>, vec::IntoIter<Delta<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        iter::once(self.first).chain(self.rest)
    }
}

impl<'a, T> IntoIterator for &'a Changes<T> {
    type Item = &'a Delta<T>;
    type IntoIter = iter::Chain<iter::Once<&'a Delta<T>>, slice::Iter<'a, Delta<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// What [`DeltaFifo::pop`](crate::DeltaFifo::pop) returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<T> {
    /// What to apply to the cache.
    pub work: Work<T>,
    /// The version that the cache reaches when this batch and all earlier ones are applied. `None`:
    /// unchanged.
    pub reached: Option<String>,
}

/// The content of a [`Batch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work<T> {
    /// The changed objects, each once, in the order of their first change.
    Changes(Vec<Changes<T>>),
    /// The objects that exist, and no others do.
    ///
    /// The consumer compares it with the cache, in which all earlier batches are applied. An object
    /// in the cache that is not listed, or is listed with another uid, has been deleted, and its
    /// final state is unknown. If a key is listed twice, the later object counts.
    Replace(Vec<T>),
    /// Only the version moves.
    Nothing,
}
