//! What can go wrong, and what was asked of which server when it did.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use kube_core::Status;
use steersman_wire::ObjectError;
use tower::BoxError;

use crate::rest_mapper::MappingError;

/// What was asked of which server. It holds no body and no header, so that it can be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// Where: the server, the path and the query.
    pub url: String,
}

impl Asked {
    /// Whether the path is one below the group of a custom resource: `/apis/<group with a dot>/<version>/…`.
    fn is_of_custom_resource(&self) -> bool {
        let path = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let path = path.split('?').next().unwrap_or_default();
        // The address of a server may have a path of its own.
        let Some((_, below)) = path.split_once("/apis/") else { return false };
        let mut segments = below.split('/');
        segments.next().is_some_and(|group| group.contains('.')) && segments.nth(1).is_some_and(|it| !it.is_empty())
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

/// Why a request failed. No text of it holds any part of a body but the server's own message: a body may be a Secret.
///
/// `Debug` is the same text as `Display`, because `fn main() -> Result<(), Box<dyn std::error::Error>>` prints it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused.
    #[error("{asked}: the server answered {} {}: {}{}", status.code, status.reason, status.message, hint(asked, status))]
    Api {
        /// What was asked.
        asked: Asked,
        /// The server's answer.
        status: Box<Status>,
    },
    /// The request could not be sent or its answer not be read.
    #[error("{asked}: {source}")]
    Transport {
        /// What was asked.
        asked: Asked,
        /// What went wrong.
        #[source]
        source: TransportError,
    },
    /// The server did not answer in time, or stopped in the middle.
    #[error("{asked}: {timeout}")]
    Timeout {
        /// What was asked.
        asked: Asked,
        /// Which limit was reached.
        #[source]
        timeout: TimeoutError,
    },
    /// The answer is longer than the client collects.
    #[error(
        "{asked}: the answer is longer than {limit} bytes: ask for less (a limit for lists), read it as a stream \
         (list_raw, stream), or raise ClientBuilder::response_bytes_max"
    )]
    TooLarge {
        /// What was asked.
        asked: Asked,
        /// The limit: [`ClientBuilder::response_bytes_max`](crate::ClientBuilder::response_bytes_max).
        limit: usize,
    },
    /// The answer is not what was asked for.
    #[error("{asked}: {problem}")]
    Decode {
        /// What was asked.
        asked: Asked,
        /// What is wrong with it, and where, without its contents.
        problem: DecodeError,
    },
    /// One object of the answer cannot be read; its neighbours can.
    #[error("{asked}: {error}")]
    Object {
        /// What was asked.
        asked: Asked,
        /// Which one, and why, without its contents.
        error: Box<ObjectError>,
    },
    /// The request was wrong before it was sent.
    #[error("{0}")]
    InvalidRequest(String),
    /// The configuration of the client is wrong.
    #[error("cannot set up the client: {0}")]
    Config(#[source] BoxError),
    /// It could not be found out what the server serves. All who waited for the same answer share the reason.
    #[error("what the server serves is not known: {0}")]
    Discovery(#[source] Arc<Error>),
    /// The server serves no such kind, or more than one that could be meant.
    #[error(transparent)]
    Mapping(#[from] Box<MappingError>),
}

/// What can be done about a refusal.
fn hint(asked: &Asked, status: &Status) -> &'static str {
    // The server names an object that does not exist. A path that it does not serve has no name.
    let is_unnamed = status.details.as_ref().is_none_or(|details| details.name.is_empty());
    if status.code == 404 && is_unnamed && asked.is_of_custom_resource() {
        " (the server does not serve this resource: for a custom resource, apply its CustomResourceDefinition)"
    } else {
        ""
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The server's answer, if it refused.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { status, .. } => Some(status),
            Self::Discovery(error) => error.status(),
            _ => None,
        }
    }

    /// The server serves no such kind, resource or category.
    pub fn is_no_match(&self) -> bool {
        matches!(self, Self::Mapping(problem) if problem.is_no_match())
    }

    /// The object, or the path, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// An object of that name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The user may not do that.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The version that was asked for is forgotten: list anew.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410 || matches!(&*status.reason, "Expired" | "Gone"))
    }

    /// The server has too much to do.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429)
    }

    /// The version that was asked for lies in the future: this server has not reached it yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        let named = |status: &Status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        };
        self.status().is_some_and(|status| named(status) || status.message.contains("Too large resource version"))
    }

    /// The same request may succeed later, with nothing changed: the server could not be reached or did not answer in time, has too
    /// much to do, or failed itself. Whether it has done what was asked is not known then. A conflict is not among these: the
    /// object has to be read anew first, as [`retry_on_conflict`](crate::retry_on_conflict) does.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Api { status, .. } => matches!(status.code, 408 | 429) || status.code >= 500,
            Self::Transport { .. } | Self::Timeout { .. } => true,
            Self::Discovery(error) => error.is_retryable(),
            Self::TooLarge { .. }
            | Self::Decode { .. }
            | Self::Object { .. }
            | Self::InvalidRequest(_)
            | Self::Config(_)
            | Self::Mapping(_) => false,
        }
    }

    /// Nobody listens at the server's address.
    pub fn is_connection_refused(&self) -> bool {
        match self {
            Self::Transport { source, .. } => {
                source.io().is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
            }
            Self::Discovery(error) => error.is_connection_refused(),
            _ => false,
        }
    }
}

