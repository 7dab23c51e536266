use serde_json::{Value, json};

use super::{MAPS, map, maps, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [merge(), json(), kinds(), field_validation()].into_iter().flatten().collect()
}

/// A ConfigMap `one` with two values.
fn one(name: &'static str) -> Case {
    case(name).post(MAPS, with(map("one"), json!({"data": {"a": "1", "b": "2"}}))).named("one").expect(201)
}

fn merge() -> Vec<Case> {
    let patch = |name, body: Value| one(name).merge(maps("/one"), body);
    vec![
        patch("merge-patch-adds-and-changes", json!({"data": {"b": "3", "c": "4"}})).expect(200).see("/data/a", "1"),
        patch("merge-patch-null-removes", json!({"data": {"a": null}})).expect(200).absent("/data/a"),
        patch("merge-patch-that-changes-nothing", json!({})).expect(200).see("/metadata/resourceVersion", "${rv:one}"),
        patch("merge-patch-with-an-old-version", json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "9"}}))
            .expect(409),
        patch(
            "merge-patch-with-the-current-version",
            json!({"metadata": {"resourceVersion": "${rv:one}"}, "data": {"a": "9"}}),
        )
        .expect(200),
        patch("merge-patch-that-is-a-list", json!([])).expect(400),
        patch("merge-patch-that-is-null", json!(null)).expect(400),
        patch("merge-patch-with-a-wrong-type", json!({"data": {"a": 5}})).expect(422),
        patch("merge-patch-that-makes-it-invalid", json!({"metadata": {"labels": {"a": "b c"}}})).expect(422),
        patch("merge-patch-of-the-kind", json!({"kind": "Secret"})).expect(422),
        one("merge-patch-that-is-no-json")
            .send("PATCH", maps("/one"))
            .text("application/merge-patch+json", "{")
            .expect(400),
        one("merge-patch-that-is-empty")
            .send("PATCH", maps("/one"))
            .text("application/merge-patch+json", "")
            .expect(400),
        case("merge-patch-of-nothing").merge(maps("/none"), json!({"data": {}})).expect(404),
        case("merge-patch-of-a-collection").merge(MAPS, json!({"data": {}})).expect(405),
        one("merge-patch-replaces-lists")
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}))
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/c"]}}))
            .see("/metadata/finalizers", json!(["example.com/c"]))
            .merge(maps("/one"), json!({"metadata": {"finalizers": []}}))
            .absent("/metadata/finalizers"),
    ]
}

fn json() -> Vec<Case> {
    let patch = |name, body: Value| one(name).json_patch(maps("/one"), body);
    vec![
        patch(
            "json-patch-add-replace-remove",
            json!([
                {"op": "add", "path": "/data/c", "value": "3"},
                {"op": "replace", "path": "/data/a", "value": "9"},
                {"op": "remove", "path": "/data/b"},
            ]),
        )
        .expect(200)
        .see("/data", json!({"a": "9", "c": "3", "k": "v"})),
        patch(
            "json-patch-copy-and-move",
            json!([
                {"op": "copy", "from": "/data/a", "path": "/data/c"},
                {"op": "move", "from": "/data/b", "path": "/data/d"},
            ]),
        )
        .expect(200)
        .see("/data", json!({"a": "1", "c": "1", "d": "2", "k": "v"})),
        patch(
            "json-patch-test-that-holds",
            json!([
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "replace", "path": "/data/a", "value": "2"},
            ]),
        )
        .expect(200),
        patch("json-patch-test-that-fails", json!([{"op": "test", "path": "/data/a", "value": "5"}])).expect(422),
        patch("json-patch-remove-of-nothing", json!([{"op": "remove", "path": "/data/none"}])).expect(422),
        patch("json-patch-replace-of-nothing-adds", json!([{"op": "replace", "path": "/data/none", "value": "1"}]))
            .expect(200),
        patch("json-patch-add-below-nothing", json!([{"op": "add", "path": "/none/a", "value": "1"}])).expect(422),
        patch("json-patch-unknown-operation", json!([{"op": "swap", "path": "/data/a", "value": "1"}])).expect(422),
        patch("json-patch-without-an-operation", json!([{"path": "/data/a"}])).expect(422),
        patch("json-patch-without-a-path", json!([{"op": "add", "value": "1"}])).expect(422),
        patch("json-patch-that-is-an-object", json!({"op": "add"})).expect(400),
        patch("json-patch-that-is-empty-changes-nothing", json!([]))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:one}"),
        patch(
            "json-patch-path-with-escapes",
            json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "1"},
            ]),
        )
        .expect(422),
        patch(
            "json-patch-adds-to-lists",
            json!([
                {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/b"]},
                {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/a"},
                {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
            ]),
        )
        .expect(200)
        .see("/metadata/finalizers", json!(["example.com/a", "example.com/b", "example.com/c"])),
        patch(
            "json-patch-list-index-out-of-range",
            json!([
                {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/b"]},
                {"op": "add", "path": "/metadata/finalizers/5", "value": "example.com/a"},
            ]),
        )
        .expect(422),
        patch(
            "json-patch-test-of-the-version",
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "${rv:one}"},
                {"op": "replace", "path": "/data/a", "value": "2"},
            ]),
        )
        .expect(200),
    ]
}

