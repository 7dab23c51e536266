//! The queue with waiting: a lock around the core, and workers that wait for a key.

use std::borrow::Borrow;
use std::hash::Hash;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::core::{AddOptions, Core, Stamp, Ticket, Verdict};
use crate::get::{Get, GetOwned};
use crate::intake::{Arrival, Arrivals, Intake};
use crate::metrics::{Metrics, Unfinished};
use crate::rate_limiter::RateLimiter;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time::now;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::waiters::{Waiters, Wake};

/// A work queue for many producers and many workers. Clones are the same queue.
///
/// See the [crate's page](crate) for how to use it and [`Core`] for what is promised of keys. Of waiting this is promised:
///
/// - A key that is ready does not wait for long while a worker does: of those who wait one is woken at once, and whoever takes a key
///   wakes the next while there are more (test: `no_wake_up_is_lost`, under every interleaving). So a `get` that has begun to wait
///   must be polled when it is woken, or dropped: up to 256 keys may be left to it before another is woken.
/// - [`get`](Self::get) can be dropped at any time. It takes its key out of the queue only at the moment it returns it, so
///   the key is still in front (test: `a_cancelled_get_leaves_its_key_in_front`).
/// - An [`Item`](crate::Item) that is dropped without a verdict, because its worker panicked or was cancelled, is tried
///   again.
pub struct WorkQueue<T: Hash + Eq + Clone> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Locked after `state` by whoever needs both.
    intake: Mutex<Intake<T>>,
    /// How many adds were put down: written by those who have `intake` locked, read by those who do not. Who reads it sees all that was
    /// done before those adds.
    stamp: AtomicU64,
    /// Passed for the time while the core does not need it.
    created: Instant,
}

pub(crate) struct State<T> {
    pub(crate) core: Core<T>,
    /// Taken from the intake and on the way into the core. Empty, unless hashing a key panicked.
    arriving: Arrivals<T>,
    /// What the intake was last told.
    direct: bool,
    /// Whether an add was taken in since a worker last began to wait: more of them may be on their way.
    pub(crate) adds_come: bool,
    /// How many keys were taken since one was waited for.
    pub(crate) at_once: u32,
    pub(crate) workers: Waiters,
    /// Those who wait in `shut_down_with_drain`.
    drainers: Vec<Waker>,
    draining: bool,
}

impl<T: Hash + Eq + Clone> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Hash + Eq + Clone> std::fmt::Debug for WorkQueue<T> {
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
    /// An empty queue with controller-runtime's rate limiter.
    pub fn new() -> Self
    where
        T: Send + 'static,
    {
        Self::from_core(Core::new())
    }

