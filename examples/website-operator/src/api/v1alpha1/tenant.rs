//! The kind Tenant: what it may contain, and its CustomResourceDefinition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman::manifests::crd;

/// The desired state.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "web.example.com", version = "v1alpha1", kind = "Tenant")]
#[kube(plural = "tenants", status = "TenantStatus")]
#[kube(doc = "A Namespace with a standard for its Pods.")]
#[kube(
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[kube(
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// Whether Pods have to fulfil the restricted security standard, and not only the baseline.
    #[serde(default)]
    pub restricted: bool,
}

/// The observed state.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// `Ready` is true when the Namespace has its standard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The CustomResourceDefinition.
pub fn crd() -> Result<CustomResourceDefinition, crd::Error> {
    crd::crd::<Tenant>()
}
