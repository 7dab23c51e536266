//! All objects of an indexer at one moment.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::{slice, vec};

use super::slots::{CHUNK, Chunk};
use crate::Cached;

/// All objects of an [`Indexer`](super::Indexer) at one moment, in no particular order.
///
/// Taking a snapshot costs one reference per 64 objects, so it can be taken under a lock and read
/// without. It does not show later writes (test `later_writes_are_not_seen_by_a_snapshot`).
///
/// **A snapshot costs memory while it is held.** Its states stay alive, also those that were
/// replaced or deleted since, and the first write to each 64 objects copies their handles. Read it
/// and drop it; hold single objects instead.
pub struct Snapshot<K> {
    chunks: Vec<Arc<Chunk<K>>>,
    len: usize,
}

impl<K> Snapshot<K> {
    pub(super) fn new(chunks: Vec<Arc<Chunk<K>>>, len: usize) -> Self {
        Self { chunks, len }
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The objects.
    pub fn iter(&self) -> Iter<'_, K> {
        Iter { chunks: self.chunks.iter(), chunk: None, slot: 0, left: self.len }
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    /// Keys and versions, without any content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a, K> IntoIterator for &'a Snapshot<K> {
    type Item = &'a Cached<K>;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}

impl<K> IntoIterator for Snapshot<K> {
    type Item = Cached<K>;
    type IntoIter = IntoIter<K>;

    /// The objects. The iterator drops each chunk that it has passed.
    fn into_iter(self) -> IntoIter<K> {
        IntoIter { chunks: self.chunks.into_iter(), chunk: None, slot: 0, left: self.len }
    }
}

/// The objects of a [`Snapshot`], by reference.
pub struct Iter<'a, K> {
    chunks: slice::Iter<'a, Arc<Chunk<K>>>,
    chunk: Option<&'a Chunk<K>>,
    slot: usize,
    left: usize,
}

impl<'a, K> Iterator for Iter<'a, K> {
    type Item = &'a Cached<K>;

    fn next(&mut self) -> Option<&'a Cached<K>> {
        loop {
            if let Some(chunk) = self.chunk {
                while self.slot < CHUNK {
                    self.slot += 1;
                    if let Some(object) = chunk.get(self.slot - 1) {
                        self.left = self.left.saturating_sub(1);
                        return Some(object);
                    }
                }
            }
            (self.chunk, self.slot) = (Some(&**self.chunks.next()?), 0);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K> ExactSizeIterator for Iter<'_, K> {}
impl<K> FusedIterator for Iter<'_, K> {}

/// The objects of a [`Snapshot`].
pub struct IntoIter<K> {
    chunks: vec::IntoIter<Arc<Chunk<K>>>,
    chunk: Option<Arc<Chunk<K>>>,
    slot: usize,
    left: usize,
}

impl<K> Iterator for IntoIter<K> {
    type Item = Cached<K>;

    fn next(&mut self) -> Option<Cached<K>> {
        loop {
            if let Some(chunk) = &self.chunk {
                while self.slot < CHUNK {
                    self.slot += 1;
                    if let Some(object) = chunk.get(self.slot - 1) {
                        self.left = self.left.saturating_sub(1);
                        return Some(object.clone());
                    }
                }
            }
            self.chunk = None;
            (self.chunk, self.slot) = (Some(self.chunks.next()?), 0);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K> ExactSizeIterator for IntoIter<K> {}
impl<K> FusedIterator for IntoIter<K> {}
