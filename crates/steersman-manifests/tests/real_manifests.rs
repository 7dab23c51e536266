//! The real server and its programs take the manifests. The server enforces the rules of the CRDs,
//! and keeps every field of the objects. `kubectl kustomize` and `helm template` yield the objects
//! of the plain output.

#[expect(unreachable_pub, reason = "the file is a module of a library")]
#[path = "../../../examples/labs/src/network.rs"]
mod labs;
#[expect(dead_code, unreachable_pub, reason = "the file is a module of a library")]
#[path = "../../../examples/network-operator/src/network.rs"]
mod network_operator;
#[path = "real_manifests/programs.rs"]
mod programs;
#[path = "manifests/rare.rs"]
mod rare;
#[path = "manifests/sample_operator.rs"]
mod sample_operator;
#[path = "manifests/samples.rs"]
mod samples;
#[path = "manifests/things.rs"]
mod things;
#[path = "manifests/torture.rs"]
mod torture;

use programs::{objects, output};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rare::rare;
use serde_json::{Value, json};
use steersman::client::{Api, NamespaceScope, PatchParams, PostParams};
use steersman::kube::core::DynamicObject;
use steersman::{CustomResourceExt, Patch};
use steersman_manifests::crd::{crd, manifest};
use steersman_manifests::operator::plain;
use steersman_testing::RealServer;
use things::two_versions;
use torture::Torture;

