//! `steersman apiserver` as people and scripts use it.

mod common;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Lines, Running, steersman};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

fn kubeconfig(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn failure(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(!status.success());
    assert!(stdout.is_empty(), "{stdout:?}");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn the_kubeconfig_is_whole_when_the_server_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("with space");
    let server = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
    let config = kubeconfig(&path);
    assert_eq!(config["clusters"][0]["cluster"]["server"], server.url.as_str());
    assert!(config["clusters"][0]["cluster"]["certificate-authority-data"].is_string());
    for field in ["client-certificate-data", "client-key-data", "token"] {
        assert!(config["users"][0]["user"][field].is_string(), "{field}");
    }
    assert_eq!(server.line(), "Point kubectl at it:");
    assert_eq!(server.line(), format!("  export KUBECONFIG='{}'", path.display()));
    assert_eq!(server.line(), "  kubectl get namespaces");
    assert_eq!(server.line(), "  kubectl create -f FILE");
    let missing = server.line();
    assert!(missing.contains("no nodes") && missing.ends_with("See steersman apiserver --help."), "{missing}");
}

#[test]
fn the_help_text_lists_what_works_with_kubectl() {
    let output = steersman().args(["apiserver", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for line in
        ["kubectl create, replace, apply, diff -f FILE", "kubectl apply --server-side -f FILE", "kubectl explain KIND"]
    {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn with_rbac_a_user_without_a_role_is_refused() {
    for (mode, expected) in [("RBAC", false), ("AlwaysAllow", true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let _server =
            Running::start(steersman().args(["apiserver", "--authorization-mode", mode, "--kubeconfig"]).arg(&path));
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let config = kube_client::config::Kubeconfig::read_from(&path).unwrap();
            let mut config = kube_client::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
            let get = || http::Request::get("/api/v1/namespaces/default/configmaps").body(Vec::new()).unwrap();
            let client = kube_client::Client::try_from(config.clone()).unwrap();
            assert!(client.request_text(get()).await.is_ok(), "the kubeconfig has all rights");
            config.auth_info.impersonate = Some("jane".to_owned());
            let client = kube_client::Client::try_from(config).unwrap();
            assert_eq!(client.request_text(get()).await.is_ok(), expected, "{mode}");
        });
    }
    let refused = failure(steersman().args(["apiserver", "--authorization-mode=ABAC"]));
    assert!(refused.contains("possible values: AlwaysAllow, RBAC"), "{refused}");
}

#[test]
fn both_signals_end_it_cleanly_and_soon() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let mut server = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
        let began = Instant::now();
        kill(server.pid(), signal).unwrap();
        let status = server.wait();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        assert!(began.elapsed() < Duration::from_secs(2), "{signal}: it took {:?}", began.elapsed());
        assert!(path.exists(), "the file that the user named stays");
    }
}

/// Each patch moves a large object for each of its operations until it is refused: seconds in a
/// debug build.
#[test]
fn sigterm_ends_it_while_heavy_requests_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let mut server = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let config = kube_client::config::Kubeconfig::read_from(&path).unwrap();
        let config = kube_client::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
        let client = kube_client::Client::try_from(config).unwrap();
        let maps = "/api/v1/namespaces/default/configmaps";
        let send = |method: &str, path: &str, content_type: &str, body: Value| {
            let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
            let (client, request) = (client.clone(), request.body(body.to_string().into_bytes()).unwrap());
            async move { client.request::<Value>(request).await }
        };
        let data: serde_json::Map<String, Value> = (0..30_000).map(|key| (format!("k{key}"), "v".into())).collect();
        let map = serde_json::json!({"metadata": {"name": "large"}, "data": data});
        send("POST", maps, "application/json", map).await.unwrap();
        let step = |from: &str, path: &str| serde_json::json!({"op": "move", "from": from, "path": path});
        let steps: Vec<Value> = (0..5_000).flat_map(|_| [step("/data", "/x"), step("/x", "/data")]).collect();
        for _ in 0..16 {
            let path = format!("{maps}/large");
            tokio::spawn(send("PATCH", &path, "application/json-patch+json", steps.clone().into()));
        }
        // The response comes while the patches run: they were sent before this request.
        send("GET", "/api/v1/namespaces/default", "", Value::Null).await.unwrap();
    });
    let began = Instant::now();
    kill(server.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(server.wait().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    runtime.shutdown_background();
}

#[test]
fn its_own_folder_goes_with_it() {
    let place = tempfile::tempdir().unwrap();
    let mut server = Running::start(steersman().arg("apiserver").env("TMPDIR", place.path()));
    server.line();
    let line = server.line();
    let path = Path::new(line.strip_prefix("  export KUBECONFIG=").unwrap()).to_owned();
    assert!(path.starts_with(place.path()), "{}", path.display());
    assert_eq!(kubeconfig(&path)["clusters"][0]["cluster"]["server"], server.url.as_str());
    kill(server.pid(), Signal::SIGINT).unwrap();
    assert!(server.wait().success());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// The path that a server prints for its own kubeconfig.
fn own_kubeconfig(server: &Running) -> PathBuf {
    server.line();
    server.line().strip_prefix("  export KUBECONFIG=").unwrap().into()
}

/// `kill -9` leaves the folder behind. The next start removes it, and keeps those of running
/// servers.
#[test]
fn the_folder_of_a_killed_server_is_removed_by_the_next() {
    let place = tempfile::tempdir().unwrap();
    let start =
        |port: &str| Running::start(steersman().args(["apiserver", "--port", port]).env("TMPDIR", place.path()));
    let (mut killed, running) = (start("0"), start("0"));
    let (left, kept) = (own_kubeconfig(&killed), own_kubeconfig(&running));
    kill(killed.pid(), Signal::SIGKILL).unwrap();
    killed.wait();
    assert!(left.exists(), "nothing runs that could remove it");
    // Files of other programs are not touched.
    let foreign = place.path().join("steersman-apiserver-foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("kubeconfig"), "kind: Config").unwrap();

    let port = killed.url.rsplit_once(':').unwrap().1.to_owned();
    let next = start(&port);
    let own = own_kubeconfig(&next);
    assert!(!left.parent().unwrap().exists(), "{} stays", left.display());
    assert!(kept.exists() && own.exists() && foreign.join("kubeconfig").exists());
    for path in [&kept, &own] {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
    drop(running);
}

/// The credentials of a stopped server are worthless: its certificate authority was in its memory.
#[tokio::test]
async fn the_kubeconfig_of_a_killed_server_opens_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let mut killed = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&old));
    let port = killed.url.rsplit_once(':').unwrap().1.to_owned();
    kill(killed.pid(), Signal::SIGKILL).unwrap();
    killed.wait();
    let _next = Running::start(steersman().args(["apiserver", "--port", &port, "--kubeconfig"]).arg(&new));
    let versions = async |path: &Path| {
        let config = steersman_client::config_from_flags(None, Some(path)).await.unwrap();
        let client = steersman_client::Client::builder(config).retries(0).build().unwrap();
        client.rest().get().abs_path("/version").send().await
    };
    versions(&new).await.unwrap();
    let error = versions(&old).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");

    // The old certificate and token are refused even with the authority of the new server.
    let mut mixed = kubeconfig(&old);
    mixed["clusters"] = kubeconfig(&new)["clusters"].clone();
    std::fs::write(&old, mixed.to_string()).unwrap();
    assert!(versions(&old).await.is_err());
}

#[test]
fn a_second_run_takes_the_file_and_the_port_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let mut first = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
    let before = kubeconfig(&path);
    let port = first.url.rsplit_once(':').unwrap().1.to_owned();
    kill(first.pid(), Signal::SIGINT).unwrap();
    first.wait();
    let second = Running::start(steersman().args(["apiserver", "--port", &port, "--kubeconfig"]).arg(&path));
    assert_eq!(second.url, first.url);
    assert_ne!(kubeconfig(&path)["users"], before["users"], "its credentials are its own");
}

