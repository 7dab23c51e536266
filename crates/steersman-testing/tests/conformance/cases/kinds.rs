use serde_json::{Value, json};

use super::{MAPS, map, maps, pod, pods, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [immutable(), subresources(), services(), small_kinds(), workloads()].into_iter().flatten().collect()
}

fn path(resource: &str, rest: &str) -> String {
    let group = match resource {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" => "/apis/apps/v1",
        "jobs" | "cronjobs" => "/apis/batch/v1",
        "leases" => "/apis/coordination.k8s.io/v1",
        "ingresses" => "/apis/networking.k8s.io/v1",
        "roles" | "rolebindings" => "/apis/rbac.authorization.k8s.io/v1",
        _ => "/api/v1",
    };
    format!("{group}/namespaces/${{ns}}/{resource}{rest}")
}

/// An object that is only a name and a spec.
fn object(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// The spec of a Deployment and its like.
fn workload() -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
    })
}

fn immutable() -> Vec<Case> {
    let frozen = |name| case(name).post(MAPS, with(map("one"), json!({"immutable": true}))).expect(201);
    vec![
        frozen("immutable-config-map-keeps-its-data").merge(maps("/one"), json!({"data": {"k": "new"}})).expect(422),
        frozen("immutable-config-map-stays-immutable").merge(maps("/one"), json!({"immutable": false})).expect(422),
        frozen("immutable-config-map-has-free-metadata")
            .merge(maps("/one"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200),
        frozen("immutable-config-map-can-be-deleted").delete(maps("/one")).expect(200),
        case("config-map-keys-are-checked").post(MAPS, with(map("one"), json!({"data": {"a b": "c"}}))).expect(422),
        case("config-map-keys-are-in-data-or-binary-data")
            .post(MAPS, with(map("one"), json!({"data": {"a": "b"}, "binaryData": {"a": "Yg=="}})))
            .expect(422),
        case("config-map-binary-data-is-base64")
            .post(MAPS, with(map("one"), json!({"binaryData": {"a": "?"}})))
            .expect(400),
        case("config-map-too-large")
            .post(MAPS, with(map("one"), json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}})))
            .expect(422),
        case("secret-type-and-data")
            .post(
                path("secrets", ""),
                json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"a": "Yw==", "c": "ZA=="}}),
            )
            .expect(201)
            .see("/type", "Opaque")
            .see("/data/a", "Yg==")
            .absent("/stringData")
            .merge(path("secrets", "/s"), json!({"type": "other"}))
            .expect(422),
        case("secret-immutable")
            .post(path("secrets", ""), json!({"metadata": {"name": "s"}, "immutable": true, "data": {"a": "Yw=="}}))
            .merge(path("secrets", "/s"), json!({"stringData": {"a": "z"}}))
            .expect(422),
        case("secret-of-a-type-that-needs-keys")
            .post(path("secrets", ""), json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls"}))
            .expect(422),
    ]
}

