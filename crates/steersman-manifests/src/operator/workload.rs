//! The Deployment and what stands around it.

use serde_json::{Value, json};

use super::model::{Operator, WatchScope};
use super::objects::Manifest;

/// How much longer the Pod lives than its manager waits at shutdown: the lease is released and
/// Events are flushed after the runnables have stopped.
const GRACE_EXTRA_SECONDS: u32 = 10;
/// The user of the images of distroless, and of the Dockerfile of a generated project.
const USER: u32 = 65532;
/// Where the certificate of the metrics is mounted.
const CERTIFICATE_FOLDER: &str = "/var/run/secrets/metrics";
const CERTIFICATE_FLAG: &str = "--metrics-cert-path";
const CERTIFICATE_VOLUME: &str = "metrics-certificate";

pub(super) fn manifests(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = vec![
        Manifest::new(
            "service-account",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": operator.metadata("")}),
        ),
        Manifest::new("deployment", deployment(operator)),
    ];
    if operator.replicas > 1 {
        manifests.push(Manifest::new("pod-disruption-budget", disruption_budget(operator)));
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
        let policy = Manifest::new("network-policy", network_policy(operator));
        let comments = match operator.metrics {
            Some(_) => vec!["Scrapers are in namespaces with the label metrics: enabled.".to_owned()],
            None => Vec::new(),
        };
        manifests.push(Manifest { comments, ..policy });
    }
    if operator.service_monitor
        && let Some(monitor) = service_monitor(operator)
    {
        let is_verified = monitor.pointer("/spec/endpoints/0/tlsConfig/insecureSkipVerify").is_none();
        let unverified = "The program makes its certificate, so the scraper cannot verify it. Name a Secret with one in \
                          Metrics::ca_secret.";
        let comments = if is_verified { Vec::new() } else { vec![unverified.to_owned()] };
        manifests.push(Manifest { comments, ..Manifest::new("service-monitor", monitor) });
    }
    manifests
}

fn deployment(operator: &Operator) -> Value {
    let mut spec = json!({
        "replicas": operator.replicas,
        "selector": {"matchLabels": operator.labels()},
        "template": {
            "metadata": {
                "labels": operator.labels(),
                "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
            },
            "spec": pod(operator),
        },
    });
    if operator.lease.is_none() {
        // An update that overlaps two Pods would let both act.
        spec["strategy"] = json!({"type": "Recreate"});
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": operator.metadata(""), "spec": spec})
}

fn pod(operator: &Operator) -> Value {
    let mut pod = json!({
        "serviceAccountName": operator.name,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": operator.shutdown_seconds.saturating_add(GRACE_EXTRA_SECONDS),
        "containers": [container(operator)],
    });
    if let Some(secret) = certificate(operator) {
        pod["volumes"] = json!([{"name": CERTIFICATE_VOLUME, "secret": {"secretName": secret}}]);
        // The key is readable by the group of the Pod only.
        pod["volumes"][0]["secret"]["defaultMode"] = 0o440.into();
        pod["securityContext"]["fsGroup"] = USER.into();
    }
    pod
}

fn container(operator: &Operator) -> Value {
    let mut ports = Vec::new();
    if let Some(metrics) = &operator.metrics {
        ports.push(json!({"name": "metrics", "containerPort": metrics.port, "protocol": "TCP"}));
    }
    if let Some(probes) = operator.probes {
        ports.push(json!({"name": "probes", "containerPort": probes, "protocol": "TCP"}));
    }
    let mut container = json!({
        "name": "manager",
        "image": operator.image,
        "args": args(operator),
        "env": env(operator),
        "ports": ports,
        "resources": operator.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    });
    if !operator.env_from.is_empty() {
        container["envFrom"] = json!(operator.env_from);
    }
    if operator.probes.is_some() {
        // The timings of kubebuilder's projects.
        let probe = |path: &str, delay: u32, period: u32| json!({"httpGet": {"path": path, "port": "probes"}, "initialDelaySeconds": delay, "periodSeconds": period});
        container["livenessProbe"] = probe("/healthz", 15, 20);
        container["readinessProbe"] = probe("/readyz", 5, 10);
    }
    if certificate(operator).is_some() {
        container["volumeMounts"] =
            json!([{"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_FOLDER, "readOnly": true}]);
    }
    container
}

/// The arguments of the program.
pub(super) fn args(operator: &Operator) -> Vec<String> {
    let mut args = operator.args.clone();
    if certificate(operator).is_some() && !args.iter().any(|arg| arg.starts_with(CERTIFICATE_FLAG)) {
        args.push(format!("{CERTIFICATE_FLAG}={CERTIFICATE_FOLDER}"));
    }
    args
}

fn env(operator: &Operator) -> Vec<Value> {
    let mut env =
        vec![json!({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}})];
    if let WatchScope::Namespaces(names) = &operator.scope
        && !operator.env.iter().any(|variable| variable["name"] == "WATCH_NAMESPACE")
        && !operator.args.iter().any(|argument| argument.starts_with("--watch-namespace"))
    {
        env.push(json!({"name": "WATCH_NAMESPACE", "value": names.join(",")}));
    }
    env.extend(operator.env.iter().cloned());
    env
}

/// The Secret with the certificate of the metrics.
fn certificate(operator: &Operator) -> Option<&str> {
    operator.metrics.as_ref().filter(|metrics| metrics.is_secure)?.ca_secret.as_deref()
}

fn disruption_budget(operator: &Operator) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": operator.metadata(""),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": operator.labels()},
            // Replicas that are not ready do not keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
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
        endpoint["tlsConfig"] = certificate(operator).map_or_else(
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
