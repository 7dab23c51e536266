//! The end of a definition: it takes its objects along, and waits for those that wait for somebody.

use std::sync::Arc;

use serde_json::Value;

use crate::crd::{self, Patterns};
use crate::delete::{Deleted, finalizers, set_finalizers};
use crate::delete_options::{DeleteOptions, Propagation};
use crate::garbage::Work;
use crate::kinds::{Kind, builtin};
use crate::metadata;
use crate::object::Object;
use crate::server::Shared;
use crate::status::Status;
use crate::store::Key;

/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Shared {
    /// Marks a definition for deletion, and deletes its objects. It goes when they are gone.
    pub(crate) fn try_delete_definition(
        &self,
        kind: &Kind,
        key: &Key,
        current: &Arc<Object>,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        if current.is_deleting() {
            return self.try_delete(kind, key, current, options, work);
        }
        let now = self.now();
        let mut value = current.value();
        metadata::of(&mut value).insert("deletionTimestamp".to_owned(), now.as_str().into());
        let mut wanted = finalizers(&value).to_vec();
        if !wanted.iter().any(|name| name == CLEANUP) {
            wanted.push(CLEANUP.into());
        }
        set_finalizers(&mut value, wanted);
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        terminating(&mut value, "True", &now, "InstanceDeletionPending", message);
        if options.dry_run {
            return Ok(Deleted::Waiting(Arc::new(Object::new(&value, current.revision(), Vec::new()))));
        }
        let marked = self.put(kind, key, current, &value, work)?;
        terminating(&mut value, "True", &now, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        // Whoever writes meanwhile does not keep the objects from going.
        let _ = self.put(kind, key, &marked, &value, work);
        self.serve_definition(kind, key, &Patterns::new());
        if let Some(custom) = self.defined_by(&key.name) {
            self.delete_all(&custom, work);
        }
        work.definition_deleted(&key.name);
        Ok(Deleted::Waiting(marked))
    }

    /// Deletes every object of a kind.
    fn delete_all(&self, kind: &Kind, work: &mut Work) {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for object in self.store.list(&kind.id(), None).objects {
            // What is gone meanwhile needs nothing.
            let _ = self.delete_one(kind, object.key(), &options, work);
        }
    }

    /// Lets a definition go that is being deleted, once the last of its objects is gone.
    pub(crate) fn definition_may_go(&self, name: &str, work: &mut Work) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let key = Key { namespace: "".into(), name: name.into() };
        let Some(current) = self.store.get(&kind.id(), &key).filter(|current| current.is_deleting()) else { return };
        let mut value = current.value();
        if !finalizers(&value).iter().any(|name| name == CLEANUP) {
            return;
        }
        let custom = self.defined_by(name);
        if custom.as_ref().is_some_and(|custom| !self.store.list(&custom.id(), None).objects.is_empty()) {
            return;
        }
        let left = finalizers(&value).iter().filter(|name| *name != CLEANUP).cloned().collect();
        set_finalizers(&mut value, left);
        let (reason, message) = match custom {
            Some(_) => ("InstanceDeletionCompleted", "removed all instances"),
            None => ("NeverEstablished", "resource was never established"),
        };
        terminating(&mut value, "False", &self.now(), reason, message);
        // A writer who was quicker has come here by himself, or will.
        let written = self.put_or_remove(kind, &key, &current, &value, work);
        if written.is_ok() {
            self.serve_definition(kind, &key, &Patterns::new());
        }
    }

    /// What an established definition defines.
    fn defined_by(&self, name: &str) -> Option<Arc<Kind>> {
        let (plural, group) = name.split_once('.')?;
        self.customs.resource(group, plural)
    }

    /// A definition that is gone is served no longer, and nothing of it is kept: neither its schema
    /// nor the past of its objects (test: `nothing_is_kept_of_a_definition_that_is_deleted`).
    pub(crate) fn forget_custom(&self, definition: &Object) {
        self.customs.unregister(definition, &self.store);
        self.reconsider_names(&definition.key().name);
    }

    /// Looks again at the names of the other definitions of a group: what one gives up, another may have.
    fn reconsider_names(&self, name: &str) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let Some((_, group)) = name.split_once('.') else { return };
        for object in self.store.list(&kind.id(), None).objects {
            let is_of_group = object.key().name.split_once('.').is_some_and(|(_, other)| other == group);
            if is_of_group && !crd::has_condition(&object.value(), "NamesAccepted") {
                self.definition_written(kind, object.key(), &Patterns::new());
            }
        }
    }
}

fn terminating(crd: &mut Value, status: &str, now: &str, reason: &str, message: &str) {
    crd::set_condition(&mut crd["status"], crd::condition("Terminating", status, now, reason, message));
}
