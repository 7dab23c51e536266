//! The status of a reflector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use steersman_client::Error;
use steersman_wire::ObjectError;
use tokio::sync::watch;

/// What a reflector is doing, and its last error.
#[derive(Debug, Clone)]
pub struct ReflectorStatus {
    /// What it lists and watches, such as `/api/v1/pods`.
    pub resource: String,
    /// Current phase.
    pub phase: Phase,
    /// Start of the phase. The server ends every watch after some minutes; consecutive watches are
    /// one phase.
    pub since: Instant,
    /// Last error. It stays after the reflector has recovered: compare `at` with `since`.
    pub last_error: Option<ReflectorError>,
    /// Number of complete lists.
    pub lists: u64,
    /// Number of watches started.
    pub watches: u64,
    /// Number of objects that could not be read and were skipped, or that did not decode where
    /// decoding on arrival was required: for an index by function, or for
    /// [`StorageMode::Decoded`](crate::StorageMode::Decoded). The latter are in the cache, and
    /// reading one returns the error.
    pub object_errors: u64,
    /// Last of these errors, with the key of the object if that could be read.
    pub last_object_error: Option<ObjectError>,
    restarts: Restarts,
    progress: Arc<Progress>,
}

/// How often a list or a watch was started again, by reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Restarts([u64; REASONS.len()]);

/// The label values of [`ReflectorStatus::watch_restarts`].
const REASONS: [&str; 7] = ["ended", "not_installed", "forbidden", "unreachable", "throttled", "expired", "other"];

/// When the server last sent something that moves the cache forward.
#[derive(Debug)]
pub(super) struct Progress {
    created: Instant,
    /// Nanoseconds since then; zero before the first time.
    last: AtomicU64,
}

impl Progress {
    /// Records progress now.
    pub(super) fn record(&self) {
        let since = u64::try_from(now().saturating_duration_since(self.created).as_nanos()).unwrap_or(u64::MAX);
        self.last.store(since.max(1), Ordering::Relaxed);
    }
}

/// Phase of a reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Not started.
    Starting,
    /// Reads all objects, as a list or as the beginning of a watch.
    Listing,
    /// Follows the changes.
    Watching,
    /// Waits after a failure before it retries.
    BackingOff {
        /// End of the wait.
        until: Instant,
    },
    /// Ended; it does not start again.
    Stopped,
}

/// Why a list or a watch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReflectorError {
    /// Class of the failure.
    pub reason: Reason,
    /// What failed, why, and what to do.
    pub message: String,
    /// Why it failed, without the request and without advice.
    pub cause: String,
    /// Time of the failure.
    pub at: Instant,
}

/// Class of a [`ReflectorError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The server does not serve the kind: it is not installed, or was removed.
    NotInstalled,
    /// The user may not list or watch the kind.
    Forbidden,
    /// The server cannot be reached, or does not respond.
    Unreachable,
    /// The server is overloaded.
    Throttled,
    /// The server no longer has the version: the reflector lists again.
    Expired,
    /// Anything else.
    Other,
}

/// Shows the status of a [`Reflector`](crate::Reflector). Clones show the same one.
#[derive(Debug, Clone)]
pub struct StatusReader(watch::Receiver<ReflectorStatus>);

impl StatusReader {
    pub(super) fn new(status: watch::Receiver<ReflectorStatus>) -> Self {
        Self(status)
    }

    /// The current status.
    pub fn get(&self) -> ReflectorStatus {
        self.0.borrow().clone()
    }

    /// Waits until the status satisfies a condition, and returns it. Returns `None` if the
    /// reflector is dropped before.
    pub async fn wait_for(&self, condition: impl FnMut(&ReflectorStatus) -> bool) -> Option<ReflectorStatus> {
        self.0.clone().wait_for(condition).await.ok().map(|status| status.clone())
    }
}

/// The time by the clock of tokio, which tests can pause, without its type.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl ReflectorStatus {
    /// The status of a reflector that has not started.
    pub fn new(resource: String) -> Self {
        Self {
            resource,
            phase: Phase::Starting,
            since: now(),
            last_error: None,
            lists: 0,
            watches: 0,
            object_errors: 0,
            last_object_error: None,
            restarts: Restarts::default(),
            progress: Arc::new(Progress { created: now(), last: AtomicU64::new(0) }),
        }
    }

    /// When the server last confirmed the version of the cache: by a list, an event or a bookmark.
    /// The server sends a bookmark about every minute. `None` before the first list.
    pub fn last_progress(&self) -> Option<Instant> {
        match self.progress.last.load(Ordering::Relaxed) {
            0 => None,
            since => Some(self.progress.created + Duration::from_nanos(since)),
        }
    }

    /// How often a list or a watch was started again, by reason: `ended` for watches that the
    /// server ended, `not_installed`, `forbidden`, `unreachable`, `throttled`, `expired` or `other`
    /// for failures.
    pub fn watch_restarts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        REASONS.into_iter().zip(self.restarts.0)
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Counts a watch that the server ended, or a failure.
    pub(super) fn count_restart(&mut self, reason: Option<Reason>) {
        let place = match reason {
            None => 0,
            Some(Reason::NotInstalled) => 1,
            Some(Reason::Forbidden) => 2,
            Some(Reason::Unreachable) => 3,
            Some(Reason::Throttled) => 4,
            Some(Reason::Expired) => 5,
            Some(Reason::Other) => 6,
        };
        self.restarts.0[place] += 1;
    }

    /// Age of the pending request: a list that is not complete, or a watch that has not begun since
    /// the last back-off. `None` if no request is pending.
    pub fn no_response_for(&self) -> Option<Duration> {
        let now = now();
        match self.phase {
            Phase::Listing => Some(now.saturating_duration_since(self.since)),
            Phase::BackingOff { until } => now.checked_duration_since(until),
            Phase::Starting | Phase::Watching | Phase::Stopped => None,
        }
    }

    fn note(&mut self, error: ObjectError) {
        self.object_errors += 1;
        self.last_object_error = Some(error);
    }

    /// The reflector ended because of a bug.
    pub(crate) fn fail(&mut self, why: &str) {
        let message = format!("{}: {why}; this is a bug, see the log", self.resource);
        let (reason, cause) = (Reason::Other, why.to_owned());
        self.last_error = Some(ReflectorError { reason, message, cause, at: now() });
        self.enter(Phase::Stopped);
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.since = now();
        }
    }
}

