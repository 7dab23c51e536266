//! Exponential back-off with jitter.

use std::time::Duration;

use steersman_world::World;
use tokio::time::Instant;

use super::options::ReflectorOptions;

/// A wait that is doubled with each failure up to a longest one, each with a random factor of 1 to
/// 2. Starts over after two minutes without a failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    world: World,
    first: Duration,
    longest: Duration,
    failures: u32,
    last: Option<Instant>,
}

/// Longest wait by default, with jitter.
pub(crate) const JITTERED_MAX: Duration = Duration::from_secs(60);
/// Shorter waits are this long.
const SHORTEST: Duration = Duration::from_millis(10);
/// Longer waits are this long.
const LONGEST_ALLOWED: Duration = Duration::from_secs(24 * 60 * 60);
const HEALTHY: Duration = Duration::from_secs(120);

impl Backoff {
    pub(crate) fn new(world: World, options: &ReflectorOptions) -> Self {
        // A wait of zero would be a busy loop.
        let first = options.backoff_min.clamp(SHORTEST, LONGEST_ALLOWED);
        Self { world, first, longest: options.backoff_max.clamp(first, LONGEST_ALLOWED), failures: 0, last: None }
    }

    /// How long to wait after a failure at `now`.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > HEALTHY) {
            self.failures = 0;
        }
        let delay = self.first.saturating_mul(1 << self.failures.min(16)).min(self.longest);
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
        let mut backoff = Backoff::new(World::system(), &ReflectorOptions::default());
        let now = Instant::now();
        for expected_ms in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let expected = Duration::from_millis(expected_ms);
            let delay = backoff.next(now);
            assert!((expected..=expected * 2).contains(&delay), "{delay:?} instead of {expected:?}");
        }
    }

    #[test]
    fn backoff_starts_again_after_two_minutes_of_health() {
        let mut backoff = Backoff::new(World::system(), &ReflectorOptions::default());
        let mut now = Instant::now();
        for _ in 0..5 {
            now += backoff.next(now);
        }
        assert!(backoff.next(now + Duration::from_secs(119)) >= Duration::from_secs(24));
        assert!(backoff.next(now + Duration::from_secs(400)) <= Duration::from_millis(1_600));
    }

    #[test]
    fn the_waits_are_those_of_the_options() {
        let seconds = Duration::from_secs;
        let now = Instant::now();
        let options =
            |backoff_min, backoff_max| ReflectorOptions { backoff_min, backoff_max, ..ReflectorOptions::default() };
        let mut backoff = Backoff::new(World::system(), &options(seconds(2), seconds(5)));
        for expected in [2, 4, 5, 5].map(seconds) {
            let delay = backoff.next(now);
            assert!((expected..=expected * 2).contains(&delay), "{delay:?} instead of {expected:?}");
        }
        // Never a busy loop, and no overflow.
        assert!(Backoff::new(World::system(), &options(Duration::ZERO, Duration::ZERO)).next(now) >= SHORTEST);
        assert!(Backoff::new(World::system(), &options(Duration::MAX, Duration::MAX)).next(now) >= LONGEST_ALLOWED);
    }
}
