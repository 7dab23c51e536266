//! The garbage collector: objects are deleted with their owners.
//!
//! It follows the rules of the real one, which watches everything and acts some time later. Here it
//! acts within the request that caused the work: each write and each removal adds [`Work`], and the
//! request is answered when there is none left. Work is a queue, not a recursion, so that the
//! length of a chain of owners does not matter.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::dependents::is_collected;
use crate::lifecycle::{aggregation, protection, provision};
use crate::request::budget;
use crate::request::delete_options::{DeleteOptions, ORPHAN, Propagation};
use crate::response::status::Status;
use crate::rules::kinds::{self, Kind};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::object::{FOREGROUND, Object};
use crate::store::{Key, ResourceId};
use crate::verbs::delete::{finalizers, set_finalizers};
use crate::verbs::managed::Controller;

/// The limit of aggregations that follow from one write: roles that aggregate each other might
/// never agree on an order.
const AGGREGATIONS_MAX: usize = 16;

/// The work that writes have caused.
#[derive(Default)]
pub(crate) struct Work {
    tasks: VecDeque<Task>,
    /// Objects with several owners to examine, those with the fewest first. They wait for `tasks`,
    /// so that an object is examined after most of its owners are deleted, and not after each of
    /// them: it is examined again only if the deletion of an object with at least as many owners
    /// led to it.
    examined_late: BTreeMap<(usize, u64), ObjectRef>,
    next_late: u64,
    /// The repeatable tasks in `tasks` and `examined_late`. A second one of them would find nothing
    /// to do.
    pending: HashSet<Repeatable>,
    /// Owners in foreground deletion whose dependents were examined once. Later changes cause tasks
    /// of their own.
    foreground: HashSet<Box<str>>,
    /// Definitions whose last object may have been deleted. They are removed after all other work:
    /// only while they exist can their dependents be distinguished from those of an unknown kind.
    definitions: BTreeSet<String>,
    /// Groups in which the names of a definition have become free. Handled last, all at once.
    groups: BTreeSet<String>,
    /// How often roles were aggregated.
    aggregations: usize,
}

/// A task that is the same however often it is queued.
#[derive(PartialEq, Eq, Hash)]
enum Repeatable {
    Examine(Box<str>),
    Unprotect(Box<str>),
    EmptyNamespace(Arc<str>),
    FinalizeNamespace(Arc<str>),
    ProvideNamespace(Arc<str>),
    AggregateRoles,
}

enum Task {
    /// Its owner references are new: do all these owners exist?
    CheckOwners(ObjectRef),
    /// One of its owners was deleted, or will be: does it stay?
    Examine(ObjectRef),
    /// It is deleted after its dependents.
    DeleteDependents(ObjectRef),
    /// It is deleted once its dependents are orphaned.
    OrphanDependents(ObjectRef),
    /// An owner with this uid was deleted.
    OwnerGone(Box<str>),
    /// An object in this namespace no longer delays its owner.
    RecheckOwner(Reference, Arc<str>),
    /// Storage that is being deleted: is it in use?
    Unprotect(ObjectRef),
    /// A Pod in this namespace was deleted: claims that it used may be released.
    RecheckClaims(Vec<String>, Arc<str>),
    /// A namespace is being deleted: delete its contents.
    EmptyNamespace(Arc<str>),
    /// An object in a namespace was deleted, perhaps the last one.
    FinalizeNamespace(Arc<str>),
    /// An object of this definition was deleted, perhaps the last one.
    FinalizeDefinition(String),
    /// In these groups, names of definitions have become free.
    RecheckNames(BTreeSet<String>),
    /// A namespace may lack an object that each has.
    ProvideNamespace(Arc<str>),
    /// A ClusterRole was written or deleted: others may take their rules from it.
    AggregateRoles,
}

impl Task {
    fn repeatable(&self) -> Option<Repeatable> {
        match self {
            Self::Examine(subject) => Some(Repeatable::Examine(subject.uid.clone())),
            Self::Unprotect(subject) => Some(Repeatable::Unprotect(subject.uid.clone())),
            Self::EmptyNamespace(name) => Some(Repeatable::EmptyNamespace(Arc::clone(name))),
            Self::FinalizeNamespace(name) => Some(Repeatable::FinalizeNamespace(Arc::clone(name))),
            Self::ProvideNamespace(name) => Some(Repeatable::ProvideNamespace(Arc::clone(name))),
            Self::AggregateRoles => Some(Repeatable::AggregateRoles),
            _ => None,
        }
    }

