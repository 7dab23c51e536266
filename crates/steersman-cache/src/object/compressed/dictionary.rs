//! Compresses bodies with what objects of a kind have in common.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{CCtx, DCtx, compress_bound};

use crate::object::body::Corrupt;

/// Higher levels take several times as long for a few percent; lower ones are not faster.
const LEVEL: i32 = 3;
/// A dictionary is worth its memory only if it is much smaller than its samples.
const SAMPLES_PER_DICTIONARY: usize = 16;
const DICTIONARY_BYTES_MAX: usize = 112 << 10;
/// One sample in this number is for the measurement of the ratio instead of the training.
const MEASURED: usize = 10;
/// Contexts in the pool. Each takes some hundred kilobytes.
const CONTEXTS_MAX: usize = 4;

static COMPRESSORS: Contexts<CCtx<'static>> = Contexts(Mutex::new(Vec::new()));
static DECOMPRESSORS: Contexts<DCtx<'static>> = Contexts(Mutex::new(Vec::new()));

/// A dictionary for both directions. The objects compressed with it hold it, and the last one frees
/// it.
pub(crate) struct Dictionary {
    /// Counted from 1 within its storage; 0 for a bootstrap dictionary.
    pub(crate) version: u64,
    /// Compressed size relative to the original, for objects like its samples.
    pub(crate) ratio: f64,
    encoder: EncoderDictionary<'static>,
    decoder: DecoderDictionary<'static>,
}

/// Objects to train a dictionary on.
#[derive(Default)]
pub(crate) struct Samples {
    trained: Vec<u8>,
    sizes: Vec<usize>,
    measured: Vec<Vec<u8>>,
}

impl Samples {
    pub(crate) fn push(&mut self, sample: &[u8]) {
        if self.len() % MEASURED == MEASURED - 1 {
            self.measured.push(sample.to_vec());
        } else {
            self.trained.extend_from_slice(sample);
            self.sizes.push(sample.len());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.len() + self.measured.len()
    }
}

impl Dictionary {
    /// A dictionary for objects like these. `None` if they have too little in common or are too
    /// small.
    pub(crate) fn train(samples: &Samples, version: u64) -> Option<Self> {
        let bytes_max = (samples.trained.len() / SAMPLES_PER_DICTIONARY).min(DICTIONARY_BYTES_MAX);
        let dictionary = zstd::dict::from_continuous(&samples.trained, &samples.sizes, bytes_max).ok()?;
        let mut trained = Self {
            version,
            ratio: 1.0,
            encoder: EncoderDictionary::copy(&dictionary, LEVEL),
            decoder: DecoderDictionary::copy(&dictionary),
        };
        let before: usize = samples.measured.iter().map(Vec::len).sum();
        let after: usize = samples
            .measured
            .iter()
            .map(|sample| trained.compress(sample).map_or(sample.len(), |compressed| compressed.len()))
            .sum();
        trained.ratio = after as f64 / before.max(1) as f64;
        Some(trained)
    }

    /// A dictionary that is a few objects, while there are too few to train on.
    pub(crate) fn bootstrap(objects: &[u8]) -> Self {
        let objects = &objects[..objects.len().min(DICTIONARY_BYTES_MAX)];
        Self {
            version: 0,
            ratio: 1.0,
            encoder: EncoderDictionary::copy(objects, LEVEL),
            decoder: DecoderDictionary::copy(objects),
        }
    }

    pub(crate) fn is_bootstrap(&self) -> bool {
        self.version == 0
    }

    /// The compressed form. `None` if it is not smaller.
    pub(crate) fn compress(&self, json: &[u8]) -> Option<Box<[u8]>> {
        let mut compressed = Vec::with_capacity(compress_bound(json.len()));
        COMPRESSORS.with(CCtx::create, |context| {
            context.compress_using_cdict(&mut compressed, json, self.encoder.as_cdict()).ok()
        })?;
        (compressed.len() < json.len()).then(|| Box::from(compressed.as_slice()))
    }

    /// The decompressed form, which has to have this length.
    pub(crate) fn decompress(&self, compressed: &[u8], length: usize) -> Result<Vec<u8>, Corrupt> {
        let mut json = Vec::with_capacity(length);
        DECOMPRESSORS.with(DCtx::create, |context| {
            context.decompress_using_ddict(&mut json, compressed, self.decoder.as_ddict()).map_err(|_| Corrupt)
        })?;
        if json.len() == length { Ok(json) } else { Err(Corrupt) }
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.encoder.as_cdict().sizeof() + self.decoder.as_ddict().sizeof()
    }
}

impl fmt::Debug for Dictionary {
    /// Without its content, which is made of objects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A pool of contexts for all dictionaries and threads: creating one takes longer than using it.
struct Contexts<C>(Mutex<Vec<C>>);

impl<C> Contexts<C> {
    fn with<R>(&self, create: impl FnOnce() -> C, f: impl FnOnce(&mut C) -> R) -> R {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = free.unwrap_or_else(create);
        let result = f(&mut context);
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < CONTEXTS_MAX {
            free.push(context);
        }
        result
    }
}
