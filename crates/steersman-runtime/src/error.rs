//! What can go wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why something in this crate failed.
///
/// `{:?}` writes the same message as `{}`, because that is how Rust prints an error that `main`
/// returns.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused, or could not be reached.
    #[error("{0}")]
    Client(#[source] Arc<steersman_client::Error>),
    /// The cache could not do what was asked.
    #[error(transparent)]
    Cache(#[from] steersman_cache::Error),
    /// The object is not in the cache.
    #[error("there is no {kind} {key} in the cache")]
    NotFound {
        /// Its kind.
        kind: String,
        /// Which one.
        key: String,
    },
    /// The manager's caches, as they are declared, can never answer this read.
    #[error("{0}")]
    NotCached(#[source] NotCached),
    /// What this client wrote has not come back in time.
    #[error(
        "{kind} {key} was written through this client, and the cache has not caught up within {waited:?}: it has reached version \
         {reached:?} and should have {wanted}; is the watch down? Use live() to read from the server, or stale_ok() to do without"
    )]
    Stale {
        /// The kind.
        kind: String,
        /// Which object.
        key: String,
        /// What was waited for.
        wanted: String,
        /// How far the cache is.
        reached: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Two controllers have the same name.
    #[error("there is a controller named {name:?} in this manager already: give one of them another with named(…)")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A part of the manager failed, and so all were stopped.
    #[error("{part} failed, and so the manager stopped: {problem}")]
    Part {
        /// Which part.
        part: String,
        /// What it said.
        problem: String,
    },
    /// Parts of the manager did not stop in time and were cut off.
    #[error("after {waited:?} these had not stopped and were cut off: {}", parts.join(", "))]
    Grace {
        /// How long was waited.
        waited: Duration,
        /// Which parts.
        parts: Vec<String>,
    },
    /// The manager was started before.
    #[error("the manager was started before: it can be started once")]
    StartedTwice,
    /// The manager has ended.
    #[error("the manager has stopped: nothing can be added to it any more")]
    Stopped,
    /// Something did not stop in time.
    #[error(
        "{what} has not stopped within {waited:?}: a function that was given to it, such as that of an index or a transform, does \
         not return"
    )]
    NotStopped {
        /// What was waited for.
        what: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A kind is watched, and so its cache is needed.
    #[error(
        "{kind} is watched by {}, and so its cache cannot be taken away: remove_and_wait() the watches that were added while the \
         manager runs; those that a controller has from the start stay as long as it does",
        by.join(", ")
    )]
    InUse {
        /// The kind.
        kind: String,
        /// The controllers that watch it.
        by: Vec<String>,
    },
    /// An object cannot be what is asked.
    #[error("{0}")]
    InvalidObject(String),
    /// An object has another controller.
    #[error("{object} is controlled by {by} already and cannot be controlled by {wanted} as well")]
    AlreadyControlled {
        /// The name of the object.
        object: String,
        /// Who controls it.
        by: String,
        /// Who should.
        wanted: String,
    },
    /// A kind is registered with another type.
    #[error("{kind} is registered as {registered} already and cannot be {wanted} as well: use one type for each kind")]
    SchemeClash {
        /// The kind.
        kind: String,
        /// The type that it is registered with.
        registered: &'static str,
        /// The other type.
        wanted: &'static str,
    },
    /// A kind is not registered.
    #[error("no Rust type is registered for {kind}: call Scheme::register for it")]
    NotRegistered {
        /// The kind.
        kind: String,
    },
}

/// Why the manager's caches, as they are declared, can never answer a read. A retry does not help: the declaration has to
/// change. A reconcile that fails with this error, or with an error that has it among its
/// [sources](std::error::Error::source), is not tried again: see [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCached {
    /// The kind is not declared.
    #[error("{kind} is not in the cache, because no informer was declared for it: call {fix} before")]
    Undeclared {
        /// The kind.
        kind: String,
        /// The calls that declare it.
        fix: String,
    },
    /// Whole objects are read, and the cache holds their metadata alone.
    #[error("only the metadata of {kind} is in the cache: {fix}")]
    MetadataOnly {
        /// The kind.
        kind: String,
        /// How to read the metadata, and how to cache whole objects.
        fix: String,
    },
    /// The cache keeps only a selection of the objects, and can hold none of those that are read.
    #[error("{what} cannot be read from the cache, which keeps only {selection}: {fix}")]
    OutsideSelection {
        /// What is read: the kind, with the key, the namespace or the labels.
        what: String,
        /// The namespaces, labels and fields that the cache keeps.
        selection: String,
        /// The declaration to change, or how to read from the server.
        fix: String,
    },
    /// The cache has no index of that name.
    #[error(
        "the cache of {kind} has no index {name:?}, only {known:?}: declare it with Manager::declare({fix}), or in the controller"
    )]
    NoSuchIndex {
        /// The kind.
        kind: String,
        /// The name of the index.
        name: String,
        /// The indexes of the cache.
        known: Vec<String>,
        /// The declaration with that index.
        fix: String,
    },
}