fn subresources() -> Vec<Case> {
    let deployment = |name| case(name).post(path("deployments", ""), object("d", workload())).named("d").expect(201);
    vec![
        deployment("status-update-leaves-the-spec")
            .merge(path("deployments", "/d/status"), json!({"spec": {"replicas": 9}, "status": {"replicas": 2}}))
            .expect(200)
            .see("/spec/replicas", 1)
            .see("/status/replicas", 2)
            .see("/metadata/generation", 1),
        deployment("spec-update-leaves-the-status")
            .merge(path("deployments", "/d"), json!({"spec": {"replicas": 9}, "status": {"replicas": 2}}))
            .expect(200)
            .see("/spec/replicas", 9)
            .absent("/status/replicas"),
        deployment("status-update-and-metadata")
            .merge(
                path("deployments", "/d/status"),
                json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}),
            )
            .expect(200),
        deployment("status-get").get(path("deployments", "/d/status")).expect(200).see("/kind", "Deployment"),
        deployment("status-cannot-be-deleted").delete(path("deployments", "/d/status")).expect(405),
        deployment("scale-get")
            .get(path("deployments", "/d/scale"))
            .expect(200)
            .see("/kind", "Scale")
            .see("/spec/replicas", 1),
        deployment("scale-put")
            .put(path("deployments", "/d/scale"), json!({"metadata": {"name": "d"}, "spec": {"replicas": 4}}))
            .expect(200)
            .get(path("deployments", "/d"))
            .see("/spec/replicas", 4)
            .see("/metadata/generation", 2),
        deployment("scale-put-with-an-old-version")
            .put(
                path("deployments", "/d/scale"),
                json!({"metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"replicas": 4}}),
            )
            .expect(409),
        deployment("scale-below-zero")
            .put(path("deployments", "/d/scale"), json!({"metadata": {"name": "d"}, "spec": {"replicas": -1}}))
            .expect(422),
        deployment("scale-patch").merge(path("deployments", "/d/scale"), json!({"spec": {"replicas": 5}})).expect(200),
        deployment("scale-with-another-kind")
            .put(
                path("deployments", "/d/scale"),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}),
            )
            .expect(400),
        case("status-of-nothing").merge(path("deployments", "/d/status"), json!({"status": {}})).expect(404),
        case("create-drops-the-status")
            .post(path("deployments", ""), with(object("d", workload()), json!({"status": {"replicas": 3}})))
            .expect(201)
            .absent("/status/replicas"),
        case("eviction-deletes-the-pod")
            .post(pods(""), with(pod("p"), json!({"spec": {"terminationGracePeriodSeconds": 0}})))
            .post(
                pods("/p/eviction"),
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
            )
            .expect(201)
            .get(pods("/p"))
            .expect(404),
        case("binding-gives-the-pod-a-node")
            .post(pods(""), pod("p"))
            .post(
                pods("/p/binding"),
                json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}),
            )
            .expect(201)
            .get(pods("/p"))
            .see("/spec/nodeName", "n"),
    ]
}

fn services() -> Vec<Case> {
    let port = json!([{"port": 80}]);
    let service = |name, spec: Value| case(name).post(path("services", ""), object("s", spec)).named("s");
    vec![
        service("service-gets-an-address", json!({"ports": port})).expect(201).see("/spec/type", "ClusterIP"),
        service("service-without-an-address", json!({"clusterIP": "None", "ports": port}))
            .expect(201)
            .see("/spec/clusterIPs/0", "None"),
        service("service-address-outside-the-range", json!({"clusterIP": "192.0.2.5", "ports": port})).expect(422),
        service("service-address-that-is-none", json!({"clusterIP": "shoe", "ports": port})).expect(422),
        service("service-address-cannot-change", json!({"ports": port}))
            .merge(path("services", "/s"), json!({"spec": {"clusterIP": "10.0.77.77", "clusterIPs": ["10.0.77.77"]}}))
            .expect(422),
        service("service-address-is-kept-when-left-out", json!({"ports": port}))
            .put(
                path("services", "/s"),
                with(
                    object("s", json!({"ports": [{"port": 81}]})),
                    json!({"metadata": {"resourceVersion": "${rv:s}"}}),
                ),
            )
            .expect(200)
            .see("/spec/clusterIP", "${s:/spec/clusterIP}"),
        service("service-address-taken-twice", json!({"ports": port}))
            .post(path("services", ""), object("t", json!({"clusterIP": "${s:/spec/clusterIP}", "ports": port})))
            .expect(422),
        service("service-address-is-free-after-deletion", json!({"ports": port}))
            .delete(path("services", "/s"))
            .post(path("services", ""), object("t", json!({"clusterIP": "${s:/spec/clusterIP}", "ports": port})))
            .expect(201),
        service("service-without-ports", json!({})).expect(422),
        service("service-with-two-ports-without-names", json!({"ports": [{"port": 80}, {"port": 81}]})).expect(422),
        service("service-with-a-node-port", json!({"type": "NodePort", "ports": port})).expect(201),
        service("service-of-another-name", json!({"type": "ExternalName", "externalName": "example.com"}))
            .expect(201)
            .absent("/spec/clusterIP"),
    ]
}

