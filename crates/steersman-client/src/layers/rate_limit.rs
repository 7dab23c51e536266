//! A limit of requests per second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::observe::Observers;
use super::timeouts::{Deadline, after};
use super::{Purpose, ResponseBody, ResponseResult, service};
use crate::error::TimeoutError;

/// A token bucket for all requests of a client but watches.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: f64,
    burst: f64,
    state: Mutex<Tokens>,
}

#[derive(Debug)]
struct Tokens {
    /// Negative if tokens are reserved ahead.
    left: f64,
    refilled_at: Instant,
    /// The number of tokens taken so far.
    taken: u64,
}

impl TokenBucket {
    pub(crate) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { rate, burst, state: Mutex::new(Tokens { left: burst, refilled_at: Instant::now(), taken: 0 }) }
    }

    /// Waits for a token. If it comes after the deadline, fails at once and returns the token.
    async fn take(&self, deadline: Option<Deadline>) -> Result<(), TimeoutError> {
        let (number, wait) = self.reserve();
        let mut reservation = Reservation { bucket: self, number, is_used: false };
        if let Some(deadline) = deadline.filter(|deadline| !wait.is_zero() && !deadline.allows(after(wait))) {
            return Err(TimeoutError::RateLimit(deadline.limit));
        }
        tokio::time::sleep(wait).await;
        reservation.is_used = true;
        Ok(())
    }

    /// Takes a token. Returns its number, and the wait until it may be used.
    fn reserve(&self) -> (u64, Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let refilled = now.saturating_duration_since(state.refilled_at).as_secs_f64() * self.rate;
        state.left = (state.left + refilled).min(self.burst) - 1.0;
        state.refilled_at = now;
        state.taken += 1;
        let wait = Duration::try_from_secs_f64((-state.left / self.rate).max(0.0)).unwrap_or(Duration::MAX);
        (state.taken, wait)
    }
}

/// A token that a request waits for.
struct Reservation<'b> {
    bucket: &'b TokenBucket,
    number: u64,
    is_used: bool,
}

impl Drop for Reservation<'_> {
    /// A cancelled wait returns its token, unless a later token is reserved. The time of the later
    /// one stays as it is, and a second request at that time would exceed the rate.
    fn drop(&mut self) {
        let mut state = self.bucket.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_used && state.taken == self.number {
            state.left += 1.0;
            state.taken -= 1;
        }
    }
}

/// In the extensions of a request that waits for no token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlimited;

/// Waits for a token in the future of each request.
#[derive(Clone)]
pub(crate) struct RateLimit<S> {
    pub(crate) inner: S,
    pub(crate) bucket: Option<Arc<TokenBucket>>,
    pub(crate) observers: Observers,
}

impl<S> RateLimit<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, request: Request<Body>) -> ResponseResult {
        let is_unlimited = request.extensions().get::<Unlimited>().is_some();
        let is_watch = matches!(Purpose::of(&request), Purpose::Watch { .. });
        if let Some(bucket) = self.bucket.filter(|_| !is_unlimited && !is_watch) {
            let started = Instant::now();
            bucket.take(Deadline::of(&request)).await?;
            let (method, host, waited) = (request.method(), &*self.observers.host, started.elapsed());
            self.observers.of(&request).for_each(|metrics| metrics.rate_limited(method, host, waited));
        }
        self.inner.oneshot(request).await
    }
}

service!(RateLimit);
