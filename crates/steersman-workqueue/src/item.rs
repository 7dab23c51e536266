//! A key that a worker holds.

use std::hash::Hash;
use std::ops::Deref;
use std::time::Duration;

use crate::core::{Outcome, Ticket};
use crate::queue::WorkQueue;

/// A key that a worker holds until it reports an outcome. No other worker gets the key before.
///
/// An item that is dropped without an outcome counts as failed ([`retry`](Self::retry)); while the
/// queue drains, as done.
#[must_use = "a key that is dropped without an outcome is retried"]
pub struct Item<'q, T: Hash + Eq + Clone> {
    queue: Handle<'q, T>,
    key: T,
    /// `None` once the outcome is reported.
    ticket: Option<Ticket>,
}

/// The queue that gets the key back.
pub(crate) enum Handle<'q, T: Hash + Eq + Clone> {
    Borrowed(&'q WorkQueue<T>),
    Owned(WorkQueue<T>),
}

impl<'q, T: Hash + Eq + Clone> Item<'q, T> {
    pub(crate) fn new(queue: Handle<'q, T>, ticket: Ticket, key: T) -> Self {
        Self { queue, key, ticket: Some(ticket) }
    }

    /// The key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// The priority with which the key was handed out.
    pub fn priority(&self) -> i8 {
        self.ticket.as_ref().map_or(0, Ticket::priority)
    }

    /// Finishes the key: the work succeeded, or a retry would not help. The queue forgets the
    /// failures of the key.
    pub fn done(mut self) {
        self.finish(Outcome::Done);
    }

    /// Finishes the key as failed. It comes back when the rate limiter allows it.
    pub fn retry(mut self) {
        self.finish(Outcome::Retry);
    }

    /// Finishes the key as succeeded and adds it again after `delay`. The queue forgets the
    /// failures of the key.
    pub fn requeue_after(mut self, delay: Duration) {
        self.finish(Outcome::RequeueAfter(delay));
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            let queue = match &self.queue {
                Handle::Borrowed(queue) => queue,
                Handle::Owned(queue) => queue,
            };
            queue.finish(ticket, outcome);
        }
    }
}

impl<T: Hash + Eq + Clone> Drop for Item<'_, T> {
    fn drop(&mut self) {
        self.finish(Outcome::Retry);
    }
}

impl<T: Hash + Eq + Clone> Deref for Item<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.key
    }
}

impl<T: Hash + Eq + Clone + std::fmt::Debug> std::fmt::Debug for Item<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item").field("key", &self.key).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
