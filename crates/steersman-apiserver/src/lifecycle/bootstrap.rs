//! The objects of every cluster, from the namespaces to the roles of the system.
//!
//! `cargo xtask record` reads them from a real server. They are encoded once per process; each
//! server has copies with its own uids and times.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::lifecycle::aggregation::{self, Role};
use crate::lifecycle::provision;
use crate::rules::kinds::{Kind, builtin};
use crate::server::FIRST_NAMESPACES;
use crate::store::ResourceId;
use crate::store::object::template::Template;

/// The output of `cargo xtask record`.
const RECORDED: &str = include_str!("../../data/bootstrap.jsonl");

/// An object of every cluster.
struct Entry {
    resource: ResourceId,
    template: Template,
    /// Whether it is there with controllers only, or without them only.
    controllers: Option<bool>,
}

/// The objects of a new server, in the order of their creation: all, or the namespaces alone.
pub(crate) fn objects(all: bool, controllers: bool) -> impl Iterator<Item = (&'static ResourceId, &'static Template)> {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    let entries = ENTRIES.get_or_init(|| entries(RECORDED));
    // The namespaces come first.
    let entries = if all { &entries[..] } else { &entries[..FIRST_NAMESPACES.len()] };
    let wanted = entries.iter().filter(move |entry| entry.controllers.is_none_or(|with| with == controllers));
    wanted.map(|entry| (&entry.resource, &entry.template))
}

fn entries(recorded: &str) -> Vec<Entry> {
    let objects = recorded.lines().map(|line| serde_json::from_str(line).expect("the recorded objects are JSON"));
    let objects: Vec<Value> = objects.collect();
    let mut entries = Vec::new();
    let mut add = |object: &Value, controllers: Option<bool>| {
        let kind = kind_of(object);
        entries.push(Entry { resource: kind.id(), template: Template::new(kind, object.clone()), controllers });
    };
    let aggregated = aggregate(&objects);
    for object in &objects {
        match aggregated.iter().find(|role| role["metadata"]["name"] == object["metadata"]["name"]) {
            Some(role) if object["kind"] == "ClusterRole" => {
                add(object, Some(false));
                add(role, Some(true));
            }
            _ => add(object, None),
        }
    }
    for object in objects.iter().filter(|object| object["kind"] == "Namespace") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        for mut provided in provision::objects(name, "") {
            // The time of the start, as in the recorded objects.
            for managed in provided["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
                managed["time"] = "1970-01-01T00:00:00Z".into();
            }
            add(&provided, Some(true));
        }
    }
    entries
}

fn kind_of(object: &Value) -> &'static Arc<Kind> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    builtin().kind(group, version, text("kind")).expect("the recorded objects are of built-in kinds")
}

/// The roles that aggregate others, with their rules.
fn aggregate(objects: &[Value]) -> Vec<Value> {
    let mut roles: Vec<Value> = objects.iter().filter(|object| object["kind"] == "ClusterRole").cloned().collect();
    let mut changed = Vec::new();
    // A role that aggregates may be aggregated itself: view into edit, edit into admin.
    while let Some((place, rules)) = next_change(&roles) {
        roles[place]["rules"] = rules;
        if !changed.contains(&place) {
            changed.push(place);
        }
    }
    let written = |place: usize| {
        let mut role = roles[place].take();
        if let Some(managed) = role["metadata"]["managedFields"].as_array_mut() {
            managed.insert(
                0,
                json!({
                    "manager": "clusterrole-aggregation-controller", "operation": "Apply",
                    "apiVersion": "rbac.authorization.k8s.io/v1", "time": "1970-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:rules": {}},
                }),
            );
        }
        role
    };
    changed.into_iter().map(written).collect()
}

fn next_change(roles: &[Value]) -> Option<(usize, Value)> {
    let all: Vec<Role<'_>> = roles.iter().map(Role::Json).collect();
    roles.iter().enumerate().find_map(|(place, role)| Some((place, aggregation::changed_rules(role, &all)?)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(controllers: bool, plural: &str) -> Vec<String> {
        let of_kind = objects(true, controllers).filter(|(resource, _)| *resource.plural == *plural);
        of_kind.map(|(_, template)| template.key().name.to_string()).collect()
    }

    #[test]
    fn each_object_is_there_once() {
        for controllers in [false, true] {
            let keys: Vec<_> = objects(true, controllers).map(|(resource, object)| (resource, object.key())).collect();
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
            assert!(keys.len() > 180, "{}", keys.len());
        }
        let mut namespaces = names(true, "namespaces");
        namespaces.sort_unstable();
        let mut expected = FIRST_NAMESPACES;
        expected.sort_unstable();
        assert_eq!(namespaces, expected);
        let first: Vec<_> = objects(false, true).map(|(resource, _)| resource.plural.to_string()).collect();
        assert_eq!(first, ["namespaces"; 4]);
        assert_eq!(names(false, "serviceaccounts"), Vec::<String>::new());
        assert_eq!(names(true, "serviceaccounts").len(), 4);
    }

    #[test]
    fn admin_has_rules_with_the_controllers_only() {
        let rules = |controllers: bool| {
            let role = objects(true, controllers).find(|(_, object)| &*object.key().name == "admin").unwrap().1;
            let fresh = crate::store::object::template::Fresh { uid: "u", now: "2026-03-02T08:14:21Z" };
            role.object(1, &fresh).value()["rules"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(rules(false), 0);
        assert!(rules(true) > 10, "{}", rules(true));
    }
}
