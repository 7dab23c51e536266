//! An object as the cache keeps it.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_wire::{Fault, FieldPath, Json, Metadata, Value};

use crate::object::compressed::{Corrupt, Dictionary};
use crate::object::storage::Shared;
use crate::{DecodeError, ObjectKey, StorageMode};

/// What can be kept in a cache: anything that can be read from JSON and written to it.
pub trait Object: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Object for K {}

/// One state of an object, as the cache keeps it.
///
/// Its metadata has been read, and costs nothing to look at. Its body is bytes until somebody asks for it: all of it with
/// [`get`](Self::get), the fields of a smaller type with [`view`](Self::view), one field with [`read`](Self::read). Clones share
/// everything.
///
/// **What is promised.** A state never changes. [`get`](Self::get) decodes at most once for all who hold the result at the same time,
/// and as long as the result is in the storage's memo (test `a_state_is_decoded_once_and_shared`).
pub struct Cached<K>(pub(crate) Arc<Entry<K>>);

/// There is one for every object of a cache, so it is small (test `an_entry_is_small`).
pub(crate) struct Entry<K> {
    pub(crate) metadata: Metadata,
    pub(crate) storage: Arc<Shared<K>>,
    pub(crate) body: Body<K>,
}

/// The body in one of the forms of [`StorageMode`](crate::StorageMode).
pub(crate) enum Body<K> {
    /// Decoded when somebody asks for it. The fields are here, and not in a struct of their own, because they fit beside the tag.
    Bytes {
        bytes: Mutex<Bytes<K>>,
        /// Decoded, as long as the memo keeps it.
        memoized: ArcSwapOption<K>,
        /// How long the remainder is.
        length: u32,
        /// Whether somebody has asked since the memo last looked.
        used: AtomicBool,
        /// When it was last decoded, by the clock of the memo; zero means never.
        decoded_at: AtomicU16,
    },
    Decoded(Arc<K>),
}

pub(crate) struct Bytes<K> {
    /// The object's remainder ([`Json::scan_remainder`]) or all of its JSON, compressed if there is a dictionary. What the entry's
    /// metadata holds is not kept twice.
    kept: Box<[u8]>,
    dictionary: Option<Arc<Dictionary>>,
    decoded: Weak<K>,
}

impl<K> Body<K> {
    /// Compressed if there is a dictionary.
    pub(crate) fn new(remainder: Box<[u8]>, dictionary: Option<&Arc<Dictionary>>) -> Self {
        // What is too long to tell is not compressed: see `Bytes::compress`.
        let length = u32::try_from(remainder.len()).unwrap_or(u32::MAX);
        let mut bytes = Bytes { kept: remainder, dictionary: None, decoded: Weak::new() };
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
    /// Compresses what is not compressed yet, or with a makeshift only, unless that gains nothing. Whether it has been.
    fn compress(&mut self, dictionary: &Arc<Dictionary>, length: u32) -> bool {
        let settled = self.dictionary.as_ref().is_some_and(|dictionary| !dictionary.is_makeshift());
        if settled || length == u32::MAX {
            return false;
        }
        let compressed = self.remainder(length).ok().and_then(|remainder| dictionary.compress(&remainder));
        let Some(compressed) = compressed.filter(|compressed| compressed.len() < self.kept.len()) else { return false };
        self.kept = compressed;
        self.dictionary = Some(Arc::clone(dictionary));
        true
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.dictionary.is_some()
    }

    /// How many bytes are kept.
    pub(crate) fn kept_len(&self) -> usize {
        self.kept.len()
    }

    fn remainder(&self, length: u32) -> Result<Cow<'_, [u8]>, Corrupt> {
        match &self.dictionary {
            None => Ok(Cow::Borrowed(&*self.kept)),
            Some(dictionary) => dictionary.decompress(&self.kept, length as usize).map(Cow::Owned),
        }
    }

    /// The whole object, with what `metadata` holds of it.
    fn json(&self, length: u32, metadata: &Metadata) -> Result<Cow<'_, [u8]>, Corrupt> {
        match self.remainder(length)? {
            Cow::Borrowed(remainder) => Json.restore(remainder, metadata).ok_or(Corrupt),
            Cow::Owned(remainder) => {
                Json.restore(&remainder, metadata).ok_or(Corrupt).map(|json| Cow::Owned(json.into_owned()))
            }
        }
    }
}

