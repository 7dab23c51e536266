//! Keeps writes from leaving the client.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Method, Request};
use kube_client::client::Body;
use steersman_world::World;
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt};

use super::{ResponseBody, ResponseResult, service};

/// Decides whether a write may leave the client, and how long it may take. See
/// [`Client::with_write_gate`](crate::Client::with_write_gate).
#[derive(Clone)]
pub struct WriteGate(Arc<dyn Fn() -> Option<Duration> + Send + Sync>);

impl WriteGate {
    /// Asks `open` before each attempt of a write. It returns how long the attempt may take, or
    /// `None` if it may not be sent.
    ///
    /// A write that has passed can still wait for a new connection. It ends when its time is over.
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

/// The clock of the client that a gated request comes from, in its extensions.
#[derive(Clone)]
pub(crate) struct GateClock(pub(crate) World);

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
        let world = request.extensions().get::<GateClock>().map_or_else(World::system, |clock| clock.0.clone());
        let Some(limit) = (gate.0)() else { return Err(GateError::Closed.into()) };
        let cancel_at = world.uptime().saturating_add(limit);
        let (mut response, mut timer) = (pin!(self.inner.oneshot(request)), pin!(sleep(limit)));
        // After a pause of the process, both can be ready: the limit wins. The timer does not count
        // the time in which the machine is suspended.
        poll_fn(|context| {
            if timer.as_mut().poll(context).is_ready() || world.uptime() >= cancel_at {
                return Poll::Ready(Err(GateError::Cancelled.into()));
            }
            response.as_mut().poll(context)
        })
        .await
    }
}

service!(Gate);
