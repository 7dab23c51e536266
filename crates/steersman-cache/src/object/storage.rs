//! Stores the objects of a kind in one form.

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use steersman_wire::{Json, Metadata, ObjectError, ObjectFault, RawItem, Scanned, SharedTexts, Strip, TypeMeta};

use crate::DecodeError;
use crate::object::body::{Body, Bytes, Entry};
use crate::object::cached::{Cached, Object};
use crate::object::compressed::Compression;
use crate::object::decode::{decode, encode};
use crate::object::memo::Memo;
use crate::object::memory;

/// The form of stored bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StorageMode {
    /// As bytes, decoded on demand. Frequently read objects stay decoded.
    #[default]
    Encoded,
    /// Decoded on arrival. Reading is free, memory is a multiple, and every event costs a decoding.
    /// An object that does not decode is reported and stored as bytes.
    Decoded,
    /// As bytes, compressed with a dictionary that is trained on the kind's own objects once there
    /// are some hundred of them. Until then, and for objects that do not shrink, as in `Encoded`. A
    /// Pod takes about a tenth of its bytes. Storing one takes some microseconds more, and reading
    /// one a few. A dictionary takes about half a megabyte. Programs should also call
    /// [`release_freed_memory`](crate::release_freed_memory).
    ///
    /// Needs the feature `compression`, which builds zstd from C.
    #[cfg(feature = "compression")]
    Compressed,
}

/// Changes an object before it is stored.
pub type Transform<K> = dyn Fn(&mut K) + Send + Sync;

/// How the objects of a kind are stored.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{StorageMode, StorageOptions};
///
/// let options = StorageOptions { mode: StorageMode::Decoded, ..StorageOptions::default() };
/// let options = options.transform(|pod: &mut Pod| pod.metadata.annotations = None);
/// # assert!(options.transform.is_some());
/// ```
pub struct StorageOptions<K> {
    /// The form of bodies.
    pub mode: StorageMode,
    /// The fields that are removed from every object. Default: `metadata.managedFields`.
    pub strip: Strip,
    /// Encoded size, in bytes, of the objects that stay decoded. Decoded, they take about five to
    /// ten times that. Default: 2 MiB.
    pub memo_bytes_max: usize,
    /// Changes every object before it is stored: see [`transform`](Self::transform()).
    pub transform: Option<Arc<Transform<K>>>,
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
    /// Changes every object before it is stored.
    ///
    /// The object is decoded and encoded again, which costs time with every event and drops the
    /// fields that `K` does not have. To remove fields by path, use `strip` instead. The transform
    /// must not change name, namespace, uid and resourceVersion: such an object is rejected.
    ///
    /// An object that does not decode, or whose transform panics, is rejected too: what the
    /// transform would have removed must not be stored. An informer reports it by its key and skips
    /// it. The cache keeps the last transformed state, or has no state until one can be transformed
    /// (test `an_object_that_cannot_be_transformed_is_not_kept_as_it_came`).
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Whether both store objects in the same way. Of transforms, only clones are equal.
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

/// Stores objects of one kind, all in the same form.
pub struct Storage<K> {
    shared: Arc<Shared<K>>,
}

/// Shared by all objects of a storage.
pub(crate) struct Shared<K> {
    options: StorageOptions<K>,
    pub(crate) memo: Memo<K>,
    /// Metadata texts that several objects share.
    texts: SharedTexts,
    /// In the mode `StorageMode::Compressed`.
    pub(crate) compression: Option<Compression<K>>,
    pub(crate) gauges: Gauges,
    decodes: AtomicU64,
    decode_errors: AtomicU64,
    views: AtomicU64,
}

/// A stored object.
pub(crate) struct Stored<K> {
    pub(crate) object: Cached<K>,
    /// Set if decoding on arrival was required and failed.
    pub(crate) decode_error: Option<Box<ObjectError>>,
}

/// Current numbers of a storage.
#[derive(Default)]
pub(crate) struct Gauges {
    objects: AtomicUsize,
    body_bytes: AtomicUsize,
    compressed_objects: AtomicUsize,
}

impl Gauges {
    /// Counts a state. `bytes` is its body, if that is encoded.
    fn add<K>(&self, bytes: Option<&Bytes<K>>) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        let Some(bytes) = bytes else { return };
        self.body_bytes.fetch_add(bytes.data_len(), Ordering::Relaxed);
        self.compressed_objects.fetch_add(bytes.is_compressed().into(), Ordering::Relaxed);
    }

