//! In which form objects of a kind are kept.

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use steersman_wire::{Fault, Item, Json, Metadata, ObjectError, Scanned, SharedTexts, Strip, TypeMeta};

use crate::DecodeError;
use crate::object::cached::{Body, Bytes, Cached, Entry, Object, decode, encode};
use crate::object::compressed::Compression;
use crate::object::memo::Memo;
use crate::object::memory::make_room;

/// In which form the bodies of objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StorageMode {
    /// As bytes, decoded when asked for; those that are asked for again and again stay decoded.
    #[default]
    Encoded,
    /// Decoded on arrival. Reading is free; memory is a multiple, and every event pays for decoding. An object that does not decode is
    /// reported, and kept as bytes.
    Decoded,
    /// As bytes under a dictionary that is trained on the kind's own objects as soon as there are some hundred of them; until
    /// then, and where it gains nothing, as in `Encoded`. A Pod takes about a tenth of its bytes, storing one some
    /// microseconds more, reading one a few. A dictionary takes about half a megabyte.
    Compressed,
}

/// Changes an object before it is kept.
pub type Transform<K> = dyn Fn(&mut K) + Send + Sync;

/// How objects of a kind are kept.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{StorageMode, StorageOptions};
///
/// let options = StorageOptions { mode: StorageMode::Compressed, ..StorageOptions::default() };
/// let options = options.transform(|pod: &mut Pod| pod.metadata.annotations = None);
/// # assert!(options.transform.is_some());
/// ```
pub struct StorageOptions<K> {
    /// In which form.
    pub mode: StorageMode,
    /// What is left out of every object: `metadata.managedFields` unless said otherwise.
    pub strip: Strip,
    /// How many bytes of encoded objects may be kept decoded as well. Decoded, they take about five to ten times that.
    pub memo_bytes_max: usize,
    /// Changes every object before it is kept: see [`transform`](Self::transform()).
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
    /// Changes every object before it is kept. It is decoded and encoded again for that, which costs time with every event and
    /// drops the fields that `K` does not know: where paths to leave out are enough, use `strip`. Name, namespace, uid and
    /// resourceVersion must stay as they are: an object that comes out with others is refused.
    ///
    /// So is one that does not decode, or whose transform panics: what the transform would have removed is not kept. An informer reports
    /// it by its key and passes it over: it keeps the state that was transformed before, or is not in the cache until a state comes that
    /// can be (test `an_object_that_cannot_be_transformed_is_not_kept_as_it_came`).
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
    /// What the metadata of several objects has alike.
    texts: SharedTexts,
    /// In the mode [`StorageMode::Compressed`].
    pub(crate) compression: Option<Compression<K>>,
    pub(crate) gauges: Gauges,
    decodes: AtomicU64,
    decode_errors: AtomicU64,
    views: AtomicU64,
}

/// An object that is kept.
pub(crate) struct Kept<K> {
    pub(crate) object: Cached<K>,
    /// What was wrong, if it was to be decoded for that and could not be.
    pub(crate) undecoded: Option<Box<ObjectError>>,
}

/// What is kept at the moment.
#[derive(Default)]
pub(crate) struct Gauges {
    objects: AtomicUsize,
    body_bytes: AtomicUsize,
    compressed_objects: AtomicUsize,
}

