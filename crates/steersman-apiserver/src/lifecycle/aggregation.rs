//! ClusterRoles that take their rules from others, selected by labels.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_wire::LabelSelector;

use crate::lifecycle::garbage::Work;
use crate::request::budget;
use crate::rules::kinds::{self, Kind};
use crate::server::Shared;
use crate::store::object::Object;

/// What marks the body of a role that aggregates others.
const MARK: &str = r#""aggregationRule":"#;

/// The manager of aggregated rules.
const AGGREGATOR: &str = "clusterrole-aggregation-controller";

/// A role whose rules may be aggregated.
pub(crate) enum Role<'a> {
    Json(&'a Value),
    Stored(&'a Object),
}

impl<'a> Role<'a> {
    fn name(&self) -> &'a str {
        match *self {
            Self::Json(value) => value["metadata"]["name"].as_str().unwrap_or_default(),
            Self::Stored(object) => &object.key().name,
        }
    }

    fn label(&self, name: &str) -> Option<&'a str> {
        match *self {
            Self::Json(value) => value["metadata"]["labels"][name].as_str(),
            Self::Stored(object) => object.label(name),
        }
    }

    fn rules(&self) -> Vec<Value> {
        match *self {
            Self::Json(value) => rules(value),
            Self::Stored(object) => rules(&object.value()),
        }
    }
}

fn rules(role: &Value) -> Vec<Value> {
    role["rules"].as_array().cloned().unwrap_or_default()
}

/// The selectors of a role that aggregates others. An invalid one ends the aggregation.
fn selectors(role: &Value) -> Option<Vec<LabelSelector>> {
    let given = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    given.iter().map(|selector| LabelSelector::from_json(selector).ok()).collect()
}

/// The rules that a role should have, if they differ from those that it has. The roles have to be
/// in the order of their names.
pub(crate) fn changed_rules(role: &Value, roles: &[Role<'_>]) -> Option<Value> {
    let mut wanted: Vec<Value> = Vec::new();
    for selector in selectors(role)? {
        let selected = roles.iter().filter(|other| {
            budget::step(1);
            role["metadata"]["name"] != *other.name() && selector.matches(|label| other.label(label))
        });
        for rule in selected.flat_map(Role::rules) {
            budget::step(wanted.len() + 1);
            if !wanted.contains(&rule) {
                wanted.push(rule);
            }
        }
    }
    (wanted != rules(role)).then(|| wanted.into())
}

/// Whether objects of this kind may be aggregated.
pub(crate) fn is_cluster_role(kind: &Kind) -> bool {
    kind.group == "rbac.authorization.k8s.io" && kind.plural == "clusterroles"
}

impl Shared {
    /// Gives each role that aggregates others the rules of those.
    pub(crate) fn aggregate_roles(&self, work: &mut Work) {
        let Some(kind) = kinds::builtin().resource("rbac.authorization.k8s.io", "v1", "clusterroles") else { return };
        let stored = self.store.list(&kind.id(), None).objects;
        let roles: Vec<Role<'_>> = stored.iter().map(|object| Role::Stored(object)).collect();
        for role in stored.iter().filter(|role| is_aggregate(role)) {
            if let Some(rules) = changed_rules(&role.value(), &roles) {
                let mut config = json!({"metadata": {"name": &*role.key().name}});
                if rules != json!([]) {
                    config["rules"] = rules;
                }
                // A client that writes at the same time causes another aggregation.
                let _ = self.apply_by(kind, role, (AGGREGATOR, &config), work);
            }
        }
    }
}

fn is_aggregate(role: &Arc<Object>) -> bool {
    std::str::from_utf8(role.body()).is_ok_and(|body| body.contains(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_in_the_order_of_names_and_each_once() {
        let rule = |verb: &str| json!({"verbs": [verb], "resources": ["x"]});
        let selected =
            |name: &str, rules: Value| json!({"metadata": {"name": name, "labels": {"a": "b"}}, "rules": rules});
        let role = json!({
            "metadata": {"name": "b", "labels": {"a": "b"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            "rules": [rule("own")],
        });
        let others = [
            selected("a", json!([rule("get"), rule("list")])),
            role.clone(),
            selected("c", json!([rule("list"), rule("watch")])),
            json!({"metadata": {"name": "d"}, "rules": [rule("delete")]}),
        ];
        let roles: Vec<Role<'_>> = others.iter().map(Role::Json).collect();
        let wanted = json!([rule("get"), rule("list"), rule("watch")]);
        assert_eq!(changed_rules(&role, &roles), Some(wanted.clone()));
        let mut settled = role;
        settled["rules"] = wanted;
        assert_eq!(changed_rules(&settled, &roles), None);
        assert_eq!(changed_rules(&others[0], &roles), None);
    }
}
