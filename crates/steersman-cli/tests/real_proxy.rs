//! `steersman proxy` in front of a real API server.

mod common;

use common::http::{Stream, get, post};
use common::{Running, steersman};
use serde_json::json;
use steersman_testing::RealServer;

#[tokio::test]
async fn lists_and_watches_go_through() {
    let server = RealServer::shared().await.unwrap();
    let maps = format!("/api/v1/namespaces/{}/configmaps", server.namespace("proxy").await.unwrap());
    let proxy = Running::start(steersman().args(["proxy", "--port", "0", "--kubeconfig"]).arg(server.kubeconfig()));
    let (status, list) = get(&proxy.url, &maps).await;
    assert_eq!((status, &list["kind"]), (200, &json!("ConfigMapList")));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = Stream::get(&proxy.url, &format!("{maps}?watch=true&resourceVersion={version}")).await;
    for name in ["first", "second"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        assert_eq!(post(&proxy.url, &maps, map).await.0, 201);
        assert_eq!(watch.event().await, ("ADDED".into(), name.into()));
    }
    let (status, body) = get(&proxy.url, &format!("{maps}/none")).await;
    assert_eq!((status, &body["reason"]), (404, &json!("NotFound")));
}
