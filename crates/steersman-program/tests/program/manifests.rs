//! `manifests`, without a cluster.

use std::fs;
use std::future::pending;
use std::path::Path;

use serde_json::{Value, json};
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::manifests::operator::{Operator, WatchScope};
use steersman::runtime::Manager;
use steersman_program::{Error, Program};

use crate::guestbook::{Flags, program, setup};
use crate::process::ended;

/// The objects of one kind in a file.
fn objects(path: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().filter(|object| object["kind"] == kind).collect()
}

/// Writes the manifests to a folder, and returns the only object of one kind.
fn only(folder: &Path, arguments: &[&str], variables: &[(&str, &str)], kind: &str) -> Value {
    let out = folder.to_str().unwrap();
    let written = ended(&[&["manifests", "--out", out], arguments].concat(), variables);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let mut found = objects(&folder.join("install.yaml"), kind);
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found.remove(0)
}

fn rule(role: &Value, resource: &str) -> Vec<String> {
    let rules = role["rules"].as_array().unwrap();
    let rules = rules.iter().filter(|rule| rule["resources"].as_array().unwrap().contains(&json!(resource)));
    let verbs = rules.flat_map(|rule| rule["verbs"].as_array().unwrap().clone());
    verbs.map(|verb| verb.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_model_has_what_the_manager_declares_and_what_its_arguments_say() {
    let model = program().model().unwrap();
    assert_eq!((&*model.name, &*model.image, &*model.version), ("guestbook", "guestbook:1.2.3", "1.2.3"));
    assert_eq!(model.lease.as_deref(), Some("guestbook"));
    assert_eq!(model.metrics.as_ref().map(|metrics| (metrics.port, metrics.is_secure)), Some((8443, true)));
    assert_eq!((model.probes, model.replicas, &model.scope), (Some(8081), 2, &WatchScope::Cluster));
    assert_eq!(model.samples.len(), 1);
    assert_eq!(model.crds[0].metadata.name.as_deref(), Some("guestbooks.example.com"));
    let resources: Vec<&str> = model.access.iter().map(|access| &*access.resource.name).collect();
    for resource in ["guestbooks", "configmaps", "guestbooks/finalizers"] {
        assert!(resources.contains(&resource), "{resource}: {resources:?}");
    }

    let plain = program().args(["--metrics-bind-address=0", "--health-probe-bind-address=:9000"]).model().unwrap();
    assert_eq!((plain.lease, plain.metrics, plain.probes, plain.replicas), (None, None, Some(9000), 1));
}

#[tokio::test]
async fn a_model_can_be_made_within_a_runtime_and_is_adjusted_last() {
    let model = program().operator(|operator: &mut Operator| operator.replicas += 1).model().unwrap();
    assert_eq!(model.replicas, 3);
}

#[test]
fn manifests_are_written_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let written = ended(&["manifests", "--out", out], &[]);
    assert_eq!((written.code, &*written.stderr), (Some(0), ""));
    for file in ["install.yaml", "samples/guestbook-visitors.yaml"] {
        assert!(written.stdout.contains(&format!("created {out}/{file}")), "{}", written.stdout);
    }
    let install = folder.path().join("install.yaml");
    let deployment = &objects(&install, "Deployment")[0];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let usual = json!(["--leader-elect", "--metrics-bind-address=:8443", "--health-probe-bind-address=:8081"]);
    assert_eq!((&container["image"], &container["args"]), (&json!("guestbook:1.2.3"), &usual));
    let roles = objects(&install, "ClusterRole");
    let own = roles.iter().find(|role| role["metadata"]["name"] == "guestbook").unwrap();
    assert_eq!(rule(own, "guestbooks"), ["list", "watch"]);
    assert_eq!(rule(own, "configmaps"), ["list", "watch", "create", "update"]);
    assert_eq!(rule(own, "guestbooks/finalizers"), ["update"]);

    // The other forms.
    for (form, file) in [("kustomize", "kustomization.yaml"), ("helm", "Chart.yaml")] {
        let folder = tempfile::tempdir().unwrap();
        let written = ended(&["manifests", "--out", folder.path().to_str().unwrap(), "--format", form], &[]);
        assert_eq!(written.code, Some(0), "{}", written.stderr);
        assert!(folder.path().join(file).exists(), "{form}");
    }
}

#[test]
fn a_check_is_red_with_a_list_and_green_after_writing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let check = || ended(&["manifests", "--out", out, "--check"], &[]);
    let missing = check();
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("install.yaml is missing"), "{}", missing.stderr);
    assert!(!folder.path().join("install.yaml").exists(), "a check writes nothing");

    assert_eq!(ended(&["manifests", "--out", out], &[]).code, Some(0));
    assert_eq!((check().code, &*check().stderr), (Some(0), ""));

    let path = folder.path().join("install.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("guestbook:1.2.3", "guestbook:1.2.4")).unwrap();
    fs::rename(folder.path().join("samples/guestbook-visitors.yaml"), folder.path().join("samples/old.yaml")).unwrap();
    let changed = check();
    assert_eq!(changed.code, Some(1));
    for line in [
        "install.yaml is out of date",
        "samples/guestbook-visitors.yaml is missing",
        "samples/old.yaml is not needed any more",
    ] {
        assert!(changed.stderr.contains(line), "{}", changed.stderr);
    }
    let written = ended(&["manifests", "--out", out], &[]);
    for line in ["changed", "created", "deleted"] {
        assert!(written.stdout.contains(line), "{}", written.stdout);
    }
    assert_eq!(check().code, Some(0));

    // A check that cannot be made is not a folder that is out of date.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(check().code, Some(2));
}

