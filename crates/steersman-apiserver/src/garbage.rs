//! The garbage collector: objects go with their owners.
//!
//! It follows the rules of the real one, which watches everything and acts some time later. Here it acts within the request
//! that gave it something to do: each write and each removal leaves [`Work`], and the request is answered when there is none
//! left. Work is a queue, not a recursion, so that the length of a chain of owners does not matter.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::budget;
use crate::delete::{finalizers, set_finalizers};
use crate::delete_options::{DeleteOptions, ORPHAN, Propagation};
use crate::dependents::is_collected;
use crate::kinds::{self, Kind};
use crate::metadata;
use crate::object::{FOREGROUND, Object};
use crate::protection;
use crate::server::Shared;
use crate::status::Status;
use crate::store::{Key, ResourceId};

/// What is to be done because of writes that were made.
#[derive(Default)]
pub(crate) struct Work {
    tasks: VecDeque<Task>,
    /// Definitions of which the last object may have gone. They go after everything else is done: what belonged to their
    /// objects can be told from what belongs to an unknown kind only as long as they are there.
    definitions: BTreeSet<String>,
}

enum Task {
    /// Its owner references are new: do all of them lead somewhere?
    CheckOwners(Subject),
    /// One of its owners went, or is about to: does it stay?
    Examine(Subject),
    /// It is to go after the objects that belong to it.
    DeleteDependents(Subject),
    /// It is to go once the objects that belong to it were let go.
    OrphanDependents(Subject),
    /// An owner with this uid is no more.
    OwnerGone(Box<str>),
    /// An object in this namespace no longer holds up its owner.
    OwnerMayGo(Reference, Arc<str>),
    /// Storage that is being deleted: does anybody use it?
    Unprotect(Subject),
    /// A Pod in this namespace went: claims that it used may go.
    ClaimsMayGo(Vec<String>, Arc<str>),
    /// A namespace is being deleted: delete what is in it.
    EmptyNamespace(Arc<str>),
    /// Something in a namespace went, perhaps the last thing.
    NamespaceMayGo(Arc<str>),
    /// An object of this definition went, perhaps the last one.
    DefinitionMayGo(String),
}

/// An object that something is to be done to, as long as it is the same one.
struct Subject {
    resource: ResourceId,
    key: Key,
    uid: Box<str>,
}

impl Subject {
    fn new(resource: ResourceId, object: &Object) -> Self {
        Self { resource, key: object.key().clone(), uid: object.uid().into() }
    }
}

/// Where an owner reference leads.
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

/// What there is where an owner reference leads.
enum Owner {
    Solid,
    /// Not this owner.
    Dangling,
    /// It is deleted after the objects that belong to it.
    Waiting,
}

/// Nobody can say what there is: the kind is not served, or an object of no namespace cannot have such an owner.
struct Unknown;

impl Work {
    /// Notes what follows from a write.
    pub(crate) fn written(&mut self, kind: &Kind, before: Option<&Object>, after: &Object) {
        let resource = kind.id();
        if !is_collected(&resource) {
            return;
        }
        let subject = || Subject::new(resource.clone(), after);
        if before.map_or(&[][..], Object::owners) != after.owners() {
            if !after.owners().is_empty() {
                self.tasks.push_back(Task::CheckOwners(subject()));
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
            self.tasks.push_back(Task::Unprotect(subject()));
        }
        let orphans = |object: &Object| object.is_deleting() && finalizers(&object.value()).iter().any(|f| f == ORPHAN);
        if orphans(after) && !before.is_some_and(orphans) {
            self.tasks.push_back(Task::OrphanDependents(subject()));
        } else if after.deletes_dependents() && !before.is_some_and(Object::deletes_dependents) {
            self.tasks.push_back(Task::DeleteDependents(subject()));
        }
    }

    /// Notes what follows from a removal.
    pub(crate) fn removed(&mut self, kind: &Kind, gone: &Object) {
        self.tasks.push_back(Task::OwnerGone(gone.uid().into()));
        self.wake_owners(gone, |_| true);
        if !kind.is_built_in() {
            self.definitions.insert(format!("{}.{}", kind.plural, kind.group));
        }
        if kind.namespaced {
            let namespace = Arc::clone(&gone.key().namespace);
            let is_pod = kind.group.is_empty() && kind.plural == "pods";
            if is_pod {
                let claims = protection::claims(&gone.value());
                self.tasks.push_back(Task::ClaimsMayGo(claims, Arc::clone(&namespace)));
            }
            // Everything else waits for the Pods.
            self.tasks.push_back(if is_pod {
                Task::EmptyNamespace(namespace)
            } else {
                Task::NamespaceMayGo(namespace)
            });
        }
    }

    /// Notes that a namespace is being deleted.
    pub(crate) fn namespace_deleted(&mut self, name: &Arc<str>) {
        self.tasks.push_back(Task::EmptyNamespace(Arc::clone(name)));
    }

    /// Notes that a definition is being deleted.
    pub(crate) fn definition_deleted(&mut self, name: &str) {
        self.definitions.insert(name.to_owned());
    }

    fn next(&mut self) -> Option<Task> {
        self.tasks.pop_front().or_else(|| self.definitions.pop_first().map(Task::DefinitionMayGo))
    }

    fn wake_owners(&mut self, object: &Object, which: impl Fn(&str) -> bool) {
        if !object.owners().iter().any(|owner| owner.blocks && which(&owner.uid)) {
            return;
        }
        let owners = Reference::all(&object.value()).filter(|owner| which(&owner.uid)).collect::<Vec<_>>();
        let namespace = &object.key().namespace;
        self.tasks.extend(owners.into_iter().map(|owner| Task::OwnerMayGo(owner, Arc::clone(namespace))));
    }
}

impl Shared {
    /// Does all work that there is, and the work that comes of it. It follows from a write that is done, and so it is not charged to
    /// the request: a refusal would leave objects behind that nothing deletes any more.
    pub(crate) fn collect(&self, work: Work) {
        budget::unmetered(|| self.collect_all(work));
    }

