//! Applies batches to the cache and sends events to the handlers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use steersman_wire::compare_resource_version;
use tokio::time::Instant;

use crate::informer::handlers::{Event, EventHandler, HandlerHandle, Listener, Message};
use crate::object::cached::{Cached, Object};
use crate::queue::delta_fifo::{Batch, Delta, Work};
use crate::queue::source::Source;
use crate::store::indexer::{Indexer, PreparedValues, Replaced, Snapshot};

/// Shortest time between two resyncs of a handler.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);
/// Longest time between two resyncs: a later `Instant` may not exist.
const LONGEST_RESYNC: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The handlers of an informer and the progress of its sources. One lock guards all of it.
pub(super) struct Processor<K> {
    handlers: Vec<Handler<K>>,
    sources: Vec<Progress<K>>,
    stopped: bool,
    resyncs_skipped: u64,
    events_merged: Arc<AtomicU64>,
    /// The handlers at the time of the stop.
    ending: Vec<HandlerHandle>,
}

struct Progress<K> {
    source: Arc<Source<K>>,
    /// All events up to this version are in the cache. Empty before the first list.
    reached: String,
    /// Whether the first list is in the cache.
    synced: bool,
}

/// A batch with the values of its objects in the indexes by function.
pub(super) struct PreparedBatch<K> {
    pub(super) batch: Batch<Cached<K>>,
    /// Whether it completes the first list of its source.
    pub(super) synced: bool,
    pub(super) values: PreparedValues,
}

/// The effect of a batch.
pub(super) struct Processed {
    /// Whether an object changed.
    pub(super) changed: bool,
    /// Whether the initial objects of all sources are in the cache.
    pub(super) synced: bool,
}

struct Handler<K> {
    listener: Listener<K>,
    handle: HandlerHandle,
    resync: Option<Resync>,
}

struct Resync {
    every: Duration,
    next: Instant,
}

impl<K> Processor<K> {
    /// Accepts no further handlers. Current ones end when they have received what was sent to them.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.ending.extend(self.handlers.drain(..).map(|handler| handler.handle));
    }

    /// The handlers at the time of the stop.
    pub(super) fn ending(&self) -> Vec<HandlerHandle> {
        self.ending.clone()
    }
}

impl<K: Object> Processor<K> {
    pub(super) fn new(sources: Vec<Arc<Source<K>>>) -> Self {
        let progress = |source| Progress { source, reached: String::new(), synced: false };
        Self {
            handlers: Vec::new(),
            sources: sources.into_iter().map(progress).collect(),
            stopped: false,
            resyncs_skipped: 0,
            events_merged: Arc::default(),
            ending: Vec::new(),
        }
    }

    /// Adds a handler, which first receives every object. `None` after the stop.
    pub(super) fn add_handler(
        &mut self,
        handler: impl EventHandler<K>,
        kind: &str,
        resync: Option<Duration>,
        objects: impl FnOnce() -> Snapshot<K>,
    ) -> Option<HandlerHandle> {
        if self.stopped {
            return None;
        }
        let (listener, handle) = Listener::start(handler, kind, &self.events_merged);
        let initial: Arc<[_]> =
            objects().iter().map(|object| Event::Add { object: object.clone(), initial: true }).collect();
        listener.send(Message::Events(initial));
        if self.synced() {
            listener.send(Message::Synced);
        }
        let resync = resync.map(|every| {
            let every = every.clamp(SHORTEST_RESYNC, LONGEST_RESYNC);
            Resync { every, next: Instant::now() + every }
        });
        self.handlers.push(Handler { listener, handle: handle.clone(), resync });
        Some(handle)
    }

    pub(super) fn deltas_pending(&self) -> usize {
        self.sources.iter().map(|progress| progress.source.pending()).sum()
    }

    pub(super) fn events_pending(&self) -> usize {
        self.handlers.iter().map(|handler| handler.handle.pending()).sum()
    }

    /// Number of resyncs that a handler skipped, because it had not finished the previous one.
    pub(super) fn resyncs_skipped(&self) -> u64 {
        self.resyncs_skipped
    }

    /// Number of events that were merged into others of the same object.
    pub(super) fn events_merged(&self) -> u64 {
        self.events_merged.load(Ordering::Relaxed)
    }

    /// Whether the initial objects of all sources are in the cache.
    fn synced(&self) -> bool {
        self.sources.iter().all(|progress| progress.synced)
    }

