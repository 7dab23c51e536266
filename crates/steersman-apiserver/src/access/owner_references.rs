//! The admission plugin OwnerReferencesPermissionEnforcement: an object that has a new owner
//! reference may delay the deletion of its owner, so its writer needs rights for that.
//!
//! It follows `plugin/pkg/admission/gc/gc_admission.go`.

use std::sync::Arc;

use serde_json::Value;

use super::action::{Action, Resource};
use crate::request::RequestContext;
use crate::response::status::Status;
use crate::rules::kinds::{self, Kind};
use crate::server::Shared;

impl Shared {
    /// Refuses a change of owner references that the user may not make, if the plugin is on. `old`
    /// is the object that is replaced.
    pub(crate) fn check_owner_references(
        &self,
        request: &RequestContext<'_>,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let RequestContext { identity, kind, target, .. } = *request;
        let is_exempt = kind.is_pod() && target.subresource == "status";
        if !self.enforces_owner_references || is_exempt {
            return Ok(());
        }
        let (owners, old_owners) = (Owner::all(value), old.map(Owner::all));
        if owners == *old_owners.as_deref().unwrap_or_default() {
            return Ok(());
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let refuse = |why: &str| Status::forbidden(kind.named(), name, why);
        let permits = |verb: &str, resource: Resource| {
            let action = Action::on_resource(verb, resource);
            let decision = self.decide(identity, &action);
            self.access.note_admission(identity, &action, decision.is_ok());
            decision
        };
        // A new object could be left out altogether.
        if old.is_some() {
            let deleted = Resource {
                group: kind.group.clone(),
                resource: kind.plural.clone(),
                subresource: target.subresource.clone(),
                namespace: target.namespace.clone(),
                name: target.name.clone(),
            };
            permits("delete", deleted).map_err(|reason| {
                refuse(&format!("cannot set an ownerRef on a resource you can't delete: {reason}, <nil>"))
            })?;
        }
        let was_blocking = |owner: &Owner<'_>| {
            let old = old_owners.iter().flatten().rfind(|old| old.uid == owner.uid);
            old.is_some_and(|old| old.blocks)
        };
        let new: Vec<_> = owners.iter().filter(|owner| owner.blocks && !was_blocking(owner)).collect();
        if new.is_empty() || self.decide(identity, &finalize_anything()).is_ok() {
            return Ok(());
        }
        for owner in new {
            let Some(found) = self.owner_kind(owner) else {
                let Owner { api_version, kind, .. } = owner;
                return Err(refuse(&format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
                     {api_version} Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
                )));
            };
            let finalizers = Resource {
                group: found.group.clone(),
                resource: found.plural.clone(),
                subresource: "finalizers".to_owned(),
                namespace: if found.namespaced { target.namespace.clone() } else { String::new() },
                name: owner.name.to_owned(),
            };
            permits("update", finalizers).map_err(|reason| {
                refuse(&format!(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers \
                     on: {reason}, <nil>"
                ))
            })?;
        }
        Ok(())
    }

    fn owner_kind(&self, owner: &Owner<'_>) -> Option<Arc<Kind>> {
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", owner.api_version));
        let kind = kinds::builtin().kind(group, version, owner.kind).cloned();
        kind.or_else(|| self.customs.named(group, version, owner.kind))
    }
}

/// The right that contains all that the plugin asks for about owners. It is asked for first, in
/// case that no owner's kind can be found out.
fn finalize_anything() -> Action {
    let all = || "*".to_owned();
    let resource = Resource {
        group: all(),
        resource: all(),
        subresource: "finalizers".to_owned(),
        namespace: String::new(),
        name: all(),
    };
    Action::on_resource("update", resource)
}

#[derive(Debug, PartialEq, Eq)]
struct Owner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: Option<bool>,
    blocks_deletion: Option<bool>,
    blocks: bool,
}

impl<'a> Owner<'a> {
    fn all(object: &'a Value) -> Vec<Self> {
        let references = object["metadata"]["ownerReferences"].as_array();
        references.map_or(&[][..], Vec::as_slice).iter().map(Self::read).collect()
    }

    fn read(reference: &'a Value) -> Self {
        let text = |member: &str| reference[member].as_str().unwrap_or_default();
        let blocks_deletion = reference["blockOwnerDeletion"].as_bool();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: reference["controller"].as_bool(),
            blocks_deletion,
            blocks: blocks_deletion == Some(true),
        }
    }
}
