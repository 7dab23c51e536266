use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A list that handlers and reconcilers of a test append to and the test reads.
///
/// Clones share the entries.
///
/// ```
/// use steersman_testing::Log;
///
/// let log = Log::new();
/// let handler = log.clone();
/// handler.push("add a");
/// assert_eq!(log.all(), ["add a"]);
/// assert_eq!(log.take(), ["add a"]);
/// assert!(log.is_empty());
/// ```
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Log<T> {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Appends an entry.
    pub fn push(&self, entry: T) {
        self.with(|entries| entries.push(entry));
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.with(|entries| entries.len())
    }

    /// Returns whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and returns all entries, the oldest first.
    pub fn take(&self) -> Vec<T> {
        self.with(std::mem::take)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Vec<T>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Clone> Log<T> {
    /// Returns all entries, the oldest first.
    pub fn all(&self) -> Vec<T> {
        self.with(|entries| entries.clone())
    }
}

impl Log<String> {
    /// Appends a text.
    pub fn note(&self, entry: impl Into<String>) {
        self.push(entry.into());
    }
}

impl Log<u8> {
    /// Returns the bytes as text, for a log that a writer fills.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.all()).into_owned()
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|entries| f.debug_list().entries(entries.iter()).finish())
    }
}