impl Gauges {
    /// A state has come, which is kept as these bytes or else decoded.
    fn came<K>(&self, bytes: Option<&Bytes<K>>) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        let Some(bytes) = bytes else { return };
        self.body_bytes.fetch_add(bytes.kept_len(), Ordering::Relaxed);
        self.compressed_objects.fetch_add(bytes.is_compressed().into(), Ordering::Relaxed);
    }

    /// A state is no longer held by anybody.
    pub(crate) fn gone<K>(&self, bytes: Option<&Bytes<K>>) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
        let Some(bytes) = bytes else { return };
        self.body_bytes.fetch_sub(bytes.kept_len(), Ordering::Relaxed);
        self.compressed_objects.fetch_sub(bytes.is_compressed().into(), Ordering::Relaxed);
    }

    /// A state that came before is compressed now, or again.
    pub(crate) fn compressed(&self, before: usize, after: usize, again: bool) {
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

/// What a storage has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageMetrics {
    /// `cache_decodes_total`: how many times a whole object was decoded.
    pub decodes_total: u64,
    /// How many of those failed: the object did not fit its type, or the type's own code panicked.
    pub decode_errors_total: u64,
    /// How many times some fields were decoded with [`Cached::view`].
    pub views_total: u64,
    /// How many decoded objects are kept for a while.
    pub memo_objects: usize,
    /// How many bytes their encoded forms have.
    pub memo_bytes: usize,
    /// How many states are held by anybody, in a cache or elsewhere.
    pub objects: usize,
    /// How many bytes their bodies are kept in, those of decoded ones not counted. What an object's metadata holds is kept there, and not
    /// in its body.
    pub body_bytes: usize,
    /// How many of them are kept compressed.
    pub compressed_objects: usize,
    /// Which dictionary new objects are compressed with: the first one is 1, and 0 means none.
    pub dictionary_version: u64,
    /// How many dictionaries are in use. An old one is freed with the last object that needs it.
    pub dictionaries: usize,
    /// How many bytes of memory they take.
    pub dictionary_bytes: usize,
    /// Whether a dictionary is being trained, or objects that have waited for it are being compressed.
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
            compression: (options.mode == StorageMode::Compressed).then(Compression::new),
            gauges: Gauges::default(),
            decodes: AtomicU64::new(0),
            decode_errors: AtomicU64::new(0),
            views: AtomicU64::new(0),
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Keeps an item of a list. Where it does not say its own type, `type_meta` is filled in.
    pub fn store_item(&self, item: &Item, type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        self.keep_item(item, type_meta).map(|kept| kept.object)
    }

    /// The same, with what was wrong if it did not decode.
    pub(crate) fn keep_item(&self, item: &Item, type_meta: Option<&TypeMeta>) -> Result<Kept<K>, ObjectError> {
        make_room(item.size());
        let strip = &self.shared.options.strip;
        let scanned = if self.reads_it_whole() {
            Json.scan_item(item, strip, type_meta)
        } else {
            Json.scan_item_remainder(item, strip, type_meta)
        };
        self.keep(scanned?)
    }

    /// Keeps an object given as JSON.
    pub fn store(&self, object: &[u8], type_meta: Option<&TypeMeta>) -> Result<Cached<K>, ObjectError> {
        let strip = &self.shared.options.strip;
        let scanned = if self.reads_it_whole() {
            Json.scan(object, strip, type_meta)
        } else {
            Json.scan_remainder(object, strip, type_meta)
        };
        self.keep(scanned?).map(|kept| kept.object)
    }

    /// Whether an object is decoded before it is kept.
    fn reads_it_whole(&self) -> bool {
        let StorageOptions { mode, transform, .. } = &self.shared.options;
        *mode == StorageMode::Decoded || transform.is_some()
    }

    pub(crate) fn options(&self) -> &StorageOptions<K> {
        &self.shared.options
    }

    /// What it has done so far.
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

    /// Keeps an object, or a remainder if it is kept as bytes: what is whole is its own remainder.
    fn keep(&self, mut scanned: Scanned) -> Result<Kept<K>, ObjectError> {
        if scanned.metadata.name().is_empty() {
            return Err(Fault::WrongType { field: "metadata.name", expected: "a name" }.into());
        }
        if let Some(transform) = &self.shared.options.transform {
            scanned = self.transformed(&**transform, &scanned)?;
        }
        let Scanned { metadata, object } = scanned;
        let metadata = metadata.share(&self.shared.texts);
        let mut undecoded = None;
        let entry = match &self.shared.compression {
            Some(compression) => self.keep_compressed(compression, metadata, exact(object)),
            None if self.shared.options.mode == StorageMode::Decoded => {
                // One that does not fit stays as it came, and its readers are told.
                let body = self.decode(&metadata, &object).map_or_else(
                    |error| {
                        undecoded = Some(Box::new(error.into_object_error()));
                        encoded(object)
                    },
                    |object| Body::Decoded(Arc::new(object)),
                );
                self.entry(metadata, body)
            }
            None => self.entry(metadata, encoded(object)),
        };
        Ok(Kept { object: Cached(entry), undecoded })
    }

    fn entry(&self, metadata: Metadata, body: Body<K>) -> Arc<Entry<K>> {
        let entry = Arc::new(Entry { metadata, storage: Arc::clone(&self.shared), body });
        self.shared.gauges.came(entry.bytes().as_deref());
        entry
    }

    fn decode(&self, metadata: &Metadata, object: &[u8]) -> Result<K, DecodeError> {
        self.shared.count_decode();
        decode(metadata, object).inspect_err(|_| self.shared.count_decode_error())
    }

    fn keep_compressed(&self, compression: &Compression<K>, metadata: Metadata, kept: Box<[u8]>) -> Arc<Entry<K>> {
        let dictionary = compression.dictionary();
        let before = kept.len();
        let entry = self.entry(metadata, Body::new(kept, dictionary.as_ref()));
        match dictionary {
            Some(_) => compression.came(&entry, before),
            None => compression.wait_for_dictionary(&entry),
        }
        entry
    }

    /// The object after the transform. What the transform removes must not be kept, so one that cannot be transformed is not either.
    fn transformed(&self, transform: &Transform<K>, scanned: &Scanned) -> Result<Scanned, ObjectError> {
        let before = &scanned.metadata;
        let mut object = self.decode(before, &scanned.object).map_err(DecodeError::into_object_error)?;
        if catch_unwind(AssertUnwindSafe(|| transform(&mut object))).is_err() {
            let fault = Fault::Decode { message: "its transform panicked".to_owned(), line: 0, column: 0 };
            return Err(ObjectError { index: None, key: Some(before.key()), fault });
        }
        let bytes = encode(before, &object).map_err(DecodeError::into_object_error)?;
        let type_meta = TypeMeta { api_version: before.api_version().to_owned(), kind: before.kind().to_owned() };
        let (strip, type_meta) = (&self.shared.options.strip, Some(&type_meta));
        let transformed = match self.shared.options.mode {
            StorageMode::Decoded => Json.scan(&bytes, strip, type_meta),
            StorageMode::Encoded | StorageMode::Compressed => Json.scan_remainder(&bytes, strip, type_meta),
        };
        let transformed = transformed.map_err(|error| ObjectError { key: Some(before.key()), ..error })?;
        check_identity(before, &transformed.metadata)?;
        Ok(transformed)
    }
}

/// Without these the cache could not tell which object it is, nor which state of it.
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
            fault: Fault::WrongType { field, expected: "what it was before the transform" },
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
