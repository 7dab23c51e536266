//! One state of an object, as users of the cache see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_wire::{FieldPath, Json, Metadata, Value};

use crate::object::body::Corrupt;
use crate::object::body::{Body, Entry, lock};
use crate::object::decode::{decode, decode_error, encode};
use crate::{DecodeError, ObjectKey, StorageMode};

/// A type that a cache can store: any type that can be read from JSON and written to it.
pub trait Object: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Object for K {}

/// One state of an object in the cache.
///
/// Its metadata is decoded on arrival. Its body is bytes that are decoded on demand: the whole
/// object with [`get`](Self::get), the fields of a smaller type with [`view`](Self::view), one
/// field with [`read`](Self::read). Clones share everything.
///
/// **Guarantees.** A state never changes. [`get`](Self::get) does not decode again while a reader
/// holds the result, or while the result is in the storage's memo (test
/// `a_state_is_decoded_once_and_shared`).
pub struct Cached<K>(pub(crate) Arc<Entry<K>>);

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for Cached<K> {
    /// Key and version, without any content: it may be a Secret.
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

    /// Whether both are states of the same object: the same namespace, name and uid.
    pub fn is_same_object(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.meta(), other.meta());
        ours.name() == theirs.name() && ours.namespace() == theirs.namespace() && ours.uid() == theirs.uid()
    }

    /// Whether both are the same state of the same object. Without a version, only clones are.
    pub fn is_same_state(&self, other: &Self) -> bool {
        let version = self.meta().resource_version();
        let same_version = !version.is_empty() && version == other.meta().resource_version();
        Arc::ptr_eq(&self.0, &other.0) || same_version && self.is_same_object(other)
    }

    /// Its address. No other state has the same one while this is held.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether decoding on arrival was required and failed, which was reported then.
    pub(crate) fn failed_eager_decode(&self) -> bool {
        self.0.storage.mode() == StorageMode::Decoded && matches!(self.0.body, Body::Bytes { .. })
    }

    fn error(&self, wanted: &'static str, line: usize, column: usize) -> DecodeError {
        decode_error(self.meta(), wanted, line, column)
    }

    fn corrupt(&self, _: Corrupt) -> DecodeError {
        self.error("body that can be decompressed", 0, 0)
    }
}

impl<K: Object> Cached<K> {
    /// The whole object. The error names an object that does not fit `K`, or for which the code of
    /// `K` panicked. Other objects are not affected.
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
        self.0.storage.memo.insert(&self.0, &object, length);
        Ok(object)
    }

    /// Calls `f` with the whole object. Cheaper than [`get`](Self::get) for a decoded object: it
    /// does not count a reference.
    pub fn with<R>(&self, f: impl FnOnce(&K) -> R) -> Result<R, DecodeError> {
        match &self.0.body {
            Body::Decoded(object) => Ok(f(object)),
            Body::Bytes { memoized, used, .. } => {
                // Counts no reference: for frequently read objects, that takes most of the time.
                if let Some(object) = &*memoized.load() {
                    set(used);
                    return Ok(f(object));
                }
                self.get().map(|object| f(&object))
            }
        }
    }

    /// Decodes the object as `V`. A struct with a few fields is much faster than the whole object.
    pub fn view<V: DeserializeOwned>(&self) -> Result<V, DecodeError> {
        self.0.storage.count_view();
        self.with_bytes(|bytes| decode(self.meta(), bytes))?
    }

    /// One field; `None` if it does not exist. Strings and numbers are returned as they are, any
    /// other value as JSON.
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

    /// The stored object as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, DecodeError> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// Calls `f` with the object as JSON. Other readers of the body wait.
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        if let Body::Decoded(object) = &self.0.body {
            return Ok(f(&encode(self.meta(), &**object)?));
        }
        self.0.with_json(f).unwrap_or(Err(Corrupt)).map_err(|corrupt| self.corrupt(corrupt))
    }

    /// Calls `f` with JSON that has the field at `path` if the object has it. Other readers of the
    /// body wait.
    pub(crate) fn with_bytes_of<R>(&self, path: &FieldPath, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        let in_metadata = path.names().next().is_none_or(|name| matches!(name, "metadata" | "apiVersion" | "kind"));
        if in_metadata || matches!(self.0.body, Body::Decoded(_)) {
            return self.with_bytes(f);
        }
        // The remainder has the field. Indexes read a field of every object, so this path matters.
        let read = |remainder: &[u8]| Json.rest(remainder).map(f).ok_or(Corrupt);
        self.0.with_remainder(read).unwrap_or(Err(Corrupt)).flatten().map_err(|corrupt| self.corrupt(corrupt))
    }
}

/// Sets a flag. Usually it is set, and a load leaves the cache line shared.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::Value as Json;

    use super::*;
    use crate::object::body::Entry;
    use crate::{Storage, StorageOptions};

    fn has_weak_reference(object: &Cached<Json>) -> bool {
        !object.0.bytes().expect("bytes").decoded.ptr_eq(&Weak::new())
    }

    #[test]
    fn a_decoded_object_leaves_no_memory_behind() {
        // A memo of this size keeps no object that is read once.
        let storage = Storage::<Json>::new(StorageOptions { memo_bytes_max: 1024, ..Default::default() });
        let object = |index| format!(r#"{{"kind":"A","metadata":{{"name":"a{index}"}}}}"#);
        let objects: Vec<_> =
            (0..1000).map(|index| storage.store(object(index).as_bytes(), None).expect("it is stored")).collect();
        let held = objects[7].get().expect("it decodes");
        objects.iter().for_each(|object| drop(object.get().expect("it decodes")));
        let left = objects.iter().filter(|object| has_weak_reference(object)).count();
        assert!(left < 50, "{left} released objects still take memory");
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
            (0..400).map(|index| storage.store(object(index).as_bytes(), None).expect("it is stored")).collect();
        storage.shared().compression.as_ref().expect("it compresses").wait_until_trained();
        {
            let mut bytes = objects[3].0.bytes().expect("bytes");
            assert!(bytes.is_compressed());
            bytes.data[0] ^= 1;
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
