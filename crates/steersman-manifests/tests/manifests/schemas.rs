//! The schemas of single fields, as a table.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman::CustomResource;
use steersman_manifests::crd::{CrdBuilder, crd, manifest};

use crate::rare::rare;
use crate::torture::Torture;

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn fields_have_these_schemas() {
    let definition = manifest(&crd::<Torture>().unwrap()).unwrap();
    let root = schema(&definition);
    let cases = [
        (
            "counts/unsigned32",
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32}),
        ),
        ("counts/signed16", json!({"type": "integer", "format": "int32", "minimum": -32768, "maximum": 32767})),
        ("counts/unsigned64", json!({"type": "integer", "format": "int64", "minimum": 0})),
        ("counts/bounded", json!({"type": "integer", "format": "int64", "minimum": 10, "maximum": 20})),
        (
            "counts/exclusive",
            json!({
                "type": "integer", "format": "int32", "multipleOf": 5,
                "minimum": 0, "exclusiveMinimum": true, "maximum": 100, "exclusiveMaximum": true,
            }),
        ),
        (
            "level",
            json!({"type": "string", "enum": ["High", "Low"], "default": "Low", "description": "How much.\n\n- Low: Not much."}),
        ),
        ("nullLevel", json!({"type": "string", "enum": ["High", "Low"], "description": "Written as null."})),
        ("holes", json!({"type": "array", "items": {"type": "string", "nullable": true}})),
        ("byNumber", json!({"type": "object", "additionalProperties": {"type": "string"}})),
        ("any", json!({"x-kubernetes-preserve-unknown-fields": true})),
        ("address", json!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})),
        (
            "portOrName",
            json!({
                "x-kubernetes-int-or-string": true, "minimum": 1, "maximum": 65535, "minLength": 1,
                "description": "Integers or strings.",
            }),
        ),
        (
            "rules",
            json!({
                "type": "array", "x-kubernetes-list-type": "set",
                "items": {
                    "type": "object", "x-kubernetes-map-type": "atomic", "required": ["from", "to"],
                    "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
                },
            }),
        ),
        ("defaults/nested/default", json!({"value": 7})),
        ("ratio", json!({"type": "number", "format": "double"})),
        ("backend/oneOf", json!([{"required": ["http"]}, {"required": ["exec"]}])),
        (
            "addressing/oneOf",
            json!([
                {"properties": {"type": {"enum": ["static"]}}, "required": ["cidr"]},
                {"properties": {"type": {"enum": ["pool"]}}, "required": ["pool"]},
                {"properties": {"type": {"enum": ["none"]}}},
            ]),
        ),
        (
            "addressing/x-kubernetes-validations",
            json!([{"rule": "self.type != 'pool' || (self.pool.size() > 1)", "message": "pool must have a name"}]),
        ),
        ("addressing/type/enum", json!(["static", "pool", "none"])),
        ("addressing/size", json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 255})),
    ];
    for (path, expected) in cases {
        let mut found = &root["properties"]["spec"];
        for name in path.split('/') {
            found = if found["properties"][name].is_null() { &found[name] } else { &found["properties"][name] };
        }
        assert_eq!(*found, expected, "{path}");
    }
    assert_eq!(root["description"], "Tortures the schema pass.");
    let conditions = &root["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    assert!(root["title"].is_null() && !definition.to_string().contains("x-steersman"));
}

#[test]
fn the_names_and_columns_are_those_of_the_derive() {
    let definition = manifest(&crd::<Torture>().unwrap()).unwrap();
    let version = &definition["spec"]["versions"][0];
    assert_eq!(definition["metadata"]["name"], "tortures.torture.example.com");
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["tt"]));
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.name");
    assert_eq!(version["selectableFields"], json!([{"jsonPath": ".spec.name"}]));
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicas");
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
}

/// A resource that is small without its descriptions.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Described", doc = "From the attribute.")]
struct DescribedSpec {
    /// One sentence. And another one, which is rather long for a description of a field.
    field: String,
    #[deprecated]
    old: Option<u64>,
    own: Vec<Own>,
    none: BTreeSet<String>,
    nested: BTreeMap<String, Vec<Condition>>,
}

/// A condition of the user's own type.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    r#type: String,
    status: String,
    last_transition_time: String,
}

#[test]
fn descriptions_are_cut_to_the_budget() {
    let whole = manifest(&crd::<Described>().unwrap()).unwrap();
    assert_eq!(schema(&whole)["description"], "From the attribute.");
    let spec = &schema(&whole)["properties"]["spec"]["properties"];
    assert_eq!(spec["old"]["description"], "Deprecated.");
    assert_eq!(spec["own"]["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(spec["nested"]["additionalProperties"]["x-kubernetes-list-type"], "map");

    let short = manifest(&CrdBuilder::new().version::<Described>().description_max(20).build().unwrap()).unwrap();
    assert_eq!(schema(&short)["properties"]["spec"]["properties"]["field"]["description"], "One sentence.");
    let size = whole.to_string().len();
    let fitting = manifest(&CrdBuilder::new().version::<Described>().size_max(size - 50).build().unwrap()).unwrap();
    assert!(fitting.to_string().len() <= size - 50);
}

#[test]
fn rare_types_have_these_schemas() {
    let definition = rare();
    let spec = &schema(&definition)["properties"]["spec"]["properties"];
    let one_of_nested = json!([
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"type": {"enum": ["Nested"]}}},
        {"properties": {"type": {"enum": ["Plain"]}}},
    ]);
    let cases = [
        ("/unit", json!({"type": "object"})),
        ("/only/properties/type", json!({"type": "string", "enum": ["One"]})),
        ("/hashed", json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
        ("/maps/additionalProperties/additionalProperties", json!({"type": "boolean"})),
        ("/boxed", json!({"type": "string"})),
        ("/nullable", json!({"type": "integer", "format": "int64", "nullable": true})),
        ("/optional/oneOf", one_of_nested.clone()),
        ("/optional/nullable", Value::Null),
        ("/repeated/items/oneOf", one_of_nested),
        ("/repeated/items/properties/a", json!({"type": "integer", "format": "int32"})),
        ("/open/x-kubernetes-preserve-unknown-fields", json!(true)),
        ("/open/properties/other", json!({"type": "integer", "format": "int32"})),
        ("/open/required", json!(["known"])),
        ("/outcome/oneOf", json!([{"required": ["Ok"]}, {"required": ["Err"]}])),
        (
            "/marked/x-kubernetes-validations",
            json!([
                {"rule": "[has(self.a), has(self.b__dash__c)].filter(set, set).size() == 1", "message": "exactly one of the fields a, b-c must be set"},
                {"rule": "[has(self.a), has(self.d)].filter(set, set).size() >= 1", "message": "at least one of the fields a, d must be set"},
            ]),
        ),
        ("/atomic/x-kubernetes-map-type", json!("atomic")),
        ("/float", json!({"type": "number", "format": "float", "minimum": 0.5, "maximum": 10})),
    ];
    for (pointer, expected) in cases {
        assert_eq!(*spec.pointer(pointer).unwrap_or(&Value::Null), expected, "{pointer}: {spec:#}");
    }
}
