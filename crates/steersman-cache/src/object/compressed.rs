//! Bodies kept compressed, under a dictionary that is trained on the kind's own objects.
//!
//! The first few objects are kept as they are. Then they serve as a makeshift dictionary. When there are enough, a thread of its own
//! trains a proper one, compresses with it those that have come meanwhile, and ends; new ones are compressed as they come. When objects no longer shrink as
//! they should, because other ones come than those it was trained on, the next dictionary is trained on the recent ones.

mod dictionary;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use self::dictionary::Samples;
pub(crate) use self::dictionary::{Corrupt, Dictionary};
use crate::object::cached::{Entry, Object};
use crate::object::memory;
use crate::object::storage::Shared;

/// So many objects are a makeshift dictionary: without one, those that come while the first is trained would take many times the
/// memory that is needed in the end, and leave holes in it.
const MAKESHIFT: usize = 16;
/// On how many objects a dictionary is trained.
const SAMPLES: usize = 300;
/// From the recent ones, fewer will do.
const SAMPLES_MIN: usize = 100;
/// As much of a large object is looked at.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// After how many objects it is checked whether they still shrink.
const WINDOW: usize = 1000;
/// How much worse than at first is too bad.
const WORSE: f64 = 1.5;
/// There are no more dictionaries than that at a time: old ones stay as long as an object needs them.
const DICTIONARIES_MAX: usize = 4;

/// Training takes memory and a core for a moment: one storage after the other.
static TURN: Mutex<()> = Mutex::new(());

/// What a storage knows of its dictionaries.
pub(crate) struct Compression<K> {
    state: Mutex<State<K>>,
    /// Told when a training has ended.
    ended: Condvar,
}

struct State<K> {
    dictionary: Option<Arc<Dictionary>>,
    /// Those that were made and may still be in use.
    dictionaries: Vec<Weak<Dictionary>>,
    versions: u64,
    training: bool,
    /// Serves until the first one is trained.
    makeshift: Option<Arc<Dictionary>>,
    /// Those that wait for the first dictionary.
    waiting: Vec<Weak<Entry<K>>>,
    /// How many must wait before it is looked again whether they are enough.
    look_at: usize,
    /// The last ones that came since there is a dictionary.
    recent: VecDeque<Weak<Entry<K>>>,
    window: Window,
}

/// How much the last objects have shrunk.
#[derive(Default)]
struct Window {
    objects: usize,
    before: usize,
    after: usize,
}

/// What is to be seen of it from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompressionMetrics {
    pub(crate) dictionary_version: u64,
    pub(crate) dictionaries: usize,
    pub(crate) dictionary_bytes: usize,
    pub(crate) training: bool,
}