    /// Applies a batch of the source at `index` to the cache, and sends the changes to the
    /// handlers.
    pub(super) fn process(&mut self, index: usize, work: PreparedBatch<K>, cache: &RwLock<Indexer<K>>) -> Processed {
        let PreparedBatch { batch, synced, values } = work;
        let progress = &mut self.sources[index];
        let initial = !progress.synced;
        let mut events = Vec::new();
        let mut indexer = cache.write().unwrap_or_else(PoisonError::into_inner);
        indexer.set_prepared(values);
        match batch.work {
            Work::Changes(changes) => {
                for change in changes {
                    change.into_iter().for_each(|delta| apply(&mut indexer, delta, &mut events));
                }
            }
            Work::Replace(objects) => {
                let replaced = indexer.replace_in(progress.source.namespace.as_deref(), objects);
                replaced_events(replaced, initial, &mut events);
            }
            Work::Nothing => {}
        }
        indexer.set_prepared(PreparedValues::new());
        if let Some(reached) = batch.reached {
            progress.reached = reached;
        }
        progress.synced |= synced;
        indexer.set_resource_version(self.reached());
        // Before the lock is released: a caller that sees the new version and then no pending
        // events of a handler may conclude that the handler has received the change.
        let announced = events.len();
        self.handlers.iter().for_each(|handler| handler.listener.announce(announced));
        drop(indexer);
        let changed = events.iter().any(|event| !event.is_repetition());
        self.send(events);
        let synced = self.synced();
        if initial && synced {
            self.handlers.iter().for_each(|handler| handler.listener.send(Message::Synced));
        }
        Processed { changed, synced }
    }

    /// All events of all sources up to this version are in the cache: the least of their versions.
    /// Empty until every source is listed (test
    /// `no_version_is_reached_before_every_namespace_is_listed`), or if versions do not compare.
    fn reached(&self) -> &str {
        let versions = self.sources.iter().map(|progress| &*progress.reached);
        let least = versions.reduce(|a, b| match compare_resource_version(a, b) {
            Ok(order) if order.is_le() => a,
            Ok(_) => b,
            Err(_) => "",
        });
        least.unwrap_or("")
    }

    /// Sends events to all handlers, after their number was announced. All handlers share one
    /// allocation. Events with equal versions go only to handlers with resyncs.
    fn send(&mut self, events: Vec<Event<K>>) {
        let announced = events.len();
        self.handlers.retain(|handler| handler.listener.is_open());
        if events.is_empty() || self.handlers.is_empty() {
            return;
        }
        let repetitions = events.iter().any(Event::is_repetition);
        let all: Arc<[_]> = events.into();
        let changes: Option<Arc<[_]>> =
            repetitions.then(|| all.iter().filter(|event| !event.is_repetition()).cloned().collect());
        for handler in &self.handlers {
            let events = if handler.resync.is_some() { &all } else { changes.as_ref().unwrap_or(&all) };
            handler.listener.send_announced(events, announced);
        }
    }

    /// The time of the next resync of a handler.
    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.handlers.iter().filter_map(|handler| handler.resync.as_ref()).map(|resync| resync.next).min()
    }

    /// Sends every object to the handlers that are due. A handler that has not finished the last
    /// resync skips this one: otherwise its backlog would grow by all objects each time.
    pub(super) fn resync(&mut self, now: Instant, objects: impl FnOnce() -> Snapshot<K>) {
        self.handlers.retain(|handler| handler.listener.is_open());
        let mut due = Vec::new();
        for handler in &mut self.handlers {
            if let Some(resync) = &mut handler.resync
                && resync.next <= now
            {
                resync.next = now + resync.every;
                if handler.listener.is_resyncing() {
                    self.resyncs_skipped += 1;
                } else {
                    due.push(&handler.listener);
                }
            }
        }
        if due.is_empty() {
            return;
        }
        let repeat = |object: &Cached<K>| Event::Update { old: object.clone(), new: object.clone() };
        let events: Arc<[_]> = objects().iter().map(repeat).collect();
        due.iter().for_each(|listener| listener.send(Message::Resync(Arc::clone(&events))));
    }
}

fn apply<K: Object>(indexer: &mut Indexer<K>, delta: Delta<Cached<K>>, events: &mut Vec<Event<K>>) {
    match delta {
        Delta::Added(object) | Delta::Updated(object) => match indexer.upsert(object.clone()) {
            None => events.push(Event::Add { object, initial: false }),
            Some(old) => update_events(old, object, events),
        },
        Delta::Deleted { object, final_state_unknown } => {
            if indexer.delete(object.meta().namespace(), object.meta().name()).is_some() {
                events.push(Event::Delete { object, final_state_unknown });
            }
        }
    }
}

/// The event of an update. Another uid means another object: the old one was deleted unseen.
fn update_events<K>(old: Cached<K>, new: Cached<K>, events: &mut Vec<Event<K>>) {
    if old.is_same_object(&new) {
        events.push(Event::Update { old, new });
    } else {
        events.push(Event::Delete { object: old, final_state_unknown: true });
        events.push(Event::Add { object: new, initial: false });
    }
}

/// The events of a list: first deletions, then additions and updates.
fn replaced_events<K>(replaced: Replaced<K>, initial: bool, events: &mut Vec<Event<K>>) {
    events.extend(replaced.deleted.into_iter().map(|object| Event::Delete { object, final_state_unknown: true }));
    events.extend(replaced.added.into_iter().map(|object| Event::Add { object, initial }));
    replaced.updated.into_iter().for_each(|(old, new)| update_events(old, new, events));
}
