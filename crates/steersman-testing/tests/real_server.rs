//! `RealServer` against the real thing: what it promises while it runs, when it cannot start, and
//! when its test dies.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube_client::api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube_client::{Api, Error as ClientError, ResourceExt};
use serde_json::json;
use steersman_testing::{Error, KUBERNETES_VERSION, Program, RealServer, eventually};

/// Set in the environment of a second process that a test runs of itself, to be killed, to panic,
/// or to see another environment.
const ROLE: &str = "STEERSMAN_TEST_ROLE";

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..Default::default()
    }
}

fn status(error: ClientError) -> Box<ErrorStatus> {
    match error {
        ClientError::Api(status) => status,
        other => panic!("no answer of the server: {other}"),
    }
}
type ErrorStatus = kube_client::core::Status;

#[tokio::test]
async fn an_object_lives_its_whole_life() {
    let server = RealServer::shared().await.unwrap();
    let namespace = server.namespace("life").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(server.kube_client().await.unwrap(), &namespace);

    let created = maps.create(&PostParams::default(), &config_map("one", "first")).await.unwrap();
    let version = created.resource_version().unwrap();
    assert_eq!(maps.get("one").await.unwrap().data, created.data);
    let again = maps.create(&PostParams::default(), &config_map("one", "first")).await.unwrap_err();
    assert_eq!((status(again).code), 409);

    let mut watch = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let mut changed = created.clone();
    changed.data = config_map("one", "second").data;
    let changed = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    let mut stale = created;
    stale.data = config_map("one", "third").data;
    let conflict = status(maps.replace("one", &PostParams::default(), &stale).await.unwrap_err());
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(status(maps.get("one").await.unwrap_err()).reason, "NotFound");

    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Modified(seen)) => assert_eq!(seen.resource_version(), changed.resource_version()),
        other => panic!("expected the change, got {other:?}"),
    }
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Deleted(seen)) => assert_eq!(seen.data, changed.data),
        other => panic!("expected the deletion, got {other:?}"),
    }
}

#[tokio::test]
async fn it_is_the_version_that_was_asked_for() {
    let server = RealServer::shared().await.unwrap();
    let version = server.kube_client().await.unwrap().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, format!("v{KUBERNETES_VERSION}"));
}

#[tokio::test]
async fn each_test_has_a_namespace_of_its_own() {
    let server = RealServer::shared().await.unwrap();
    let (one, two) = (server.namespace("apart").await.unwrap(), server.namespace("apart").await.unwrap());
    assert_ne!(one, two);
    let client = server.kube_client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &one);
    maps.create(&PostParams::default(), &config_map("here", "")).await.unwrap();
    let elsewhere: Api<ConfigMap> = Api::namespaced(client, &two);
    assert_eq!(status(elsewhere.get("here").await.unwrap_err()).code, 404);
}

#[tokio::test]
async fn another_user_has_the_rights_that_rbac_gives() {
    let server = RealServer::shared().await.unwrap();
    let namespace = server.namespace("rights").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(
        kube_client::Client::from(server.user("jane", ["readers", "writers"]).await.unwrap()),
        &namespace,
    );
    let denied = status(maps.list(&ListParams::default()).await.unwrap_err());
    assert_eq!(denied.code, 403);
    assert!(denied.message.contains("\"jane\" cannot list resource \"configmaps\""), "{}", denied.message);

    let client = server.kube_client().await.unwrap();
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }))
    .unwrap();
    Api::namespaced(client.clone(), &namespace).create(&PostParams::default(), &role).await.unwrap();
    // The second group, so that a client which sends only the first would fail.
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "writers"}],
    }))
    .unwrap();
    Api::namespaced(client, &namespace).create(&PostParams::default(), &binding).await.unwrap();
    // The server reads its rules from a cache of its own.
    eventually("jane may list", || async { maps.list(&ListParams::default()).await.is_ok() }).await;
}

#[tokio::test]
async fn a_request_without_a_certificate_is_refused() {
    let server = RealServer::shared().await.unwrap();
    let mut config = server.config().await.unwrap();
    config.auth_info = Default::default();
    let client = kube_client::Client::try_from(config).unwrap();
    assert_eq!(status(client.apiserver_version().await.unwrap_err()).code, 401);
}

#[tokio::test]
async fn kubectl_reads_the_kubeconfig_file() {
    let server = RealServer::shared().await.unwrap();
    let output = server.kubectl().unwrap().args(["get", "namespaces", "--output=name"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("namespace/default"), "{output:?}");
}

#[tokio::test]
async fn a_watch_outlives_the_runtime_of_another_test() {
    // The first to ask for the shared server may be any test; its runtime ends, the server must
    // not.
    let server = RealServer::shared().await.unwrap();
    let inner = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = RealServer::shared().await.unwrap().kube_client().await.unwrap();
            client.apiserver_version().await.unwrap().git_version
        })
    });
    let version = inner.join().unwrap();
    assert_eq!(server.kube_client().await.unwrap().apiserver_version().await.unwrap().git_version, version);
}

#[tokio::test]
async fn flags_reach_the_servers() {
    let server = RealServer::builder()
        .apiserver_flag("--disable-admission-plugins=ServiceAccount,NamespaceLifecycle")
        .etcd_flag("--log-level=error")
        .start()
        .await
        .unwrap();
    // Without the plugin, objects can be created in a namespace that does not exist.
    let maps: Api<ConfigMap> = Api::namespaced(server.kube_client().await.unwrap(), "no-such-namespace");
    maps.create(&PostParams::default(), &config_map("one", "")).await.unwrap();
    let log = std::fs::read_to_string(server.folder().join("etcd.log")).unwrap();
    assert!(!log.contains("\"level\":\"info\""), "etcd has to log errors only:\n{log}");
}

