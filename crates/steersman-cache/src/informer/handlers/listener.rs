//! The informer's end of a handler.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, watch};

use super::backlog::{Backlog, Mark};
use super::caller::{Caller, run_handler};
use super::{Event, EventHandler, HandlerHandle};

/// Waiting events beyond this number are merged by object. It is a few batches of the informer: a
/// handler that keeps up has fewer.
const UNMERGED_MAX: usize = 2_048;

/// A message to the task of a handler.
pub(crate) enum Message<K> {
    /// All handlers share the allocation.
    Events(Arc<[Event<K>]>),
    /// Every object, for a resync.
    Resync(Arc<[Event<K>]>),
    /// The initial objects have been sent.
    Synced,
    /// The next events are in the backlog, until that is empty.
    Backlog,
}

/// Shared by the informer, the handler's task and its handle.
#[derive(Debug, Default)]
pub(super) struct HandlerState {
    /// The kind of its informer.
    pub(super) kind: String,
    pub(super) removed: AtomicBool,
    /// Whether it has not received all objects of a resync.
    pub(super) resyncing: AtomicBool,
    /// Wakes the task when the handler is removed.
    pub(super) removal: Notify,
    pub(super) pending: AtomicUsize,
    pub(super) panics: AtomicU64,
    /// Whether events go to the backlog. The informer sets it. The task resets it under the lock of
    /// the backlog, when that is empty.
    pub(super) is_behind: AtomicBool,
}

/// The informer's end of a handler.
pub(crate) struct Listener<K> {
    sender: mpsc::UnboundedSender<Message<K>>,
    state: Arc<HandlerState>,
    backlog: Arc<Mutex<Backlog<K>>>,
    /// Number of events of all handlers that were merged into others.
    merged: Arc<AtomicU64>,
}

impl<K: Send + Sync + 'static> Listener<K> {
    /// Starts the task of a handler.
    pub(crate) fn start(handler: impl EventHandler<K>, kind: &str, merged: &Arc<AtomicU64>) -> (Self, HandlerHandle) {
        let (sender, messages) = mpsc::unbounded_channel();
        let (synced, is_synced) = watch::channel(false);
        let (running, ended) = watch::channel(());
        let state = Arc::new(HandlerState { kind: kind.to_owned(), ..HandlerState::default() });
        let backlog = Arc::new(Mutex::new(Backlog::new()));
        let handle = HandlerHandle::new(Arc::clone(&state), is_synced, ended);
        let caller = Caller::new(handler, Arc::clone(&state), synced);
        tokio::spawn(run_handler(caller, messages, Arc::clone(&backlog), running));
        (Self { sender, state, backlog, merged: Arc::clone(merged) }, handle)
    }

    /// Whether the handler is neither removed nor ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.removed.load(Ordering::Acquire) && !self.sender.is_closed()
    }

    /// Counts events as pending that will be sent. Fewer may follow.
    pub(crate) fn announce(&self, events: usize) {
        self.state.pending.fetch_add(events, Ordering::Relaxed);
    }

    /// Sends events after `announced` were announced.
    pub(crate) fn send_announced(&self, events: &Arc<[Event<K>]>, announced: usize) {
        if events.len() < announced {
            self.state.pending.fetch_sub(announced - events.len(), Ordering::Release);
        }
        if !events.is_empty() {
            self.push(Message::Events(Arc::clone(events)));
        }
    }

    pub(crate) fn send(&self, message: Message<K>) {
        match &message {
            Message::Events(events) => self.announce(events.len()),
            Message::Resync(events) => {
                self.announce(events.len());
                self.state.resyncing.store(true, Ordering::Relaxed);
            }
            Message::Synced | Message::Backlog => {}
        }
        self.push(message);
    }

    /// Appends a message whose events are announced.
    fn push(&self, message: Message<K>) {
        let announced = match &message {
            Message::Events(events) | Message::Resync(events) => events.len(),
            Message::Synced | Message::Backlog => 0,
        };
        let waiting = self.state.pending.load(Ordering::Relaxed).saturating_sub(announced);
        if waiting <= UNMERGED_MAX && !self.state.is_behind.load(Ordering::Relaxed) {
            // Fails if the handler was removed.
            let _ = self.sender.send(message);
            return;
        }
        let mut backlog = locked(&self.backlog);
        let (before, dropped) = (backlog.len(), backlog.dropped());
        let (events, mark) = match message {
            Message::Events(events) => (Some(events), None),
            Message::Resync(events) => (Some(events), Some(Mark::Resynced)),
            Message::Synced => (None, Some(Mark::Synced)),
            Message::Backlog => (None, None),
        };
        events.iter().flat_map(|events| events.iter()).for_each(|event| backlog.push(event.clone()));
        mark.into_iter().for_each(|mark| backlog.mark(mark));
        if dropped == 0 && backlog.dropped() > 0 {
            let kind = &*self.state.kind;
            tracing::warn!(kind, "event handler stuck, dropping events of objects that were added and deleted since");
        }
        // Merging one event may remove others.
        let merged = before + announced - backlog.len();
        self.state.pending.fetch_sub(merged, Ordering::Release);
        self.merged.fetch_add(merged as u64, Ordering::Relaxed);
        if !backlog.is_empty() && !self.state.is_behind.swap(true, Ordering::Relaxed) {
            let _ = self.sender.send(Message::Backlog);
        }
    }

    /// Whether it has not received all objects of the last resync.
    pub(crate) fn is_resyncing(&self) -> bool {
        self.state.resyncing.load(Ordering::Relaxed)
    }
}

pub(super) fn locked<K>(backlog: &Mutex<Backlog<K>>) -> MutexGuard<'_, Backlog<K>> {
    backlog.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("state", &self.state).finish_non_exhaustive()
    }
}
