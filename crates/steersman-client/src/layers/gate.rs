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
use crate::transport::Passage;

/// Decides whether a write may leave the client, and how long it may take. See
/// [`Client::with_write_gate`](crate::Client::with_write_gate).
#[derive(Clone)]
pub struct WriteGate(Arc<dyn Fn() -> Option<Duration> + Send + Sync>);

impl WriteGate {
    /// Asks `open` before each attempt of a write, and again when bytes of it leave for the server.
    /// It returns how long the attempt may still take, or `None` if nothing may leave.
    ///
    /// So a write that has passed and then waits for a connection does not leave late. A client of
    /// [`ClientBuilder::build_over`](crate::ClientBuilder::build_over), or one that is made from a
    /// client of kube's, has connections that this crate does not see: there the gate is asked
    /// before each attempt only. Once the write is under way, it ends when its time is over.
    pub fn new(open: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn is_open(&self) -> bool {
        (self.0)().is_some()
    }
}

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGate").field("open", &self.is_open()).finish()
    }
}

/// Why a write ended at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The gate was closed: the write was not sent.
    #[error("not sent: the write gate is closed")]
    Closed,
    /// The write was under way, and was cancelled. The server may have carried it out.
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
    async fn handle(self, mut request: Request<Body>) -> ResponseResult {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(gate) = request.extensions().get::<WriteGate>().filter(|_| !reads).cloned() else {
            return self.inner.oneshot(request).await;
        };
        let world = request.extensions().get::<GateClock>().map_or_else(World::system, |clock| clock.0.clone());
        let Some(limit) = (gate.0)() else { return Err(GateError::Closed.into()) };
        let passage = Passage::new(gate);
        request.extensions_mut().insert(passage.clone());
        let cancel_at = world.uptime().saturating_add(limit);
        let (mut response, mut timer) = (pin!(self.inner.oneshot(request)), pin!(sleep(limit)));
        // After a pause of the process, both can be ready: the limit wins. The timer does not count
        // the time in which the machine is suspended.
        poll_fn(|context| {
            if timer.as_mut().poll(context).is_ready() || world.uptime() >= cancel_at {
                return Poll::Ready(Err(GateError::Cancelled.into()));
            }
            let response = std::task::ready!(response.as_mut().poll(context));
            Poll::Ready(response.map_err(|error| passage.refused().map_or(error, Into::into)))
        })
        .await
    }
}

service!(Gate);
