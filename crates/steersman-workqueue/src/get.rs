//! The futures that wait for a key.

use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::coop::poll_proceed;

use crate::item::{Handle, Item};
use crate::outcome::Taken;
use crate::payload::Payload;
use crate::queue::{State, WorkQueue, release};
use crate::sync::time::{Sleep, sleep_until};
use crate::waiters::WaiterId;

/// How many times a worker that finds no key yields to other tasks before it waits for a wake-up. A
/// wake-up costs far more than another look, and keys come in bursts.
const YIELDS: u8 = 3;
/// From this number of keys in a row on, keys come in a burst. Where each key is waited for,
/// yielding only wakes threads that find nothing.
const BURST_MIN: u32 = 4;

/// The future of [`WorkQueue::get`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Get<'q, T: Hash + Eq + Clone, P: Payload = ()> {
    queue: &'q WorkQueue<T, P>,
    waiting: Waiting,
}

/// The future of [`WorkQueue::get_owned`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct GetOwned<T: Hash + Eq + Clone, P: Payload = ()> {
    queue: WorkQueue<T, P>,
    waiting: Waiting,
}

/// The progress of a wait.
#[derive(Default)]
struct Waiting {
    /// How many times the worker has yielded.
    yields: u8,
    /// Set once the worker waits for a wake-up.
    id: Option<WaiterId>,
    /// Set while this worker sleeps until the next delayed key.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Waiting {
    fn poll<T: Hash + Eq + Clone, P: Payload>(
        &mut self,
        queue: &WorkQueue<T, P>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Taken<T, P>>> {
        let turn = std::task::ready!(poll_proceed(context));
        loop {
            let mut state = queue.lock();
            let time = queue.time_if(state.core.needs_time_to_get());
            if let Some(id) = self.id {
                let State { core, workers, .. } = &mut *state;
                workers.look(id, time, || core.next_deadline());
            }
            let taken = state.core.take(time);
            if taken.is_some() || state.core.is_finished() {
                turn.made_progress();
                if let Some(id) = self.id.take() {
                    state.workers.leave(id);
                    state.at_once = 0;
                } else {
                    state.at_once = state.at_once.saturating_add(1);
                }
                release(state);
                return Poll::Ready(taken);
            }
            if self.yields < YIELDS && state.adds_come && state.at_once >= BURST_MIN {
                self.yields += 1;
                release(state);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            state.adds_come = false;
            let id = state.workers.wait(self.id, context.waker());
            self.id = Some(id);
            let deadline = state.core.next_deadline();
            let until = state.workers.sleeps_until(id, deadline);
            release(state);

            let Some(until) = until else {
                self.sleep = None;
                return Poll::Pending;
            };
            let until = until.into();
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    sleep.as_mut().reset(until);
                    sleep
                }
                None => self.sleep.insert(Box::pin(sleep_until(until))),
            };
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Stops waiting. A notification of this worker goes to another one.
    fn cancel<T: Hash + Eq + Clone, P: Payload>(&mut self, queue: &WorkQueue<T, P>) {
        if let Some(id) = self.id.take() {
            let mut state = queue.lock();
            state.workers.leave(id);
            release(state);
        }
    }
}

impl<'q, T: Hash + Eq + Clone, P: Payload> Get<'q, T, P> {
    pub(crate) fn new(queue: &'q WorkQueue<T, P>) -> Self {
        Self { queue, waiting: Waiting::default() }
    }
}

impl<T: Hash + Eq + Clone, P: Payload> GetOwned<T, P> {
    pub(crate) fn new(queue: WorkQueue<T, P>) -> Self {
        Self { queue, waiting: Waiting::default() }
    }
}

impl<'q, T: Hash + Eq + Clone, P: Payload> Future for Get<'q, T, P> {
    type Output = Option<Item<'q, T, P>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { queue, waiting } = self.get_mut();
        let taken = std::task::ready!(waiting.poll(queue, context));
        Poll::Ready(taken.map(|taken| Item::new(Handle::Borrowed(queue), taken)))
    }
}

impl<T: Hash + Eq + Clone + 'static, P: Payload + 'static> Future for GetOwned<T, P> {
    type Output = Option<Item<'static, T, P>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { queue, waiting } = self.get_mut();
        let taken = std::task::ready!(waiting.poll(queue, context));
        Poll::Ready(taken.map(|taken| Item::new(Handle::Owned(queue.clone()), taken)))
    }
}

impl<T: Hash + Eq + Clone, P: Payload> Drop for Get<'_, T, P> {
    fn drop(&mut self) {
        self.waiting.cancel(self.queue);
    }
}

impl<T: Hash + Eq + Clone, P: Payload> Drop for GetOwned<T, P> {
    fn drop(&mut self) {
        self.waiting.cancel(&self.queue);
    }
}

impl<T: Hash + Eq + Clone, P: Payload> std::fmt::Debug for Get<'_, T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Get").field("waiting", &self.waiting.id.is_some()).finish_non_exhaustive()
    }
}

impl<T: Hash + Eq + Clone, P: Payload> std::fmt::Debug for GetOwned<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GetOwned").field("waiting", &self.waiting.id.is_some()).finish_non_exhaustive()
    }
}
