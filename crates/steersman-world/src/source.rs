//! Where a world takes its times and numbers from.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

pub(crate) enum Source {
    System,
    Seeded(Box<Seeded>),
}

pub(crate) struct Seeded {
    start: Timestamp,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    random: fastrand::Rng,
    /// How far the wall clock is ahead of `start` and the time since then.
    wall_offset: SignedDuration,
    suspended: Duration,
}

impl Seeded {
    pub(crate) fn new(seed: u64, start: Timestamp) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let state = State { random, wall_offset: SignedDuration::ZERO, suspended: Duration::ZERO };
        Self { start, started: Instant::now(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let offset = self.state().wall_offset;
        self.unset_now().saturating_add(offset).unwrap_or(Timestamp::MAX)
    }

    /// The time if nothing had set the wall clock.
    fn unset_now(&self) -> Timestamp {
        self.start.saturating_add(self.uptime()).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed().saturating_add(self.state().suspended)
    }

    pub(crate) fn random_u64(&self) -> u64 {
        self.state().random.u64(..)
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        let offset = now.duration_since(self.unset_now());
        self.state().wall_offset = offset;
    }

    pub(crate) fn suspend(&self, duration: Duration) {
        let mut state = self.state();
        state.suspended = state.suspended.saturating_add(duration);
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn uptime() -> Duration {
    uptime_by(nix::time::ClockId::CLOCK_BOOTTIME)
}

/// The time of a clock that a sandbox can refuse.
#[cfg(target_os = "linux")]
fn uptime_by(clock: nix::time::ClockId) -> Duration {
    nix::time::clock_gettime(clock).map_or_else(|_| since_start(), Duration::from)
}

/// The standard library's clock: whether it counts suspend depends on the system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn uptime() -> Duration {
    since_start()
}

/// The time since the first call, by the standard library's clock.
fn since_start() -> Duration {
    use std::sync::OnceLock;
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // Never zero, as if something had happened before the first call.
    START.get_or_init(std::time::Instant::now).elapsed() + Duration::from_nanos(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_refused_is_replaced_by_one_that_runs() {
        let refused = nix::time::ClockId::from_raw(1 << 20);
        let first = uptime_by(refused);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while uptime_by(refused) == first {
            assert!(std::time::Instant::now() < deadline, "the clock stands still at {first:?}");
        }
    }
}
