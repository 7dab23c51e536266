//! A key that a worker holds, and how its work ends.

use std::time::{Duration, Instant};

use crate::processing::PlaceId;
use crate::slots::SlotId;

/// How the work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Succeeded, or failed for good. The queue forgets the failures of the key.
    Done,
    /// Failed. The key comes back when the rate limiter allows it.
    Retry,
    /// Succeeded. The key comes back after that time, and the queue forgets its failures.
    RequeueAfter(Duration),
}

/// A key that a worker holds. [`Core::finish`](crate::Core::finish) takes it back.
#[derive(Debug)]
#[must_use = "the key stays with its worker until the ticket is given back to `Core::finish`"]
pub struct Ticket {
    pub(crate) slot: SlotId,
    pub(crate) place: PlaceId,
    pub(crate) priority: i8,
}

impl Ticket {
    /// The priority with which the key was handed out.
    pub fn priority(&self) -> i8 {
        self.priority
    }
}

/// A key that is handed out.
pub(crate) struct Taken<T, P> {
    pub(crate) ticket: Ticket,
    pub(crate) key: T,
    pub(crate) payload: P,
    pub(crate) waited: Duration,
    pub(crate) at: Instant,
}