#[tokio::test]
async fn the_built_in_controllers_run_on_request() {
    let server = RealServer::builder().controller_manager(true).start().await.unwrap();
    let client = server.kube_client().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = server.namespace("controlled").await.unwrap();

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    eventually("a service account in a new namespace", || async {
        accounts.get_opt("default").await.unwrap().is_some()
    })
    .await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "one", "image": "one"}], "terminationGracePeriodSeconds": 0},
    }))
    .unwrap();
    let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(pod.spec.unwrap().service_account_name.as_deref(), Some("default"));

    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let mut owned = config_map("owned", "");
    owned.metadata.owner_references = Some(vec![
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "name": "one", "uid": pod.metadata.uid,
        }))
        .unwrap(),
    ]);
    maps.create(&PostParams::default(), &owned).await.unwrap();
    pods.delete("one", &DeleteParams::default()).await.unwrap();
    eventually("the garbage collector to follow the owner", || async {
        maps.get_opt("owned").await.unwrap().is_none()
    })
    .await;

    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to go", || async { namespaces.get_opt(&namespace).await.unwrap().is_none() }).await;
}

#[tokio::test]
async fn dropping_it_stops_the_servers_and_removes_the_folder() {
    let server = RealServer::start().await.unwrap();
    let (pids, folder) = (server.pids(), server.folder().to_owned());
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_running(*pid)) && folder.is_dir());
    drop(server);
    assert!(!pids.iter().any(|pid| is_running(*pid)), "still running");
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_port_in_use_is_reported_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = RealServer::builder().secure_port(taken.local_addr().unwrap().port()).start().await.unwrap_err();
    assert!(matches!(&error, Error::Exited { program, .. } if program == "kube-apiserver"), "{error}");
    assert!(error.to_string().contains("address already in use"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    let error = RealServer::builder().program(Program::Etcd, "/no/such/etcd").start().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/etcd as etcd") && error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn a_program_that_exits_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let broken = script(folder.path(), "echo this machine is haunted >&2; exit 3");
    for program in [Program::Etcd, Program::KubeApiserver] {
        let error = RealServer::builder().program(program, &broken).start().await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Exited { program: name, .. } if name == program.file_name()), "{text}");
        assert!(text.contains("exit status: 3") && text.contains("this machine is haunted"), "{text}");
    }
}

#[tokio::test]
async fn a_program_that_never_gets_ready_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let idle = script(folder.path(), "echo thinking; exec sleep 600");
    let allowed = Duration::from_millis(300);
    let starting = RealServer::builder().program(Program::KubeApiserver, idle).start_timeout(allowed);
    let error = starting.start().await.unwrap_err();
    assert!(matches!(error, Error::NotReady { waited, .. } if waited == allowed), "{error}");
    assert!(error.to_string().contains("thinking"), "{error}");
}

#[tokio::test]
async fn a_killed_test_binary_leaves_nothing() {
    if std::env::var_os(ROLE).is_some() {
        let server = RealServer::start().await.unwrap();
        let pids: Vec<_> = server.pids().iter().map(u32::to_string).collect();
        println!("victim {} {}", server.folder().display(), pids.join(" "));
        std::io::stdout().flush().unwrap();
        return std::future::pending().await;
    }
    let mut victim = myself("a_killed_test_binary_leaves_nothing").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains("victim ")).expect("the victim starts a server");
    let mut words = line.split("victim ").nth(1).unwrap().split(' ');
    let folder = PathBuf::from(words.next().unwrap());
    let pids: Vec<u32> = words.map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2, "{line}");
    assert!(pids.iter().all(|pid| is_running(*pid)) && folder.is_dir());

    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("the servers to end", || async { !pids.iter().any(|pid| is_running(*pid)) }).await;
    eventually("the folder to go", || async { !folder.exists() }).await;
}

#[tokio::test]
async fn a_test_that_panics_shows_the_logs_and_stops_the_servers() {
    if std::env::var_os(ROLE).is_some() {
        let server = RealServer::start().await.unwrap();
        println!("victim {}", server.folder().display());
        panic!("as planned");
    }
    let output = myself("a_test_that_panics_shows_the_logs_and_stops_the_servers").output().unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success());
    for expected in ["as planned", "--- kube-apiserver, the last", "--- etcd, the last"] {
        assert!(printed.contains(expected), "no {expected:?} in:\n{printed}");
    }
    let folder = printed.lines().find_map(|line| line.split("victim ").nth(1)).expect("the victim prints its folder");
    assert!(!Path::new(folder).exists(), "{folder}");
}

#[tokio::test]
async fn an_existing_cluster_is_used_and_left_running() {
    if std::env::var_os(ROLE).is_some() {
        let server = RealServer::start().await.unwrap();
        assert!(server.pids().is_empty(), "nothing was to be started");
        let maps: Api<ConfigMap> =
            Api::default_namespaced(kube_client::Client::from(server.user("jane", ["developers"]).await.unwrap()));
        assert_eq!(status(maps.list(&ListParams::default()).await.unwrap_err()).code, 403);
        println!("existing {}", server.url());
        return;
    }
    let server = RealServer::shared().await.unwrap();
    let output = myself("an_existing_cluster_is_used_and_left_running")
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", server.kubeconfig())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains(&format!("existing {}", server.url())), "{output:?}");
    server.kube_client().await.unwrap().apiserver_version().await.unwrap();
}

/// This test binary once more, to run one test in its other role.
fn myself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, "victim").env_remove("USE_EXISTING_CLUSTER");
    command
}

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("script");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Whether the process exists and has not ended. A zombie that waits for its parent has ended.
fn is_running(pid: u32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.starts_with('Z')
}
