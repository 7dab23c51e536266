//! What can go wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_wire::{Fault, ObjectError};

use crate::ObjectKey;

/// Why something in this crate failed.
///
/// `{:?}` writes the same message as `{}`, because that is how Rust prints an error that `main`
/// returns.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is no key.
    #[error("{text:?} is no key of an object: write namespace/name, or the name alone for an object in no namespace")]
    InvalidKey {
        /// The text.
        text: String,
    },
    /// An object does not fit its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// There is no index of that name.
    #[error("there is no index {name:?}; there are {known:?}: add it with add_index")]
    NoSuchIndex {
        /// The name that was asked for.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// There is an index of that name already.
    #[error(
        "there is an index {name:?} already, and it is another one, or one of a function, which cannot be compared: choose another \
         name, or use a clone of the same Index"
    )]
    IndexExists {
        /// The name.
        name: String,
    },
    /// The informer has been stopped, which is final.
    #[error("the informer for {kind} is stopped, which is final: get a new one from the factory")]
    Stopped {
        /// What it was for.
        kind: String,
    },
    /// A task of the informer panicked.
    #[error(
        "the informer for {informer} has failed, and its cache is out of date: a task of it panicked: {panic}; this is a bug in the \
         client or in the cache, and the log has the place"
    )]
    Failed {
        /// What it was for.
        informer: String,
        /// The message of the panic.
        panic: String,
    },
    /// Nobody declared that objects of the kind are to be kept.
    #[error("{kind} is not in the cache, because no informer was declared for it: call {fix} before")]
    NotDeclared {
        /// The kind.
        kind: String,
        /// What to call.
        fix: String,
    },
    /// An informer cannot be made with these options.
    #[error("the informer's options make no sense: {problem}")]
    InvalidOptions {
        /// Why not.
        problem: String,
    },
    /// Somebody asked before for an informer of the same objects that keeps or reads them in another way.
    #[error(
        "there is an informer for {kind} already, and its {what} options are others: ask for it with the same options (of a \
         transform, with a clone), or select other objects"
    )]
    OtherOptions {
        /// What it is for.
        kind: String,
        /// Which of them: `storage` or `reflector`.
        what: &'static str,
    },
    /// Something was called that starts a task, and there is no runtime for it.
    #[error("the informer for {kind} needs a tokio runtime: call this within one")]
    NoRuntime {
        /// What it is for.
        kind: String,
    },
    /// Some caches are not filled yet.
    #[error("after {waited:?} these are not in the cache yet: {}", waiting.join("; "))]
    NotSynced {
        /// How long was waited.
        waited: Duration,
        /// What is missing, each with what its reflector last said.
        waiting: Vec<String>,
    },
    /// A handler has not been told of everything that was there from the start.
    #[error("after {waited:?} a handler has not been told of all {kind} that were there from the start: {}", match (ended, pending) {
        (true, _) => "it was removed, or its informer stopped".to_owned(),
        (false, 0) => "they are not in the cache yet".to_owned(),
        (false, pending) => format!("events that wait for it: {pending}"),
    })]
    HandlerNotSynced {
        /// The kind.
        kind: String,
        /// How long it was waited for, at most.
        waited: Duration,
        /// How many events wait for it.
        pending: usize,
        /// Whether it never will be, because it was removed or the informer stopped.
        ended: bool,
    },
    /// Handlers have not ended in time. They are stopped or removed nevertheless; only the wait has ended.
    #[error(
        "after {waited:?} these have not ended: {}; a handler must not block (wait again to go on waiting)", waiting.join("; ")
    )]
    NotEnded {
        /// How long was waited.
        waited: Duration,
        /// Which ones, each with the kind that it is for.
        waiting: Vec<String>,
    },
    /// The cache has not reached a version in time.
    #[error(
        "the cache of {kind} has not reached version {wanted} within {waited:?}; it is at {reached:?}{}",
        if *stopped { ", and its informer is stopped" } else { "" }
    )]
    NotReached {
        /// The kind.
        kind: String,
        /// Which version was wanted.
        wanted: String,
        /// Which version there is.
        reached: String,
        /// How long was waited.
        waited: Duration,
        /// Whether it never will, because the informer has been stopped.
        stopped: bool,
    },
    /// A version has no order.
    #[error("the version {version:?} is no number, so nobody can tell when the cache of {kind} has reached it")]
    IncomparableVersion {
        /// The kind.
        kind: String,
        /// The version.
        version: String,
    },
    /// The server could not be asked.
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

/// An object that does not fit the type that it is wanted as. Others are not harmed.
///
/// The decoder's own words are left out, because they quote the object, which may be a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {key} at version {resource_version} is not a {wanted}: {}", self.why())]
pub struct DecodeError {
    /// Of which kind the object says it is.
    pub kind: String,
    /// Which object.
    pub key: ObjectKey,
    /// Which state of it.
    pub resource_version: String,
    /// The Rust type.
    pub wanted: &'static str,
    /// Where in the stored JSON.
    pub line: usize,
    /// Where in that line.
    pub column: usize,
    /// Whether the type's own code panicked: then nobody knows where.
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

    /// The same, for those who report objects of all types.
    pub(crate) fn into_object_error(self) -> ObjectError {
        let Self { resource_version, wanted, line, column, .. } = &self;
        let message = format!("version {resource_version} of it is not a {wanted}: {}", self.why());
        let fault = Fault::Decode { message, line: *line, column: *column };
        ObjectError { index: None, key: Some(self.key.to_string()), fault }
    }
}
