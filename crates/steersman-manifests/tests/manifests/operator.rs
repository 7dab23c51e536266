//! Manifests of an operator: what they hold, and that all writers yield the same objects.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use steersman_manifests::operator::{
    Access, AccessReason, FileChange, Files, FilesError, Operator, RuleResource, Verb, WatchScope, helm, kustomize,
    plain,
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
    assert_eq!(pod["terminationGracePeriodSeconds"], 40);
    assert_eq!(find(&objects, "Deployment", "demo")["spec"]["strategy"], Value::Null);
    let probe = |path, delay, period| json!({"httpGet": {"path": path, "port": "probes"}, "initialDelaySeconds": delay, "periodSeconds": period});
    assert_eq!(container["livenessProbe"], probe("/healthz", 15, 20));
    assert_eq!(container["readinessProbe"], probe("/readyz", 5, 10));
    // One port in all places.
    let port = &container["ports"][0]["containerPort"];
    assert_eq!(*port, 8443);
    assert_eq!(find(&objects, "NetworkPolicy", "demo")["spec"]["ingress"][0]["ports"][0]["port"], *port);
    assert_eq!(find(&objects, "Service", "demo-metrics")["spec"]["ports"][0]["targetPort"], "metrics");
    assert_eq!(find(&objects, "PodDisruptionBudget", "demo")["spec"]["maxUnavailable"], 1);
}

#[test]
fn without_a_lease_no_two_pods_run_at_once() {
    let mut operator = operator();
    operator.lease = None;
    let error = plain(&operator).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid operator demo: 2 replicas without a lease would all act: use leader election, or one replica"
    );
    operator.replicas = 1;
    let objects = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    assert_eq!(find(&objects, "Deployment", "demo")["spec"]["strategy"], json!({"type": "Recreate"}));
    assert!(!objects.keys().any(|key| key.contains("PodDisruptionBudget")), "{:?}", objects.keys());
}

#[test]
fn a_model_that_a_server_would_refuse_is_an_error() {
    let long = "a".repeat(56);
    for name in ["Demo", "1st", "a_b", "a-", "", &long] {
        for write in [plain, kustomize, helm] {
            let error = write(&Operator::new(name, "demo:1")).unwrap_err();
            assert!(matches!(&error, FilesError::Invalid { .. }) && error.to_string().contains("rename"), "{error}");
        }
    }
    let mut nowhere = operator();
    nowhere.scope = WatchScope::Namespaces(Vec::new());
    assert!(plain(&nowhere).unwrap_err().to_string().contains("name one, or use WatchScope::Cluster"));
    assert!(plain(&Operator::new(&long[1..], "demo:1")).is_ok());
}

#[test]
fn a_scraper_verifies_the_certificate_that_the_program_serves() {
    let mut operator = operator();
    operator.service_monitor = true;
    let endpoint = |objects: &Objects| find(objects, "ServiceMonitor", "demo")["spec"]["endpoints"][0].clone();
    let unverified = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    assert_eq!(endpoint(&unverified)["tlsConfig"], json!({"insecureSkipVerify": true}));

    operator.metrics.as_mut().unwrap().ca_secret = Some("demo-metrics-tls".to_owned());
    let objects = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    let tls =
        json!({"ca": {"secret": {"name": "demo-metrics-tls", "key": "ca.crt"}}, "serverName": "demo-metrics.demo.svc"});
    assert_eq!(endpoint(&objects)["tlsConfig"], tls);
    let pod = &find(&objects, "Deployment", "demo")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], pod["volumes"][0]["name"]);
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "demo-metrics-tls");
    let flag = format!("--metrics-cert-path={}", mount["mountPath"].as_str().unwrap());
    assert!(container["args"].as_array().unwrap().contains(&flag.into()), "{container}");

    // Another path is the user's choice.
    operator.args.push("--metrics-cert-path=/elsewhere".to_owned());
    let text = plain(&operator).unwrap().get("install.yaml").unwrap().to_owned();
    assert_eq!(text.matches("--metrics-cert-path").count(), 1, "{text}");
}

#[test]
fn the_dashboard_is_a_file_and_on_request_a_config_map() {
    let mut operator = operator();
    let name = "grafana/demo.json";
    operator.dashboard = true;
    for (write, list) in [(plain as fn(&Operator) -> _, "install.yaml"), (kustomize, "dashboard.yaml")] {
        let files: Files = write(&operator).unwrap();
        let dashboard: Value = serde_json::from_str(files.get(name).unwrap()).unwrap();
        assert_eq!(dashboard["title"], "demo");
        let all = objects([files.get(list).unwrap()]);
        let map = find(&all, "ConfigMap", "demo-dashboard");
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        assert_eq!(map["data"]["demo.json"].as_str(), files.get(name));
    }
    operator.dashboard = false;
    let all = objects([plain(&operator).unwrap().get("install.yaml").unwrap()]);
    assert!(all.values().all(|object| object["kind"] != "ConfigMap"), "{:?}", all.keys());
    operator.metrics = None;
    assert_eq!(plain(&operator).unwrap().get(name), None);
}

