//! One object in several forms: scales, kinds of two versions or groups, YAML, metadata alone.

use serde_json::{Value, json};

use super::{CRDS, MAPS, crs, defined, map, maps, widget, widgets};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [scales(), custom_scales(), autoscalers(), events(), yaml(), negotiation(), kinds_in_another_case(), labels()]
        .into_iter()
        .flatten()
        .collect()
}

/// The kinds that can be scaled, with an object `d` of each.
fn scalable() -> [(&'static str, Value); 4] {
    let template = json!({"metadata": {"labels": {"a": "b", "b": "c", "z": "p"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"b": "c", "a": "b"},
        "matchExpressions": [{"key": "z", "operator": "In", "values": ["q", "p"]}]});
    let object = |selector: &Value| json!({"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": selector, "template": template}});
    [
        ("/apis/apps/v1/namespaces/${ns}/deployments", object(&selector)),
        ("/apis/apps/v1/namespaces/${ns}/replicasets", object(&selector)),
        ("/apis/apps/v1/namespaces/${ns}/statefulsets", object(&selector)),
        ("/api/v1/namespaces/${ns}/replicationcontrollers", object(&json!({"b": "c", "a": "b"}))),
    ]
}

/// One case that goes through all kinds.
fn of_each(name: &'static str, steps: impl Fn(Case, &str) -> Case) -> Case {
    scalable()
        .into_iter()
        .fold(case(name), |case, (path, object)| steps(case.post(path, object).expect(201), &format!("{path}/d/scale")))
}

fn scales() -> Vec<Case> {
    let scale = |meta: Value, spec: Value| json!({"metadata": meta, "spec": spec});
    let name = || json!({"name": "d"});
    vec![
        of_each("scale-of-every-kind", |case, path| {
            case.get(path)
                .expect(200)
                .see("/spec/replicas", 2)
                .put(path, scale(name(), json!({"replicas": 3})))
                .see("/spec/replicas", 3)
                .merge(path, json!({"spec": {"replicas": 4}}))
                .json_patch(path, json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]))
                .expect(200)
                .get(path.trim_end_matches("/scale"))
                .see("/spec/replicas", 5)
        }),
        of_each("scale-below-zero-of-every-kind", |case, path| {
            case.put(path, scale(name(), json!({"replicas": -1}))).expect(422)
        }),
        of_each("scale-of-another-uid", |case, path| {
            case.put(path, scale(json!({"name": "d", "uid": "x"}), json!({"replicas": 3})))
                .expect(409)
                .merge(path, json!({"metadata": {"uid": "x"}}))
                .expect(409)
        }),
        of_each("scale-of-an-old-version", |case, path| {
            case.put(path, scale(json!({"name": "d", "resourceVersion": "1"}), json!({"replicas": 3})))
                .expect(409)
                .merge(path, json!({"metadata": {"resourceVersion": "1"}}))
                .expect(409)
                .put(path, scale(json!({"name": "d", "resourceVersion": "x"}), json!({"replicas": 3})))
                .expect(500)
        }),
        of_each("scale-without-replicas-is-zero", |case, path| {
            case.put(path, json!({"metadata": name()})).expect(200).absent("/spec/replicas").get(path)
        }),
        of_each("scale-with-wrong-metadata", |case, path| {
            case.put(path, scale(json!({"name": "d", "labels": {"a": "b c"}}), json!({"replicas": 3})))
                .expect(422)
                .put(path, scale(json!({"name": "x"}), json!({"replicas": 3})))
                .expect(400)
                .put(path, scale(json!({"name": "d", "namespace": "x"}), json!({"replicas": 3})))
                .expect(400)
                .put(path, json!({"spec": {"replicas": 3}}))
                .expect(400)
        }),
        of_each("scale-in-other-forms", |case, path| {
            case.get(path)
                .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
                .expect(200)
                .put(format!("{path}?dryRun=All"), scale(name(), json!({"replicas": 9})))
                .expect(200)
                .put(path, json!({"apiVersion": "autoscaling/v2", "kind": "Scale", "metadata": name()}))
                .expect(400)
                .merge(path, json!({"spec": {"replicas": "x"}}))
                .expect(422)
                .delete(path)
                .expect(405)
                .get(path)
                .see("/spec/replicas", 2)
        }),
        case("scale-of-nothing")
            .get("/apis/apps/v1/namespaces/${ns}/deployments/d/scale")
            .expect(404)
            .merge("/apis/apps/v1/namespaces/${ns}/deployments/d/scale", json!({"spec": {"replicas": 3}}))
            .expect(404)
            .put("/api/v1/namespaces/${ns}/replicationcontrollers/d/scale", json!({"metadata": {"name": "d"}}))
            .expect(404),
    ]
}

