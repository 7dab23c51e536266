//! Keeps writes from leaving the client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube_client::client::Body;
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceExt};

use super::{ResponseBody, ResponseResult, service};

/// Decides whether a write may leave the client, and how long it may take. See
/// [`Client::with_write_gate`](crate::Client::with_write_gate).
#[derive(Clone)]
pub struct WriteGate(Arc<dyn Fn() -> Option<Duration> + Send + Sync>);

impl WriteGate {
    /// Asks `open` before each attempt of a write. It returns how long the attempt may take, or
    /// `None` if it may not be sent.
    pub fn new(open: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGate").field("open", &(self.0)().is_some()).finish()
    }
}

/// Why a write ended at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The gate was closed: the write was not sent.
    #[error("not sent: the write gate is closed")]
    Closed,
    /// The write was sent and cancelled. The server may have carried it out.
    #[error("cancelled: the write gate closed while it was under way")]
    Cancelled,
}

/// The innermost layer, so that it sees each attempt after all waits of the client.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    pub(crate) inner: S,
}

impl<S> Gate<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(gate) = request.extensions().get::<WriteGate>().filter(|_| !reads) else {
            return self.inner.oneshot(request).await;
        };
        let Some(limit) = (gate.0)() else { return Err(GateError::Closed.into()) };
        match timeout(limit, self.inner.oneshot(request)).await {
            Ok(response) => response,
            Err(_) => Err(GateError::Cancelled.into()),
        }
    }
}

service!(Gate);