impl<K> Compression<K> {
    pub(crate) fn new() -> Self {
        memory::keep_little();
        let state = State {
            dictionary: None,
            dictionaries: Vec::new(),
            versions: 0,
            training: false,
            makeshift: None,
            waiting: Vec::new(),
            look_at: SAMPLES,
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

    /// Objects to train on: of those that wait, or else of the recent ones.
    fn samples(&self) -> Samples {
        let entries: Vec<_> = {
            let state = self.state();
            let entries = state.waiting.iter().chain(&state.recent).filter(|entry| entry.strong_count() > 0);
            entries.cloned().collect()
        };
        let mut samples = Samples::default();
        for entry in entries.iter().step_by(entries.len().div_ceil(SAMPLES).max(1)) {
            let Some(entry) = entry.upgrade() else { continue };
            entry.with_remainder(|kept| samples.push(&kept[..kept.len().min(SAMPLE_BYTES_MAX)]));
        }
        samples
    }

    /// From now on new objects are compressed with this dictionary. Gives those that have waited for it.
    fn publish(&self, dictionary: &Arc<Dictionary>) -> Vec<Weak<Entry<K>>> {
        let mut state = self.state();
        state.versions = dictionary.version;
        state.dictionaries.push(Arc::downgrade(dictionary));
        let before = state.dictionary.replace(Arc::clone(dictionary));
        state.window = Window::default();
        let waiting = std::mem::take(&mut state.waiting);
        let makeshift = state.makeshift.take();
        drop(state);
        drop((before, makeshift));
        waiting
    }

    fn next_version(&self) -> u64 {
        self.state().versions + 1
    }

    fn training_ended(&self) {
        self.state().training = false;
        self.ended.notify_all();
    }

    /// Waits until no dictionary is being trained and all objects that waited for one are compressed.
    #[cfg(test)]
    pub(crate) fn settle(&self) {
        let patience = std::time::Duration::from_secs(120);
        let (state, waited) = self
            .ended
            .wait_timeout_while(self.state(), patience, |state| state.training)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!waited.timed_out(), "a dictionary is still being trained");
    }
}

impl<K: Object> Compression<K> {
    /// An object has come and is kept as it is, because there was no dictionary.
    pub(crate) fn wait_for_dictionary(&self, entry: &Arc<Entry<K>>) {
        let mut state = self.state();
        if let Some(dictionary) = state.dictionary.clone() {
            drop(state);
            return entry.compress(&dictionary);
        }
        state.waiting.push(Arc::downgrade(entry));
        if state.makeshift.is_none() && state.waiting.len() >= MAKESHIFT {
            state.makeshift = state.make_shift();
        }
        if let Some(makeshift) = &state.makeshift {
            entry.compress(makeshift);
        }
        if state.waiting.len() < state.look_at {
            return;
        }
        state.waiting.retain(|entry| entry.strong_count() > 0);
        state.look_at = (2 * state.waiting.len()).max(SAMPLES);
        if state.waiting.len() >= SAMPLES {
            state.train(&entry.storage);
        }
    }

    /// An object of `before` bytes has come when there was a dictionary.
    pub(crate) fn came(&self, entry: &Arc<Entry<K>>, before: usize) {
        let after = entry.bytes().map_or(before, |bytes| bytes.kept_len());
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
        let limit = state.dictionary.as_ref().map_or(1.0, |dictionary| dictionary.ratio * WORSE);
        if after as f64 > before as f64 * limit && state.dictionaries().len() < DICTIONARIES_MAX {
            state.train(&entry.storage);
        }
    }
}

impl<K> State<K> {
    /// A makeshift of those that wait.
    fn make_shift(&self) -> Option<Arc<Dictionary>> {
        let mut objects = Vec::new();
        for entry in self.waiting.iter().rev().take(MAKESHIFT).filter_map(Weak::upgrade) {
            entry.with_remainder(|kept| objects.extend_from_slice(&kept[..kept.len().min(SAMPLE_BYTES_MAX)]));
        }
        (!objects.is_empty()).then(|| Arc::new(Dictionary::makeshift(&objects)))
    }

    /// The dictionaries that are in use.
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
        // Where no thread can be had now, one may be later.
        self.training = thread.spawn(|| Training(storage).run()).is_ok();
    }
}

/// A training that is under way. It holds neither the storage nor its objects for longer than it takes to look at one.
struct Training<K>(Weak<Shared<K>>);

impl<K> Training<K> {
    fn run(self) {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((samples, version)) = self.with(|compression| (compression.samples(), compression.next_version()))
        else {
            return;
        };
        if samples.len() < SAMPLES_MIN {
            return;
        }
        let Some(dictionary) = Dictionary::train(&samples, version).map(Arc::new) else { return };
        drop((samples, turn));
        for entry in self.with(|compression| compression.publish(&dictionary)).into_iter().flatten() {
            if let Some(entry) = entry.upgrade() {
                entry.compress(&dictionary);
            }
        }
    }

    /// Nothing when the storage is gone.
    fn with<R>(&self, f: impl FnOnce(&Compression<K>) -> R) -> Option<R> {
        self.0.upgrade()?.compression.as_ref().map(f)
    }
}

impl<K> Drop for Training<K> {
    fn drop(&mut self) {
        self.with(Compression::training_ended);
    }
}
