//! The user's end of a handler.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::listener::HandlerState;
use crate::Error;

/// A handler that was added to an informer. Dropping it does not remove the handler.
#[derive(Debug, Clone)]
pub struct HandlerHandle {
    state: Arc<HandlerState>,
    synced: watch::Receiver<bool>,
    ended: watch::Receiver<()>,
}

impl HandlerHandle {
    pub(super) fn new(state: Arc<HandlerState>, synced: watch::Receiver<bool>, ended: watch::Receiver<()>) -> Self {
        Self { state, synced, ended }
    }

    /// Whether the handler has received every initial object.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the handler has received every initial object. The error contains what is
    /// missing after `limit`. It returns at once if the handler is removed or the informer stops.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), Error> {
        let synced = timeout(limit, self.synced.clone().wait_for(|synced| *synced)).await.map(|synced| synced.is_ok());
        if synced == Ok(true) {
            return Ok(());
        }
        let (kind, pending) = (self.state.kind.clone(), self.pending());
        Err(Error::HandlerNotSynced { kind, waited: limit, pending, ended: synced.is_ok() })
    }

    /// Number of events that wait for the handler; 0 once it is removed. Beyond 2,048, events of
    /// one object are merged: see [`EventHandler`](crate::EventHandler).
    pub fn pending(&self) -> usize {
        let removed = self.state.removed.load(Ordering::Acquire);
        if removed { 0 } else { self.state.pending.load(Ordering::Acquire) }
    }

    /// Number of calls that panicked.
    pub fn panics(&self) -> u64 {
        self.state.panics.load(Ordering::Relaxed)
    }

    /// Removes the handler. A running call finishes, and no other follows. Removing it again does
    /// nothing.
    pub fn remove(&self) {
        self.state.removed.store(true, Ordering::Release);
        self.state.removal.notify_one();
    }

    /// Removes the handler and waits up to 30 s until its last call has returned. The error names
    /// the handler if it is still in a call. It is removed anyway: call this again to continue
    /// waiting.
    pub async fn remove_and_wait(&self) -> Result<(), Error> {
        self.remove();
        let _ = timeout(STOP_TIMEOUT, self.ended()).await;
        stop_result(STOP_TIMEOUT, self.still_running().into_iter().collect())
    }

    /// Waits until the handler is not called any more.
    pub(crate) async fn ended(&self) {
        // No value is ever sent: the sender is dropped when the task ends.
        while self.ended.clone().changed().await.is_ok() {}
    }

    /// The handler for an error text, unless it has ended.
    pub(crate) fn still_running(&self) -> Option<String> {
        let running = self.ended.has_changed().is_ok();
        running.then(|| format!("a handler of {} (events pending: {})", self.state.kind, self.pending()))
    }
}

/// How long a stop waits for handlers: as long as a manager waits for its runnables.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a stop after which `waiting` have not ended.
pub(crate) fn stop_result(waited: Duration, waiting: Vec<String>) -> Result<(), Error> {
    if waiting.is_empty() { Ok(()) } else { Err(Error::StopTimeout { waited, waiting }) }
}