impl From<NotCached> for Error {
    fn from(error: NotCached) -> Self {
        Self::NotCached(error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<steersman_client::Error> for Error {
    fn from(error: steersman_client::Error) -> Self {
        Self::Client(Arc::new(error))
    }
}

impl From<steersman_cache::DecodeError> for Error {
    fn from(error: steersman_cache::DecodeError) -> Self {
        Self::Cache(error.into())
    }
}

impl Error {
    fn client(&self) -> Option<&steersman_client::Error> {
        if let Self::Client(error) = self { Some(error) } else { None }
    }

    /// The object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.client().is_some_and(steersman_client::Error::is_conflict)
    }

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. }) || self.client().is_some_and(steersman_client::Error::is_not_found)
    }

    /// The version that was asked for is forgotten by the server.
    pub fn is_gone(&self) -> bool {
        self.client().is_some_and(steersman_client::Error::is_expired)
    }

    /// The cache has not caught up with what was written.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// The manager's caches, as they are declared, can never answer the read: an object outside the declared namespaces,
    /// a kind that is not declared, a missing index. This is not [`is_not_found`](Self::is_not_found).
    pub fn is_not_cached(&self) -> bool {
        matches!(self, Self::NotCached(_))
    }

    /// The same may succeed later, with nothing changed: the cache has not caught up, or the server cannot answer now.
    pub fn is_retryable(&self) -> bool {
        self.is_stale() || self.client().is_some_and(steersman_client::Error::is_retryable)
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.client().is_some_and(steersman_client::Error::is_already_exists)
    }
}

/// Why a reconcile failed. Any error becomes one with `?`. The key is then tried again with back-off, unless a retry
/// cannot help:
///
/// - [`terminal`](Self::terminal) marks such an error;
/// - a read that the caches can never answer ([`NotCached`]) is recognised, also as a source of another error (test
///   `a_reconcile_that_reads_what_is_not_cached_is_not_tried_again`).
pub struct Failure {
    source: Box<dyn std::error::Error + Send + Sync>,
    terminal: bool,
}

impl Failure {
    /// An error that does not go away by trying again: the key is not tried until something changes.
    pub fn terminal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: error.into(), terminal: true }
    }

    /// An error that may go away by trying again, unless it is [`NotCached`]. Error types become one with `?`; this is for
    /// errors that are not `std::error::Error`, such as an `anyhow::Error`: `.map_err(Failure::new)?`.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        Self { terminal: is_not_cached(&*source), source }
    }

    /// An error that is only words.
    pub fn message(text: impl Into<String>) -> Self {
        Self { source: text.into().into(), terminal: false }
    }

    /// Whether trying again is no use.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error itself.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }
}

/// Whether an error, or one of its sources, is a read that the caches can never answer. An [`Error`] has a [`NotCached`] as its
/// source, so that it is found behind a transparent error, too, which hides the error that it wraps but not that error's source.
fn is_not_cached(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let of_cache = error.downcast_ref::<steersman_cache::Error>();
        let of_lister = |error: &steersman_cache::Error| matches!(error, steersman_cache::Error::NoSuchIndex { .. });
        error.is::<NotCached>() || of_cache.is_some_and(of_lister)
    })
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { terminal: is_not_cached(&error), source: Box::new(error) }
    }
}

impl fmt::Display for Failure {
    /// With all causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut told = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !told.contains(&text) {
                write!(f, ": {text}")?;
                told = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", if self.terminal { " (terminal: not retried)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_out_of_main_reads_like_its_message() {
        fn main(error: Error) -> Result<(), Box<dyn std::error::Error>> {
            Err(error)?
        }
        let not_declared = steersman_cache::Error::NotDeclared { kind: "Pod".to_owned(), fix: "declare".to_owned() };
        for error in [Error::DuplicateName { name: "cronjob".to_owned() }, not_declared.into(), Error::StartedTwice] {
            // The standard library prints what `main` returns with `{:?}`.
            assert_eq!(format!("{:?}", main(error.clone()).unwrap_err()), error.to_string());
        }
        assert_eq!(format!("{:?}", Failure::message("no mail")), "no mail");
        assert_eq!(format!("{:?}", Failure::terminal("no mail")), "no mail (terminal: not retried)");
    }

    #[test]
    fn what_is_no_error_type_becomes_a_failure_that_is_tried_again() {
        let boxed: Box<dyn std::error::Error + Send + Sync> = "the post office is closed".into();
        let failure = Failure::new(boxed);
        assert!(!failure.is_terminal());
        assert_eq!(failure.to_string(), "the post office is closed");
    }
}
