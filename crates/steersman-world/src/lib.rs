//! The clocks and the randomness of a process, as one handle.
//!
//! A [`World`] is passed to the API server, the client and the manager. Creation timestamps, uids,
//! generated names, the jitter of back-offs and the time that a reconcile sees come from it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::time::Duration;
//! use steersman_world::World;
//!
//! let start = "2026-01-31T10:00:00Z".parse().unwrap();
//! let world = World::seeded(7, start);
//! assert_eq!(world.random_u64(), World::seeded(7, start).random_u64());
//!
//! tokio::time::advance(Duration::from_secs(60)).await;
//! assert_eq!(world.now().to_string(), "2026-01-31T10:01:00Z");
//! # }
//! ```
//!
//! Timers are not part of it: `sleep` and timeouts follow tokio's clock, which tests pause.

mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use source::{Seeded, Source};

/// Two clocks and a source of random numbers. Clones share them.
///
/// [`World::system`], the default, is the machine's. [`World::seeded`] is for tests and
/// simulations: its clocks follow tokio's clock and its random numbers depend on the seed alone.
/// Each simulated process has one of its own.
#[derive(Clone)]
pub struct World {
    source: Arc<Source>,
}

impl World {
    /// The machine's clocks, and random numbers that differ between processes.
    pub fn system() -> Self {
        Self { source: Arc::new(Source::System) }
    }

    /// A world that starts at `start`. Its clocks advance with tokio's clock, and the same seed
    /// gives the same random numbers.
    pub fn seeded(seed: u64, start: Timestamp) -> Self {
        Self { source: Arc::new(Source::Seeded(Box::new(Seeded::new(seed, start)))) }
    }

    /// The time of the wall clock. It may jump, forward and back.
    pub fn now(&self) -> Timestamp {
        match &*self.source {
            Source::System => Timestamp::now(),
            Source::Seeded(seeded) => seeded.now(),
        }
    }

    /// The time since a fixed point in the past. It never goes back, and on Linux it includes the
    /// time in which the machine was suspended. tokio's clock does not.
    ///
    /// Use it for what expires on other machines too, such as a lease: after a suspension the
    /// holder must not believe that it still has time left.
    pub fn uptime(&self) -> Duration {
        match &*self.source {
            Source::System => source::uptime(),
            Source::Seeded(seeded) => seeded.uptime(),
        }
    }

    /// A random number. Not for secrets.
    pub fn random_u64(&self) -> u64 {
        match &*self.source {
            Source::System => fastrand::u64(..),
            Source::Seeded(seeded) => seeded.random_u64(),
        }
    }

    /// A random number from 0 up to, and without, 1.
    pub fn random_unit(&self) -> f64 {
        (self.random_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Random bytes. Not for secrets.
    pub fn random_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&self.random_u64().to_le_bytes());
        high.copy_from_slice(&self.random_u64().to_le_bytes());
        bytes
    }

    /// Sets the wall clock of a seeded world, as an administrator or NTP does. The monotonic clock
    /// does not change.
    ///
    /// # Panics
    ///
    /// If this is the system's world: a library does not set the machine's clock.
    pub fn set_now(&self, now: Timestamp) {
        self.seeded_only("set_now").set_now(now);
    }

    /// Suspends the machine of a seeded world for some time: both clocks jump forward, timers do
    /// not.
    ///
    /// # Panics
    ///
    /// If this is the system's world.
    pub fn suspend(&self, duration: Duration) {
        self.seeded_only("suspend").suspend(duration);
    }

    fn seeded_only(&self, function: &str) -> &Seeded {
        match &*self.source {
            Source::System => panic!("World::{function} needs a world of World::seeded, this is the system's"),
            Source::Seeded(seeded) => seeded,
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &*self.source {
            Source::System => "system",
            Source::Seeded(_) => "seeded",
        };
        f.debug_struct("World").field("source", &source).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn start() -> Timestamp {
        "2026-01-31T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_system_world_is_the_machine() {
        let world = World::default();
        let before = Timestamp::now();
        let (now, first) = (world.now(), world.uptime());
        assert!(before <= now && now <= Timestamp::now());
        assert!(first > Duration::ZERO && world.uptime() >= first);
        let numbers: std::collections::HashSet<_> = (0..100).map(|_| world.random_u64()).collect();
        assert_eq!(numbers.len(), 100);
        assert_ne!(world.random_bytes(), world.random_bytes());
        assert!((0..100).all(|_| (0.0..1.0).contains(&world.random_unit())));
    }

    #[tokio::test(start_paused = true)]
    async fn the_clocks_of_a_seeded_world_follow_tokio() {
        let world = World::seeded(1, start());
        assert_eq!((world.now(), world.uptime()), (start(), Duration::ZERO));
        advance(90 * SECOND).await;
        assert_eq!((world.now(), world.uptime()), (start() + 90 * SECOND, 90 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_that_is_set_moves_nothing_else() {
        let world = World::seeded(1, start());
        advance(SECOND).await;
        world.set_now(start() - 3600 * SECOND);
        assert_eq!(world.now(), start() - 3600 * SECOND);
        advance(SECOND).await;
        assert_eq!((world.now(), world.uptime()), (start() - 3599 * SECOND, 2 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn suspend_moves_both_clocks_and_no_timer() {
        let world = World::seeded(1, start());
        let before = tokio::time::Instant::now();
        world.suspend(60 * SECOND);
        assert_eq!((world.now(), world.uptime()), (start() + 60 * SECOND, 60 * SECOND));
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_seed_gives_the_same_numbers_to_clones_and_twins() {
        let (one, twin, other) = (World::seeded(1, start()), World::seeded(1, start()), World::seeded(2, start()));
        let numbers = |world: &World| (0..8).map(|_| world.random_u64()).collect::<Vec<_>>();
        let first = numbers(&one);
        assert_eq!(first, numbers(&twin));
        assert_ne!(first, numbers(&other));
        // A clone goes on where the world is.
        assert_eq!(numbers(&one.clone()), numbers(&twin));
    }

    #[test]
    #[should_panic(expected = "World::set_now needs a world of World::seeded")]
    fn the_machine_cannot_be_set() {
        World::system().set_now(start());
    }
}
