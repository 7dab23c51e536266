//! Parts of metadata that many objects have alike, kept once.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Labels, annotations and owners that many objects of a cache have alike, kept once for all of them: see
/// [`Metadata::share`](crate::Metadata::share).
///
/// A text is kept here when it comes the second time, so that one that no other object has does not take more memory than before.
/// One that no metadata holds any more is let go when the texts have doubled in number.
#[derive(Default)]
pub struct SharedTexts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    texts: HashTable<SharedText>,
    hasher: DefaultHashBuilder,
    /// Hashes of texts that have come once, each in the place that it gives itself.
    seen: Vec<u32>,
    /// At how many texts it is looked which of them are still in use.
    look_at: usize,
    /// Used again for each object: short-lived allocations between those that stay would leave holes.
    scratch: Scratch,
}

/// Where metadata is put together before its size is known.
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

/// Larger ones are not kept: some objects are huge.
const SCRATCH_MAX: usize = 16 << 10;

/// One text, shared by those who hold it. A thin pointer: there are many of these.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SharedText(Arc<Text>);

#[derive(PartialEq, Eq)]
struct Text(Box<str>);

/// How many hashes of texts that came once are remembered.
const SEEN: usize = 4096;
/// A shorter text takes no more than a pointer to it.
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
    /// No texts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many texts are kept.
    pub fn len(&self) -> usize {
        self.with(|state| state.texts.len())
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the function that shares a text, or tells that it is better kept where it is.
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
        if self.texts.len() >= self.look_at {
            self.texts.retain(|shared| Arc::strong_count(&shared.0) > 1);
            self.look_at = (2 * self.texts.len()).max(LOOK_AT_MIN);
        }
        let shared = SharedText(Arc::new(Text(text.into())));
        let hasher = &self.hasher;
        self.texts.insert_unique(hash, shared.clone(), |shared| hasher.hash_one(shared.get()));
        Some(shared)
    }

    /// Whether a text of this hash has come before, as far as is remembered.
    fn seen_before(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN];
        }
        // Nothing is marked by zero.
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
    fn texts_that_nobody_holds_are_let_go() {
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
