use serde_json::{Value, json};

use super::apply::scale;
use super::{crs, defined, definition, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [custom(), versions()].into_iter().flatten().collect()
}

/// A Widget.
fn widget(spec: Value) -> Value {
    json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn custom() -> Vec<Case> {
    let text = || json!({"type": "string"});
    let typed = |name, spec: Value| {
        let spec = json!({"type": "object", "properties": spec});
        let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        defined(name, definition(json!({"spec": spec, "status": status})))
    };
    let list = |kind: &str, items: Value| json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
    let item = || {
        json!({
            "type": "object", "required": ["name"],
            "properties": {"name": text(), "value": text(), "port": {"type": "integer", "default": 80}},
        })
    };
    let by_keys = with(list("map", item()), json!({"x-kubernetes-list-map-keys": ["name", "port"]}));
    let free = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    vec![
        typed("apply-of-a-custom-resource", json!({"a": text(), "b": text()}))
            .apply(crs("/w"), "a", widget(json!({"a": "1", "b": "2"})))
            .expect(201)
            .apply(crs("/w"), "b", widget(json!({"a": "2"})))
            .expect(409)
            .apply(crs("/w"), "a", widget(json!({"a": "1"})))
            .expect(200)
            .absent("/spec/b")
            .apply(crs("/w"), "a", widget(json!({"a": "1"})))
            .expect(200),
        typed("apply-of-a-custom-list-by-keys", json!({"list": by_keys}))
            .apply(crs("/w"), "a", widget(json!({"list": [{"name": "x", "value": "1"}, {"name": "y", "port": 81}]})))
            .expect(201)
            .apply(crs("/w"), "b", widget(json!({"list": [{"name": "z"}, {"name": "x", "port": 80}]})))
            .expect(200)
            .apply(crs("/w"), "a", widget(json!({"list": [{"name": "x"}]})))
            .expect(200),
        typed("apply-of-a-custom-set", json!({"set": list("set", text())}))
            .apply(crs("/w"), "a", widget(json!({"set": ["x", "y"]})))
            .expect(201)
            .apply(crs("/w"), "b", widget(json!({"set": ["y", "z"]})))
            .expect(200)
            .apply(crs("/w"), "a", widget(json!({"set": ["z"]})))
            .expect(200)
            .see("/spec/set", json!(["y", "z"])),
        typed(
            "apply-of-a-custom-atomic-list",
            json!({"list": list("atomic", text()), "plain": {"type": "array", "items": text()}}),
        )
        .apply(crs("/w"), "a", widget(json!({"list": ["x"], "plain": ["x"]})))
        .expect(201)
        .apply(crs("/w"), "b", widget(json!({"list": ["y"], "plain": ["x"]})))
        .expect(409),
        typed(
            "apply-of-a-custom-atomic-map",
            json!({
                "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text()},
                "granular": {"type": "object", "additionalProperties": text()},
            }),
        )
        .apply(crs("/w"), "a", widget(json!({"atomic": {"x": "1"}, "granular": {"x": "1"}})))
        .expect(201)
        .apply(crs("/w"), "b", widget(json!({"granular": {"y": "2"}})))
        .expect(200)
        .apply(crs("/w"), "b", widget(json!({"atomic": {"y": "2"}})))
        .expect(409),
        typed("apply-of-unknown-custom-fields", json!({"a": text()}))
            .apply(crs("/w"), "a", widget(json!({"a": "1", "nonsense": 1})))
            .expect(500)
            .message_contains(".spec.nonsense: field not declared in schema"),
        defined("apply-of-preserved-custom-fields", definition(json!({"spec": free()})))
            .apply(crs("/w"), "a", widget(json!({"any": {"x": [1, 2], "y": {"z": true}}, "n": 1.5})))
            .expect(201)
            .apply(crs("/w"), "b", widget(json!({"any": {"y": {"w": null}}, "m": {}})))
            .expect(200)
            .apply(crs("/w"), "a", widget(json!({"any": {"x": [1]}})))
            .expect(200),
        typed("apply-of-a-custom-int-or-string", json!({"port": {"x-kubernetes-int-or-string": true}}))
            .apply(crs("/w"), "a", widget(json!({"port": 80})))
            .expect(201)
            .apply(crs("/w"), "a", widget(json!({"port": "http"})))
            .expect(200),
        typed("apply-of-custom-defaults", json!({"a": {"type": "string", "default": "x"}, "b": text()}))
            .apply(crs("/w"), "a", widget(json!({"b": "1"})))
            .expect(201)
            .apply(crs("/w"), "b", widget(json!({"a": "y"})))
            .expect(200)
            .apply(crs("/w"), "b", widget(json!({})))
            .expect(200)
            .see("/spec/a", "x"),
        typed(
            "apply-of-an-embedded-resource",
            json!({"object": {
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            }}),
        )
        .apply(
            crs("/w"),
            "a",
            widget(json!({"object": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"x": 1},
            }})),
        )
        .expect(201),
        typed("apply-of-a-custom-status", json!({"a": text()}))
            .apply(crs("/w"), "a", with(widget(json!({"a": "1"})), json!({"status": {"x": 1}})))
            .expect(201)
            .absent("/status")
            .apply(crs("/w/status"), "s", with(widget(json!({"a": "9"})), json!({"status": {"x": 2}})))
            .expect(200)
            .see("/status/x", 2)
            .see("/spec/a", "1")
            .merge(crs("/w/status?fieldManager=u"), json!({"status": {"x": 3}}))
            .expect(200),
        typed("apply-of-a-wrong-custom-type", json!({"a": text()}))
            .apply(crs("/w"), "a", widget(json!({"a": 1})))
            .expect(500),
        typed("apply-of-neighbouring-big-integers", json!({"n": {"type": "integer"}, "x": {"type": "number"}}))
            .apply(crs("/w"), "a", widget(json!({"n": 9_007_199_254_740_992_i64, "x": 1.0})))
            .expect(201)
            .apply(crs("/w"), "a", widget(json!({"n": 9_007_199_254_740_993_i64, "x": 1})))
            .expect(200)
            .see("/spec/n", 9_007_199_254_740_993_i64)
            .apply(crs("/w"), "b", widget(json!({"n": 9_007_199_254_740_992_i64})))
            .expect(409)
            .merge(crs("/w?fieldManager=u"), json!({"spec": {"n": 9_007_199_254_740_992_i64}}))
            .expect(200),
        typed("apply-of-a-wrong-type-with-a-format", json!({"a": {"type": "string", "format": "date-time"}}))
            .apply(crs("/w"), "a", widget(json!({"a": 1})))
            .expect(422),
        typed("apply-of-a-wrong-type-with-an-unknown-format", json!({"a": {"type": "string", "format": "nonsense"}}))
            .apply(crs("/w"), "a", widget(json!({"a": 1})))
            .expect(422)
            .apply(crs("/w"), "a", widget(json!({"a": {"b": 1}})))
            .expect(500),
        typed("apply-of-a-wrong-type-with-the-format-of-bytes", json!({"a": {"type": "string", "format": "byte"}}))
            .apply(crs("/w"), "a", widget(json!({"a": 1})))
            .expect(500),
        typed("apply-of-a-wrong-type-with-an-empty-format", json!({"a": {"type": "string", "format": ""}}))
            .apply(crs("/w"), "a", widget(json!({"a": 1})))
            .expect(500),
        typed("apply-of-an-invalid-custom-value", json!({"a": {"type": "string", "enum": ["x"]}}))
            .apply(crs("/w"), "a", widget(json!({"a": "y"})))
            .expect(422),
        typed("update-of-a-custom-resource-by-two", json!({"a": text(), "b": text()}))
            .post(format!("{}?fieldManager=u", crs("")), widget(json!({"a": "1"})))
            .expect(201)
            .merge(crs("/w?fieldManager=v"), json!({"spec": {"b": "2"}}))
            .expect(200)
            .merge(crs("/w?fieldManager=w"), json!({"spec": null}))
            .expect(200),
        typed("apply-without-a-manager-to-a-custom-resource", json!({}))
            .send("PATCH", crs("/w"))
            .text("application/apply-patch+yaml", widget(json!({})).to_string())
            .expect(422),
        scaled("apply-of-a-custom-scale")
            .apply(crs("/w"), "a", widget(json!({"replicas": 2})))
            .expect(201)
            .apply(crs("/w/scale"), "s", with(scale(3), json!({"metadata": {"name": "w"}})))
            .expect(409)
            .apply(crs("/w/scale?force=true"), "s", with(scale(3), json!({"metadata": {"name": "w"}})))
            .expect(500)
            .get(crs("/w")),
        scaled("update-of-a-custom-scale")
            .apply(crs("/w"), "a", widget(json!({"replicas": 2})))
            .expect(201)
            .merge(crs("/w/scale?fieldManager=u"), json!({"spec": {"replicas": 4}}))
            .expect(200)
            .get(crs("/w")),
    ]
}

