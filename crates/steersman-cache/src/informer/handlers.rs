//! Those who are told what changes.

mod backlog;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use crate::{Cached, Error};
use backlog::{Backlog, Mark};

/// Is told of every object that comes, changes and goes.
///
/// Calls come one after the other, on a task of the handler's own, and must not block: put a key into a work queue, and do the
/// work elsewhere. Each handler has a buffer of its own. When more than 2,048 events wait in it, later ones are merged by object, so
/// that a handler that is stuck takes memory by the number of objects: several updates become one, from the last state that the
/// handler was told of, and an object that came and went is left out. No deletion of an object that it was told of is missing. A
/// panic is caught and counted, and the next call comes all the same. A handler may call anything of its informer,
/// and remove itself (test `a_handler_may_use_its_informer`).
pub trait EventHandler<K>: Send + 'static {
    /// An object is there. `initial`: it was there when the informer started, or when this handler was added.
    fn on_add(&mut self, object: &Cached<K>, initial: bool);

    /// An object has changed, or is told of again in a resync: then both have the same version.
    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>);

    /// An object is gone. `final_state_unknown`: its deletion was not seen, and `object` is the last state that was.
    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool);

    /// Any of these, as the informer tells it. A handler that takes events as they are has it do so directly.
    fn on_event(&mut self, event: &Event<K>) {
        match event {
            Event::Add { object, initial } => self.on_add(object, *initial),
            Event::Update { old, new } => self.on_update(old, new),
            Event::Delete { object, final_state_unknown } => self.on_delete(object, *final_state_unknown),
        }
    }
}

/// What a handler is told.
#[derive(Debug)]
pub enum Event<K> {
    /// An object is there.
    Add {
        /// The object.
        object: Cached<K>,
        /// Whether it was there from the start.
        initial: bool,
    },
    /// An object has changed, or is told of again.
    Update {
        /// Its state before.
        old: Cached<K>,
        /// Its state now.
        new: Cached<K>,
    },
    /// An object is gone.
    Delete {
        /// The last state of it that is known.
        object: Cached<K>,
        /// Whether there may have been later ones.
        final_state_unknown: bool,
    },
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Add { object, initial } => Self::Add { object: object.clone(), initial: *initial },
            Self::Update { old, new } => Self::Update { old: old.clone(), new: new.clone() },
            Self::Delete { object, final_state_unknown } => {
                Self::Delete { object: object.clone(), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<K> Event<K> {
    /// The object, in its newest state.
    pub fn object(&self) -> &Cached<K> {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } | Self::Delete { object, .. } => object,
        }
    }

    /// Whether it tells nothing new: the same version as before.
    pub(crate) fn is_repetition(&self) -> bool {
        matches!(self, Self::Update { old, new } if old.is_same_state(new))
    }
}

/// A handler that is one function of all events.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use steersman_cache::{Event, EventHandler, handler};
/// let print = handler(|event: &Event<Pod>| println!("{}", event.object().meta().name()));
/// # fn is_handler(_: impl EventHandler<Pod>) {}
/// # is_handler(print);
/// ```
pub fn handler<K: 'static>(function: impl FnMut(&Event<K>) + Send + 'static) -> impl EventHandler<K> {
    Function(function)
}

struct Function<F>(F);

