//! Where producers and workers put things down without waiting for each other.

use std::borrow::Borrow;
use std::collections::VecDeque;

use crate::core::{Stamp, Ticket};

/// So much waits at the most for somebody to take it in.
const ARRIVALS_MAX: usize = 256;

/// What was put down, oldest first.
pub(crate) type Arrivals<T> = VecDeque<Arrival<T>>;

/// The two operations that make up nearly all the traffic of a queue, and need no answer.
pub(crate) enum Arrival<T> {
    /// A key was added, without delay or priority.
    Add(T, Stamp),
    /// A worker is done with its key.
    Done(Ticket),
}

/// Plain adds and the end of work are put down here, under a lock that is held for an instant, and taken in all together by
/// whoever next finds nothing ready in the queue. So producers and workers rarely meet, and a burst is worked through while
/// the queue is warm in one processor's cache.
///
/// Nobody can tell the difference (test `the_queue_with_waiting_does_what_the_model_does`): what was put down counts as done, every
/// operation whose answer depends on it takes it in first, and nothing is left here while somebody waits for it and nobody is
/// about to look (`direct`). One does not take it in first: a worker who is handed a key that is ready. So each add has a stamp,
/// and is no longer wanted if its key was handed out after it.
pub(crate) struct Intake<T> {
    arrivals: Arrivals<T>,
    direct: bool,
    /// That of the last add.
    stamp: Stamp,
}

impl<T: Eq> Intake<T> {
    pub(crate) fn new(direct: bool) -> Self {
        Self { arrivals: Arrivals::new(), direct, stamp: 0 }
    }

    /// The stamp of the last add.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Puts down an add of `key`. Returns whether the caller has to take it in.
    ///
    /// If an add of that key was the last thing to be put down, as in a burst of events of one object, it gets the new stamp, and who
    /// put it down sees to it.
    #[must_use]
    pub(crate) fn put_down_add<Q: Borrow<T>>(&mut self, key: Q, into_key: impl FnOnce(Q) -> T) -> bool {
        let stamp = self.stamp + 1;
        if let Some(Arrival::Add(last, stamped)) = self.arrivals.back_mut()
            && last == key.borrow()
        {
            (*stamped, self.stamp) = (stamp, stamp);
            return false;
        }
        self.arrivals.push_back(Arrival::Add(into_key(key), stamp));
        self.stamp = stamp;
        self.has_to_be_taken_in()
    }

    /// Puts down the end of work on a key. Returns whether the caller has to take it in.
    #[must_use]
    pub(crate) fn put_down_done(&mut self, ticket: Ticket) -> bool {
        self.arrivals.push_back(Arrival::Done(ticket));
        self.has_to_be_taken_in()
    }

    /// Of those who find the intake full one has to empty it, not all.
    fn has_to_be_taken_in(&self) -> bool {
        self.direct || self.arrivals.len().is_multiple_of(ARRIVALS_MAX)
    }

    /// Moves what was put down to `to`, which is empty. Returns whether there was anything.
    pub(crate) fn take(&mut self, to: &mut Arrivals<T>) -> bool {
        std::mem::swap(&mut self.arrivals, to);
        !to.is_empty()
    }

    /// Says whether things may be left here from now on. Returns whether something had been.
    pub(crate) fn set_direct(&mut self, direct: bool) -> bool {
        self.direct = direct;
        !self.arrivals.is_empty()
    }
}