/// A failure of the connection. `Debug` is the same text as `Display`.
pub struct TransportError(pub(crate) BoxError);

impl TransportError {
    /// The input or output error that is behind it, if there is one.
    pub fn io(&self) -> Option<&std::io::Error> {
        chain(&*self.0).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for TransportError {
    /// With all causes, without those that add nothing: hyper's are "client error (Connect)" and "tcp connect error".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = String::new();
        for error in chain(&*self.0) {
            let mut text = error.to_string();
            if let Some(client) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
                let stage = if client.is_connect() { "connection failed" } else { "request failed" };
                stage.clone_into(&mut text);
            }
            if text != "tcp connect error" && !written.contains(&text) {
                write!(f, "{}{text}", if written.is_empty() { "" } else { ": " })?;
                written.push_str(&text);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// An error and its causes.
pub(crate) fn chain<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Which limit was reached: one of [`Timeouts`](crate::Timeouts), or the request's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The client's own rate limit delays the request for longer than the request may take.
    #[error("the client's rate limit delays the request beyond its timeout of {0:?}")]
    RateLimit(Duration),
    /// The connection was not made.
    #[error("no connection within {0:?}")]
    Connect(Duration),
    /// The head of the answer did not come.
    #[error("no answer within {0:?}")]
    Answer(Duration),
    /// The answer began, and did not end within the request's own timeout.
    #[error("the answer was not complete within {0:?}")]
    Request(Duration),
    /// The body of the answer stopped coming.
    #[error("the answer stopped in the middle: nothing came for {0:?}")]
    Silence(Duration),
    /// A watch has been silent for longer than a living server is.
    #[error("nothing came from the watch for {0:?}")]
    WatchSilence(Duration),
}

impl TimeoutError {
    /// How long the client waited.
    pub fn limit(&self) -> Duration {
        match self {
            Self::RateLimit(limit)
            | Self::Connect(limit)
            | Self::Answer(limit)
            | Self::Request(limit)
            | Self::Silence(limit)
            | Self::WatchSilence(limit) => *limit,
        }
    }
}

/// What is wrong with an answer, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is no JSON, or not of the wanted type.
    #[error("the answer is not {wanted}: {what} at line {line}, column {column}")]
    Json {
        /// The type that was wanted.
        wanted: &'static str,
        /// What kind of mistake it is.
        what: &'static str,
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It ended, or cannot be followed, in the middle of a list or a watch.
    #[error("the answer cannot be read: {0}")]
    Broken(String),
    /// It has another media type.
    #[error("the answer is {0}, not JSON")]
    MediaType(String),
    /// It has a code that says neither success nor failure.
    #[error("the answer is {0}, which no API server gives here")]
    Code(StatusCode),
}

impl DecodeError {
    pub(crate) fn json<T>(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Io => "it could not be read",
            serde_json::error::Category::Syntax => "it is not JSON",
            serde_json::error::Category::Data => "a value has another type than expected, or is missing",
            serde_json::error::Category::Eof => "it ends too early",
        };
        let wanted = std::any::type_name::<T>();
        Self::Json { wanted, what, line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> Error {
        let asked = Asked { method: Method::GET, url: "https://server/api".to_owned() };
        let status = Status { code, ..Status::failure("it failed", "Reason") };
        Error::Api { asked, status: Box::new(status) }
    }

    #[test]
    fn what_may_succeed_later_can_be_told_from_what_will_not() {
        let asked = || Asked { method: Method::GET, url: "https://server/api".to_owned() };
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let away = Error::Transport { asked: asked(), source: TransportError(Box::new(refused)) };
        let silent = Error::Timeout { asked: asked(), timeout: TimeoutError::Answer(Duration::from_secs(1)) };
        assert!(away.is_retryable() && silent.is_retryable());
        assert!(Error::Discovery(Arc::new(away)).is_retryable());
        let retryable = |code| answered(code).is_retryable();
        assert!([408, 429, 500, 502, 503, 504].into_iter().all(retryable));
        assert!(![400, 401, 403, 404, 405, 409, 410, 413, 422].into_iter().any(retryable));
        assert!(!Error::InvalidRequest("no name".to_owned()).is_retryable());
    }
}
