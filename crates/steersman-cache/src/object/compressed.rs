//! Compressed bodies, with a dictionary that is trained on the kind's own objects.
//!
//! The first few objects stay uncompressed and then serve as a bootstrap dictionary. Once there are
//! enough, a thread trains a dictionary, compresses the objects so far with it, and ends. New
//! objects are compressed on arrival. When objects shrink less than expected, because they differ
//! from those of the training, the next dictionary is trained on the recent ones.

mod dictionary;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

pub(crate) use self::dictionary::Dictionary;
use self::dictionary::Samples;
use crate::object::body::Entry;
use crate::object::cached::Object;
use crate::object::storage::{Shared, StorageMode};

/// Objects in the bootstrap dictionary. Without one, the objects that arrive during the first
/// training would take many times their final memory, and fragment it.
const BOOTSTRAP: usize = 16;
/// Objects that a dictionary is trained on.
const SAMPLES: usize = 300;
/// Smallest number of them, if there are fewer recent objects.
const SAMPLES_MIN: usize = 100;
/// Largest part of an object that is a sample.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Objects between two checks of the ratio.
const WINDOW: usize = 1000;
/// A ratio worse than the trained one by this factor starts a new training.
const RETRAIN_FACTOR: f64 = 1.5;
/// Largest number of dictionaries. Old ones live as long as an object needs them.
const DICTIONARIES_MAX: usize = 4;

/// Training takes memory and a core for a moment, so one storage trains at a time.
static TRAINING: Mutex<()> = Mutex::new(());

/// The dictionaries of a storage.
pub(crate) struct Compression<K> {
    state: Mutex<State<K>>,
    /// Notified when a training has ended.
    ended: Condvar,
}

struct State<K> {
    dictionary: Option<Arc<Dictionary>>,
    /// All dictionaries that may be in use.
    dictionaries: Vec<Weak<Dictionary>>,
    versions: u64,
    training: bool,
    /// Used until the first one is trained.
    bootstrap: Option<Arc<Dictionary>>,
    /// Objects that wait for the first dictionary.
    waiting: Vec<Weak<Entry<K>>>,
    /// Number of waiting objects at which the next check for a training is due.
    check_at: usize,
    /// The last objects that arrived after the first dictionary.
    recent: VecDeque<Weak<Entry<K>>>,
    window: Window,
}

/// Sizes of the last objects before and after compression.
#[derive(Default)]
struct Window {
    objects: usize,
    before: usize,
    after: usize,
}

/// Metrics of the dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompressionMetrics {
    pub(crate) dictionary_version: u64,
    pub(crate) dictionaries: usize,
    pub(crate) dictionary_bytes: usize,
    pub(crate) training: bool,
}

impl<K> Compression<K> {
    /// `None` for other modes than [`StorageMode::Compressed`].
    pub(crate) fn for_mode(mode: StorageMode) -> Option<Self> {
        (mode == StorageMode::Compressed).then(Self::new)
    }

    fn new() -> Self {
        let state = State {
            dictionary: None,
            dictionaries: Vec::new(),
            versions: 0,
            training: false,
            bootstrap: None,
            waiting: Vec::new(),
            check_at: SAMPLES,
            recent: VecDeque::new(),
            window: Window::default(),
        };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    /// The dictionary for new objects.
    pub(crate) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.state().dictionary.clone()
    }

