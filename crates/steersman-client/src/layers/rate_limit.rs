//! So many requests a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::{Answer, AnswerBody, Purpose, service};

/// A token bucket for all requests of a client but watches.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    state: Mutex<Tokens>,
}

#[derive(Debug)]
struct Tokens {
    /// May be negative: so many are promised.
    left: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { rate, burst, state: Mutex::new(Tokens { left: burst, filled: Instant::now() }) }
    }

    /// Takes a token. Says how long to wait until it is there.
    fn take(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let filled = now.saturating_duration_since(state.filled).as_secs_f64() * self.rate;
        state.left = (state.left + filled).min(self.burst) - 1.0;
        state.filled = now;
        Duration::try_from_secs_f64((-state.left / self.rate).max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// Waits for a token, in the future of each request.
#[derive(Clone)]
pub(crate) struct RateLimit<S> {
    pub(crate) inner: S,
    pub(crate) bucket: Option<Arc<Bucket>>,
}

impl<S> RateLimit<S>
where
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, request: Request<Body>) -> Answer {
        if let Some(bucket) = self.bucket.filter(|_| !matches!(Purpose::of(&request), Purpose::Watch { .. })) {
            tokio::time::sleep(bucket.take()).await;
        }
        self.inner.oneshot(request).await
    }
}

service!(RateLimit);
