//! The decision on a request, by the mode of the server.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use super::RBAC_GROUP;
use super::action::{Action, Resource};
use super::policy::{Policy, RoleRef};
use super::rules::Rule;
use crate::request::identity::Identity;
use crate::request::{HttpRequest, RequestContext, ResourceRequest};
use crate::response::status::{Named, Status};
use crate::server::Shared;

/// A decision with its reason, as a review shows it.
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

impl Shared {
    /// Refuses a request that its user may not make, and records it.
    pub(crate) fn authorize(&self, user: &Identity, request: &HttpRequest<'_>) -> Result<(), Status> {
        if self.access.is_idle() {
            return Ok(());
        }
        let action = Action::of_request(request);
        let decision = self.decide(user, &action);
        self.access.note(user, &action, decision.is_ok());
        decision.map_err(|reason| action.forbidden(user, &reason))
    }

    /// Refuses an apply that creates an object if its user may not create it, and records the
    /// create. The request itself is a patch.
    pub(crate) fn authorize_create(&self, request: &RequestContext<'_>) -> Result<(), Status> {
        if self.access.is_idle() {
            return Ok(());
        }
        let ResourceRequest { group, plural, subresource, namespace, name, .. } = request.target;
        let resource = Resource {
            group: group.clone(),
            resource: plural.clone(),
            subresource: subresource.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let action = Action::on_resource("create", resource);
        let decision = self.decide(request.identity, &action);
        self.access.note(request.identity, &action, decision.is_ok());
        decision.map_err(|reason| action.forbidden(request.identity, &reason))
    }

    /// Whether a user may do something. The error is the reason of the refusal, which may be empty.
    pub(super) fn decide(&self, user: &Identity, action: &Action) -> Result<(), String> {
        if !self.access.is_rbac() || user.is_master() {
            return Ok(());
        }
        let policy = self.policy();
        policy.decide(user, action, |_| {}).map_err(|missing| reason(&missing))
    }

    /// The same with the reason of either outcome.
    pub(crate) fn review_access(&self, user: &Identity, action: &Action) -> Decision {
        if !self.access.is_rbac() || user.is_master() {
            return Decision { allowed: true, reason: String::new() };
        }
        let policy = self.policy();
        let mut reason = String::new();
        match policy.decide(user, action, |applied| reason = applied.reason(user)) {
            Ok(()) => Decision { allowed: true, reason },
            Err(missing) => Decision { allowed: false, reason: self::reason(&missing) },
        }
    }

    /// The rules of a user in a namespace, and an error if roles are missing.
    pub(crate) fn rules_for(&self, user: &Identity, namespace: &str) -> (Vec<Arc<[Rule]>>, Option<String>) {
        if !self.access.is_rbac() {
            return (vec![Rule::everything().into()], None);
        }
        let policy = self.policy();
        let (rules, missing) = policy.rules_of(user, namespace);
        let error = not_found(&missing);
        (rules, Some(error).filter(|error| !error.is_empty()))
    }

    /// The roles and bindings, as of the latest write.
    pub(crate) fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        loop {
            let written = self.store.policy_revision();
            let policy = self.access.policy.read().unwrap_or_else(PoisonError::into_inner);
            if policy.is_loaded() && policy.reached >= written {
                return policy;
            }
            drop(policy);
            self.access.policy.write().unwrap_or_else(PoisonError::into_inner).refresh(&self.store, written);
        }
    }
}

/// The reason of a refusal.
fn reason(missing: &[&RoleRef]) -> String {
    if missing.is_empty() { String::new() } else { format!("RBAC: {}", not_found(missing)) }
}

/// The error for missing roles. Empty if there are none.
fn not_found(missing: &[&RoleRef]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let texts = missing.iter().map(|role| {
        let resource = if role.is_cluster { "clusterrole" } else { "role" };
        missing_role(resource, &role.name)
    });
    aggregate(texts)
}

/// The message of the error for a role that does not exist.
pub(super) fn missing_role(resource: &str, name: &str) -> String {
    let named = Named { group: RBAC_GROUP, resource };
    format!("{named} {} not found", steersman_wire::quote(name))
}

/// Several errors as one text: each once, in brackets if they are several.
pub(super) fn aggregate(texts: impl IntoIterator<Item = String>) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<String> = texts.into_iter().filter(|text| seen.insert(text.clone())).collect();
    match &texts[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
