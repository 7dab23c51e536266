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
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// The standard library's clock: whether it counts suspend depends on the system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn uptime() -> Duration {
    use std::sync::OnceLock;
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // Never zero, as if something had happened before the first call.
    START.get_or_init(std::time::Instant::now).elapsed() + Duration::from_nanos(1)
}
