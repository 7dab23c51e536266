//! Schemas of custom resources, keyword by keyword.

use serde_json::{Value, json};

use super::{crs, defined, definition, widget, widgets, with};
use crate::conformance::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    [keywords(), defaults(), metadata(), embedded(), selected()].into_iter().flatten().collect()
}

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.${id}.example.com";

/// Widgets whose spec has one field `a`.
pub(super) fn field(name: &'static str, schema: Value) -> Case {
    defined(
        name,
        definition(json!({
            "spec": {"type": "object", "properties": {"a": schema}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        })),
    )
}

/// A create that works for the first value and is refused for the others.
fn tried(mut case: Case, good: Value, bad: &[Value]) -> Case {
    case = case.post(crs(""), widget("good", json!({ "a": good }))).expect(201);
    for value in bad {
        case = case.post(crs(""), widget("bad", json!({ "a": value }))).expect(422);
    }
    case
}

fn keywords() -> Vec<Case> {
    let string = |format: &str| json!({"type": "string", "format": format});
    vec![
        tried(
            field("schema-any-of", json!({"type": "string", "anyOf": [{"minLength": 5}, {"enum": ["a", "b"]}]})),
            json!("a"),
            &[json!("c"), json!(1)],
        ),
        tried(
            field("schema-all-of", json!({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 3}]})),
            json!(null),
            &[json!(4), json!(6)],
        ),
        tried(
            field(
                "schema-one-of-twice",
                json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                    "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}),
            ),
            json!({"x": 1}),
            &[json!({}), json!({"x": 1, "y": 1})],
        ),
        tried(
            field(
                "schema-not-required",
                json!({"type": "object", "properties": {"x": {"type": "integer"}},
                "not": {"required": ["x"]}}),
            ),
            json!({}),
            &[json!({"x": 1})],
        ),
        tried(
            field(
                "schema-number-bounds",
                json!({"type": "number", "minimum": 1.5, "exclusiveMinimum": true,
                "maximum": 2.5, "multipleOf": 0.25}),
            ),
            json!(2.25),
            &[json!(1.5), json!(3), json!(2.1), json!("2")],
        ),
        tried(
            field("schema-integer-that-is-too-large", json!({"type": "integer", "format": "int64", "maximum": 10})),
            json!(10),
            &[json!(11), json!(1e3), json!(1.25)],
        ),
        tried(
            field("schema-pattern-anywhere", json!({"type": "string", "pattern": "b+"})),
            json!("abba"),
            &[json!("aa"), json!("")],
        ),
        tried(field("schema-format-date", string("date")), json!("2026-01-02"), &[json!("2026-13-02")]),
        tried(field("schema-format-duration", string("duration")), json!("1h"), &[json!("soon")]),
        tried(field("schema-format-ipv4", string("ipv4")), json!("10.0.0.1"), &[json!("10.0.0.256")]),
        tried(
            field("schema-format-uuid", string("uuid")),
            json!("8c4fbb1f-ee5b-4d8b-9e1c-3f1d4a5b6c7d"),
            &[json!("8c4f")],
        ),
        tried(field("schema-format-byte", string("byte")), json!("aGVsbG8="), &[json!("a")]),
        tried(field("schema-format-uri", string("uri")), json!("http://a/b"), &[json!("a b")]),
        tried(field("schema-format-hostname", string("hostname")), json!("ab.com"), &[json!("a_b")]),
        tried(
            field(
                "schema-int-or-string-with-pattern",
                json!({"x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}),
            ),
            json!("5%"),
            &[json!("five"), json!(1.5), json!({})],
        ),
        tried(
            field(
                "schema-map-of-objects",
                json!({"type": "object", "maxProperties": 1, "additionalProperties":
                {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}}),
            ),
            json!({"k": {"x": 1}}),
            &[json!({"k": {}}), json!({"k": {"x": "1"}}), json!({"k": {"x": 1}, "l": {"x": 1}}), json!({"k": 5})],
        ),
        tried(
            field("schema-additional-properties-true", json!({"type": "object", "additionalProperties": true})),
            json!({"k": {"x": 1}, "l": 5}),
            &[json!([])],
        ),
        tried(
            field(
                "schema-list-set-of-objects",
                json!({"type": "array", "x-kubernetes-list-type": "set",
                "items": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "properties": {"x": {"type": "integer"}}}}),
            ),
            json!([{"x": 1}, {"x": 2}]),
            &[json!([{"x": 1}, {"x": 1}, {"x": 1}])],
        ),
        tried(
            field(
                "schema-list-map-with-two-keys",
                json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object", "required": ["k"],
                    "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"},
                        "v": {"type": "integer"}}}}),
            ),
            json!([{"k": "a"}, {"k": "a", "p": "UDP"}]),
            &[json!([{"k": "a", "v": 1}, {"k": "a", "p": "TCP", "v": 2}]), json!([{"p": "TCP"}])],
        ),
        tried(
            field(
                "schema-nested-lists",
                json!({"type": "array", "minItems": 1,
                "items": {"type": "array", "items": {"type": "integer", "enum": [1, 2]}}}),
            ),
            json!([[1], []]),
            &[json!([]), json!([[3]]), json!([[1, "2"]]), json!([1])],
        ),
        tried(
            field(
                "schema-enum-of-other-things",
                json!({"x-kubernetes-preserve-unknown-fields": true,
                "enum": [1, "x", {"k": 1}, null]}),
            ),
            json!({"k": 1}),
            &[json!(2), json!({"k": 2})],
        ),
        tried(
            field("schema-anything", json!({"x-kubernetes-preserve-unknown-fields": true})),
            json!([1, {"x": null}, "y"]),
            &[],
        ),
    ]
}

