//! Shortens the back-off of reflectors while something waits for them.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steersman_world::World;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The longest wait of a reflector that is in a hurry. The shortest is half of it.
const SOON_MAX: Duration = Duration::from_secs(2);

/// What an informer's reflectors share with the reads that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Haste {
    world: World,
    /// How many reads wait.
    waiting: AtomicUsize,
    /// How many reflectors back off.
    backing_off: AtomicUsize,
    calls: Notify,
}

/// Keeps the back-off of an informer short as long as it lives: see [`Informer::hurry`](crate::Informer::hurry).
pub struct Hurry(Arc<Haste>);

impl fmt::Debug for Hurry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hurry").finish_non_exhaustive()
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a reflector that backs off, also when its future is dropped in the middle.
struct BackingOff<'a>(&'a Haste);

impl Drop for BackingOff<'_> {
    fn drop(&mut self) {
        self.0.backing_off.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Haste {
    pub(crate) fn new(world: World) -> Self {
        Self { world, ..Self::default() }
    }

    /// Shortens the back-offs that are under way, and those that begin while the result lives.
    pub(crate) fn hurry(self: &Arc<Self>) -> Hurry {
        // `sleep` writes and reads these two in the other order, so at least one side sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let hurry = Hurry(Arc::clone(self));
        self.hurry_once();
        hurry
    }

    /// Shortens the back-offs that are under way. Costs one load where there are none.
    pub(crate) fn hurry_once(&self) {
        if self.backing_off.load(Ordering::SeqCst) > 0 {
            self.calls.notify_waiters();
        }
    }

    /// Sleeps until `until`; if there is a hurry, for a jittered two seconds at most, but never less than until `earliest`.
    /// `shortened` gets the new end.
    pub(crate) async fn sleep(&self, until: Instant, earliest: Instant, shortened: impl FnOnce(Instant)) {
        self.backing_off.fetch_add(1, Ordering::SeqCst);
        let _mark = BackingOff(self);
        // Receives each call from here on, polled or not.
        let called = pin!(self.calls.notified());
        if self.waiting.load(Ordering::SeqCst) == 0 {
            tokio::select! {
                biased;
                () = sleep_until(until) => return,
                () = called => {}
            }
        }
        let soon = (Instant::now() + SOON_MAX.mul_f64(0.5 + self.world.random_unit() / 2.0)).max(earliest);
        if soon < until {
            shortened(soon);
        }
        sleep_until(soon.min(until)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sleeps for a minute, at least for so long, and gives how long it was and the end that was announced.
    async fn nap(haste: &Haste, earliest: u64) -> (Duration, Option<Duration>) {
        let (now, mut announced) = (Instant::now(), None);
        let earliest = now + Duration::from_secs(earliest);
        haste.sleep(now + Duration::from_secs(60), earliest, |until| announced = Some(until - now)).await;
        (now.elapsed(), announced)
    }

    fn is_soon(slept: Duration) -> bool {
        // Timers are exact to a millisecond.
        (Duration::from_secs(1)..=Duration::from_millis(2_001)).contains(&slept)
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_hurry_nothing_is_shortened() {
        let haste = Arc::new(Haste::default());
        // What was over before counts for nothing.
        drop(haste.hurry());
        haste.hurry_once();
        assert_eq!(nap(&haste, 0).await, (Duration::from_secs(60), None));
        assert_eq!(haste.backing_off.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_begins_in_a_hurry_is_short() {
        let haste = Arc::new(Haste::default());
        let hurry = haste.hurry();
        for _ in 0..20 {
            let (slept, announced) = nap(&haste, 0).await;
            assert!(is_soon(slept) && announced.is_some_and(is_soon), "{slept:?} {announced:?}");
        }
        drop(hurry);
        assert_eq!(nap(&haste, 0).await.0, Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hurry_shortens_a_sleep_that_is_under_way_and_never_prolongs_it() {
        for (after, once) in [(10, true), (10, false), (59, true)] {
            let haste = Arc::new(Haste::default());
            let caller = Arc::clone(&haste);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(after)).await;
                if once { caller.hurry_once() } else { drop(caller.hurry()) }
            });
            let (slept, _) = nap(&haste, 0).await;
            let expected = slept - Duration::from_secs(after);
            assert!(is_soon(expected), "{slept:?} after a call at {after} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_hurry_shortens_a_sleep_below_its_shortest_time() {
        let haste = Arc::new(Haste::default());
        let _hurry = haste.hurry();
        assert_eq!(nap(&haste, 45).await.0, Duration::from_secs(45));
        assert_eq!(nap(&haste, 60).await, (Duration::from_secs(60), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_is_dropped_is_not_counted_any_more() {
        let haste = Haste::default();
        let _ = tokio::time::timeout(Duration::from_secs(1), nap(&haste, 0)).await;
        assert_eq!(haste.backing_off.load(Ordering::SeqCst), 0);
    }
}
