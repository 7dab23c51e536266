//! Exponential back-off with jitter.

use std::time::Duration;

use steersman_world::World;
use tokio::time::Instant;

/// 0.8 s, doubled with each failure up to 30 s, each with a random factor of 1 to 2. Starts over
/// after two minutes without a failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    world: World,
    failures: u32,
    last: Option<Instant>,
}

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// Longest wait, with jitter.
pub(crate) const JITTERED_MAX: Duration = Duration::from_secs(60);
const HEALTHY: Duration = Duration::from_secs(120);

impl Backoff {
    pub(crate) fn new(world: World) -> Self {
        Self { world, failures: 0, last: None }
    }

    /// How long to wait after a failure at `now`.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > HEALTHY) {
            self.failures = 0;
        }
        let delay = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let jittered = delay.mul_f64(1.0 + self.world.random_unit());
        // The healthy time counts from the end of the wait.
        self.last = Some(now + jittered);
        jittered
    }

    /// The wait ended at `now`, earlier or later than [`next`](Self::next) returned.
    pub(crate) fn over(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_800_ms_to_30_s_with_jitter() {
        let mut backoff = Backoff::new(World::system());
        let now = Instant::now();
        for expected_ms in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let expected = Duration::from_millis(expected_ms);
            let delay = backoff.next(now);
            assert!((expected..=expected * 2).contains(&delay), "{delay:?} instead of {expected:?}");
        }
    }

    #[test]
    fn backoff_starts_again_after_two_minutes_of_health() {
        let mut backoff = Backoff::new(World::system());
        let mut now = Instant::now();
        for _ in 0..5 {
            now += backoff.next(now);
        }
        assert!(backoff.next(now + Duration::from_secs(119)) >= LONGEST.mul_f64(0.8));
        assert!(backoff.next(now + Duration::from_secs(400)) <= FIRST * 2);
    }
}
