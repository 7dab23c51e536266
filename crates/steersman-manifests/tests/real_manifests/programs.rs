//! The programs that users have, on the manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use steersman_manifests::operator::{Operator, WatchScope, helm, kustomize, plain};
use steersman_testing::{Program, RealServer};

use crate::sample_operator::operator;

/// The output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The documents of a YAML text, by kind, namespace and name.
pub(crate) fn objects(text: &str) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for object in serde_saphyr::from_multiple::<Value>(text).unwrap() {
        let metadata = &object["metadata"];
        let key = format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"]);
        assert!(objects.insert(key.clone(), object).is_none(), "{key} is there twice");
    }
    objects
}

fn plain_objects(operator: &Operator) -> BTreeMap<String, Value> {
    objects(plain(operator).unwrap().get("install.yaml").unwrap())
}

/// The objects of a folder with a `kustomization.yaml`, as Go reads and writes them.
fn kustomized(folder: &Path) -> BTreeMap<String, Value> {
    objects(&output(Command::new(Program::Kubectl.find().unwrap()).arg("kustomize").arg(folder)))
}

/// Helm, with folders of its own.
fn helm_command(folder: &Path) -> Command {
    let mut command = Command::new(Program::Helm.find().unwrap());
    for (variable, name) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")] {
        command.env(variable, folder.join(name));
    }
    command
}

/// The objects of a chart, as Go reads them.
fn rendered(operator: &Operator, values: &[&str]) -> BTreeMap<String, Value> {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart");
    helm(operator).unwrap().write(&chart).unwrap();
    output(helm_command(folder.path()).arg("lint").arg("--strict").arg(&chart));
    let mut template = helm_command(folder.path());
    template.args(["template", &operator.name]).arg(&chart).args(["--namespace", &operator.namespace]);
    for value in values {
        template.args(["--set", value]);
    }
    let rendered = folder.path().join("rendered");
    fs::create_dir(&rendered).unwrap();
    fs::write(rendered.join("all.yaml"), output(&mut template)).unwrap();
    fs::write(rendered.join("kustomization.yaml"), "resources: [all.yaml]\n").unwrap();
    kustomized(&rendered)
}

/// Operators that differ in what is written.
fn variants() -> Vec<(&'static str, Operator)> {
    let mut everything = operator();
    (everything.service_monitor, everything.dashboard) = (true, true);
    everything.metrics.as_mut().unwrap().ca_secret = Some("certificate".to_owned());
    let mut plain_metrics = operator();
    plain_metrics.metrics.as_mut().unwrap().is_secure = false;
    let mut namespaces = operator();
    namespaces.scope = WatchScope::Namespaces(vec!["one".to_owned(), "two".to_owned()]);
    namespaces.namespace = "elsewhere".to_owned();
    let mut bare = Operator::new("bare", "registry:5000/bare@sha256:ab");
    (bare.lease, bare.metrics, bare.probes, bare.replicas, bare.network_policy) = (None, None, None, 1, false);
    vec![
        ("the usual", operator()),
        ("everything", everything),
        ("plain metrics", plain_metrics),
        ("namespaces", namespaces),
        ("bare", bare),
    ]
}

#[test]
fn kubectl_kustomize_yields_the_objects_of_the_plain_output() {
    for (variant, operator) in variants() {
        let folder = tempfile::tempdir().unwrap();
        kustomize(&operator).unwrap().write(folder.path()).unwrap();
        assert_eq!(kustomized(folder.path()), plain_objects(&operator), "{variant}");
    }
}

#[test]
fn helm_template_yields_the_objects_of_the_plain_output() {
    for (variant, operator) in variants() {
        let mut expected = plain_objects(&operator);
        // The namespace is the one of the release.
        expected.retain(|_, object| object["kind"] != "Namespace");
        // Helm leaves CRDs with this annotation, and so their objects.
        for object in expected.values_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
            object["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
        }
        let found = rendered(&operator, &[]);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{variant}");
        for (key, object) in found {
            assert_eq!(object, expected[&key], "{variant}: {key}");
        }
    }
}

