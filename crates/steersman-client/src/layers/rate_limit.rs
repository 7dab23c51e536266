//! So many requests a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube_client::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::timeouts::{Deadline, after};
use super::{Answer, AnswerBody, Purpose, service};
use crate::error::TimeoutError;

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
    /// How many have been taken so far.
    taken: u64,
}

impl Bucket {
    pub(crate) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { rate, burst, state: Mutex::new(Tokens { left: burst, filled: Instant::now(), taken: 0 }) }
    }

    /// Waits until there is a token. If that is after the deadline, fails at once and leaves the token to others.
    async fn take(&self, deadline: Option<Deadline>) -> Result<(), TimeoutError> {
        let (number, wait) = self.promise();
        let mut promise = Promise { bucket: self, number, kept: false };
        if let Some(deadline) = deadline.filter(|deadline| !wait.is_zero() && !deadline.allows(after(wait))) {
            return Err(TimeoutError::RateLimit(deadline.limit));
        }
        tokio::time::sleep(wait).await;
        promise.kept = true;
        Ok(())
    }

    /// Takes a token. Says which one, and how long to wait until it is there.
    fn promise(&self) -> (u64, Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let filled = now.saturating_duration_since(state.filled).as_secs_f64() * self.rate;
        state.left = (state.left + filled).min(self.burst) - 1.0;
        state.filled = now;
        state.taken += 1;
        let wait = Duration::try_from_secs_f64((-state.left / self.rate).max(0.0)).unwrap_or(Duration::MAX);
        (state.taken, wait)
    }
}

/// A token that is waited for.
struct Promise<'b> {
    bucket: &'b Bucket,
    number: u64,
    kept: bool,
}

impl Drop for Promise<'_> {
    /// Whoever stops waiting gives the token back, unless somebody waits for the one after it: that one's time stays, and
    /// two at that time would be too many.
    fn drop(&mut self) {
        let mut state = self.bucket.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.kept && state.taken == self.number {
            state.left += 1.0;
            state.taken -= 1;
        }
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
            bucket.take(Deadline::of(&request)).await?;
        }
        self.inner.oneshot(request).await
    }
}

service!(RateLimit);
