//! W3C trace context on requests.

use std::fmt;

use http::HeaderMap;
use http::header::HeaderValue;
use steersman_world::World;

/// The header of the W3C trace context.
const TRACEPARENT: &str = "traceparent";

/// Puts the context of the current trace into the headers of a request, so that the API server's
/// spans join it. The client calls it in the span `request` of each request, once for all attempts.
///
/// A program that exports its spans implements it with the propagator of its exporter. Without one,
/// a request carries the [`Trace`] of its task, if there is one.
pub trait TraceContext: Send + Sync {
    /// Adds the headers.
    fn inject(&self, headers: &mut HeaderMap);
}

tokio::task_local! {
    static CURRENT: Trace;
}

/// A trace that needs no exporter: a request carries its ids, and the logs show them. The ids come
/// from a [`World`], so that a seeded one gives the same ids.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use steersman_client::{Trace, World};
///
/// let world = World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap());
/// let trace = Trace::new(&world);
/// assert_eq!(trace, Trace::new(&World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap())));
/// trace.scope(async { assert_eq!(Trace::current(), Some(trace)) }).await;
/// assert_eq!(Trace::current(), None);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    trace: [u8; 16],
    span: u64,
}

impl Trace {
    /// A new trace.
    pub fn new(world: &World) -> Self {
        let mut trace = world.random_bytes();
        // Ids of zeros are invalid.
        trace[0] |= 1;
        Self { trace, span: world.random_u64() | 1 }
    }

    /// The trace of the current task.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|trace| *trace).ok()
    }

    /// Runs a future with this trace: its requests carry it. Tasks that it spawns do not.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// The id of the trace, as 32 hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace))
    }

    /// The value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{:016x}-01", self.id(), self.span)
    }

    /// Another span of this trace.
    fn child(self, world: &World) -> Self {
        Self { span: world.random_u64() | 1, ..self }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())
    }
}

/// Adds the trace context to a request. A header that is there stays.
pub(crate) fn inject(context: Option<&dyn TraceContext>, world: &World, headers: &mut HeaderMap) {
    match context {
        _ if headers.contains_key(TRACEPARENT) => {}
        Some(context) => context.inject(headers),
        None => {
            let value = Trace::current().and_then(|trace| HeaderValue::try_from(trace.child(world).traceparent()).ok());
            headers.extend(value.map(|value| (http::HeaderName::from_static(TRACEPARENT), value)));
        }
    }
}