    /// An empty queue with another rate limiter.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self::from_core(Core::with_rate_limiter(limiter))
    }

    /// A queue around a core that was set up by hand.
    pub fn from_core(core: Core<T>) -> Self {
        let direct = core.stamps_adds();
        let state = State {
            core,
            arriving: Arrivals::new(),
            direct,
            adds_come: false,
            at_once: 0,
            workers: Waiters::default(),
            drainers: Vec::new(),
            draining: false,
        };
        let intake = Mutex::new(Intake::new(direct));
        let stamp = AtomicU64::new(0);
        Self { shared: Arc::new(Shared { state: Mutex::new(state), intake, stamp, created: now() }) }
    }

    /// Has `metrics` told what happens from now on.
    #[must_use]
    pub fn with_metrics(self, metrics: impl Metrics + 'static) -> Self {
        self.change(false, |core, _| core.set_metrics(metrics));
        self
    }

    /// Sets what one point of priority is worth, see [`Core::set_ageing`].
    #[must_use]
    pub fn with_ageing(self, worth: Duration) -> Self {
        self.change(false, |core, _| core.set_ageing(worth));
        self
    }

    /// Adds `key`, now. Does nothing if it is ready already, or if the queue is shut down.
    pub fn add(&self, key: T) {
        self.put_down(key, |key| key);
    }

    /// [`add`](Self::add) for a key that the caller keeps. In a burst of adds of one key, only the first clones it.
    pub fn add_ref(&self, key: &T) {
        self.put_down(key, Clone::clone);
    }

    fn put_down<Q: Borrow<T>>(&self, key: Q, into_key: impl FnOnce(Q) -> T) {
        let mut intake = lock(&self.shared.intake);
        let take_in = intake.put_down_add(key, into_key);
        self.shared.stamp.store(intake.stamp(), Ordering::Release);
        drop(intake);
        if take_in {
            self.change(false, |_, _| ());
        }
    }

    /// How many adds were put down.
    pub(crate) fn stamp(&self) -> Stamp {
        self.shared.stamp.load(Ordering::Acquire)
    }

    /// Adds `key` once `delay` has passed. Of several times the earliest counts; an add without delay takes their place.
    ///
    /// Where keys become ready less than 2 ms apart, one after the other, they may come up to 8 ms late, a handful at a time: waking a
    /// worker for each would cost more than the keys do. A key that comes alone is as late as tokio's timer, a millisecond.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Adds `key` when the rate limiter allows it, and counts a failure of it.
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Adds `key` with a delay, a rate limit, a priority.
    pub fn add_with(&self, key: T, options: AddOptions) {
        self.change(true, |core, now| core.add(key, options, now));
    }

    /// Waits for a key to work on. `None` means that the queue was shut down and has nothing left, nor will have when those who work
    /// are done: the worker can go.
    ///
    /// It lets other tasks run now and then, also while there are keys without end (tokio's cooperative scheduling).
    pub fn get(&self) -> Get<'_, T> {
        Get::new(self)
    }

    /// [`get`](Self::get) for an item that is to outlive this handle, in a task of its own for instance.
    pub fn get_owned(&self) -> GetOwned<T> {
        GetOwned::new(self.clone())
    }

    /// Forgets the failures of `key`. [`Item::done`](crate::Item::done) does so by itself.
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

    /// How many keys wait for their time.
    pub fn delayed(&self) -> usize {
        self.change(false, |core, now| {
            core.advance(now);
            core.delayed()
        })
    }

    /// The keys that workers have at this moment, see [`Core::unfinished`].
    pub fn unfinished(&self) -> Unfinished {
        self.change(true, |core, now| core.unfinished(now))
    }

    /// From now on adds do nothing and delayed keys are dropped. Keys that are ready are still handed out; then workers are
    /// told to go. Once is enough. Ends the wait of an earlier [`shut_down_with_drain`](Self::shut_down_with_drain).
    pub fn shut_down(&self) {
        self.lock().draining = false;
        self.change(false, |core, _| core.shut_down());
    }

    /// Shuts down as [`shut_down`](Self::shut_down) does, at once, also when the future is not awaited, and waits until the
    /// workers have finished every key. While draining, a key that is dropped without a verdict is not tried again.
    ///
    /// Gives `true` when the queue is drained and `false` when a later `shut_down` ended the wait. There is no time limit:
    /// put one around it. Keys that are ready, and that no worker comes for, keep it waiting.
    pub fn shut_down_with_drain(&self) -> impl Future<Output = bool> + Send + use<T>
    where
        T: Send,
    {
        self.lock().draining = true;
        self.change(false, |core, _| core.shut_down());
        let queue = self.clone();
        std::future::poll_fn(move |context| {
            let mut state = queue.lock();
            let time = queue.time(&state.core);
            queue.take_in(&mut state, time);
            if state.core.is_drained() || !state.draining {
                return Poll::Ready(state.core.is_drained());
            }
            state.drainers.retain(|waker| !waker.will_wake(context.waker()));
            state.drainers.push(context.waker().clone());
            queue.release(state);
            Poll::Pending
        })
    }

    /// Whether the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.lock().core.is_shut_down()
    }

    pub(crate) fn finish(&self, ticket: Ticket, verdict: Verdict) {
        if verdict != Verdict::Done {
            self.change(true, |core, now| core.finish(ticket, verdict, now));
        } else if lock(&self.shared.intake).put_down_done(ticket) {
            self.change(false, |_, _| ());
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Foreign code that may panic under the lock (hashing, comparing, cloning, limiters) runs before anything is changed.
        lock(&self.shared.state)
    }

    /// Changes the core, after everything that was put down before, and wakes whom that concerns.
    fn change<R>(&self, looks_at_time: bool, change: impl FnOnce(&mut Core<T>, Instant) -> R) -> R {
        let mut state = self.lock();
        let time = if looks_at_time { now() } else { self.time(&state.core) };
        self.take_in(&mut state, time);
        let result = change(&mut state.core, time);
        self.release(state);
        result
    }

    /// The time, if the core looks at it without being asked for a delay or a priority.
    pub(crate) fn time(&self, core: &Core<T>) -> Instant {
        if core.needs_time() { now() } else { self.shared.created }
    }

    /// Takes in what was put down.
    pub(crate) fn take_in(&self, state: &mut State<T>, time: Instant) {
        loop {
            state.core.look_ahead(state.arriving.iter().map(|arrival| match arrival {
                Arrival::Add(key, _) => Ok(key),
                Arrival::Done(ticket) => Err(ticket),
            }));
            while let Some(arrival) = state.arriving.pop_front() {
                match arrival {
                    Arrival::Add(key, stamp) => {
                        state.core.add_belated(key, stamp, time);
                        state.adds_come = true;
                    }
                    Arrival::Done(ticket) => state.core.finish(ticket, Verdict::Done, time),
                }
            }
            if !lock(&self.shared.intake).take(&mut state.arriving) {
                return;
            }
        }
    }

    /// Ends a change: releases the lock and wakes whom the change concerns.
    #[inline]
    pub(crate) fn release(&self, mut state: MutexGuard<'_, State<T>>) {
        if state.is_anybody_waiting() || state.direct != state.core.stamps_adds() {
            let wake = self.settle(&mut state);
            drop(state);
            wake.wake();
        }
    }

    /// Says who has to be woken after a change, and whether things may be left in the intake from now on.
    fn settle(&self, state: &mut State<T>) -> Wake {
        let mut wake = Wake::default();
        loop {
            state.settle(&mut wake);
            let direct = state.must_be_direct();
            if direct == state.direct {
                return wake;
            }
            state.direct = direct;
            let left = lock(&self.shared.intake).set_direct(direct);
            if !(direct && left) {
                return wake;
            }
            let time = self.time(&state.core);
            self.take_in(state, time);
        }
    }
}

impl<T: Hash + Eq + Clone> State<T> {
    fn is_anybody_waiting(&self) -> bool {
        !self.workers.is_empty() || !self.drainers.is_empty()
    }

    /// Whether nothing may be left in the intake: somebody would wait for it, and nobody is about to look.
    fn must_be_direct(&self) -> bool {
        self.workers.wait_untold() || !self.drainers.is_empty() || self.core.stamps_adds()
    }

    /// Tells those who wait what they have to know.
    fn settle(&mut self, wake: &mut Wake) {
        if self.core.is_finished() {
            self.workers.tell_all(wake);
        } else if !self.workers.is_empty() {
            self.workers.settle(self.core.len(), || self.core.next_deadline(), wake);
        }
        if !self.drainers.is_empty() && (self.core.is_drained() || !self.draining) {
            self.drainers.drain(..).for_each(|waker| wake.push(waker));
        }
    }
}