fn custom_scales() -> Vec<Case> {
    let scaled = |name| {
        let mut crd = widgets();
        crd["spec"]["versions"][0]["subresources"]["scale"] = json!({
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        });
        defined(name, crd)
    };
    vec![
        scaled("cr-scale-that-was-never-set")
            .post(crs(""), widget("one", json!({})))
            .merge(crs("/one/scale"), json!({"metadata": {"name": "one"}}))
            .expect(400)
            .merge(crs("/one/scale"), json!({"spec": {"replicas": 3}}))
            .expect(200)
            .put(crs("/one/scale"), json!({"metadata": {"name": "one"}, "spec": {"replicas": 4}}))
            .expect(200)
            .get(crs("/one"))
            .see("/spec/replicas", 4)
            .see("/metadata/generation", 3),
        scaled("cr-scale-conflicts")
            .post(crs(""), widget("one", json!({"replicas": 1})))
            .put(crs("/one/scale"), json!({"metadata": {"name": "one", "uid": "x"}, "spec": {"replicas": 4}}))
            .expect(409)
            .put(crs("/one/scale"), json!({"metadata": {"name": "one", "resourceVersion": "1"}}))
            .expect(409)
            .put(crs("/two/scale"), json!({"metadata": {"name": "two"}}))
            .expect(404)
            .put(crs("/one/scale"), json!({"metadata": {"name": "one"}, "spec": {"replicas": "x"}}))
            .expect(400)
            .delete(crs("/one/scale"))
            .expect(405),
        scaled("cr-scale-fields-have-their-types")
            .post(crs(""), widget("one", json!({"replicas": 1})))
            .merge(crs("/one"), json!({"spec": {"replicas": "five"}}))
            .expect(422)
            .merge(crs("/one"), json!({"spec": {"replicas": 3_000_000_000_i64}}))
            .expect(422)
            .merge(crs("/one/status"), json!({"status": {"replicas": 1, "selector": {"a": "b"}}}))
            .expect(422)
            .merge(crs("/one/status"), json!({"status": {"replicas": -1}}))
            .expect(422)
            .post(crs(""), widget("two", json!({"replicas": -1})))
            .expect(422),
    ]
}

