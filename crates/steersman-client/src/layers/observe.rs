//! Counting requests, and handing on what the server warns of.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::{Answer, AnswerBody, service};
use crate::warning::{Warning, WarningHandler};

/// One attempt of a request, as [`RequestMetrics`] is told of it.
#[derive(Clone, Debug)]
pub struct RequestSample<'a> {
    /// The method.
    pub method: &'a Method,
    /// The code of the answer; `None` if there was none.
    pub code: Option<u16>,
    /// The server.
    pub host: &'a str,
    /// How long it took until the head of the answer was there.
    pub duration: Duration,
}

/// Is told of every attempt of every request: what `rest_client_requests_total{code,method,host}` counts.
pub trait RequestMetrics: Send + Sync {
    /// An attempt was answered, or failed.
    fn request(&self, sample: RequestSample<'_>);
}

/// Tells of each attempt and of its warnings.
#[derive(Clone)]
pub(crate) struct Observe<S> {
    pub(crate) inner: S,
    pub(crate) metrics: Option<Arc<dyn RequestMetrics>>,
    pub(crate) warnings: Arc<dyn WarningHandler>,
    pub(crate) host: Arc<str>,
}

impl<S> Observe<S>
where
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, request: Request<Body>) -> Answer {
        let (method, started) = (request.method().clone(), Instant::now());
        let answer = self.inner.oneshot(request).await;
        if let Some(metrics) = self.metrics {
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            let sample = RequestSample { method: &method, code, host: &self.host, duration: started.elapsed() };
            metrics.request(sample);
        }
        if let Ok(response) = &answer {
            for warning in Warning::of(response.headers()) {
                self.warnings.warn(&warning);
            }
        }
        answer
    }
}

service!(Observe);
