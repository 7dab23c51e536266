//! A clock for the model checker, which has none. It stands still until a model [advances](advance)
//! it. Its lock is the model checker's, so a timer expires at every point at which it can.

use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use loom::sync::{Mutex, MutexGuard};

#[derive(Default)]
struct Clock {
    passed: Duration,
    /// The number of the last sleep.
    sleeps: u64,
    sleeping: Vec<(u64, Instant, Waker)>,
}

loom::lazy_static! {
    /// One clock for each run of a model.
    static ref CLOCK: Mutex<Clock> = Mutex::new(Clock::default());
}

fn clock() -> MutexGuard<'static, Clock> {
    CLOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Clock {
    fn now(&self) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + self.passed
    }
}

pub(crate) fn now() -> Instant {
    clock().now()
}

/// Advances the clock by `duration`, and wakes the sleeps whose time has come.
pub fn advance(duration: Duration) {
    let mut clock = clock();
    clock.passed += duration;
    let now = clock.now();
    let (due, sleeping) = std::mem::take(&mut clock.sleeping).into_iter().partition(|(_, until, _)| *until <= now);
    clock.sleeping = sleeping;
    drop(clock);
    let due: Vec<(u64, Instant, Waker)> = due;
    due.into_iter().for_each(|(_, _, waker)| waker.wake());
}

pub(crate) struct Sleep {
    number: u64,
    until: Instant,
}

pub(crate) fn sleep_until(until: tokio::time::Instant) -> Sleep {
    let mut clock = clock();
    clock.sleeps += 1;
    Sleep { number: clock.sleeps, until: until.into_std() }
}

impl Sleep {
    /// As in tokio, the new time counts from the next poll.
    pub(crate) fn reset(mut self: Pin<&mut Self>, until: tokio::time::Instant) {
        self.until = until.into_std();
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut clock = clock();
        clock.sleeping.retain(|(number, ..)| *number != self.number);
        if self.until <= clock.now() {
            return Poll::Ready(());
        }
        clock.sleeping.push((self.number, self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // After a failed model there is no clock.
        if !std::thread::panicking() {
            clock().sleeping.retain(|(number, ..)| *number != self.number);
        }
    }
}
