//! What comes out of the queue.

use std::{iter, slice, vec};

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<T> {
    /// The watch said that it was added.
    Added(T),
    /// The watch said that it was changed.
    Updated(T),
    /// It is gone.
    Deleted {
        /// Its last state, or the last one known.
        object: T,
        /// Whether it may have changed between this state and its end, because the end was not seen.
        final_state_unknown: bool,
    },
    /// Nothing happened: the object is handed out again because somebody asked for a resync.
    Sync(T),
}

impl<T> Delta<T> {
    /// The object that it is about.
    pub fn object(&self) -> &T {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted { object, .. } | Self::Sync(object) => object,
        }
    }
}

/// What happened to one object, oldest first. There is always at least one delta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<T> {
    /// Apart from the rest, because most objects change once between two pops, and that needs no allocation.
    first: Delta<T>,
    rest: Vec<Delta<T>>,
}

impl<T> Changes<T> {
    pub(super) fn new(first: Delta<T>) -> Self {
        Self { first, rest: Vec::new() }
    }

    /// Appends a delta, and says how many more there are now: one, or none if two deletions became one.
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

    /// The first thing that happened.
    pub fn oldest(&self) -> &Delta<T> {
        &self.first
    }

    /// The last thing that happened.
    pub fn newest(&self) -> &Delta<T> {
        self.rest.last().unwrap_or(&self.first)
    }

    /// How many deltas there are: at least one.
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

/// What [`DeltaFifo::pop`](crate::DeltaFifo::pop) hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<T> {
    /// What is to be applied to the cache.
    pub work: Work<T>,
    /// The version up to which every event is applied once this batch and all before it are. `None`: the same as before.
    pub reached: Option<String>,
}

/// What a [`Batch`] asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work<T> {
    /// Objects that changed, each once, in the order in which they first did.
    Changes(Vec<Changes<T>>),
    /// These objects exist, and no others.
    ///
    /// Whoever applies it finds out what that means by comparing with the cache, which is then as new as everything before the
    /// list: an object in the cache that is not listed, or is listed with another uid, has been deleted, and its final state is
    /// not known. Where a key is listed twice, the later object counts.
    Replace(Vec<T>),
    /// Only the version has moved.
    Nothing,
}
