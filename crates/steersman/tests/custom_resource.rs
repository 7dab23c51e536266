//! The derive macros in a program that depends on `steersman`, `serde` and `schemars`.

use serde::{Deserialize, Serialize};
use steersman::{CustomResource, CustomResourceExt, KubeSchema, Resource};

/// A network.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Network", namespaced, status = "NetworkStatus")]
#[serde(rename_all = "camelCase")]
struct NetworkSpec {
    #[serde(default)]
    address_range: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
struct NetworkStatus {
    ready: bool,
}

/// Some paths are given, and the macro adds the others.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Router", crates(serde = "::serde", kube_core = "kube_core"))]
struct RouterSpec {
    name: String,
}

use steersman::kube::core as kube_core;

#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Port")]
#[x_kube(validation = "self.number > 0")]
struct PortSpec {
    #[x_kube(validation = "self < 65536")]
    number: u32,
}

#[test]
fn a_custom_resource_needs_no_paths_of_crates() {
    let network = Network::new("demo", NetworkSpec { address_range: "10.0.0.0/24".to_owned() });
    assert_eq!((Network::kind(&()), Network::plural(&())), ("Network".into(), "networks".into()));
    assert!(network.status.is_none());
    let schema = serde_json::to_string(&Network::crd()).unwrap();
    assert!(schema.contains("addressRange") && schema.contains("A network."), "{schema}");
}

#[test]
fn paths_that_are_given_are_used_and_the_others_are_added() {
    assert_eq!(Router::crd().spec.names.kind, "Router");
}

#[test]
fn rules_of_a_schema_reach_the_definition() {
    let schema = serde_json::to_string(&Port::crd()).unwrap();
    assert!(schema.contains("self.number > 0") && schema.contains("self < 65536"), "{schema}");
}