fn small_kinds() -> Vec<Case> {
    vec![
        case("lease-create-and-renew")
            .post(
                path("leases", ""),
                object(
                    "l",
                    json!({"holderIdentity": "me", "leaseDurationSeconds": 15,
                "renewTime": "2020-01-01T00:00:00.000000Z"}),
                ),
            )
            .expect(201)
            .merge(path("leases", "/l"), json!({"spec": {"renewTime": "2020-01-01T00:00:05.123456Z"}}))
            .expect(200)
            .see("/spec/renewTime", "2020-01-01T00:00:05.123456Z"),
        case("lease-update-needs-a-version")
            .post(path("leases", ""), object("l", json!({})))
            .put(path("leases", "/l"), object("l", json!({"holderIdentity": "me"})))
            .expect(422),
        case("lease-duration-is-positive")
            .post(path("leases", ""), object("l", json!({"leaseDurationSeconds": 0})))
            .expect(422),
        case("lease-time-without-microseconds")
            .post(path("leases", ""), object("l", json!({"renewTime": "2020-01-01T00:00:00Z"})))
            .expect(400),
        case("lease-time-that-is-none").post(path("leases", ""), object("l", json!({"renewTime": "noon"}))).expect(400),
        case("event-of-the-core-group")
            .post(
                path("events", ""),
                json!({
                    "metadata": {"name": "e"},
                    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "${ns}"},
                    "reason": "Because", "message": "text", "type": "Normal",
                }),
            )
            .expect(201)
            .get("/apis/events.k8s.io/v1/namespaces/${ns}/events/e")
            .expect(200)
            .see("/note", "text")
            .get(path("events", "?fieldSelector=involvedObject.name%3Dp,reason%3DBecause"))
            .see("/items/0/metadata/name", "e"),
        case("event-about-another-namespace")
            .post(path("events", ""), json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}))
            .expect(422),
        case("event-of-the-new-group")
            .post(
                "/apis/events.k8s.io/v1/namespaces/${ns}/events",
                json!({
                    "metadata": {"name": "e"}, "eventTime": "2020-01-01T00:00:00.000000Z",
                        "reportingController": "example.com/c",
                    "reportingInstance": "c-1", "action": "Act", "reason": "Because", "type": "Normal", "note": "text",
                    "regarding": {"kind": "Pod", "name": "p", "namespace": "${ns}"},
                }),
            )
            .expect(201)
            .get(path("events", "/e"))
            .see("/message", "text"),
        case("event-of-the-new-group-needs-a-controller")
            .post(
                "/apis/events.k8s.io/v1/namespaces/${ns}/events",
                json!({
                    "metadata": {"name": "e"}, "eventTime": "2020-01-01T00:00:00.000000Z", "type": "Normal",
                    "regarding": {"namespace": "${ns}"},
                }),
            )
            .expect(422),
        case("service-account").post(path("serviceaccounts", ""), json!({"metadata": {"name": "a"}})).expect(201),
        case("role-needs-verbs")
            .post(
                path("roles", ""),
                json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""],
                "resources": ["pods"]}]}),
            )
            .expect(422),
        case("role-binding-keeps-its-role")
            .post(
                path("rolebindings", ""),
                json!({"metadata": {"name": "b"},
                "subjects": [{"kind": "User", "name": "jane"}],
                "roleRef": {"kind": "Role", "name": "r"}}),
            )
            .expect(201)
            .see("/roleRef/apiGroup", "rbac.authorization.k8s.io")
            .merge(path("rolebindings", "/b"), json!({"roleRef": {"name": "other"}}))
            .expect(422),
        case("role-binding-to-a-role-whose-name-is-no-part-of-a-path")
            .post(
                path("rolebindings", ""),
                json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "a/b%"}}),
            )
            .expect(422)
            .message_contains("may not contain '/'")
            .post(
                path("rolebindings", ""),
                json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": ".."}}),
            )
            .expect(422)
            .post(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                json!({"metadata": {"name": "${id}"}, "roleRef": {"kind": "ClusterRole", "name": "a/b"}}),
            )
            .expect(422),
        case("ingress")
            .post(
                path("ingresses", ""),
                object(
                    "i",
                    json!({"rules": [{"host": "example.com",
            "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s",
                "port": {"number": 80}}}}]}}]}),
                ),
            )
            .expect(201),
        case("ingress-without-rules").post(path("ingresses", ""), object("i", json!({}))).expect(422),
        case("node")
            .post("/api/v1/nodes", json!({"metadata": {"name": "${id}"}}))
            .expect(201)
            .merge("/api/v1/nodes/${id}/status", json!({"status": {"capacity": {"cpu": "1500m", "memory": "1Gi"}}}))
            .expect(200),
    ]
}

