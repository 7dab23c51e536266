//! The model of an operator.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::access::Access;

/// Where the caches of an operator look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The Secret with the certificate authority in `ca.crt`, by which a scraper verifies the
    /// server. Without one it does not verify.
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
    /// Environment variables, as in a container. `POD_NAMESPACE` is added.
    pub env: Vec<Value>,
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
    /// The server of metrics, if there is one.
    pub metrics: Option<MetricsEndpoint>,
    /// The port of `/healthz` and `/readyz`, if there is one.
    pub probes: Option<u16>,
    /// How many replicas run. More than one needs a lease.
    pub replicas: u32,
    /// How long the manager waits for its runnables at shutdown. The Pod gets more.
    pub shutdown_seconds: u32,
    /// Requests and limits of the container.
    pub resources: Value,
    /// Whether a ServiceMonitor is written. It needs the Prometheus operator's CRDs.
    pub service_monitor: bool,
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
            scope: WatchScope::Cluster,
            access: Vec::new(),
            own_access: Vec::new(),
            crds: Vec::new(),
            lease: Some(name.clone()),
            metrics: Some(MetricsEndpoint { port: 8443, is_secure: true, ca_secret: None }),
            probes: Some(8081),
            replicas: 2,
            shutdown_seconds: 30,
            resources: json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}),
            service_monitor: false,
            network_policy: true,
            samples: Vec::new(),
            name,
        }
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
