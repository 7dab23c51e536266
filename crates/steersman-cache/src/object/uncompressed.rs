//! Replaces `compressed.rs` without the feature `compression`: no storage compresses, so its types
//! have no values.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::object::body::{Corrupt, Entry};
use crate::object::storage::StorageMode;

pub(crate) enum Dictionary {}

impl Dictionary {
    pub(crate) fn is_bootstrap(&self) -> bool {
        match *self {}
    }

    pub(crate) fn compress(&self, _json: &[u8]) -> Option<Box<[u8]>> {
        match *self {}
    }

    pub(crate) fn decompress(&self, _compressed: &[u8], _length: usize) -> Result<Vec<u8>, Corrupt> {
        match *self {}
    }
}

pub(crate) struct Compression<K>(Infallible, PhantomData<fn(K)>);

/// Metrics of the dictionaries: there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompressionMetrics {
    pub(crate) dictionary_version: u64,
    pub(crate) dictionaries: usize,
    pub(crate) dictionary_bytes: usize,
    pub(crate) training: bool,
}

impl<K> Compression<K> {
    pub(crate) fn for_mode(_mode: StorageMode) -> Option<Self> {
        None
    }

    pub(crate) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        match self.0 {}
    }

    pub(crate) fn metrics(&self) -> CompressionMetrics {
        match self.0 {}
    }

    pub(crate) fn wait_for_dictionary(&self, _entry: &Arc<Entry<K>>) {
        match self.0 {}
    }

    pub(crate) fn record(&self, _entry: &Arc<Entry<K>>, _before: usize) {
        match self.0 {}
    }
}
