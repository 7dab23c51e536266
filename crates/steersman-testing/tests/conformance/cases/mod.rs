//! The cases, by area, and the few objects they are made of.

use serde_json::{Value, json};

use super::case::{Area, Case, case};

mod apply;
mod apply_custom;
mod authorization;
mod bootstrap;
mod clients;
mod crds;
mod definitions;
mod deletion;
mod forms;
mod garbage;
mod hostile;
mod http;
mod identity;
mod kinds;
mod list;
mod managers;
mod namespaces;
mod objects;
mod openapi;
mod owner_references;
mod patch;
mod pods;
mod resources;
mod reviews;
mod schemas;
mod strategic;
mod tables;
mod tokens;
mod watch;

/// Every case with its area.
pub(crate) fn all() -> Vec<(Area, Case)> {
    let areas = [
        (Area::ListAndWatch, list::cases()),
        (Area::ListAndWatch, watch::cases()),
        (Area::Crds, crds::cases()),
        (Area::Crds, resources::cases()),
        (Area::Crds, schemas::cases()),
        (Area::Crds, definitions::cases()),
        (Area::Deletion, deletion::cases()),
        (Area::Deletion, garbage::cases()),
        (Area::Deletion, namespaces::cases()),
        (Area::Deletion, pods::cases()),
        (Area::Authorization, authorization::cases()),
        (Area::Authorization, owner_references::cases()),
        (Area::Authorization, reviews::cases()),
        (Area::Authorization, tokens::cases()),
        (Area::Apply, apply::cases()),
        (Area::Apply, apply_custom::cases()),
        (Area::Apply, managers::cases()),
        (Area::StrategicMerge, strategic::cases()),
        (Area::Schemas, openapi::cases()),
        (Area::Schemas, tables::cases()),
        (Area::BootstrapAndBodies, bootstrap::cases()),
        (Area::BootstrapAndBodies, clients::cases()),
        (Area::Rest, objects::cases()),
        (Area::Rest, patch::cases()),
        (Area::Rest, kinds::cases()),
        (Area::Rest, forms::cases()),
        (Area::Rest, http::cases()),
        (Area::Rest, identity::cases()),
        (Area::Rest, hostile::cases()),
    ];
    areas.into_iter().flat_map(|(area, cases)| cases.into_iter().map(move |case| (area, case))).collect()
}

const MAPS: &str = "/api/v1/namespaces/${ns}/configmaps";

/// A path below the ConfigMaps of the case's namespace.
fn maps(rest: &str) -> String {
    format!("{MAPS}{rest}")
}

/// A ConfigMap.
fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// A ConfigMap with labels, written `key=value`.
fn labelled(name: &str, labels: &[&str]) -> Value {
    let labels: Value =
        labels.iter().filter_map(|label| label.split_once('=')).map(|(k, v)| (k.to_owned(), json!(v))).collect();
    with(map(name), json!({"metadata": {"labels": labels}}))
}

/// A path below the Pods of the case's namespace.
fn pods(rest: &str) -> String {
    format!("/api/v1/namespaces/${{ns}}/pods{rest}")
}

/// A Pod with one container.
fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A path below the Widgets of the case's namespace, which [`widgets`] defines.
fn crs(rest: &str) -> String {
    format!("/apis/${{id}}.example.com/v1/namespaces/${{ns}}/widgets{rest}")
}

/// The kind Widget, in a group of the case's own: any spec, a status that counts.
fn widgets() -> Value {
    let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    definition(json!({"spec": object, "status": object}))
}

/// The kind Widget with this schema below its root, and the status subresource.
fn definition(properties: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.${id}.example.com"},
        "spec": {
            "group": "${id}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}

/// A case that defines Widgets and waits until they are served.
fn defined(name: &'static str, definition: Value) -> Case {
    case(name)
        .post(CRDS, definition)
        .expect(201)
        .until(format!("{CRDS}/widgets.${{id}}.example.com"))
        .see("/status/conditions/1/status", "True")
        // One case compares the status; the others only wait for it.
        .ignore("")
        .until(crs(""))
        .expect(200)
}

/// A Widget.
fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// `object` with the fields of `change` merged in.
fn with(mut object: Value, change: Value) -> Value {
    merge(&mut object, change);
    object
}

fn merge(object: &mut Value, change: Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change,
    }
}
