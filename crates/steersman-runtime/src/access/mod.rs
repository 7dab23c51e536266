//! What a manager does at the API server: declared with its kinds, derived as rules, enforced.
//!
//! [`Use`] is one declaration. [`derive`] makes the list of [`Access`] from all of them, which is
//! pure. [`Registry`] holds those of one manager, and [`check`] compares a write with the list.

mod check;
mod derive;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_client::WriteAction;
use steersman_manifests::operator::{Access, AccessReason, RuleResource, Verb, WatchScope};

use crate::kind::Identity;

/// What a [`Kind`](crate::Kind) declares besides its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindAccess {
    pub(crate) subresource: Option<String>,
    pub(crate) verbs: BTreeSet<Verb>,
    /// The name of the only object, if the declaration selects one.
    pub(crate) name: Option<String>,
    pub(crate) reason: AccessReason,
}

impl KindAccess {
    pub(crate) fn new(subresource: Option<&str>, verbs: impl IntoIterator<Item = Verb>, reason: AccessReason) -> Self {
        Self { subresource: subresource.map(ToOwned::to_owned), verbs: verbs.into_iter().collect(), name: None, reason }
    }

    /// Whether it may set owner references.
    pub(crate) fn may_set_owners(&self) -> bool {
        let writes = [Verb::Create, Verb::Update, Verb::Patch];
        self.reason == AccessReason::Write && self.verbs.iter().any(|verb| writes.contains(verb))
    }
}

/// What the declarations of a kind have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    /// Empty for all namespaces.
    pub(crate) namespaces: Vec<String>,
    /// The call that declares the kind, for error messages.
    pub(crate) call: String,
}

impl Target {
    pub(crate) fn new(identity: &Identity, namespaces: &[String]) -> Self {
        let is_namespaced = identity.namespaced;
        let namespaces = if is_namespaced { namespaces.to_vec() } else { Vec::new() };
        Self {
            group: identity.group.clone(),
            plural: identity.plural().to_owned(),
            is_namespaced,
            namespaces,
            call: identity.call.clone(),
        }
    }
}

/// One declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) target: Target,
    /// The controller that declares it. `None` for the manager.
    pub(crate) by: Option<String>,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A cache of the kind, or of one object of it.
    Cache { streaming: bool, name: Option<String> },
    /// Requests.
    Requests(KindAccess),
}

/// The declarations of a manager.
pub(crate) struct Registry {
    /// The default namespaces of the caches. Empty for all.
    namespaces: Vec<String>,
    /// The program declares what it does, so that undeclared requests of the runtime's own hints
    /// are not sent.
    is_strict: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uses: Vec<Use>,
    /// What no kind declares: the lease, the reviews of metrics, Events.
    others: Vec<Access>,
    /// From the above, until something is added.
    derived: Option<Arc<[Access]>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("uses", &self.state().uses.len()).finish_non_exhaustive()
    }
}

impl Registry {
    pub(crate) fn new(namespaces: &[String], is_strict: bool) -> Self {
        let mut namespaces = namespaces.to_vec();
        namespaces.sort();
        namespaces.dedup();
        Self { namespaces, is_strict, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the caches look by default.
    pub(crate) fn scope(&self) -> WatchScope {
        scope_of(&self.namespaces)
    }

    pub(crate) fn add(&self, uses: impl IntoIterator<Item = Use>) {
        let mut state = self.state();
        for declared in uses {
            if !state.uses.contains(&declared) {
                state.uses.push(declared);
                state.derived = None;
            }
        }
    }

    pub(crate) fn add_others(&self, others: impl IntoIterator<Item = Access>) {
        let mut state = self.state();
        state.others.extend(others);
        state.derived = None;
    }

    /// Events of a controller of this kind. Those about objects in no namespace are in `default`.
    pub(crate) fn add_events(&self, controller: &str, of: Option<&Target>) {
        let mut access = Access::of_events().by([controller]);
        let mut namespaces = of.filter(|of| of.is_namespaced).map_or(&self.namespaces, |of| &of.namespaces).clone();
        if of.is_some_and(|of| !of.is_namespaced) && !namespaces.is_empty() {
            namespaces.push("default".to_owned());
            namespaces.sort();
            namespaces.dedup();
        }
        access.scope = (namespaces != self.namespaces).then(|| scope_of(&namespaces));
        self.add_others([access]);
    }

    /// Everything that was declared so far, in a fixed order.
    pub(crate) fn access(&self) -> Arc<[Access]> {
        let mut state = self.state();
        if state.derived.is_none() {
            state.derived = Some(derive::derive(&state.uses, &state.others, &self.namespaces).into());
        }
        state.derived.clone().unwrap_or_default()
    }

    /// Whether the runtime may read an object from the server for a hint in the log. A program that
    /// declares its requests has rights for these alone.
    pub(crate) fn permits_hint(&self, identity: &Identity, namespace: Option<&str>, name: &str) -> bool {
        let declares = self.is_strict || self.state().uses.iter().any(|used| matches!(used.what, What::Requests(_)));
        let action = check::Asked {
            verb: Verb::Get,
            group: &identity.group,
            resource: identity.plural(),
            subresource: "",
            namespace: namespace.unwrap_or_default(),
            name,
        };
        !declares || check::find(&self.access(), &self.namespaces, &action) == check::Found::Permitted
    }

    /// Refuses a write that is not declared. The error names the declaration to add.
    pub(crate) fn check(&self, write: &WriteAction) -> Result<(), String> {
        let Some(asked) = check::Asked::of(write) else { return Ok(()) };
        match check::find(&self.access(), &self.namespaces, &asked) {
            check::Found::Permitted => Ok(()),
            check::Found::Elsewhere => Err(format!(
                "the manager declares {} on {} for other namespaces, and not for {:?}: declare the kind with \
                 .namespace({:?}), or with .all_namespaces()",
                asked.verb,
                asked.combined(),
                asked.namespace,
                asked.namespace
            )),
            check::Found::Missing => {
                let (verb, resource) = (asked.verb, asked.combined());
                let fix = self.declaration(verb, asked.group, &resource);
                Err(format!("the manager does not declare {verb} on {resource}: {fix}"))
            }
        }
    }

    /// The call that declares an access. `resource` has the subresource behind a slash.
    pub(crate) fn declaration(&self, verb: Verb, group: &str, resource: &str) -> String {
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let state = self.state();
        let known = state.uses.iter().find(|used| used.target.group == group && used.target.plural == plural);
        check::declaration(verb, (group, plural, subresource), known.map(|used| used.target.call.as_str()))
    }
}

/// The scope of a list of namespaces, of which an empty one means all.
fn scope_of(namespaces: &[String]) -> WatchScope {
    if namespaces.is_empty() { WatchScope::Cluster } else { WatchScope::Namespaces(namespaces.to_vec()) }
}

impl Target {
    fn resource(&self, subresource: Option<&str>) -> RuleResource {
        let name = subresource.map_or_else(|| self.plural.clone(), |name| format!("{}/{name}", self.plural));
        RuleResource { group: self.group.clone(), name, is_namespaced: self.is_namespaced }
    }
}