/// Reports an object that is skipped.
pub(super) fn report_unreadable(status: &watch::Sender<ReflectorStatus>, error: ObjectError) {
    tracing::warn!(resource = status.borrow().resource, %error, "object skipped");
    status.send_modify(|status| status.note(error));
}

/// Reports an object in the cache that does not decode.
pub(crate) fn report_decode_error(status: &watch::Sender<ReflectorStatus>, error: ObjectError) {
    tracing::warn!(resource = status.borrow().resource, %error, "object does not decode, reading it returns the error");
    status.send_modify(|status| status.note(error));
}

impl std::fmt::Display for ReflectorStatus {
    /// One line that explains why the cache does not change.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (now, resource) = (now(), &self.resource);
        let seconds = now.saturating_duration_since(self.since).as_secs();
        let error = self.last_error.as_ref().filter(|_| self.phase != Phase::Watching);
        // The line begins with the resource already.
        let problem = error.map(|error| error.message.strip_prefix(&**resource).unwrap_or(&error.message));
        let problem = problem.map(|problem| problem.trim_start_matches([':', ' ']));
        // The last failure is not the state of the pending request.
        if let (Some(waited), Some(problem)) = (self.no_response_for(), problem) {
            return write!(
                f,
                "{resource}: no response for {} s; the previous attempt failed: {problem}",
                waited.as_secs()
            );
        }
        match self.phase {
            Phase::Starting => write!(f, "{resource}: not started"),
            Phase::Listing => write!(f, "{resource}: listing for {seconds} s"),
            Phase::Watching => write!(f, "{resource}: watching for {seconds} s"),
            Phase::BackingOff { until } => {
                let left = until.saturating_duration_since(now).as_secs_f64().ceil();
                write!(f, "{resource}: retrying in {left} s")
            }
            Phase::Stopped => write!(f, "{resource}: stopped"),
        }?;
        problem.map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}

impl ReflectorError {
    /// The failure of a reflector of `resource` that has completed `lists` lists.
    pub(super) fn new(resource: &str, lists: u64, error: &Error) -> Self {
        let (reason, hint) = if error.is_not_found() {
            (
                Reason::NotInstalled,
                "the server does not serve this kind: install it (for a custom resource, apply its \
                 CustomResourceDefinition); will retry until it is served",
            )
        } else if error.is_forbidden() {
            (Reason::Forbidden, "grant the verbs list and watch on it to this user; will retry until then")
        } else if error.is_expired() {
            (Reason::Expired, "listing again")
        } else if error.is_too_many_requests() {
            (Reason::Throttled, "the server is overloaded, will retry")
        } else if matches!(error, Error::Transport { .. } | Error::Timeout { .. }) {
            let hint = if lists > 0 { "cached objects are still served" } else { "will retry" };
            (Reason::Unreachable, hint)
        } else {
            (Reason::Other, "will retry")
        };
        let cause = cause(error);
        let message = format!("{resource} cannot be read: {cause} ({hint})");
        Self { reason, message, cause, at: now() }
    }
}

/// The cause of an error of the client, without the request.
fn cause(error: &Error) -> String {
    match error {
        Error::Api { status, .. } => {
            format!("the server answered {} {}: {}", status.code, status.reason, status.message)
        }
        Error::Transport { request, source } => with_server(&request.url, source),
        Error::Timeout { request, timeout } => with_server(&request.url, timeout),
        Error::Decode { request, problem } => with_server(&request.url, problem),
        Error::Object { request, error } => with_server(&request.url, error),
        Error::TooLarge { request, .. } => {
            let text = error.to_string();
            text.strip_prefix(&format!("{request}: ")).map_or_else(|| text.clone(), str::to_owned)
        }
        other => other.to_string(),
    }
}

/// The error with the address of the server, if that is known.
fn with_server(url: &str, error: &dyn std::error::Error) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}: {error}", rest.split('/').next().unwrap_or(rest)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_names_the_server_and_not_the_request() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let url = "https://10.0.0.1:6443/api/v1/pods?limit=500";
        assert_eq!(with_server(url, &refused), "https://10.0.0.1:6443: connection refused");
        assert_eq!(with_server("/api/v1/pods", &refused), "connection refused");
    }
}
