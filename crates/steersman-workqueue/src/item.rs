//! A key that a worker holds.

use std::hash::Hash;
use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::outcome::{Outcome, Taken, Ticket};
use crate::payload::Payload;
use crate::queue::WorkQueue;

/// A key that a worker holds until it reports an outcome. No other worker gets the key before.
///
/// An item that is dropped without an outcome counts as failed ([`retry`](Self::retry)); while the
/// queue drains, as done.
#[must_use = "a key that is dropped without an outcome is retried"]
pub struct Item<'q, T: Hash + Eq + Clone, P: Payload = ()> {
    queue: Handle<'q, T, P>,
    key: T,
    payload: P,
    waited: Duration,
    at: Instant,
    /// `None` once the outcome is reported.
    ticket: Option<Ticket>,
}

/// The queue that gets the key back.
pub(crate) enum Handle<'q, T: Hash + Eq + Clone, P: Payload> {
    Borrowed(&'q WorkQueue<T, P>),
    Owned(WorkQueue<T, P>),
}

impl<'q, T: Hash + Eq + Clone, P: Payload> Item<'q, T, P> {
    pub(crate) fn new(queue: Handle<'q, T, P>, Taken { ticket, key, payload, waited, at }: Taken<T, P>) -> Self {
        Self { queue, key, payload, waited, at, ticket: Some(ticket) }
    }

    /// The key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// The priority with which the key was handed out.
    pub fn priority(&self) -> i8 {
        self.ticket.as_ref().map_or(0, Ticket::priority)
    }

    /// How long the key was ready before this worker got it. Zero if the queue does not use the
    /// time: see [`Core::needs_time`](crate::Core::needs_time).
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// When this worker got the key, if the queue [uses the time](crate::Core::needs_time).
    pub fn taken_at(&self) -> Instant {
        self.at
    }

    /// What the adds of this key carried. A second call returns an empty payload.
    pub fn take_payload(&mut self) -> P {
        std::mem::take(&mut self.payload)
    }

    /// Finishes the key: the work succeeded, or a retry would not help. The queue forgets the
    /// failures of the key.
    pub fn done(mut self) {
        self.finish(Outcome::Done, None);
    }

    /// Finishes the key as failed. It comes back when the rate limiter allows it.
    pub fn retry(mut self) {
        self.finish(Outcome::Retry, None);
    }

    /// Finishes the key as succeeded and adds it again after `delay`. The queue forgets the
    /// failures of the key.
    pub fn requeue_after(mut self, delay: Duration) {
        self.finish(Outcome::RequeueAfter(delay), None);
    }

    /// Gives the key back without having worked on it. It is ready again at once, with its priority
    /// and its payload, unless [`take_payload`](Self::take_payload) has taken it. The failures of
    /// the key stay. After the queue was shut down, the key is dropped.
    pub fn give_back(mut self) {
        let payload = self.take_payload();
        if let Some(ticket) = self.ticket.take() {
            self.queue().give_back(ticket, payload);
        }
    }

    /// Finishes the key. If it comes back, it carries `payload`. Returns after which delay; `None`
    /// for [`Outcome::Done`].
    pub fn finish_with(mut self, outcome: Outcome, payload: P) -> Option<Duration> {
        self.finish(outcome, Some(payload))
    }

    /// [`finish_with`](Self::finish_with) for a worker that has just read the clock of the queue,
    /// which is tokio's: the queue does not read it again.
    pub fn finish_at(mut self, outcome: Outcome, payload: P, now: Instant) -> Option<Duration> {
        let ticket = self.ticket.take()?;
        self.queue().finish_at(ticket, outcome, payload, now)
    }

    fn finish(&mut self, outcome: Outcome, payload: Option<P>) -> Option<Duration> {
        let ticket = self.ticket.take()?;
        self.queue().finish(ticket, outcome, payload)
    }

    fn queue(&self) -> &WorkQueue<T, P> {
        match &self.queue {
            Handle::Borrowed(queue) => queue,
            Handle::Owned(queue) => queue,
        }
    }
}

impl<T: Hash + Eq + Clone, P: Payload> Drop for Item<'_, T, P> {
    fn drop(&mut self) {
        self.finish(Outcome::Retry, None);
    }
}

impl<T: Hash + Eq + Clone, P: Payload> Deref for Item<'_, T, P> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.key
    }
}

impl<T: Hash + Eq + Clone + std::fmt::Debug, P: Payload> std::fmt::Debug for Item<'_, T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item").field("key", &self.key).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