    /// Whether kube-controller-manager does this in a cluster. The rest is part of kube-apiserver.
    fn is_of_controllers(&self) -> bool {
        !matches!(self, Self::FinalizeDefinition(_) | Self::RecheckNames(_))
    }
}

/// The object of a task, as long as it is the same one.
struct ObjectRef {
    resource: ResourceId,
    key: Key,
    uid: Box<str>,
    /// The number of its owners when it was queued.
    owners: usize,
}

impl ObjectRef {
    fn new(resource: ResourceId, object: &Object) -> Self {
        Self { resource, key: object.key().clone(), uid: object.uid().into(), owners: object.owners().len() }
    }
}

/// The target of an owner reference.
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Reference {
    fn all(value: &Value) -> impl Iterator<Item = Self> {
        value["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|reference| {
            let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
            Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name"), uid: text("uid") }
        })
    }
}

/// The state of the target of an owner reference.
enum Owner {
    Solid,
    /// The owner does not exist.
    Dangling,
    /// It is deleted after the objects that belong to it.
    Waiting,
}

/// The state is unknown: the kind is not served, or a cluster-scoped object cannot have such an
/// owner.
struct UnknownOwner;

impl Work {
    /// Adds the work that a write causes.
    pub(crate) fn written(&mut self, kind: &Kind, before: Option<&Object>, after: &Object) {
        let resource = kind.id();
        if !is_collected(&resource) {
            return;
        }
        self.provide_and_aggregate(kind, after);
        let subject = || ObjectRef::new(resource.clone(), after);
        if before.map_or(&[][..], Object::owners) != after.owners() {
            if !after.owners().is_empty() {
                self.push(Task::CheckOwners(subject()));
            }
            if let Some(before) = before {
                let still: HashSet<&str> =
                    after.owners().iter().filter(|owner| owner.blocks).map(|owner| &*owner.uid).collect();
                self.wake_owners(before, |uid| !still.contains(uid));
            }
        }
        if !after.is_deleting() {
            return;
        }
        if protection::finalizer(kind).is_some() {
            self.push(Task::Unprotect(subject()));
        }
        let orphans = |object: &Object| object.is_deleting() && finalizers(&object.value()).iter().any(|f| f == ORPHAN);
        if orphans(after) && !before.is_some_and(orphans) {
            self.push(Task::OrphanDependents(subject()));
        } else if after.deletes_dependents() && !before.is_some_and(Object::deletes_dependents) {
            self.push(Task::DeleteDependents(subject()));
        }
    }

    /// Adds the work that a write or a removal causes for namespaces and roles.
    fn provide_and_aggregate(&mut self, kind: &Kind, object: &Object) {
        if kind.is_namespace() {
            self.push(Task::ProvideNamespace(Arc::clone(&object.key().name)));
        } else if provision::is_provided(kind, object.key()) {
            self.push(Task::ProvideNamespace(Arc::clone(&object.key().namespace)));
        } else if aggregation::is_cluster_role(kind) && self.aggregations < AGGREGATIONS_MAX {
            self.push(Task::AggregateRoles);
        }
    }

    /// Adds the work that a removal causes.
    pub(crate) fn removed(&mut self, kind: &Kind, gone: &Object) {
        self.provide_and_aggregate(kind, gone);
        self.push(Task::OwnerGone(gone.uid().into()));
        self.wake_owners(gone, |_| true);
        if !kind.is_built_in() {
            self.definitions.insert(format!("{}.{}", kind.plural, kind.group));
        }
        if kind.namespaced {
            let namespace = Arc::clone(&gone.key().namespace);
            if kind.is_pod() {
                let claims = protection::claims(&gone.value());
                self.push(Task::RecheckClaims(claims, Arc::clone(&namespace)));
            }
            // Everything else waits for the Pods.
            self.push(if kind.is_pod() { Task::EmptyNamespace(namespace) } else { Task::FinalizeNamespace(namespace) });
        }
    }

