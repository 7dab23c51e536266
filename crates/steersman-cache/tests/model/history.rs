//! The true history of the server.

use std::collections::BTreeMap;

use serde_json::Value;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// One state of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    pub(crate) uid: String,
    pub(crate) version: u64,
}

/// The objects of an informer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// All namespaces if empty.
    pub(crate) namespaces: Vec<String>,
    /// The required value of the label `tier`.
    pub(crate) tier: Option<String>,
}

impl Scope {
    fn holds(&self, namespace: &str, tier: Option<&str>) -> bool {
        let here = self.namespaces.is_empty() || self.namespaces.iter().any(|one| one == namespace);
        here && self.tier.as_deref().is_none_or(|wanted| tier == Some(wanted))
    }
}

struct Change {
    state: State,
    tier: Option<String>,
    deleted: bool,
}

/// All changes of all objects, in their order.
#[derive(Default)]
pub(crate) struct History {
    changes: BTreeMap<Key, Vec<Change>>,
    newest: u64,
}

impl History {
    /// Starts at a version with no objects.
    pub(crate) fn since(version: u64) -> Self {
        Self { changes: BTreeMap::new(), newest: version }
    }

    /// Records an event of a watch.
    pub(crate) fn record(&mut self, event: &Value) {
        let metadata = &event["object"]["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let version = version(metadata["resourceVersion"].as_str().unwrap_or_default());
        let change = Change {
            state: State { uid: text("uid"), version },
            tier: metadata["labels"]["tier"].as_str().map(str::to_owned),
            deleted: match event["type"].as_str() {
                Some("DELETED") => true,
                Some("ADDED" | "MODIFIED") => false,
                _ => panic!("unexpected event {event}"),
            },
        };
        assert!(version > self.newest, "the server went back from {} with {event}", self.newest);
        self.newest = version;
        self.changes.entry((text("namespace"), text("name"))).or_default().push(change);
    }

    /// The version of the last change.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// The states of a key within `scope`, each with its first version. `None` means absent.
    fn seen(&self, scope: &Scope, key: &Key) -> Vec<(u64, Option<State>)> {
        let mut seen = Vec::new();
        for change in self.changes.get(key).into_iter().flatten() {
            let there = !change.deleted && scope.holds(&key.0, change.tier.as_deref());
            let state = there.then(|| change.state.clone());
            if state.is_some() || seen.last().is_some_and(|(_, before): &(_, Option<State>)| before.is_some()) {
                seen.push((change.state.version, state));
            }
        }
        seen
    }

    /// The current objects in `scope`.
    pub(crate) fn now(&self, scope: &Scope) -> BTreeMap<Key, State> {
        let now = |key: &Key| Some((key.clone(), self.seen(scope, key).pop()?.1?));
        self.changes.keys().filter_map(now).collect()
    }

    /// Whether the object was in this state and in `scope`.
    pub(crate) fn had(&self, scope: &Scope, key: &Key, state: &State) -> bool {
        self.seen(scope, key).iter().any(|(_, seen)| seen.as_ref() == Some(state))
    }

    /// Whether the object left `scope`, or was deleted, with this version.
    pub(crate) fn left(&self, scope: &Scope, key: &Key, version: u64) -> bool {
        self.seen(scope, key).iter().any(|(at, seen)| *at == version && seen.is_none())
    }

    /// Whether a cache that has reached `version` may hold `held` under the key: the state at that
    /// version, or a later one.
    pub(crate) fn may_hold(&self, scope: &Scope, key: &Key, version: u64, held: Option<&State>) -> bool {
        let seen = self.seen(scope, key);
        let then = seen.iter().rev().find(|(at, _)| *at <= version).and_then(|(_, state)| state.as_ref());
        then == held || seen.iter().any(|(at, state)| *at > version && state.as_ref() == held)
    }

    /// All keys that ever existed.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.changes.keys()
    }

    /// The history of a key, for messages.
    pub(crate) fn story(&self, scope: &Scope, key: &Key) -> String {
        format!("{:?}", self.seen(scope, key))
    }
}

/// A version as a number. An empty one is 0.
pub(crate) fn version(text: &str) -> u64 {
    if text.is_empty() { 0 } else { text.parse().unwrap_or_else(|_| panic!("{text:?} is not a version")) }
}