fn defaults() -> Vec<Case> {
    vec![
        field("schema-nullable-with-a-default", json!({"type": "string", "nullable": true, "default": "x"}))
            .post(crs(""), widget("null", json!({"a": null})))
            .expect(201)
            .see("/spec/a", json!(null))
            .post(crs(""), widget("absent", json!({})))
            .expect(201)
            .see("/spec/a", "x"),
        field("schema-default-in-lists-and-maps", json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "integer", "default": 80}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties":
                {"p": {"type": "integer", "default": 81}}}}}}))
            .post(crs(""), widget("one", json!({"a": {"l": [{}, {"p": 1}, null], "m": {"x": {}, "y": null}}})))
            .expect(422)
            .post(crs(""), widget("one", json!({"a": {"l": [{}, {"p": 1}], "m": {"x": {}}}})))
            .expect(201),
        field("schema-default-comes-back-after-its-removal", json!({"type": "string", "default": "x"}))
            .post(crs(""), widget("one", json!({"a": "y"})))
            .json_patch(crs("/one"), json!([{"op": "remove", "path": "/spec/a"}]))
            .expect(200)
            .see("/spec/a", "x")
            .see("/metadata/generation", 2)
            .merge(crs("/one"), json!({"spec": {"a": null}}))
            .see("/metadata/generation", 2),
        defined("schema-default-of-the-status", definition(json!({
            "spec": {"type": "object"},
            "status": {"type": "object", "default": {"phase": "New"}, "properties": {
                "phase": {"type": "string"}, "count": {"type": "integer", "default": 0}}}})))
            .post(crs(""), with(widget("one", json!({})), json!({"status": {"phase": "Mine"}})))
            .expect(201)
            .see("/status/phase", "New")
            .get(crs("/one"))
            .merge(crs("/one/status"), json!({"status": {"phase": "Ready", "count": null}}))
            .expect(200)
            .see("/status/count", 0)
            .see("/metadata/generation", 1)
            .merge(crs("/one/status"), json!({"status": {"phase": 5}}))
            .expect(422)
            .merge(crs("/one/status"), json!({"status": null}))
            .expect(200),
        field("schema-default-that-is-an-object", json!({"type": "object", "default": {"x": 1}, "properties": {
            "x": {"type": "integer"}, "y": {"type": "integer", "default": 2}}}))
            .post(crs(""), widget("one", json!({})))
            .see("/spec/a", json!({"x": 1, "y": 2})),
        field("schema-null-in-a-list", json!({"type": "array", "items": {"type": "string", "nullable": true}}))
            .post(crs(""), widget("one", json!({"a": [null, "x"]})))
            .expect(201),
    ]
}

