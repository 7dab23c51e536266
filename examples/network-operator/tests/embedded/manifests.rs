//! The manifests of the deployment.

use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");

#[test]
fn the_manifests_are_those_of_the_code() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_network-operator"));
    // They need no cluster and no credentials.
    program.env("KUBECONFIG", "/nowhere/in/particular").env_remove("OS_AUTH_URL").env_remove("WATCH_NAMESPACE");
    let output = program.args(["manifests", "--check", "--out", DEPLOY]).output().unwrap();
    let hint = "write them: cargo run -p network-operator -- manifests --out examples/network-operator/deploy";
    assert!(output.status.success(), "{hint}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_operator_is_not_root_and_gets_its_credentials_from_a_secret() {
    let text = std::fs::read_to_string(format!("{DEPLOY}/install.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let deployment = objects.into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
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
    let secrets = container.env_from.as_ref().unwrap().iter().filter_map(|source| source.secret_ref.as_ref());
    assert_eq!(secrets.map(|secret| &*secret.name).collect::<Vec<_>>(), ["openstack"]);
    let dockerfile = include_str!("../../Dockerfile");
    assert!(dockerfile.contains("USER 65532"), "the same user as in the manifest");
}
