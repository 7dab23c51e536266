//! What an operator may do, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use super::model::WatchScope;

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
    /// What reads one object, all objects, and follows them.
    pub const READ: [Self; 3] = [Self::Get, Self::List, Self::Watch];
    /// All verbs.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The verb with this word in a rule.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == word)
    }

    /// Whether it changes objects.
    pub fn is_write(self) -> bool {
        !Self::READ.contains(&self)
    }

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

/// Why an operator needs an access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AccessReason {
    /// A cache follows the objects, and lists them as the first part of its watch.
    Watch,
    /// A cache lists the objects of a server that has no streaming lists.
    ListFallback,
    /// The operator reads from the server instead of a cache.
    Live,
    /// The operator writes objects.
    Write,
    /// The operator reports the status of objects.
    Status,
    /// The operator writes another subresource.
    Subresource,
    /// A finalizer is added to objects, and removed after the cleanup.
    Finalizer,
    /// The operator sets owner references that block the deletion of the owner. The admission
    /// plugin OwnerReferencesPermissionEnforcement asks for this right, and no request shows it.
    OwnerReferences,
    /// Leader election.
    Lease,
    /// Controllers report with Events.
    Events,
    /// Secure metrics ask the API server about a scraper.
    MetricsReview,
    /// Anything else, in the operator's own words.
    Feature(String),
}

impl fmt::Display for AccessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Watch => "a cache follows the objects",
            Self::ListFallback => "a cache lists them if the server has no streaming lists",
            Self::Live => "read from the server and not from a cache",
            Self::Write => "written",
            Self::Status => "the status is reported",
            Self::Subresource => "the subresource is written",
            Self::Finalizer => "a finalizer is added and removed",
            Self::OwnerReferences => {
                "owned objects block the deletion of the owner (admission plugin OwnerReferencesPermissionEnforcement)"
            }
            Self::Lease => "leader election",
            Self::Events => "Events are recorded",
            Self::MetricsReview => "the metrics ask who a scraper is, and what it may read",
            Self::Feature(text) => text,
        })
    }
}

impl From<&str> for AccessReason {
    fn from(text: &str) -> Self {
        Self::Feature(text.to_owned())
    }
}

impl From<String> for AccessReason {
    fn from(text: String) -> Self {
        Self::Feature(text)
    }
}

/// Some verbs on a resource, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The resource.
    pub resource: RuleResource,
    /// What the operator does with it.
    pub verbs: BTreeSet<Verb>,
    /// The names of the objects, if the operator needs only these. Rules for `create` and for
    /// reading all objects cannot have names.
    pub names: BTreeSet<String>,
    /// Where the objects are, if not in the [scope](super::Operator::scope) of the operator. It has
    /// no meaning for objects that are in no namespace.
    pub scope: Option<WatchScope>,
    /// Why.
    pub reason: AccessReason,
    /// The controllers that need it. Empty if the operator as a whole does.
    pub by: BTreeSet<String>,
}

impl Access {
    /// Access to all objects of a resource.
    pub fn new(resource: RuleResource, verbs: impl IntoIterator<Item = Verb>, reason: impl Into<AccessReason>) -> Self {
        Self {
            resource,
            verbs: verbs.into_iter().collect(),
            names: BTreeSet::new(),
            scope: None,
            reason: reason.into(),
            by: BTreeSet::new(),
        }
    }

    /// The same access, to the objects with these names only.
    #[must_use]
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }

    /// The same access, to the objects of another scope than the operator's.
    #[must_use]
    pub fn within(mut self, scope: WatchScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// The same access, needed by these controllers.
    #[must_use]
    pub fn by<N: Into<String>>(mut self, controllers: impl IntoIterator<Item = N>) -> Self {
        self.by.extend(controllers.into_iter().map(Into::into));
        self
    }

    /// What leader election does with the Lease of this name, in the namespace of the Lease. RBAC
    /// cannot limit `create` by name.
    pub fn of_lease(name: &str) -> Vec<Self> {
        let leases = || RuleResource::namespaced("coordination.k8s.io", "leases");
        vec![
            Self::new(leases(), [Verb::Get, Verb::Watch, Verb::Update], AccessReason::Lease).named([name]),
            Self::new(leases(), [Verb::Create], AccessReason::Lease),
            Self::new(Self::events(), [Verb::Create, Verb::Patch], AccessReason::Lease),
        ]
    }

    /// What controllers do to record Events.
    pub fn of_events() -> Self {
        Self::new(Self::events(), [Verb::Create, Verb::Patch], AccessReason::Events)
    }

    /// What secure metrics ask the API server about a scraper.
    pub fn of_metrics_reviews() -> Vec<Self> {
        let token = RuleResource::cluster("authentication.k8s.io", "tokenreviews");
        let access = RuleResource::cluster("authorization.k8s.io", "subjectaccessreviews");
        [token, access].map(|resource| Self::new(resource, [Verb::Create], AccessReason::MetricsReview)).into()
    }

    fn events() -> RuleResource {
        RuleResource::namespaced("events.k8s.io", "events")
    }

    /// Why, for the reader of the role.
    fn text(&self) -> String {
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        let by: Vec<&str> = self.by.iter().map(String::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
        format!("{}: {}: {}{by}", self.resource.name, verbs.join(", "), self.reason)
    }
}

/// A rule, and the reasons for it.
pub(super) struct Rule {
    pub(super) value: Value,
    pub(super) reasons: Vec<String>,
}

/// The rules for these accesses. Resources of one group with equal verbs share a rule. An access
/// without verbs has none, because a server would refuse it.
pub(super) fn rules<'a>(all: impl IntoIterator<Item = &'a Access>) -> Vec<Rule> {
    /// The group, the resource and the names of its objects.
    type Key = (String, String, BTreeSet<String>);
    let mut by_resource: BTreeMap<Key, (BTreeSet<Verb>, Vec<String>)> = BTreeMap::new();
    for access in all.into_iter().filter(|access| !access.verbs.is_empty()) {
        let key = (access.resource.group.clone(), access.resource.name.clone(), access.names.clone());
        let (verbs, reasons) = by_resource.entry(key).or_default();
        verbs.extend(&access.verbs);
        let reason = access.text();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    type Shared = (String, BTreeSet<String>, BTreeSet<Verb>);
    let mut by_verbs: BTreeMap<Shared, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for ((group, name, names), (verbs, why)) in by_resource {
        let (resources, reasons) = by_verbs.entry((group, names, verbs)).or_default();
        resources.push(name);
        reasons.extend(why);
    }
    let rules = by_verbs.into_iter().map(|((group, names, verbs), (resources, reasons))| {
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let mut value = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !names.is_empty() {
            value["resourceNames"] = json!(names);
        }
        Rule { value, reasons }
    });
    rules.collect()
}
