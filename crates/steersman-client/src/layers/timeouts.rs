//! Giving up on a server that is silent.

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

use super::{Answer, AnswerBody, Purpose, service};
use crate::error::{TimeoutError, chain};

/// How long a client waits for one attempt of a request. `None` means for ever, which is never a good idea: a connection
/// can be dead without any sign of it. A request's own [timeout](crate::RestRequest::timeout) covers all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// For a connection to be made: 30 s. This is for TCP; encryption and the answer's head share `answer`.
    pub connect: Option<Duration>,
    /// For the head of the answer, from when the request is sent: 65 s. The API server itself gives up after 60 s.
    pub answer: Option<Duration>,
    /// For the next part of the body: 60 s. A list may take as long as it likes as long as it comes.
    pub silence: Option<Duration>,
    /// For the head of the answer to a watch, which comes at once: 30 s.
    pub watch_start: Option<Duration>,
    /// For the next part of a watch that has asked for bookmarks: 3 min. The server sends one a minute.
    pub watch_silence: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(30)),
            answer: Some(Duration::from_secs(65)),
            silence: Some(Duration::from_secs(60)),
            watch_start: Some(Duration::from_secs(30)),
            watch_silence: Some(Duration::from_secs(180)),
        }
    }
}

/// A limit on the whole of one request, set by its caller in the request's extensions: all attempts, and the waits before
/// and between them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) limit: Duration,
    pub(crate) at: Instant,
}

impl Deadline {
    /// Begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, at: after(limit) }
    }

    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        request.extensions().get().copied()
    }

    /// Whether anything can be done after a wait until then.
    pub(crate) fn allows(&self, until: Instant) -> bool {
        until < self.at
    }
}

/// Longer than any process runs, and still a time everywhere.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The time after `duration`, however long that is.
pub(crate) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

/// Waits no longer than [`Timeouts`] says.
#[derive(Clone)]
pub(crate) struct WithTimeouts<S> {
    pub(crate) inner: S,
    pub(crate) timeouts: Timeouts,
}

impl<S> WithTimeouts<S>
where
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, request: Request<Body>) -> Answer {
        let Timeouts { connect, answer, silence, watch_start, watch_silence } = self.timeouts;
        let (head, next) = match Purpose::of(&request) {
            Purpose::Watch { bookmarks } => {
                (watch_start, watch_silence.filter(|_| bookmarks).map(TimeoutError::WatchSilence))
            }
            Purpose::LongRunning => (answer, None),
            Purpose::Ordinary => (answer, silence.map(TimeoutError::Silence)),
        };
        let head = Deadline::of(&request).or(head.map(Deadline::new));
        let answer = self.inner.oneshot(request);
        let response = match head {
            None => answer.await,
            Some(Deadline { limit, at }) => {
                timeout_at(at, answer).await.unwrap_or_else(|_| Err(TimeoutError::Answer(limit).into()))
            }
        };
        let response = response.map_err(|error| match connect {
            Some(limit) if is_slow_connect(&error) => TimeoutError::Connect(limit).into(),
            _ => error,
        })?;
        let Some(error) = next else { return Ok(response) };
        let limit = error.limit();
        Ok(response.map(|body| Impatient { body, limit, error, sleep: Box::pin(sleep(limit)) }.boxed_unsync()))
    }
}

service!(WithTimeouts);

/// Whether it was the connector that gave up, and not the system.
fn is_slow_connect(error: &BoxError) -> bool {
    let is_connect = |error: &hyper_util::client::legacy::Error| error.is_connect();
    let is_own = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none();
    chain(&**error).any(|error| error.downcast_ref().is_some_and(is_connect))
        && chain(&**error).any(|error| error.downcast_ref().is_some_and(is_own))
}

/// A body that fails when it is silent for too long.
struct Impatient {
    body: AnswerBody,
    limit: Duration,
    error: TimeoutError,
    sleep: Pin<Box<Sleep>>,
}

impl HttpBody for Impatient {
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