impl<K: 'static, F: FnMut(&Event<K>) + Send + 'static> EventHandler<K> for Function<F> {
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        (self.0)(&Event::Add { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        (self.0)(&Event::Update { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        (self.0)(&Event::Delete { object: object.clone(), final_state_unknown });
    }

    fn on_event(&mut self, event: &Event<K>) {
        (self.0)(event);
    }
}

/// Tells another handler only of the objects that a filter lets through. One that changes so that it is let through is added,
/// one that no longer is, is deleted.
#[derive(Debug, Clone)]
pub struct FilteringHandler<F, H> {
    /// Which objects.
    pub filter: F,
    /// Who is told of them.
    pub handler: H,
}

impl<K, F, H> EventHandler<K> for FilteringHandler<F, H>
where
    F: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        if (self.filter)(object) {
            self.handler.on_add(object, initial);
        }
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        match ((self.filter)(old), (self.filter)(new)) {
            (true, true) => self.handler.on_update(old, new),
            (false, true) => self.handler.on_add(new, false),
            (true, false) => self.handler.on_delete(old, false),
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        if (self.filter)(object) {
            self.handler.on_delete(object, final_state_unknown);
        }
    }
}

/// Events that wait beyond this number are merged by object. It is a few batches of the informer: a handler that keeps up has fewer.
const UNMERGED_MAX: usize = 2_048;

/// What goes to the task of a handler.
pub(crate) enum Message<K> {
    /// The same allocation for all handlers.
    Events(Arc<[Event<K>]>),
    /// Every object again.
    Resync(Arc<[Event<K>]>),
    /// Everything that was there from the start has been sent.
    Synced,
    /// What comes next is in the backlog, until that is empty.
    Backlog,
}

/// What the informer, the handler's task and its handle share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// What its informer is for.
    kind: String,
    removed: AtomicBool,
    /// It has not been told of all of a resync.
    resyncing: AtomicBool,
    /// Wakes the task when it is removed.
    gone: Notify,
    pending: AtomicUsize,
    panics: AtomicU64,
    /// Events go to the backlog. The informer sets it; the task resets it when the backlog is empty, under its lock.
    is_behind: AtomicBool,
}

/// The informer's end of a handler.
pub(crate) struct Listener<K> {
    sender: mpsc::UnboundedSender<Message<K>>,
    shared: Arc<Shared>,
    backlog: Arc<Mutex<Backlog<K>>>,
    /// Counts the events of all handlers that were merged into others.
    merged: Arc<AtomicU64>,
}

impl<K: Send + Sync + 'static> Listener<K> {
    /// Starts the task of a handler.
    pub(crate) fn start(handler: impl EventHandler<K>, kind: &str, merged: &Arc<AtomicU64>) -> (Self, HandlerHandle) {
        let (sender, messages) = mpsc::unbounded_channel();
        let (synced, is_synced) = watch::channel(false);
        let (running, ended) = watch::channel(());
        let shared = Arc::new(Shared { kind: kind.to_owned(), ..Shared::default() });
        let backlog = Arc::new(Mutex::new(Backlog::new()));
        let handle = HandlerHandle { shared: Arc::clone(&shared), synced: is_synced, ended };
        let caller = Caller { handler, shared: Arc::clone(&shared), synced, since_yield: 0 };
        tokio::spawn(tell(caller, messages, Arc::clone(&backlog), running));
        (Self { sender, shared, backlog, merged: Arc::clone(merged) }, handle)
    }

