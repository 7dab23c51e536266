//! Conversions from and to kube's client, on any server.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use steersman_client::Client;

use crate::objects::map;

/// kube's client over our connection.
pub(crate) async fn into_kube(client: &Client, namespace: &str) {
    let kube = kube_client::Client::from(client.clone());
    assert_eq!(kube.default_namespace(), client.default_namespace());
    let maps: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(kube, namespace);
    let created = maps.create(&PostParams::default(), &map("kube", "first")).await.unwrap();
    let version = created.metadata.resource_version.clone().unwrap();
    let params = WatchParams::default().labels("app=first");
    let mut watch = std::pin::pin!(maps.watch(&params, &version).await.unwrap());
    assert_eq!(maps.list(&ListParams::default().labels("app=first")).await.unwrap().items, [created]);
    maps.delete("kube", &DeleteParams::default()).await.unwrap();
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Deleted(gone)) => assert_eq!(gone.metadata.name.as_deref(), Some("kube")),
        other => panic!("{other:?}"),
    }
    match maps.get("kube").await.unwrap_err() {
        kube_client::Error::Api(status) => assert_eq!(status.code, 404),
        other => panic!("{other}"),
    }
}

/// Our client over kube's connection.
pub(crate) async fn from_kube(kube: kube_client::Client, namespace: &str) {
    let client = Client::from(kube.clone());
    assert_eq!(client.default_namespace(), kube.default_namespace());
    let maps = client.namespaced::<ConfigMap>(namespace);
    let created = maps.create(&PostParams::default(), &map("ours", "first")).await.unwrap();
    assert_eq!(maps.get("ours").await.unwrap(), created);
    let error = maps.create(&PostParams::default(), &created).await.unwrap_err();
    assert!(error.to_string().starts_with("POST "), "{error}");
    let error = maps.get("missing").await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("/configmaps/missing"), "{error}");
}
