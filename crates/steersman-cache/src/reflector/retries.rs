//! How long a reflector waits after a failure, and how it reports the failure.

use std::time::Duration;

use steersman_client::Error;
use tokio::time::Instant;

use super::Reflector;
use super::backoff::JITTERED_MAX;
use super::lister_watcher::ListerWatcher;
use super::status::{Phase, Reason, ReflectorError, now};
use super::store::ReflectorStore;
use crate::object::cached::Object;

/// Longest wait for a kind that is not installed. The shortest is half of it.
const NOT_INSTALLED_MAX: Duration = Duration::from_secs(3);
/// A failure of the same reason is logged as a warning once per interval, otherwise at DEBUG.
const WARNING_EVERY: Duration = Duration::from_secs(60);
/// Longest Retry-After that is honoured: the longest back-off.
const RETRY_AFTER_MAX: Duration = JITTERED_MAX;

impl<K: Object, L: ListerWatcher, S: ReflectorStore<K>> Reflector<K, L, S> {
    /// Records a failure of the client in the status.
    pub(super) fn report(&self, error: &Error) -> ReflectorError {
        let error = {
            let status = self.status.borrow();
            ReflectorError::new(&status.resource, status.lists, error)
        };
        self.status.send_modify(|status| {
            status.count_restart(Some(error.reason));
            status.last_error = Some(error.clone());
        });
        self.on_error.call(&error);
        error
    }

    /// Reports a failure of the client and backs off.
    pub(super) async fn back_off(&mut self, error: &Error) {
        let delay = self.backoff.next(Instant::now());
        let delay = if self.not_installed {
            delay.min(NOT_INSTALLED_MAX.mul_f64(0.5 + self.world.random_unit() / 2.0))
        } else {
            delay
        };
        let reported = self.report(error);
        self.wait(reported, delay, retry_after(error)).await;
    }

    /// Backs off after a problem that is no error of the client.
    pub(super) async fn back_off_from(&mut self, problem: &str) {
        let delay = self.backoff.next(Instant::now());
        let message = format!("{}: {problem}", self.resource());
        let (reason, cause) = (Reason::Other, problem.to_owned());
        self.status.send_modify(|status| status.count_restart(Some(reason)));
        let error = ReflectorError { reason, message, cause, at: now() };
        self.on_error.call(&error);
        self.wait(error, delay, Duration::ZERO).await;
    }

    /// Waits for `delay`, or less if [`BackoffControl`](super::backoff_control::BackoffControl)
    /// shortens it, but at least for `earliest`.
    async fn wait(&mut self, error: ReflectorError, delay: Duration, earliest: Duration) {
        let now = Instant::now();
        let delay = delay.max(earliest);
        let is_repeated = |(reason, at): (Reason, Instant)| reason == error.reason && now - at < WARNING_EVERY;
        if self.warned.is_some_and(is_repeated) {
            tracing::debug!(%error, retry_in = ?delay, "list or watch failed, will retry");
        } else {
            self.warned = Some((error.reason, now));
            tracing::warn!(%error, retry_in = ?delay, "list or watch failed, will retry");
        }
        self.status.send_modify(|status| {
            status.last_error = Some(error);
            status.enter(Phase::BackingOff { until: (now + delay).into_std() });
        });
        let status = &self.status;
        let shortened = |until: Instant| {
            status.send_modify(|status| {
                if matches!(status.phase, Phase::BackingOff { .. }) {
                    status.phase = Phase::BackingOff { until: until.into_std() };
                }
            });
        };
        self.backoff_control.sleep(now + delay, now + earliest, shortened).await;
        self.backoff.over(Instant::now());
    }
}

/// The Retry-After of the server; zero if it sent none.
fn retry_after(error: &Error) -> Duration {
    let details = error.status().and_then(|status| status.details.as_ref());
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX)
}
