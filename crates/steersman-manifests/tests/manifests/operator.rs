//! Manifests of an operator: what they hold, and that all writers yield the same objects.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use steersman_manifests::operator::{
    Access, FileChange, Files, FilesError, Operator, RuleResource, Verb, WatchScope, helm, kustomize, plain,
};

use crate::sample_operator::operator;

type Objects = BTreeMap<String, Value>;

/// The documents of a YAML text, by kind, namespace and name.
fn objects<'a>(texts: impl IntoIterator<Item = &'a str>) -> Objects {
    let mut objects = Objects::new();
    for text in texts {
        for object in serde_saphyr::from_multiple::<Value>(text).unwrap() {
            let metadata = &object["metadata"];
            let key = format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"]);
            assert!(objects.insert(key.clone(), object).is_none(), "{key} is there twice");
        }
    }
    objects
}

fn installed() -> Objects {
    objects([plain(&operator()).unwrap().get("install.yaml").unwrap()])
}

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    let found = objects.values().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} in {:?}", objects.keys()))
}

#[test]
fn the_deployment_is_restricted_and_outlives_its_manager() {
    let objects = installed();
    let pod = &find(&objects, "Deployment", "demo")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "probes"}));
    assert_eq!(pod["terminationGracePeriodSeconds"], 40);
    // One port in all places.
    let port = &container["ports"][0]["containerPort"];
    assert_eq!(*port, 8443);
    assert_eq!(find(&objects, "NetworkPolicy", "demo")["spec"]["ingress"][0]["ports"][0]["port"], *port);
    assert_eq!(find(&objects, "Service", "demo-metrics")["spec"]["ports"][0]["targetPort"], "metrics");
    assert_eq!(find(&objects, "PodDisruptionBudget", "demo")["spec"]["maxUnavailable"], 1);
}

#[test]
fn roles_hold_what_is_declared_and_give_the_reasons() {
    let objects = installed();
    let cluster = &find(&objects, "ClusterRole", "demo")["rules"];
    assert_eq!(
        *cluster,
        json!([
            {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "patch"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
            {"apiGroups": ["torture.example.com"], "resources": ["tortures", "widgets"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["torture.example.com"], "resources": ["tortures/status"], "verbs": ["update"]},
        ])
    );
    let own = &find(&objects, "Role", "demo-own")["rules"];
    assert_eq!(
        *own,
        json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["demo"], "verbs": ["get", "watch", "update"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ])
    );
    let text = plain(&operator()).unwrap();
    assert!(text.get("install.yaml").unwrap().contains("# deployments: create, patch: each Torture owns one\n"));
    assert_eq!(
        find(&objects, "ClusterRole", "demo-tortures-viewer")["rules"][0]["verbs"],
        json!(["get", "list", "watch"])
    );
}

#[test]
fn a_cache_of_some_namespaces_gets_roles_there() {
    let mut operator = operator();
    operator.scope = WatchScope::Namespaces(vec!["one".to_owned(), "two".to_owned()]);
    let objects = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    let roles: Vec<&str> = objects.keys().filter(|key| key.starts_with("\"Role\"")).map(String::as_str).collect();
    assert_eq!(roles, [r#""Role" "demo"/"demo-own""#, r#""Role" "one"/"demo""#, r#""Role" "two"/"demo""#]);
    let cluster = find(&objects, "ClusterRole", "demo").to_string();
    assert!(!cluster.contains("tortures") && cluster.contains("kube-system"), "{cluster}");
    let binding = &objects[r#""RoleBinding" "two"/"demo""#];
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "demo", "namespace": "demo"}]));
}

#[test]
fn an_operator_that_needs_nothing_has_no_roles() {
    let mut operator = Operator::new("bare", "bare:1");
    (operator.lease, operator.metrics, operator.probes, operator.replicas) = (None, None, None, 1);
    let objects = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    let keys: Vec<&str> = objects.keys().map(String::as_str).collect();
    let expected = [
        r#""Deployment" "bare"/"bare""#,
        r#""Namespace" null/"bare""#,
        r#""NetworkPolicy" "bare"/"bare""#,
        r#""ServiceAccount" "bare"/"bare""#,
    ];
    assert_eq!(keys, expected);
}

