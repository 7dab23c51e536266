//! The errors of this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_wire::{ObjectError, ObjectFault};

use crate::ObjectKey;

/// An error of this crate.
///
/// `{:?}` writes the same message as `{}`, because that is how Rust prints an error that `main`
/// returns.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not an object key.
    #[error("invalid object key {text:?}: expected namespace/name or name")]
    InvalidKey {
        /// The text.
        text: String,
    },
    /// An object does not fit its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// No index has that name.
    #[error("no index {name:?}: the indexes are {known:?}; add it with add_index")]
    NoSuchIndex {
        /// The requested name.
        name: String,
        /// The names of all indexes.
        known: Vec<String>,
    },
    /// Another index has that name.
    #[error(
        "index {name:?} exists and differs, or is a function, which cannot be compared: use another name, or a clone \
         of the same Index"
    )]
    IndexExists {
        /// The name.
        name: String,
    },
    /// The informer was stopped.
    #[error("the informer for {kind} is stopped: get a new one from the factory")]
    Stopped {
        /// The kind of the informer.
        kind: String,
    },
    /// A task of the informer panicked.
    #[error(
        "the informer for {informer} has failed, and its cache is out of date: a task of it panicked: {panic}; this is \
         a bug in the client or in the cache, see the log"
    )]
    Failed {
        /// The kind of the informer.
        informer: String,
        /// The message of the panic.
        panic: String,
    },
    /// No informer was declared for the kind.
    #[error("{kind} is not in the cache: no informer was declared for it; call {fix} first")]
    NotDeclared {
        /// The kind.
        kind: String,
        /// The call that declares it.
        fix: String,
    },
    /// The options of an informer are invalid.
    #[error("invalid informer options: {problem}")]
    InvalidOptions {
        /// The problem.
        problem: String,
    },
    /// The informer of these objects exists with other options.
    #[error(
        "the informer for {kind} exists with other {options} options: request it with the same options (a transform as \
         a clone), or select other objects"
    )]
    OptionsConflict {
        /// The kind of the informer.
        kind: String,
        /// Which options: `storage` or `reflector`.
        options: &'static str,
    },
    /// A call that spawns a task was made outside of a tokio runtime.
    #[error("the informer for {kind} needs a tokio runtime: call this within one")]
    NoRuntime {
        /// The kind of the informer.
        kind: String,
    },
    /// Some caches have not synced in time.
    #[error("caches not synced after {waited:?}: {}", waiting.join("; "))]
    NotSynced {
        /// The limit of the wait.
        waited: Duration,
        /// The status of each reflector whose list is missing.
        waiting: Vec<String>,
    },
    /// A handler has not received all initial objects in time.
    #[error("a handler of {kind} has not received all initial objects after {waited:?}: {}", match (ended, pending) {
        (true, _) => "it was removed, or its informer stopped".to_owned(),
        (false, 0) => "the cache has not synced".to_owned(),
        (false, pending) => format!("events pending: {pending}"),
    })]
    HandlerNotSynced {
        /// The kind.
        kind: String,
        /// The limit of the wait.
        waited: Duration,
        /// Number of events that wait for the handler.
        pending: usize,
        /// Whether the handler was removed or its informer stopped.
        ended: bool,
    },
    /// Handlers have not ended in time. They are stopped or removed anyway; only the wait has
    /// ended.
    #[error(
        "not stopped after {waited:?}: {}; a handler must not block (call this again to continue waiting)",
        waiting.join("; ")
    )]
    StopTimeout {
        /// The limit of the wait.
        waited: Duration,
        /// The handlers, each with its kind.
        waiting: Vec<String>,
    },
    /// The cache has not reached a version in time.
    #[error(
        "the cache of {kind} has not reached version {wanted} within {waited:?}; it is at {reached:?}{}",
        if *stopped { ", and its informer is stopped" } else { "" }
    )]
    VersionNotReached {
        /// The kind.
        kind: String,
        /// The awaited version.
        wanted: String,
        /// The version of the cache.
        reached: String,
        /// The limit of the wait.
        waited: Duration,
        /// Whether the informer was stopped, so that the version is never reached.
        stopped: bool,
    },
    /// A version cannot be compared.
    #[error("version {version:?} is not a number, so a wait for it in the cache of {kind} cannot end")]
    IncomparableVersion {
        /// The kind.
        kind: String,
        /// The version.
        version: String,
    },
    /// A request failed.
    #[error("{0}")]
    Client(#[source] Arc<steersman_client::Error>),
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

impl Error {
    /// An object does not exist, or a kind is not served.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_not_found())
    }
}

/// An object does not fit its type. Other objects are not affected.
///
/// The decoder's own message is left out, because it quotes the object, which may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {key} at version {resource_version} is not a {wanted}: {}", self.why())]
pub struct DecodeError {
    /// Kind of the object.
    pub kind: String,
    /// Key of the object.
    pub key: ObjectKey,
    /// Version of the object.
    pub resource_version: String,
    /// The Rust type.
    pub wanted: &'static str,
    /// Line in the stored JSON.
    pub line: usize,
    /// Column in that line.
    pub column: usize,
    /// Whether the type's own code panicked. Line and column are then 0.
    pub panicked: bool,
}

impl DecodeError {
    fn why(&self) -> String {
        let Self { line, column, panicked, .. } = self;
        match panicked {
            true => "the code of that type panicked".to_owned(),
            false => format!("line {line}, column {column} of its JSON does not fit"),
        }
    }

    /// The same error without the type, for reports of objects of all kinds.
    pub(crate) fn into_object_error(self) -> ObjectError {
        let Self { resource_version, wanted, line, column, .. } = &self;
        let message = format!("version {resource_version} of it is not a {wanted}: {}", self.why());
        let fault = ObjectFault::Decode { message, line: *line, column: *column };
        ObjectError { index: None, key: Some(self.key.to_string()), fault }
    }
}