impl<K> Entry<K> {
    /// The bytes, if that is what is kept. A panic of somebody's decoder has changed nothing in them.
    pub(crate) fn bytes(&self) -> Option<MutexGuard<'_, Bytes<K>>> {
        match &self.body {
            Body::Bytes { bytes, .. } => Some(lock(bytes)),
            Body::Decoded(_) => None,
        }
    }

    /// Compresses the bytes, if that is what is kept and they are not compressed for good.
    pub(crate) fn compress(&self, dictionary: &Arc<Dictionary>) {
        let Body::Bytes { bytes, length, .. } = &self.body else { return };
        let mut bytes = lock(bytes);
        let (before, was_compressed) = (bytes.kept_len(), bytes.is_compressed());
        if bytes.compress(dictionary, *length) {
            self.storage.gauges.compressed(before, bytes.kept_len(), was_compressed);
        }
    }

    /// Calls `f` with the JSON, if bytes are what is kept and they can be decompressed. Others who want the body wait meanwhile.
    fn with_json<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Option<Result<R, Corrupt>> {
        match &self.body {
            Body::Bytes { bytes, length, .. } => Some(lock(bytes).json(*length, &self.metadata).map(|json| f(&json))),
            Body::Decoded(_) => None,
        }
    }

    /// The same with the remainder: for those who compress it, and for nobody who wants to know what is in the object.
    pub(crate) fn with_remainder<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Option<Result<R, Corrupt>> {
        match &self.body {
            Body::Bytes { bytes, length, .. } => Some(lock(bytes).remainder(*length).map(|remainder| f(&remainder))),
            Body::Decoded(_) => None,
        }
    }

    /// Forgets the decoded object, whose memory goes with that, unless somebody holds it.
    pub(crate) fn let_go(&self) -> bool {
        self.bytes().is_none_or(|mut bytes| {
            let is_held = bytes.decoded.strong_count() > 0;
            if !is_held {
                bytes.decoded = Weak::new();
            }
            !is_held
        })
    }

    /// The decoded object that the memo keeps from now on.
    pub(crate) fn set_memoized(&self, object: Option<Arc<K>>) {
        if let Body::Bytes { memoized, .. } = &self.body {
            memoized.store(object);
        }
    }

    /// Notes that the object is decoded now, and tells when it was the last time.
    pub(crate) fn decoded_at(&self, now: u16) -> Option<u16> {
        match &self.body {
            Body::Bytes { decoded_at, .. } => {
                Some(decoded_at.swap(now, Ordering::Relaxed)).filter(|before| *before > 0)
            }
            Body::Decoded(_) => None,
        }
    }

    /// Whether the object has been asked for since the last time this was asked.
    pub(crate) fn take_used(&self) -> bool {
        match &self.body {
            Body::Bytes { used, .. } => used.swap(false, Ordering::Relaxed),
            Body::Decoded(_) => false,
        }
    }
}

/// Most of the time it is set, and a look leaves it with the other processors.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

fn lock<K>(bytes: &Mutex<Bytes<K>>) -> MutexGuard<'_, Bytes<K>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K> Drop for Entry<K> {
    fn drop(&mut self) {
        self.storage.gauges.gone(self.bytes().as_deref());
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for Cached<K> {
    /// Which state it is, and nothing of what is in it: it may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.meta().key(), self.meta().resource_version())
    }
}

impl<K> Cached<K> {
    /// Its metadata.
    pub fn meta(&self) -> &Metadata {
        &self.0.metadata
    }

    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::from(self.meta())
    }

    /// Whether both are the same object: the same namespace, name and uid.
    pub fn is_same_object(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.meta(), other.meta());
        ours.name() == theirs.name() && ours.namespace() == theirs.namespace() && ours.uid() == theirs.uid()
    }

    /// Whether both are the same state of the same object, as far as can be told: of an object without a version only a clone is.
    pub fn is_same_state(&self, other: &Self) -> bool {
        let version = self.meta().resource_version();
        let same_version = !version.is_empty() && version == other.meta().resource_version();
        Arc::ptr_eq(&self.0, &other.0) || same_version && self.is_same_object(other)
    }

    /// Where it is in memory: as long as it is held, no other state has that.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether it was to be decoded when it came and could not be, which has been reported.
    pub(crate) fn came_undecoded(&self) -> bool {
        self.0.storage.mode() == StorageMode::Decoded && matches!(self.0.body, Body::Bytes { .. })
    }

    fn error(&self, wanted: &'static str, line: usize, column: usize) -> DecodeError {
        error(self.meta(), wanted, line, column)
    }

    fn corrupt(&self, _: Corrupt) -> DecodeError {
        self.error("body that can be decompressed", 0, 0)
    }
}

