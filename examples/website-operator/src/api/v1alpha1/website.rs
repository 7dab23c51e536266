//! The kind Website: what it may contain, and its CustomResourceDefinition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman::manifests::crd;

/// The desired state.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "web.example.com", version = "v1alpha1", kind = "Website")]
#[kube(plural = "websites", namespaced, status = "WebsiteStatus")]
#[kube(doc = "A text that the controller writes to a ConfigMap.")]
#[kube(
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[kube(
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// What the ConfigMap contains.
    pub text: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// `Ready` is true when the ConfigMap has the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The CustomResourceDefinition.
pub fn crd() -> Result<CustomResourceDefinition, crd::Error> {
    crd::crd::<Website>()
}
