//! Writes of roles and bindings do not grant more than their user has.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use steersman_wire::quote;

use super::RBAC_GROUP;
use super::action::{Action, Resource};
use super::authorize::{aggregate, missing_role};
use super::policy::RoleRef;
use super::rules::{self, Rule};
use crate::request::identity::Identity;
use crate::request::{RequestContext, budget};
use crate::response::status::Status;
use crate::rules::kinds::Kind;
use crate::server::Shared;

impl Shared {
    /// Refuses a role with rules that the user does not have, and a binding to such a role. `old`
    /// is the object that it replaces.
    pub(crate) fn check_escalation(
        &self,
        request: &RequestContext<'_>,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let RequestContext { identity, kind, target, .. } = *request;
        if kind.group != RBAC_GROUP || !self.access.is_rbac() || identity.is_master() {
            return Ok(());
        }
        if old.is_some_and(|old| is_for_collection_only(value, old)) {
            return Ok(());
        }
        let may = |verb: &str, resource: &str, name: &str| {
            let resource = Resource {
                group: RBAC_GROUP.to_owned(),
                resource: resource.to_owned(),
                namespace: target.namespace.clone(),
                name: name.to_owned(),
                ..Resource::default()
            };
            self.decide(identity, &Action::on_resource(verb, resource)).is_ok()
        };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let refuse = |why: &str| Status::forbidden(kind.named(), name, why);
        let missing = |rules: &[Rule]| self.missing_rights(identity, kind, &target.namespace, rules);
        if kind.kind.ends_with("Binding") {
            let role = RoleRef::of(value);
            let role_kind = value["roleRef"]["kind"].as_str().unwrap_or_default();
            let is_known = role_kind == role.kind();
            if is_known && may("bind", role.plural(), &role.name) {
                return Ok(());
            }
            if !is_known {
                return Err(Status::unexpected(format!("unsupported role reference kind: {}", quote(role_kind))));
            }
            if !role.is_cluster && target.namespace.is_empty() {
                return Err(Status::bad_request("Namespace parameter required."));
            }
            let Some(rules) = self.policy().rules_of_role(&role, &target.namespace) else {
                // The real server calls a role by the resource of the request.
                return Err(Status::not_found(kind.named(), &role.name));
            };
            return missing(&rules)?.map_or(Ok(()), |why| Err(refuse(&why)));
        }
        if may("escalate", &kind.plural, &target.name) {
            return Ok(());
        }
        if let Some(why) = missing(&Rule::all_of(value))? {
            return Err(refuse(&why));
        }
        // An aggregated role can come to contain anything.
        let is_aggregated = aggregates(value) || old.is_some_and(aggregates);
        if is_aggregated && missing(&Rule::everything())?.is_some() {
            return Err(refuse("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    /// The refusal of a user who has not all of these rights.
    fn missing_rights(
        &self,
        user: &Identity,
        kind: &Kind,
        namespace: &str,
        wanted: &[Rule],
    ) -> Result<Option<String>, Status> {
        // The comparison may take long: it holds no lock.
        let (own, unknown) = {
            let policy = self.policy();
            let (own, unknown) = policy.rules_of(user, namespace);
            (own, unknown.into_iter().cloned().collect::<Vec<_>>())
        };
        // Several bindings may be to one role.
        let mut seen = HashSet::new();
        let own = own.iter().filter(|rules| seen.insert(Arc::as_ptr(rules).cast::<Rule>()));
        let own: Vec<&Rule> = own.flat_map(|rules| rules.iter()).collect();
        let missing = rules::missing(&own, wanted);
        budget::check()?;
        if missing.is_empty() {
            return Ok(None);
        }
        let groups: Vec<String> = user.groups().iter().map(|group| quote(group)).collect();
        let mut why = format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            quote(user.name()),
            groups.join(" "),
            missing.join("\n")
        );
        if !unknown.is_empty() {
            let unknown = unknown.iter().map(|role| missing_role(&kind.plural, &role.name));
            why.push_str(&format!("; resolution errors: [{}]", aggregate(unknown)));
        }
        Ok(Some(why))
    }
}

fn aggregates(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

/// Whether a write changes only what the garbage collector does.
fn is_for_collection_only(value: &Value, old: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        if let Some(members) = value.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "kind" | "apiVersion"));
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            let is_kept = |name: &str| !matches!(name, "ownerReferences" | "finalizers" | "selfLink" | "managedFields");
            metadata.retain(|name, _| is_kept(name));
        }
        value
    };
    budget::text(budget::deep(value) + budget::deep(old));
    rest(value) == rest(old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_of_the_garbage_collector_are_recognised() {
        let old = json!({"metadata": {"name": "a", "finalizers": ["x"], "uid": "1"}, "rules": [{"verbs": ["get"]}]});
        let with = |pointer: &str, new: Value| {
            let mut value = old.clone();
            value["kind"] = "Role".into();
            *value.pointer_mut(pointer).unwrap() = new;
            is_for_collection_only(&value, &old)
        };
        assert!(with("/metadata/finalizers", json!([])));
        assert!(!with("/metadata/name", "b".into()));
        assert!(!with("/rules/0/verbs", json!(["get", "list"])));
    }
}
