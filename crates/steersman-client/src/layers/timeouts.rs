//! Timeouts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use kube_client::client::Body;
use tokio::time::{Instant, Sleep, sleep, timeout_at};
use tower::{BoxError, Service, ServiceExt};

use super::{Purpose, ResponseBody, ResponseResult, service};
use crate::error::{TimeoutError, chain};

/// How long a client waits in one attempt of a request. `None` means without a limit, which is
/// never advisable: a connection can be dead without any sign of it. A request's own
/// [timeout](crate::RestRequest::timeout) covers all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// For the TCP connection. Default: 30 s. The TLS handshake counts towards `response`.
    pub connect: Option<Duration>,
    /// From the request to the head of the response. Default: 65 s. The API server gives up after
    /// 60 s.
    pub response: Option<Duration>,
    /// Between two parts of the body. Default: 60 s. A list may take any time as long as data
    /// comes.
    pub idle: Option<Duration>,
    /// From the request to the head of a watch's response, which comes at once. Default: 30 s.
    pub watch_response: Option<Duration>,
    /// Between two parts of a watch with bookmarks. Default: 3 min. The server sends a bookmark
    /// every minute.
    pub watch_idle: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(30)),
            response: Some(Duration::from_secs(65)),
            idle: Some(Duration::from_secs(60)),
            watch_response: Some(Duration::from_secs(30)),
            watch_idle: Some(Duration::from_secs(180)),
        }
    }
}

/// The limit of one request, in its extensions: all attempts and the waits before and between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) limit: Duration,
    pub(crate) at: Instant,
}

impl Deadline {
    /// Starts now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, at: after(limit) }
    }

    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().copied()
    }

    /// Whether time is left after a wait until then.
    pub(crate) fn allows(&self, until: Instant) -> bool {
        until < self.at
    }
}

/// Longer than any process runs, and still valid as an `Instant`.
const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The time after `duration`, which may be of any length.
pub(crate) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR_FUTURE)
}

/// Applies [`Timeouts`].
#[derive(Clone)]
pub(crate) struct WithTimeouts<S> {
    pub(crate) inner: S,
    pub(crate) timeouts: Timeouts,
}

impl<S> WithTimeouts<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let Timeouts { connect, response, idle, watch_response, watch_idle } = self.timeouts;
        let (head, next) = match Purpose::of(&request) {
            Purpose::Watch { bookmarks } => {
                (watch_response, watch_idle.filter(|_| bookmarks).map(TimeoutError::WatchIdle))
            }
            Purpose::LongRunning => (response, None),
            Purpose::Ordinary => (response, idle.map(TimeoutError::Idle)),
        };
        let head = Deadline::of(&request).or(head.map(Deadline::new));
        let response = self.inner.oneshot(request);
        let response = match head {
            None => response.await,
            Some(Deadline { limit, at }) => {
                timeout_at(at, response).await.unwrap_or_else(|_| Err(TimeoutError::Response(limit).into()))
            }
        };
        let response = response.map_err(|error| match connect {
            Some(limit) if is_connect_timeout(&error) => TimeoutError::Connect(limit).into(),
            _ => error,
        })?;
        let Some(error) = next else { return Ok(response) };
        let limit = error.limit();
        Ok(response.map(|body| IdleTimeoutBody { body, limit, error, sleep: Box::pin(sleep(limit)) }.boxed_unsync()))
    }
}

service!(WithTimeouts);

/// Whether the connector timed out, rather than the system.
fn is_connect_timeout(error: &BoxError) -> bool {
    let is_connect = |error: &hyper_util::client::legacy::Error| error.is_connect();
    let is_own = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none();
    chain(&**error).any(|error| error.downcast_ref().is_some_and(is_connect))
        && chain(&**error).any(|error| error.downcast_ref().is_some_and(is_own))
}

/// A body that fails if no frame comes for too long.
struct IdleTimeoutBody {
    body: ResponseBody,
    limit: Duration,
    error: TimeoutError,
    sleep: Pin<Box<Sleep>>,
}

impl HttpBody for IdleTimeoutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let next = after(self.limit);
            self.sleep.as_mut().reset(next);
            return Poll::Ready(frame);
        }
        std::task::ready!(self.sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(self.error.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