    /// Subtracts a state that was dropped.
    pub(crate) fn remove<K>(&self, bytes: Option<&Bytes<K>>) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
        let Some(bytes) = bytes else { return };
        self.body_bytes.fetch_sub(bytes.data_len(), Ordering::Relaxed);
        self.compressed_objects.fetch_sub(bytes.is_compressed().into(), Ordering::Relaxed);
    }

    /// Records that a stored state was compressed, perhaps for the second time.
    #[cfg(feature = "compression")]
    pub(crate) fn compress(&self, before: usize, after: usize, again: bool) {
        self.body_bytes.fetch_sub(before - after, Ordering::Relaxed);
        self.compressed_objects.fetch_add((!again).into(), Ordering::Relaxed);
    }
}

impl<K> Shared<K> {
    pub(crate) fn mode(&self) -> StorageMode {
        self.options.mode
    }

    pub(crate) fn count_decode(&self) {
        self.decodes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_decode_error(&self) {
        self.decode_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_view(&self) {
        self.views.fetch_add(1, Ordering::Relaxed);
    }
}

/// Metrics of a [`Storage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageMetrics {
    /// `cache_decodes_total`: number of times a whole object was decoded.
    pub decodes_total: u64,
    /// Number of failed decodings: the object did not fit its type, or the type's own code
    /// panicked.
    pub decode_errors_total: u64,
    /// Number of times some fields were decoded with [`Cached::view`].
    pub views_total: u64,
    /// Number of frequently read objects that stay decoded.
    pub memo_objects: usize,
    /// Size of their encoded forms in bytes.
    pub memo_bytes: usize,
    /// Number of states in memory, in a cache or elsewhere.
    pub objects: usize,
    /// Size of their stored bodies in bytes, except decoded ones. A body does not contain what the
    /// object's metadata holds.
    pub body_bytes: usize,
    /// Number of compressed states.
    pub compressed_objects: usize,
    /// The dictionary for new objects: the first one is 1, and 0 means none.
    pub dictionary_version: u64,
    /// Number of dictionaries in use. An old one is freed with the last object that needs it.
    pub dictionaries: usize,
    /// Their memory in bytes.
    pub dictionary_bytes: usize,
    /// Whether a training runs, or compresses the objects that waited for it.
    pub dictionary_training: bool,
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
        Self::with_memo(options, memo)
    }

