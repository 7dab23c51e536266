//! Errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The error of this crate.
///
/// `{:?}` writes the same message as `{}`, because Rust prints an error that `main` returns with
/// `{:?}`.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused a request, or could not be reached.
    #[error("{0}")]
    Client(#[source] Arc<steersman_client::Error>),
    /// A cache failed.
    #[error(transparent)]
    Cache(#[from] steersman_cache::Error),
    /// The object is not in the cache.
    #[error("{kind} {key} not found in the cache")]
    NotFound {
        /// The kind.
        kind: String,
        /// The key of the object.
        key: String,
    },
    /// The caches of the manager can never serve this read, as they are declared.
    #[error("{0}")]
    NotCached(#[source] NotCached),
    /// The cache has not caught up in time with a write of this client.
    #[error(
        "the cache of {kind} has not caught up with a write to {key} within {waited:?}: it has reached version {reached:?}, \
         wanted is {wanted}. If the watch is down, use live() to read from the server, or stale_ok() to read the cache as it is"
    )]
    Stale {
        /// The kind.
        kind: String,
        /// The key of the object.
        key: String,
        /// The version or the deletion that the read waits for.
        wanted: String,
        /// The version that the cache has reached.
        reached: String,
        /// How long the read has waited.
        waited: Duration,
    },
    /// Two controllers have the same name.
    #[error("the manager already has a controller named {name:?}: give one of them another name with named(…)")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The name of a controller or an event recorder is invalid.
    #[error("invalid name {name:?} of a controller, which is in its Events: {problem}")]
    InvalidName {
        /// The name.
        name: String,
        /// What names may have.
        problem: String,
    },
    /// A controller, runnable or server of the manager failed, so the manager stopped.
    #[error("{name} failed, so the manager stopped: {problem}")]
    Runnable {
        /// Its name.
        name: String,
        /// The error or the panic message.
        problem: String,
    },
    /// Controllers, runnables or servers did not stop within the grace period and were aborted.
    #[error("not stopped within the grace period of {waited:?}, aborted: {}", names.join(", "))]
    Grace {
        /// The grace period.
        waited: Duration,
        /// The names of what was aborted.
        names: Vec<String>,
    },
    /// The write was not sent: this replica does not lead.
    #[error("not sent, because this replica does not lead: {0}")]
    NotLeader(#[source] Arc<steersman_client::Error>),
    /// The write was not sent: the manager permits [only declared
    /// writes](crate::ManagerBuilder::only_declared_writes), and this one is not. The error names
    /// the declaration to add.
    #[error("{0}")]
    UndeclaredWrite(#[source] Arc<steersman_client::Error>),
    /// The manager is offline and cannot ask the server for the scope of a dynamic kind.
    #[error(
        "the scope of {kind} is not known without a server: call namespaced() or cluster_scoped() on {call}, so that \
         its roles can be derived"
    )]
    UnknownScope {
        /// The kind.
        kind: String,
        /// The call that declares it.
        call: String,
    },
    /// This replica has lost the leadership, so the manager stopped.
    #[error("leadership lost, so the manager stopped (lease {lease}): {problem}")]
    LeadershipLost {
        /// The name of the Lease.
        lease: String,
        /// Why it was lost.
        problem: String,
    },
    /// A server of the manager cannot listen.
    #[error(transparent)]
    Serve(Arc<steersman_http::ServeError>),
    /// The settings of leader election cannot work.
    #[error("invalid leader election: {problem}")]
    InvalidLeaderElection {
        /// What is wrong, and what to use instead.
        problem: String,
    },
    /// The manager was started before.
    #[error("the manager was started before: a manager starts once")]
    StartedTwice,
    /// The manager has stopped.
    #[error("the manager has stopped: nothing can be added to it")]
    Stopped,
    /// A cache did not stop in time.
    #[error(
        "{what} has not stopped within {waited:?}: a function that it calls does not return, such as an index function or a \
         transform"
    )]
    NotStopped {
        /// What has not stopped.
        what: String,
        /// How long the call has waited.
        waited: Duration,
    },
    /// The cache of a kind cannot be removed, because a controller watches the kind.
    #[error(
        "the cache of {kind} cannot be removed, because {} watches it: call remove_and_wait() on watches that were added at run \
         time; the watches of a ControllerBuilder stay as long as the controller",
        by.join(", ")
    )]
    InUse {
        /// The kind.
        kind: String,
        /// The controllers that watch it.
        by: Vec<String>,
    },
    /// An object is not valid for the operation.
    #[error("{0}")]
    InvalidObject(String),
    /// An object has another controller.
    #[error("{object} is already controlled by {by}: {wanted} cannot control it, too")]
    AlreadyControlled {
        /// The name of the object.
        object: String,
        /// The kind and name of its controller.
        by: String,
        /// The kind and name of the other owner.
        wanted: String,
    },
    /// A kind is registered with another type.
    #[error("{kind} is already registered as {registered} and cannot be {wanted}, too: use one type for each kind")]
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

