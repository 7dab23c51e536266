//! An informer with its handlers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_cache::{HandlerHandle, Informer, InformerOptions, Lister, Object};

use crate::history::{History, Key, Scope, State, version};
use crate::witness::{self, Testimony, Witness};

pub(crate) struct Watched<K> {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) informer: Informer<K>,
    pub(crate) lister: Lister<K>,
    pub(crate) handlers: Vec<Handler>,
    handlers_added: usize,
    samples: Vec<Sample>,
}

pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) handle: HandlerHandle,
    testimony: Arc<Mutex<Testimony>>,
    /// The content of the cache when it was added.
    pub(crate) initial: BTreeMap<Key, State>,
}

/// The content of the cache when it reported a version.
struct Sample {
    version: u64,
    held: BTreeMap<Key, State>,
}

impl Scope {
    /// The options of an informer for this scope.
    pub(crate) fn options<K>(&self) -> InformerOptions<K> {
        let mut options = InformerOptions::all();
        for namespace in &self.namespaces {
            options = options.namespace(namespace);
        }
        match &self.tier {
            Some(tier) => options.labels(format!("tier={tier}")),
            None => options,
        }
    }
}

impl<K: Object> Watched<K> {
    pub(crate) fn new(name: String, scope: Scope, informer: Informer<K>) -> Self {
        let lister = informer.lister();
        Self { name, scope, informer, lister, handlers: Vec::new(), handlers_added: 0, samples: Vec::new() }
    }

    /// Adds a handler. Returns its name.
    pub(crate) fn add_handler(&mut self, resync: Option<Duration>) -> String {
        let with_resync = if resync.is_some() { " with resync" } else { "" };
        let name = format!("{} handler {}{with_resync}", self.name, self.handlers_added);
        self.handlers_added += 1;
        let witness = Witness::new(&name, resync.is_some(), self.lister.clone());
        let testimony = Arc::clone(&witness.testimony);
        let initial = self.held();
        let handle = match resync {
            Some(every) => self.informer.add_event_handler_with_resync(witness, every),
            None => self.informer.add_event_handler(witness),
        };
        let handle = handle.expect("the informer has not stopped");
        self.handlers.push(Handler { name: name.clone(), handle, testimony, initial });
        name
    }

    /// The content of the cache.
    pub(crate) fn held(&self) -> BTreeMap<Key, State> {
        self.lister.list().iter().map(|object| (witness::key(object), witness::state(object))).collect()
    }

    /// Records the content of the cache.
    pub(crate) fn sample(&mut self) {
        let version = version(&self.lister.resource_version());
        self.samples.push(Sample { version, held: self.held() });
    }

    /// Checks that no event is pending, and that the cache and all handlers agree with the server.
    pub(crate) fn agrees_with(&self, now: &BTreeMap<Key, State>) -> Result<(), String> {
        let held = self.held();
        if held != *now {
            let (held, now) = difference(&held, now);
            return Err(format!("{} holds {held:#?}, but the server has {now:#?}", self.name));
        }
        for handler in &self.handlers {
            let (name, pending, synced) = (&handler.name, handler.handle.pending(), handler.handle.has_synced());
            if pending > 0 || !synced {
                return Err(format!("{name}: {pending} events wait, synced: {synced}"));
            }
            let testimony = handler.testimony();
            if testimony.view != held {
                let (received, held) = difference(&testimony.view, &held);
                return Err(format!("{name} received {received:#?}, but the cache holds {held:#?}"));
            }
        }
        Ok(())
    }

    /// Checks everything seen so far against the history, which has to be complete.
    pub(crate) fn check(&mut self, history: &History) -> Result<(), String> {
        for Sample { version, held } in std::mem::take(&mut self.samples) {
            for key in history.keys() {
                let held = held.get(key);
                if version > 0 && !history.may_hold(&self.scope, key, version, held) {
                    let (name, story) = (&self.name, history.story(&self.scope, key));
                    return Err(format!("{name} has reached {version} and holds {held:?} of {key:?}: {story}"));
                }
            }
        }
        self.handlers.iter().try_for_each(|handler| handler.check(&self.scope, history))
    }
}

impl Handler {
    pub(crate) fn testimony(&self) -> MutexGuard<'_, Testimony> {
        self.testimony.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check(&self, scope: &Scope, history: &History) -> Result<(), String> {
        let mut testimony = self.testimony();
        testimony.check(&self.name, scope, history);
        if let Some(problem) = testimony.problems.first() {
            return Err(problem.clone());
        }
        // A removed handler has no pending events, whatever it received.
        let begun = self.handle.pending() == 0 && self.handle.has_synced();
        let missed = self.initial.iter().find(|(key, state)| begun && testimony.initial.get(*key) != Some(*state));
        missed.map_or(Ok(()), |missed| {
            let name = &self.name;
            Err(format!("{name} did not begin with {missed:?}, which was in the cache when it was added"))
        })
    }
}

type States = BTreeMap<Key, State>;

/// The differences between two maps.
fn difference(a: &States, b: &States) -> (States, States) {
    let only = |a: &States, b: &States| {
        a.iter()
            .filter(|(key, state)| b.get(*key) != Some(*state))
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    };
    (only(a, b), only(b, a))
}
