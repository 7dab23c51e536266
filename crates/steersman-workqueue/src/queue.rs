//! The queue with waiting: a lock around the core, and workers that wait for a key.

use std::borrow::Borrow;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::add_options::AddOptions;
use crate::core::Core;
use crate::get::{Get, GetOwned};
use crate::metrics::{QueueMetrics, Unfinished};
use crate::outcome::{Outcome, Ticket};
use crate::payload::Payload;
use crate::rate_limiter::RateLimiter;
use crate::sync::time::now;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::waiters::{Waiters, Wake};

/// A work queue for many producers and many workers. Clones share the queue.
///
/// The [crate's page](crate) shows how to use it, and [`Core`] lists the guarantees for keys. The
/// guarantees for waiting are:
///
/// - A ready key does not wait while a worker does. An add wakes one waiting worker, and a worker
///   that takes a key wakes the next one while there are more keys (test `no_wake_up_is_lost`,
///   under every interleaving). So a [`get`](Self::get) that has begun to wait must be polled when
///   it is woken, or dropped: up to 32 keys wait for it before the queue wakes another worker.
/// - [`get`](Self::get) can be dropped at any time. It takes a key out of the queue only when it
///   returns it, so the key stays in front (test `a_cancelled_get_leaves_its_key_in_front`).
/// - An [`Item`](crate::Item) that is dropped without an outcome, because its worker panicked or
///   was cancelled, counts as failed and is retried.
pub struct WorkQueue<T: Hash + Eq + Clone, P: Payload = ()> {
    shared: Arc<Shared<T, P>>,
}

struct Shared<T, P: Payload> {
    state: Mutex<State<T, P>>,
    /// Passed to the core as the time while it does not need one.
    created: Instant,
}

pub(crate) struct State<T, P: Payload> {
    pub(crate) core: Core<T, P>,
    /// Whether a key was added since a worker last began to wait: more may follow.
    pub(crate) adds_come: bool,
    /// How many keys were taken in a row without waiting.
    pub(crate) at_once: u32,
    pub(crate) workers: Waiters,
    /// The tasks that wait in `shut_down_with_drain`.
    drainers: Vec<Waker>,
    draining: bool,
}

impl<T: Hash + Eq + Clone, P: Payload> Clone for WorkQueue<T, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Hash + Eq + Clone, P: Payload> std::fmt::Debug for WorkQueue<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.lock().core).finish()
    }
}

impl<T: Hash + Eq + Clone + Send + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Hash + Eq + Clone> WorkQueue<T> {
    /// Creates an empty queue with controller-runtime's rate limiter.
    pub fn new() -> Self
    where
        T: Send + 'static,
    {
        Self::from_core(Core::new())
    }

    /// Creates an empty queue with the given rate limiter.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self::from_core(Core::with_rate_limiter(limiter))
    }
}