fn metadata() -> Vec<Case> {
    let plain = |name| field(name, json!({"type": "string"}));
    let given = |meta: Value| with(widget("one", json!({"a": "x"})), json!({ "metadata": meta }));
    vec![
        plain("cr-unknown-metadata-is-dropped")
            .post(
                crs(""),
                given(json!({"colour": "red", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "shoe": 1}]})),
            )
            .expect(201)
            .warns("metadata.colour")
            .absent("/metadata/colour"),
        plain("cr-unknown-metadata-is-ignored")
            .post(crs("?fieldValidation=Ignore"), given(json!({"colour": "red"})))
            .expect(201)
            .absent("/metadata/colour"),
        plain("cr-metadata-of-the-wrong-type").post(crs(""), given(json!({"labels": {"a": 5}}))).expect(400),
        plain("cr-metadata-that-is-a-text")
            .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": "x"}))
            .expect(400),
        plain("cr-without-metadata")
            .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget"}))
            .expect(422),
        plain("cr-without-a-version").post(crs(""), json!({"kind": "Widget", "metadata": {"name": "one"}})).expect(400),
        plain("cr-of-another-group")
            .post(crs(""), json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "one"}}))
            .expect(400),
        plain("cr-strict-several-mistakes")
            .send("POST", crs("?fieldValidation=Strict"))
            .text(
                "application/json",
                r#"{"apiVersion":"${id}.example.com/v1","kind":"Widget",
                "metadata":{"name":"x","zz":1,"aa":2},"more":1,"spec":{"a":"1","a":"2","c":1,"b":{}}}"#,
            )
            .expect(400),
        plain("cr-warned-of-several-mistakes")
            .send("POST", crs(""))
            .text(
                "application/json",
                r#"{"apiVersion":"${id}.example.com/v1","kind":"Widget",
                "metadata":{"name":"x","zz":1,"aa":2},"more":1,"spec":{"a":"1","a":"2","c":1,"b":{}}}"#,
            )
            .expect(201),
        plain("cr-strict-patch")
            .post(crs(""), widget("one", json!({"a": "x"})))
            .merge(crs("/one?fieldValidation=Strict"), json!({"spec": {"b": 1}}))
            .expect(422)
            .merge(crs("/one"), json!({"spec": {"b": 1}}))
            .expect(200)
            .warns("spec.b"),
        plain("cr-patch-of-the-kind")
            .post(crs(""), widget("one", json!({"a": "x"})))
            .merge(crs("/one"), json!({"kind": "Gadget"}))
            .expect(422),
        plain("cr-update-of-the-kind")
            .post(crs(""), widget("one", json!({"a": "x"})))
            .named("one")
            .put(
                crs("/one"),
                with(
                    widget("one", json!({"a": "y"})),
                    json!({"kind": "Gadget", "metadata": {"resourceVersion": "${rv:one}"}}),
                ),
            )
            .expect(422),
        plain("cr-finalizer-without-a-domain")
            .post(crs(""), given(json!({"finalizers": ["held", "a.com", "b.com/x"]})))
            .expect(201)
            .warns("held"),
        plain("cr-metadata-is-kept-whole")
            .post(
                crs(""),
                given(json!({"labels": {}, "annotations": {"a": ""},
                "generation": 7, "finalizers": [], "selfLink": "x", "creationTimestamp": null})),
            )
            .expect(201)
            .see("/metadata/generation", 1),
        plain("cr-generation-counts-only-what-is-not-metadata")
            .post(crs(""), widget("one", json!({"a": "x"})))
            .merge(crs("/one"), json!({"metadata": {"labels": {"a": "b"}}}))
            .see("/metadata/generation", 1)
            .merge(crs("/one"), json!({"spec": {"unknown": 1}}))
            .see("/metadata/generation", 1)
            .merge(crs("/one"), json!({"spec": {"a": "y"}}))
            .see("/metadata/generation", 2)
            .merge(crs("/one"), json!({"spec": null}))
            .see("/metadata/generation", 3),
        plain("cr-subresource-that-is-unknown")
            .get(crs("/one/other"))
            .expect(404)
            .delete(crs("/one/status"))
            .expect(405),
    ]
}