    /// Whether it is still there.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.removed.load(Ordering::Acquire) && !self.sender.is_closed()
    }

    /// So many events will be sent, or fewer. They count as waiting from now on.
    pub(crate) fn announce(&self, events: usize) {
        self.shared.pending.fetch_add(events, Ordering::Relaxed);
    }

    /// Sends events, of which so many were announced.
    pub(crate) fn send_announced(&self, events: &Arc<[Event<K>]>, announced: usize) {
        if events.len() < announced {
            self.shared.pending.fetch_sub(announced - events.len(), Ordering::Release);
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
                self.shared.resyncing.store(true, Ordering::Relaxed);
            }
            Message::Synced | Message::Backlog => {}
        }
        self.push(message);
    }

    /// Puts a message, whose events are announced, at the end of all that waits.
    fn push(&self, message: Message<K>) {
        let announced = match &message {
            Message::Events(events) | Message::Resync(events) => events.len(),
            Message::Synced | Message::Backlog => 0,
        };
        let waiting = self.shared.pending.load(Ordering::Relaxed).saturating_sub(announced);
        if waiting <= UNMERGED_MAX && !self.shared.is_behind.load(Ordering::Relaxed) {
            // It may have been removed by now.
            let _ = self.sender.send(message);
            return;
        }
        let mut backlog = locked(&self.backlog);
        let (before, left_out) = (backlog.len(), backlog.left_out());
        let (events, mark) = match message {
            Message::Events(events) => (Some(events), None),
            Message::Resync(events) => (Some(events), Some(Mark::Resynced)),
            Message::Synced => (None, Some(Mark::Synced)),
            Message::Backlog => (None, None),
        };
        events.iter().flat_map(|events| events.iter()).for_each(|event| backlog.push(event.clone()));
        mark.into_iter().for_each(|mark| backlog.mark(mark));
        if left_out == 0 && backlog.left_out() > 0 {
            let kind = &*self.shared.kind;
            tracing::warn!(
                kind,
                "an event handler is stuck: objects that came and went meanwhile are left out of its events"
            );
        }
        // An event that is merged may take others with it.
        let merged = before + announced - backlog.len();
        self.shared.pending.fetch_sub(merged, Ordering::Release);
        self.merged.fetch_add(merged as u64, Ordering::Relaxed);
        if !backlog.is_empty() && !self.shared.is_behind.swap(true, Ordering::Relaxed) {
            let _ = self.sender.send(Message::Backlog);
        }
    }

    /// Whether it has not been told of all of the last resync.
    pub(crate) fn is_resyncing(&self) -> bool {
        self.shared.resyncing.load(Ordering::Relaxed)
    }
}

fn locked<K>(backlog: &Mutex<Backlog<K>>) -> MutexGuard<'_, Backlog<K>> {
    backlog.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After so many calls, other tasks are let run. As many as the informer brings in its turn, or its handlers would fall behind.
const TOLD_AT_ONCE: usize = 512;
/// The events of this number of objects are taken out of the backlog at once.
const TAKEN_AT_ONCE: usize = 64;

/// The task's end of a handler.
struct Caller<H> {
    handler: H,
    shared: Arc<Shared>,
    synced: watch::Sender<bool>,
    /// Calls since other tasks were let run.
    since_yield: usize,
}

impl<H> Caller<H> {
    /// Calls the handler for each event. `false` if it was removed before the last.
    async fn call<K>(&mut self, events: &[Event<K>]) -> bool
    where
        H: EventHandler<K>,
    {
        for event in events {
            self.since_yield += 1;
            if self.since_yield >= TOLD_AT_ONCE {
                self.since_yield = 0;
                tokio::task::yield_now().await;
            }
            if self.shared.removed.load(Ordering::Acquire) {
                return false;
            }
            if catch_unwind(AssertUnwindSafe(|| self.handler.on_event(event))).is_err() {
                self.shared.panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(object = ?event.object(), "an event handler panicked; it is told of the next event");
            }
            self.shared.pending.fetch_sub(1, Ordering::Release);
        }
        true
    }

    fn reach(&self, mark: Mark) {
        match mark {
            Mark::Synced => {
                let _ = self.synced.send(true);
            }
            Mark::Resynced => self.shared.resyncing.store(false, Ordering::Relaxed),
        }
    }