#[test]
fn a_port_that_is_taken_is_an_error_and_touches_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(folder.path().join("first")));
    let port = server.url.rsplit_once(':').unwrap().1;
    let path = folder.path().join("kubeconfig");
    let error = failure(steersman().args(["apiserver", "--port", port, "--kubeconfig"]).arg(&path));
    assert!(error.starts_with(&format!("error: port {port} is already in use: use --port")), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_kubeconfig_of_another_program_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "kind: Config\n").unwrap();
    let error = failure(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
    assert!(error.contains("was not written by this command: choose another file"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kind: Config\n");
}

#[test]
fn a_kubeconfig_that_is_no_regular_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for command in ["apiserver", "proxy"] {
        let mut child = steersman()
            .args([command, "--port", "0", "--kubeconfig"])
            .arg(&fifo)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        // A read without end fails here, and the test kills the process.
        let line = std::panic::catch_unwind(AssertUnwindSafe(|| lines.next()));
        child.kill().unwrap();
        child.wait().unwrap();
        let line = line.expect("the command ends").expect("the command names the fault");
        let named = line.contains(&fifo.display().to_string());
        assert!(named && line.contains("is not a regular file"), "{command}: {line}");
    }
}

#[test]
fn wrong_arguments_are_explained() {
    for (args, wanted) in [
        (&["apiserver", "--port", "70000"][..], "70000"),
        (&["apiserver", "--prot", "1"], "--port"),
        (&["apisrever"], "apiserver"),
        (&[], "Usage: steersman"),
    ] {
        let error = failure(steersman().args(args));
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
}