/// Installs a definition, and returns its conditions as the server reports them.
async fn install(server: &RealServer, definition: Value) -> Value {
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    server.install_crds([definition]).await.unwrap();
    let kubectl = server.kubectl().unwrap().args(["get", "crd", &name, "-o", "json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&kubectl.stdout).unwrap();
    found["status"]["conditions"].clone()
}

fn is_clean(conditions: &Value) -> bool {
    let conditions = conditions.as_array().unwrap();
    let status = |name: &str| {
        conditions.iter().find(|condition| condition["type"] == name).map(|condition| &condition["status"])
    };
    status("Established") == Some(&json!("True")) && status("NonStructuralSchema").is_none()
}

#[tokio::test]
async fn every_definition_of_ours_is_established_and_structural() {
    let server = RealServer::shared().await.unwrap();
    let of = |definition| manifest(&definition).unwrap();
    let definitions = [
        of(crd::<Torture>().unwrap()),
        of(crd::<labs::Network>().unwrap()),
        of(crd::<network_operator::Network>().unwrap()),
        of(two_versions().storage("v2").build().unwrap()),
        rare(),
    ];
    for definition in definitions {
        let conditions = install(server, definition).await;
        assert!(is_clean(&conditions), "{conditions}");
    }
}

async fn tortures(server: &RealServer, namespace: &str) -> Api<DynamicObject> {
    server.install_crds([manifest(&crd::<Torture>().unwrap()).unwrap()]).await.unwrap();
    let scope = NamespaceScope::Namespace(namespace.to_owned());
    server.client().await.unwrap().dynamic(&Torture::api_resource(), scope)
}

#[tokio::test]
async fn an_object_comes_back_with_every_field() {
    let server = RealServer::shared().await.unwrap();
    let namespace = server.namespace("fields").await.unwrap();
    server.install_crds([manifest(&crd::<Torture>().unwrap()).unwrap()]).await.unwrap();
    let objects = server.client().await.unwrap().namespaced::<Torture>(&namespace);
    let strict = PostParams { dry_run: false, field_manager: None };
    let mut specs = vec![samples::full()];
    let mut runner = TestRunner::deterministic();
    specs.extend((0..16).map(|_| samples::specs().new_tree(&mut runner).unwrap().current()));
    for (number, spec) in specs.into_iter().enumerate() {
        let created = objects.create(&strict, &Torture::new(&format!("object-{number}"), spec.clone())).await.unwrap();
        assert_eq!(created.spec, spec);
    }
}

#[tokio::test]
async fn markers_and_enums_are_rules_that_the_server_enforces() {
    let server = RealServer::shared().await.unwrap();
    let namespace = server.namespace("rules").await.unwrap();
    let objects = tortures(server, &namespace).await;
    let object = serde_json::to_value(Torture::new("ruled", samples::full())).unwrap();
    objects.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let cases = [
        (json!({"name": "other"}), "name is immutable"),
        (json!({"namespace": "other"}), "namespace is immutable"),
        (json!({"namespace": null}), "namespace is immutable: it cannot be added or removed"),
        (json!({"poolName": "pool"}), "at most one of the fields namespace, poolName must be set"),
        (json!({"listeners": [{"name": "one", "port": 9}]}), "port is immutable"),
        (json!({"addressing": {"type": "pool", "pool": "x"}}), "pool must have a name"),
        (json!({"addressing": {"type": "none"}}), ""),
        (json!({"addressing": {"type": "static", "cidr": null}}), "spec.addressing"),
        (json!({"addressing": {"type": "unknown"}}), "Unsupported value: \"unknown\""),
        (json!({"strict": [{"kind": "Short", "text": "abc", "note": "x"}]}), "spec.strict[0]"),
        (json!({"strict": [{"kind": "Short", "text": "abcd"}]}), "spec.strict[0]"),
        (json!({"adjacent": {"t": "Two", "c": {"left": 1, "right": null}}}), "spec.adjacent"),
        (json!({"counts": {"unsigned8": 256}}), "less than or equal to 255"),
        (json!({"levels": ["Low", "Low"]}), "Duplicate value"),
        (json!({"address": "nowhere"}), "spec.address"),
        (json!({"portOrName": 0}), "greater than or equal to 1"),
        (json!({"level": null}), ""),
    ];
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    for (change, message) in cases {
        match objects.patch("ruled", &dry_run, &Patch::Merge(json!({ "spec": change }))).await {
            Ok(_) => assert_eq!(message, "", "{change} is taken"),
            Err(error) => {
                let error = error.to_string();
                assert!(!message.is_empty() && error.contains(message), "{change}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn the_plain_output_is_applied_and_grants_what_it_declares() {
    let server = RealServer::shared().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let operator = sample_operator::operator();
    plain(&operator).unwrap().write(folder.path()).unwrap();
    let install = folder.path().join("install.yaml");
    output(server.kubectl().unwrap().args(["apply", "--server-side", "--force-conflicts", "-f"]).arg(&install));
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "crd/tortures.torture.example.com"];
    output(server.kubectl().unwrap().args(established));

    // A second time changes nothing.
    let again =
        output(server.kubectl().unwrap().args(["diff", "--server-side", "--force-conflicts", "-f"]).arg(&install));
    assert_eq!(again, "");

    // The namespace admits restricted Pods only.
    let all = objects(&std::fs::read_to_string(&install).unwrap());
    let deployment = all.values().find(|object| object["kind"] == "Deployment").unwrap();
    let spec = &deployment["spec"]["template"]["spec"];
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo", "namespace": "demo"}, "spec": spec});
    std::fs::write(folder.path().join("pod.json"), pod.to_string()).unwrap();
    let pod = folder.path().join("pod.json");
    output(server.kubectl().unwrap().args(["create", "--dry-run=server", "-f"]).arg(pod));

    let account = format!("--as=system:serviceaccount:{0}:{0}", operator.name);
    for (verb, resource, namespace, expected) in [
        ("watch", "tortures.torture.example.com", "default", "yes"),
        ("update", "tortures.torture.example.com", "default", "no"),
        ("update", "tortures.torture.example.com/status", "default", "yes"),
        ("create", "deployments.apps", "default", "yes"),
        ("delete", "deployments.apps", "default", "no"),
        ("get", "namespaces/kube-system", "default", "yes"),
        ("get", "namespaces/default", "default", "no"),
        ("create", "leases.coordination.k8s.io", "demo", "yes"),
        ("create", "leases.coordination.k8s.io", "default", "no"),
        ("update", "leases.coordination.k8s.io/demo", "demo", "yes"),
        ("update", "leases.coordination.k8s.io/other", "demo", "no"),
        ("create", "subjectaccessreviews.authorization.k8s.io", "default", "yes"),
        ("create", "pods", "default", "no"),
    ] {
        let mut kubectl = server.kubectl().unwrap();
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, "status")) => (resource, "--subresource=status"),
            _ => (resource, "--subresource="),
        };
        kubectl.args(["auth", "can-i", verb, resource, subresource, "--namespace", namespace, &account]);
        let answer = kubectl.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), expected, "{verb} {resource} in {namespace}");
    }
}
