//! The custom resource of the labs.

use serde::{Deserialize, Serialize};
use steersman::CustomResource;

/// A network: where it is, and the way out of it.
#[derive(CustomResource, Clone, Debug, Deserialize, PartialEq, Serialize, schemars::JsonSchema)]
#[kube(group = "samplecrd.k8s.io", version = "v1", kind = "Network", namespaced, shortname = "net")]
// Groups under k8s.io are the Kubernetes project's: others need this. With a domain of your own,
// leave it out.
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
pub struct NetworkSpec {
    /// The addresses that are in it, such as `10.0.0.0/24`.
    pub cidr: String,
    /// The address of its gateway.
    pub gateway: String,
}
