//! The workers that wait for a key, and which of them has to be woken.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use std::time::{Duration, Instant};

/// So many keys are left to one worker that was just told, before a second one is told at the same time. Waking costs far
/// more than most keys take to come.
const BURST: usize = 32;

/// Where delayed keys become ready closer together than this ...
const IN_A_ROW: Duration = Duration::from_millis(2);
/// ... for the second time, the timer does not go off for this long: a worker wakes for a handful of them at a time. Waking costs
/// several times what a key does.
const TIMER_REST: Duration = Duration::from_millis(8);

/// A worker that waits. Earlier ones have smaller numbers.
pub(crate) type WaiterId = u64;

/// Who waits.
///
/// [`settle`](Self::settle) restores two invariants after anything has changed:
///
/// - of the workers that wait, one for every [`BURST`] ready keys has been told to look again (or all, if there are fewer);
///   whoever takes a key settles anew, so that each tells the next for as long as there are keys;
/// - if a key is delayed, one worker sleeps no longer than until its time (or for [`TIMER_REST`] after the last time, where keys
///   come in a row), or some worker has been told to look again.
///
/// A worker that goes away, with a key or because its future was dropped, leaves; what it was told goes to another one by
/// the same rule. So no wake-up is lost.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: BTreeMap<WaiterId, Waker>,
    told: BTreeSet<WaiterId>,
    next: WaiterId,
    /// Who sleeps, and until when: one timer serves all.
    timer: Option<(WaiterId, Instant)>,
    /// When the timer last went off.
    went_off: Option<Instant>,
    /// Whether the key for which it did had become ready right after the one before.
    in_a_row: bool,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.told.is_empty()
    }

    /// Whether somebody waits and nobody has been told to look again.
    pub(crate) fn wait_untold(&self) -> bool {
        !self.waiting.is_empty() && self.told.is_empty()
    }

    /// Waits, in the place it had if it has waited before.
    pub(crate) fn wait(&mut self, id: Option<WaiterId>, waker: &Waker) -> WaiterId {
        let id = id.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.told.remove(&id);
        match self.waiting.get_mut(&id) {
            Some(known) => known.clone_from(waker),
            None => drop(self.waiting.insert(id, waker.clone())),
        }
        id
    }

    /// Waits no longer.
    pub(crate) fn leave(&mut self, id: WaiterId) {
        self.waiting.remove(&id);
        self.told.remove(&id);
        if self.timer.is_some_and(|(owner, _)| owner == id) {
            self.timer = None;
        }
    }

    /// This worker looks again, at `now`. If it slept and its time has come, the timer has gone off.
    pub(crate) fn look(&mut self, id: WaiterId, now: Instant, deadline: impl FnOnce() -> Option<Instant>) {
        if self.timer.is_some_and(|(owner, until)| owner == id && until <= now) {
            self.timer = None;
            self.in_a_row = deadline().is_some_and(|deadline| self.is_in_a_row(deadline));
            self.went_off = Some(now);
        }
    }

    /// Whether a key that becomes ready then does so right after the timer last went off, or did before.
    fn is_in_a_row(&self, deadline: Instant) -> bool {
        self.went_off.is_some_and(|before| deadline.saturating_duration_since(before) < IN_A_ROW)
    }

    /// Until when this worker has to sleep, given when the next delayed key becomes ready. `None` means without end: no key
    /// is delayed, or another worker sleeps for all.
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
        let rested = self.went_off.filter(|_| rests).and_then(|before| before.checked_add(TIMER_REST));
        rested.map_or(deadline, |rested| deadline.max(rested))
    }

    /// Says who has to be woken, given how many keys are ready and when the next delayed one will be.
    pub(crate) fn settle(&mut self, ready: usize, deadline: impl FnOnce() -> Option<Instant>, wake: &mut Wake) {
        while self.told.len() < ready.div_ceil(BURST) && self.tell_first(wake) {}
        if self.timer.is_none() && !self.told.is_empty() {
            return;
        }
        let Some(deadline) = deadline() else { return };
        match self.timer {
            Some((_, until)) if until <= self.rested(deadline) => {}
            Some((sleeper, _)) => {
                if let Some(waker) = self.waiting.remove(&sleeper) {
                    self.told.insert(sleeper);
                    wake.push(waker);
                }
            }
            None => {
                self.tell_first(wake);
            }
        }
    }

    /// Tells everybody.
    pub(crate) fn tell_all(&mut self, wake: &mut Wake) {
        while self.tell_first(wake) {}
    }

    /// Tells the one who has waited longest, if anybody waits.
    fn tell_first(&mut self, wake: &mut Wake) -> bool {
        let Some((id, waker)) = self.waiting.pop_first() else { return false };
        self.told.insert(id);
        wake.push(waker);
        true
    }
}

/// Workers to be woken, once the lock is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Wake {
    /// Nearly always there is one at the most.
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

    /// When the timer goes off that is set at `now` for a key which is ready then.
    fn goes_off(waiters: &mut Waiters, now: Instant) -> Instant {
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
        let went_off: Vec<_> = [0, 1, 2, 3, 22, 500, 505, 510].map(|ready| goes_off(&mut waiters, at(ready))).into();
        // The first two alone, then every eight; where they come every five milliseconds or after a while, alone again.
        assert_eq!(went_off, [0, 1, 9, 17, 22, 500, 505, 510].map(at));
    }
}