    pub(crate) fn metrics(&self) -> CompressionMetrics {
        let mut state = self.state();
        let alive: Vec<_> = state.dictionaries();
        CompressionMetrics {
            dictionary_version: state.dictionary.as_ref().map_or(0, |dictionary| dictionary.version),
            dictionaries: alive.len(),
            dictionary_bytes: alive.iter().map(|dictionary| dictionary.memory()).sum(),
            training: state.training,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects to train on: the waiting ones and the recent ones.
    fn samples(&self) -> Samples {
        let entries: Vec<_> = {
            let state = self.state();
            let entries = state.waiting.iter().chain(&state.recent).filter(|entry| entry.strong_count() > 0);
            entries.cloned().collect()
        };
        let mut samples = Samples::default();
        for entry in entries.iter().step_by(entries.len().div_ceil(SAMPLES).max(1)) {
            let Some(entry) = entry.upgrade() else { continue };
            entry.with_remainder(|remainder| samples.push(&remainder[..remainder.len().min(SAMPLE_BYTES_MAX)]));
        }
        samples
    }

    /// Compresses new objects with this dictionary from now on. Returns the objects that waited for
    /// it.
    fn publish(&self, dictionary: &Arc<Dictionary>) -> Vec<Weak<Entry<K>>> {
        let mut state = self.state();
        state.versions = dictionary.version;
        state.dictionaries.push(Arc::downgrade(dictionary));
        let before = state.dictionary.replace(Arc::clone(dictionary));
        state.window = Window::default();
        let waiting = std::mem::take(&mut state.waiting);
        let bootstrap = state.bootstrap.take();
        drop(state);
        drop((before, bootstrap));
        waiting
    }

    fn next_version(&self) -> u64 {
        self.state().versions + 1
    }

    fn training_ended(&self) {
        self.state().training = false;
        self.ended.notify_all();
    }

    /// Waits until no training runs and all objects that waited for one are compressed.
    #[cfg(test)]
    pub(crate) fn wait_until_trained(&self) {
        let limit = std::time::Duration::from_secs(120);
        let (state, waited) = self
            .ended
            .wait_timeout_while(self.state(), limit, |state| state.training)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!waited.timed_out(), "a dictionary is still being trained");
    }
}

impl<K: Object> Compression<K> {
    /// Records an object that was stored uncompressed, because there was no dictionary.
    pub(crate) fn wait_for_dictionary(&self, entry: &Arc<Entry<K>>) {
        let mut state = self.state();
        if let Some(dictionary) = state.dictionary.clone() {
            drop(state);
            return entry.compress(&dictionary);
        }
        state.waiting.push(Arc::downgrade(entry));
        if state.bootstrap.is_none() && state.waiting.len() >= BOOTSTRAP {
            state.bootstrap = state.bootstrap_dictionary();
        }
        if let Some(bootstrap) = &state.bootstrap {
            entry.compress(bootstrap);
        }
        if state.waiting.len() < state.check_at {
            return;
        }
        state.waiting.retain(|entry| entry.strong_count() > 0);
        state.check_at = (2 * state.waiting.len()).max(SAMPLES);
        if state.waiting.len() >= SAMPLES {
            state.train(&entry.storage);
        }
    }

    /// Records an object of `before` bytes that was stored compressed.
    pub(crate) fn record(&self, entry: &Arc<Entry<K>>, before: usize) {
        let after = entry.bytes().map_or(before, |bytes| bytes.data_len());
        let mut state = self.state();
        if state.recent.len() == WINDOW {
            state.recent.pop_front();
        }
        state.recent.push_back(Arc::downgrade(entry));
        state.window.objects += 1;
        state.window.before += before;
        state.window.after += after;
        if state.window.objects < WINDOW {
            return;
        }
        let Window { before, after, .. } = std::mem::take(&mut state.window);
        let limit = state.dictionary.as_ref().map_or(1.0, |dictionary| dictionary.ratio * RETRAIN_FACTOR);
        if after as f64 > before as f64 * limit && state.dictionaries().len() < DICTIONARIES_MAX {
            state.train(&entry.storage);
        }
    }
}

impl<K> State<K> {
    /// A bootstrap dictionary of the waiting objects.
    fn bootstrap_dictionary(&self) -> Option<Arc<Dictionary>> {
        let mut objects = Vec::new();
        for entry in self.waiting.iter().rev().take(BOOTSTRAP).filter_map(Weak::upgrade) {
            entry.with_remainder(|remainder| {
                objects.extend_from_slice(&remainder[..remainder.len().min(SAMPLE_BYTES_MAX)]);
            });
        }
        (!objects.is_empty()).then(|| Arc::new(Dictionary::bootstrap(&objects)))
    }

    /// The dictionaries in use.
    fn dictionaries(&mut self) -> Vec<Arc<Dictionary>> {
        self.dictionaries.retain(|dictionary| dictionary.strong_count() > 0);
        self.dictionaries.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<K: Object> State<K> {
    fn train(&mut self, storage: &Arc<Shared<K>>) {
        if self.training {
            return;
        }
        let storage = Arc::downgrade(storage);
        let thread = thread::Builder::new().name("dictionary".to_owned());
        // If the thread cannot be spawned, a later object tries again.
        self.training = thread.spawn(|| Training(storage).run()).is_ok();
    }
}

/// A running training. It holds neither the storage nor its objects, except while it reads one.
struct Training<K>(Weak<Shared<K>>);

impl<K> Training<K> {
    fn run(self) {
        let lock = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((samples, version)) = self.with(|compression| (compression.samples(), compression.next_version()))
        else {
            return;
        };
        if samples.len() < SAMPLES_MIN {
            return;
        }
        let Some(dictionary) = Dictionary::train(&samples, version).map(Arc::new) else { return };
        drop((samples, lock));
        for entry in self.with(|compression| compression.publish(&dictionary)).into_iter().flatten() {
            if let Some(entry) = entry.upgrade() {
                entry.compress(&dictionary);
            }
        }
    }

    /// `None` if the storage no longer exists.
    fn with<R>(&self, f: impl FnOnce(&Compression<K>) -> R) -> Option<R> {
        self.0.upgrade()?.compression.as_ref().map(f)
    }
}

impl<K> Drop for Training<K> {
    fn drop(&mut self) {
        self.with(Compression::training_ended);
    }
}
