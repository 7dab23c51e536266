//! Asking again.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::timeouts::{Deadline, after};
use super::{Answer, AnswerBody, Purpose, service};
use crate::error::chain;

/// Asks again when that cannot do any harm:
///
/// - whatever the method, when the server asked for it: 429, or 500 and above, with `Retry-After`;
/// - a read, when the connection was lost before the answer came.
///
/// So a write is sent once, unless the server says that it has not been done.
///
/// A wait never outlasts the request's own timeout, nor [`RETRY_AFTER_MAX`]. If it would, it is not begun: the request
/// ends at once with the server's answer, or with the lost connection.
#[derive(Clone)]
pub(crate) struct Retry<S> {
    pub(crate) inner: S,
    /// How often at the most, after the first time.
    pub(crate) retries: u32,
}

/// A longer `Retry-After` is left to the caller, who gets it with the server's answer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// How long to wait before a read whose connection was lost is sent again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// An answer that is not wanted is read as far as this, so that its connection can be used again.
const DISCARDED_MAX: usize = 1 << 16;
const DISCARDED_WITHIN: Duration = Duration::from_secs(1);

impl<S> Retry<S>
where
    S: Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, request: Request<Body>) -> Answer {
        let deadline = Deadline::of(&request);
        let fits = |until| deadline.is_none_or(|deadline| deadline.allows(until));
        let mut next = Some(request);
        for _ in 0..self.retries {
            let Some(again) = next.as_ref().and_then(copy) else { break };
            let Some(request) = next.replace(again) else { break };
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            // A watch is started again by whoever knows from where.
            let rereads = reads && Purpose::of(&request) == Purpose::Ordinary;
            match self.inner.clone().oneshot(request).await {
                Ok(response) => {
                    let delay = retry_after(&response).filter(|delay| *delay <= RETRY_AFTER_MAX);
                    let Some(until) = delay.map(after).filter(|until| fits(*until)) else { return Ok(response) };
                    discard(response, deadline).await;
                    tokio::time::sleep_until(until).await;
                }
                Err(error) if rereads && is_lost(&error) && fits(after(RECONNECT_DELAY)) => {
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

/// The request once more, unless its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// How long the server asks to wait before the request is sent again, if it asks for that.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status.as_u16() != 429 && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(http::header::RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// Whether the connection was lost, so that nobody knows whether the request arrived.
fn is_lost(error: &BoxError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    chain(&**error).any(|error| {
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let http = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message);
        http || matches!(io, Some(BrokenPipe | ConnectionReset | UnexpectedEof))
    })
}

async fn discard(response: Response<AnswerBody>, deadline: Option<Deadline>) {
    let mut body = response.into_body();
    let read = async move {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await
            && read < DISCARDED_MAX
        {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
        }
    };
    let within = after(DISCARDED_WITHIN);
    // Whatever happens to it, the next attempt decides.
    let _ = tokio::time::timeout_at(deadline.map_or(within, |deadline| within.min(deadline.at)), read).await;
}