fn error(meta: &Metadata, wanted: &'static str, line: usize, column: usize) -> DecodeError {
    DecodeError {
        kind: meta.kind().to_owned(),
        key: ObjectKey::from(meta),
        resource_version: meta.resource_version().to_owned(),
        wanted,
        line,
        column,
        panicked: false,
    }
}

/// Decodes the object that has this metadata. A panic of the type's own code is an error of that object like any other.
pub(crate) fn decode<T: DeserializeOwned>(meta: &Metadata, json: &[u8]) -> Result<T, DecodeError> {
    let (fault, panicked) = match catch_unwind(AssertUnwindSafe(|| Json.decode(json))) {
        Ok(Ok(object)) => return Ok(object),
        Ok(Err(error)) => (Some(error.fault), false),
        Err(_) => (None, true),
    };
    let (line, column) = match fault {
        Some(Fault::Decode { line, column, .. }) => (line, column),
        _ => (0, 0),
    };
    Err(DecodeError { panicked, ..error(meta, std::any::type_name::<T>(), line, column) })
}

/// Encodes the object that has this metadata, likewise.
pub(crate) fn encode<T: Serialize>(meta: &Metadata, object: &T) -> Result<Vec<u8>, DecodeError> {
    let (line, column, panicked) = match catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(object))) {
        Ok(Ok(json)) => return Ok(json),
        Ok(Err(error)) => (error.line(), error.column(), false),
        Err(_) => (0, 0, true),
    };
    Err(DecodeError { panicked, ..error(meta, std::any::type_name::<T>(), line, column) })
}

