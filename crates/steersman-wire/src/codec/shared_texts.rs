//! Stores parts of metadata once that many objects have in common.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

/// The labels, annotations and owners that many objects of a cache have in common, stored once: see
/// [`Metadata::share`](crate::Metadata::share).
///
/// A text is stored when it comes the second time, so a text of one object takes no more memory
/// than before. Texts that no metadata uses any more are released when the number of texts has
/// doubled.
#[derive(Default)]
pub struct SharedTexts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    texts: HashTable<SharedText>,
    hasher: DefaultHashBuilder,
    /// The hashes of texts that have come once, each in the place that it selects.
    seen: Vec<u32>,
    /// The number of texts at which unused ones are released.
    release_at: usize,
    /// Reused for each object: short-lived allocations among those that stay would fragment the
    /// memory.
    scratch: Scratch,
}

/// Buffers for metadata whose size is not known yet.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) own: String,
    pub(crate) section: String,
    pub(crate) part: String,
    pub(crate) shared: Vec<SharedText>,
}

impl Scratch {
    fn clear(&mut self) {
        self.own.clear();
        self.section.clear();
        self.part.clear();
        self.shared.clear();
    }
}

/// Larger buffers are not kept: some objects are huge.
const SCRATCH_MAX: usize = 16 << 10;

/// One shared text. A thin pointer, because there are many of them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SharedText(Arc<Text>);

#[derive(PartialEq, Eq)]
struct Text(Box<str>);

/// How many hashes of texts that came once are stored.
const SEEN: usize = 4096;
/// A shorter text takes no more memory than a pointer to it.
const LENGTH_MIN: usize = 12;
const LOOK_AT_MIN: usize = 1024;

impl SharedText {
    pub(crate) fn get(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Debug for SharedTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTexts").field("len", &self.len()).finish()
    }
}

impl SharedTexts {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many texts are stored.
    pub fn len(&self) -> usize {
        self.with(|state| state.texts.len())
    }

    /// Whether no text is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with a function that shares a text, or returns `None` if sharing does not pay.
    pub(crate) fn sharing<R>(
        &self,
        f: impl FnOnce(&mut dyn FnMut(&str) -> Option<SharedText>, &mut Scratch) -> R,
    ) -> R {
        self.with(|state| {
            let mut scratch = std::mem::take(&mut state.scratch);
            let result = f(&mut |text| state.share(text), &mut scratch);
            if scratch.own.capacity() + scratch.section.capacity() <= SCRATCH_MAX {
                scratch.clear();
                state.scratch = scratch;
            }
            result
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn share(&mut self, text: &str) -> Option<SharedText> {
        if text.len() < LENGTH_MIN {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        if let Some(shared) = self.texts.find(hash, |shared| shared.get() == text) {
            return Some(shared.clone());
        }
        if !self.seen_before(hash) {
            return None;
        }
        if self.texts.len() >= self.release_at {
            self.texts.retain(|shared| Arc::strong_count(&shared.0) > 1);
            self.release_at = (2 * self.texts.len()).max(LOOK_AT_MIN);
        }
        let shared = SharedText(Arc::new(Text(text.into())));
        let hasher = &self.hasher;
        self.texts.insert_unique(hash, shared.clone(), |shared| hasher.hash_one(shared.get()));
        Some(shared)
    }

    /// Whether a text of this hash has come before, as far as the hashes show.
    fn seen_before(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN];
        }
        // Zero marks an empty place.
        let (mark, place) = ((hash >> 32) as u32 | 1, hash as usize % SEEN);
        std::mem::replace(&mut self.seen[place], mark) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(texts: &SharedTexts, text: &str) -> Option<SharedText> {
        texts.sharing(|share, _| share(text))
    }

    #[test]
    fn a_text_is_kept_when_it_comes_the_second_time() {
        let texts = SharedTexts::new();
        assert!(share(&texts, "app.kubernetes.io/name").is_none() && texts.is_empty());
        let second = share(&texts, "app.kubernetes.io/name").expect("it is shared");
        let third = share(&texts, "app.kubernetes.io/name").expect("it is shared");
        assert!(Arc::ptr_eq(&second.0, &third.0));
        assert_eq!((second.get(), texts.len()), ("app.kubernetes.io/name", 1));
    }

    #[test]
    fn short_texts_stay_where_they_are() {
        let texts = SharedTexts::new();
        assert!((0..5).all(|_| share(&texts, "app").is_none()));
    }

    #[test]
    fn unused_texts_are_released() {
        let texts = SharedTexts::new();
        let mut held = Vec::new();
        for number in 0..100 * LOOK_AT_MIN {
            let text = format!("a text with the number {number}");
            share(&texts, &text);
            let shared = share(&texts, &text).expect("it is shared");
            if number < 10 {
                held.push(shared);
            }
        }
        assert!(texts.len() <= LOOK_AT_MIN, "{}", texts.len());
        for (number, text) in held.iter().enumerate() {
            let again = share(&texts, text.get()).expect("it is still there");
            assert!(Arc::ptr_eq(&again.0, &text.0), "{number}");
        }
    }
}
