//! Reports for metrics and warnings.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body::Body as _;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::warning::{Warning, WarningHandler};
use super::{ResponseBody, ResponseResult, service};

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
/// `rest_client_requests_total{code,method,host}`.
pub trait RequestMetrics: Send + Sync {
    /// An attempt has a response, or has failed.
    fn request(&self, sample: RequestSample<'_>);
}

/// The metrics of one handle of a client, in the extensions of its requests.
#[derive(Clone)]
pub(crate) struct ObservedBy(pub(crate) Arc<dyn RequestMetrics>);

/// Reports each attempt and its warnings.
#[derive(Clone)]
pub(crate) struct Observe<S> {
    pub(crate) inner: S,
    pub(crate) metrics: Option<Arc<dyn RequestMetrics>>,
    pub(crate) warnings: Arc<dyn WarningHandler>,
    pub(crate) host: Arc<str>,
}

impl<S> Observe<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let (method, started) = (request.method().clone(), Instant::now());
        let request_size = request.body().size_hint().exact().filter(|size| *size > 0);
        let of_handle = request.extensions().get::<ObservedBy>().map(|metrics| Arc::clone(&metrics.0));
        let response = self.inner.oneshot(request).await;
        if self.metrics.is_some() || of_handle.is_some() {
            let code = response.as_ref().ok().map(|response| response.status().as_u16());
            let duration = started.elapsed();
            let sample = RequestSample { method: &method, code, host: &self.host, duration, request_size };
            self.metrics.iter().chain(&of_handle).for_each(|metrics| metrics.request(sample.clone()));
        }
        if let Ok(response) = &response {
            for warning in Warning::of(response.headers()) {
                self.warnings.warn(&warning);
            }
        }
        response
    }
}

service!(Observe);
