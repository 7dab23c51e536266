//! An object as the cache keeps it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_wire::{Codec, Fault, FieldPath, Json, Metadata, ObjectError, Value};

use crate::storage::Shared;
use crate::{DecodeError, ObjectKey};

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

pub(crate) struct Entry<K> {
    pub(crate) metadata: Metadata,
    pub(crate) storage: Arc<Shared<K>>,
    pub(crate) body: Mutex<Body<K>>,
}

/// The body in one of the forms of [`StorageMode`](crate::StorageMode).
pub(crate) enum Body<K> {
    Encoded {
        bytes: Box<[u8]>,
        decoded: Weak<K>,
        /// Whether somebody has asked since the memo last looked.
        used: bool,
    },
    Decoded(Arc<K>),
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

    /// Whether both are the same state of the same object.
    pub fn is_same_state(&self, other: &Self) -> bool {
        let same_version = self.meta().resource_version() == other.meta().resource_version();
        Arc::ptr_eq(&self.0, &other.0) || same_version && self.is_same_object(other)
    }

    /// Where it is in memory: as long as it is held, no other state has that.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn error(&self, wanted: &'static str, line: usize, column: usize) -> DecodeError {
        DecodeError {
            kind: self.meta().kind().to_owned(),
            key: self.key(),
            resource_version: self.meta().resource_version().to_owned(),
            wanted,
            line,
            column,
        }
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, DecodeError> {
        Json.decode(bytes).map_err(|error: ObjectError| {
            let (line, column) = match error.fault {
                Fault::Decode { line, column, .. } => (line, column),
                _ => (0, 0),
            };
            self.error(std::any::type_name::<T>(), line, column)
        })
    }
}

impl<K: Object> Cached<K> {
    /// The whole object. An error says which one does not fit `K`, and harms nobody else.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        let (object, length) = {
            let mut body = self.0.body.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *body {
                Body::Decoded(object) => return Ok(Arc::clone(object)),
                Body::Encoded { bytes, decoded, used } => {
                    if let Some(object) = decoded.upgrade() {
                        *used = true;
                        return Ok(object);
                    }
                    self.0.storage.count_decode();
                    let object = Arc::new(self.decode(bytes)?);
                    *decoded = Arc::downgrade(&object);
                    (object, bytes.len())
                }
            }
        };
        self.0.storage.memo.keep(&self.0, &object, length);
        Ok(object)
    }

    /// The fields of the object that `V` has: a struct with a few fields is read much faster than the whole.
    pub fn view<V: DeserializeOwned>(&self) -> Result<V, DecodeError> {
        self.0.storage.count_view();
        self.with_bytes(|bytes| self.decode(bytes))?
    }

    /// One field; `None` if it is not there. Texts and numbers are given as they are, anything else as JSON.
    pub fn read(&self, path: &FieldPath) -> Result<Option<String>, DecodeError> {
        self.with_bytes(|bytes| {
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
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, DecodeError> {
        let body = self.0.body.lock().unwrap_or_else(PoisonError::into_inner);
        match &*body {
            Body::Encoded { bytes, .. } => Ok(f(bytes)),
            Body::Decoded(object) => {
                let bytes = serde_json::to_vec(&**object)
                    .map_err(|error| self.error(std::any::type_name::<K>(), error.line(), error.column()))?;
                Ok(f(&bytes))
            }
        }
    }
}