/// Which patches there are.
fn kinds() -> Vec<Case> {
    let typed = |name, content_type| one(name).send("PATCH", maps("/one")).text(content_type, r#"{"data":{"a":"9"}}"#);
    vec![
        typed("patch-of-an-unknown-type", "text/plain").expect(415),
        typed("patch-of-plain-json", "application/json").expect(415),
        typed("patch-type-with-a-parameter", "application/merge-patch+json; charset=utf-8").expect(200),
        one("patch-without-a-type").send("PATCH", maps("/one")).text("", r#"{"data":{"a":"9"}}"#).expect(415),
        typed("patch-with-force", "application/merge-patch+json").merge(maps("/one?force=true"), json!({})).expect(422),
    ]
}

fn field_validation() -> Vec<Case> {
    let unknown = with(map("one"), json!({"shoe": "lace", "metadata": {"colour": "red"}}));
    let double = r#"{"metadata":{"name":"one"},"data":{"a":"1","a":"2"}}"#;
    vec![
        case("field-validation-strict-unknown").post(maps("?fieldValidation=Strict"), unknown.clone()).expect(400),
        case("field-validation-warn-unknown")
            .post(maps("?fieldValidation=Warn"), unknown.clone())
            .expect(201)
            .warns("unknown field"),
        case("field-validation-ignore-unknown").post(maps("?fieldValidation=Ignore"), unknown.clone()).expect(201),
        case("field-validation-default-is-warn").post(MAPS, unknown.clone()).expect(201).warns("unknown field"),
        case("field-validation-of-another-value").post(maps("?fieldValidation=Perhaps"), map("one")).expect(422),
        case("field-validation-strict-double")
            .send("POST", maps("?fieldValidation=Strict"))
            .text("application/json", double)
            .expect(400),
        case("field-validation-warn-double").send("POST", MAPS).text("application/json", double).expect(201),
        one("field-validation-strict-merge-patch")
            .merge(maps("/one?fieldValidation=Strict"), json!({"shoe": "lace"}))
            .expect(422),
        one("field-validation-warn-merge-patch")
            .merge(maps("/one"), json!({"shoe": "lace"}))
            .expect(200)
            .warns("unknown field"),
        one("field-validation-strict-json-patch")
            .json_patch(maps("/one?fieldValidation=Strict"), json!([{"op": "add", "path": "/shoe", "value": 1}]))
            .expect(422),
        one("field-validation-strict-update").put(maps("/one?fieldValidation=Strict"), unknown).expect(400),
        case("field-names-in-another-case").post(MAPS, json!({"Metadata": {"Name": "one"}})).expect(422),
        case("field-validation-in-a-template")
            .post(
                "/apis/apps/v1/namespaces/${ns}/deployments?fieldValidation=Strict",
                json!({"metadata": {"name": "d"}, "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
                        "shoe": 1}]}},
                }}),
            )
            .expect(400),
    ]
}
