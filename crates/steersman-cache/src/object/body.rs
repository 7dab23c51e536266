//! The stored form of an object: its metadata, and its body as bytes or decoded.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use steersman_wire::{Json, Metadata};

use crate::object::compressed::Dictionary;
use crate::object::storage::Shared;

/// A state of an object. A cache has one per object, so it is small (test `an_entry_is_small`).
pub(crate) struct Entry<K> {
    pub(crate) metadata: Metadata,
    pub(crate) storage: Arc<Shared<K>>,
    pub(crate) body: Body<K>,
}

/// A compressed body cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// The body in one of the forms of [`StorageMode`](crate::StorageMode).
pub(crate) enum Body<K> {
    /// Decoded on demand. The fields are not in a struct of their own, because they fit beside the
    /// tag.
    Bytes {
        bytes: Mutex<Bytes<K>>,
        /// The decoded object while the memo keeps it.
        memoized: ArcSwapOption<K>,
        /// Length of the remainder.
        length: u32,
        /// Whether it was read since the memo last checked.
        used: AtomicBool,
        /// Time of the last decoding by the clock of the memo; zero means never.
        decoded_at: AtomicU16,
    },
    Decoded(Arc<K>),
}

pub(crate) struct Bytes<K> {
    /// The object's remainder ([`Json::scan_remainder`]) or all of its JSON, compressed if there is
    /// a dictionary. A remainder lacks what the entry's metadata holds.
    pub(super) data: Box<[u8]>,
    dictionary: Option<Arc<Dictionary>>,
    pub(super) decoded: Weak<K>,
}

impl<K> Body<K> {
    /// Compressed if there is a dictionary.
    pub(crate) fn new(remainder: Box<[u8]>, dictionary: Option<&Arc<Dictionary>>) -> Self {
        // `Bytes::compress` leaves longer ones uncompressed.
        let length = u32::try_from(remainder.len()).unwrap_or(u32::MAX);
        let mut bytes = Bytes { data: remainder, dictionary: None, decoded: Weak::new() };
        if let Some(dictionary) = dictionary {
            bytes.compress(dictionary, length);
        }
        Self::Bytes {
            bytes: Mutex::new(bytes),
            memoized: ArcSwapOption::empty(),
            length,
            used: AtomicBool::new(false),
            decoded_at: AtomicU16::new(0),
        }
    }
}

impl<K> Bytes<K> {
    /// Compresses the data, unless a trained dictionary has compressed it or it does not shrink.
    /// Returns whether it was compressed.
    fn compress(&mut self, dictionary: &Arc<Dictionary>, length: u32) -> bool {
        let is_final = self.dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_bootstrap());
        if is_final || length == u32::MAX {
            return false;
        }
        let compressed = self.remainder(length).ok().and_then(|remainder| dictionary.compress(&remainder));
        let Some(compressed) = compressed.filter(|compressed| compressed.len() < self.data.len()) else { return false };
        self.data = compressed;
        self.dictionary = Some(Arc::clone(dictionary));
        true
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.dictionary.is_some()
    }

    /// Length of the data.
    pub(crate) fn data_len(&self) -> usize {
        self.data.len()
    }

    fn remainder(&self, length: u32) -> Result<Cow<'_, [u8]>, Corrupt> {
        match &self.dictionary {
            None => Ok(Cow::Borrowed(&*self.data)),
            Some(dictionary) => dictionary.decompress(&self.data, length as usize).map(Cow::Owned),
        }
    }

    /// The whole object, including what `metadata` holds.
    pub(super) fn json(&self, length: u32, metadata: &Metadata) -> Result<Cow<'_, [u8]>, Corrupt> {
        match self.remainder(length)? {
            Cow::Borrowed(remainder) => Json.restore(remainder, metadata).ok_or(Corrupt),
            Cow::Owned(remainder) => {
                Json.restore(&remainder, metadata).ok_or(Corrupt).map(|json| Cow::Owned(json.into_owned()))
            }
        }
    }
}

impl<K> Entry<K> {
    /// The bytes, if the body is encoded. A panicking decoder cannot have changed them.
    pub(crate) fn bytes(&self) -> Option<MutexGuard<'_, Bytes<K>>> {
        match &self.body {
            Body::Bytes { bytes, .. } => Some(lock(bytes)),
            Body::Decoded(_) => None,
        }
    }

    /// Compresses the bytes, if the body is encoded: see [`Bytes::compress`].
    #[cfg(feature = "compression")]
    pub(crate) fn compress(&self, dictionary: &Arc<Dictionary>) {
        let Body::Bytes { bytes, length, .. } = &self.body else { return };
        let mut bytes = lock(bytes);
        let (before, was_compressed) = (bytes.data_len(), bytes.is_compressed());
        if bytes.compress(dictionary, *length) {
            self.storage.gauges.compress(before, bytes.data_len(), was_compressed);
        }
    }

    /// Calls `f` with the JSON, if the body is encoded. Other readers of the body wait.
    pub(super) fn with_json<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Option<Result<R, Corrupt>> {
        match &self.body {
            Body::Bytes { bytes, length, .. } => Some(lock(bytes).json(*length, &self.metadata).map(|json| f(&json))),
            Body::Decoded(_) => None,
        }
    }

    /// Calls `f` with the remainder, if the body is encoded. For compression and for fields outside
    /// of the metadata: the remainder is not the whole object.
    pub(crate) fn with_remainder<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Option<Result<R, Corrupt>> {
        match &self.body {
            Body::Bytes { bytes, length, .. } => Some(lock(bytes).remainder(*length).map(|remainder| f(&remainder))),
            Body::Decoded(_) => None,
        }
    }

    /// Drops the weak reference to the decoded object, which frees its memory, unless a reader
    /// holds it. Returns whether it was dropped.
    pub(crate) fn release(&self) -> bool {
        self.bytes().is_none_or(|mut bytes| {
            let is_held = bytes.decoded.strong_count() > 0;
            if !is_held {
                bytes.decoded = Weak::new();
            }
            !is_held
        })
    }

    /// Sets the decoded object that the memo keeps.
    pub(crate) fn set_memoized(&self, object: Option<Arc<K>>) {
        if let Body::Bytes { memoized, .. } = &self.body {
            memoized.store(object);
        }
    }

    /// Sets the time of the last decoding. Returns the previous one.
    pub(crate) fn set_decoded_at(&self, now: u16) -> Option<u16> {
        match &self.body {
            Body::Bytes { decoded_at, .. } => {
                Some(decoded_at.swap(now, Ordering::Relaxed)).filter(|before| *before > 0)
            }
            Body::Decoded(_) => None,
        }
    }

    /// Whether the object was read since the last call.
    pub(crate) fn take_used(&self) -> bool {
        match &self.body {
            Body::Bytes { used, .. } => used.swap(false, Ordering::Relaxed),
            Body::Decoded(_) => false,
        }
    }
}

pub(super) fn lock<K>(bytes: &Mutex<Bytes<K>>) -> MutexGuard<'_, Bytes<K>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K> Drop for Entry<K> {
    fn drop(&mut self) {
        self.storage.gauges.remove(self.bytes().as_deref());
    }
}
