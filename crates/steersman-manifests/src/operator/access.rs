//! What an operator may do, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

/// A verb of Kubernetes' RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many objects.
    List,
    /// Follows changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes or applies an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes many objects.
    DeleteCollection,
}

impl Verb {
    /// What an informer needs.
    pub const READ: [Self; 3] = [Self::Get, Self::List, Self::Watch];

    /// The word in a rule.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A resource, as rules name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name, with the subresource behind a slash: `deployments/status`.
    pub name: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

impl RuleResource {
    /// A resource whose objects are in namespaces.
    pub fn namespaced(group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), name: name.into(), is_namespaced: true }
    }

    /// A resource whose objects are in no namespace.
    pub fn cluster(group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), name: name.into(), is_namespaced: false }
    }
}

/// Some verbs on a resource, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The resource.
    pub resource: RuleResource,
    /// What the operator does with it.
    pub verbs: BTreeSet<Verb>,
    /// The names of the objects, if the operator needs only these. Rules for `create` and for
    /// reading all objects cannot have names.
    pub names: BTreeSet<String>,
    /// Why, for the reader of the role.
    pub reason: String,
}

impl Access {
    /// Access to all objects of a resource.
    pub fn new(resource: RuleResource, verbs: impl IntoIterator<Item = Verb>, reason: impl Into<String>) -> Self {
        Self { resource, verbs: verbs.into_iter().collect(), names: BTreeSet::new(), reason: reason.into() }
    }

    /// The same access, to the objects with these names only.
    #[must_use]
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }
}

/// A rule, and the reasons for it.
pub(super) struct Rule {
    pub(super) value: Value,
    pub(super) reasons: Vec<String>,
}

/// The rules for these accesses. Resources of one group with equal verbs share a rule.
pub(super) fn rules<'a>(all: impl IntoIterator<Item = &'a Access>) -> Vec<Rule> {
    type Key = (String, String, BTreeSet<String>);
    let mut by_resource: BTreeMap<Key, BTreeSet<Verb>> = BTreeMap::new();
    let mut reasons: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for access in all {
        let (group, name) = (access.resource.group.clone(), access.resource.name.clone());
        by_resource.entry((group.clone(), name.clone(), access.names.clone())).or_default().extend(&access.verbs);
        let words: Vec<&str> = access.verbs.iter().map(|verb| verb.as_str()).collect();
        let reason = format!("{name}: {}: {}", words.join(", "), access.reason);
        let known = reasons.entry((group, name)).or_default();
        if !known.contains(&reason) {
            known.push(reason);
        }
    }
    let mut by_verbs: BTreeMap<(String, BTreeSet<String>, BTreeSet<Verb>), Vec<String>> = BTreeMap::new();
    for ((group, name, names), verbs) in by_resource {
        by_verbs.entry((group, names, verbs)).or_default().push(name);
    }
    let rules = by_verbs.into_iter().map(|((group, names, verbs), resources)| {
        let why =
            resources.iter().flat_map(|name| reasons.get(&(group.clone(), name.clone())).cloned().unwrap_or_default());
        let reasons = why.collect();
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let mut value = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !names.is_empty() {
            value["resourceNames"] = json!(names);
        }
        Rule { value, reasons }
    });
    rules.collect()
}
