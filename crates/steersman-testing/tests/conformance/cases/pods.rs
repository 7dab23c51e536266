//! What is done to Pods beside writing them: they are evicted, and given to nodes.

use serde_json::{Value, json};

use super::{pod, pods, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [evictions(), budgets(), bindings()].into_iter().flatten().collect()
}

fn eviction() -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})
}

fn evict(case: Case) -> Case {
    case.post(pods("/p/eviction"), eviction())
}

/// A Pod that runs on a node.
fn running(name: &'static str) -> Case {
    let bound = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"nodeName": "n"}});
    case(name)
        .post(pods(""), with(pod("p"), bound))
        .expect(201)
        .merge(
            pods("/p/status"),
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        )
        .expect(200)
}

fn evictions() -> Vec<Case> {
    vec![
        evict(running("eviction-leaves-grace"))
            .expect(201)
            .get(pods("/p"))
            .see("/metadata/deletionGracePeriodSeconds", 30)
            .see("/status/conditions/1/reason", "EvictionByEvictionAPI"),
        evict(evict(running("eviction-twice"))).expect(201).get(pods("/p")),
        evict(case("eviction-of-nothing")).expect(404),
        running("eviction-of-another-name")
            .post(pods("/p/eviction"), with(eviction(), json!({"metadata": {"name": "q"}})))
            .expect(400),
        running("eviction-with-options")
            .post(pods("/p/eviction"), with(eviction(), json!({"deleteOptions": {"gracePeriodSeconds": 0}})))
            .expect(201)
            .get(pods("/p"))
            .expect(404),
        running("eviction-with-another-uid")
            .post(
                pods("/p/eviction"),
                with(eviction(), json!({"deleteOptions": {"preconditions": {"uid": "another"}}})),
            )
            .expect(409),
        running("eviction-dry-run")
            .post(pods("/p/eviction?dryRun=All"), eviction())
            .expect(201)
            .get(pods("/p"))
            .absent("/metadata/deletionTimestamp"),
        case("eviction-by-something-else")
            .post(pods(""), pod("p"))
            .post(pods("/p/eviction"), with(pod("p"), json!({"apiVersion": "v1", "kind": "Pod"})))
            .expect(400),
    ]
}

/// A Pod that runs, and a budget with this status for it.
fn budgeted(name: &'static str, spec: Value, status: Value) -> Case {
    let budgets = |rest: &str| format!("/apis/policy/v1/namespaces/${{ns}}/poddisruptionbudgets{rest}");
    let spec = with(json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}), spec);
    running(name)
        .post(budgets(""), json!({"metadata": {"name": "b"}, "spec": spec}))
        .expect(201)
        .merge(budgets("/b/status"), json!({ "status": status }))
        .expect(200)
}

fn budgets() -> Vec<Case> {
    let status = |allowed: i64, healthy: i64| {
        json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1,
            "expectedPods": 1})
    };
    let none = || json!({});
    let unready = |case: Case| {
        case.merge(pods("/p/status"), json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
    };
    let look = |case: Case| case.get("/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets/b");
    vec![
        look(evict(budgeted("eviction-within-the-budget", none(), status(2, 3))).expect(201))
            .see("/status/disruptionsAllowed", 1)
            .get(pods("/p")),
        look(evict(budgeted("eviction-that-uses-up-the-budget", none(), status(1, 2))).expect(201))
            .see("/status/conditions/0/reason", "InsufficientPods"),
        evict(budgeted("eviction-beyond-the-budget", none(), status(0, 1))).expect(429).get(pods("/p")),
        evict(budgeted("eviction-beyond-the-budget-of-many", none(), status(0, 2))).expect(429),
        evict(budgeted(
            "eviction-beyond-the-budget-with-a-reason",
            none(),
            with(
                status(0, 2),
                json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                    "message": "found no controller", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
            ),
        ))
        .expect(429),
        evict(budgeted(
            "eviction-before-the-budget-is-known",
            none(),
            json!({"observedGeneration": 0, "disruptionsAllowed": 1,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}),
        ))
        .expect(429),
        look(evict(unready(budgeted("eviction-of-an-unhealthy-pod", none(), status(0, 1)))).expect(201)),
        evict(unready(budgeted("eviction-of-an-unhealthy-pod-that-is-needed", none(), status(0, 0)))).expect(429),
        evict(unready(budgeted(
            "eviction-of-unhealthy-pods-is-always-allowed",
            json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
            status(0, 0),
        )))
        .expect(201),
        look(
            budgeted("eviction-dry-run-leaves-the-budget", none(), status(1, 2))
                .post(pods("/p/eviction?dryRun=All"), eviction())
                .expect(201),
        )
        .see("/status/disruptionsAllowed", 1),
        evict(budgeted("eviction-with-two-budgets", none(), status(1, 2)).post(
            "/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets",
            json!({"metadata": {"name": "c"}, "spec": {"minAvailable": 1, "selector": {}}}),
        ))
        .see("/code", 500),
        evict(
            budgeted("eviction-of-a-finished-pod", none(), status(0, 1))
                .merge(pods("/p/status"), json!({"status": {"phase": "Succeeded"}})),
        )
        .expect(201)
        .get(pods("/p"))
        .expect(404),
    ]
}

fn bindings() -> Vec<Case> {
    let binding = || json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}});
    let waiting = |name| case(name).post(pods(""), pod("p")).named("p").expect(201);
    let bind = |case: Case, change: Value| case.post(pods("/p/binding"), with(binding(), change));
    vec![
        bind(bind(waiting("binding-twice"), json!({})), json!({"target": {"name": "m"}})).expect(409),
        bind(case("binding-of-nothing"), json!({})).expect(404),
        bind(waiting("binding-of-another-name"), json!({"metadata": {"name": "q"}})).expect(400),
        bind(waiting("binding-to-no-node"), json!({"target": {"name": ""}})).expect(500),
        bind(waiting("binding-to-another-kind"), json!({"target": {"kind": "Shoe"}})).expect(500),
        bind(waiting("binding-to-nothing-of-another-kind"), json!({"target": {"kind": "Shoe", "name": ""}}))
            .expect(500),
        bind(
            waiting("binding-brings-labels-and-annotations"),
            json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "target": {"kind": "Node"}}),
        )
        .expect(201)
        .get(pods("/p"))
        .see("/metadata/annotations/c", "d"),
        bind(waiting("binding-of-another-uid"), json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}))
            .expect(409),
        bind(waiting("binding-of-an-old-version"), json!({"metadata": {"resourceVersion": "1"}})).expect(409),
        waiting("binding-dry-run")
            .post(pods("/p/binding?dryRun=All"), binding())
            .expect(201)
            .get(pods("/p"))
            .absent("/spec/nodeName"),
        bind(
            case("binding-behind-a-gate")
                .post(pods(""), with(pod("p"), json!({"spec": {"schedulingGates": [{"name": "example.com/g"}]}}))),
            json!({}),
        )
        .expect(409),
        bind(
            case("binding-while-deleting")
                .post(pods(""), with(pod("p"), json!({"metadata": {"finalizers": ["example.com/f"]}})))
                .delete(pods("/p"))
                .expect(200),
            json!({}),
        )
        .expect(409),
        waiting("binding-by-the-old-path")
            .post("/api/v1/namespaces/${ns}/bindings", binding())
            .expect(201)
            .get(pods("/p"))
            .see("/spec/nodeName", "n"),
    ]
}
