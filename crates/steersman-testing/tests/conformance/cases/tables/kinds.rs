//! The columns and cells of built-in kinds.

use serde_json::{Value, json};

use super::super::{MAPS, map, with};
use super::{KUBECTL, TABLE, named};
use crate::conformance::case::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    [workloads(), network(), storage(), cluster()].into_iter().flatten().collect()
}

/// Creates objects, and gets each and the list of them as Tables.
fn shown(name: &'static str, group: &str, plural: &str, objects: &[Value]) -> Case {
    let mut made = case(name);
    for object in objects {
        made = made.post(named(group, plural, ""), object.clone()).expect(201);
    }
    let first = objects[0]["metadata"]["name"].as_str().unwrap().to_owned();
    made.get(named(group, plural, &format!("/{first}")))
        .header("accept", TABLE)
        .expect(200)
        .see("/kind", "Table")
        .get(named(group, plural, ""))
        .header("accept", KUBECTL)
        .expect(200)
        .see("/kind", "Table")
}

/// The same for a kind without namespaces, one object of it, which has a name of the case's own.
fn cluster_wide(name: &'static str, path: &str, object: Value) -> Case {
    let object = with(object, json!({"metadata": {"name": "t-${id}", "labels": {"case": "${id}"}}}));
    case(name)
        .post(path, object)
        .expect(201)
        .ignore("/status")
        .get(format!("{path}/t-${{id}}"))
        .header("accept", TABLE)
        .expect(200)
        .see("/kind", "Table")
        .get(format!("{path}?labelSelector=case=${{id}}"))
        .header("accept", KUBECTL)
        .expect(200)
        .delete(format!("{path}/t-${{id}}"))
        .ignore("")
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}], "nodeSelector": {"b": "2", "a": "1"}},
    })
}

pub(super) fn deployment(name: &str) -> Value {
    let expressions = json!([{"key": "app", "operator": "In", "values": ["web", "api"]}]);
    json!({"metadata": {"name": name}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}, "matchExpressions": expressions}, "template": template(),
    }})
}