    /// Calls the handler for the events in the backlog, until it has been empty once. `false` if the handler was removed before.
    ///
    /// From the moment in which the backlog is empty, new events go to the channel, and later ones perhaps to the backlog again.
    /// Those are not taken here: the channel announces them after the events that came before (test
    /// `a_handler_that_falls_behind_twice_sees_every_object_in_order`).
    async fn call_backlog<K>(&mut self, backlog: &Mutex<Backlog<K>>) -> bool
    where
        H: EventHandler<K>,
    {
        loop {
            let (events, mark, emptied) = {
                let mut backlog = locked(backlog);
                let (events, mark) = backlog.pop(TAKEN_AT_ONCE);
                let emptied = backlog.is_empty();
                if emptied {
                    self.shared.is_behind.store(false, Ordering::Relaxed);
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

async fn tell<K, H: EventHandler<K>>(
    caller: Caller<H>,
    mut messages: mpsc::UnboundedReceiver<Message<K>>,
    backlog: Arc<Mutex<Backlog<K>>>,
    running: watch::Sender<()>,
) {
    // It goes when the task ends, however that is, and after the handler with all that this holds.
    let _running = running;
    let mut caller = caller;
    loop {
        let message = tokio::select! {
            biased;
            () = caller.shared.gone.notified() => return,
            message = messages.recv() => message,
        };
        let goes_on = match message {
            None => return,
            Some(Message::Synced) => {
                caller.reach(Mark::Synced);
                true
            }
            Some(Message::Events(events)) => caller.call(&events).await,
            Some(Message::Resync(events)) => {
                let goes_on = caller.call(&events).await;
                caller.reach(Mark::Resynced);
                goes_on
            }
            Some(Message::Backlog) => caller.call_backlog(&backlog).await,
        };
        if !goes_on {
            return;
        }
    }
}

/// A handler that was added to an informer. Dropping it does not remove the handler.
#[derive(Debug, Clone)]
pub struct HandlerHandle {
    shared: Arc<Shared>,
    synced: watch::Receiver<bool>,
    ended: watch::Receiver<()>,
}

impl HandlerHandle {
    /// Whether the handler has been told of every object that was there from the start.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the handler has been told of every object that was there from the start. The error names what is missing after
    /// `limit`, or at once if the handler is removed or the informer stops.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), Error> {
        let synced = timeout(limit, self.synced.clone().wait_for(|synced| *synced)).await.map(|synced| synced.is_ok());
        if synced == Ok(true) {
            return Ok(());
        }
        let (kind, pending) = (self.shared.kind.clone(), self.pending());
        Err(Error::HandlerNotSynced { kind, waited: limit, pending, ended: synced.is_ok() })
    }

    /// How many events wait for the handler; none once it is removed. Beyond 2,048, those of one object are merged: see
    /// [`EventHandler`].
    pub fn pending(&self) -> usize {
        let removed = self.shared.removed.load(Ordering::Acquire);
        if removed { 0 } else { self.shared.pending.load(Ordering::Acquire) }
    }

    /// How many of its calls panicked.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Removes the handler: at most the call that is running now is finished. Removing it again does nothing.
    pub fn remove(&self) {
        self.shared.removed.store(true, Ordering::Release);
        self.shared.gone.notify_one();
    }

    /// Removes the handler and waits until its last call has returned, for at most 30 s. The error names the handler that is still in
    /// a call. It is removed nevertheless: call this again to go on waiting.
    pub async fn remove_and_wait(&self) -> Result<(), Error> {
        self.remove();
        let _ = timeout(ENDS_WITHIN, self.ended()).await;
        ended_or(ENDS_WITHIN, self.unended().into_iter().collect())
    }

    /// Waits until the handler will not be called any more.
    pub(crate) async fn ended(&self) {
        // Nothing is ever sent: the sender goes when the task ends.
        while self.ended.clone().changed().await.is_ok() {}
    }

    /// The handler, in words, unless it has ended.
    pub(crate) fn unended(&self) -> Option<String> {
        let running = self.ended.has_changed().is_ok();
        running.then(|| format!("a handler of {} (events that wait for it: {})", self.shared.kind, self.pending()))
    }
}

/// How long the end of handlers is waited for: as long as a manager gives its runnables.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// The result of a wait for the end of these.
pub(crate) fn ended_or(waited: Duration, waiting: Vec<String>) -> Result<(), Error> {
    if waiting.is_empty() { Ok(()) } else { Err(Error::NotEnded { waited, waiting }) }
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("shared", &self.shared).finish_non_exhaustive()
    }
}
