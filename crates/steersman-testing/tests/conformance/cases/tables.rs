//! Tables: the columns and cells of `kubectl get`.

use serde_json::{Value, json};

use super::{CRDS, MAPS, crs, defined, definition, map, maps, pod, pods, widget, widgets, with};
use crate::conformance::case::{Case, case};

mod kinds;

pub(crate) fn cases() -> Vec<Case> {
    [forms(), lists_and_watches(), pod_states(), kinds::cases(), custom()].into_iter().flatten().collect()
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// What kubectl sends.
const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                       application/json";

fn named(group: &str, plural: &str, rest: &str) -> String {
    let group = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}") };
    format!("{group}/namespaces/${{ns}}/{plural}{rest}")
}

fn forms() -> Vec<Case> {
    let one = |name| case(name).post(MAPS, map("one")).expect(201);
    let accepted = |name, accept: &str| one(name).get(maps("/one")).header("accept", accept);
    vec![
        accepted("table-of-an-object", TABLE).expect(200).see("/columnDefinitions/1/name", "Data"),
        accepted("table-in-v1beta1", "application/json;as=Table;v=v1beta1;g=meta.k8s.io")
            .expect(200)
            .see("/apiVersion", "meta.k8s.io/v1beta1"),
        accepted("table-as-kubectl-accepts-it", KUBECTL).expect(200).see("/apiVersion", "meta.k8s.io/v1"),
        accepted("table-in-v2", "application/json;as=Table;v=v2;g=meta.k8s.io").expect(406),
        accepted("table-in-v2-or-plain", "application/json;as=Table;v=v2;g=meta.k8s.io,application/json")
            .expect(200)
            .see("/kind", "ConfigMap"),
        accepted("table-of-another-group", "application/json;as=Table;v=v1;g=example.com").expect(406),
        one("table-without-objects")
            .get(maps("/one?includeObject=None"))
            .header("accept", TABLE)
            .expect(200)
            .see("/rows/0/object", Value::Null),
        one("table-with-objects")
            .get(maps("/one?includeObject=Object"))
            .header("accept", TABLE)
            .expect(200)
            .see("/rows/0/object/data/k", "v"),
        one("table-with-metadata")
            .get(maps("/one?includeObject=Metadata"))
            .header("accept", TABLE)
            .expect(200)
            .see("/rows/0/object/kind", "PartialObjectMetadata"),
        one("table-with-something").get(maps("/one?includeObject=all")).header("accept", TABLE).expect(400),
        one("table-with-something-of-nothing").get(maps("/none?includeObject=all")).header("accept", TABLE).expect(404),
        case("table-of-nothing").get(maps("/none")).header("accept", TABLE).expect(404),
        case("table-of-a-create").post(MAPS, map("one")).header("accept", TABLE).expect(201).see("/kind", "Table"),
        one("table-of-an-update").put(maps("/one"), map("one")).header("accept", TABLE).expect(200),
        one("table-of-a-patch")
            .merge(maps("/one"), json!({"data": {"x": "y"}}))
            .header("accept", TABLE)
            .expect(200)
            .see("/rows/0/cells/1", 2),
        one("table-of-a-delete").delete(maps("/one")).header("accept", TABLE).expect(200).see("/kind", "Status"),
        case("table-of-a-scale")
            .post(named("apps/v1", "deployments", ""), kinds::deployment("web"))
            .expect(201)
            .get(named("apps/v1", "deployments", "/web/scale"))
            .header("accept", TABLE)
            .expect(200),
        case("table-in-yaml")
            .get(MAPS)
            .header("accept", "application/yaml;as=Table;v=v1;g=meta.k8s.io")
            .expect(200)
            .ignore(""),
    ]
}

fn lists_and_watches() -> Vec<Case> {
    let two = |name| case(name).post(MAPS, map("one")).named("one").post(MAPS, map("two")).named("two").expect(201);
    vec![
        two("table-of-a-list").get(MAPS).header("accept", KUBECTL).expect(200).see("/rows/1/cells/0", "two"),
        two("table-of-a-page")
            .get(maps("?limit=1"))
            .named("page")
            .header("accept", TABLE)
            .expect(200)
            .see("/metadata/remainingItemCount", 1)
            .get(maps("?limit=1&continue=${continue:page}"))
            .header("accept", TABLE)
            .see("/rows/0/cells/0", "two")
            .absent("/metadata/continue"),
        case("table-of-an-empty-list").get(MAPS).header("accept", TABLE).expect(200).see("/rows", json!([])),
        case("table-of-an-empty-list-of-roles")
            .get(named("rbac.authorization.k8s.io/v1", "roles", ""))
            .header("accept", TABLE)
            .expect(200)
            .see("/rows", Value::Null),
        two("table-of-a-list-without-objects").get(maps("?includeObject=None")).header("accept", TABLE).expect(200),
        two("table-of-a-watch")
            .watch("w", maps("?watch=true&resourceVersion=${rv:two}"))
            .header("accept", KUBECTL)
            .post(MAPS, map("three"))
            .delete(maps("/one"))
            .events("w", "ADDED three, DELETED one")
            .see("/0/object/columnDefinitions/0/name", "Name")
            .see("/1/object/columnDefinitions", Value::Null),
        two("table-of-a-watch-with-initial-events")
            .watch(
                "w",
                maps("?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"),
            )
            .header("accept", TABLE)
            .events("w", "ADDED one, ADDED two, BOOKMARK "),
        two("table-of-a-watch-without-objects")
            .watch("w", maps("?watch=true&resourceVersion=${rv:one}&includeObject=None"))
            .header("accept", TABLE)
            .events("w", "ADDED "),
        two("table-of-a-watch-with-something")
            .watch("w", maps("?watch=true&includeObject=all"))
            .header("accept", TABLE)
            .expect(400),
    ]
}

