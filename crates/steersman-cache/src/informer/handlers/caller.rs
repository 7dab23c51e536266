//! The task that calls a handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};

use super::backlog::{Backlog, Mark};
use super::listener::{HandlerState, Message, locked};
use super::{Event, EventHandler};

/// Calls between two yields. As many as the informer has events per batch, or handlers would fall
/// behind.
const CALLS_PER_YIELD: usize = 512;
/// Objects whose events are taken out of the backlog at once.
const BACKLOG_BATCH: usize = 64;

/// Calls a handler, and counts its calls.
pub(super) struct Caller<H> {
    handler: H,
    state: Arc<HandlerState>,
    synced: watch::Sender<bool>,
    /// Calls since the last yield.
    since_yield: usize,
}

impl<H> Caller<H> {
    pub(super) fn new(handler: H, state: Arc<HandlerState>, synced: watch::Sender<bool>) -> Self {
        Self { handler, state, synced, since_yield: 0 }
    }

    /// Calls the handler with each event. `false` if it was removed before the last one.
    async fn call<K>(&mut self, events: &[Event<K>]) -> bool
    where
        H: EventHandler<K>,
    {
        for event in events {
            self.since_yield += 1;
            if self.since_yield >= CALLS_PER_YIELD {
                self.since_yield = 0;
                tokio::task::yield_now().await;
            }
            if self.state.removed.load(Ordering::Acquire) {
                return false;
            }
            if catch_unwind(AssertUnwindSafe(|| self.handler.on_event(event))).is_err() {
                self.state.panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(object = ?event.object(), "event handler panicked, continuing with the next event");
            }
            self.state.pending.fetch_sub(1, Ordering::Release);
        }
        true
    }

    fn reach(&self, mark: Mark) {
        match mark {
            Mark::Synced => {
                let _ = self.synced.send(true);
            }
            Mark::Resynced => self.state.resyncing.store(false, Ordering::Relaxed),
        }
    }

    /// Calls the handler with the events in the backlog, until that is empty. `false` if the
    /// handler was removed before.
    ///
    /// Once the backlog is empty, new events go to the channel, and later ones perhaps to the
    /// backlog again. Those are not taken here: the channel announces them after the events before
    /// them (test `a_handler_that_falls_behind_twice_sees_every_object_in_order`).
    async fn call_backlog<K>(&mut self, backlog: &Mutex<Backlog<K>>) -> bool
    where
        H: EventHandler<K>,
    {
        loop {
            let (events, mark, emptied) = {
                let mut backlog = locked(backlog);
                let (events, mark) = backlog.pop(BACKLOG_BATCH);
                let emptied = backlog.is_empty();
                if emptied {
                    self.state.is_behind.store(false, Ordering::Relaxed);
                }
                (events, mark, emptied)
            };
            if !self.call(&events).await {
                return false;
            }
            mark.into_iter().for_each(|mark| self.reach(mark));
            if emptied {
                return true;
            }
        }
    }
}

/// The task of a handler.
pub(super) async fn run_handler<K, H: EventHandler<K>>(
    caller: Caller<H>,
    mut messages: mpsc::UnboundedReceiver<Message<K>>,
    backlog: Arc<Mutex<Backlog<K>>>,
    running: watch::Sender<()>,
) {
    // Dropped when the task ends in any way, and after the handler and what that holds.
    let _running = running;
    let mut caller = caller;
    loop {
        let message = tokio::select! {
            biased;
            () = caller.state.removal.notified() => return,
            message = messages.recv() => message,
        };
        let is_active = match message {
            None => return,
            Some(Message::Synced) => {
                caller.reach(Mark::Synced);
                true
            }
            Some(Message::Events(events)) => caller.call(&events).await,
            Some(Message::Resync(events)) => {
                let is_active = caller.call(&events).await;
                caller.reach(Mark::Resynced);
                is_active
            }
            Some(Message::Backlog) => caller.call_backlog(&backlog).await,
        };
        if !is_active {
            return;
        }
    }
}