/// A case with Widgets that can be scaled.
fn scaled(name: &'static str) -> Case {
    let count = || json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let mut definition = definition(json!({"spec": count(), "status": count()}));
    definition["spec"]["versions"][0]["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    defined(name, definition)
}

fn versions() -> Vec<Case> {
    const V1: &str = "/apis/autoscaling/v1/namespaces/${ns}/horizontalpodautoscalers";
    const V2: &str = "/apis/autoscaling/v2/namespaces/${ns}/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let hpa = |version: &str, spec: Value| {
        let spec = with(json!({"scaleTargetRef": target, "maxReplicas": 5}), spec);
        json!({
            "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"}, "spec": spec,
        })
    };
    let two_versions = |name| {
        let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut definition = definition(json!({"spec": object, "status": object}));
        let mut second = definition["spec"]["versions"][0].clone();
        second["name"] = "v2".into();
        second["storage"] = false.into();
        definition["spec"]["versions"].as_array_mut().unwrap().push(second);
        defined(name, definition).until("/apis/${id}.example.com/v2/namespaces/${ns}/widgets").expect(200)
    };
    let second = |rest: &str| format!("/apis/${{id}}.example.com/v2/namespaces/${{ns}}/widgets{rest}");
    let second_widget = |spec: Value| with(widget(spec), json!({"apiVersion": "${id}.example.com/v2"}));
    vec![
        case("apply-in-two-versions")
            .apply(format!("{V2}/h"), "a", hpa("v2", json!({"minReplicas": 2})))
            .expect(201)
            .apply(format!("{V1}/h"), "b", hpa("v1", json!({"minReplicas": 3})))
            .expect(409)
            .apply(format!("{V1}/h?force=true"), "b", hpa("v1", json!({"minReplicas": 3, "targetCPUUtilizationPercentage": 50})))
            .expect(200)
            .apply(format!("{V1}/h?force=true"), "a", hpa("v1", json!({})))
            .expect(200),
        case("update-in-two-versions")
            .post(format!("{V1}?fieldManager=u"), hpa("v1", json!({"targetCPUUtilizationPercentage": 50})))
            .expect(201)
            .merge(format!("{V2}/h?fieldManager=v"), json!({"spec": {"minReplicas": 2}}))
            .expect(200)
            .merge(format!("{V2}/h?fieldManager=v"), json!({"spec": {"metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
            ]}}))
            .expect(200),
        two_versions("apply-of-two-custom-versions")
            .apply(crs("/w"), "a", widget(json!({"x": 1})))
            .expect(201)
            .apply(second("/w"), "b", second_widget(json!({"x": 2})))
            .expect(409)
            .apply(second("/w"), "a", second_widget(json!({"y": 1})))
            .expect(200)
            .merge(second("/w?fieldManager=u"), json!({"spec": {"y": 2}}))
            .expect(200)
            .get(crs("/w")),
    ]
}