fn autoscalers() -> Vec<Case> {
    const V1: &str = "/apis/autoscaling/v1/namespaces/${ns}/horizontalpodautoscalers";
    const V2: &str = "/apis/autoscaling/v2/namespaces/${ns}/horizontalpodautoscalers";
    let one = |path: &str| format!("{path}/h");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = |more: Value| {
        let mut spec = json!({"scaleTargetRef": target, "maxReplicas": 5});
        super::merge(&mut spec, more);
        json!({"metadata": {"name": "h"}, "spec": spec})
    };
    vec![
        case("autoscaler-written-in-v1-read-in-v2")
            .post(V1, spec(json!({"targetCPUUtilizationPercentage": 50})))
            .expect(201)
            .get(one(V2))
            .expect(200)
            .get(one(V1))
            .expect(200)
            .merge(one(V1), json!({"spec": {"targetCPUUtilizationPercentage": 60}}))
            .expect(200)
            .get(one(V2))
            .see("/spec/metrics/0/resource/target/averageUtilization", 60),
        case("autoscaler-of-v1-without-a-target").post(V1, spec(json!({}))).expect(201).get(one(V2)).expect(200),
        case("autoscaler-written-in-v2-read-in-v1")
            .post(
                V2,
                spec(json!({
                    "metrics": [
                        {"type": "Resource", "resource": {"name": "memory",
                            "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                        {"type": "Pods", "pods": {"metric": {"name": "p"},
                            "target": {"type": "AverageValue", "averageValue": "5"}}},
                        {"type": "Object", "object": {"metric": {"name": "o"}, "describedObject": target,
                            "target": {"type": "Value", "value": "7"}}},
                        {"type": "External", "external": {"metric": {"name": "e",
                            "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "30"}}},
                        {"type": "Resource", "resource": {"name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 40}}},
                    ],
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
                })),
            )
            .expect(201)
            .get(one(V1))
            .expect(200)
            .see("/spec/targetCPUUtilizationPercentage", 40)
            .merge(one(V1), json!({"metadata": {"labels": {"x": "y"}}}))
            .expect(200)
            .get(one(V2))
            .expect(200)
            .get(V1)
            .expect(200),
        case("autoscaler-status-in-both-versions")
            .post(V2, spec(json!({})))
            .merge(
                format!("{V2}/h/status"),
                json!({"status": {"currentReplicas": 1, "desiredReplicas": 2,
                    "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "m",
                        "lastTransitionTime": "2020-01-01T00:00:00Z"}],
                    "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                        "current": {"averageUtilization": 33, "averageValue": "100m"}}}]}}),
            )
            .expect(200)
            .get(one(V1))
            .see("/status/currentCPUUtilizationPercentage", 33)
            .get(one(V2))
            .expect(200),
        case("autoscaler-of-v1-that-is-wrong").post(V1, spec(json!({"maxReplicas": 0}))).expect(422),
        case("autoscaler-watched-in-v1")
            .post(V2, spec(json!({})))
            .named("h")
            .watch("w", format!("{V1}?watch=true&resourceVersion=${{rv:h}}"))
            .merge(one(V2), json!({"spec": {"maxReplicas": 6}}))
            .events("w", "MODIFIED h"),
    ]
}

fn events() -> Vec<Case> {
    const CORE: &str = "/api/v1/namespaces/${ns}/events";
    const NEW: &str = "/apis/events.k8s.io/v1/namespaces/${ns}/events";
    let event = || {
        json!({
            "metadata": {"name": "e"}, "eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
            "reportingInstance": "c-1", "action": "Act", "reason": "Because", "type": "Normal", "note": "text",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "${ns}"},
        })
    };
    let wrong = |name, change: Value| case(name).post(NEW, super::with(event(), change)).expect(422);
    vec![
        case("event-selected-by-the-names-of-both-groups")
            .post(NEW, event())
            .expect(201)
            .get(format!("{NEW}?fieldSelector=regarding.name%3Dp,reportingController%3Dexample.com/c"))
            .see("/items/0/metadata/name", "e")
            .get(format!("{CORE}?fieldSelector=involvedObject.name%3Dp,source%3Dexample.com/c"))
            .see("/items/0/metadata/name", "e")
            .get(format!("{CORE}?fieldSelector=regarding.name%3Dp"))
            .expect(400)
            .get(format!("{NEW}?fieldSelector=involvedObject.name%3Dp"))
            .expect(400),
        case("event-of-the-new-group-can-hardly-change")
            .post(NEW, event())
            .merge(format!("{NEW}/e"), json!({"note": "other"}))
            .expect(422)
            .merge(format!("{NEW}/e"), json!({"series": {"count": 1}}))
            .expect(422)
            .merge(
                format!("{NEW}/e"),
                json!({"series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}}),
            )
            .expect(200)
            .merge(format!("{CORE}/e"), json!({"message": "other"}))
            .expect(200)
            .get(format!("{NEW}/e"))
            .see("/note", "other"),
        wrong("event-of-the-new-group-without-a-time", json!({"eventTime": null})),
        wrong("event-of-the-new-group-with-another-type", json!({"type": "Shoe"})),
        wrong(
            "event-of-the-new-group-with-old-fields",
            json!({"deprecatedCount": 1, "deprecatedSource": {"host": "h"}}),
        ),
        case("event-of-the-new-group-that-is-not-there").get(format!("{NEW}/e")).expect(404),
        case("event-watched-in-the-other-group")
            .post(CORE, json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "${ns}"}, "message": "x"}))
            .named("e")
            .watch("w", format!("{NEW}?watch=true&resourceVersion=${{rv:e}}"))
            .merge(format!("{CORE}/e"), json!({"message": "y"}))
            .events("w", "MODIFIED e"),
        case("event-deleted-by-the-other-group")
            .post(CORE, json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "${ns}"}}))
            .delete(format!("{NEW}/e"))
            .expect(200)
            .get(format!("{CORE}/e"))
            .expect(404),
    ]
}

fn yaml() -> Vec<Case> {
    const YAML: &str = "application/yaml";
    let post = |name, text: &str| case(name).send("POST", MAPS).text(YAML, text);
    vec![
        post("yaml-scalars-are-of-yaml-1-1", "metadata:\n  name: one\ndata:\n  a: yes\n").expect(400),
        post("yaml-times-are-text", "metadata:\n  name: one\ndata:\n  a: 2020-01-01\n  b: \"1\"\n").expect(201),
        post("yaml-flow", "{metadata: {name: one}, data: {a: b, c: !!str 5}}").expect(201),
        post("yaml-anchors", "metadata:\n  name: one\n  labels: &l {a: b}\n  annotations:\n    <<: *l\n").expect(201),
        post("yaml-unknown-anchor", "a: *b").expect(400),
        post("yaml-tab", "metadata:\n\tname: one").expect(400),
        post("yaml-half-a-string", "a: 'b").expect(400),
        post("yaml-a-string", "shoe").expect(400),
        post("yaml-a-list", "- a").expect(400),
        post("yaml-empty", "").expect(422),
        post("yaml-block-scalar-at-the-end", "metadata:\n  name: one\ndata:\n  a: |\n    b").expect(201),
        post("yaml-two-documents", "metadata:\n  name: one\n---\nmetadata:\n  name: two\n").expect(201),
        post("yaml-of-another-kind", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: one\n").expect(400),
        post("yaml-key-twice", "metadata:\n  name: one\n  name: two\nfoo: 1\nfoo: 2\n").expect(201),
        case("yaml-key-twice-strictly")
            .send("POST", maps("?fieldValidation=Strict"))
            .text(YAML, "metadata:\n  name: one\n  name: two\nfoo: 1\nfoo: 2\n")
            .expect(400),
        case("yaml-refusal").get(maps("/one")).header("accept", YAML).expect(404),
        case("yaml-discovery")
            .get("/apis/apps")
            .header("accept", YAML)
            .expect(200)
            .get("/api/v1")
            .header("accept", YAML),
        case("yaml-watch-is-refused").get(maps("?watch=true")).header("accept", YAML).expect(406),
    ]
}

fn negotiation() -> Vec<Case> {
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    vec![
        case("metadata-of-one-for-a-list").get(MAPS).header("accept", one).expect(406),
        case("metadata-of-the-beta-version")
            .post(MAPS, map("one"))
            .get(maps("/one"))
            .header("accept", one.replace("v=v1", "v=v1beta1"))
            .expect(200)
            .get(MAPS)
            .header("accept", list.replace("v=v1", "v=v1beta1"))
            .expect(200),
        case("metadata-of-another-group").get(MAPS).header("accept", list.replace("meta.k8s.io", "x")).expect(406),
        case("discovery-aggregated-old-version")
            .get("/apis")
            .header("accept", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")
            .expect(406),
        case("discovery-accepts-nothing-we-have")
            .get("/api")
            .header("accept", "text/html")
            .expect(406)
            .get("/apis/apps")
            .header("accept", "text/html")
            .expect(406)
            .get("/apis/apps/v1")
            .header("accept", "text/html")
            .expect(406)
            .get("/version")
            .header("accept", "text/html")
            .expect(406),
        case("version-of-other-methods").post("/version", json!({})).expect(405).get("/version/x").expect(404),
        case("slashes-at-the-end")
            .get("/apis/")
            .ignore("")
            .expect(200)
            .get("/apis//")
            .expect(404)
            .get("/version//")
            .ignore(""),
    ]
}

/// Which kind a body is of is found in any case.
fn kinds_in_another_case() -> Vec<Case> {
    let typed = |name: &'static str, typed: Value| {
        case(name).post(MAPS, super::with(json!({"metadata": {"name": "one"}}), typed))
    };
    vec![
        typed("kind-in-another-case", json!({"Kind": "Pod"})).expect(400),
        typed("kind-in-another-case-that-is-right", json!({"KIND": "ConfigMap", "APIVersion": "v1"})).expect(201),
        typed("kind-in-another-case-of-no-kind", json!({"Kind": 5})).expect(400),
    ]
}

fn labels() -> Vec<Case> {
    let wrong = json!({"metadata": {"labels": {"a": "b c"}, "annotations": {"a b": "c"}}});
    let secrets = "/api/v1/namespaces/${ns}/secrets";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases";
    let named = json!({"metadata": {"name": "one"}});
    vec![
        case("labels-are-told-as-often-as-they-are-looked-at")
            .post(secrets, named.clone())
            .merge(format!("{secrets}/one"), wrong.clone())
            .expect(422)
            .post(leases, named)
            .merge(format!("{leases}/one"), wrong.clone())
            .expect(422),
        defined("labels-of-custom-resources-and-their-definitions", widgets())
            .post(crs(""), widget("one", json!({})))
            .merge(crs("/one"), wrong.clone())
            .expect(422)
            .merge(format!("{CRDS}/widgets.${{id}}.example.com"), wrong.clone())
            .expect(422)
            .merge(format!("{CRDS}/widgets.${{id}}.example.com/status"), wrong.clone())
            .expect(422),
        case("labels-by-way-of-the-status")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}),
            )
            .merge("/api/v1/namespaces/${ns}/services/s/status", wrong)
            .expect(422)
            .merge("/api/v1/namespaces/${ns}/services/s/status", json!({"metadata": {"labels": {"x": "y"}}}))
            .expect(200)
            .see("/metadata/labels/x", "y"),
    ]
}