fn workloads() -> Vec<Case> {
    let apps = |kind_spec: Value| {
        let spec = with(json!({"selector": {"matchLabels": {"app": "web"}}, "template": template()}), kind_spec);
        json!({"metadata": {"name": "one"}, "spec": spec})
    };
    let job_spec = |more: Value| {
        let template = with(template(), json!({"spec": {"restartPolicy": "Never"}}));
        with(json!({ "template": template }), more)
    };
    let job = |name: &str, more: Value| json!({"metadata": {"name": name}, "spec": job_spec(more)});
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
    ]);
    let autoscaler = |name: &str, more: Value| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        json!({"metadata": {"name": name}, "spec": with(json!({"scaleTargetRef": target, "maxReplicas": 5}), more)})
    };
    vec![
        shown("table-deployments", "apps/v1", "deployments", &[deployment("web"), deployment("web2")])
            .merge(
                named("apps/v1", "deployments", "/web/status"),
                json!({"status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
            )
            .get(named("apps/v1", "deployments", "/web"))
            .header("accept", TABLE)
            .see("/rows/0/cells/1", "2/3"),
        shown("table-replica-sets", "apps/v1", "replicasets", &[apps(json!({"replicas": 2}))]),
        shown("table-stateful-sets", "apps/v1", "statefulsets", &[apps(json!({"serviceName": "s"}))]),
        shown("table-daemon-sets", "apps/v1", "daemonsets", &[apps(json!({}))]),
        shown(
            "table-replication-controllers",
            "",
            "replicationcontrollers",
            &[json!({"metadata": {"name": "one"}, "spec": {"selector": {"app": "web"}, "template": template()}})],
        ),
        case("table-controller-revisions")
            .post(MAPS, map("owner"))
            .named("owner")
            .post(
                named("apps/v1", "controllerrevisions", ""),
                json!({"metadata": {"name": "one", "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${uid:owner}", "controller": true},
                ]}, "revision": 4, "data": {"a": 1}}),
            )
            .expect(201)
            .post(
                named("apps/v1", "controllerrevisions", ""),
                json!({"metadata": {"name": "two"}, "revision": 5, "data": {"a": 1}}),
            )
            .get(named("apps/v1", "controllerrevisions", ""))
            .header("accept", TABLE)
            .see("/rows/0/cells/1", "configmap/owner"),
        shown(
            "table-pod-templates",
            "",
            "podtemplates",
            &[json!({"metadata": {"name": "one"}, "template": template()})],
        ),
        shown(
            "table-jobs",
            "batch/v1",
            "jobs",
            &[
                job("one", json!({"completions": 3})),
                job("two", json!({"parallelism": 2})),
                job("three", json!({"suspend": true})),
            ],
        ),
        shown(
            "table-cron-jobs",
            "batch/v1",
            "cronjobs",
            &[json!({"metadata": {"name": "one"}, "spec": {
                "schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": job_spec(json!({}))},
            }})],
        ),
        shown(
            "table-disruption-budgets",
            "policy/v1",
            "poddisruptionbudgets",
            &[
                json!({"metadata": {"name": "one"}, "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}}),
                json!({"metadata": {"name": "two"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
            ],
        ),
        shown(
            "table-autoscalers",
            "autoscaling/v2",
            "horizontalpodautoscalers",
            &[autoscaler("one", json!({"minReplicas": 2, "metrics": metrics})), autoscaler("two", json!({}))],
        ),
        shown("table-autoscalers-in-v1", "autoscaling/v1", "horizontalpodautoscalers", &[autoscaler("one", json!({}))]),
    ]
}

fn network() -> Vec<Case> {
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let rule = |host: &str| json!({"host": host});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let subset = json!({"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    vec![
        shown(
            "table-services",
            "",
            "services",
            &[
                service("one", json!({"ports": ports, "selector": {"b": "2", "a": "1"}})),
                service("two", json!({"type": "ExternalName", "externalName": "example.com"})),
                service("three", json!({"clusterIP": "None", "ports": [{"port": 1}]})),
                service(
                    "four",
                    json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}]}),
                ),
            ],
        ),
        shown(
            "table-ingresses",
            "networking.k8s.io/v1",
            "ingresses",
            &[
                json!({"metadata": {"name": "one"}, "spec": {"ingressClassName": "c", "defaultBackend": backend,
                    "tls": [{"hosts": ["a.example.com"]}],
                    "rules": [rule("a.example.com"), rule("b.example.com"), rule("c.example.com"), rule("d.example.com")]}}),
                json!({"metadata": {"name": "two"}, "spec": {"defaultBackend": backend}}),
            ],
        ),
        shown(
            "table-network-policies",
            "networking.k8s.io/v1",
            "networkpolicies",
            &[
                json!({"metadata": {"name": "one"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}}}),
                json!({"metadata": {"name": "two"}, "spec": {"podSelector": {}}}),
            ],
        ),
        shown(
            "table-endpoints",
            "",
            "endpoints",
            &[
                json!({"metadata": {"name": "one"}, "subsets": [subset]}),
                json!({"metadata": {"name": "two"}, "subsets": [{"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 1}]}]}),
                json!({"metadata": {"name": "three"}}),
            ],
        ),
        shown(
            "table-endpoint-slices",
            "discovery.k8s.io/v1",
            "endpointslices",
            &[
                json!({"metadata": {"name": "one"}, "addressType": "IPv4", "ports": [{"name": "a", "port": 80}],
                    "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}]}),
                json!({"metadata": {"name": "two"}, "addressType": "IPv4", "endpoints": [], "ports": []}),
            ],
        ),
        cluster_wide(
            "table-ingress-classes",
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"spec": {
                "controller": "example.com/c", "parameters": {"apiGroup": "example.com", "kind": "P", "name": "p", "scope": "Cluster"},
            }}),
        ),
    ]
}

fn storage() -> Vec<Case> {
    let claim = json!({"metadata": {"name": "one"}, "spec": {
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "", "volumeName": "none-${id}",
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    vec![
        shown("table-claims", "", "persistentvolumeclaims", &[claim]),
        cluster_wide(
            "table-volumes",
            "/api/v1/persistentvolumes",
            json!({"spec": {
                "capacity": {"storage": "2048Mi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/tmp"},
                "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "none",
            }}),
        ),
        cluster_wide(
            "table-storage-classes",
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"provisioner": "example.com/p", "allowVolumeExpansion": true}),
        ),
        cluster_wide(
            "table-csi-drivers",
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"spec": {
                "attachRequired": true, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
                "requiresRepublish": false, "seLinuxMount": false, "storageCapacity": false,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }}),
        ),
        cluster_wide(
            "table-volume-attachments",
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        ),
    ]
}

fn cluster() -> Vec<Case> {
    let subjects = json!([
        {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]);
    let role = json!({"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"});
    let event = json!({
        "metadata": {"name": "one", "namespace": "${ns}"}, "reason": "Started", "message": " text\n", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "${ns}", "fieldPath": "spec"},
        "source": {"component": "kubelet", "host": "n"}, "count": 4,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z",
    });
    let series = json!({
        "metadata": {"name": "one", "namespace": "${ns}"}, "reason": "Started", "note": "text", "type": "Normal",
        "action": "Act", "regarding": {"kind": "Pod", "namespace": "${ns}"}, "reportingController": "example.com/c",
        "reportingInstance": "i", "eventTime": "2026-01-02T03:04:05.000000Z",
        "series": {"count": 7, "lastObservedTime": "2026-01-02T03:04:07.000000Z"},
    });
    vec![
        shown("table-events", "", "events", &[event]),
        shown("table-events-of-the-new-group", "events.k8s.io/v1", "events", &[series]),
        shown(
            "table-secrets",
            "",
            "secrets",
            &[
                json!({"metadata": {"name": "one"}, "data": {"a": "YQ=="}}),
                json!({"metadata": {"name": "two"}, "type": "example.com/x"}),
            ],
        ),
        shown("table-service-accounts", "", "serviceaccounts", &[json!({"metadata": {"name": "one"}})]).ignore("/rows"),
        shown(
            "table-leases",
            "coordination.k8s.io/v1",
            "leases",
            &[
                json!({"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}),
                json!({"metadata": {"name": "two"}}),
            ],
        ),
        shown("table-limit-ranges", "", "limitranges", &[json!({"metadata": {"name": "one"}, "spec": {"limits": []}})]),
        shown(
            "table-quotas",
            "",
            "resourcequotas",
            &[json!({"metadata": {"name": "one"}, "spec": {"hard": {"pods": "5", "limits.cpu": "2"}}})],
        )
        .merge(
            named("", "resourcequotas", "/one/status"),
            json!({"status": {"hard": {"pods": "5", "limits.cpu": "2", "secrets": "9"}, "used": {"pods": "1"}}}),
        )
        .get(named("", "resourcequotas", "/one"))
        .header("accept", TABLE)
        .see("/rows/0/cells/2", "limits.cpu: 0/2"),
        shown(
            "table-roles",
            "rbac.authorization.k8s.io/v1",
            "roles",
            &[json!({"metadata": {"name": "one"}, "rules": []})],
        ),
        shown(
            "table-role-bindings",
            "rbac.authorization.k8s.io/v1",
            "rolebindings",
            &[json!({"metadata": {"name": "one"}, "roleRef": role, "subjects": subjects})],
        ),
        cluster_wide(
            "table-nodes",
            "/api/v1/nodes",
            json!({
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "old"}},
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "h"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64", "osImage": "",
                        "bootID": "", "containerRuntimeVersion": "", "kubeProxyVersion": "", "machineID": "",
                        "operatingSystem": "", "systemUUID": ""},
                },
            }),
        ),
        cluster_wide("table-namespaces", "/api/v1/namespaces", json!({})),
        cluster_wide("table-priority-classes", "/apis/scheduling.k8s.io/v1/priorityclasses", json!({"value": 1000})),
        cluster_wide("table-runtime-classes", "/apis/node.k8s.io/v1/runtimeclasses", json!({"handler": "h"})),
        cluster_wide(
            "table-webhooks",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": []}),
        ),
        cluster_wide(
            "table-priority-levels",
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {
                "type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 9}}}}}),
        ),
    ]
}