#[test]
fn verbs_of_one_resource_are_one_rule() {
    let widgets = || RuleResource::namespaced("example.com", "widgets");
    let mut operator = Operator::new("demo", "demo:1");
    operator.metrics = None;
    operator.access = vec![
        Access::new(widgets(), Verb::READ, "watched"),
        Access::new(widgets(), [Verb::Delete], "cleaned up"),
        Access::new(widgets(), [Verb::Update], "the one called main").named(["main"]),
    ];
    let objects = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    let expected = json!([
        {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch", "delete"]},
        {"apiGroups": ["example.com"], "resources": ["widgets"], "resourceNames": ["main"], "verbs": ["update"]},
    ]);
    assert_eq!(find(&objects, "ClusterRole", "demo")["rules"], expected);
}

#[test]
fn kustomize_lists_every_file_of_the_same_objects() {
    let files = kustomize(&operator()).unwrap();
    let list: Value = serde_saphyr::from_str(files.get("kustomization.yaml").unwrap()).unwrap();
    let listed = list["resources"].as_array().unwrap().iter().map(|path| files.get(path.as_str().unwrap()).unwrap());
    assert_eq!(objects(listed), installed());
    assert_eq!(list["images"], json!([{"name": "registry:5000/demo", "newTag": "1.0"}]));
}

/// The template with the default values, for the expressions that charts of this crate have.
fn rendered(files: &Files) -> Objects {
    let values: Value = serde_saphyr::from_str(files.get("values.yaml").unwrap()).unwrap();
    let mut texts = Vec::new();
    for (path, template) in files.iter().filter(|(path, _)| path.starts_with("templates/")) {
        let is_on = template.lines().find_map(|line| line.strip_prefix("{{- if ")?.strip_suffix(" }}")).is_none_or(
            |condition| {
                let value = condition
                    .strip_prefix(".Values.")
                    .map(|path| values.pointer(&format!("/{}", path.replace('.', "/"))));
                value.map_or(condition == "gt (int .Values.replicas) 1", |value| *value.unwrap() == true)
            },
        );
        let lines = template.lines().filter(|line| !line.starts_with("{{-"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let resources = "{{- toYaml .Values.resources | nindent 10 }}";
        assert_eq!(path.ends_with("/deployment.yaml"), text.contains(resources), "{path}: {text}");
        let text = text
            .replace(resources, &values["resources"].to_string())
            .replace("{{ .Release.Namespace | quote }}", "demo")
            .replace("{{ .Release.Namespace }}", "demo")
            .replace("{{ .Values.image | quote }}", values["image"].as_str().unwrap())
            .replace("{{ .Values.replicas }}", &values["replicas"].to_string())
            .replace("{{ ternary \"keep\" \"delete\" .Values.crd.keep | quote }}", "keep")
            .replace("{{ \"{{\" }}", "{{");
        assert!(!text.contains("STEERSMAN") && !text.contains(".Values"), "{path}: {text}");
        if is_on {
            texts.push(text);
        }
    }
    objects(texts.iter().map(String::as_str))
}

#[test]
fn braces_in_objects_are_no_template() {
    let chart = helm(&operator()).unwrap();
    let deployment = chart.get("templates/deployment.yaml").unwrap();
    assert!(deployment.contains("--pattern={{ \"{{\" }} not a template }}"), "{deployment}");
}

#[test]
fn a_chart_with_default_values_yields_the_same_objects() {
    for service_monitor in [false, true] {
        let mut operator = operator();
        operator.service_monitor = service_monitor;
        let mut expected = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
        // The namespace is the one of the release.
        expected.retain(|key, _| !key.starts_with("\"Namespace\""));
        let mut chart = rendered(&helm(&operator).unwrap());
        for object in chart.values_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
            let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
            assert_eq!(annotations.remove("helm.sh/resource-policy"), Some("keep".into()));
            if annotations.is_empty() {
                object["metadata"].as_object_mut().unwrap().remove("annotations");
            }
        }
        assert_eq!(chart, expected);
    }
}

#[test]
fn a_folder_is_checked_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let (all, missing) =
        (kustomize(&operator()).unwrap(), |change: &FileChange| matches!(change, FileChange::Missing(_)));
    let first = all.check(folder.path()).unwrap();
    assert!(first.len() == all.iter().count() && first.iter().all(missing), "{first:?}");
    all.write(folder.path()).unwrap();
    assert_eq!(all.check(folder.path()).unwrap(), []);

    let mut fewer = operator();
    (fewer.replicas, fewer.image) = (1, "demo:2".to_owned());
    let fewer = kustomize(&fewer).unwrap();
    let changes = fewer.check(folder.path()).unwrap();
    let expected = [
        FileChange::OutOfDate("deployment.yaml".to_owned()),
        FileChange::OutOfDate("kustomization.yaml".to_owned()),
        FileChange::Stale("pod-disruption-budget.yaml".to_owned()),
    ];
    assert_eq!(changes, expected);
    assert_eq!(fewer.write(folder.path()).unwrap(), expected);
    assert_eq!(fewer.check(folder.path()).unwrap(), []);
}

#[test]
fn files_of_the_user_are_never_lost() {
    let folder = tempfile::tempdir().unwrap();
    let chart = helm(&operator()).unwrap();
    chart.write(folder.path()).unwrap();
    // The values belong to the user.
    fs::write(folder.path().join("values.yaml"), "replicas: 5\n").unwrap();
    fs::write(folder.path().join("templates/own.yaml"), "kind: Own\n").unwrap();
    assert_eq!(chart.check(folder.path()).unwrap(), []);
    // A file without the header is not overwritten, and then nothing is written.
    fs::write(folder.path().join("Chart.yaml"), "mine: true\n").unwrap();
    fs::remove_file(folder.path().join("templates/deployment.yaml")).unwrap();
    let error = chart.write(folder.path()).unwrap_err();
    assert!(matches!(&error, FilesError::NotGenerated { path } if path.ends_with("Chart.yaml")), "{error}");
    assert!(!folder.path().join("templates/deployment.yaml").exists());
    assert_eq!(fs::read_to_string(folder.path().join("values.yaml")).unwrap(), "replicas: 5\n");
}