fn workloads() -> Vec<Case> {
    vec![
        case("pod-defaults").post(pods(""), pod("p")).expect(201).see("/spec/restartPolicy", "Always"),
        case("pod-without-containers").post(pods(""), object("p", json!({"containers": []}))).expect(422),
        case("pod-spec-can-hardly-change")
            .post(pods(""), pod("p"))
            .merge(pods("/p"), json!({"spec": {"hostname": "h"}}))
            .expect(422),
        case("pod-image-can-change")
            .post(pods(""), pod("p"))
            .json_patch(pods("/p"), json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "new"}]))
            .expect(200)
            .see("/metadata/generation", 2),
        case("pod-quantities-are-canonical")
            .post(
                pods(""),
                object(
                    "p",
                    json!({"containers": [{"name": "c", "image": "i",
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Ki"}}}]}),
                ),
            )
            .expect(201)
            .see("/spec/containers/0/resources/limits/cpu", "500m")
            .see("/spec/containers/0/resources/requests/memory", "1Mi"),
        case("deployment-defaults")
            .post(path("deployments", ""), object("d", workload()))
            .expect(201)
            .see("/spec/strategy/type", "RollingUpdate"),
        case("deployment-selector-must-match")
            .post(
                path("deployments", ""),
                object("d", with(workload(), json!({"selector": {"matchLabels": {"a": "c"}}}))),
            )
            .expect(422),
        case("deployment-selector-cannot-change")
            .post(path("deployments", ""), object("d", workload()))
            .merge(
                path("deployments", "/d"),
                json!({"spec": {"selector": {"matchLabels": {"x": "y"}},
                "template": {"metadata": {"labels": {"x": "y"}}}}}),
            )
            .expect(422),
        case("deployment-without-a-spec").post(path("deployments", ""), json!({"metadata": {"name": "d"}})).expect(422),
        case("deployment-generation-cannot-be-set")
            .post(path("deployments", ""), with(object("d", workload()), json!({"metadata": {"generation": 9}})))
            .expect(201)
            .see("/metadata/generation", 1)
            .merge(path("deployments", "/d"), json!({"metadata": {"generation": 9}}))
            .see("/metadata/generation", 1),
        case("replica-set-defaults").post(path("replicasets", ""), object("r", workload())).expect(201),
        case("stateful-set-defaults").post(path("statefulsets", ""), object("s", workload())).expect(201),
        case("daemon-set-defaults").post(path("daemonsets", ""), object("d", workload())).expect(201),
        case("job-defaults")
            .post(
                path("jobs", ""),
                object(
                    "j",
                    json!({"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}),
                ),
            )
            .expect(201),
        case("job-with-the-wrong-restart-policy")
            .post(
                path("jobs", ""),
                object(
                    "j",
                    json!({"template": {"spec": {"containers": [{"name": "c",
                "image": "i"}]}}}),
                ),
            )
            .expect(422),
        case("cron-job-defaults")
            .post(
                path("cronjobs", ""),
                object(
                    "c",
                    json!({"schedule": "*/5 * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}),
                ),
            )
            .expect(201),
        case("cron-job-with-a-bad-schedule")
            .post(
                path("cronjobs", ""),
                object(
                    "c",
                    json!({"schedule": "often",
                "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}),
                ),
            )
            .expect(422),
    ]
}