    fn collect_all(&self, mut work: Work) {
        while let Some(task) = work.next() {
            match task {
                Task::CheckOwners(subject) => self.with(&subject, |kind, object| {
                    let dangles = self
                        .owners(kind, object)
                        .is_ok_and(|owners| owners.iter().any(|(_, owner)| matches!(owner, Owner::Dangling)));
                    if dangles { self.examine(kind, object, &mut work) } else { Ok(()) }
                }),
                Task::Examine(subject) => {
                    self.with(&subject, |kind, object| self.examine(kind, object, &mut work));
                }
                Task::DeleteDependents(subject) => {
                    let dependents = self.store.dependents(&subject.uid);
                    let examine = |(resource, object): (_, Arc<Object>)| Task::Examine(Subject::new(resource, &object));
                    work.tasks.extend(dependents.into_iter().map(examine));
                    // After them, the owner itself.
                    work.tasks.push_back(Task::Examine(subject));
                }
                Task::OrphanDependents(subject) => {
                    self.with(&subject, |kind, object| self.orphan_dependents(kind, object, &mut work));
                }
                Task::OwnerGone(uid) => {
                    for (resource, object) in self.store.dependents(&uid) {
                        work.tasks.push_back(Task::Examine(Subject::new(resource, &object)));
                    }
                }
                Task::OwnerMayGo(owner, namespace) => {
                    let Ok((kind, Some(object))) = self.referenced(&owner, &namespace) else { continue };
                    if object.deletes_dependents() {
                        work.tasks.push_back(Task::Examine(Subject::new(kind.id(), &object)));
                    }
                }
                Task::Unprotect(subject) => {
                    self.with(&subject, |kind, object| self.unprotect(kind, object, &mut work));
                }
                Task::ClaimsMayGo(claims, namespace) => {
                    let Some(kind) = kinds::builtin().resource("", "v1", "persistentvolumeclaims") else { continue };
                    for name in claims {
                        let key = Key { namespace: Arc::clone(&namespace), name: name.into() };
                        if let Some(claim) = self.store.get(&kind.id(), &key) {
                            work.tasks.push_back(Task::Unprotect(Subject::new(kind.id(), &claim)));
                        }
                    }
                }
                Task::EmptyNamespace(name) => self.empty_namespace(&name, &mut work),
                Task::NamespaceMayGo(name) => self.namespace_may_go(&name, &mut work),
                Task::DefinitionMayGo(name) => self.definition_may_go(&name, &mut work),
            }
        }
    }

