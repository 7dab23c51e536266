//! From events to keys.

use std::collections::HashSet;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steersman_cache::{Cached, Event, EventHandler, Object, ObjectKey};
use steersman_workqueue::{AddOptions, WorkQueue};

use super::async_map::AsyncMap;
use crate::caches::InUse;
use crate::flight_recorder::{Cause, Causes, EventType, SourceInfo};
use crate::kind::Conditions;
use crate::layer::panic_message;
use crate::scope::OwnerScope;

/// The priority of the initial list and of resyncs: live changes come first.
pub const LOW_PRIORITY: i8 = -100;

/// The keys that an event enqueues.
pub(crate) type MapFn<K> = dyn Fn(&Cached<K>) -> Vec<ObjectKey> + Send + Sync;

/// Which keys a change of an object enqueues.
pub(crate) enum EnqueueFor<K> {
    /// The key of the object itself.
    Itself,
    /// The keys that a function returns.
    Mapped(Arc<MapFn<K>>),
    /// The keys that an async function returns.
    MappedLater(Arc<AsyncMap<K>>),
}

impl<K> EnqueueFor<K> {
    pub(super) fn mapped<I>(map: impl Fn(&Cached<K>) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectKey>,
    {
        Self::Mapped(Arc::new(move |object| map(object).into_iter().collect()))
    }
}

impl<K> Clone for EnqueueFor<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Itself => Self::Itself,
            Self::Mapped(map) => Self::Mapped(Arc::clone(map)),
            Self::MappedLater(map) => Self::MappedLater(Arc::clone(map)),
        }
    }
}

/// Adds keys to a controller's queue.
pub(crate) struct Enqueue<K> {
    pub(crate) queue: WorkQueue<ObjectKey, Causes>,
    pub(crate) conditions: Conditions<K>,
    pub(crate) enqueue_for: EnqueueFor<K>,
    /// The kind that it watches.
    pub(crate) kind: String,
    pub(crate) panics: Arc<Panics>,
    /// The source of the causes. `None` if nothing is recorded.
    pub(crate) source: Option<Arc<SourceInfo>>,
    /// Keeps the cache in use as long as this handler exists.
    pub(crate) _in_use: Option<InUse>,
}

/// The panics of a controller's predicates, filters and map functions.
#[derive(Debug)]
pub(crate) struct Panics {
    pub(crate) controller: String,
    pub(crate) total: AtomicU64,
}

/// Which owners of an object are enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OwnerMatch {
    /// The one that controls it.
    #[default]
    Controller,
    /// All owners of the kind.
    All,
}

/// The keys of an object's owners of one kind. Owners are in the object's namespace, or
/// cluster-scoped.
pub(crate) fn owners<K>(scope: OwnerScope, which: OwnerMatch) -> impl Fn(&Cached<K>) -> Vec<ObjectKey> {
    move |object| {
        let (meta, owner) = (object.meta(), scope.owner());
        let ours = meta.owner_references().filter(|reference| {
            let (group, _) = reference.api_version.rsplit_once('/').unwrap_or(("", reference.api_version));
            let counts = which == OwnerMatch::All || reference.controller;
            counts && group == owner.group && reference.kind == owner.kind
        });
        let namespace = if scope.is_namespaced() { meta.namespace() } else { "" };
        ours.map(|reference| ObjectKey::new(namespace, reference.name)).collect()
    }
}

/// Up to this number of keys, comparing each with each is cheaper than a hash set.
const COMPARED_MAX: usize = 8;

