//! The Deployment and what stands around it.

use serde_json::{Value, json};

use super::model::Operator;
use super::objects::Manifest;

/// How much longer the Pod lives than its manager waits at shutdown: the lease is released and
/// Events are flushed after the runnables have stopped.
const GRACE_EXTRA_SECONDS: u32 = 10;

pub(super) fn manifests(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = vec![
        Manifest::new(
            "service-account",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": operator.metadata("")}),
        ),
        Manifest::new("deployment", deployment(operator)),
    ];
    if operator.replicas > 1 {
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": operator.metadata(""),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": operator.labels()}},
        });
        manifests.push(Manifest::new("pod-disruption-budget", budget));
    }
    if let Some(metrics) = &operator.metrics {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": operator.metadata("metrics"),
            "spec": {
                "selector": operator.labels(),
                "ports": [{"name": "metrics", "port": metrics.port, "targetPort": "metrics", "protocol": "TCP"}],
            },
        });
        manifests.push(Manifest::new("metrics-service", service));
    }
    if operator.network_policy {
        manifests.push(Manifest::new("network-policy", network_policy(operator)));
    }
    if operator.service_monitor
        && let Some(monitor) = service_monitor(operator)
    {
        manifests.push(Manifest::new("service-monitor", monitor));
    }
    manifests
}

fn deployment(operator: &Operator) -> Value {
    let mut ports = Vec::new();
    if let Some(metrics) = &operator.metrics {
        ports.push(json!({"name": "metrics", "containerPort": metrics.port, "protocol": "TCP"}));
    }
    if let Some(probes) = operator.probes {
        ports.push(json!({"name": "probes", "containerPort": probes, "protocol": "TCP"}));
    }
    let mut env =
        vec![json!({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}})];
    env.extend(operator.env.iter().cloned());
    let mut container = json!({
        "name": "manager",
        "image": operator.image,
        "args": operator.args,
        "env": env,
        "ports": ports,
        "resources": operator.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    });
    if operator.probes.is_some() {
        let probe = |path: &str, delay: u32, period: u32| json!({"httpGet": {"path": path, "port": "probes"}, "initialDelaySeconds": delay, "periodSeconds": period});
        container["livenessProbe"] = probe("/healthz", 15, 20);
        container["readinessProbe"] = probe("/readyz", 5, 10);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": operator.metadata(""),
        "spec": {
            "replicas": operator.replicas,
            "selector": {"matchLabels": operator.labels()},
            "template": {
                "metadata": {"labels": operator.labels()},
                "spec": {
                    "serviceAccountName": operator.name,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65532,
                        "runAsGroup": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "terminationGracePeriodSeconds": operator.shutdown_seconds + GRACE_EXTRA_SECONDS,
                    "containers": [container],
                },
            },
        },
    })
}

/// Lets scrapers reach the metrics. Kubelets reach the probes without a rule.
fn network_policy(operator: &Operator) -> Value {
    let ingress: Vec<Value> = operator
        .metrics
        .iter()
        .map(|metrics| {
            json!({
                "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                "ports": [{"port": metrics.port, "protocol": "TCP"}],
            })
        })
        .collect();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": operator.metadata(""),
        "spec": {"podSelector": {"matchLabels": operator.labels()}, "policyTypes": ["Ingress"], "ingress": ingress},
    })
}

fn service_monitor(operator: &Operator) -> Option<Value> {
    let metrics = operator.metrics.as_ref()?;
    let mut endpoint = json!({"port": "metrics", "path": "/metrics", "scheme": "http"});
    if metrics.is_secure {
        endpoint["scheme"] = "https".into();
        endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token".into();
        endpoint["tlsConfig"] = metrics.ca_secret.as_ref().map_or_else(
            || json!({"insecureSkipVerify": true}),
            |secret| {
                json!({
                    "ca": {"secret": {"name": secret, "key": "ca.crt"}},
                    "serverName": format!("{}-metrics.{}.svc", operator.name, operator.namespace),
                })
            },
        );
    }
    Some(json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": operator.metadata(""),
        "spec": {"endpoints": [endpoint], "selector": {"matchLabels": operator.labels()}},
    }))
}
