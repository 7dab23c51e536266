//! An informer and those who listen to it.

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
    /// What was in the cache when it was added.
    pub(crate) initial: BTreeMap<Key, State>,
}

/// What was in the cache when it said that it had reached a version.
struct Sample {
    version: u64,
    held: BTreeMap<Key, State>,
}

impl Scope {
    /// The options of an informer for it.
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

    /// Adds a handler, and gives its name.
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

    /// Everything in the cache.
    pub(crate) fn held(&self) -> BTreeMap<Key, State> {
        self.lister.list().iter().map(|object| (witness::key(object), witness::state(object))).collect()
    }

    /// Looks into the cache at this very moment.
    pub(crate) fn sample(&mut self) {
        let version = version(&self.lister.resource_version());
        self.samples.push(Sample { version, held: self.held() });
    }

    /// Whether all is told, the cache holds what the server has now, and all who listen think so as well.
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
                let (told, held) = difference(&testimony.view, &held);
                return Err(format!("{name} was told of {told:#?}, but the cache holds {held:#?}"));
            }
        }
        Ok(())
    }

    /// Holds what was seen and told so far against what happened. The history has to know all of it.
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
        // One that was removed has nothing pending, however little it was told.
        let begun = self.handle.pending() == 0 && self.handle.has_synced();
        let missed = self.initial.iter().find(|(key, state)| begun && testimony.initial.get(*key) != Some(*state));
        missed.map_or(Ok(()), |missed| {
            let name = &self.name;
            Err(format!("{name} did not begin with {missed:?}, which was in the cache when it was added"))
        })
    }
}

type States = BTreeMap<Key, State>;

/// What only the one holds, and what only the other.
fn difference(a: &States, b: &States) -> (States, States) {
    let only = |a: &States, b: &States| {
        a.iter()
            .filter(|(key, state)| b.get(*key) != Some(*state))
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    };
    (only(a, b), only(b, a))
}
