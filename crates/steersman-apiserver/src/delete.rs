//! Delete: finalizers, grace, preconditions, namespaces and the objects that go with their owners.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{self, Answer, Form};
use crate::builtin;
use crate::kinds::{self, Kind};
use crate::metadata;
use crate::object::Object;
use crate::read::Selection;
use crate::request::{Query, ResourceRequest};
use crate::schema::RequestBody;
use crate::server::{FIRST_NAMESPACES, Shared};
use crate::status::{FieldError, Named, Status};
use crate::store::{Key, WriteError};
use crate::write::{is_dry_run, unregistered};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What becomes of the objects that belong to a deleted one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// How an object is to be deleted.
struct DeleteOptions {
    propagation: Propagation,
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

impl DeleteOptions {
    /// From the body, or else from the query.
    fn read(query: &Query, body: &Bytes) -> Result<Self, Status> {
        let given: Value = if body.is_empty() {
            json!({})
        } else {
            let parsed = RequestBody::parse(body).map_err(|error| Status::bad_request(error.to_string()))?;
            if !matches!(parsed.kind.as_str(), "" | "DeleteOptions") {
                return Err(Status::bad_request(unregistered(&parsed.kind, &parsed.api_version)));
            }
            serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?
        };
        let policy = given["propagationPolicy"].as_str().or(query.get("propagationPolicy")).unwrap_or_default();
        let orphan = given["orphanDependents"].as_bool().or(query.get("orphanDependents").map(|value| value == "true"));
        let options = Named { group: "meta.k8s.io", resource: "DeleteOptions" };
        if !policy.is_empty() && orphan.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let error = FieldError::invalid("propagationPolicy", policy, detail);
            return Err(Status::invalid(options, "", &[error]));
        }
        let propagation = match (policy, orphan) {
            ("Foreground", _) => Propagation::Foreground,
            ("Orphan", _) | ("", Some(true)) => Propagation::Orphan,
            ("" | "Background", _) => Propagation::Background,
            (other, _) => {
                let supported = ["Foreground", "Background", "Orphan"];
                let error = FieldError::not_supported("propagationPolicy", other, &supported);
                return Err(Status::invalid(options, "", &[error]));
            }
        };
        let precondition = |name: &str| given["preconditions"][name].as_str().map(str::to_owned);
        let dry_run =
            is_dry_run(query, "DeleteOptions")? || given["dryRun"].as_array().is_some_and(|values| !values.is_empty());
        Ok(Self { propagation, uid: precondition("uid"), version: precondition("resourceVersion"), dry_run })
    }

    fn check(&self, kind: &Kind, object: &Object) -> Result<(), Status> {
        let name = &object.key().name;
        let differs = |what: &str, wanted: &str, found: &str, might: &str| {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
                 have been {might}"
            );
            Err(Status::conflict(kind.named_kind(), name, &why))
        };
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != object.uid()) {
            return differs("UID", uid, object.uid(), "deleted and then recreated");
        }
        let current = object.revision().to_string();
        if let Some(version) = self.version.as_ref().filter(|version| **version != current) {
            return differs("ResourceVersion", version, &current, "modified");
        }
        Ok(())
    }
}

/// What is left after a delete.
enum Deleted {
    /// The object waits for its finalizers.
    Waiting(Arc<Object>),
    Gone(Arc<Object>),
}

