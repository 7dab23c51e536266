//! The manifests of the deployment.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use network_operator::Network;
use serde::de::DeserializeOwned;
use steersman::CustomResourceExt;

fn manifest<K: DeserializeOwned>(text: &str) -> K {
    let value: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_definition_in_the_file_is_the_one_of_the_code() {
    let file: CustomResourceDefinition = manifest(include_str!("../../deploy/crd.yaml"));
    let hint = "update it: cargo run -p network-operator -- --print-crd > examples/network-operator/deploy/crd.yaml";
    assert_eq!(file, Network::crd(), "{hint}");
}

#[test]
fn the_operator_is_not_root_and_writes_nowhere() {
    let deployment: Deployment = manifest(include_str!("../../deploy/deployment.yaml"));
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let security = pod.security_context.unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    assert_ne!(security.run_as_user, Some(0));
    let container = &pod.containers[0];
    let security = container.security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(security.capabilities.as_ref().unwrap().drop.as_deref(), Some(&["ALL".to_owned()][..]));
    let resources = container.resources.as_ref().unwrap();
    assert!(resources.requests.is_some() && resources.limits.is_some());
    let dockerfile = include_str!("../../Dockerfile");
    assert!(dockerfile.contains("USER 65532"), "the same user as in the manifest");
}
