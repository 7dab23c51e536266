//! The queue with waiting: a lock around the core, and workers that wait for a key.

use std::collections::VecDeque;
use std::hash::Hash;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::core::{AddOptions, Core, Ticket, Verdict};
use crate::metrics::{Metrics, Unfinished};
use crate::rate_limiter::RateLimiter;
use crate::sync::time::{Sleep, now, sleep_until};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::waiters::{WaiterId, Waiters, Wake};

/// A work queue for many producers and many workers. Clones are the same queue.
///
/// See the [crate's page](crate) for how to use it and [`Core`] for what is promised of keys. Of waiting this is promised:
///
/// - A key that is ready does not wait while a worker does (test: `no_wake_up_is_lost`, under every interleaving).
/// - [`get`](Self::get) can be dropped at any time. It takes its key out of the queue only at the moment it returns it, so
///   the key is still in front (test: `a_cancelled_get_leaves_its_key_in_front`).
/// - An [`Item`] that is dropped without a verdict, because its worker panicked or was cancelled, is tried again.
pub struct WorkQueue<T: Hash + Eq + Clone> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// Locked after `state` by whoever needs both.
    intake: Mutex<Intake<T>>,
    state: Mutex<State<T>>,
    /// Passed for the time while the core does not need it.
    created: Instant,
}

/// So many plain adds wait at the most for somebody to take them in.
const INTAKE_MAX: usize = 256;

/// A worker that finds nothing lets others run so many times before it waits to be woken. Being woken costs far more than
/// looking again, and keys come in bursts.
const YIELDS: u8 = 3;

/// Where plain adds are put down, so that producers do not wait for workers nor workers for producers: whoever next finds
/// nothing ready takes them all in at once. Nobody can tell the difference: an add that has been put down counts as made,
/// and every operation that could see it takes it in first.
struct Intake<T> {
    keys: VecDeque<T>,
    /// Nothing may be put down and left: a worker waits, or the core has to be told when each add was made.
    direct: bool,
}

