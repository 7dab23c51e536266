//! Deletion of namespaces: the contents are deleted first, Pods before everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::lifecycle::garbage::Work;
use crate::request::budget;
use crate::request::delete_options::{DeleteOptions, Propagation};
use crate::response::status::Status;
use crate::rules::kinds::{self, Kind};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::object::Object;
use crate::store::{Key, ResourceId};
use crate::verbs::delete::{Deleted, finalizers, set_finalizers};
use crate::verbs::managed::Controller;

/// The finalizer in the spec of a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// The conditions of a namespace that is being deleted, with reason and message for the case
/// without problems.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (CONTENT_REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS_REMAINING, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// The objects that could not be deleted at once: the number of each resource, and what it waits
/// for.
#[derive(Default)]
struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Shared {
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Object>> {
        self.store.get(&namespaces().id(), &key(name))
    }

    /// Marks a namespace for deletion. It is removed when it is empty.
    pub(crate) fn try_delete_namespace(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        let mut value = current.value();
        if current.is_deleting() {
            if spec_finalizers(&value).is_empty() {
                return self.try_delete(kind, current, options, work);
            }
            return Ok(Deleted::Pending(Arc::clone(current)));
        }
        metadata::of(&mut value).insert("deletionTimestamp".to_owned(), self.now().into());
        value["status"]["phase"] = "Terminating".into();
        if let Some(wanted) = options.finalizers(kind, finalizers(&value)) {
            set_finalizers(&mut value, wanted);
        }
        if options.dry_run {
            return Ok(Deleted::Pending(Arc::new(Object::managed_by(
                &value,
                current.managed(),
                current.revision(),
                Vec::new(),
            ))));
        }
        let marked = self.put(kind, current, &value, work)?;
        work.namespace_deleted(&current.key().name);
        Ok(Deleted::Pending(marked))
    }

    /// Deletes everything in a namespace that is being deleted: the Pods, and the rest when no Pod
    /// is left.
    pub(crate) fn empty_namespace(&self, name: &str, work: &mut Work) {
        if !self.namespace(name).is_some_and(|namespace| is_held(&namespace)) {
            return;
        }
        let (pods, others): (Vec<_>, Vec<_>) = self.namespaced_kinds().into_iter().partition(|kind| kind.is_pod());
        self.delete_content(&pods, name, work);
        if pods.iter().any(|kind| self.store.has_any(&kind.id(), name)) {
            // The status does not mention them.
            return self.write_conditions(name, &Remaining::default(), work);
        }
        self.delete_content(&others, name, work);
        if self.is_empty_namespace(name) {
            return self.finalize_namespace(name, work);
        }
        let mut remaining = Remaining::default();
        for kind in &others {
            remaining.count(kind, &self.store.list(&kind.id(), Some(name)).objects);
        }
        self.write_conditions(name, &remaining, work);
    }

    fn delete_content(&self, kinds: &[Arc<Kind>], namespace: &str, work: &mut Work) {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for kind in kinds {
            for object in self.store.list(&kind.id(), Some(namespace)).objects {
                // An object that was deleted in between needs nothing.
                let _ = self.delete_one(kind, object.key(), &options, work);
            }
        }
    }

    /// Removes a namespace when it is empty.
    pub(crate) fn finalize_namespace(&self, name: &str, work: &mut Work) {
        if !self.namespace(name).is_some_and(|namespace| is_held(&namespace)) || !self.is_empty_namespace(name) {
            return;
        }
        self.write_conditions(name, &Remaining::default(), work);
        self.change_namespace(name, Controller::NAMESPACE_END, work, |value| {
            let left: Vec<Value> = spec_finalizers(value).iter().filter(|one| *one != FINALIZER).cloned().collect();
            match value["spec"].as_object_mut() {
                Some(spec) if left.is_empty() => drop(spec.remove("finalizers")),
                _ => value["spec"]["finalizers"] = left.into(),
            }
        });
    }

    fn write_conditions(&self, name: &str, remaining: &Remaining, work: &mut Work) {
        let now = self.now();
        self.change_namespace(name, Controller::NAMESPACE_STATUS, work, |value| set_conditions(value, remaining, &now));
    }

    /// Changes a namespace that is being deleted. It is removed when it has no finalizers any more.
    fn change_namespace(&self, name: &str, by: Controller, work: &mut Work, change: impl Fn(&mut Value)) {
        while let Some(namespace) = self.namespace(name).filter(|namespace| namespace.is_deleting()) {
            let mut value = namespace.value();
            change(&mut value);
            match self.put_or_remove(namespaces(), &namespace, (&value, by), work) {
                // Another client wrote it: the change is applied to the new state.
                Err(status) if status.code == 409 => {}
                _ => return,
            }
        }
    }

    /// Whether a namespace has no visible objects.
    fn is_empty_namespace(&self, name: &str) -> bool {
        !self.namespaced_kinds().iter().any(|kind| self.store.has_any(&kind.id(), name))
    }

    /// One kind of each namespaced resource.
    fn namespaced_kinds(&self) -> Vec<Arc<Kind>> {
        let mut resources: Vec<ResourceId> = self.store.resources();
        budget::step(resources.len());
        resources.sort_unstable();
        resources.iter().filter_map(|resource| self.stored_kind(resource)).filter(|kind| kind.namespaced).collect()
    }
}

impl Remaining {
    fn count(&mut self, kind: &Kind, objects: &[Arc<Object>]) {
        if objects.is_empty() {
            return;
        }
        self.resources.insert(format!("{}.{}", kind.plural, kind.group), objects.len());
        for object in objects {
            for name in finalizers(&object.value()).iter().filter_map(Value::as_str) {
                *self.finalizers.entry(name.to_owned()).or_default() += 1;
            }
        }
    }

    /// Reason and message of a condition that reports a problem.
    fn condition(&self, condition: &str) -> Option<(&'static str, String)> {
        let list = |counts: &BTreeMap<String, usize>, words: &str| {
            let mut texts: Vec<String> =
                counts.iter().map(|(name, count)| format!("{name} {words} {count} resource instances")).collect();
            texts.sort_unstable();
            texts.join(", ")
        };
        match condition {
            CONTENT_REMAINING if !self.resources.is_empty() => {
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", list(&self.resources, "has"))))
            }
            FINALIZERS_REMAINING if !self.finalizers.is_empty() => {
                let list = list(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {list}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

/// Sets the remaining contents in the status of a namespace.
fn set_conditions(value: &mut Value, remaining: &Remaining, now: &str) {
    let mut conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for (of_type, reason, message) in CONDITIONS {
        let (status, reason, message) = match remaining.condition(of_type) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        let mut new = json!({
            "type": of_type, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
        });
        match conditions.iter_mut().find(|condition| condition["type"] == of_type) {
            Some(old) => {
                if old["status"] == status {
                    new["lastTransitionTime"] = old["lastTransitionTime"].take();
                }
                *old = new;
            }
            None => conditions.push(new),
        }
    }
    value["status"]["conditions"] = conditions.into();
}

/// Whether it is being deleted and not yet empty.
fn is_held(namespace: &Object) -> bool {
    namespace.is_deleting() && spec_finalizers(&namespace.value()).iter().any(|name| name == FINALIZER)
}

fn spec_finalizers(value: &Value) -> &[Value] {
    value["spec"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}

fn namespaces() -> &'static Arc<Kind> {
    kinds::builtin().resource("", "v1", "namespaces").expect("there are namespaces")
}

fn key(name: &str) -> Key {
    Key { namespace: "".into(), name: name.into() }
}
