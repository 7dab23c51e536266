//! The end of a definition: it takes its objects along, and waits for those that wait for somebody.

use std::sync::Arc;

use serde_json::Value;

use crate::crd;
use crate::kinds::{Kind, builtin};
use crate::metadata;
use crate::object::Object;
use crate::server::Shared;
use crate::status::Status;
use crate::store::Key;

/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Shared {
    /// Marks a definition for deletion, and begins with it. Returns it as marked. One that is marked already is only given
    /// no more time.
    pub(crate) fn delete_definition(
        &self,
        kind: &Kind,
        key: &Key,
        current: &Arc<Object>,
        dry_run: bool,
    ) -> Result<Arc<Object>, Status> {
        let now = self.now();
        let mut value = current.value();
        let meta = metadata::of(&mut value);
        if current.is_deleting() {
            let before = meta.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            let has_changed = before.is_none() && !dry_run;
            return if has_changed { self.put(kind, key, current, &value) } else { Ok(Arc::clone(current)) };
        }
        meta.insert("deletionTimestamp".to_owned(), now.as_str().into());
        let finalizers = meta.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(finalizers) = finalizers.as_array_mut().filter(|names| !names.iter().any(|name| name == CLEANUP)) {
            finalizers.push(CLEANUP.into());
        }
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        terminating(&mut value, "True", &now, "InstanceDeletionPending", message);
        if dry_run {
            return Ok(Arc::new(Object::new(&value, current.revision(), Vec::new())));
        }
        let marked = self.put(kind, key, current, &value)?;
        terminating(&mut value, "True", &now, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
        // Whoever writes meanwhile does not keep the objects from going.
        let _ = self.put(kind, key, &marked, &value);
        self.customs.register(&value, self.store.revision());
        if let Some(custom) = custom_of(self, &value) {
            self.delete_all(&custom);
        }
        self.definition_may_go(&key.name);
        Ok(marked)
    }

    /// Lets a definition go that is being deleted, once the last of its objects is gone.
    pub(crate) fn definition_may_go(&self, name: &str) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let key = Key { namespace: "".into(), name: name.into() };
        let Some(current) = self.store.get(&kind.id(), &key).filter(|current| current.is_deleting()) else { return };
        let mut value = current.value();
        let Some(Value::Array(finalizers)) = metadata::of(&mut value).get_mut("finalizers") else { return };
        let Some(at) = finalizers.iter().position(|name| name == CLEANUP) else { return };
        finalizers.remove(at);
        let is_last = finalizers.is_empty();
        let custom = custom_of(self, &value);
        if custom.as_ref().is_some_and(|custom| !self.store.list(&custom.id(), None).objects.is_empty()) {
            return;
        }
        let (reason, message) = match custom {
            Some(_) => ("InstanceDeletionCompleted", "removed all instances"),
            None => ("NeverEstablished", "resource was never established"),
        };
        terminating(&mut value, "False", &self.now(), reason, message);
        // A writer who was quicker has come here by himself, or will.
        if is_last {
            let _ = self.remove(kind, &key, &current);
        } else if self.put(kind, &key, &current, &value).is_ok() {
            self.customs.register(&value, self.store.revision());
        }
    }

    /// A definition that is gone is served no longer.
    pub(crate) fn forget_custom(&self, name: &str) {
        let resources = self.customs.resources();
        let of_name = |kind: &&Arc<Kind>| format!("{}.{}", kind.plural, kind.group) == name;
        if let Some(kind) = resources.iter().find(of_name) {
            self.store.end_followers(&kind.id());
        }
        self.customs.unregister(name);
        self.reconsider_names(name);
    }

    /// Looks again at the names of the other definitions of a group: what one gives up, another may have.
    fn reconsider_names(&self, name: &str) {
        let Some(kind) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let Some((_, group)) = name.split_once('.') else { return };
        for object in self.store.list(&kind.id(), None).objects {
            let crd = object.value();
            if crd["spec"]["group"] == group && !crd::has_condition(&crd, "NamesAccepted") {
                self.definition_written(kind, object.key());
            }
        }
    }
}

/// What an established definition defines.
fn custom_of(shared: &Shared, crd: &Value) -> Option<Arc<Kind>> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    shared.customs.resources().into_iter().find(|kind| format!("{}.{}", kind.plural, kind.group) == name)
}

fn terminating(crd: &mut Value, status: &str, now: &str, reason: &str, message: &str) {
    crd::set_condition(&mut crd["status"], crd::condition("Terminating", status, now, reason, message));
}
