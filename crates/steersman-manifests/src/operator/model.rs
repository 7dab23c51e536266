//! The model of an operator.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::access::Access;
use super::files::FilesError;

/// The largest name. With the longest suffix, it is the name of a Service.
const NAME_MAX: usize = 63 - "-metrics".len();

/// Where the caches of an operator look.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchScope {
    /// In all namespaces.
    #[default]
    Cluster,
    /// In these namespaces. Roles replace the ClusterRole for namespaced resources.
    Namespaces(Vec<String>),
}

/// The server of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsEndpoint {
    /// The port of the container.
    pub port: u16,
    /// Whether the server uses TLS, and asks the API server who may read.
    pub is_secure: bool,
    /// The Secret with the server's certificate in `tls.crt` and `tls.key`, and its authority in
    /// `ca.crt`, as cert-manager writes it. The Deployment mounts it and adds the argument
    /// `--metrics-cert-path`, and a scraper verifies the server by it. The certificate is for
    /// `<name>-metrics.<namespace>.svc`. Without a Secret, the program makes a certificate, and a
    /// scraper cannot verify it.
    pub ca_secret: Option<String>,
}

/// Everything that manifests depend on.
///
/// The fields are public: the model is data, made by a manager or by hand, and the writers are
/// functions of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Operator {
    /// The name of the operator, of its Deployment, ServiceAccount and roles.
    pub name: String,
    /// The namespace in which the operator runs.
    pub namespace: String,
    /// The image with its tag.
    pub image: String,
    /// The version of the operator, for the chart.
    pub version: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables, as in a container. `POD_NAMESPACE` is added, and `WATCH_NAMESPACE` if
    /// [`scope`](Self::scope) names namespaces, unless an argument does.
    pub env: Vec<Value>,
    /// Sources of environment variables, as `envFrom` in a container.
    pub env_from: Vec<Value>,
    /// Where the caches look.
    pub scope: WatchScope,
    /// What the operator does, besides its lease and what its metrics need.
    pub access: Vec<Access>,
    /// What the operator does in its own namespace, whatever the scope is.
    pub own_access: Vec<Access>,
    /// The CRDs of the operator.
    pub crds: Vec<CustomResourceDefinition>,
    /// The name of the Lease for leader election, if there is one.
    pub lease: Option<String>,
    /// The namespace of the Lease, if it is not the operator's.
    pub lease_namespace: Option<String>,
    /// The server of metrics, if there is one.
    pub metrics: Option<MetricsEndpoint>,
    /// The port of `/healthz` and `/readyz`, if there is one.
    pub probes: Option<u16>,
    /// How many replicas run. More than one needs a lease. Without a lease, the earlier Pod ends
    /// before a new one starts.
    pub replicas: u32,
    /// How long the manager waits for its runnables at shutdown. The Pod gets more.
    pub shutdown_seconds: u32,
    /// Requests and limits of the container.
    pub resources: Value,
    /// Whether a ServiceMonitor is written. It needs the Prometheus operator's CRDs.
    pub service_monitor: bool,
    /// Whether the dashboard for Grafana is installed, too: in a ConfigMap with the label
    /// `grafana_dashboard`, which the sidecar of Grafana's chart reads.
    pub dashboard: bool,
    /// Whether a NetworkPolicy is written.
    pub network_policy: bool,
    /// Objects that show how to use the CRDs.
    pub samples: Vec<Value>,
}

impl Operator {
    /// An operator that runs in the namespace of its own name, with metrics on 8443 by TLS, probes
    /// on 8081, a lease and two replicas.
    pub fn new(name: impl Into<String>, image: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            namespace: name.clone(),
            image: image.into(),
            version: "0.1.0".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            env_from: Vec::new(),
            scope: WatchScope::Cluster,
            access: Vec::new(),
            own_access: Vec::new(),
            crds: Vec::new(),
            lease: Some(name.clone()),
            lease_namespace: None,
            metrics: Some(MetricsEndpoint { port: 8443, is_secure: true, ca_secret: None }),
            probes: Some(8081),
            replicas: 2,
            shutdown_seconds: 30,
            resources: json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}),
            service_monitor: false,
            dashboard: false,
            network_policy: true,
            samples: Vec::new(),
            name,
        }
    }

    /// Checks what the writers rely on.
    pub(super) fn validate(&self) -> Result<(), FilesError> {
        let reason = if self.replicas > 1 && self.lease.is_none() {
            format!("{} replicas without a lease would all act: use leader election, or one replica", self.replicas)
        } else if let Some(problem) = name_problem(&self.name) {
            format!("{problem}, and a Service has this name: rename the operator")
        } else if matches!(&self.scope, WatchScope::Namespaces(names) if names.is_empty()) {
            "the caches look in no namespace: name one, or use WatchScope::Cluster".to_owned()
        } else {
            return Ok(());
        };
        Err(FilesError::Invalid { name: self.name.clone(), reason })
    }

    /// The label by which the objects of the operator are found.
    pub(super) fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name})
    }

    /// The metadata of an object in the operator's namespace.
    pub(super) fn metadata(&self, suffix: &str) -> Value {
        let mut metadata = self.cluster_metadata(suffix);
        metadata["namespace"] = self.namespace.as_str().into();
        metadata
    }

    /// The metadata of an object in no namespace.
    pub(super) fn cluster_metadata(&self, suffix: &str) -> Value {
        let dash = if suffix.is_empty() { "" } else { "-" };
        json!({"name": format!("{}{dash}{suffix}", self.name), "labels": self.labels()})
    }
}

/// Why a server would refuse objects of this name.
fn name_problem(name: &str) -> Option<String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > NAME_MAX {
        return Some(format!("the name has {} characters, more than {NAME_MAX}", name.len()));
    }
    let is_valid = name.bytes().all(is_inner)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-');
    (!is_valid)
        .then(|| "the name needs lowercase letters, digits and inner dashes, and begins with a letter".to_owned())
}