    pub(crate) fn with_memo(options: StorageOptions<K>, memo: Memo<K>) -> Self {
        let shared = Shared {
            memo,
            texts: SharedTexts::new(),
            compression: Compression::for_mode(options.mode),
            gauges: Gauges::default(),
            decodes: AtomicU64::new(0),
            decode_errors: AtomicU64::new(0),
            views: AtomicU64::new(0),
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Stores an item of a list. `type_meta` is its type if it does not name its own.
    pub fn store_item(&self, item: &RawItem, type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        self.store_item_reporting(item, type_meta).map(|stored| stored.object)
    }

    /// As [`store_item`](Self::store_item), with the error of an object that did not decode.
    pub(crate) fn store_item_reporting(
        &self,
        item: &RawItem,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Stored<K>, ObjectError> {
        memory::reserve(item.size());
        let strip = &self.shared.options.strip;
        let scanned = if self.needs_whole_object() {
            Json.scan_item(item, strip, type_meta)
        } else {
            Json.scan_item_remainder(item, strip, type_meta)
        };
        self.store_scanned(scanned?)
    }

    /// Stores an object from its JSON.
    pub fn store(&self, object: &[u8], type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        let strip = &self.shared.options.strip;
        let scanned = if self.needs_whole_object() {
            Json.scan(object, strip, type_meta)
        } else {
            Json.scan_remainder(object, strip, type_meta)
        };
        self.store_scanned(scanned?).map(|stored| stored.object)
    }

    /// Whether objects are decoded before they are stored.
    fn needs_whole_object(&self) -> bool {
        let StorageOptions { mode, transform, .. } = &self.shared.options;
        *mode == StorageMode::Decoded || transform.is_some()
    }

    pub(crate) fn options(&self) -> &StorageOptions<K> {
        &self.shared.options
    }

    /// Its metrics.
    pub fn metrics(&self) -> StorageMetrics {
        let shared = &self.shared;
        let (memo_objects, memo_bytes) = shared.memo.size();
        let compression = shared.compression.as_ref().map(Compression::metrics).unwrap_or_default();
        StorageMetrics {
            decodes_total: shared.decodes.load(Ordering::Relaxed),
            decode_errors_total: shared.decode_errors.load(Ordering::Relaxed),
            views_total: shared.views.load(Ordering::Relaxed),
            memo_objects,
            memo_bytes,
            objects: shared.gauges.objects.load(Ordering::Relaxed),
            body_bytes: shared.gauges.body_bytes.load(Ordering::Relaxed),
            compressed_objects: shared.gauges.compressed_objects.load(Ordering::Relaxed),
            dictionary_version: compression.dictionary_version,
            dictionaries: compression.dictionaries,
            dictionary_bytes: compression.dictionary_bytes,
            dictionary_training: compression.training,
        }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared<K>> {
        &self.shared
    }

    /// Stores an object or a remainder. A whole object is its own remainder.
    fn store_scanned(&self, mut scanned: Scanned) -> Result<Stored<K>, ObjectError> {
        if scanned.metadata.name().is_empty() {
            return Err(ObjectFault::WrongType { field: "metadata.name", expected: "a name" }.into());
        }
        if let Some(transform) = &self.shared.options.transform {
            scanned = self.transformed(&**transform, &scanned)?;
        }
        let Scanned { metadata, object } = scanned;
        let metadata = metadata.share(&self.shared.texts);
        let mut decode_error = None;
        let entry = match &self.shared.compression {
            Some(compression) => self.store_compressed(compression, metadata, exact(object)),
            None if self.shared.options.mode == StorageMode::Decoded => {
                // An object that does not decode is stored as bytes, and reading it returns the
                // error.
                let body = self.decode(&metadata, &object).map_or_else(
                    |error| {
                        decode_error = Some(Box::new(error.into_object_error()));
                        encoded(object)
                    },
                    |object| Body::Decoded(Arc::new(object)),
                );
                self.entry(metadata, body)
            }
            None => self.entry(metadata, encoded(object)),
        };
        Ok(Stored { object: Cached(entry), decode_error })
    }

    fn entry(&self, metadata: Metadata, body: Body<K>) -> Arc<Entry<K>> {
        let entry = Arc::new(Entry { metadata, storage: Arc::clone(&self.shared), body });
        self.shared.gauges.add(entry.bytes().as_deref());
        entry
    }

    fn decode(&self, metadata: &Metadata, object: &[u8]) -> Result<K, DecodeError> {
        self.shared.count_decode();
        decode(metadata, object).inspect_err(|_| self.shared.count_decode_error())
    }

    fn store_compressed(&self, compression: &Compression<K>, metadata: Metadata, data: Box<[u8]>) -> Arc<Entry<K>> {
        let dictionary = compression.dictionary();
        let before = data.len();
        let entry = self.entry(metadata, Body::new(data, dictionary.as_ref()));
        match dictionary {
            Some(_) => compression.record(&entry, before),
            None => compression.wait_for_dictionary(&entry),
        }
        entry
    }

    /// The object after the transform. An object that cannot be transformed is not stored, because
    /// what the transform removes must not be stored.
    fn transformed(&self, transform: &Transform<K>, scanned: &Scanned) -> Result<Scanned, ObjectError> {
        let before = &scanned.metadata;
        let mut object = self.decode(before, &scanned.object).map_err(DecodeError::into_object_error)?;
        if catch_unwind(AssertUnwindSafe(|| transform(&mut object))).is_err() {
            let fault = ObjectFault::Decode { message: "its transform panicked".to_owned(), line: 0, column: 0 };
            return Err(ObjectError { index: None, key: Some(before.key()), fault });
        }
        let bytes = encode(before, &object).map_err(DecodeError::into_object_error)?;
        let type_meta = TypeMeta { api_version: before.api_version().to_owned(), kind: before.kind().to_owned() };
        let (strip, type_meta) = (&self.shared.options.strip, Some(&type_meta));
        let transformed = match self.shared.options.mode {
            StorageMode::Decoded => Json.scan(&bytes, strip, type_meta),
            _ => Json.scan_remainder(&bytes, strip, type_meta),
        };
        let transformed = transformed.map_err(|error| ObjectError { key: Some(before.key()), ..error })?;
        check_identity(before, &transformed.metadata)?;
        Ok(transformed)
    }
}

/// A transform must not change the fields that identify an object and its state.
fn check_identity(before: &Metadata, after: &Metadata) -> Result<(), ObjectError> {
    let same = [
        ("metadata.name", before.name() == after.name()),
        ("metadata.namespace", before.namespace() == after.namespace()),
        ("metadata.uid", before.uid() == after.uid()),
        ("metadata.resourceVersion", before.resource_version() == after.resource_version()),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        None => Ok(()),
        Some((field, _)) => Err(ObjectError {
            index: None,
            key: Some(before.key()),
            fault: ObjectFault::WrongType { field, expected: "what it was before the transform" },
        }),
    }
}

fn encoded<K>(object: bytes::Bytes) -> Body<K> {
    Body::new(exact(object), None)
}

/// The bytes in an allocation of exactly their size.
fn exact(object: bytes::Bytes) -> Box<[u8]> {
    Vec::from(object).into_boxed_slice()
}