impl<K: Object> Cached<K> {
    /// The whole object. An error says which one does not fit `K`, or that the code of `K` panicked, and harms nobody else.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        let (bytes, length) = match &self.0.body {
            Body::Decoded(object) => return Ok(Arc::clone(object)),
            Body::Bytes { memoized, used, bytes, length, .. } => {
                if let Some(object) = memoized.load_full() {
                    set(used);
                    return Ok(object);
                }
                (bytes, *length)
            }
        };
        let mut bytes = lock(bytes);
        if let Some(object) = bytes.decoded.upgrade() {
            return Ok(object);
        }
        self.0.storage.count_decode();
        let (object, length) = {
            let json = bytes.json(length, self.meta()).map_err(|corrupt| self.corrupt(corrupt))?;
            let object = decode(self.meta(), &json).inspect_err(|_| self.0.storage.count_decode_error())?;
            (Arc::new(object), json.len())
        };
        bytes.decoded = Arc::downgrade(&object);
        drop(bytes);
        self.0.storage.memo.keep(&self.0, &object, length);
        Ok(object)
    }

    /// Looks at the whole object without taking it along: where objects are kept decoded, that is as cheap as a pointer.
    pub fn with<R>(&self, look: impl FnOnce(&K) -> R) -> Result<R, DecodeError> {
        match &self.0.body {
            Body::Decoded(object) => Ok(look(object)),
            Body::Bytes { memoized, used, .. } => {
                // Without counting one more who holds it: where the same objects are read all the time, that is most of the time it takes.
                if let Some(object) = &*memoized.load() {
                    set(used);
                    return Ok(look(object));
                }
                self.get().map(|object| look(&object))
            }
        }
    }

    /// The fields of the object that `V` has: a struct with a few fields is read much faster than the whole.
    pub fn view<V: DeserializeOwned>(&self) -> Result<V, DecodeError> {
        self.0.storage.count_view();
        self.with_bytes(|bytes| decode(self.meta(), bytes))?
    }

    /// One field; `None` if it is not there. Texts and numbers are given as they are, anything else as JSON.
    pub fn read(&self, path: &FieldPath) -> Result<Option<String>, DecodeError> {
        self.with_bytes_of(path, |bytes| {
            let value = Json.read(bytes, path).map_err(|_| self.error("JSON object", 0, 0))?;
            Ok(value.map(|value| match value {
                Value::Null => "null".to_owned(),
                Value::Bool(value) => value.to_string(),
                Value::Number(text) => text.to_owned(),
                Value::String(text) => text.into_owned(),
                Value::Raw(json) => String::from_utf8_lossy(json).into_owned(),
            }))
        })?
    }

    /// The object as it is kept, in JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, DecodeError> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// Calls `f` with the object in JSON. Others who want the body wait meanwhile.
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        if let Body::Decoded(object) = &self.0.body {
            return Ok(f(&encode(self.meta(), &**object)?));
        }
        self.0.with_json(f).unwrap_or(Err(Corrupt)).map_err(|corrupt| self.corrupt(corrupt))
    }

    /// Calls `f` with an object in JSON that has the field at `path` if this one has it. Others who want the body wait meanwhile.
    pub(crate) fn with_bytes_of<R>(&self, path: &FieldPath, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        let is_held = path.names().next().is_none_or(|name| matches!(name, "metadata" | "apiVersion" | "kind"));
        if is_held || matches!(self.0.body, Body::Decoded(_)) {
            return self.with_bytes(f);
        }
        // The remainder has it, and indexes read a field of every object.
        let read = |remainder: &[u8]| Json.rest(remainder).map(f).ok_or(Corrupt);
        self.0.with_remainder(read).unwrap_or(Err(Corrupt)).flatten().map_err(|corrupt| self.corrupt(corrupt))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::Value as Json;

    use super::*;
    use crate::{Storage, StorageMode, StorageOptions};

    fn is_weakly_held(object: &Cached<Json>) -> bool {
        !object.0.bytes().expect("bytes").decoded.ptr_eq(&Weak::new())
    }

    #[test]
    fn what_was_read_leaves_no_memory_behind() {
        // So small a memo keeps nothing that is read once.
        let storage = Storage::<Json>::new(StorageOptions { memo_bytes_max: 1024, ..Default::default() });
        let object = |index| format!(r#"{{"kind":"A","metadata":{{"name":"a{index}"}}}}"#);
        let objects: Vec<_> =
            (0..1000).map(|index| storage.store(object(index).as_bytes(), None).expect("it is kept")).collect();
        let held = objects[7].get().expect("it decodes");
        objects.iter().for_each(|object| drop(object.get().expect("it decodes")));
        let left = objects.iter().filter(|object| is_weakly_held(object)).count();
        assert!(left < 50, "{left} objects that nobody holds still take memory");
        assert!(Arc::ptr_eq(&held, &objects[7].get().expect("it decodes")), "one that is held is still shared");
    }

    #[test]
    fn an_entry_is_small() {
        let counters = 2 * size_of::<usize>();
        assert!(size_of::<Entry<Pod>>() + counters <= 112, "{}", size_of::<Entry<Pod>>() + counters);
    }

    #[test]
    fn a_corrupted_body_is_an_error_of_its_readers() {
        let storage = Storage::<Json>::new(StorageOptions { mode: StorageMode::Compressed, ..Default::default() });
        let object = |index| format!(r#"{{"kind":"A","metadata":{{"name":"a{index}"}},"text":"{}"}}"#, "é".repeat(500));
        let objects: Vec<_> =
            (0..400).map(|index| storage.store(object(index).as_bytes(), None).expect("it is kept")).collect();
        storage.shared().compression.as_ref().expect("it compresses").settle();
        {
            let mut bytes = objects[3].0.bytes().expect("bytes");
            assert!(bytes.is_compressed());
            bytes.kept[0] ^= 1;
        }
        let path = "text".parse().expect("a path");
        for error in [
            objects[3].get().expect_err("corrupt"),
            objects[3].view::<Json>().expect_err("corrupt"),
            objects[3].read(&path).expect_err("corrupt"),
        ] {
            assert_eq!((error.key.name(), error.wanted), ("a3", "body that can be decompressed"));
        }
        assert_eq!(objects[4].get().expect("it decodes").to_string(), object(4));
    }
}