/// A Pod in that state.
fn in_state(name: &'static str, spec: Value, status: Value) -> Case {
    case(name)
        .post(pods(""), with(pod("one"), json!({ "spec": spec })))
        .expect(201)
        .merge(pods("/one/status"), json!({ "status": status }))
        .expect(200)
        .get(pods("/one"))
        .header("accept", TABLE)
        .expect(200)
}

fn container(name: &str, state: Value) -> Value {
    with(json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {}}), state)
}

fn pod_states() -> Vec<Case> {
    let running = |ready: bool| json!({"ready": ready, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}});
    let ended = |code: i64, reason: &str| json!({"state": {"terminated": {"exitCode": code, "reason": reason}}});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let init = json!({"initContainers": [
        {"name": "setup", "image": "i"}, {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
    ]});
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    vec![
        in_state("table-pod-pending", json!({}), json!({"phase": "Pending"})).see("/rows/0/cells/1", "0/1"),
        in_state(
            "table-pod-running",
            json!({"nodeName": "n", "readinessGates": [{"conditionType": "example.com/a"}]}),
            json!({
                "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
                "conditions": [condition("Ready", "True"), condition("example.com/a", "True")],
                "containerStatuses": [container("c", running(true))],
            }),
        )
        .see("/rows/0/cells/2", "Running"),
        in_state(
            "table-pod-restarted",
            json!({}),
            json!({"phase": "Running", "containerStatuses": [container("c", json!({
                "restartCount": 3, "ready": true, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T03:04:05Z"}},
            }))]}),
        )
        .see("/rows/0/cells/2", "CrashLoopBackOff"),
        in_state("table-pod-failed", json!({}), json!({"phase": "Failed", "reason": "Evicted"})),
        in_state(
            "table-pod-succeeded",
            json!({}),
            json!({"phase": "Succeeded", "containerStatuses": [container("c", ended(0, "Completed"))]}),
        )
        .see("/rows/0/conditions/0/reason", "Succeeded"),
        in_state(
            "table-pod-ended-by-a-signal",
            json!({}),
            json!({"phase": "Failed", "containerStatuses": [
                container("c", json!({"state": {"terminated": {"exitCode": 137, "signal": 9}}})),
            ]}),
        )
        .see("/rows/0/cells/2", "Signal:9"),
        in_state(
            "table-pod-initializing",
            init.clone(),
            json!({"phase": "Pending", "initContainerStatuses": [container("setup", running(false))]}),
        )
        .see("/rows/0/cells/2", "Init:0/2"),
        in_state(
            "table-pod-failed-to-initialize",
            init.clone(),
            json!({"phase": "Pending", "initContainerStatuses": [container("setup", ended(2, "Error"))]}),
        )
        .see("/rows/0/cells/2", "Init:Error"),
        in_state(
            "table-pod-waits-to-initialize",
            init.clone(),
            json!({"phase": "Pending", "initContainerStatuses": [container("setup", waiting("ImagePullBackOff"))]}),
        )
        .see("/rows/0/cells/2", "Init:ImagePullBackOff"),
        in_state(
            "table-pod-with-a-sidecar",
            init,
            json!({
                "phase": "Running", "conditions": [condition("Initialized", "True")],
                "initContainerStatuses": [
                    container("setup", ended(0, "Completed")),
                    container("sidecar", with(running(true), json!({"started": true, "restartCount": 2}))),
                ],
                "containerStatuses": [container("c", running(true))],
            }),
        )
        .see("/rows/0/cells/1", "2/2"),
        in_state(
            "table-pod-with-an-ended-container",
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}),
            json!({"phase": "Running", "containerStatuses": [
                container("c", ended(0, "Completed")), container("d", running(true)),
            ]}),
        )
        .see("/rows/0/cells/2", "NotReady"),
        case("table-pod-terminating")
            .post(pods(""), with(pod("one"), json!({"metadata": {"finalizers": ["example.com/held"]}})))
            .delete(pods("/one?gracePeriodSeconds=0"))
            .get(pods("/one"))
            .header("accept", TABLE)
            .see("/rows/0/cells/2", "Terminating")
            .merge(pods("/one"), json!({"metadata": {"finalizers": null}})),
    ]
}

/// The kind Widget with these printer columns.
fn columns(columns: Value) -> Value {
    let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut definition = definition(json!({"spec": object, "status": object}));
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
    definition
}