impl Shared {
    pub(crate) fn delete(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
        body: &Bytes,
    ) -> Answer {
        let options = DeleteOptions::read(query, body)?;
        let key = request.key();
        if kind.group.is_empty() && kind.plural == "namespaces" && FIRST_NAMESPACES[..3].contains(&&*key.name) {
            return Err(Status::forbidden(kind.named(), &key.name, "this namespace may not be deleted"));
        }
        let deleted = self.delete_one(kind, &key, &options)?;
        match deleted {
            Deleted::Waiting(object) => Ok(answer::json(StatusCode::OK, form.object(kind, &object))),
            Deleted::Gone(object) if returns_object(kind) => {
                Ok(answer::json(StatusCode::OK, form.object(kind, &object)))
            }
            Deleted::Gone(object) => {
                let mut details = json!({"name": &*key.name, "kind": kind.plural, "uid": object.uid()});
                if !kind.group.is_empty() {
                    details["group"] = kind.group.as_str().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                Ok(answer::json(StatusCode::OK, status.to_string()))
            }
        }
    }

    pub(crate) fn delete_collection(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
        body: &Bytes,
    ) -> Answer {
        let options = DeleteOptions::read(query, body)?;
        let selection = Selection::new(request, query)?;
        selection.check_fields(kind)?;
        let snapshot = self.store.list(&kind.id(), selection.namespace());
        let mut objects = Vec::new();
        for object in snapshot.objects.iter().filter(|object| selection.matches(object)) {
            match self.delete_one(kind, object.key(), &options) {
                // As they were when they were found.
                Ok(_) => objects.push(Arc::clone(object)),
                // Somebody else was quicker.
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        let metadata = json!({"resourceVersion": snapshot.revision.to_string()});
        Ok(form.list(kind, &metadata, objects))
    }

    fn delete_one(&self, kind: &Kind, key: &Key, options: &DeleteOptions) -> Result<Deleted, Status> {
        loop {
            let current = self.store.get(&kind.id(), key).ok_or_else(|| Status::not_found(kind.named(), &key.name))?;
            options.check(kind, &current)?;
            match self.try_delete(kind, key, &current, options) {
                // Somebody wrote between reading and deleting; what they wrote is deleted.
                Err(status) if status.code == 409 => {}
                result => return result,
            }
        }
    }

    fn try_delete(
        &self,
        kind: &Kind,
        key: &Key,
        current: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let is_namespace = kind.group.is_empty() && kind.plural == "namespaces";
        let mut value = current.value();
        let finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut wanted = finalizers.clone();
        wanted.retain(|name| name != FOREGROUND && name != ORPHAN);
        match options.propagation {
            Propagation::Background => wanted = finalizers.clone(),
            Propagation::Foreground if self.has_dependents(current.uid()) => wanted.push(FOREGROUND.into()),
            Propagation::Orphan => wanted.push(ORPHAN.into()),
            Propagation::Foreground => {}
        }
        let waits = !wanted.is_empty() || is_namespace;
        if options.dry_run {
            return Ok(if waits { Deleted::Waiting(Arc::clone(current)) } else { Deleted::Gone(Arc::clone(current)) });
        }
        if !waits {
            return Ok(Deleted::Gone(self.remove(kind, key, current)?));
        }
        let first = !current.is_deleting();
        let meta = metadata::of(&mut value);
        if wanted.is_empty() {
            meta.remove("finalizers");
        } else {
            meta.insert("finalizers".to_owned(), wanted.clone().into());
        }
        if first {
            meta.insert("deletionTimestamp".to_owned(), self.now().into());
            if !is_namespace {
                meta.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
            if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
                meta.insert("generation".to_owned(), (generation + 1).into());
            }
            if is_namespace {
                value["status"]["phase"] = "Terminating".into();
            }
        }
        let marked =
            if first || wanted != finalizers { self.put(kind, key, current, &value)? } else { Arc::clone(current) };
        let finished = self.finish_deletion(kind, key, Arc::clone(&marked))?;
        // Where the children come first, the answer is the object as it waits for them.
        Ok(if options.propagation == Propagation::Background { finished } else { Deleted::Waiting(marked) })
    }

    /// Does what the finalizers that are the server's own stand for.
    fn finish_deletion(&self, kind: &Kind, key: &Key, object: Arc<Object>) -> Result<Deleted, Status> {
        if kind.group.is_empty() && kind.plural == "namespaces" {
            self.empty_namespace(&key.name);
            return Ok(match self.store.get(&kind.id(), key) {
                Some(left) => Deleted::Waiting(left),
                None => Deleted::Gone(object),
            });
        }
        let value = object.value();
        let has = |name: &str| {
            value["metadata"]["finalizers"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
        };
        if has(ORPHAN) {
            self.orphan_dependents(object.uid());
            return self.without_finalizer(kind, key, &object, ORPHAN);
        }
        if has(FOREGROUND) {
            self.collect_dependents(object.uid(), true);
            // The last of them may have taken the object along.
            let left = self.store.get(&kind.id(), key).filter(|left| left.uid() == object.uid());
            let Some(object) = left else { return Ok(Deleted::Gone(object)) };
            if self.has_dependents(object.uid()) {
                return Ok(Deleted::Waiting(object));
            }
            return self.without_finalizer(kind, key, &object, FOREGROUND);
        }
        Ok(Deleted::Waiting(object))
    }

    fn without_finalizer(&self, kind: &Kind, key: &Key, object: &Arc<Object>, done: &str) -> Result<Deleted, Status> {
        let mut value = object.value();
        let left: Vec<Value> = value["metadata"]["finalizers"]
            .as_array()
            .map(|names| names.iter().filter(|name| *name != done).cloned().collect())
            .unwrap_or_default();
        if left.is_empty() {
            return Ok(Deleted::Gone(self.remove(kind, key, object)?));
        }
        metadata::of(&mut value).insert("finalizers".to_owned(), left.into());
        Ok(Deleted::Waiting(self.put(kind, key, object, &value)?))
    }

    fn put(&self, kind: &Kind, key: &Key, current: &Arc<Object>, value: &Value) -> Result<Arc<Object>, Status> {
        let fields = metadata::selectable(kind, value);
        let put = self.store.put(&kind.id(), key, Some(current), |revision| Object::new(value, revision, fields));
        put.map_err(|_| Status::modified(kind.named(), &key.name))
    }

    /// Removes an object for good, and what belongs to it alone.
    pub(crate) fn remove(&self, kind: &Kind, key: &Key, current: &Arc<Object>) -> Result<Arc<Object>, Status> {
        let gone = self.store.delete(&kind.id(), key, current).map_err(|error| match error {
            WriteError::NotFound => Status::not_found(kind.named(), &key.name),
            WriteError::Exists | WriteError::Changed => Status::modified(kind.named(), &key.name),
        })?;
        if is_definition(kind) {
            self.forget_custom(&key.name);
        }
        if kind.is_built_in() {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            builtin::release(kind, &gone.value(), None, &mut *addresses);
        }
        self.collect_dependents(gone.uid(), false);
        self.owner_may_go(&gone);
        if kind.namespaced {
            self.namespace_may_go(&key.namespace);
        }
        Ok(gone)
    }

    /// Every stored object that names that owner.
    fn dependents(&self, uid: &str) -> Vec<(Arc<Kind>, Arc<Object>)> {
        let mut found = Vec::new();
        for kind in self.stored_kinds() {
            for object in self.store.list(&kind.id(), None).objects {
                if object.owners().iter().any(|owner| **owner == *uid) {
                    found.push((Arc::clone(&kind), object));
                }
            }
        }
        found
    }

    fn has_dependents(&self, uid: &str) -> bool {
        !self.dependents(uid).is_empty()
    }

    /// Deletes the objects that have no other owner left; others lose the reference.
    fn collect_dependents(&self, uid: &str, foreground: bool) {
        for (kind, object) in self.dependents(uid) {
            let others = object.owners().iter().any(|owner| **owner != *uid && self.exists(owner));
            if others {
                self.drop_owner(&kind, &object, uid);
                continue;
            }
            let propagation = if foreground { Propagation::Foreground } else { Propagation::Background };
            let options =
                DeleteOptions { propagation, uid: Some(object.uid().to_owned()), version: None, dry_run: false };
            // An object that is gone or was replaced meanwhile needs nothing.
            let _ = self.delete_one(&kind, object.key(), &options);
        }
    }

    fn orphan_dependents(&self, uid: &str) {
        for (kind, object) in self.dependents(uid) {
            self.drop_owner(&kind, &object, uid);
        }
    }

    fn drop_owner(&self, kind: &Kind, object: &Arc<Object>, uid: &str) {
        let mut value = object.value();
        let meta = metadata::of(&mut value);
        if let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") {
            owners.retain(|owner| owner["uid"] != uid);
            if owners.is_empty() {
                meta.remove("ownerReferences");
            }
        }
        // A writer who was quicker is looked at again when its own owners go.
        let _ = self.put(kind, object.key(), object, &value);
    }

    fn exists(&self, uid: &str) -> bool {
        self.stored_kinds()
            .iter()
            .any(|kind| self.store.list(&kind.id(), None).objects.iter().any(|object| object.uid() == uid))
    }

    /// An owner that is deleted in the foreground goes after the last object that belonged to it.
    fn owner_may_go(&self, gone: &Object) {
        for uid in gone.owners() {
            for kind in self.stored_kinds() {
                let owners = self.store.list(&kind.id(), None).objects;
                let Some(owner) = owners.iter().find(|object| *object.uid() == **uid) else { continue };
                if owner.is_deleting() && !self.has_dependents(uid) {
                    let _ = self.finish_deletion(&kind, owner.key(), Arc::clone(owner));
                }
            }
        }
    }

    /// Deletes everything in a namespace, and the namespace when nothing is left.
    fn empty_namespace(&self, namespace: &str) {
        for kind in self.stored_kinds().into_iter().filter(|kind| kind.namespaced) {
            for object in self.store.list(&kind.id(), Some(namespace)).objects {
                let options =
                    DeleteOptions { propagation: Propagation::Background, uid: None, version: None, dry_run: false };
                let _ = self.delete_one(&kind, object.key(), &options);
            }
        }
        self.namespace_may_go(namespace);
    }

    fn namespace_may_go(&self, namespace: &str) {
        let Some(object) = self.namespace(namespace).filter(|object| object.is_deleting()) else { return };
        let empty = self
            .stored_kinds()
            .iter()
            .filter(|kind| kind.namespaced)
            .all(|kind| self.store.list(&kind.id(), Some(namespace)).objects.is_empty());
        let value = object.value();
        let finalizers = value["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if empty && !finalizers {
            let kind = kinds::builtin().resource("", "v1", "namespaces").expect("there are namespaces");
            let _ = self.store.delete(&kind.id(), object.key(), &object);
        }
    }

    /// One kind of each resource that is stored.
    fn stored_kinds(&self) -> Vec<Arc<Kind>> {
        let stored = kinds::builtin().kinds().filter(|kind| {
            let preferred = kinds::builtin().group(&kind.group).is_some_and(|group| group.preferred == kind.version);
            preferred && kind.has_verb("list") && kind.has_verb("delete")
        });
        stored.cloned().chain(self.customs.resources()).collect()
    }

    /// A definition that is gone takes its objects along.
    fn forget_custom(&self, name: &str) {
        let Some((plural, group)) = name.split_once('.') else { return };
        let Some(kind) = self.customs.resources().into_iter().find(|kind| kind.group == group && kind.plural == plural)
        else {
            return;
        };
        self.customs.unregister(name);
        self.store.remove_resource(&kind.id());
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Object>> {
        let kind = kinds::builtin().resource("", "v1", "namespaces")?;
        self.store.get(&kind.id(), &Key { namespace: "".into(), name: name.into() })
    }
}

/// Kinds whose deletion is answered with the object.
fn returns_object(kind: &Kind) -> bool {
    kind.group.is_empty()
        && matches!(
            kind.plural.as_str(),
            "namespaces"
                | "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
                | "replicationcontrollers"
        )
}

/// Whether objects of this kind define other kinds.
pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.plural == "customresourcedefinitions"
}
