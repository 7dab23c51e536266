//! Shortens the back-off of reflectors while a caller waits for them.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steersman_world::World;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Longest wait of a shortened back-off. The shortest is half of it.
const SHORTENED_MAX: Duration = Duration::from_secs(2);

/// Shared by the reflectors of an informer and the reads that wait for them.
#[derive(Debug, Default)]
pub(crate) struct BackoffControl {
    world: World,
    /// Number of [`ShortBackoff`] guards.
    guards: AtomicUsize,
    /// Number of reflectors that back off.
    backing_off: AtomicUsize,
    calls: Notify,
}

/// Keeps the back-off of an informer short until it is dropped: see
/// [`Informer::shorten_backoff`](crate::Informer::shorten_backoff).
pub struct ShortBackoff(Arc<BackoffControl>);

impl fmt::Debug for ShortBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortBackoff").finish_non_exhaustive()
    }
}

impl Drop for ShortBackoff {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a reflector that backs off, also if its future is dropped.
struct BackingOff<'a>(&'a BackoffControl);

impl Drop for BackingOff<'_> {
    fn drop(&mut self) {
        self.0.backing_off.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BackoffControl {
    pub(crate) fn new(world: World) -> Self {
        Self { world, ..Self::default() }
    }

    /// Shortens current back-offs, and those that begin while the guard lives.
    pub(crate) fn shorten(self: &Arc<Self>) -> ShortBackoff {
        // `sleep` writes and reads these two counters in the other order, so at least one side sees
        // the other.
        self.guards.fetch_add(1, Ordering::SeqCst);
        let guard = ShortBackoff(Arc::clone(self));
        self.shorten_current();
        guard
    }

    /// Shortens current back-offs. Costs one load if there are none.
    pub(crate) fn shorten_current(&self) {
        if self.backing_off.load(Ordering::SeqCst) > 0 {
            self.calls.notify_waiters();
        }
    }

    /// Sleeps until `until`. If shortened, sleeps for at most two seconds, with jitter, but never
    /// ends before `earliest`. `shortened` receives the new end.
    pub(crate) async fn sleep(&self, until: Instant, earliest: Instant, shortened: impl FnOnce(Instant)) {
        self.backing_off.fetch_add(1, Ordering::SeqCst);
        let _backing_off = BackingOff(self);
        // Receives every call from here on, whether polled or not.
        let called = pin!(self.calls.notified());
        if self.guards.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                biased;
                () = sleep_until(until) => return,
                () = called => {}
            }
        }
        let soon = (Instant::now() + SHORTENED_MAX.mul_f64(0.5 + self.world.random_unit() / 2.0)).max(earliest);
        if soon < until {
            shortened(soon);
        }
        sleep_until(soon.min(until)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sleeps for a minute, but at least for `earliest` seconds. Returns how long it slept, and the
    /// shortened end that it announced.
    async fn nap(control: &BackoffControl, earliest: u64) -> (Duration, Option<Duration>) {
        let (now, mut announced) = (Instant::now(), None);
        let earliest = now + Duration::from_secs(earliest);
        control.sleep(now + Duration::from_secs(60), earliest, |until| announced = Some(until - now)).await;
        (now.elapsed(), announced)
    }

    fn is_soon(slept: Duration) -> bool {
        // Timers are exact to a millisecond.
        (Duration::from_secs(1)..=Duration::from_millis(2_001)).contains(&slept)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_is_not_shortened_without_a_guard() {
        let control = Arc::new(BackoffControl::default());
        // Guards and calls of the past have no effect.
        drop(control.shorten());
        control.shorten_current();
        assert_eq!(nap(&control, 0).await, (Duration::from_secs(60), None));
        assert_eq!(control.backing_off.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_begins_under_a_guard_is_short() {
        let control = Arc::new(BackoffControl::default());
        let guard = control.shorten();
        for _ in 0..20 {
            let (slept, announced) = nap(&control, 0).await;
            assert!(is_soon(slept) && announced.is_some_and(is_soon), "{slept:?} {announced:?}");
        }
        drop(guard);
        assert_eq!(nap(&control, 0).await.0, Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_shortens_a_sleep_in_progress_and_never_prolongs_it() {
        for (after, once) in [(10, true), (10, false), (59, true)] {
            let control = Arc::new(BackoffControl::default());
            let caller = Arc::clone(&control);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(after)).await;
                if once { caller.shorten_current() } else { drop(caller.shorten()) }
            });
            let (slept, _) = nap(&control, 0).await;
            let expected = slept - Duration::from_secs(after);
            assert!(is_soon(expected), "{slept:?} after a call at {after} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_never_shortens_a_sleep_below_its_shortest_time() {
        let control = Arc::new(BackoffControl::default());
        let _guard = control.shorten();
        assert_eq!(nap(&control, 45).await.0, Duration::from_secs(45));
        assert_eq!(nap(&control, 60).await, (Duration::from_secs(60), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_sleep_is_no_longer_counted() {
        let control = BackoffControl::default();
        let _ = tokio::time::timeout(Duration::from_secs(1), nap(&control, 0)).await;
        assert_eq!(control.backing_off.load(Ordering::SeqCst), 0);
    }
}
