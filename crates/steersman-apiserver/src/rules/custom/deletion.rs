//! Deletion of definitions: the objects are deleted first, and the definition waits for those with
//! finalizers.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::garbage::Work;
use crate::request::delete_options::{DeleteOptions, Propagation};
use crate::response::status::Status;
use crate::rules::crd::{self, Patterns};
use crate::rules::kinds::{Kind, builtin};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;
use crate::verbs::delete::{Deleted, finalizers, set_finalizers};
use crate::verbs::managed::Controller;

/// The finalizer that keeps a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Shared {
    /// Marks a definition for deletion and deletes its objects. The definition is removed after
    /// them.
    pub(crate) fn try_delete_definition(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        if current.is_deleting() {
            return self.try_delete(kind, current, options, work);
        }
        let key = current.key();
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
            return Ok(Deleted::Pending(Arc::new(Object::managed_by(
                &value,
                current.managed(),
                current.revision(),
                Vec::new(),
            ))));
        }
        let marked = self.put(kind, current, &value, work)?;
        terminating(&mut value, "True", &now, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        // A concurrent write does not prevent the deletion of the objects.
        let _ = self.put_by(kind, &marked, (&value, Controller::STATUS), work);
        self.serve_definition(kind, key, &Patterns::new());
        if let Some(custom) = self.defined_by(&key.name) {
            self.delete_all(&custom, work);
        }
        work.definition_deleted(&key.name);
        Ok(Deleted::Pending(marked))
    }

    /// Deletes every object of a kind.
    fn delete_all(&self, kind: &Kind, work: &mut Work) {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for object in self.store.list(&kind.id(), None).objects {
            // A concurrent deletion is no error.
            let _ = self.delete_one(kind, object.key(), &options, work);
        }
    }

    /// Removes a definition that is being deleted once its last object is removed.
    pub(crate) fn finalize_definition(&self, name: &str, work: &mut Work) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let key = Key { namespace: "".into(), name: name.into() };
        while let Some(current) = self.store.get(&kind.id(), &key).filter(|current| current.is_deleting()) {
            let mut value = current.value();
            if !finalizers(&value).iter().any(|name| name == CLEANUP) {
                return;
            }
            let custom = self.defined_by(name);
            if custom.as_ref().is_some_and(|custom| !self.store.is_empty(&custom.id())) {
                return;
            }
            let left = finalizers(&value).iter().filter(|name| *name != CLEANUP).cloned().collect();
            set_finalizers(&mut value, left);
            let (reason, message) = match custom {
                Some(_) => ("InstanceDeletionCompleted", "removed all instances"),
                None => ("NeverEstablished", "resource was never established"),
            };
            terminating(&mut value, "False", &self.now(), reason, message);
            match self.put_or_remove(kind, &current, (&value, Controller::STATUS), work) {
                // A concurrent request, such as the one that establishes the definition, wrote it:
                // retry.
                Err(status) if status.code == 409 => {}
                written => {
                    if written.is_ok() {
                        self.serve_definition(kind, &key, &Patterns::new());
                    }
                    return;
                }
            }
        }
    }

    /// A kind of an established definition.
    fn defined_by(&self, name: &str) -> Option<Arc<Kind>> {
        let (plural, group) = name.split_once('.')?;
        self.customs.resource(group, plural)
    }

    /// Stops serving a removed definition. Neither its schema nor the log of its objects is kept
    /// (test: `nothing_is_kept_of_a_definition_that_is_deleted`).
    pub(crate) fn forget_custom(&self, definition: &Object, work: &mut Work) {
        self.customs.unregister(definition, &self.store);
        if let Some((_, group)) = definition.key().name.split_once('.') {
            work.names_released(group);
        }
    }

    /// Checks the names of the other definitions of some groups again: a removed definition may
    /// have freed them.
    pub(crate) fn reconsider_names(&self, groups: &BTreeSet<String>) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        for object in self.store.list(&kind.id(), None).objects {
            let is_of_group = object.key().name.split_once('.').is_some_and(|(_, group)| groups.contains(group));
            if is_of_group && !crd::has_condition(&object.value(), "NamesAccepted") {
                self.definition_written(kind, object.key(), &Patterns::new());
            }
        }
    }
}

fn terminating(crd: &mut Value, status: &str, now: &str, reason: &str, message: &str) {
    crd::set_condition(&mut crd["status"], crd::condition("Terminating", status, now, reason, message));
}