/// Appends the keys of `more` that are not in `keys` yet, in their order.
pub(super) fn merge<T: Eq + Hash + Clone>(keys: &mut Vec<T>, more: Vec<T>) {
    if keys.len() + more.len() <= COMPARED_MAX {
        for key in more {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        return;
    }
    let mut seen: HashSet<T> = keys.iter().cloned().collect();
    keys.extend(more.into_iter().filter(|key| seen.insert(key.clone())));
}

impl<K: Object> Enqueue<K> {
    fn enqueue(&self, event: &Event<K>) {
        let low = match event {
            Event::Add { initial, .. } => *initial,
            Event::Update { old, new } => old.is_same_state(new),
            Event::Delete { .. } => false,
        };
        if !self.conditions.matter(event, |what, ask| self.guarded(what, event.object(), ask)) {
            return;
        }
        let options = AddOptions::new().priority(if low { LOW_PRIORITY } else { 0 });
        let map = match &self.enqueue_for {
            EnqueueFor::Itself => return self.add(event.object().key(), options, event),
            EnqueueFor::Mapped(map) => &**map,
            EnqueueFor::MappedLater(map) => return map.push(event, low, self.causes(event)),
        };
        let mut keys = self.keys(map, event.object());
        // A key that only the old state names is reconciled, too.
        if let Event::Update { old, new } = event
            && !old.is_same_state(new)
        {
            merge(&mut keys, self.keys(map, old));
        }
        keys.into_iter().for_each(|key| self.add(key, options, event));
    }

    /// Adds a key with its cause.
    fn add(&self, key: ObjectKey, options: AddOptions, event: &Event<K>) {
        match self.source {
            Some(_) => self.queue.add_with_payload(key, options, self.causes(event)),
            None => self.queue.add_with(key, options),
        }
    }

    /// The causes of the keys that an event enqueues.
    fn causes(&self, event: &Event<K>) -> Causes {
        let Some(source) = &self.source else { return Causes::None };
        let (kind, object) = (EventType::of(event), event.object());
        let is_other = !matches!(self.enqueue_for, EnqueueFor::Itself);
        match kind {
            EventType::Initial | EventType::Resync if !is_other => Causes::Bulk(Arc::clone(source), kind),
            _ => {
                let cause = Cause::of_event(source, kind, object, is_other);
                let controller = &*self.panics.controller;
                let span = tracing::debug_span!(parent: None, "event", controller, object = %object.key(), %cause);
                Causes::one(cause).in_span(span)
            }
        }
    }

    /// The keys of one state. None if the function panics; the other state of an update is still
    /// mapped.
    fn keys(&self, map: &MapFn<K>, object: &Cached<K>) -> Vec<ObjectKey> {
        self.guarded("map function", object, || map(object)).unwrap_or_default()
    }

    /// Calls a function of the user. A panic is counted and logged, and returns `None`.
    fn guarded<T>(&self, what: &str, object: &Cached<K>, function: impl FnOnce() -> T) -> Option<T> {
        catch_unwind(AssertUnwindSafe(function))
            .inspect_err(|panic| {
                self.panics.total.fetch_add(1, Ordering::Relaxed);
                let (controller, kind, object) = (&*self.panics.controller, &*self.kind, object.key());
                tracing::error!(controller, kind, %object, panic = panic_message(&**panic), "a {what} panicked");
            })
            .ok()
    }
}

impl<K: Object> EventHandler<K> for Enqueue<K> {
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        self.enqueue(&Event::Add { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        self.enqueue(&Event::Update { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        self.enqueue(&Event::Delete { object: object.clone(), final_state_unknown });
    }

    fn on_event(&mut self, event: &Event<K>) {
        self.enqueue(event);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// A key that counts how often keys are compared or hashed.
    #[derive(Debug, Clone)]
    struct Counted(u32);

    fn step() {
        STEPS.set(STEPS.get() + 1);
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            step();
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            step();
            self.0.hash(state);
        }
    }

    /// The merged numbers, and the number of steps that took.
    fn merged(keys: impl IntoIterator<Item = u32>, more: impl IntoIterator<Item = u32>) -> (Vec<u32>, u64) {
        let mut keys: Vec<_> = keys.into_iter().map(Counted).collect();
        let more = more.into_iter().map(Counted).collect();
        STEPS.set(0);
        merge(&mut keys, more);
        (keys.into_iter().map(|key| key.0).collect(), STEPS.get())
    }

    #[test]
    fn merging_the_keys_of_both_states_takes_a_few_steps_for_each_key() {
        for count in [1, 3, 10, 40, 1_000, 20_000] {
            let (keys, steps) = merged(0..count, count / 2..count + count / 2);
            assert_eq!(keys, (0..count + count / 2).collect::<Vec<_>>(), "each once, in order");
            assert!(steps <= 20 * u64::from(count), "{steps} steps for two states with {count} keys each");
        }
        let (keys, steps) = merged(0..20_000, [3, 50_000]);
        assert_eq!((keys.len(), keys[20_000]), (20_001, 50_000));
        assert!(steps <= 200_000, "{steps}");
    }

    #[test]
    fn merging_keeps_the_order_and_drops_repetitions() {
        assert_eq!(merged([2, 1], [3, 1, 3, 4, 2]).0, [2, 1, 3, 4]);
        let more = || (0..100).chain(0..100).rev();
        let expected: Vec<_> = (0..50).chain((50..100).rev()).collect();
        assert_eq!(merged(0..50, more()).0, expected);
    }
}
