//! Custom resources: what their schema does to them.

use serde_json::{Value, json};

use super::{CRDS, crs, defined, definition, widget, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [schemas(), objects(), subresources()].into_iter().flatten().collect()
}

/// Widgets with this schema of their spec.
fn spec(name: &'static str, schema: Value) -> Case {
    defined(
        name,
        definition(json!({"spec": schema, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})),
    )
}

/// Widgets whose spec has one field `a`.
fn field(name: &'static str, schema: Value) -> Case {
    spec(name, json!({"type": "object", "properties": {"a": schema}}))
}

fn schemas() -> Vec<Case> {
    let valid = |case: Case, a: Value| case.post(crs(""), widget("one", json!({ "a": a }))).expect(201);
    let invalid = |case: Case, a: Value| case.post(crs(""), widget("one", json!({ "a": a }))).expect(422);
    vec![
        invalid(field("cr-type-string", json!({"type": "string"})), json!(5)),
        invalid(field("cr-type-integer", json!({"type": "integer"})), json!(1.5)),
        valid(field("cr-type-integer-written-as-a-float", json!({"type": "integer"})), json!(1.0)),
        invalid(field("cr-type-boolean", json!({"type": "boolean"})), json!("true")),
        invalid(field("cr-type-array", json!({"type": "array", "items": {"type": "string"}})), json!(["a", 1])),
        invalid(field("cr-type-object", json!({"type": "object"})), json!([])),
        invalid(field("cr-enum", json!({"type": "string", "enum": ["x", "y"]})), json!("z")),
        invalid(field("cr-minimum", json!({"type": "integer", "minimum": 3})), json!(2)),
        invalid(field("cr-maximum-that-is-exclusive", json!({"type": "integer", "maximum": 3,
            "exclusiveMaximum": true})), json!(3)),
        invalid(field("cr-multiple-of", json!({"type": "integer", "multipleOf": 3})), json!(4)),
        invalid(field("cr-pattern", json!({"type": "string", "pattern": "^[a-z]+$"})), json!("A")),
        invalid(field("cr-length", json!({"type": "string", "minLength": 2, "maxLength": 3})), json!("x")),
        invalid(field("cr-length-counts-characters", json!({"type": "string", "maxLength": 1})), json!("éé")),
        invalid(field("cr-items-count", json!({"type": "array", "maxItems": 1, "items": {"type": "string"}})),
            json!(["a", "b"])),
        invalid(
            field("cr-properties-count", json!({"type": "object", "minProperties": 1,
                "additionalProperties": {"type": "string"}})),
            json!({}),
        ),
        invalid(field("cr-map-values", json!({"type": "object", "additionalProperties": {"type": "integer"}})),
            json!({"x": "y"})),
        invalid(field("cr-format-date-time", json!({"type": "string", "format": "date-time"})), json!("yesterday")),
        invalid(field("cr-format-int32", json!({"type": "integer", "format": "int32"})), json!(3_000_000_000_i64)),
        valid(field("cr-format-that-is-unknown-is-ignored", json!({"type": "string", "format": "shoe"})), json!("x")),
        valid(field("cr-int-or-string", json!({"x-kubernetes-int-or-string": true})), json!("50%"))
            .post(crs(""), widget("two", json!({"a": 5})))
            .expect(201)
            .post(crs(""), widget("three", json!({"a": true})))
            .expect(422),
        invalid(field("cr-one-of", json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}]})), json!(4)),
        invalid(field("cr-not", json!({"type": "string", "not": {"enum": ["x"]}})), json!("x")),
        invalid(
            field("cr-list-set-has-no-duplicates", json!({"type": "array", "x-kubernetes-list-type": "set",
                "items": {"type": "string"}})),
            json!(["a", "b", "a"]),
        ),
        invalid(
            field(
                "cr-list-map-has-no-duplicates",
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}),
            ),
            json!([{"k": "a"}, {"k": "a"}]),
        ),
        spec("cr-required", json!({"type": "object", "required": ["a", "b"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}))
            .post(crs(""), widget("one", json!({})))
            .expect(422),
        spec("cr-several-mistakes", json!({"type": "object", "required": ["b"],
            "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"type": "string"}}}))
            .post(crs(""), widget("one", json!({"a": 5})))
            .expect(422),
        valid(field("cr-nullable", json!({"type": "string", "nullable": true})), json!(null)).see("/spec",
            json!({"a": null})),
        field("cr-null-gives-way-to-a-default", json!({"type": "string", "default": "x"}))
            .post(crs(""), widget("one", json!({"a": null})))
            .expect(201)
            .see("/spec/a", "x"),
        valid(field("cr-null-where-it-is-not-allowed-is-dropped", json!({"type": "string"})),
            json!(null)).see("/spec", json!({})),
        field("cr-default-on-create", json!({"type": "string", "default": "x"}))
            .post(crs(""), widget("one", json!({})))
            .expect(201)
            .see("/spec/a", "x"),
        field("cr-default-only-below-what-is-there", json!({"type": "string", "default": "x"}))
            .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}))
            .expect(201)
            .absent("/spec"),
        spec("cr-default-of-nested-objects", json!({"type": "object", "default": {}, "properties": {
            "o": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 7}}}}}))
            .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}))
            .see("/spec/o/n", 7),
        field("cr-default-that-comes-later-is-seen-by-readers", json!({"type": "string"}))
            .post(crs(""), widget("one", json!({})))
            .json_patch(
                format!("{CRDS}/widgets.${{id}}.example.com"),
                json!([{"op": "add",
                    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/default",
                        "value": "x"}]),
            )
            .expect(200)
            .until(crs("/one"))
            .see("/spec/a", "x"),
        field("cr-unknown-fields-are-pruned", json!({"type": "string"}))
            .post(crs(""), widget("one", json!({"a": "x", "b": {"c": 1}})))
            .expect(201)
            .warns("unknown field")
            .absent("/spec/b"),
        spec("cr-unknown-fields-are-kept-where-the-schema-says", json!({"type": "object", "properties": {
            "a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"k": {"type": "object", "properties": {}}}}}}))
            .post(crs(""), widget("one", json!({"a": {"b": 1, "k": {"c": 1}}})))
            .expect(201)
            .see("/spec/a/b", 1)
            .absent("/spec/a/k/c"),
        field("cr-strict-unknown-field", json!({"type": "string"}))
            .post(crs("?fieldValidation=Strict"), widget("one", json!({"b": 1})))
            .expect(400),
        field("cr-strict-double-field", json!({"type": "string"}))
            .send("POST", crs("?fieldValidation=Strict"))
            .text("application/json",
                r#"{"apiVersion":"${id}.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"a":"1","a":"2"}}"#,
            )
            .expect(400),
        field("cr-strict-unknown-metadata", json!({"type": "string"}))
            .post(crs("?fieldValidation=Strict"), with(widget("one", json!({})),
                json!({"metadata": {"colour": "red"}})))
            .expect(400),
        field("cr-what-was-wrong-before-may-stay", json!({"type": "string"}))
            .post(crs(""), widget("one", json!({"a": "long"})))
            .json_patch(
                format!("{CRDS}/widgets.${{id}}.example.com"),
                json!([{"op": "add",
                    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength",
                        "value": 2}]),
            )
            .expect(200)
            .post(crs("?dryRun=All"), widget("two", json!({"a": "long"})))
            .again_until()
            .expect(422)
            .merge(crs("/one"), json!({"metadata": {"labels": {"x": "y"}}}))
            .expect(200)
            .merge(crs("/one"), json!({"spec": {"a": "other"}}))
            .expect(422),
        defined("cr-embedded-resource", definition(json!({"spec": {"type": "object", "properties": {
            "o": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}})))
            .post(crs(""), widget("one", json!({"o": {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "shoe": 1}, "x": 1}})))
            .expect(201)
            .absent("/spec/o/metadata/shoe")
            .post(crs(""), widget("two", json!({"o": {"x": 1}})))
            .expect(422),
    ]
}

fn objects() -> Vec<Case> {
    let one = |name| defined(name, widgets()).post(crs(""), widget("one", json!({"a": 1}))).named("one").expect(201);
    vec![
        one("cr-create").see("/metadata/generation", 1),
        defined("cr-without-kind-and-version", widgets())
            .post(crs(""), json!({"metadata": {"name": "one"}}))
            .expect(400),
        defined("cr-of-another-kind", widgets())
            .post(crs(""), with(widget("one", json!({})), json!({"kind": "Gadget"})))
            .expect(422),
        defined("cr-with-a-bad-name", widgets()).post(crs(""), widget("One", json!({}))).expect(422),
        defined("cr-with-a-generated-name", widgets())
            .post(
                crs(""),
                json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"generateName": "made-"}}),
            )
            .expect(201),
        one("cr-update-needs-a-version").put(crs("/one"), widget("one", json!({"a": 2}))).expect(422),
        one("cr-update")
            .put(
                crs("/one"),
                with(widget("one", json!({"a": 2})), json!({"metadata": {"resourceVersion": "${rv:one}"}})),
            )
            .expect(200)
            .see("/metadata/generation", 2),
        one("cr-update-with-an-old-version")
            .merge(crs("/one"), json!({"spec": {"a": 2}}))
            .put(
                crs("/one"),
                with(widget("one", json!({"a": 3})), json!({"metadata": {"resourceVersion": "${rv:one}"}})),
            )
            .expect(409),
        one("cr-update-of-labels-is-no-generation")
            .merge(crs("/one"), json!({"metadata": {"labels": {"x": "y"}}}))
            .see("/metadata/generation", 1),
        one("cr-merge-patch")
            .merge(crs("/one"), json!({"spec": {"a": null, "b": [1, 2]}}))
            .expect(200)
            .absent("/spec/a"),
        one("cr-json-patch")
            .json_patch(crs("/one"), json!([{"op": "add", "path": "/spec/b", "value": 5}]))
            .see("/spec/b", 5),
        one("cr-strategic-merge-patch-is-refused")
            .send("PATCH", crs("/one"))
            .text("application/strategic-merge-patch+json", "{}")
            .expect(415),
        one("cr-delete").delete(crs("/one")).expect(200).see("/status", "Success").get(crs("/one")).expect(404),
        one("cr-list-and-watch")
            .get(crs("?labelSelector=x"))
            .see("/items", json!([]))
            .watch("w", crs("?watch=true&resourceVersion=${rv:one}&labelSelector=x"))
            .merge(crs("/one"), json!({"metadata": {"labels": {"x": "y"}}}))
            .delete(crs("/one"))
            .events("w", "ADDED one, DELETED one"),
        one("cr-delete-collection").delete(crs("")).expect(200).get(crs("")).see("/items", json!([])),
        one("cr-as-partial-metadata")
            .get(crs("/one"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .see("/kind", "PartialObjectMetadata"),
        defined("cr-in-a-namespace-that-does-not-exist", widgets())
            .post("/apis/${id}.example.com/v1/namespaces/${id}-none/widgets", widget("one", json!({})))
            .expect(404),
        case("cr-that-is-cluster-wide")
            .post(CRDS, with(widgets(), json!({"spec": {"scope": "Cluster"}})))
            .until("/apis/${id}.example.com/v1/widgets")
            .expect(200)
            .post("/apis/${id}.example.com/v1/widgets", widget("one", json!({})))
            .expect(201)
            .absent("/metadata/namespace")
            .get("/apis/${id}.example.com/v1/widgets/one")
            .expect(200)
            .get(crs("/one"))
            .expect(404),
        one("cr-across-namespaces").get("/apis/${id}.example.com/v1/widgets").see("/items/0/metadata/name", "one"),
        one("cr-field-name").get(crs("?fieldSelector=metadata.name%3Dtwo")).see("/items", json!([])),
        one("cr-field-that-is-not-selectable").get(crs("?fieldSelector=spec.a%3D1")).expect(400),
        defined("cr-selectable-fields", {
            let mut crd = definition(json!({"spec": {"type": "object", "properties": {"color": {"type": "string"}}}}));
            crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
            crd
        })
        .post(crs(""), widget("red", json!({"color": "red"})))
        .named("red")
        .post(crs(""), widget("blue", json!({"color": "blue"})))
        .get(crs("?fieldSelector=spec.color%3Dblue"))
        .see("/items/0/metadata/name", "blue")
        .absent("/items/1")
        .watch("w", crs("?watch=true&resourceVersion=${rv:red}&fieldSelector=spec.color%3Dred"))
        .merge(crs("/red"), json!({"spec": {"color": "green"}}))
        .events("w", "DELETED red"),
        defined(
            "cr-metadata-name-with-a-pattern",
            definition(
                json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^x"}}}}),
            ),
        )
        .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}))
        .expect(422),
        one("cr-with-labels-that-are-wrong").merge(crs("/one"), json!({"metadata": {"labels": {"a": 5}}})).expect(422),
    ]
}