impl<T: Hash + Eq + Clone, P: Payload> WorkQueue<T, P> {
    /// Creates a queue around a core that the caller has configured.
    pub fn from_core(mut core: Core<T, P>) -> Self {
        let created = now();
        core.set_origin(created);
        let state = State {
            core,
            adds_come: false,
            at_once: 0,
            workers: Waiters::default(),
            drainers: Vec::new(),
            draining: false,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), created }) }
    }

    /// Reports to `metrics` from now on.
    #[must_use]
    pub fn with_metrics(self, metrics: impl QueueMetrics + 'static) -> Self {
        self.change(false, |core, _| core.set_metrics(metrics));
        self
    }

    /// Sets the worth of one point of priority, see [`Core::set_ageing`].
    #[must_use]
    pub fn with_ageing(self, worth: Duration) -> Self {
        self.change(false, |core, _| core.set_ageing(worth));
        self
    }

    /// Adds `key`, now. Does nothing if the key is ready already or the queue is shut down.
    pub fn add(&self, key: T) {
        self.push(key, |key| key);
    }

    /// [`add`](Self::add) by reference: clones the key only if the queue does not hold it yet,
    /// which saves an allocation for each further add of a `String`.
    pub fn add_ref(&self, key: &T) {
        self.push(key, Clone::clone);
    }

    fn push<Q: Borrow<T>>(&self, key: Q, into_key: impl FnOnce(Q) -> T) {
        let mut state = self.lock();
        let time = self.time(&state.core);
        if state.core.push(key, into_key, time) {
            state.adds_come = true;
            release(state);
        }
    }

    /// Adds `key` after `delay`. The earliest of several delays counts, and an add without delay
    /// replaces them.
    ///
    /// Where keys become ready less than 2 ms apart, they may come up to 8 ms late, a handful at a
    /// time: waking a worker for each would cost more than the keys do. A single key is as late as
    /// tokio's timer, a millisecond.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Adds `key` when the rate limiter allows it. This counts as a failure of the key.
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Adds `key` with a delay, a rate limit or a priority.
    pub fn add_with(&self, key: T, options: AddOptions) {
        self.change(options.need_time(), |core, now| core.add(key, options, now));
    }

    /// Adds `key` with a payload, which is [merged](Payload::merge) into that of the earlier adds
    /// of the key. [`Item::take_payload`](crate::Item::take_payload) returns it.
    pub fn add_with_payload(&self, key: T, options: AddOptions, payload: P) {
        self.change(true, |core, now| core.add_with_payload(key, options, payload, now));
    }

    /// The keys that have waited longest for a worker, each with its waiting time: at most `limit`.
    /// See [`Core::waiting`].
    pub fn waiting(&self, limit: usize) -> Vec<(T, Duration)> {
        self.change(true, |core, now| {
            core.advance(now);
            core.waiting(limit, now)
        })
    }

    /// The time until `key` becomes ready. `None` if it is not delayed.
    pub fn delay_of(&self, key: &T) -> Option<Duration> {
        self.change(true, |core, now| {
            core.advance(now);
            core.delay_of(key, now)
        })
    }

    /// Waits for a key to work on. Returns `None` once the queue is shut down and will hand out no
    /// more keys: the worker can end.
    ///
    /// It takes part in tokio's cooperative scheduling, so other tasks run even if keys never run
    /// out.
    pub fn get(&self) -> Get<'_, T, P> {
        Get::new(self)
    }

    /// [`get`](Self::get) for an item that outlives this handle, for example in a task of its own.
    pub fn get_owned(&self) -> GetOwned<T, P> {
        GetOwned::new(self.clone())
    }

    /// Forgets the failures of `key`. [`Item::done`](crate::Item::done) includes this.
    pub fn forget(&self, key: &T) {
        self.change(false, |core, _| core.forget(key));
    }

    /// How many times `key` has failed since it last succeeded.
    pub fn retries(&self, key: &T) -> u32 {
        self.change(false, |core, _| core.retries(key))
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.change(false, |core, now| {
            core.advance(now);
            core.len()
        })
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are delayed.
    pub fn delayed(&self) -> usize {
        self.change(false, |core, now| {
            core.advance(now);
            core.delayed()
        })
    }

    /// The keys that workers hold now, see [`Core::unfinished`].
    pub fn unfinished(&self) -> Unfinished {
        self.change(true, |core, now| core.unfinished(now))
    }

    /// Drops the delayed keys and ignores all further adds. Ready keys are still handed out; then
    /// [`get`](Self::get) returns `None`. Further calls do nothing, except that each ends the wait
    /// of an earlier [`shut_down_with_drain`](Self::shut_down_with_drain).
    pub fn shut_down(&self) {
        let mut state = self.lock();
        state.draining = false;
        state.core.shut_down();
        release(state);
    }

    /// [Shuts down](Self::shut_down) at once, even if the future is not awaited, then waits until
    /// the workers have finished every key. While draining, an item that is dropped without an
    /// outcome is not retried.
    ///
    /// Returns `true` when the queue is drained, and `false` when a later `shut_down` ended the
    /// wait. There is no time limit: put one around it. Ready keys that no worker takes keep it
    /// waiting.
    pub fn shut_down_with_drain(&self) -> impl Future<Output = bool> + Send + use<T, P>
    where
        T: Send,
        P: Send,
    {
        let mut state = self.lock();
        state.draining = true;
        state.core.shut_down();
        release(state);
        let queue = self.clone();
        std::future::poll_fn(move |context| {
            let mut state = queue.lock();
            if state.core.is_drained() || !state.draining {
                return Poll::Ready(state.core.is_drained());
            }
            state.drainers.retain(|waker| !waker.will_wake(context.waker()));
            state.drainers.push(context.waker().clone());
            release(state);
            Poll::Pending
        })
    }

    /// Whether the queue is shut down.
    pub fn is_shut_down(&self) -> bool {
        self.lock().core.is_shut_down()
    }

    /// Takes a key back from its worker. A panic of the rate limiter continues after the waiting
    /// workers are notified: the key may be delayed, and one of them has to wait for it.
    pub(crate) fn finish(&self, ticket: Ticket, outcome: Outcome, payload: Option<P>) -> Option<Duration> {
        let finished =
            self.change(outcome != Outcome::Done, |core, now| core.try_finish(ticket, outcome, payload, now));
        finished.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The same at a time that the caller has read.
    pub(crate) fn finish_at(&self, ticket: Ticket, outcome: Outcome, payload: P, at: Instant) -> Option<Duration> {
        let mut state = self.lock();
        let finished = state.core.try_finish(ticket, outcome, Some(payload), at);
        release(state);
        finished.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Takes a key back from a worker that has not worked on it.
    pub(crate) fn give_back(&self, ticket: Ticket, payload: P) {
        self.change(true, |core, now| core.give_back(ticket, payload, now));
    }

    /// Locks the state. A poisoned lock is used as it is: user code that may panic under the lock
    /// (hashing, comparing and cloning keys, rate limiters) runs before the state changes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, P>> {
        lock(&self.shared.state)
    }

    /// Changes the core and wakes the tasks that wait for the change.
    fn change<R>(&self, needs_time: bool, change: impl FnOnce(&mut Core<T, P>, Instant) -> R) -> R {
        let mut state = self.lock();
        let time = if needs_time { now() } else { self.time(&state.core) };
        let result = change(&mut state.core, time);
        release(state);
        result
    }

    /// The current time if the core uses it for operations without a delay or a priority.
    pub(crate) fn time(&self, core: &Core<T, P>) -> Instant {
        self.time_if(core.needs_time())
    }

    pub(crate) fn time_if(&self, is_needed: bool) -> Instant {
        if is_needed { now() } else { self.shared.created }
    }
}

/// Ends a change: releases the lock, then wakes the tasks that wait for the change.
#[inline]
pub(crate) fn release<T: Hash + Eq + Clone, P: Payload>(mut state: MutexGuard<'_, State<T, P>>) {
    if !state.workers.is_empty() || !state.drainers.is_empty() {
        let wake = state.settle();
        drop(state);
        wake.wake();
    }
}

impl<T: Hash + Eq + Clone, P: Payload> State<T, P> {
    /// The tasks that have to be woken after a change.
    fn settle(&mut self) -> Wake {
        let mut wake = Wake::default();
        if self.core.is_finished() {
            self.workers.notify_all(&mut wake);
        } else if !self.workers.is_empty() {
            self.workers.settle(self.core.len(), || self.core.next_deadline(), &mut wake);
        }
        if !self.drainers.is_empty() && (self.core.is_drained() || !self.draining) {
            self.drainers.drain(..).for_each(|waker| wake.push(waker));
        }
        wake
    }
}
