//! `steersman proxy` in front of `steersman apiserver`.

mod common;

use std::process::Output;
use std::time::{Duration, Instant};

use common::http::{Stream, fetch, get, post, request};
use common::{Running, steersman};
use nix::sys::signal::{Signal, kill};
use serde_json::json;
use steersman_testing::eventually;
use tempfile::TempDir;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server, and a proxy in front of it.
struct Servers {
    apiserver: Running,
    proxy: Running,
    folder: TempDir,
}

impl Servers {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let apiserver = Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&kubeconfig));
        let proxy = Running::start(steersman().args(["proxy", "--port", "0", "--kubeconfig"]).arg(&kubeconfig));
        Self { apiserver, proxy, folder }
    }

    fn url(&self) -> &str {
        &self.proxy.url
    }
}

fn map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test]
async fn it_prints_its_address_and_that_of_the_server() {
    let servers = Servers::start();
    assert!(servers.url().starts_with("http://127.0.0.1:"), "{}", servers.url());
    assert_eq!(servers.proxy.line(), format!("Requests go to {} with your credentials. Try:", servers.apiserver.url));
    assert_eq!(servers.proxy.line(), format!("  curl {}/api/v1/namespaces/default/pods", servers.url()));
}

#[tokio::test]
async fn lists_and_watches_go_through() {
    let servers = Servers::start();
    let url = servers.url();
    let (status, list) = get(url, MAPS).await;
    assert_eq!((status, &list["kind"]), (200, &json!("ConfigMapList")));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();

    let mut watch = Stream::get(url, &format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    assert_eq!(post(url, MAPS, map("first")).await.0, 201);
    assert_eq!(watch.event().await, ("ADDED".into(), "first".into()));
    let patch = request(url, "PATCH", &format!("{MAPS}/first")).header("content-type", "application/merge-patch+json");
    assert_eq!(fetch(url, patch.body(r#"{"data":{"a":"b"}}"#.to_owned()).unwrap()).await.0, 200);
    assert_eq!(watch.event().await, ("MODIFIED".into(), "first".into()));
    let delete = request(url, "DELETE", &format!("{MAPS}/first")).body(String::new()).unwrap();
    assert_eq!(fetch(url, delete).await.0, 200);
    assert_eq!(watch.event().await, ("DELETED".into(), "first".into()));
}

#[tokio::test]
async fn a_refusal_of_the_server_passes_unchanged() {
    let servers = Servers::start();
    let (status, body) = get(servers.url(), &format!("{MAPS}/none")).await;
    assert_eq!((status, &body["message"]), (404, &json!("configmaps \"none\" not found")));
}

#[tokio::test]
async fn the_credentials_are_those_of_the_kubeconfig() {
    let servers = Servers::start();
    let other = request(servers.url(), "GET", MAPS).header("authorization", "Bearer nonsense");
    assert_eq!(fetch(servers.url(), other.body(String::new()).unwrap()).await.0, 200);
}

#[tokio::test]
async fn other_hosts_and_shells_are_refused() {
    let servers = Servers::start();
    let lured = http::Request::get(MAPS).header("host", "evil.test").body(String::new()).unwrap();
    let (status, body) = fetch(servers.url(), lured).await;
    assert_eq!((status, &body["reason"]), (403, &json!("Forbidden")));
    assert!(body["message"].as_str().unwrap().contains("\"evil.test\" is not a name of this machine"), "{body}");
    let (status, body) = get(servers.url(), "/api/v1/namespaces/default/pods/web/exec?command=sh").await;
    assert_eq!(status, 403);
    assert!(body["message"].as_str().unwrap().contains("exec is not forwarded: use kubectl exec"), "{body}");
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let servers = Servers::start();
    let post = || request(servers.url(), "POST", MAPS);
    // What a browser sends for `fetch(url, {method: "POST", mode: "no-cors", body: blob})`.
    let page = post().header("origin", "http://evil.test").header("sec-fetch-site", "cross-site");
    let (status, body) = fetch(servers.url(), page.body(map("page").to_string()).unwrap()).await;
    assert_eq!((status, &body["reason"]), (403, &json!("Forbidden")));
    assert!(body["message"].as_str().unwrap().contains("must not use this proxy"), "{body}");
    let (status, body) = fetch(servers.url(), post().body(map("untyped").to_string()).unwrap()).await;
    assert_eq!((status, &body["reason"]), (415, &json!("UnsupportedMediaType")));
    let own = format!("{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt");
    assert_eq!(get(servers.url(), &own).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let servers = Servers::start();
    let long = request(servers.url(), "POST", MAPS).header("content-type", "application/json");
    let long = long.body("x".repeat((16 << 20) + 1)).unwrap();
    let (status, body) = fetch(servers.url(), long).await;
    assert_eq!((status, &body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn the_error_of_a_server_that_is_down_names_it() {
    let mut servers = Servers::start();
    kill(servers.apiserver.pid(), Signal::SIGINT).unwrap();
    servers.apiserver.wait();
    let (status, body) = get(servers.url(), MAPS).await;
    assert_eq!(status, 502);
    let message = body["message"].as_str().unwrap();
    let start = format!("steersman proxy: {} did not respond: client error (Connect): tcp", servers.apiserver.url);
    assert!(message.starts_with(&start), "{message}");
}

#[tokio::test]
async fn a_signal_ends_it_even_during_a_watch() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut servers = Servers::start();
        let mut watch = Stream::get(servers.url(), &format!("{MAPS}?watch=true&labelSelector=none")).await;
        let began = Instant::now();
        kill(servers.proxy.pid(), signal).unwrap();
        assert_eq!(servers.proxy.wait().code(), Some(0), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(2), "{signal}: it took {:?}", began.elapsed());
        assert_eq!(watch.next().await, None);
    }
}

/// A credential plugin may hang. It runs before the proxy is ready, and again when its credential
/// has expired.
#[tokio::test]
async fn a_signal_ends_it_while_a_credential_plugin_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    // Ends with the folder of the test.
    let script = "touch \"$0\"; while [ -e \"$0\" ]; do sleep 0.1; done";
    let plugin = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script, started],
        "interactiveMode": "Never",
    });
    let config = json!({
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut proxy = Running::spawn(steersman().args(["proxy", "--port", "0", "--kubeconfig"]).arg(&kubeconfig));
        eventually("the plugin starts", || async { started.exists().then_some(()) }).await;
        kill(proxy.pid(), signal).unwrap();
        assert!(proxy.wait().success(), "{signal}");
        assert!(started.exists(), "the plugin hangs no more");
        std::fs::remove_file(&started).unwrap();
    }
}

#[tokio::test]
async fn failures_at_the_start_are_explained() {
    let servers = Servers::start();
    let failure = |args: &[&str]| {
        let mut command = steersman();
        command.arg("proxy").args(args).env("KUBECONFIG", servers.folder.path().join("kubeconfig"));
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(!status.success() && stdout.is_empty(), "{args:?}");
        String::from_utf8(stderr).unwrap()
    };
    let port = servers.url().rsplit_once(':').unwrap().1;
    let error = failure(&["--port", port]);
    assert!(error.starts_with(&format!("error: port {port} is already in use: use --port")), "{error}");
    let error = failure(&["--port", "0", "--kubeconfig", "no-such-file"]);
    assert_eq!(error.matches("no-such-file").count(), 1, "{error}");
}