/// Embedded objects with an invalid apiVersion, kind or metadata. The order of two errors is not
/// defined.
fn embedding_errors(mut case: Case) -> Case {
    let wrong = [
        (json!("a/b/c"), json!("Pod"), 422),
        (json!("v1"), json!("Po d"), 422),
        (json!(""), json!("Pod"), 422),
        (json!("v1"), json!(""), 422),
        (json!(1), json!("Pod"), 400),
        (json!("v1"), json!(["Pod"]), 400),
    ];
    for (version, kind, code) in wrong {
        case = case.post(crs(""), widget("one", json!({"a": {"apiVersion": version, "kind": kind}}))).expect(code);
    }
    case
}

fn embedded() -> Vec<Case> {
    let holder = |name| {
        field(
            name,
            json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}),
        )
    };
    let of = |meta: Value| widget("one", json!({"a": {"apiVersion": "v1", "kind": "Pod", "metadata": meta}}));
    vec![
        holder("cr-embedded-metadata-of-the-wrong-type").post(crs(""), of(json!({"labels": {"a": 5}}))).expect(400),
        holder("cr-embedded-metadata-that-is-a-text").post(crs(""), of(json!("x"))).expect(400),
        holder("cr-embedded-metadata-that-is-wrong")
            .post(crs(""), of(json!({"name": "a/b", "labels": {"-": "b c"}})))
            .expect(422),
        embedding_errors(holder("cr-embedded-kind-that-is-wrong")),
        holder("cr-embedded-metadata-that-is-unknown")
            .post(crs("?fieldValidation=Strict"), of(json!({"name": "p", "colour": "red"})))
            .expect(400)
            .post(crs(""), of(json!({"name": "p", "colour": "red", "creationTimestamp": null})))
            .expect(201)
            .warns("spec.a.metadata.colour"),
    ]
}

fn selected() -> Vec<Case> {
    let mut crd = definition(json!({"spec": {"type": "object", "properties": {
        "n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"}}}}));
    crd["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.b"}, {"jsonPath": ".spec.s"}]);
    let selector = |text: &str| crs(&format!("?fieldSelector={text}"));
    let later = |op: &str| {
        json!([{"op": op, "path": "/spec/versions/0/selectableFields", "value": [
        {"jsonPath": ".spec.n"}]}])
    };
    vec![
        defined("cr-selectable-numbers-and-flags", crd)
            .post(crs(""), widget("one", json!({"n": 5, "b": true, "s": "x"})))
            .post(crs(""), widget("two", json!({})))
            .get(selector("spec.n%3D5"))
            .see("/items/0/metadata/name", "one")
            .absent("/items/1")
            .get(selector("spec.b%3Dtrue,spec.s%3Dx"))
            .see("/items/0/metadata/name", "one")
            .get(selector("spec.s%3D"))
            .get(selector("spec.n!%3D5"))
            .see("/items/0/metadata/name", "two")
            .send("DELETE", selector("spec.n%3D5"))
            .expect(200)
            .get(crs(""))
            .see("/items/0/metadata/name", "two"),
        defined(
            "cr-selectable-fields-that-come-later",
            definition(json!({"spec": {"type": "object", "properties": {
            "n": {"type": "integer"}}}})),
        )
        .post(crs(""), widget("one", json!({"n": 5})))
        .json_patch(CRD, later("add"))
        .expect(200)
        .until(selector("spec.n%3D5"))
        .expect(200)
        .see("/items/0/metadata/name", "one"),
        defined("cr-path-without-a-namespace", widgets())
            .post("/apis/${id}.example.com/v1/widgets", widget("one", json!({})))
            .expect(404)
            .delete("/apis/${id}.example.com/v1/widgets")
            .expect(404)
            .get("/apis/${id}.example.com/v1/widgets/one")
            .expect(404),
        defined("cr-status-of-an-old-version", widgets())
            .post(crs(""), widget("one", json!({})))
            .named("one")
            .merge(crs("/one"), json!({"spec": {"a": 1}}))
            .put(
                crs("/one/status"),
                with(
                    widget("one", json!({})),
                    json!({"metadata": {"resourceVersion": "${rv:one}"}, "status": {"a": 1}}),
                ),
            )
            .expect(409)
            .put(
                crs("/none/status"),
                with(
                    widget("none", json!({})),
                    json!({"metadata": {"resourceVersion": "${rv:one}"}, "status": {"a": 1}}),
                ),
            )
            .expect(404),
    ]
}