    /// Adds the work for a namespace that is being deleted.
    pub(crate) fn namespace_deleted(&mut self, name: &Arc<str>) {
        self.push(Task::EmptyNamespace(Arc::clone(name)));
    }

    /// Adds the work for a definition that is being deleted.
    pub(crate) fn definition_deleted(&mut self, name: &str) {
        self.definitions.insert(name.to_owned());
    }

    /// Records that the names of a definition of this group are free.
    pub(crate) fn names_released(&mut self, group: &str) {
        self.groups.insert(group.to_owned());
    }

    fn push(&mut self, task: Task) {
        if task.repeatable().is_some_and(|task| !self.pending.insert(task)) {
            return;
        }
        match task {
            Task::Examine(subject) if subject.owners > 1 => {
                self.next_late += 1;
                self.examined_late.insert((subject.owners, self.next_late), subject);
            }
            task => self.tasks.push_back(task),
        }
    }

    fn next(&mut self) -> Option<Task> {
        let late = || self.examined_late.pop_first().map(|(_, subject)| Task::Examine(subject));
        if let Some(task) = self.tasks.pop_front().or_else(late) {
            if let Some(repeatable) = task.repeatable() {
                self.pending.remove(&repeatable);
            }
            return Some(task);
        }
        if let Some(definition) = self.definitions.pop_first() {
            return Some(Task::FinalizeDefinition(definition));
        }
        Some(std::mem::take(&mut self.groups)).filter(|groups| !groups.is_empty()).map(Task::RecheckNames)
    }

    fn wake_owners(&mut self, object: &Object, which: impl Fn(&str) -> bool) {
        if !object.owners().iter().any(|owner| owner.blocks && which(&owner.uid)) {
            return;
        }
        let owners = Reference::all(&object.value()).filter(|owner| which(&owner.uid)).collect::<Vec<_>>();
        for owner in owners {
            self.push(Task::RecheckOwner(owner, Arc::clone(&object.key().namespace)));
        }
    }
}

impl Shared {
    /// Does all work, and the work that follows from it. It follows from a write that is done, so
    /// it is not charged to the request: a refusal would leave objects behind that nothing deletes
    /// any more.
    pub(crate) fn collect(&self, work: Work) {
        budget::unmetered(|| self.collect_all(work));
    }

    fn collect_all(&self, mut work: Work) {
        while let Some(task) = work.next() {
            budget::step(1);
            if !self.controllers && task.is_of_controllers() {
                continue;
            }
            match task {
                Task::CheckOwners(subject) => self.with_current(&subject, |kind, object| {
                    let dangles = self
                        .owners(kind, object)
                        .is_ok_and(|owners| owners.iter().any(|(_, owner)| matches!(owner, Owner::Dangling)));
                    if dangles { self.examine(kind, object, &mut work) } else { Ok(()) }
                }),
                Task::Examine(subject) => {
                    self.with_current(&subject, |kind, object| self.examine(kind, object, &mut work));
                }
                Task::DeleteDependents(subject) => {
                    for (resource, object) in self.store.dependents(&subject.uid) {
                        work.push(Task::Examine(ObjectRef::new(resource, &object)));
                    }
                    // After them, the owner itself.
                    work.push(Task::Examine(subject));
                }
                Task::OrphanDependents(subject) => {
                    self.with_current(&subject, |kind, object| self.orphan_dependents(kind, object, &mut work));
                }
                Task::OwnerGone(uid) => {
                    for (resource, object) in self.store.dependents(&uid) {
                        work.push(Task::Examine(ObjectRef::new(resource, &object)));
                    }
                }
                Task::RecheckOwner(owner, namespace) => {
                    let Ok((kind, Some(object))) = self.referenced(&owner, &namespace) else { continue };
                    if object.deletes_dependents() {
                        work.push(Task::Examine(ObjectRef::new(kind.id(), &object)));
                    }
                }
                Task::Unprotect(subject) => {
                    self.with_current(&subject, |kind, object| self.unprotect(kind, object, &mut work));
                }
                Task::RecheckClaims(claims, namespace) => {
                    let Some(kind) = kinds::builtin().resource("", "v1", "persistentvolumeclaims") else { continue };
                    for name in claims {
                        let key = Key { namespace: Arc::clone(&namespace), name: name.into() };
                        if let Some(claim) = self.store.get(&kind.id(), &key) {
                            work.push(Task::Unprotect(ObjectRef::new(kind.id(), &claim)));
                        }
                    }
                }
                Task::EmptyNamespace(name) => self.empty_namespace(&name, &mut work),
                Task::FinalizeNamespace(name) => self.finalize_namespace(&name, &mut work),
                Task::FinalizeDefinition(name) => self.finalize_definition(&name, &mut work),
                Task::RecheckNames(groups) => self.reconsider_names(&groups),
                Task::ProvideNamespace(name) => self.provide(&name, &mut work),
                Task::AggregateRoles => {
                    work.aggregations += 1;
                    self.aggregate_roles(&mut work);
                }
            }
        }
    }

