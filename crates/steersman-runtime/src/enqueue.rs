//! From events to keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_cache::{Cached, Event, EventHandler, Object, ObjectKey};
use steersman_workqueue::{AddOptions, WorkQueue};

use crate::caches::InUse;
use crate::kind::{Conditions, Identity};
use crate::layers::words;

/// The priority of what is told at the start and of resyncs: live changes come first.
pub const LOW_PRIORITY: i8 = -100;

/// Whose keys an event is about.
pub(crate) type MapFn<K> = dyn Fn(&Cached<K>) -> Vec<ObjectKey> + Send + Sync;

/// Puts keys into a controller's queue.
pub(crate) struct Enqueue<K> {
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) conditions: Conditions<K>,
    pub(crate) keys: Arc<MapFn<K>>,
    /// Of what it is told.
    pub(crate) kind: String,
    pub(crate) panics: Arc<Panics>,
    /// The cache stays as long as this handler does.
    pub(crate) _in_use: Option<InUse>,
}

/// The panics of a controller's predicates, filters and map functions.
#[derive(Debug)]
pub(crate) struct Panics {
    pub(crate) controller: String,
    pub(crate) total: AtomicU64,
}

/// The object's own key.
pub(crate) fn itself<K>(object: &Cached<K>) -> Vec<ObjectKey> {
    vec![object.key()]
}

/// Which owners of an object are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Owners {
    /// The one that controls it.
    #[default]
    Controller,
    /// All of the kind.
    All,
}

/// The keys of an object's owners of one kind. Owners are in the object's namespace, unless they are in none.
pub(crate) fn owners<K>(owner: Identity, which: Owners) -> impl Fn(&Cached<K>) -> Vec<ObjectKey> {
    move |object| {
        let meta = object.meta();
        let ours = meta.owner_references().filter(|reference| {
            let (group, _) = reference.api_version.rsplit_once('/').unwrap_or(("", reference.api_version));
            let counts = which == Owners::All || reference.controller;
            counts && group == owner.group && reference.kind == owner.kind
        });
        let namespace = if owner.namespaced { meta.namespace() } else { "" };
        ours.map(|reference| ObjectKey::new(namespace, reference.name)).collect()
    }
}

impl<K: Object> Enqueue<K> {
    fn enqueue(&self, event: &Event<K>, low: bool) {
        if !self.conditions.matter(event, |what, ask| self.guarded(what, event.object(), ask)) {
            return;
        }
        let options = AddOptions::new().priority(if low { LOW_PRIORITY } else { 0 });
        let mut keys = self.keys(event.object());
        // Who is no longer concerned has to be told once more.
        if let Event::Update { old, new } = event
            && !old.is_same_state(new)
        {
            for key in self.keys(old) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys.into_iter().for_each(|key| self.queue.add_with(key, options));
    }

    /// Whom a state concerns. If the function panics, nobody; the other state of an update is asked about all the same.
    fn keys(&self, object: &Cached<K>) -> Vec<ObjectKey> {
        self.guarded("map function", object, || (self.keys)(object)).unwrap_or_default()
    }

    /// What a user's function says; none if it panics, which is counted and logged.
    fn guarded<T>(&self, what: &str, object: &Cached<K>, function: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(function))
            .inspect_err(|panic| {
                self.panics.total.fetch_add(1, Ordering::Relaxed);
                let (controller, kind, object) = (&*self.panics.controller, &*self.kind, object.key());
                tracing::error!(controller, kind, %object, panic = words(&**panic), "a {what} panicked");
            })
            .ok()
    }
}

impl<K: Object> EventHandler<K> for Enqueue<K> {
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        self.enqueue(&Event::Add { object: object.clone(), initial }, initial);
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        let event = Event::Update { old: old.clone(), new: new.clone() };
        self.enqueue(&event, old.is_same_state(new));
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        self.enqueue(&Event::Delete { object: object.clone(), final_state_unknown }, false);
    }
}
