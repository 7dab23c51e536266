//! Definitions of custom resources that change: the schema, the versions and the status, and what
//! becomes of their objects.

use serde_json::{Value, json};

use super::schemas::field;
use super::{CRDS, crs, defined, definition, widget, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [changes(), versions(), statuses()].into_iter().flatten().collect()
}

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.${id}.example.com";

const GADGETS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.${id}.example.com";

/// A JSON patch of the schema of Widgets.
fn patched(case: Case, op: &str, below: &str, value: Value) -> Case {
    let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/{below}");
    case.json_patch(CRD, json!([{"op": op, "path": path, "value": value}])).expect(200)
}

fn changes() -> Vec<Case> {
    let created = |name| field(name, json!({"type": "string"})).post(crs(""), widget("one", json!({"a": "x"})));
    vec![
        patched(created("schema-that-forgets-a-field"), "replace", "properties", json!({"b": {"type": "string"}}))
            .until(crs("/one"))
            .absent("/spec/a")
            .until(crs(""))
            .see("/items/0/spec", json!({}))
            .merge(crs("/one"), json!({"spec": {"b": "y"}}))
            .expect(200)
            .see("/spec", json!({"b": "y"})),
        patched(
            patched(
                created("schema-that-remembers-a-field"),
                "replace",
                "properties",
                json!({"b": {"type": "string"}}),
            )
            .until(crs("/one"))
            .absent("/spec/a"),
            "replace",
            "properties",
            json!({"a": {"type": "string"}}),
        )
        .until(crs("/one"))
        .see("/spec/a", "x"),
        patched(created("schema-of-another-type"), "replace", "properties/a", json!({"type": "integer"}))
            .post(crs("?dryRun=All"), widget("two", json!({"a": 1})))
            .again_until()
            .expect(201)
            .get(crs("/one"))
            .see("/spec/a", "x")
            .merge(crs("/one"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .merge(crs("/one"), json!({"spec": {"a": "z"}}))
            .expect(422)
            .merge(crs("/one"), json!({"spec": {"a": 1}}))
            .expect(200),
        patched(created("schema-that-requires-more"), "add", "required", json!(["b"]))
            .post(crs("?dryRun=All"), widget("two", json!({"a": "y"})))
            .again_until()
            .expect(422)
            .merge(crs("/one"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .merge(crs("/one"), json!({"spec": {"a": "z"}}))
            .expect(422),
        patched(
            created("schema-default-that-comes-later-is-written-by-the-next"),
            "add",
            "properties/b",
            json!({"type": "integer", "default": 5}),
        )
        .until(crs("/one"))
        .see("/spec/b", 5)
        .see("/metadata/generation", 1)
        .merge(crs("/one"), json!({"metadata": {"labels": {"a": "b"}}}))
        .see("/spec/b", 5)
        .see("/metadata/generation", 1)
        .until(crs("?labelSelector=a%3Db"))
        .see("/items/0/spec/b", 5)
        .watch("w", crs("?watch=true&timeoutSeconds=1"))
        .events("w", "ADDED one"),
    ]
}

/// Widgets in version v1, stored, and v2, whose spec is another.
fn two_schemas() -> Value {
    let mut crd = definition(json!({"spec": {"type": "object", "properties": {
        "a": {"type": "string", "default": "one"}, "both": {"type": "string"}}}}));
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "b": {"type": "string", "default": "two"}, "both": {"type": "string"}}}}}});
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"] = schema;
    crd["spec"]["versions"].as_array_mut().expect("versions are a list").push(second);
    crd
}

fn versions() -> Vec<Case> {
    let v2 = |rest: &str| format!("/apis/${{id}}.example.com/v2/namespaces/${{ns}}/widgets{rest}");
    let second = |spec: Value| with(widget("one", spec), json!({"apiVersion": "${id}.example.com/v2"}));
    let ordered = || {
        let mut crd = widgets();
        let versions: Vec<Value> = ["v1alpha1", "foo", "v10", "v2beta1", "v2", "v1", "v11beta2"]
            .iter()
            .map(|name| with(crd["spec"]["versions"][0].clone(), json!({"name": name, "storage": *name == "v1"})))
            .collect();
        crd["spec"]["versions"] = versions.into();
        crd
    };
    vec![
        defined("crd-versions-with-other-schemas", two_schemas())
            .post(crs(""), widget("one", json!({"both": "x"})))
            .expect(201)
            .see("/spec", json!({"a": "one", "both": "x"}))
            .get(v2("/one"))
            .expect(200)
            .get(v2(""))
            .expect(200)
            .merge(v2("/one"), json!({"spec": {"b": "y"}}))
            .expect(200)
            .get(crs("/one"))
            .expect(200),
        defined("crd-version-that-is-not-stored-is-written", two_schemas())
            .post(v2(""), second(json!({"both": "x", "a": "lost"})))
            .expect(201)
            .get(crs("/one"))
            .expect(200),
        defined("crd-deprecated-version-warns-everybody", {
            let mut crd = two_schemas();
            crd["spec"]["versions"][0]["deprecated"] = true.into();
            crd
        })
        .get(crs(""))
        .warns("use")
        .get(crs("/none"))
        .expect(404)
        .warns("use")
        .post(crs(""), widget("One", json!({"unknown": 1})))
        .expect(422),
        case("crd-with-two-stored-versions-of-other-schemas")
            .post(CRDS, {
                let mut crd = two_schemas();
                crd["spec"]["versions"][1]["storage"] = true.into();
                crd["spec"]["versions"][0]["additionalPrinterColumns"] =
                    json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]);
                crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}]);
                crd["spec"]["versions"][1]["subresources"]["scale"] =
                    json!({"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"});
                crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["c"] =
                    json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer", "maximum": 5,
                        "enum": [1], "nullable": false}});
                crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["d"] =
                    json!({"type": "object", "additionalProperties": {"type": "string", "pattern": "x"},
                        "description": "d", "not": {"required": ["z"]}});
                crd
            })
            .expect(422),
        defined("crd-versions-are-in-the-order-of-their-names", ordered())
            .until("/apis/${id}.example.com")
            .expect(200)
            .see("/preferredVersion/version", "v10"),
        defined("crd-names-in-discovery", with(widgets(), json!({"spec": {"names": {
            "categories": ["all", "things"], "listKind": "Widgetry", "singular": "wid"}}})))
            .until("/apis/${id}.example.com/v1")
            .expect(200)
            .ignore("/resources/0/storageVersionHash")
            .get(crs(""))
            .see("/kind", "Widgetry"),
        defined("crd-short-name-of-another", widgets())
            .post(CRDS, with(widgets(), json!({
                "metadata": {"name": "gadgets.${id}.example.com"},
                "spec": {"names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget",
                    "shortNames": ["gd", "wd"]}}})))
            .expect(201)
            .until(GADGETS)
            .see("/status/conditions/0/reason", "ShortNamesConflict")
            .see("/status/conditions/1/type", "Established")
            .get("/apis/${id}.example.com/v1/namespaces/${ns}/gadgets")
            .expect(404),
    ]
}

