//! Changes between two definitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use steersman_manifests::crd::{crd, diff};

use crate::torture::Torture;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                 "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                 "selectableFields": [{"jsonPath": ".spec.name"}],
                 "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string", "maxLength": 10, "pattern": "^a", "description": "A name."},
                        "size": {"type": "integer", "minimum": 1, "default": 3},
                        "mode": {"type": "string", "enum": ["a", "b"]},
                        "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "minLength": 2}},
                        "map": {"type": "object", "additionalProperties": {"type": "integer", "nullable": true}},
                        "any": {"x-kubernetes-preserve-unknown-fields": true},
                        "one": {
                            "type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
                            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                            "x-kubernetes-validations": [{"rule": "true"}],
                        },
                    },
                 }}}}},
                {"name": "v1beta1", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object"}}},
            ],
        },
    })
}

fn changes(old: Value, new: Value) -> Vec<String> {
    let read = |value| serde_json::from_value::<CustomResourceDefinition>(value).unwrap();
    diff(&read(old), &read(new)).unwrap().changes.iter().map(ToString::to_string).collect()
}

/// Each change, its text, and the text of the opposite change.
#[test]
fn each_change_has_a_path_and_a_direction() {
    const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let at = |path: &str| format!("{SPEC}/properties/{path}");
    let cases = [
        (
            "/spec/scope".to_owned(),
            json!("Cluster"),
            "breaking: spec.scope: value changed: Namespaced → Cluster",
            "breaking: spec.scope: value changed: Cluster → Namespaced",
        ),
        (
            "/spec/names/shortNames".to_owned(),
            json!([]),
            "breaking: spec.names.shortNames: name removed: th",
            "compatible: spec.names.shortNames: name added: th",
        ),
        (
            "/spec/versions/1/served".to_owned(),
            json!(false),
            "breaking: v1beta1: served removed",
            "compatible: v1beta1: served added",
        ),
        (
            "/spec/versions/0/subresources".to_owned(),
            Value::Null,
            "breaking: v1: status subresource removed",
            "breaking: v1: status subresource added",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns".to_owned(),
            json!([]),
            "compatible: v1: column removed: Size",
            "compatible: v1: column added: Size",
        ),
        (
            "/spec/versions/0/selectableFields".to_owned(),
            json!([]),
            "breaking: v1: selectable field removed: .spec.name",
            "compatible: v1: selectable field added: .spec.name",
        ),
        (
            format!("{SPEC}/required"),
            json!([]),
            "compatible: v1.spec.name: required widened",
            "breaking: v1.spec.name: required narrowed",
        ),
        (
            at("name"),
            Value::Null,
            "breaking: v1.spec.name: field removed",
            "breaking: v1.spec.name: required field added",
        ),
        (at("mode"), Value::Null, "breaking: v1.spec.mode: field removed", "compatible: v1.spec.mode: field added"),
        (
            at("name/type"),
            json!("integer"),
            "breaking: v1.spec.name: type changed: string → integer",
            "breaking: v1.spec.name: type changed: integer → string",
        ),
        (
            at("size/type"),
            json!("number"),
            "breaking: v1.spec.size: type widened: integer → number",
            "breaking: v1.spec.size: type narrowed: number → integer",
        ),
        (
            at("name/maxLength"),
            json!(9),
            "breaking: v1.spec.name: maxLength narrowed: 10 → 9",
            "compatible: v1.spec.name: maxLength widened: 9 → 10",
        ),
        (
            at("name/maxLength"),
            Value::Null,
            "compatible: v1.spec.name: maxLength widened: 10",
            "breaking: v1.spec.name: maxLength narrowed: 10",
        ),
        (
            at("name/pattern"),
            json!("^b"),
            "breaking: v1.spec.name: pattern changed: ^a → ^b",
            "breaking: v1.spec.name: pattern changed: ^b → ^a",
        ),
        (
            at("name/pattern"),
            Value::Null,
            "compatible: v1.spec.name: pattern widened: ^a",
            "breaking: v1.spec.name: pattern narrowed: ^a",
        ),
        (
            at("name/description"),
            json!("Else."),
            "compatible: v1.spec.name: description changed: A name. → Else.",
            "compatible: v1.spec.name: description changed: Else. → A name.",
        ),
        (
            at("size/minimum"),
            json!(2),
            "breaking: v1.spec.size: minimum narrowed: 1 → 2",
            "compatible: v1.spec.size: minimum widened: 2 → 1",
        ),
        (
            at("size/exclusiveMinimum"),
            json!(true),
            "breaking: v1.spec.size: minimum narrowed: 1 → 1",
            "compatible: v1.spec.size: minimum widened: 1 → 1",
        ),
        (
            at("size/default"),
            json!(4),
            "breaking: v1.spec.size: default changed: 3 → 4",
            "breaking: v1.spec.size: default changed: 4 → 3",
        ),
        (
            at("size/default"),
            Value::Null,
            "breaking: v1.spec.size: default removed: 3",
            "compatible: v1.spec.size: default added: 3",
        ),
        (
            at("mode/enum"),
            json!(["a"]),
            "breaking: v1.spec.mode: enum value removed: b",
            "compatible: v1.spec.mode: enum value added: b",
        ),
        (
            at("mode/enum"),
            Value::Null,
            "compatible: v1.spec.mode: enum widened: [\"a\",\"b\"]",
            "breaking: v1.spec.mode: enum narrowed: [\"a\",\"b\"]",
        ),
        (
            at("list/x-kubernetes-list-type"),
            json!("atomic"),
            "breaking: v1.spec.list: x-kubernetes-list-type changed: set → atomic",
            "breaking: v1.spec.list: x-kubernetes-list-type changed: atomic → set",
        ),
        (
            at("list/items/minLength"),
            json!(3),
            "breaking: v1.spec.list[]: minLength narrowed: 2 → 3",
            "compatible: v1.spec.list[]: minLength widened: 3 → 2",
        ),
        (
            at("map/additionalProperties/nullable"),
            json!(false),
            "breaking: v1.spec.map{}: nullable narrowed",
            "compatible: v1.spec.map{}: nullable widened",
        ),
        (
            at("map/additionalProperties"),
            Value::Null,
            "breaking: v1.spec.map: additionalProperties removed",
            "breaking: v1.spec.map: additionalProperties added",
        ),
        (
            at("any"),
            json!({"type": "string", "x-kubernetes-preserve-unknown-fields": true}),
            "breaking: v1.spec.any: type narrowed: any → string",
            "breaking: v1.spec.any: type widened: string → any",
        ),
        (
            at("one/oneOf"),
            json!([{"required": ["x"]}]),
            "breaking: v1.spec.one: oneOf changed: [{\"required\":[\"x\"]},{\"required\":[\"y\"]}] → [{\"required\":[\"x\"]}]",
            "compatible: v1.spec.one: oneOf widened: [{\"required\":[\"x\"]}] → [{\"required\":[\"x\"]},{\"required\":[\"y\"]}]",
        ),
        (
            at("one/x-kubernetes-validations"),
            json!([]),
            "compatible: v1.spec.one: rule removed: true",
            "breaking: v1.spec.one: rule added: true",
        ),
        (
            "/spec/versions/1".to_owned(),
            Value::Null,
            "breaking: v1beta1: version removed",
            "compatible: v1beta1: version added",
        ),
    ];
    for (pointer, value, forth, back) in cases {
        let mut new = definition();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match new.pointer_mut(parent).unwrap() {
            Value::Array(items) if value.is_null() => drop(items.remove(name.parse().unwrap())),
            Value::Object(members) if value.is_null() => drop(members.remove(name)),
            parent => parent[name] = value,
        }
        assert_eq!(changes(definition(), new.clone()), [forth], "{pointer}");
        assert_eq!(changes(new, definition()), [back], "{pointer}, backwards");
    }
    assert_eq!(changes(definition(), definition()), [""; 0]);
}

#[test]
fn a_field_that_a_default_fills_may_become_required() {
    let mut new = definition();
    let spec = &mut new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["required"] = json!(["name", "size"]);
    assert_eq!(changes(definition(), new), [""; 0]);
}

#[test]
fn another_storage_version_is_breaking_and_breaking_changes_come_first() {
    let mut new = definition();
    let versions = new["spec"]["versions"].as_array_mut().unwrap();
    versions[0]["storage"] = false.into();
    versions[0]["additionalPrinterColumns"] = json!([]);
    versions[1]["storage"] = true.into();
    versions[1]["schema"]["openAPIV3Schema"]["minProperties"] = 1.into();
    let expected = [
        "breaking: spec.versions: storage version changed: v1 → v1beta1",
        "breaking: v1beta1: minProperties narrowed: 1",
        "compatible: v1: column removed: Size",
    ];
    assert_eq!(changes(definition(), new), expected);
}

#[test]
fn a_definition_of_a_type_does_not_differ_from_itself() {
    let (one, two) = (crd::<Torture>().unwrap(), crd::<Torture>().unwrap());
    let diff = diff(&one, &two).unwrap();
    assert!(diff.changes.is_empty() && !diff.is_breaking(), "{diff}");
}