/// Why the caches of the manager can never serve a read, as they are declared. A retry does not
/// help: the declaration has to change. A reconcile that fails with this error, or with an error
/// that has it among its [sources](std::error::Error::source), is not retried: see
/// [`ReconcileError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCached {
    /// The kind is not declared.
    #[error("{kind} is not cached, because it is not declared: call {fix} first")]
    Undeclared {
        /// The kind.
        kind: String,
        /// The calls that declare it.
        fix: String,
    },
    /// The read wants whole objects, and the cache holds only their metadata.
    #[error("only the metadata of {kind} is in the cache: {fix}")]
    MetadataOnly {
        /// The kind.
        kind: String,
        /// How to read the metadata, and how to cache whole objects.
        fix: String,
    },
    /// The cache keeps a selection of the objects, and can hold none of those that the read wants.
    #[error("{what} cannot be read from the cache, which keeps only {selection}: {fix}")]
    OutsideSelection {
        /// What the read wants: the kind, with the key, the namespace or the labels.
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

impl From<steersman_http::ServeError> for Error {
    fn from(error: steersman_http::ServeError) -> Self {
        Self::Serve(Arc::new(error))
    }
}

impl From<steersman_client::Error> for Error {
    fn from(error: steersman_client::Error) -> Self {
        use steersman_client::GateError;
        match error {
            steersman_client::Error::Gate { gate: GateError::Closed, .. } => Self::NotLeader(Arc::new(error)),
            steersman_client::Error::WriteRefused { .. } => Self::UndeclaredWrite(Arc::new(error)),
            error => Self::Client(Arc::new(error)),
        }
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

    /// The server no longer has the requested version.
    pub fn is_gone(&self) -> bool {
        self.client().is_some_and(steersman_client::Error::is_expired)
    }

    /// The cache has not caught up with a write.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// The caches of the manager can never serve the read, as they are declared: the object is
    /// outside the declared namespaces, the kind is not declared, or an index is missing. This is
    /// not [`is_not_found`](Self::is_not_found).
    pub fn is_not_cached(&self) -> bool {
        matches!(self, Self::NotCached(_))
    }

    /// The same call may succeed later: the cache has not caught up, or the server is not
    /// available.
    pub fn is_retryable(&self) -> bool {
        self.is_stale() || self.client().is_some_and(steersman_client::Error::is_retryable)
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.client().is_some_and(steersman_client::Error::is_already_exists)
    }
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Why a reconcile failed. Every [`std::error::Error`] becomes one with `?`. The key is then
/// retried with back-off, except
///
/// - an error that [`terminal`](Self::terminal) marks;
/// - a read that the caches can never serve ([`NotCached`]), also as a source of another error
///   (test `a_reconcile_that_reads_what_is_not_cached_is_not_tried_again`);
/// - a write that the manager does not declare ([`Error::UndeclaredWrite`]), also as a source.
pub struct ReconcileError {
    source: BoxedError,
    terminal: bool,
}

impl ReconcileError {
    /// An error that a retry cannot solve. The key is not reconciled until something changes.
    pub fn terminal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: error.into(), terminal: true }
    }

    /// An error that is retried, unless it is [`NotCached`] or an undeclared write. Error types
    /// become one with `?`. This is for errors that do not implement `std::error::Error`, such as
    /// an `anyhow::Error`: `.map_err(ReconcileError::new)?`.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = error.into();
        Self { terminal: is_permanent(&*source), source }
    }

    /// An error with a message and without a source. It is retried.
    pub fn message(text: impl Into<String>) -> Self {
        Self { source: text.into().into(), terminal: false }
    }

    /// Returns `true` if the reconcile is not retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The error itself.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.source
    }
}

/// Returns `true` if an error, or one of its sources, is a read that the caches can never serve, or
/// a write that is not declared. An [`Error`] has its [`NotCached`] as a source, so that the search
/// finds it behind a transparent error, too: that hides the error that it wraps, but not the source
/// of that error.
fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let of_cache = error.downcast_ref::<steersman_cache::Error>();
        let of_lister = |error: &steersman_cache::Error| matches!(error, steersman_cache::Error::NoSuchIndex { .. });
        let of_client = error.downcast_ref::<steersman_client::Error>();
        let of_client =
            of_client.or_else(|| error.downcast_ref::<Arc<steersman_client::Error>>().map(|error| &**error));
        let is_undeclared = matches!(of_client, Some(steersman_client::Error::WriteRefused { .. }));
        error.is::<NotCached>() || of_cache.is_some_and(of_lister) || is_undeclared
    })
}

/// An error that becomes a [`ReconcileError`] with `?`: every `std::error::Error`. It exists for
/// the message of the compiler.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not become a `ReconcileError` with `?`",
    // With `?`, the compiler shows nothing but the label.
    label = "not an error type: use `.map_err(ReconcileError::message)?` with a text, and `.map_err(ReconcileError::new)?` with others"
)]
pub trait ReconcileCause: Into<BoxedError> {}

#[diagnostic::do_not_recommend]
impl<E: std::error::Error + Send + Sync + 'static> ReconcileCause for E {}

impl<E: ReconcileCause> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl From<ReconcileError> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: ReconcileError) -> Self {
        error.source
    }
}

impl fmt::Display for ReconcileError {
    /// The error with all its sources.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut written = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !written.contains(&text) {
                write!(f, ": {text}")?;
                written = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for ReconcileError {
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
            // The standard library prints the error of `main` with `{:?}`.
            assert_eq!(format!("{:?}", main(error.clone()).unwrap_err()), error.to_string());
        }
        assert_eq!(format!("{:?}", ReconcileError::message("no mail")), "no mail");
        assert_eq!(format!("{:?}", ReconcileError::terminal("no mail")), "no mail (terminal: not retried)");
    }

    #[test]
    fn an_error_that_implements_no_trait_is_retried() {
        let boxed: Box<dyn std::error::Error + Send + Sync> = "the post office is closed".into();
        let failure = ReconcileError::new(boxed);
        assert!(!failure.is_terminal());
        assert_eq!(failure.to_string(), "the post office is closed");
    }
}