fn statuses() -> Vec<Case> {
    let held = |name| {
        defined(name, widgets())
            .post(crs(""), with(widget("one", json!({})), json!({"metadata": {"finalizers": ["example.com/f"]}})))
            .expect(201)
            .delete(CRD)
            .expect(200)
            .until(CRD)
            .see("/status/conditions/2/reason", "InstanceDeletionInProgress")
    };
    vec![
        held("crd-that-terminates-is-still-served")
            .until("/apis/${id}.example.com/v1")
            .absent("/resources/0/verbs/5")
            .ignore("/resources/0/storageVersionHash")
            .until(crs("/one"))
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .merge(crs("/one"), json!({"spec": {"a": 1}}))
            .expect(200)
            .post(CRDS, widgets())
            .expect(409)
            .delete(CRD)
            .expect(200)
            .merge(crs("/one"), json!({"metadata": {"finalizers": null}}))
            .until(CRD)
            .expect(404),
        defined(
            "crd-with-a-finalizer-of-its-own",
            with(widgets(), json!({"metadata": {"finalizers": ["example.com/f"]}})),
        )
        .post(crs(""), widget("one", json!({})))
        .expect(201)
        .delete(CRD)
        .expect(200)
        .until(CRD)
        .see("/status/conditions/2/reason", "InstanceDeletionCompleted")
        .merge(CRD, json!({"metadata": {"finalizers": null}}))
        .expect(200)
        .until(CRD)
        .expect(404),
        defined("crd-names-that-become-free", widgets())
            .post(
                CRDS,
                with(
                    widgets(),
                    json!({
                "metadata": {"name": "gadgets.${id}.example.com"},
                "spec": {"names": {"plural": "gadgets", "singular": "gadget"}}}),
                ),
            )
            .until(GADGETS)
            .see("/status/conditions/0/reason", "ListKindConflict")
            .see("/status/conditions/1/type", "Established")
            .ignore("")
            .delete(CRD)
            .until(GADGETS)
            .see("/status/conditions/0/status", "True")
            .see("/status/conditions/1/status", "True")
            .until("/apis/${id}.example.com/v1/namespaces/${ns}/gadgets")
            .expect(200),
        case("crd-that-was-never-established")
            .post(CRDS, with(widgets(), json!({"metadata": {"finalizers": ["example.com/f"]}})))
            .post(
                CRDS,
                with(
                    widgets(),
                    json!({
                "metadata": {"name": "gadgets.${id}.example.com", "finalizers": ["example.com/f"]},
                "spec": {"names": {"plural": "gadgets", "singular": "gadget"}}}),
                ),
            )
            .until(GADGETS)
            .see("/status/conditions/0/status", "False")
            .see("/status/conditions/1/type", "Established")
            .delete(GADGETS)
            .until(GADGETS)
            .see("/status/conditions/2/reason", "NeverEstablished"),
        defined("crd-dry-run-deletion", widgets())
            .send("DELETE", format!("{CRD}?dryRun=All"))
            .expect(200)
            .get(CRD)
            .absent("/metadata/deletionTimestamp"),
        defined("crd-deletion-with-another-uid", widgets())
            .send("DELETE", CRD)
            .json(json!({"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}))
            .expect(409),
        defined("crd-status-is-written-apart", widgets())
            .merge(CRD, json!({"status": {"storedVersions": ["v9"]}}))
            .expect(200)
            .see("/status/storedVersions", json!(["v1"])),
        defined("crd-stored-versions-are-never-empty", widgets())
            .json_patch(
                format!("{CRD}/status"),
                json!([{"op": "replace", "path": "/status/storedVersions", "value": []}]),
            )
            .expect(200)
            .see("/status/storedVersions", json!(["v1"])),
    ]
}