#[test]
fn namespaces_to_watch_make_roles_instead_of_the_cluster_role() {
    let by_variable = tempfile::tempdir().unwrap();
    let variables = [("WATCH_NAMESPACE", "shop,web")];
    let deployment = only(by_variable.path(), &[], &variables, "Deployment");
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    assert!(env.as_array().unwrap().contains(&json!({"name": "WATCH_NAMESPACE", "value": "shop,web"})), "{env}");

    let by_flag = tempfile::tempdir().unwrap();
    only(by_flag.path(), &["--watch-namespace", "shop,web"], &[("WATCH_NAMESPACE", "other")], "Deployment");
    let by_argument = tempfile::tempdir().unwrap();
    let arguments = ["--", "--watch-namespace=shop,web", "--metrics-bind-address=:8443", "--leader-elect"];
    let deployment = only(by_argument.path(), &arguments, &[], "Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], json!(arguments[1..]));
    assert!(!container["env"].to_string().contains("WATCH_NAMESPACE"), "{container}");

    for folder in [by_variable, by_flag, by_argument] {
        let install = folder.path().join("install.yaml");
        let roles = objects(&install, "Role");
        let places: Vec<&str> = roles
            .iter()
            .filter(|role| !rule(role, "guestbooks").is_empty())
            .map(|role| role["metadata"]["namespace"].as_str().unwrap())
            .collect();
        assert_eq!(places, ["shop", "web"]);
        for role in objects(&install, "ClusterRole") {
            assert!(role["metadata"]["name"] != "guestbook" || rule(&role, "guestbooks").is_empty(), "{role}");
        }
    }
}

#[test]
fn image_and_namespace_are_chosen_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--image", "registry.example.com/guestbook:9", "--namespace", "books"];
    let deployment = only(folder.path(), &arguments, &[], "Deployment");
    assert_eq!(deployment["metadata"]["namespace"], "books");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.com/guestbook:9");
}

/// Reads an object at once, as a setup function must not.
fn read(manager: &Manager) -> Result<(), steersman::client::Error> {
    let api = manager.client().live().namespaced::<ConfigMap>("books");
    let reading = async move { api.get("settings").await.map(drop) };
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(reading))
}

#[test]
fn a_request_in_setup_is_an_error_that_names_it() {
    let returns = Program::new("guestbook", "1.2.3", |manager: &Manager| read(manager));
    let ignores = Program::new("guestbook", "1.2.3", |manager: &Manager| {
        drop(read(manager));
        Ok::<_, Error>(())
    });
    for program in [returns, ignores] {
        let error = program.model().unwrap_err();
        assert!(matches!(error, Error::RequestInSetup { .. }), "{error:?}");
        assert!(error.to_string().contains("GET /api/v1/namespaces/books/configmaps/settings"), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_program_is_an_error_of_its_model() {
    let plain = || Program::new("guestbook", "1.2.3", |_: &Manager| Ok::<_, Error>(()));
    let cases: [(Program, &str); 5] = [
        (Program::new("guestbook", "1", |_: &Manager| Err("no pool")), "setup failed: no pool"),
        (Program::new("Guest Book", "1", |_: &Manager| Ok::<_, Error>(())), "\"Guest Book\" cannot name a Deployment"),
        (plain().samples("kind: ConfigMap"), "invalid sample: a ConfigMap has no apiVersion"),
        (plain().args(["--unknown"]), "wrong arguments of the operator in a cluster: error: unexpected argument"),
        (plain().args(["crd"]), "a subcommand does not run the operator"),
    ];
    for (program, expected) in cases {
        let error = program.model().unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    assert_eq!(Program::new("guest_book", "1", |_: &Manager| Ok::<_, Error>(())).model().unwrap().name, "guest-book");
}

#[test]
fn a_task_that_setup_spawns_does_not_keep_the_model_waiting() {
    let program = Program::with_flags("guestbook", "1.2.3", |manager: &Manager, flags: &Flags| {
        tokio::spawn(pending::<()>());
        setup(manager, flags)
    });
    program.model().unwrap();
}