    /// Does something to an object, again if somebody else wrote meanwhile, unless it is gone or another one.
    fn with(&self, subject: &Subject, mut act: impl FnMut(&Kind, &Arc<Object>) -> Result<(), Status>) {
        let Some(kind) = self.stored_kind(&subject.resource) else { return };
        while let Some(object) = self.store.get(&subject.resource, &subject.key) {
            if *object.uid() != *subject.uid || act(&kind, &object).is_ok() {
                return;
            }
            // What was refused because the object had changed is tried on the new state; nothing else is refused here.
            let now = self.store.get(&subject.resource, &subject.key);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &object)) {
                return;
            }
        }
    }

    /// Decides whether an object stays, now that an owner of it may be gone.
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
        let dependents = self.store.dependents(object.uid());
        let propagation = if waited_for && !dependents.is_empty() {
            if dependents.iter().any(|(_, dependent)| dependent.deletes_dependents()) {
                // A circle: each would wait for the other.
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

    /// An owner that is deleted after the objects that belong to it goes when none is left that it waits for.
    fn finish_foreground(&self, kind: &Kind, owner: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        let mut dependents = self.store.dependents(owner.uid());
        dependents.retain(|(_, dependent)| {
            dependent.owners().iter().any(|reference| *reference.uid == *owner.uid() && reference.blocks)
        });
        if dependents.is_empty() {
            return self.drop_finalizer(kind, owner, FOREGROUND, work);
        }
        let examined = dependents.into_iter().filter(|(_, dependent)| !dependent.is_deleting());
        work.tasks.extend(examined.map(|(resource, dependent)| Task::Examine(Subject::new(resource, &dependent))));
        Ok(())
    }

    fn orphan_dependents(&self, kind: &Kind, owner: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        for (resource, dependent) in self.store.dependents(owner.uid()) {
            let subject = Subject::new(resource, &dependent);
            self.with(&subject, |kind, object| self.drop_owners(kind, object, &[owner.uid()], work));
        }
        self.drop_finalizer(kind, owner, ORPHAN, work)
    }

    /// Takes a finalizer away whose work is done, and the object when it was the last one.
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
        self.put_or_remove(kind, object.key(), object, &value, work)
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
        self.put_or_remove(kind, object.key(), object, &value, work)
    }

    /// No owner waits for this object any longer.
    fn unblock_owners(&self, kind: &Kind, object: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        let mut value = object.value();
        for owner in value["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            if owner["blockOwnerDeletion"] == true {
                owner["blockOwnerDeletion"] = false.into();
            }
        }
        self.put_or_remove(kind, object.key(), object, &value, work)
    }

    /// The owners that an object names, each with what there is.
    fn owners(&self, kind: &Kind, object: &Object) -> Result<Vec<(Reference, Owner)>, Unknown> {
        debug_assert!(kind.namespaced != object.key().namespace.is_empty(), "an object is where its kind says");
        let references = Reference::all(&object.value()).collect::<Vec<_>>();
        let classified = references.into_iter().map(|reference| {
            let (_, owner) = self.referenced(&reference, &object.key().namespace)?;
            let owner = match owner {
                None => Owner::Dangling,
                Some(owner) if owner.deletes_dependents() => Owner::Waiting,
                Some(_) => Owner::Solid,
            };
            Ok((reference, owner))
        });
        classified.collect()
    }

    /// The owner that a reference in this namespace leads to, if it is there.
    fn referenced(&self, reference: &Reference, namespace: &str) -> Result<(Arc<Kind>, Option<Arc<Object>>), Unknown> {
        let (group, version) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let kind = kinds::builtin().kind(group, version, &reference.kind).cloned();
        let kind = kind.or_else(|| self.customs.named(group, version, &reference.kind)).ok_or(Unknown)?;
        if !kind.has_verb("get") || (kind.namespaced && namespace.is_empty()) {
            return Err(Unknown);
        }
        let namespace = if kind.namespaced { namespace } else { "" };
        let key = Key { namespace: namespace.into(), name: reference.name.as_str().into() };
        let owner = self.store.get(&kind.id(), &key).filter(|owner| owner.uid() == reference.uid);
        Ok((kind, owner))
    }

    /// A kind that objects of this resource are served as.
    pub(crate) fn stored_kind(&self, resource: &ResourceId) -> Option<Arc<Kind>> {
        let builtin = kinds::builtin().group(&resource.group).and_then(|group| {
            let mut versions: Vec<_> = group.versions.iter().collect();
            versions.sort_by_key(|version| version.version != group.preferred);
            versions.into_iter().flat_map(|version| &version.kinds).find(|kind| *kind.plural == *resource.plural)
        });
        builtin.cloned().or_else(|| self.customs.resource(&resource.group, &resource.plural))
    }
}
