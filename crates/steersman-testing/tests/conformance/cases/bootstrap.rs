//! The objects of every cluster, what the built-in controllers add to them, and the bodies and
//! checks of Go clients.

use serde_json::{Value, json};

use super::{map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const VERSIONS: &str = "/items/*/metadata/resourceVersion";

pub(crate) fn cases() -> Vec<Case> {
    [objects(), controllers(), without_controllers()].into_iter().flatten().collect()
}

fn objects() -> Vec<Case> {
    let rbac = |rest: &str| format!("/apis/rbac.authorization.k8s.io/v1/{rest}");
    // Other cases may have objects of the same kinds. The order of versions is that of controllers
    // that run at the same time.
    let of_rbac = |name, path: &str| {
        case(name)
            .get(rbac(&format!("{path}?labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults")))
            .expect(200)
            .ignore(VERSIONS)
    };
    let flow = |name, plural: &str| {
        case(name).get(format!("/apis/flowcontrol.apiserver.k8s.io/v1/{plural}")).expect(200).ignore(VERSIONS)
    };
    vec![
        case("bootstrap-service-of-the-server")
            .until("/api/v1/namespaces/default/services/kubernetes")
            .see("/spec/clusterIP", "10.0.0.1")
            .see("/spec/ports/0/port", 443)
            .ignore("/spec/ports/0/targetPort"),
        case("bootstrap-endpoints-of-the-server")
            .until("/api/v1/namespaces/default/endpoints/kubernetes")
            .see("/subsets/0/addresses/0/ip", "192.0.2.1")
            .ignore("/subsets/0/ports/0/port"),
        case("bootstrap-endpoint-slice-of-the-server")
            .until("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
            .see("/endpoints/0/addresses/0", "192.0.2.1")
            .ignore("/ports/0/port"),
        case("bootstrap-address-of-the-server")
            .until("/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1")
            .see("/spec/parentRef/name", "kubernetes"),
        case("bootstrap-service-addresses")
            .until("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
            .see("/status/conditions/0/status", "True"),
        case("bootstrap-namespace").get("/api/v1/namespaces/kube-public").expect(200).see("/status/phase", "Active"),
        case("bootstrap-authentication-of-clients")
            .until("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
            .expect(200)
            .ignore("/data/client-ca-file"),
        case("bootstrap-token-tracking")
            .until("/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking")
            .expect(200)
            .ignore("/data/since"),
        of_rbac("bootstrap-cluster-roles", "clusterroles").see("/items/0/metadata/name", "admin"),
        of_rbac("bootstrap-cluster-role-bindings", "clusterrolebindings"),
        of_rbac("bootstrap-roles", "namespaces/kube-system/roles"),
        of_rbac("bootstrap-role-bindings", "namespaces/kube-system/rolebindings"),
        of_rbac("bootstrap-roles-of-the-public-namespace", "namespaces/kube-public/roles"),
        case("bootstrap-cluster-role").get(format!("{ROLES}/system:basic-user")).expect(200),
        case("bootstrap-priority-class")
            .get("/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical")
            .see("/value", 2_000_000_000),
        case("bootstrap-priority-class-of-nodes")
            .get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
            .see("/value", 2_000_001_000),
        case("bootstrap-local-api-services")
            .get("/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=kube-aggregator.kubernetes.io/automanaged%3Donstart")
            .see("/items/0/status/conditions/0/reason", "Local")
            .ignore(VERSIONS),
        flow("bootstrap-flow-schemas", "flowschemas"),
        flow("bootstrap-priority-levels", "prioritylevelconfigurations"),
        case("bootstrap-namespace-cannot-be-deleted").delete("/api/v1/namespaces/kube-public").expect(403),
    ]
}

/// A role that takes its rules from the roles of the case.
fn aggregate() -> Value {
    json!({
        "metadata": {"name": "${id}-all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "${id}"}}]},
    })
}

fn part(name: &str, verb: &str) -> Value {
    json!({
        "metadata": {"name": format!("${{id}}-{name}"), "labels": {"part-of": "${id}"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
    })
}

fn controllers() -> Vec<Case> {
    let accounts = |rest: &str| format!("/api/v1/namespaces/${{ns}}/serviceaccounts{rest}");
    let with_controllers = |name| case(name).needs(Needs::Controllers);
    let root = "/kube-root-ca.crt";
    let aggregated = format!("{ROLES}/${{id}}-all");
    vec![
        with_controllers("namespace-gets-a-service-account").until(accounts("/default")).expect(200),
        with_controllers("namespace-gets-the-certificate").until(maps(root)).expect(200).ignore("/data/ca.crt"),
        with_controllers("namespace-gets-its-service-account-again")
            .until(accounts("/default"))
            .expect(200)
            .named("first")
            .delete(accounts("/default"))
            .expect(200)
            .until(accounts("/default"))
            .expect(200),
        with_controllers("namespace-gets-the-certificate-again")
            .until(maps(root))
            .expect(200)
            .ignore("")
            .merge(maps(root), json!({"data": {"ca.crt": "mine", "more": "x"}, "metadata": {"annotations": null}}))
            .expect(200)
            .until(maps(root))
            .absent("/data/more")
            .ignore("/data/ca.crt"),
        with_controllers("aggregated-role-has-the-rules-of-others")
            .post(ROLES, part("b", "get"))
            .expect(201)
            .post(ROLES, aggregate())
            .expect(201)
            .until(aggregated.clone())
            .see("/rules/0/verbs/0", "get")
            .post(ROLES, part("a", "list"))
            .expect(201)
            .until(aggregated.clone())
            .see("/rules/0/verbs/0", "list")
            .see("/rules/1/verbs/0", "get")
            .delete(format!("{ROLES}/${{id}}-a"))
            .expect(200)
            .until(aggregated.clone())
            .see("/rules/0/verbs/0", "get")
            .absent("/rules/1"),
        with_controllers("aggregated-role-loses-other-rules")
            .post(ROLES, part("b", "get"))
            .post(ROLES, with(aggregate(), json!({"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]})))
            .expect(201)
            .until(aggregated)
            .see("/rules/0/verbs/0", "get")
            .see("/rules/0/resources/0", "pods"),
        with_controllers("bootstrap-aggregated-roles")
            .until(format!("{ROLES}/view"))
            .see("/rules/0/verbs/0", "get")
            .ignore("/metadata/resourceVersion")
            .until(format!("{ROLES}/edit"))
            .see("/rules/0/verbs/0", "get")
            .ignore("/metadata/resourceVersion")
            .until(format!("{ROLES}/admin"))
            .see("/rules/0/resources/0", "pods/attach")
            .ignore("/metadata/resourceVersion"),
    ]
}

/// What no component does where kube-controller-manager does not run.
fn without_controllers() -> Vec<Case> {
    let owned = |name: &str| {
        with(
            map(name),
            json!({"metadata": {"ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${uid:owner}",
            }]}}),
        )
    };
    vec![
        case("bare-namespace-is-empty")
            .get(maps(""))
            .expect(200)
            .absent("/items/0")
            .get("/api/v1/namespaces/${ns}/serviceaccounts")
            .absent("/items/0"),
        case("bare-namespace-stays-terminating")
            .post(maps(""), map("m"))
            .delete("/api/v1/namespaces/${ns}")
            .expect(200)
            .get("/api/v1/namespaces/${ns}")
            .see("/status/phase", "Terminating")
            .absent("/status/conditions")
            .get(maps("/m"))
            .expect(200)
            .put(
                "/api/v1/namespaces/${ns}/finalize",
                json!({"metadata": {"name": "${ns}"}, "spec": {"finalizers": []}}),
            )
            .expect(200)
            .get("/api/v1/namespaces/${ns}")
            .expect(404),
        case("bare-owner-leaves-its-dependents")
            .post(maps(""), map("owner"))
            .named("owner")
            .post(maps(""), owned("d"))
            .expect(201)
            .delete(maps("/owner"))
            .expect(200)
            .get(maps("/d"))
            .expect(200),
        case("bare-foreground-deletion-waits")
            .post(maps(""), map("owner"))
            .named("owner")
            .delete(maps("/owner?propagationPolicy=Foreground"))
            .expect(200)
            .get(maps("/owner"))
            .see("/metadata/finalizers/0", "foregroundDeletion"),
        case("bare-orphans-wait")
            .post(maps(""), map("owner"))
            .delete(maps("/owner?propagationPolicy=Orphan"))
            .expect(200)
            .get(maps("/owner"))
            .see("/metadata/finalizers/0", "orphan"),
        case("bare-claim-stays-protected")
            .post(
                "/api/v1/namespaces/${ns}/persistentvolumeclaims",
                json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}}),
            )
            .expect(201)
            .delete("/api/v1/namespaces/${ns}/persistentvolumeclaims/c")
            .expect(200)
            .get("/api/v1/namespaces/${ns}/persistentvolumeclaims/c")
            .see("/metadata/finalizers/0", "kubernetes.io/pvc-protection"),
        case("bare-pod-with-an-owner-that-does-not-exist")
            .post(
                pods(""),
                with(
                    pod("p"),
                    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                        "name": "r", "uid": "u"}]}}),
                ),
            )
            .expect(201)
            .get(pods("/p"))
            .expect(200),
    ]
}