fn subresources() -> Vec<Case> {
    let bare = || {
        let mut crd = widgets();
        crd["spec"]["versions"][0]["subresources"] = json!(null);
        crd
    };
    let scaled = || {
        let mut crd = widgets();
        crd["spec"]["versions"][0]["subresources"]["scale"] = json!({
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
        });
        crd
    };
    vec![
        defined("cr-status-is-dropped-on-create", widgets())
            .post(crs(""), with(widget("one", json!({})), json!({"status": {"a": 1}})))
            .expect(201)
            .absent("/status"),
        defined("cr-status-is-kept-apart", widgets())
            .post(crs(""), widget("one", json!({"a": 1})))
            .merge(
                crs("/one/status"),
                json!({"spec": {"a": 2}, "status": {"a": 3}, "metadata": {"labels": {"x": "y"}}}),
            )
            .expect(200)
            .see("/spec/a", 1)
            .see("/status/a", 3)
            .absent("/metadata/labels")
            .see("/metadata/generation", 1)
            .merge(crs("/one"), json!({"spec": {"a": 2}, "status": {"a": 9}}))
            .see("/spec/a", 2)
            .see("/status/a", 3)
            .see("/metadata/generation", 2),
        defined("cr-status-without-the-subresource", bare())
            .post(crs(""), with(widget("one", json!({})), json!({"status": {"a": 1}})))
            .see("/status/a", 1)
            .merge(crs("/one"), json!({"status": {"a": 2}}))
            .see("/metadata/generation", 2)
            .get(crs("/one/status"))
            .expect(404),
        defined("cr-scale", scaled())
            .post(crs(""), widget("one", json!({"replicas": 2})))
            .merge(crs("/one/status"), json!({"status": {"replicas": 1, "selector": "a=b"}}))
            .get(crs("/one/scale"))
            .expect(200)
            .see("/spec/replicas", 2)
            .see("/status/selector", "a=b")
            .merge(crs("/one/scale"), json!({"spec": {"replicas": 5}}))
            .expect(200)
            .get(crs("/one"))
            .see("/spec/replicas", 5)
            .see("/metadata/generation", 2),
        defined("cr-scale-without-replicas", scaled())
            .post(crs(""), widget("one", json!({})))
            .get(crs("/one/scale"))
            .expect(500),
        defined("cr-scale-that-is-not-defined", widgets())
            .post(crs(""), widget("one", json!({})))
            .get(crs("/one/scale"))
            .expect(404),
        defined("cr-scale-below-zero", scaled())
            .post(crs(""), widget("one", json!({"replicas": 2})))
            .merge(crs("/one/scale"), json!({"spec": {"replicas": -5}}))
            .expect(422),
    ]
}
