//! Retries.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::observe::Observers;
use super::timeouts::{Deadline, after};
use super::{Purpose, ResponseBody, ResponseResult, service};
use crate::error::chain;

/// Sends a request again where that does no harm:
///
/// - any method, if the server asks for it: 429, or 500 and above, with `Retry-After`;
/// - a read, if the connection was lost before the response.
///
/// So a write is sent once, unless the server states that it was not processed.
///
/// No wait is longer than the request's own timeout or [`RETRY_AFTER_MAX`]. A wait that would be
/// longer is not begun: the request ends at once with the server's response or the lost connection.
#[derive(Clone)]
pub(crate) struct Retry<S> {
    pub(crate) inner: S,
    /// The largest number of retries.
    pub(crate) retries: u32,
    pub(crate) observers: Observers,
}

/// A longer `Retry-After` is left to the caller, in the server's response.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// The delay before a read is repeated whose connection was lost.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How much of a discarded response is read, so that its connection can be reused.
const DISCARD_BYTES_MAX: usize = 1 << 16;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

impl<S> Retry<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let deadline = Deadline::of(&request);
        let fits = |until| deadline.is_none_or(|deadline| deadline.allows(until));
        let mut next = Some(request);
        let retries = if next.as_ref().is_some_and(is_sent_once) { 0 } else { self.retries };
        for _ in 0..retries {
            let Some(again) = next.as_ref().and_then(try_clone) else { break };
            let Some(request) = next.replace(again) else { break };
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            // The caller restarts a watch: it knows the version to continue from.
            let is_repeatable = is_read && Purpose::of(&request) == Purpose::Ordinary;
            let repeats = |code: Option<u16>, next: &Option<Request<Body>>| {
                let Some(next) = next else { return };
                let (method, host) = (next.method(), &*self.observers.host);
                self.observers.of(next).for_each(|metrics| metrics.retried(code, method, host));
            };
            match self.inner.clone().oneshot(request).await {
                Ok(response) => {
                    let delay = retry_after(&response).filter(|delay| *delay <= RETRY_AFTER_MAX);
                    let Some(until) = delay.map(after).filter(|until| fits(*until)) else { return Ok(response) };
                    repeats(Some(response.status().as_u16()), &next);
                    discard(response, deadline).await;
                    tokio::time::sleep_until(until).await;
                }
                Err(error) if is_repeatable && is_connection_lost(&error) && fits(after(RECONNECT_DELAY)) => {
                    repeats(None, &next);
                    tokio::time::sleep(RECONNECT_DELAY).await;
                }
                Err(error) => return Err(error),
            }
        }
        match next {
            Some(request) => self.inner.oneshot(request).await,
            None => Err("a request was lost on its way".into()),
        }
    }
}

service!(Retry);

/// In the extensions of a request that is not repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentOnce;

fn is_sent_once(request: &Request<Body>) -> bool {
    request.extensions().get::<SentOnce>().is_some()
}

/// A copy of the request, unless its body is a stream.
fn try_clone(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// The delay after which the server asks for a retry.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status.as_u16() != 429 && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(http::header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// Whether the connection was lost, so that the client cannot know whether the request arrived.
fn is_connection_lost(error: &BoxError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    chain(&**error).any(|error| {
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let http = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message);
        http || matches!(io, Some(BrokenPipe | ConnectionReset | UnexpectedEof))
    })
}

async fn discard(response: Response<ResponseBody>, deadline: Option<Deadline>) {
    let mut body = response.into_body();
    let read = async move {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await
            && read < DISCARD_BYTES_MAX
        {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
        }
    };
    let within = after(DISCARD_TIMEOUT);
    // The next attempt decides, however this ends.
    let _ = tokio::time::timeout_at(deadline.map_or(within, |deadline| within.min(deadline.at)), read).await;
}