#[test]
fn values_of_a_chart_change_its_objects() {
    let usual = rendered(&operator(), &[]);
    let keys = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    let pod = |objects: &BTreeMap<String, Value>| {
        objects[r#""Deployment" "demo"/"demo""#]["spec"]["template"]["spec"].clone()
    };
    let without = |kind: &str| usual.keys().filter(|key| !key.contains(kind)).cloned().collect::<Vec<_>>();

    let one = rendered(&operator(), &["replicas=1"]);
    assert_eq!(keys(&one), without("PodDisruptionBudget"));
    assert_eq!(one[r#""Deployment" "demo"/"demo""#]["spec"]["replicas"], 1);
    assert_eq!(keys(&rendered(&operator(), &["crd.enabled=false"])), without("CustomResourceDefinition"));
    assert_eq!(keys(&rendered(&operator(), &["networkPolicy.enabled=false"])), without("NetworkPolicy"));
    let watched = rendered(&operator(), &["serviceMonitor.enabled=true", "dashboard.enabled=true"]);
    let added: Vec<_> = watched.keys().filter(|key| !usual.contains_key(*key)).collect();
    assert_eq!(added, [r#""ConfigMap" "demo"/"demo-dashboard""#, r#""ServiceMonitor" "demo"/"demo""#]);
    // Values of an earlier version do not have the switch.
    assert_eq!(keys(&rendered(&operator(), &["dashboard=null"])), keys(&usual));

    let placed = rendered(
        &operator(),
        &[
            "nodeSelector.disk=ssd",
            "tolerations[0].key=dedicated",
            "imagePullSecrets[0].name=registry",
            "image=other:2",
            "args={--one,--two}",
            "resources.limits.memory=1Gi",
        ],
    );
    let mut expected = pod(&usual);
    expected["nodeSelector"] = json!({"disk": "ssd"});
    expected["tolerations"] = json!([{"key": "dedicated"}]);
    expected["imagePullSecrets"] = json!([{"name": "registry"}]);
    expected["containers"][0]["image"] = "other:2".into();
    expected["containers"][0]["args"] = json!(["--one", "--two"]);
    expected["containers"][0]["resources"]["limits"]["memory"] = "1Gi".into();
    assert_eq!(pod(&placed), expected);
}

#[tokio::test]
async fn helm_installs_the_chart_and_removes_it() {
    let server = RealServer::shared().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut operator = operator();
    operator.name = "charted".to_owned();
    let chart = folder.path().join("chart");
    helm(&operator).unwrap().write(&chart).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = helm_command(folder.path());
        output(command.env("KUBECONFIG", server.kubeconfig()).args(arguments).args(["--namespace", "charted"]))
    };
    let path = chart.to_str().unwrap();
    // The CRDs belong to the other tests.
    let switches = ["--set", "crd.enabled=false,dashboard.enabled=true"];
    run(&[&["install", "charted", path, "--create-namespace"][..], &switches].concat());
    let kubectl = |arguments: &[&str]| {
        output(server.kubectl().unwrap().args(["--namespace", "charted", "--output=name"]).args(arguments))
    };
    let label = "--selector=app.kubernetes.io/name=charted";
    let installed = || kubectl(&["get", "deployments,configmaps,roles,clusterroles,services,networkpolicies", label]);
    for name in ["deployment.apps/charted", "configmap/charted-dashboard", "/charted-own", "service/charted-metrics"] {
        assert!(installed().lines().any(|line| line.ends_with(name)), "{name}: {}", installed());
    }
    run(&[&["upgrade", "charted", path][..], &switches, &["--set", "replicas=1"]].concat());
    run(&["uninstall", "charted"]);
    assert_eq!(installed(), "");
}
