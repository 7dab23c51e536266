//! A handler that checks every event.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_cache::{Cached, EventHandler, Lister, Object};

use crate::history::{History, Key, Scope, State, version};

/// The events that it received, and what it found in the cache.
#[derive(Default)]
pub(crate) struct Testimony {
    /// Whether it has resyncs.
    pub(crate) resyncs: bool,
    /// The objects according to its events.
    pub(crate) view: BTreeMap<Key, State>,
    /// The last version of each object that it received.
    versions: HashMap<String, u64>,
    /// Claims to check against the history, which may be behind.
    claims: Vec<Claim>,
    /// Whether the next event may be an initial one.
    begun: bool,
    pub(crate) initial: BTreeMap<Key, State>,
    pub(crate) calls: usize,
    pub(crate) repetitions: usize,
    /// Number of deletions with unknown final state.
    pub(crate) deleted_unseen: usize,
    /// Number of these that were followed by another object of the same name.
    pub(crate) recreated: usize,
    last_deleted_unseen: Option<Key>,
    pub(crate) problems: Vec<String>,
}

struct Claim {
    what: String,
    key: Key,
    fact: Fact,
}

enum Fact {
    /// The object had this state.
    Had(State),
    /// The object was deleted with this version.
    Left(u64),
    /// The content of the cache when it received that version.
    Held(u64, Option<State>),
}

/// The handler. Messages contain its name.
pub(crate) struct Witness<K> {
    pub(crate) name: String,
    pub(crate) lister: Lister<K>,
    pub(crate) testimony: Arc<Mutex<Testimony>>,
}

pub(crate) fn key<K: Object>(object: &Cached<K>) -> Key {
    (object.meta().namespace().to_owned(), object.meta().name().to_owned())
}

pub(crate) fn state<K: Object>(object: &Cached<K>) -> State {
    State { uid: object.meta().uid().to_owned(), version: version(object.meta().resource_version()) }
}

impl<K: Object> Witness<K> {
    pub(crate) fn new(name: impl Into<String>, resyncs: bool, lister: Lister<K>) -> Self {
        let testimony = Testimony { resyncs, ..Testimony::default() };
        Self { name: name.into(), lister, testimony: Arc::new(Mutex::new(testimony)) }
    }

    fn testimony(&self) -> MutexGuard<'_, Testimony> {
        self.testimony.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache has to hold that version of the object or a later one (contract 4).
    fn held(&self, key: &Key) -> Option<State> {
        self.lister.get(&key.0, &key.1).map(|object| state(&object))
    }
}

impl Testimony {
    fn problem(&mut self, witness: &str, problem: impl std::fmt::Display) {
        self.problems.push(format!("{witness}: {problem}"));
    }

    fn claim(&mut self, what: &str, key: &Key, fact: Fact) {
        self.claims.push(Claim { what: what.to_owned(), key: key.clone(), fact });
    }

    /// A new state has to be later than all earlier ones of the object (contract 1).
    fn later(&mut self, witness: &str, what: &str, state: &State) {
        let last = self.versions.insert(state.uid.clone(), state.version);
        if last.is_some_and(|last| last >= state.version) {
            self.problem(witness, format!("{what} comes after version {last:?} of the same object"));
        }
    }

    /// Checks the claims so far against the history.
    pub(crate) fn check(&mut self, witness: &str, scope: &Scope, history: &History) {
        for Claim { what, key, fact } in std::mem::take(&mut self.claims) {
            let (holds, problem) = match &fact {
                Fact::Had(state) => (history.had(scope, &key, state), "never was at the server".to_owned()),
                Fact::Left(version) => (history.left(scope, &key, *version), "did not happen at the server".to_owned()),
                Fact::Held(since, held) => (
                    history.may_hold(scope, &key, *since, held.as_ref()),
                    format!("was received while the cache held {held:?}"),
                ),
            };
            if !holds {
                let story = history.story(scope, &key);
                self.problem(witness, format!("{what} {problem}; at the server: {story}"));
            }
        }
    }
}

impl<K: Object> EventHandler<K> for Witness<K> {
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        let (key, state) = (key(object), state(object));
        let held = self.held(&key);
        let what = format!("add {key:?} {state:?}");
        let mut testimony = self.testimony();
        testimony.calls += 1;
        if initial && !testimony.begun {
            testimony.initial.insert(key.clone(), state.clone());
        } else {
            testimony.begun = true;
        }
        testimony.recreated += usize::from(testimony.last_deleted_unseen.take().as_ref() == Some(&key));
        testimony.later(&self.name, &what, &state);
        testimony.claim(&what, &key, Fact::Had(state.clone()));
        testimony.claim(&what, &key, Fact::Held(state.version, held));
        if let Some(present) = testimony.view.insert(key, state) {
            testimony.problem(&self.name, format!("{what}, but {present:?} is there"));
        }
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        let key = key(new);
        let (old, new) = (state(old), state(new));
        let held = self.held(&key);
        let what = format!("update {key:?} {old:?} to {new:?}");
        let mut testimony = self.testimony();
        testimony.calls += 1;
        testimony.begun = true;
        if old != new {
            testimony.later(&self.name, &what, &new);
        } else if testimony.resyncs {
            testimony.repetitions += 1;
        } else {
            testimony.problem(&self.name, format!("{what}, but it does not want resyncs"));
        }
        if old.uid != new.uid {
            testimony.problem(&self.name, format!("{what} is of two objects"));
        }
        testimony.claim(&what, &key, Fact::Had(new.clone()));
        testimony.claim(&what, &key, Fact::Held(new.version, held));
        let before = testimony.view.insert(key, new);
        if before.as_ref() != Some(&old) {
            testimony.problem(&self.name, format!("{what}, but {before:?} is there"));
        }
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        let (key, state) = (key(object), state(object));
        let held = self.held(&key);
        let what = format!("delete {key:?} {state:?} unknown={final_state_unknown}");
        let mut testimony = self.testimony();
        testimony.calls += 1;
        testimony.begun = true;
        let before = testimony.view.remove(&key);
        testimony.deleted_unseen += usize::from(final_state_unknown);
        testimony.last_deleted_unseen = final_state_unknown.then(|| key.clone());
        if final_state_unknown {
            if before.as_ref() != Some(&state) {
                testimony.problem(&self.name, format!("{what}, but {before:?} is there"));
            }
            if held.as_ref() == Some(&state) {
                testimony.problem(&self.name, format!("{what}, but the cache still holds it"));
            }
        } else {
            testimony.later(&self.name, &what, &state);
            testimony.claim(&what, &key, Fact::Left(state.version));
            if before.as_ref().map(|before| &before.uid) != Some(&state.uid) {
                testimony.problem(&self.name, format!("{what}, but {before:?} is there"));
            }
        }
        testimony.claim(&what, &key, Fact::Held(state.version, held));
    }
}
