//! `develop`, as a process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::json;
use steersman::client::{PatchParams, PostParams, config_from_flags};
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::{Client, Patch};
use steersman_program::EmbeddedCluster;
use steersman_testing::eventually;

use crate::guestbook::{Guestbook, GuestbookSpec};
use crate::process::Running;

async fn client(kubeconfig: &Path) -> Client {
    Client::builder(config_from_flags(None, Some(kubeconfig)).await.unwrap()).build().unwrap()
}

/// The response of a plain server.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test]
async fn the_server_answers_the_samples_are_there_and_each_reconcile_is_a_line() {
    let mut developing = Running::start(&[], None);
    let kubeconfig = PathBuf::from(developing.after("export KUBECONFIG=").await);
    let client = client(&kubeconfig).await;
    let maps = client.namespaced::<ConfigMap>("default");
    let map = eventually("the ConfigMap of the sample", async || maps.get_opt("visitors").await.unwrap()).await;
    assert_eq!(map.data.unwrap()["title"], "Welcome");
    developing.until(&["applied", "Guestbook visitors"]).await;
    developing.until(&["guestbook default/visitors", "reconciled", "took="]).await;

    let page = developing.after("Live page:  http://").await;
    let (address, path) = page.split_once('/').unwrap();
    let response = get(address, path);
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("<html"), "{response}");

    assert_eq!(developing.stop(Signal::SIGINT), Some(0));
    assert!(!kubeconfig.exists(), "its files go with it");
}

#[tokio::test]
async fn another_server_stays_with_what_the_user_changed_there() {
    let cluster = EmbeddedCluster::start(0).await.unwrap();
    let guestbooks = cluster.client().namespaced::<Guestbook>("default");

    let mut first = Running::start(&[], Some(cluster.kubeconfig()));
    first.until(&["guestbook default/visitors", "reconciled"]).await;
    assert_eq!(first.stop(Signal::SIGTERM), Some(0));
    let title = Patch::Merge(json!({"spec": {"title": "Hello"}}));
    guestbooks.patch("visitors", &PatchParams::default(), &title).await.unwrap();

    let mut second = Running::start(&[], Some(cluster.kubeconfig()));
    second.until(&["not applied", "Guestbook visitors", ".spec.title"]).await;
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    let is_changed = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["title"] == "Hello");
    eventually("the new title", async || maps.get("visitors").await.ok().filter(is_changed)).await;
    assert_eq!(second.stop(Signal::SIGINT), Some(0));
    assert_eq!(guestbooks.get("visitors").await.unwrap().spec.title, "Hello");
    cluster.stop().await;
}

#[tokio::test]
async fn samples_are_left_out_and_the_port_is_chosen_by_flags() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let mut developing = Running::start(&["--no-samples", "--port", &port.to_string(), "--workers=1"], None);
    let url = developing.after("API server: ").await;
    assert!(url.ends_with(&format!(":{port}")), "{url}");
    let kubeconfig = PathBuf::from(developing.after("export KUBECONFIG=").await);
    let client = client(&kubeconfig).await;
    let guestbooks = client.namespaced::<Guestbook>("default");
    developing.until(&["kubectl get guestbooks"]).await;
    let own = Guestbook::new("own", GuestbookSpec { title: "Mine".to_owned() });
    guestbooks.create(&PostParams::default(), &own).await.unwrap();
    // By now, the samples would be there as well.
    developing.until(&["guestbook default/own", "reconciled"]).await;
    assert!(guestbooks.get_opt("visitors").await.unwrap().is_none());
    assert_eq!(developing.stop(Signal::SIGINT), Some(0));
}

#[tokio::test]
async fn the_operator_writes_where_it_serves_for_the_program_that_started_it() {
    let cluster = EmbeddedCluster::start(0).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addresses.json");
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let flags = ["--kubeconfig", kubeconfig, "--metrics-bind-address=127.0.0.1:0", "--metrics-secure=false"];
    let operator = Running::operate(&[flags.as_slice(), &["--health-probe-bind-address=0"]].concat(), &file);
    let text = eventually("the file", async || std::fs::read_to_string(&file).ok()).await;
    let addresses: serde_json::Value = serde_json::from_str(&text).unwrap();
    let address = addresses["metrics"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    assert!(get(&address, "metrics").starts_with("HTTP/1.1 200"));
    assert_eq!(operator.stop(Signal::SIGTERM), Some(0));
    cluster.stop().await;
}