    /// Changes an object, again if another client wrote it in between, unless it was deleted or is
    /// another one.
    fn with_current(&self, subject: &ObjectRef, mut act: impl FnMut(&Kind, &Arc<Object>) -> Result<(), Status>) {
        let Some(kind) = self.stored_kind(&subject.resource) else { return };
        while let Some(object) = self.store.get(&subject.resource, &subject.key) {
            if *object.uid() != *subject.uid || act(&kind, &object).is_ok() {
                return;
            }
            // A conflict is retried with the new state; nothing else is refused here.
            let now = self.store.get(&subject.resource, &subject.key);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &object)) {
                return;
            }
        }
    }

    /// Decides whether an object stays, because one of its owners may be deleted.
    fn examine(&self, kind: &Kind, object: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        if object.deletes_dependents() {
            return self.finish_foreground(kind, object, work);
        }
        if object.is_deleting() {
            return Ok(());
        }
        let Ok(owners) = self.owners(kind, object) else { return Ok(()) };
        if owners.is_empty() {
            return Ok(());
        }
        if owners.iter().any(|(_, owner)| matches!(owner, Owner::Solid)) {
            let lost: Vec<&str> = owners
                .iter()
                .filter(|(_, owner)| !matches!(owner, Owner::Solid))
                .map(|(reference, _)| reference.uid.as_str())
                .collect();
            return if lost.is_empty() { Ok(()) } else { self.drop_owners(kind, object, &lost, work) };
        }
        let waited_for = owners.iter().any(|(_, owner)| matches!(owner, Owner::Waiting));
        let dependents = if waited_for { self.store.dependents(object.uid()) } else { Vec::new() };
        let propagation = if !dependents.is_empty() {
            if dependents.iter().any(|(_, dependent)| dependent.deletes_dependents()) {
                // A cycle: each would wait for the other.
                self.unblock_owners(kind, object, work)?;
            }
            Propagation::Foreground
        } else {
            let value = object.value();
            match finalizers(&value).iter().find(|name| *name == ORPHAN || *name == FOREGROUND) {
                Some(name) if *name == ORPHAN => Propagation::Orphan,
                Some(_) => Propagation::Foreground,
                None => Propagation::Background,
            }
        };
        let uid = Some(object.uid().to_owned());
        let options = DeleteOptions { propagation: Some(propagation), uid, ..DeleteOptions::default() };
        self.delete_one(kind, object.key(), &options, work).map(drop)
    }

    /// Deletes an owner in foreground deletion once it waits for no dependent any more.
    fn finish_foreground(&self, kind: &Kind, owner: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        if !self.store.is_blocked(owner.uid()) {
            return self.drop_finalizer(kind, owner, FOREGROUND, work);
        }
        if !work.foreground.insert(owner.uid().into()) {
            return Ok(());
        }
        for (resource, dependent) in self.store.dependents(owner.uid()) {
            if !dependent.is_deleting() && dependent.blocks(owner.uid()) {
                work.push(Task::Examine(ObjectRef::new(resource, &dependent)));
            }
        }
        Ok(())
    }

    fn orphan_dependents(&self, kind: &Kind, owner: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        for (resource, dependent) in self.store.dependents(owner.uid()) {
            let subject = ObjectRef::new(resource, &dependent);
            self.with_current(&subject, |kind, object| self.drop_owners(kind, object, &[owner.uid()], work));
        }
        self.drop_finalizer(kind, owner, ORPHAN, work)
    }

    /// Removes a finalizer whose work is done, and the object if it was the last one.
    pub(crate) fn drop_finalizer(
        &self,
        kind: &Kind,
        object: &Arc<Object>,
        done: &str,
        work: &mut Work,
    ) -> Result<(), Status> {
        let mut value = object.value();
        let left = finalizers(&value).iter().filter(|name| *name != done).cloned().collect();
        set_finalizers(&mut value, left);
        self.put_or_remove(kind, object, (&value, Controller::MANAGER), work)
    }

    fn drop_owners(&self, kind: &Kind, object: &Arc<Object>, uids: &[&str], work: &mut Work) -> Result<(), Status> {
        let mut value = object.value();
        let meta = metadata::of(&mut value);
        if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
            let uids: HashSet<&str> = uids.iter().copied().collect();
            owners.retain(|owner| !owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
            if owners.is_empty() {
                meta.remove("ownerReferences");
            }
        }
        self.put_or_remove(kind, object, (&value, Controller::MANAGER), work)
    }

    /// No owner waits for this object any longer.
    fn unblock_owners(&self, kind: &Kind, object: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        let mut value = object.value();
        for owner in value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            if owner["blockOwnerDeletion"] == true {
                owner["blockOwnerDeletion"] = false.into();
            }
        }
        self.put_or_remove(kind, object, (&value, Controller::MANAGER), work)
    }

    /// The owners that an object names, each with its state.
    fn owners(&self, kind: &Kind, object: &Object) -> Result<Vec<(Reference, Owner)>, UnknownOwner> {
        debug_assert!(
            kind.namespaced != object.key().namespace.is_empty(),
            "an object is in a namespace if its kind is namespaced"
        );
        let references = Reference::all(&object.value()).collect::<Vec<_>>();
        // Many owners are of few kinds, and finding the kind of a definition is a search through
        // all of them.
        let mut kinds = HashMap::new();
        let classified = references.into_iter().map(|reference| {
            budget::step(1);
            let kind = kinds
                .entry((reference.api_version.clone(), reference.kind.clone()))
                .or_insert_with(|| self.kind_of(&reference))
                .clone();
            let kind = kind.ok_or(UnknownOwner)?;
            let owner = match self.owner(&kind, &reference, &object.key().namespace)? {
                None => Owner::Dangling,
                Some(owner) if owner.deletes_dependents() => Owner::Waiting,
                Some(_) => Owner::Solid,
            };
            Ok((reference, owner))
        });
        classified.collect()
    }

    /// The owner that a reference in this namespace names, if it exists.
    fn referenced(
        &self,
        reference: &Reference,
        namespace: &str,
    ) -> Result<(Arc<Kind>, Option<Arc<Object>>), UnknownOwner> {
        let kind = self.kind_of(reference).ok_or(UnknownOwner)?;
        let owner = self.owner(&kind, reference, namespace)?;
        Ok((kind, owner))
    }

    /// The kind that a reference names, if it is served.
    fn kind_of(&self, reference: &Reference) -> Option<Arc<Kind>> {
        let (group, version) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let kind = kinds::builtin().kind(group, version, &reference.kind).cloned();
        kind.or_else(|| self.customs.named(group, version, &reference.kind))
    }

    /// The owner of this kind that a reference in this namespace names, if it exists.
    fn owner(&self, kind: &Kind, reference: &Reference, namespace: &str) -> Result<Option<Arc<Object>>, UnknownOwner> {
        if !kind.has_verb("get") || (kind.namespaced && namespace.is_empty()) {
            return Err(UnknownOwner);
        }
        let namespace = if kind.namespaced { namespace } else { "" };
        let key = Key { namespace: namespace.into(), name: reference.name.as_str().into() };
        Ok(self.store.get(&kind.id(), &key).filter(|owner| owner.uid() == reference.uid))
    }

    /// A kind that serves objects of this resource.
    pub(crate) fn stored_kind(&self, resource: &ResourceId) -> Option<Arc<Kind>> {
        let builtin = kinds::builtin().group(&resource.group).and_then(|group| {
            let mut versions: Vec<_> = group.versions.iter().collect();
            versions.sort_by_key(|version| version.version != group.preferred);
            versions.into_iter().flat_map(|version| &version.kinds).find(|kind| *kind.plural == *resource.plural)
        });
        builtin.cloned().or_else(|| self.customs.resource(&resource.group, &resource.plural))
    }
}
