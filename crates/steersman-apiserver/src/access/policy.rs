//! The roles and bindings of a server, indexed by user and group.
//!
//! The index follows the stored objects change by change. A decision reads the bindings of its own
//! user and groups only, each role at most once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use steersman_wire::quote;

use super::RBAC_GROUP;
use super::action::Action;
use super::rules::Rule;
use crate::request::budget;
use crate::request::identity::{Identity, service_account_name};
use crate::store::object::Object;
use crate::store::{Follower, Key, ResourceId, Revision, Store};

/// How many changes are read from the log at a time.
const CHANGES: usize = 1_000;

/// The four kinds of the policy, in the order in which they are read.
const RESOURCES: [(&str, Part); 4] = [
    ("clusterroles", Part::Role),
    ("roles", Part::Role),
    ("clusterrolebindings", Part::Binding),
    ("rolebindings", Part::Binding),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Role,
    Binding,
}

/// The roles and bindings.
#[derive(Default)]
pub(crate) struct Policy {
    /// By namespace and name. The namespace of a ClusterRole is empty.
    roles: HashMap<Key, Arc<[Rule]>>,
    /// By namespace. The namespace of ClusterRoleBindings is empty.
    bindings: HashMap<Arc<str>, Bindings>,
    followers: Vec<Follower>,
    /// The state of the store up to this revision is known.
    pub(crate) reached: Revision,
}

/// The bindings of one namespace.
#[derive(Default)]
struct Bindings {
    by_name: BTreeMap<Arc<str>, Binding>,
    users: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    groups: HashMap<Box<str>, BTreeSet<Arc<str>>>,
}

struct Binding {
    role: RoleRef,
    subjects: Box<[Subject]>,
}

/// The role that a binding names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoleRef {
    pub(crate) is_cluster: bool,
    pub(crate) name: Box<str>,
}

impl RoleRef {
    /// The role of a binding.
    pub(crate) fn of(binding: &Value) -> Self {
        let role = &binding["roleRef"];
        Self { is_cluster: role["kind"] == "ClusterRole", name: role["name"].as_str().unwrap_or_default().into() }
    }

    pub(crate) fn kind(&self) -> &'static str {
        if self.is_cluster { "ClusterRole" } else { "Role" }
    }

    /// Its resource, as paths name it.
    pub(crate) fn plural(&self) -> &'static str {
        if self.is_cluster { "clusterroles" } else { "roles" }
    }

    fn key(&self, namespace: &str) -> Key {
        Key { namespace: if self.is_cluster { "" } else { namespace }.into(), name: (*self.name).into() }
    }
}

/// A user or a group. A service account is a user.
enum Subject {
    User { name: Box<str>, account: Option<Box<str>> },
    Group(Box<str>),
}

impl Subject {
    fn read(subject: &Value, namespace: &str) -> Option<Self> {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let name = text("name");
        match text("kind") {
            "User" => Some(Self::User { name: name.into(), account: None }),
            "Group" => Some(Self::Group(name.into())),
            "ServiceAccount" => {
                let of = if text("namespace").is_empty() { namespace } else { text("namespace") };
                let user = service_account_name(of, name);
                // The real server prints the name first.
                let account = format!("{name}/{of}");
                (!of.is_empty()).then(|| Self::User { name: user.into(), account: Some(account.into()) })
            }
            _ => None,
        }
    }

    fn is(&self, user: &Identity, groups: &HashSet<&str>) -> bool {
        match self {
            Self::User { name, .. } => **name == *user.name(),
            Self::Group(name) => groups.contains(&**name),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::User { account: Some(account), .. } => format!("ServiceAccount {}", quote(account)),
            Self::User { name, account: None } => format!("User {}", quote(name)),
            Self::Group(name) => format!("Group {}", quote(name)),
        }
    }
}

/// A binding that applies to a user.
pub(crate) struct Applied<'a> {
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
}

