//! Reports for metrics and warnings.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::warning::{Warning, WarningHandler};
use super::{Purpose, ResponseBody, ResponseResult, service};

/// One attempt of a request, for [`RequestMetrics`].
#[derive(Clone, Debug)]
pub struct RequestSample<'a> {
    /// The method.
    pub method: &'a Method,
    /// The status code, or `None` without a response.
    pub code: Option<u16>,
    /// The server.
    pub host: &'a str,
    /// The time until the head of the response.
    pub duration: Duration,
    /// The size of the request's body in bytes, if it has one.
    pub request_size: Option<u64>,
}

/// Receives a sample for each attempt of each request: the counts of
/// `rest_client_requests_total{code,method,host}`. The other methods are for further metrics of
/// client-go, and do nothing by default.
pub trait RequestMetrics: Send + Sync {
    /// An attempt has a response, or has failed.
    fn request(&self, sample: RequestSample<'_>);

    /// An attempt has passed the [rate limit](crate::ClientBuilder::rate_limit) after this wait,
    /// which is zero for most. Without a rate limit there is no call.
    fn rate_limited(&self, method: &Method, host: &str, waited: Duration) {
        let _ = (method, host, waited);
    }

    /// An attempt with this code, or without a response, is repeated.
    fn retried(&self, code: Option<u16>, method: &Method, host: &str) {
        let _ = (code, method, host);
    }

    /// Whether [`response_body`](Self::response_body) is called, which costs an allocation for each
    /// response.
    fn wants_response_bodies(&self) -> bool {
        false
    }

    /// The body of a response was read to its end. It had this number of bytes, after
    /// decompression. Watches and other responses without an end are left out.
    fn response_body(&self, method: &Method, host: &str, bytes: u64) {
        let _ = (method, host, bytes);
    }

    /// The address of a host was looked up for a new connection. Clones of a client share their
    /// connections, so the metrics of each clone get each lookup. There is none for a server that
    /// is named by its IP address, as in a Pod.
    fn resolved(&self, host: &str, duration: Duration) {
        let _ = (host, duration);
    }
}

/// The metrics of one handle of a client, in the extensions of its requests.
#[derive(Clone)]
pub(crate) struct ObservedBy(pub(crate) Arc<dyn RequestMetrics>);

/// Who observes the requests of a client.
#[derive(Clone)]
pub(crate) struct Observers {
    /// Those of the builder.
    pub(crate) metrics: Option<Arc<dyn RequestMetrics>>,
    /// The server.
    pub(crate) host: Arc<str>,
}

impl Observers {
    /// Those of the builder, and those of the handle that a request comes from.
    pub(crate) fn of<'a>(&'a self, request: &'a Request<Body>) -> impl Iterator<Item = &'a Arc<dyn RequestMetrics>> {
        self.metrics.iter().chain(request.extensions().get::<ObservedBy>().map(|metrics| &metrics.0))
    }
}

/// Reports each attempt and its warnings.
#[derive(Clone)]
pub(crate) struct Observe<S> {
    pub(crate) inner: S,
    pub(crate) observers: Observers,
    pub(crate) warnings: Arc<dyn WarningHandler>,
}

impl<S> Observe<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let (method, started) = (request.method().clone(), Instant::now());
        let request_size = request.body().size_hint().exact().filter(|size| *size > 0);
        let has_end = Purpose::of(&request) == Purpose::Ordinary;
        let observers: Vec<_> = self.observers.of(&request).cloned().collect();
        let mut response = self.inner.oneshot(request).await;
        if !observers.is_empty() {
            let code = response.as_ref().ok().map(|response| response.status().as_u16());
            let (host, duration) = (&*self.observers.host, started.elapsed());
            let sample = RequestSample { method: &method, code, host, duration, request_size };
            observers.iter().for_each(|metrics| metrics.request(sample.clone()));
        }
        if let Ok(response) = &response {
            for warning in Warning::of(response.headers()) {
                self.warnings.warn(&warning);
            }
        }
        if has_end && observers.iter().any(|metrics| metrics.wants_response_bodies()) {
            let host = self.observers.host;
            response = response.map(|response| {
                response.map(|body| CountedBody { body, bytes: 0, observers, method, host }.boxed_unsync())
            });
        }
        response
    }
}

/// A body whose size is reported at its end.
struct CountedBody {
    body: ResponseBody,
    bytes: u64,
    /// Empty after the report.
    observers: Vec<Arc<dyn RequestMetrics>>,
    method: Method,
    host: Arc<str>,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) => self.observers.clear(),
            None => {
                let Self { observers, method, host, bytes, .. } = &mut *self;
                let wanting = observers.drain(..).filter(|metrics| metrics.wants_response_bodies());
                wanting.for_each(|metrics| metrics.response_body(method, host, *bytes));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        // The end is reported when it is read.
        self.observers.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

service!(Observe);
