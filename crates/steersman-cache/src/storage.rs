//! In which form objects of a kind are kept.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use steersman_wire::{Codec, Fault, Item, Json, ObjectError, Scanned, Strip, TypeMeta};

use crate::cached::{Body, Cached, Entry, Object};
use crate::memo::Memo;

/// In which form the bodies of objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StorageMode {
    /// As bytes, decoded when asked for; the last ones that were decoded are kept for a while.
    #[default]
    Encoded,
    /// Decoded on arrival. Reading is free; memory is a multiple, and every event pays for decoding.
    Decoded,
}

/// Changes an object before it is kept.
type Transform<K> = dyn Fn(&mut K) + Send + Sync;

/// How objects of a kind are kept.
pub struct StorageOptions<K> {
    /// In which form.
    pub mode: StorageMode,
    /// What is left out of every object: `metadata.managedFields` unless said otherwise.
    pub strip: Strip,
    /// How many bytes of encoded objects may be kept decoded as well. Decoded, they take about five to ten times that.
    pub memo_bytes_max: usize,
    transform: Option<Arc<Transform<K>>>,
}

impl<K> Clone for StorageOptions<K> {
    fn clone(&self) -> Self {
        Self { strip: self.strip.clone(), transform: self.transform.clone(), ..*self }
    }
}

impl<K> Default for StorageOptions<K> {
    fn default() -> Self {
        Self { mode: StorageMode::default(), strip: Strip::default(), memo_bytes_max: 2 << 20, transform: None }
    }
}

impl<K> fmt::Debug for StorageOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageOptions")
            .field("mode", &self.mode)
            .field("strip", &self.strip)
            .field("memo_bytes_max", &self.memo_bytes_max)
            .field("transform", &self.transform.is_some())
            .finish()
    }
}

impl<K> StorageOptions<K> {
    /// Changes every object before it is kept. It is decoded and encoded again for that, which costs time with every event and
    /// drops the fields that `K` does not know: where paths to leave out are enough, use `strip`.
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Whether both keep objects in the same way, as far as can be told: of transforms only that a clone is the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_transform = match (&self.transform, &other.transform) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        };
        same_transform
            && self.mode == other.mode
            && self.strip == other.strip
            && self.memo_bytes_max == other.memo_bytes_max
    }
}

/// Makes [`Cached`] objects of one kind out of bytes, all kept in the same form.
pub struct Storage<K> {
    shared: Arc<Shared<K>>,
}

/// What all objects of a storage have in common.
pub(crate) struct Shared<K> {
    options: StorageOptions<K>,
    pub(crate) memo: Memo<K>,
    decodes: AtomicU64,
    views: AtomicU64,
}

impl<K> Shared<K> {
    pub(crate) fn count_decode(&self) {
        self.decodes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_view(&self) {
        self.views.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a storage has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageMetrics {
    /// `cache_decodes_total`: how many times a whole object was decoded.
    pub decodes_total: u64,
    /// How many times some fields were decoded with [`Cached::view`].
    pub views_total: u64,
    /// How many decoded objects are kept for a while.
    pub memo_objects: usize,
    /// How many bytes their encoded forms have.
    pub memo_bytes: usize,
}

impl<K> Clone for Storage<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for Storage<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl<K: Object> Default for Storage<K> {
    fn default() -> Self {
        Self::new(StorageOptions::default())
    }
}

impl<K: Object> Storage<K> {
    /// A storage with these options.
    pub fn new(options: StorageOptions<K>) -> Self {
        let memo = Memo::new(options.memo_bytes_max);
        Self { shared: Arc::new(Shared { options, memo, decodes: AtomicU64::new(0), views: AtomicU64::new(0) }) }
    }

    /// Keeps an item of a list. Where it does not say its own type, `type_meta` is filled in.
    pub fn store_item(&self, item: &Item, type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        self.keep(Json.scan_item(item, &self.shared.options.strip, type_meta)?)
    }

    /// Keeps an object given as JSON.
    pub fn store(&self, object: &[u8], type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        self.keep(Json.scan(object, &self.shared.options.strip, type_meta)?)
    }

    pub(crate) fn options(&self) -> &StorageOptions<K> {
        &self.shared.options
    }

    /// What it has done so far.
    pub fn metrics(&self) -> StorageMetrics {
        let (memo_objects, memo_bytes) = self.shared.memo.size();
        StorageMetrics {
            decodes_total: self.shared.decodes.load(Ordering::Relaxed),
            views_total: self.shared.views.load(Ordering::Relaxed),
            memo_objects,
            memo_bytes,
        }
    }

    fn keep(&self, mut scanned: Scanned) -> Result<Cached<K>, ObjectError> {
        if scanned.metadata.name().is_empty() {
            return Err(Fault::WrongType { field: "metadata.name", expected: "a name" }.into());
        }
        if let Some(transform) = &self.shared.options.transform {
            scanned = self.transformed(&**transform, scanned)?;
        }
        let body = match self.shared.options.mode {
            StorageMode::Encoded => encoded(scanned.object),
            StorageMode::Decoded => {
                self.shared.count_decode();
                // One that does not fit stays as it came, and its readers are told.
                Json.decode(&scanned.object)
                    .map_or_else(|_| encoded(scanned.object), |object| Body::Decoded(Arc::new(object)))
            }
        };
        let (metadata, storage) = (scanned.metadata, Arc::clone(&self.shared));
        Ok(Cached(Arc::new(Entry { metadata, storage, body: Mutex::new(body) })))
    }

    /// The object after the transform. One that does not decode is kept as it came: its readers are told.
    fn transformed(&self, transform: &Transform<K>, scanned: Scanned) -> Result<Scanned, ObjectError> {
        self.shared.count_decode();
        let Ok(mut object) = Json.decode::<K>(&scanned.object) else { return Ok(scanned) };
        if catch_unwind(AssertUnwindSafe(|| transform(&mut object))).is_err() {
            let fault = Fault::Decode { message: "its transform panicked".to_owned(), line: 0, column: 0 };
            return Err(ObjectError { index: None, key: Some(scanned.metadata.key()), fault });
        }
        let Ok(bytes) = serde_json::to_vec(&object) else { return Ok(scanned) };
        let type_meta = TypeMeta {
            api_version: scanned.metadata.api_version().to_owned(),
            kind: scanned.metadata.kind().to_owned(),
        };
        Json.scan(&bytes, &self.shared.options.strip, Some(&type_meta))
    }
}

fn encoded<K>(object: bytes::Bytes) -> Body<K> {
    Body::Encoded { bytes: Vec::from(object).into_boxed_slice(), decoded: Weak::new(), used: false }
}
