//! The errors of requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use kube_core::Status;
use steersman_wire::ObjectError;
use tower::BoxError;

use crate::discovery::MappingError;
use crate::layers::gate::GateError;

/// The request of an error. It has no body and no header, so it can be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The method.
    pub method: Method,
    /// The server, the path and the query.
    pub url: String,
}

impl RequestInfo {
    /// Whether the path is below the group of a custom resource:
    /// `/apis/<group with a dot>/<version>/…`.
    fn is_of_custom_resource(&self) -> bool {
        let path = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let path = path.split('?').next().unwrap_or_default();
        // The server's address may have a path of its own.
        let Some((_, below)) = path.split_once("/apis/") else { return false };
        let mut segments = below.split('/');
        segments.next().is_some_and(|group| group.contains('.')) && segments.nth(1).is_some_and(|it| !it.is_empty())
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

/// Why a request failed. No text holds a part of a body, which may be a Secret, except for the
/// server's message.
///
/// `Debug` prints the same text as `Display`, because `fn main() -> Result<(), Box<dyn Error>>`
/// prints `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request.
    #[error("{request}: the server answered {} {}: {}{}", status.code, status.reason, status.message, hint(request, status))]
    Api {
        /// The request.
        request: RequestInfo,
        /// The server's `Status`.
        status: Box<Status>,
    },
    /// The request could not be sent, or its response could not be read.
    #[error("{request}: {source}")]
    Transport {
        /// The request.
        request: RequestInfo,
        /// The cause.
        #[source]
        source: TransportError,
    },
    /// The server did not respond in time, or stopped in the middle of a response.
    #[error("{request}: {timeout}")]
    Timeout {
        /// The request.
        request: RequestInfo,
        /// The limit that was reached.
        #[source]
        timeout: TimeoutError,
    },
    /// A write ended at the [gate](crate::Client::with_write_gate) of the client.
    #[error("{request}: {gate}")]
    Gate {
        /// The request.
        request: RequestInfo,
        /// Whether it was sent.
        #[source]
        gate: GateError,
    },
    /// The [check](crate::Client::with_write_check) of the client refused a write.
    #[error("{request}: not sent: {problem}")]
    WriteRefused {
        /// The request.
        request: RequestInfo,
        /// Why.
        problem: String,
    },
    /// The client is [offline](crate::Client::offline).
    #[error("{request}: not sent, because the client is offline")]
    Offline {
        /// The request.
        request: RequestInfo,
    },
    /// The response is longer than the client collects.
    #[error(
        "{request}: the response is longer than {limit} bytes: request less (a limit for lists), read it as a stream \
         (list_raw, stream), or raise ClientBuilder::response_bytes_max"
    )]
    TooLarge {
        /// The request.
        request: RequestInfo,
        /// The limit:
        /// [`ClientBuilder::response_bytes_max`](crate::ClientBuilder::response_bytes_max).
        limit: usize,
    },
    /// The response is not what was requested.
    #[error("{request}: {problem}")]
    Decode {
        /// The request.
        request: RequestInfo,
        /// What is wrong, and where, without the contents.
        problem: ResponseError,
    },
    /// One object of the response cannot be read. The others can.
    #[error("{request}: {error}")]
    Object {
        /// The request.
        request: RequestInfo,
        /// Which object, and why, without the contents.
        error: Box<ObjectError>,
    },
    /// The request is invalid and was not sent.
    #[error("{0}")]
    InvalidRequest(String),
    /// The configuration of the client is invalid.
    #[error("cannot set up the client: {0}")]
    Config(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Discovery failed. All callers that waited for the same request share the error.
    #[error("discovery failed: {0}")]
    Discovery(#[source] Arc<Error>),
    /// The server serves no such kind, or several that match.
    #[error(transparent)]
    Mapping(#[from] Box<MappingError>),
}

/// What to do about a refusal.
fn hint(request: &RequestInfo, status: &Status) -> &'static str {
    // The server names an object that does not exist. For a path that it does not serve it has no
    // name.
    let is_unnamed = status.details.as_ref().is_none_or(|details| details.name.is_empty());
    if status.code == 404 && is_unnamed && request.is_of_custom_resource() {
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
    /// The server's `Status`, if the server refused the request.
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

    /// An object of that name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// The user has no permission.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The requested version is no longer available: list again.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410 || matches!(&*status.reason, "Expired" | "Gone"))
    }

    /// The server is overloaded.
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.code == 429)
    }

    /// The requested version is in the future: this server has not reached it yet.
    pub fn is_too_large_resource_version(&self) -> bool {
        let named = |status: &Status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        };
        self.status().is_some_and(|status| named(status) || status.message.contains("Too large resource version"))
    }

    /// The same request may succeed later: the server could not be reached, did not respond in
    /// time, is overloaded, or failed. It is not known whether the server has processed the
    /// request.
    ///
    /// A conflict is not retryable: the object must be read again first, as
    /// [`retry_on_conflict`](crate::retry_on_conflict) does.
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
            | Self::Gate { .. }
            | Self::WriteRefused { .. }
            | Self::Offline { .. }
            | Self::Mapping(_) => false,
        }
    }

    /// No process listens at the server's address.
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
    /// The I/O error that caused it, if there is one.
    pub fn io(&self) -> Option<&std::io::Error> {
        chain(&*self.0).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for TransportError {
    /// All causes but those that add nothing, such as hyper's "client error (Connect)" and "tcp
    /// connect error".
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

/// The limit that was reached: one of [`Timeouts`](crate::Timeouts), or the request's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The client's rate limit delays the request beyond the request's timeout.
    #[error("the client's rate limit delays the request beyond its timeout of {0:?}")]
    RateLimit(Duration),
    /// No connection was made.
    #[error("no connection within {0:?}")]
    Connect(Duration),
    /// The head of the response did not come.
    #[error("no response within {0:?}")]
    Response(Duration),
    /// The response did not end within the request's own timeout.
    #[error("the response was not complete within {0:?}")]
    Request(Duration),
    /// The body of the response stalled.
    #[error("the response stalled: no data for {0:?}")]
    Idle(Duration),
    /// The watch is silent, although the server sends bookmarks.
    #[error("no data from the watch for {0:?}")]
    WatchIdle(Duration),
}

impl TimeoutError {
    /// How long the client waited.
    pub fn limit(&self) -> Duration {
        match self {
            Self::RateLimit(limit)
            | Self::Connect(limit)
            | Self::Response(limit)
            | Self::Request(limit)
            | Self::Idle(limit)
            | Self::WatchIdle(limit) => *limit,
        }
    }
}

/// What is wrong with a response, without its contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// It is not JSON, or not of the expected type.
    #[error("the response is not {expected}: {problem} at line {line}, column {column}")]
    Json {
        /// The expected type.
        expected: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// It ends, or breaks, in the middle of a list or a watch.
    #[error("the response cannot be read: {0}")]
    Broken(String),
    /// Its status code is neither a success nor a failure.
    #[error("unexpected status {0}")]
    Code(StatusCode),
}

impl ResponseError {
    pub(crate) fn json<T>(error: &serde_json::Error) -> Self {
        let problem = match error.classify() {
            serde_json::error::Category::Io => "it could not be read",
            serde_json::error::Category::Syntax => "it is not JSON",
            serde_json::error::Category::Data => "a value is missing or has another type",
            serde_json::error::Category::Eof => "it ends too early",
        };
        let expected = std::any::type_name::<T>();
        Self::Json { expected, problem, line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(code: u16) -> Error {
        let info = RequestInfo { method: Method::GET, url: "https://server/api".to_owned() };
        let status = Status { code, ..Status::failure("it failed", "Reason") };
        Error::Api { request: info, status: Box::new(status) }
    }

    #[test]
    fn errors_that_may_not_repeat_are_retryable() {
        let info = || RequestInfo { method: Method::GET, url: "https://server/api".to_owned() };
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let away = Error::Transport { request: info(), source: TransportError(Box::new(refused)) };
        let silent = Error::Timeout { request: info(), timeout: TimeoutError::Response(Duration::from_secs(1)) };
        assert!(away.is_retryable() && silent.is_retryable());
        assert!(Error::Discovery(Arc::new(away)).is_retryable());
        let retryable = |code| api_error(code).is_retryable();
        assert!([408, 429, 500, 502, 503, 504].into_iter().all(retryable));
        assert!(![400, 401, 403, 404, 405, 409, 410, 413, 422].into_iter().any(retryable));
        assert!(!Error::InvalidRequest("no name".to_owned()).is_retryable());
    }
}