#[test]
fn a_dashboard_of_the_user_is_never_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut operator = operator();
    plain(&operator).unwrap().write(folder.path()).unwrap();
    // What Grafana exports has no mark.
    fs::write(folder.path().join("grafana/own.json"), "{\n  \"title\": \"own\"\n}\n").unwrap();
    operator.namespace = "elsewhere".to_owned();
    let changes = plain(&operator).unwrap().write(folder.path()).unwrap();
    let changed = |name: &str| FileChange::OutOfDate(name.to_owned());
    assert_eq!(changes, [changed("grafana/demo.json"), changed("install.yaml")]);
    operator.metrics = None;
    let changes = plain(&operator).unwrap().write(folder.path()).unwrap();
    assert_eq!(changes, [changed("install.yaml"), FileChange::Stale("grafana/demo.json".to_owned())]);
    assert!(folder.path().join("grafana/own.json").exists());
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
    let env = &find(&objects, "Deployment", "demo")["spec"]["template"]["spec"]["containers"][0]["env"];
    assert!(env.as_array().unwrap().contains(&json!({"name": "WATCH_NAMESPACE", "value": "one,two"})), "{env}");
    let binding = &objects[r#""RoleBinding" "two"/"demo""#];
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "demo", "namespace": "demo"}]));
}

#[test]
fn an_access_of_other_namespaces_gets_roles_there() {
    let maps = || RuleResource::namespaced("", "configmaps");
    let vault = || WatchScope::Namespaces(vec!["vault".to_owned()]);
    let mut operator = Operator::new("demo", "demo:1");
    operator.metrics = None;
    operator.scope = WatchScope::Namespaces(vec!["shop".to_owned()]);
    operator.lease_namespace = Some("leases".to_owned());
    operator.access = vec![
        Access::new(maps(), [Verb::Watch], AccessReason::Watch).by(["web", "mail"]),
        Access::new(maps(), [Verb::Get], AccessReason::Live).within(vault()),
        Access::new(maps(), [Verb::List], AccessReason::Live).within(WatchScope::Cluster),
        Access::new(RuleResource::cluster("", "nodes"), [Verb::Get], AccessReason::Live).within(vault()),
    ];
    let text = plain(&operator).unwrap().get("install.yaml").unwrap().to_owned();
    let objects = objects([text.as_str()]);
    let verbs = |key: &str| {
        let rules = objects[key]["rules"].as_array().unwrap().iter();
        rules.map(|rule| format!("{} {}", rule["resources"][0], rule["verbs"])).collect::<Vec<_>>()
    };
    assert_eq!(verbs(r#""Role" "shop"/"demo""#), [r#""configmaps" ["watch"]"#]);
    assert_eq!(verbs(r#""Role" "vault"/"demo""#), [r#""configmaps" ["get"]"#]);
    let cluster = verbs(r#""ClusterRole" null/"demo""#);
    assert_eq!(cluster, [r#""nodes" ["get"]"#, r#""configmaps" ["list"]"#]);
    assert_eq!(verbs(r#""Role" "leases"/"demo""#).len(), 3, "the lease and its Events");
    assert!(!objects.contains_key(r#""Role" "demo"/"demo-own""#));
    assert!(text.contains("# configmaps: watch: a cache follows the objects (mail, web)\n"), "{text}");
    // In the namespace of the operator, the lease has the usual role.
    operator.lease_namespace = Some("demo".to_owned());
    assert!(plain(&operator).unwrap().get("install.yaml").unwrap().contains("name: demo-own"));
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
    // Each reason is there once, with the rule that it belongs to.
    let text = plain(&operator).unwrap().get("install.yaml").unwrap().to_owned();
    assert_eq!(text.matches("# widgets: update: the one called main\n").count(), 1, "{text}");
}

#[test]
fn kustomize_lists_every_file_of_the_same_objects() {
    let files = kustomize(&operator()).unwrap();
    let list: Value = serde_saphyr::from_str(files.get("kustomization.yaml").unwrap()).unwrap();
    let listed = list["resources"].as_array().unwrap().iter().map(|path| files.get(path.as_str().unwrap()).unwrap());
    assert_eq!(objects(listed), installed());
    assert_eq!(list["images"], json!([{"name": "registry:5000/demo", "newTag": "1.0"}]));
}

#[test]
fn braces_in_objects_are_no_template() {
    let chart = helm(&operator()).unwrap();
    let deployment = chart.get("templates/deployment.yaml").unwrap();
    assert!(deployment.contains("{{ \"{{\" }} not a template }}"), "{deployment}");
    // Arguments are values, which are no templates.
    assert!(chart.get("values.yaml").unwrap().contains("--pattern={{ not a template }}"));
}

#[test]
fn a_chart_without_a_lease_offers_no_replicas() {
    let mut operator = operator();
    (operator.lease, operator.replicas) = (None, 1);
    let chart = helm(&operator).unwrap();
    let values: Value = serde_saphyr::from_str(chart.get("values.yaml").unwrap()).unwrap();
    assert!(values["replicas"].is_null() && chart.get("templates/pod-disruption-budget.yaml").is_none());
    // With one, another value may ask for more replicas.
    operator.lease = Some("demo".to_owned());
    assert!(helm(&operator).unwrap().get("templates/pod-disruption-budget.yaml").is_some());
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