impl Applied<'_> {
    /// Why it permits something, in the words of the real server.
    pub(crate) fn reason(&self, user: &Identity) -> String {
        let Self { namespace, name, binding } = self;
        let groups: HashSet<&str> = user.groups().iter().map(String::as_str).collect();
        let subject = binding.subjects.iter().find(|subject| subject.is(user, &groups)).map(Subject::describe);
        let (kind, full_name) = match *namespace {
            "" => ("ClusterRoleBinding", (*name).to_owned()),
            namespace => ("RoleBinding", format!("{name}/{namespace}")),
        };
        format!(
            "RBAC: allowed by {kind} {} of {} {} to {}",
            quote(&full_name),
            binding.role.kind(),
            quote(&binding.role.name),
            subject.unwrap_or_default()
        )
    }
}

/// The role of a binding.
pub(crate) enum VisitedRole<'a> {
    Rules(&'a Arc<[Rule]>),
    /// The role of a binding does not exist.
    Missing(&'a RoleRef),
}

impl Policy {
    /// Whether the rules of a user permit an action. Calls `because` with the binding that does,
    /// and returns the missing roles if none does.
    pub(crate) fn decide(
        &self,
        user: &Identity,
        action: &Action,
        because: impl FnOnce(&Applied<'_>),
    ) -> Result<(), Vec<&RoleRef>> {
        let mut missing = Vec::new();
        let mut seen = HashSet::new();
        let mut because = Some(because);
        let visited = self.visit(user, action.namespace(), |applied, found| {
            match found {
                // The rules of a role are the same in every binding.
                VisitedRole::Rules(rules) if seen.insert(&applied.binding.role) => {
                    if rules.iter().any(|rule| rule.allows(action)) {
                        if let Some(because) = because.take() {
                            because(&applied);
                        }
                        return ControlFlow::Break(());
                    }
                }
                VisitedRole::Rules(_) => {}
                VisitedRole::Missing(role) => missing.push(role),
            }
            ControlFlow::Continue(())
        });
        if visited.is_break() { Ok(()) } else { Err(missing) }
    }

    /// The rules of each binding of a user in a namespace, and the roles that are missing.
    pub(crate) fn rules_of(&self, user: &Identity, namespace: &str) -> (Vec<Arc<[Rule]>>, Vec<&RoleRef>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        let _ = self.visit(user, namespace, |_, found| {
            match found {
                VisitedRole::Rules(found) => rules.push(Arc::clone(found)),
                VisitedRole::Missing(role) => missing.push(role),
            }
            ControlFlow::Continue(())
        });
        (rules, missing)
    }

    /// The rules of a role that a binding in this namespace names.
    pub(crate) fn rules_of_role(&self, role: &RoleRef, namespace: &str) -> Option<Arc<[Rule]>> {
        self.roles.get(&role.key(namespace)).cloned()
    }

    /// Calls a function with the rules of each binding of a user: those of the whole cluster, then
    /// those of the namespace unless that is empty.
    fn visit<'a>(
        &'a self,
        user: &Identity,
        namespace: &str,
        mut call: impl FnMut(Applied<'a>, VisitedRole<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // A review may name a group any number of times.
        let groups: HashSet<&str> = user.groups().iter().map(String::as_str).collect();
        let everywhere = self.bindings.get_key_value("");
        let here = self.bindings.get_key_value(namespace).filter(|_| !namespace.is_empty());
        for (namespace, bindings) in everywhere.into_iter().chain(here) {
            let of_user = bindings.users.get(user.name()).into_iter();
            let of_groups = groups.iter().filter_map(|group| bindings.groups.get(*group));
            let mut seen = HashSet::new();
            for name in of_user.chain(of_groups).flatten().filter(|name| seen.insert(*name)) {
                let Some(binding) = bindings.by_name.get(name) else { continue };
                let found = match self.roles.get(&binding.role.key(namespace)) {
                    Some(rules) => {
                        // Bounded by the stored objects, so that it is counted and never refused.
                        budget::unmetered(|| budget::step(1 + rules.len()));
                        VisitedRole::Rules(rules)
                    }
                    None => VisitedRole::Missing(&binding.role),
                };
                call(Applied { namespace, name, binding }, found)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn put(&mut self, part: Part, object: &Object) {
        let value = object.value();
        let key = object.key();
        match part {
            Part::Role => drop(self.roles.insert(key.clone(), Rule::all_of(&value).into())),
            Part::Binding => {
                self.remove(part, key);
                let subjects = value["subjects"].as_array().into_iter().flatten();
                let subjects = subjects.filter_map(|subject| Subject::read(subject, &key.namespace)).collect();
                self.bindings
                    .entry(Arc::clone(&key.namespace))
                    .or_default()
                    .insert(&key.name, Binding { role: RoleRef::of(&value), subjects });
            }
        }
    }

    fn remove(&mut self, part: Part, key: &Key) {
        match part {
            Part::Role => drop(self.roles.remove(key)),
            Part::Binding => {
                let Some(bindings) = self.bindings.get_mut(&key.namespace) else { return };
                bindings.remove(&key.name);
                if bindings.by_name.is_empty() {
                    self.bindings.remove(&key.namespace);
                }
            }
        }
    }

    /// Whether the objects were ever read.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Reads all changes of the store that it has not seen.
    pub(crate) fn refresh(&mut self, store: &Store, revision: Revision) {
        budget::unmetered(|| {
            if self.followers.is_empty() || self.follow(store).is_none() {
                *self = Self::default();
                self.load(store);
            }
        });
        self.reached = self.reached.max(revision);
    }

    /// Reads everything.
    fn load(&mut self, store: &Store) {
        for (plural, part) in RESOURCES {
            let id = ResourceId { group: RBAC_GROUP.into(), plural: plural.into() };
            // A compaction between the two is followed by another attempt.
            let follower = loop {
                let snapshot = store.list(&id, None);
                if let Ok(follower) = store.follow(&id, snapshot.revision) {
                    snapshot.objects.iter().for_each(|object| self.put(part, object));
                    break follower;
                }
            };
            self.followers.push(follower);
        }
    }

    /// Reads the changes since the last time. None if some of them are lost.
    fn follow(&mut self, store: &Store) -> Option<()> {
        let mut followers = std::mem::take(&mut self.followers);
        for (follower, (_, part)) in followers.iter_mut().zip(RESOURCES) {
            loop {
                let changes = store.next_changes(follower, CHANGES, usize::MAX).ok()?;
                for change in &changes {
                    match &change.after {
                        Some(object) => self.put(part, object),
                        None => self.remove(part, &change.key),
                    }
                }
                if changes.len() < CHANGES {
                    break;
                }
            }
        }
        self.followers = followers;
        Some(())
    }
}

impl Bindings {
    fn insert(&mut self, name: &Arc<str>, binding: Binding) {
        for subject in &binding.subjects {
            let (index, of) = match subject {
                Subject::User { name, .. } => (&mut self.users, name),
                Subject::Group(name) => (&mut self.groups, name),
            };
            index.entry(of.clone()).or_default().insert(Arc::clone(name));
        }
        self.by_name.insert(Arc::clone(name), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let (index, of) = match subject {
                Subject::User { name, .. } => (&mut self.users, name),
                Subject::Group(name) => (&mut self.groups, name),
            };
            if let Some(names) = index.get_mut(of) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(of);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::action::Resource;
    use super::*;
    use crate::store::Retention;

    fn id(plural: &str) -> ResourceId {
        ResourceId { group: RBAC_GROUP.into(), plural: plural.into() }
    }

    fn write(store: &Store, plural: &str, key: &str, mut value: Value) {
        let (namespace, name) = key.split_once('/').unwrap();
        value["metadata"] = json!({"namespace": namespace, "name": name});
        let key = Key { namespace: namespace.into(), name: name.into() };
        let before = store.get(&id(plural), &key);
        store.put(&id(plural), &key, before.as_ref(), |revision| Object::new(&value, revision, Vec::new())).unwrap();
    }

    fn delete(store: &Store, plural: &str, key: &str) {
        let (namespace, name) = key.split_once('/').unwrap();
        let key = Key { namespace: namespace.into(), name: name.into() };
        let before = store.get(&id(plural), &key).unwrap();
        store.delete(&id(plural), &key, &before).unwrap();
    }

    fn role(verb: &str) -> Value {
        json!({"rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]})
    }

    fn binding(kind: &str, role: &str, subjects: impl Into<Value>) -> Value {
        json!({"roleRef": {"kind": kind, "name": role}, "subjects": subjects.into()})
    }

    /// The reason of a decision, or the roles that are missing.
    fn decision(policy: &Policy, user: &Identity, verb: &str, namespace: &str) -> String {
        let resource = Resource { resource: "pods".to_owned(), namespace: namespace.to_owned(), ..Resource::default() };
        let mut reason = String::new();
        match policy.decide(user, &Action::on_resource(verb, resource), |applied| reason = applied.reason(user)) {
            Ok(()) => reason,
            Err(missing) => {
                let missing: Vec<String> =
                    missing.iter().map(|role| format!("{} {}", role.kind(), role.name)).collect();
                format!("no: {}", missing.join(", "))
            }
        }
    }

    #[test]
    fn a_user_has_the_rules_of_his_bindings() {
        let store = Store::new(Retention::default());
        write(&store, "clusterroles", "/all", role("get"));
        write(&store, "roles", "a/some", role("list"));
        let users = json!([{"kind": "User", "name": "jane"}, {"kind": "Group", "name": "g"}]);
        write(&store, "clusterrolebindings", "/one", binding("ClusterRole", "all", users));
        let account = json!([{"kind": "ServiceAccount", "name": "sa"}, {"kind": "Group", "name": "h"}]);
        write(&store, "rolebindings", "a/two", binding("Role", "some", account.clone()));
        write(&store, "rolebindings", "a/three", binding("Role", "none", account.clone()));
        // Without a namespace there is no such account.
        write(&store, "clusterrolebindings", "/four", binding("ClusterRole", "all", account));
        let mut policy = Policy::default();
        policy.refresh(&store, store.revision());

        let no_groups = [""; 0];
        let (jane, john) = (Identity::new("jane", no_groups), Identity::new("john", ["g"]));
        let account = Identity::new("system:serviceaccount:a:sa", no_groups);
        let by_one = "RBAC: allowed by ClusterRoleBinding \"one\" of ClusterRole \"all\" to ";
        assert_eq!(decision(&policy, &jane, "get", "a"), format!("{by_one}User \"jane\""));
        assert_eq!(decision(&policy, &jane, "get", ""), format!("{by_one}User \"jane\""));
        assert_eq!(decision(&policy, &john, "get", "b"), format!("{by_one}Group \"g\""));
        assert_eq!(decision(&policy, &jane, "list", "a"), "no: ");
        assert_eq!(
            decision(&policy, &account, "list", "a"),
            "RBAC: allowed by RoleBinding \"two/a\" of Role \"some\" to ServiceAccount \"sa/a\""
        );
        assert_eq!(decision(&policy, &account, "list", "b"), "no: ");
        assert_eq!(decision(&policy, &account, "list", ""), "no: ");
        assert_eq!(decision(&policy, &account, "get", "a"), "no: Role none");
        // A user that two subjects of a binding name has its rules once.
        let both = Identity::new("jane", ["g"]);
        assert_eq!(policy.rules_of(&both, "a").0.len(), 1);
    }

    #[test]
    fn the_policy_follows_every_change() {
        let store = Store::new(Retention::default());
        let mut policy = Policy::default();
        let jane = Identity::new("jane", [""; 0]);
        let subject = |name: &str| json!([{"kind": "User", "name": name}]);
        let mut check = |expected: bool| {
            policy.refresh(&store, store.revision());
            assert_eq!(decision(&policy, &jane, "get", "a").starts_with("RBAC"), expected);
        };
        check(false);
        write(&store, "rolebindings", "a/one", binding("Role", "some", subject("jane")));
        check(false);
        write(&store, "roles", "a/some", role("get"));
        check(true);
        write(&store, "roles", "a/some", role("list"));
        check(false);
        write(&store, "roles", "a/some", role("get"));
        write(&store, "rolebindings", "a/one", binding("Role", "some", subject("john")));
        check(false);
        write(&store, "rolebindings", "a/one", binding("Role", "some", subject("jane")));
        check(true);
        delete(&store, "rolebindings", "a/one");
        check(false);
        write(&store, "rolebindings", "a/one", binding("Role", "some", subject("jane")));
        // What it has missed is read from the objects.
        store.compact(store.revision());
        check(true);
        delete(&store, "roles", "a/some");
        check(false);
    }
}
