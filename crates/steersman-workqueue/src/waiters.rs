//! The workers that wait for a key, and which of them to wake.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use std::time::{Duration, Instant};

/// How many ready keys one notified worker stands for. Waking a worker costs far more than the time
/// until the next key of a burst.
const BURST: usize = 32;

/// Delayed keys that become ready closer together than this come in a row.
const IN_A_ROW: Duration = Duration::from_millis(2);
/// From the second key in a row on, the timer rests for this long between two expiries, and a
/// worker takes a handful of keys at a time. Waking costs several times as much as a key.
const TIMER_REST: Duration = Duration::from_millis(8);

/// A waiting worker. Workers that began to wait earlier have smaller numbers.
pub(crate) type WaiterId = u64;

/// The workers that wait.
///
/// [`settle`](Self::settle) restores two invariants after any change:
///
/// - One waiting worker for every [`BURST`] ready keys is notified, or all if there are fewer. A
///   worker that takes a key settles again, so each notifies the next as long as there are keys.
/// - If a key is delayed, one worker sleeps until its time at the latest (or for [`TIMER_REST`]
///   after the last expiry, where keys come in a row), or some worker is notified.
///
/// A worker that leaves, with a key or because its future was dropped, passes its notification or
/// its timer on by the same rule. So no wake-up is lost.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<WaiterId, Waker>,
    notified: BTreeSet<WaiterId>,
    next: WaiterId,
    /// The worker that sleeps, and until when: one timer serves all.
    timer: Option<(WaiterId, Instant)>,
    /// When the timer last expired.
    expired: Option<Instant>,
    /// Whether the key for which it expired came in a row with the one before.
    in_a_row: bool,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.notified.is_empty()
    }

    /// Begins to wait, or keeps the place of a worker that has waited before.
    pub(crate) fn wait(&mut self, id: Option<WaiterId>, waker: &Waker) -> WaiterId {
        let id = id.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.notified.remove(&id);
        match self.waiting.get_mut(&id) {
            Some(known) => known.clone_from(waker),
            None => drop(self.waiting.insert(id, waker.clone())),
        }
        id
    }

    /// Stops waiting.
    pub(crate) fn leave(&mut self, id: WaiterId) {
        self.waiting.remove(&id);
        self.notified.remove(&id);
        if self.timer.is_some_and(|(owner, _)| owner == id) {
            self.timer = None;
        }
    }

    /// A worker looks for a key at `now`. If it slept until now, the timer has expired.
    pub(crate) fn look(&mut self, id: WaiterId, now: Instant, deadline: impl FnOnce() -> Option<Instant>) {
        if self.timer.is_some_and(|(owner, until)| owner == id && until <= now) {
            self.timer = None;
            self.in_a_row = deadline().is_some_and(|deadline| self.is_in_a_row(deadline));
            self.expired = Some(now);
        }
    }

    /// Whether a key that becomes ready at `deadline` comes in a row with the last expiry.
    fn is_in_a_row(&self, deadline: Instant) -> bool {
        self.expired.is_some_and(|before| deadline.saturating_duration_since(before) < IN_A_ROW)
    }

    /// Until when this worker has to sleep, given the time of the next delayed key. `None` means
    /// until it is woken: no key is delayed, or another worker sleeps for all.
    pub(crate) fn sleeps_until(&mut self, id: WaiterId, deadline: Option<Instant>) -> Option<Instant> {
        if self.timer.is_some_and(|(owner, _)| owner != id) {
            return None;
        }
        let until = deadline.map(|deadline| self.rested(deadline));
        self.timer = until.map(|until| (id, until));
        until
    }

    fn rested(&self, deadline: Instant) -> Instant {
        let rests = self.in_a_row && self.is_in_a_row(deadline);
        let rested = self.expired.filter(|_| rests).and_then(|before| before.checked_add(TIMER_REST));
        rested.map_or(deadline, |rested| deadline.max(rested))
    }

    /// Collects the workers to wake, given how many keys are ready and when the next delayed one
    /// will be.
    pub(crate) fn settle(&mut self, ready: usize, deadline: impl FnOnce() -> Option<Instant>, wake: &mut Wake) {
        while self.notified.len() < ready.div_ceil(BURST) && self.notify_first(wake) {}
        if self.timer.is_none() && !self.notified.is_empty() {
            return;
        }
        let Some(deadline) = deadline() else { return };
        match self.timer {
            Some((_, until)) if until <= self.rested(deadline) => {}
            Some((sleeper, _)) => {
                if let Some(waker) = self.waiting.remove(&sleeper) {
                    self.notified.insert(sleeper);
                    wake.push(waker);
                }
            }
            None => {
                self.notify_first(wake);
            }
        }
    }

    /// Notifies every waiting worker.
    pub(crate) fn notify_all(&mut self, wake: &mut Wake) {
        while self.notify_first(wake) {}
    }

    /// Notifies the worker that has waited longest. Returns whether there was one.
    fn notify_first(&mut self, wake: &mut Wake) -> bool {
        let Some((id, waker)) = self.waiting.pop_first() else { return false };
        self.notified.insert(id);
        wake.push(waker);
        true
    }
}

/// Wakers to call once the lock is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Wake {
    /// Nearly always there is at most one.
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wake {
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    pub(crate) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
            self.others.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(all(test, not(steersman_loom)))]
mod tests {
    use super::*;

    /// When a timer expires that is set at `now` for a key that is ready then.
    fn expiry(waiters: &mut Waiters, now: Instant) -> Instant {
        let id = waiters.wait(None, Waker::noop());
        let until = waiters.sleeps_until(id, Some(now)).expect("it sleeps");
        waiters.look(id, until, || Some(now));
        waiters.leave(id);
        until
    }

    #[test]
    fn the_timer_rests_where_keys_come_in_a_row_and_only_there() {
        let (mut waiters, start) = (Waiters::default(), Instant::now());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let expired: Vec<_> = [0, 1, 2, 3, 22, 500, 505, 510].map(|ready| expiry(&mut waiters, at(ready))).into();
        // The first two alone, then every 8 ms. Keys every 5 ms or after a break come alone again.
        assert_eq!(expired, [0, 1, 9, 17, 22, 500, 505, 510].map(at));
    }
}
