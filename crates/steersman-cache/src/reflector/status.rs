//! What a reflector says of itself.

use std::time::Duration;

use steersman_client::Error;
use steersman_wire::ObjectError;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a reflector is doing, and what went wrong last.
#[derive(Debug, Clone)]
pub struct ReflectorStatus {
    /// What it reads, such as `/api/v1/pods`.
    pub what: String,
    /// What it is doing.
    pub phase: Phase,
    /// Since when. A watch that the server has ended, as it does every few minutes, and that was started again counts as one.
    pub since: Instant,
    /// What went wrong last. It stays when all is well again: compare `at` with `since`.
    pub last_error: Option<ReflectorError>,
    /// How many lists it has read to their ends.
    pub lists: u64,
    /// How many watches it has started.
    pub watches: u64,
    /// How many times an object could not be read, and was passed over, or did not decode where it had to be decoded when it came: for
    /// an index of a function, or to be kept decoded. Such a one is in the cache, and who asks for it is told.
    pub object_errors: u64,
    /// The last of those, with its key where that could be read.
    pub last_object_error: Option<ObjectError>,
}

/// What a reflector is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Nothing yet.
    Starting,
    /// It reads all objects, as a list or as the beginning of a watch.
    Listing,
    /// It follows the changes.
    Watching,
    /// Something failed, and it waits before it tries again.
    BackingOff {
        /// Until when.
        until: Instant,
    },
    /// It has ended and will not start again.
    Stopped,
}

/// Why a reflector could not go on, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReflectorError {
    /// What kind of failure it is.
    pub reason: Reason,
    /// What happened, and what can be done.
    pub message: String,
    /// What happened, in short: without the request, and without advice.
    pub cause: String,
    /// When.
    pub at: Instant,
}

/// What kind of failure stops a reflector for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The server does not serve the kind: it is not installed, or not any more.
    NotInstalled,
    /// The user may not list or watch the kind.
    Forbidden,
    /// The server cannot be reached, or does not answer.
    Unreachable,
    /// The server has too much to do.
    Throttled,
    /// The version is no longer known to the server: everything is listed anew.
    Expired,
    /// Anything else.
    Other,
}

impl ReflectorStatus {
    pub(crate) fn new(what: String) -> Self {
        Self {
            what,
            phase: Phase::Starting,
            since: Instant::now(),
            last_error: None,
            lists: 0,
            watches: 0,
            object_errors: 0,
            last_object_error: None,
        }
    }

    /// How long the request that is under way has no result: a list that is not complete, or a watch
    /// that has not begun since the last back-off. `None` where no request waits.
    pub fn no_response_for(&self) -> Option<Duration> {
        let now = Instant::now();
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

    /// It has ended for good, and nobody wanted that.
    pub(crate) fn fail(&mut self, why: &str) {
        let message = format!("{}: {why}; this is a bug, and the log has more of it", self.what);
        let (reason, cause) = (Reason::Other, why.to_owned());
        self.last_error = Some(ReflectorError { reason, message, cause, at: Instant::now() });
        self.enter(Phase::Stopped);
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.since = Instant::now();
        }
    }
}

/// Says that an object is passed over.
pub(super) fn report_unreadable(status: &watch::Sender<ReflectorStatus>, error: ObjectError) {
    tracing::warn!(what = status.borrow().what, %error, "an object is passed over");
    status.send_modify(|status| status.note(error));
}

/// Says that an object is in the cache that does not decode.
pub(crate) fn report_undecoded(status: &watch::Sender<ReflectorStatus>, error: ObjectError) {
    tracing::warn!(what = status.borrow().what, %error, "an object does not decode: who asks for it is told, and others are not harmed");
    status.send_modify(|status| status.note(error));
}

impl std::fmt::Display for ReflectorStatus {
    /// One line for a person who wonders why nothing comes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (now, what) = (Instant::now(), &self.what);
        let seconds = now.saturating_duration_since(self.since).as_secs();
        let error = self.last_error.as_ref().filter(|_| self.phase != Phase::Watching);
        // The line begins with it.
        let problem = error.map(|error| error.message.strip_prefix(&**what).unwrap_or(&error.message));
        let problem = problem.map(|problem| problem.trim_start_matches([':', ' ']));
        // What failed before is not the state of the request that is under way.
        if let (Some(waited), Some(problem)) = (self.no_response_for(), problem) {
            return write!(f, "{what}: no response for {} s; the attempt before failed: {problem}", waited.as_secs());
        }
        match self.phase {
            Phase::Starting => write!(f, "{what}: not started"),
            Phase::Listing => write!(f, "{what}: listing for {seconds} s"),
            Phase::Watching => write!(f, "{what}: watching for {seconds} s"),
            Phase::BackingOff { until } => {
                let left = until.saturating_duration_since(now).as_secs_f64().ceil();
                write!(f, "{what}: trying again in {left} s")
            }
            Phase::Stopped => write!(f, "{what}: stopped"),
        }?;
        problem.map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}

impl ReflectorError {
    /// What an error of the client means for the reflector of `what`, which has read `lists` lists.
    pub(super) fn new(what: &str, lists: u64, error: &Error) -> Self {
        let (reason, hint) = if error.is_not_found() {
            (
                Reason::NotInstalled,
                "the server does not serve this kind: install it (for a custom resource, apply its CustomResourceDefinition); it is \
                 looked for again until it is there",
            )
        } else if error.is_forbidden() {
            (Reason::Forbidden, "grant the verbs list and watch on it to this user; they are tried again until then")
        } else if error.is_expired() {
            (Reason::Expired, "everything is listed again")
        } else if error.is_too_many_requests() {
            (Reason::Throttled, "the server asks for patience")
        } else if matches!(error, Error::Transport { .. } | Error::Timeout { .. }) {
            let hint = if lists > 0 { "cached objects are still served" } else { "it is tried again" };
            (Reason::Unreachable, hint)
        } else {
            (Reason::Other, "it is tried again")
        };
        let cause = cause(error);
        let message = format!("{what} cannot be read: {cause} ({hint})");
        Self { reason, message, cause, at: Instant::now() }
    }
}

/// What an error of the client comes from, without the request.
fn cause(error: &Error) -> String {
    match error {
        Error::Api { status, .. } => {
            format!("the server answered {} {}: {}", status.code, status.reason, status.message)
        }
        Error::Transport { asked, source } => with_server(&asked.url, source),
        Error::Timeout { asked, timeout } => with_server(&asked.url, timeout),
        Error::Decode { asked, problem } => with_server(&asked.url, problem),
        Error::Object { asked, error } => with_server(&asked.url, error),
        Error::TooLarge { asked, .. } => {
            let text = error.to_string();
            text.strip_prefix(&format!("{asked}: ")).map_or_else(|| text.clone(), str::to_owned)
        }
        other => other.to_string(),
    }
}

/// The error with the address of the server, where that is known.
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