fn column(name: &str, ty: &str, path: &str) -> Value {
    json!({"name": name, "type": ty, "jsonPath": path})
}

/// A Widget as a Table with these columns.
fn printed(name: &'static str, wanted: Value, spec: Value) -> Case {
    defined(name, columns(wanted))
        .post(crs(""), widget("one", spec))
        .expect(201)
        .get(crs("/one"))
        .header("accept", TABLE)
        .expect(200)
}

fn custom() -> Vec<Case> {
    let typed = |path: &str| -> Value {
        ["string", "integer", "number", "boolean", "date"].iter().map(|ty| column(ty, ty, path)).collect()
    };
    vec![
        defined("table-custom-default", widgets())
            .post(crs(""), widget("one", json!({})))
            .get(crs("/one"))
            .header("accept", TABLE)
            .expect(200)
            .see("/columnDefinitions/1/name", "Age")
            .get(crs(""))
            .header("accept", KUBECTL)
            .expect(200)
            .delete(crs("/one"))
            .get(crs(""))
            .header("accept", KUBECTL)
            .see("/rows", json!([])),
        printed("table-custom-of-a-text", typed(".spec.v"), json!({"v": "text"})),
        printed("table-custom-of-an-integer", typed(".spec.v"), json!({"v": 5})),
        printed("table-custom-of-a-fraction", typed(".spec.v"), json!({"v": 5.75})),
        printed("table-custom-of-a-large-fraction", typed(".spec.v"), json!({"v": 1e30})).ignore("/rows/0/cells/2"),
        printed("table-custom-of-a-flag", typed(".spec.v"), json!({"v": true})),
        printed("table-custom-of-a-time", typed(".spec.v"), json!({"v": "2026-01-02T03:04:05Z"})),
        printed("table-custom-of-a-list", typed(".spec.v"), json!({"v": [1, "a", {"b": 2}]})),
        printed("table-custom-of-a-map", typed(".spec.v"), json!({"v": {"b": 1, "a": "<x>"}})),
        printed("table-custom-of-nothing", typed(".spec.v"), json!({})),
        printed("table-custom-of-null", typed(".spec.v"), json!({"v": null})),
        printed("table-custom-of-an-empty-text", typed(".spec.v"), json!({"v": ""})),
        printed(
            "table-custom-with-descriptions",
            json!([
                {"name": "A", "type": "string", "jsonPath": ".spec.a", "description": "text", "priority": 1, "format": "byte"},
                {"name": "Created", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                {"name": "Kind", "type": "string", "jsonPath": ".kind"},
                {"name": "Label", "type": "string", "jsonPath": r".metadata.labels.example\.com/a"},
            ]),
            json!({"a": "b"}),
        ),
        printed(
            "table-custom-paths",
            json!([
                column("filter", "string", r#".spec.conditions[?(@.type=="Ready")].status"#),
                column("single", "string", ".spec.conditions[?(@.type=='Synced')].status"),
                column("exists", "string", ".spec.conditions[?(@.reason)].type"),
                column("less", "string", ".spec.conditions[?(@.count<2)].type"),
                column("index", "string", ".spec.list[1]"),
                column("negative", "string", ".spec.list[-1]"),
                column("beyond", "string", ".spec.list[9]"),
                column("slice", "integer", ".spec.list[1:3]"),
                column("all", "integer", ".spec.list[*]"),
                column("union", "integer", ".spec.list[2,0]"),
                column("key", "string", ".spec['a-b']"),
                column("of-a-text", "string", ".spec.a-b.c"),
                column("index-of-a-map", "string", ".spec[0]"),
                column("descent", "string", ".spec..reason"),
                column("wild", "string", ".spec.only.*"),
            ]),
            json!({
                "list": [1, 2, 3], "a-b": "x", "only": {"one": "y"},
                "conditions": [
                    {"type": "Synced", "status": "False", "count": 1},
                    {"type": "Ready", "status": "True", "count": 2, "reason": "Why"},
                ],
            }),
        ),
        printed(
            "table-custom-path-that-is-none",
            json!([
                column("a", "string", ".spec.a"),
                column("b", "string", ".spec.b["),
                column("c", "string", ".spec.c")
            ]),
            json!({"a": "1", "b": "2", "c": "3"}),
        )
        .see("/columnDefinitions/1/name", "a")
        .absent("/columnDefinitions/2"),
        defined("table-custom-watch", columns(json!([column("v", "string", ".spec.v")])))
            .post(crs(""), widget("one", json!({"v": "a"})))
            .named("one")
            .watch("w", crs("?watch=true&resourceVersion=${rv:one}"))
            .header("accept", TABLE)
            .merge(crs("/one"), json!({"spec": {"v": "b"}}))
            .merge(crs("/one"), json!({"spec": {"v": "c"}}))
            .events("w", "MODIFIED one, MODIFIED one")
            .see("/1/object/rows/0/cells/1", "c"),
        defined("table-of-a-definition", widgets())
            .get(format!("{CRDS}/widgets.${{id}}.example.com"))
            .header("accept", TABLE)
            .expect(200)
            .see("/columnDefinitions/1/name", "Created At"),
    ]
}