struct State<T> {
    core: Core<T>,
    /// Taken from the intake and on the way into the core; empty but for a key whose hashing panicked.
    arriving: VecDeque<T>,
    /// As in the intake.
    direct: bool,
    workers: Waiters,
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
        let intake = Intake { keys: VecDeque::new(), direct };
        let state = State {
            core,
            arriving: VecDeque::new(),
            direct,
            workers: Waiters::default(),
            drainers: Vec::new(),
            draining: false,
        };
        Self { shared: Arc::new(Shared { intake: Mutex::new(intake), state: Mutex::new(state), created: now() }) }
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
        self.lock().core.set_ageing(worth);
        self
    }

    /// Adds `key`, now. Does nothing if it is ready already, or if the queue is shut down.
    pub fn add(&self, key: T) {
        let mut intake = lock(&self.shared.intake);
        intake.keys.push_back(key);
        let direct = intake.direct || intake.keys.len() >= INTAKE_MAX;
        drop(intake);
        if direct {
            self.change(false, |_, _| ());
        }
    }

    /// Adds `key` once `delay` has passed. Of several times the earliest counts; an add without delay takes their place.
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

    /// Waits for a key to work on. `None` means that the queue was shut down and has nothing left: the worker can go.
    pub fn get(&self) -> Get<'_, T> {
        Get { queue: self, yields: 0, id: None, sleep: None }
    }

    /// Forgets the failures of `key`. [`Item::done`] does so by itself.
    pub fn forget(&self, key: &T) {
        self.lock().core.forget(key);
    }

    /// How many times `key` has failed since it last succeeded.
    pub fn retries(&self, key: &T) -> u32 {
        self.lock().core.retries(key)
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
        self.lock().core.unfinished(now())
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
    /// put one around it.
    pub fn shut_down_with_drain(&self) -> impl Future<Output = bool> + Send + use<T>
    where
        T: Send,
    {
        self.lock().draining = true;
        self.change(false, |core, _| core.shut_down());
        let queue = self.clone();
        std::future::poll_fn(move |context| {
            let mut state = queue.lock();
            if state.core.is_drained() || !state.draining {
                return Poll::Ready(state.core.is_drained());
            }
            state.drainers.retain(|waker| !waker.will_wake(context.waker()));
            state.drainers.push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Whether the queue was shut down.
    pub fn is_shut_down(&self) -> bool {
        self.lock().core.is_shut_down()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Foreign code that may panic under the lock (hashing, comparing, cloning, limiters) runs before anything is changed.
        lock(&self.shared.state)
    }

    /// Changes the core, after all adds that were made before, and wakes whom that concerns.
    fn change<R>(&self, looks_at_time: bool, change: impl FnOnce(&mut Core<T>, Instant) -> R) -> R {
        let mut state = self.lock();
        let time = if looks_at_time { now() } else { self.time(&state.core) };
        self.take_in(&mut state, time);
        let result = change(&mut state.core, time);
        self.release(state);
        result
    }

    fn finish(&self, ticket: Ticket, verdict: Verdict) {
        let mut state = self.lock();
        let time = if verdict == Verdict::Done { self.time(&state.core) } else { now() };
        // An add of this key that was put down may come before or after: the key is handed out once more in either case.
        state.core.finish(ticket, verdict, time);
        self.release(state);
    }

    /// The time, if the core looks at it without being asked for a delay or a priority.
    fn time(&self, core: &Core<T>) -> Instant {
        if core.needs_time() { now() } else { self.shared.created }
    }

    /// Takes in the adds that were put down.
    fn take_in(&self, state: &mut State<T>, time: Instant) {
        loop {
            while let Some(key) = state.arriving.pop_front() {
                state.core.add(key, AddOptions::new(), time);
            }
            let mut intake = lock(&self.shared.intake);
            if intake.keys.is_empty() {
                return;
            }
            std::mem::swap(&mut intake.keys, &mut state.arriving);
        }
    }

    /// Says whether adds may be put down and left. Returns whether some had been.
    #[inline]
    fn direct(&self, state: &mut State<T>) -> bool {
        let direct = !state.workers.is_empty() || state.core.stamps_adds();
        if direct == state.direct {
            return false;
        }
        state.direct = direct;
        let mut intake = lock(&self.shared.intake);
        intake.direct = direct;
        !intake.keys.is_empty()
    }

    /// Ends a change: releases the lock and wakes whom the change concerns.
    #[inline]
    fn release(&self, mut state: MutexGuard<'_, State<T>>) {
        if self.direct(&mut state) {
            let time = self.time(&state.core);
            self.take_in(&mut state, time);
        }
        if state.workers.is_empty() && state.drainers.is_empty() {
            return;
        }
        let wake = state.settle();
        drop(state);
        wake.wake();
    }
}

impl<T: Hash + Eq + Clone> State<T> {
    /// Says who has to be woken after a change.
    fn settle(&mut self) -> Wake {
        let mut wake = if self.core.is_shut_down() && self.core.is_empty() {
            self.workers.tell_all()
        } else {
            let deadline = self.core.next_deadline();
            self.workers.settle(self.core.len(), deadline)
        };
        if !self.drainers.is_empty() && (self.core.is_drained() || !self.draining) {
            self.drainers.drain(..).for_each(|waker| wake.push(waker));
        }
        wake
    }
}

/// Waits for a key: what [`WorkQueue::get`] returns.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Get<'a, T: Hash + Eq + Clone> {
    queue: &'a WorkQueue<T>,
    /// How often it has let others run before it waits.
    yields: u8,
    /// Set once it has had to wait.
    id: Option<WaiterId>,
    /// Set while it is the one who waits for the next delayed key.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<T: Hash + Eq + Clone> std::fmt::Debug for Get<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Get").field("waiting", &self.id.is_some()).finish_non_exhaustive()
    }
}

impl<T: Hash + Eq + Clone> Future for Get<'_, T> {
    type Output = Option<Item<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let queue = this.queue;
        loop {
            let mut state = queue.lock();
            let time = queue.time(&state.core);
            let mut taken = state.core.get(time);
            if taken.is_none() {
                queue.take_in(&mut state, time);
                taken = state.core.get(time);
            }
            if taken.is_some() || state.core.is_shut_down() {
                if let Some(id) = this.id.take() {
                    state.workers.leave(id);
                }
                queue.release(state);
                return Poll::Ready(taken.map(|(ticket, key)| Item {
                    queue: queue.clone(),
                    key,
                    ticket: Some(ticket),
                }));
            }
            if this.yields < YIELDS {
                this.yields += 1;
                drop(state);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let id = state.workers.wait(this.id, context.waker());
            this.id = Some(id);
            let deadline = state.core.next_deadline();
            let sleeps = state.workers.sleeps(id, deadline);
            queue.release(state);

            let Some(deadline) = deadline.filter(|_| sleeps) else {
                this.sleep = None;
                return Poll::Pending;
            };
            let deadline = deadline.into();
            let sleep = match &mut this.sleep {
                Some(sleep) => {
                    sleep.as_mut().reset(deadline);
                    sleep
                }
                None => this.sleep.insert(Box::pin(sleep_until(deadline))),
            };
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<T: Hash + Eq + Clone> Drop for Get<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.queue.lock();
            state.workers.leave(id);
            self.queue.release(state);
        }
    }
}

/// A key that a worker has, until it gives its verdict. Nobody else gets the key meanwhile.
///
/// Dropped without a verdict it counts as failed ([`retry`](Self::retry)); while the queue drains, as done.
#[must_use = "a key that is dropped without a verdict is tried again"]
pub struct Item<T: Hash + Eq + Clone> {
    queue: WorkQueue<T>,
    key: T,
    /// Taken with the verdict.
    ticket: Option<Ticket>,
}

impl<T: Hash + Eq + Clone> Item<T> {
    /// The key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// The priority with which it was handed out.
    pub fn priority(&self) -> i8 {
        self.ticket.as_ref().map_or(0, Ticket::priority)
    }

    /// All is well, or no further try would help: forgets the failures of the key.
    pub fn done(self) {
        self.finish(Verdict::Done);
    }

    /// It failed: the key comes back when the rate limiter allows it.
    pub fn retry(self) {
        self.finish(Verdict::Retry);
    }

    /// All is well, and the key comes back after `delay`: forgets the failures of the key.
    pub fn requeue_after(self, delay: Duration) {
        self.finish(Verdict::RequeueAfter(delay));
    }

    fn finish(mut self, verdict: Verdict) {
        if let Some(ticket) = self.ticket.take() {
            self.queue.finish(ticket, verdict);
        }
    }
}

impl<T: Hash + Eq + Clone> Drop for Item<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.queue.finish(ticket, Verdict::Retry);
        }
    }
}

impl<T: Hash + Eq + Clone> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.key
    }
}

impl<T: Hash + Eq + Clone + std::fmt::Debug> std::fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Item").field("key", &self.key).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
