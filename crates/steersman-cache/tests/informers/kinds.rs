//! Namespaces, selectors, and kinds that are known only at run time.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use steersman_cache::{Index, Informer, InformerOptions, Object};
use steersman_client::{ApiResource, DynamicObject, GroupVersionKind, NamespaceScope, PostParams};
use steersman_testing::Embedded;
use steersman_wire::LabelSelector;

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn objects_of_several_namespaces_are_kept_and_no_others() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    for name in ["a", "b", "c"] {
        create_namespace(&client, name).await;
        Maps::of(&client, name).create(&format!("in-{name}"), "").await;
    }
    let informer = factory.informer::<ConfigMap>(InformerOptions::all().namespace("a").namespace("b")).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    let lister = informer.lister();
    assert_eq!(names(&lister.list()), ["in-a", "in-b"]);
    assert_eq!(informer.status().len(), 2);
    let (log, _) = listen(&informer);
    for name in ["a", "b", "c"] {
        Maps::of(&client, name).create(&format!("new-in-{name}"), "").await;
        Maps::of(&client, name).delete(&format!("in-{name}")).await;
    }
    settle().await;
    assert_eq!(names(&lister.list()), ["new-in-a", "new-in-b"]);
    let mut received = log.take();
    received.sort();
    assert_eq!(
        received,
        ["add in-a initial", "add in-b initial", "add new-in-a", "add new-in-b", "delete in-a", "delete in-b"]
    );
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_label_selector() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    maps.create("b", "").await;
    maps.label("b", Some("web")).await;
    let informer = factory.informer::<ConfigMap>(InformerOptions::all().labels("app=web")).unwrap();
    let (log, handle) = listen(&informer);
    factory.start().unwrap();
    handle.wait_for_sync(LONG).await.unwrap();
    maps.label("a", Some("web")).await;
    settle().await;
    assert_eq!(names(&informer.lister().list()), ["a", "b"]);
    maps.label("a", Some("db")).await;
    maps.label("b", None).await;
    settle().await;
    assert!(informer.lister().is_empty());
    assert_eq!(log.take(), ["add b initial", "add a", "delete a", "delete b"]);
}

#[tokio::test(start_paused = true)]
async fn objects_are_chosen_by_a_field_selector() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    let informer = factory.informer::<ConfigMap>(InformerOptions::all().fields("metadata.name=a")).unwrap();
    let (log, handle) = listen(&informer);
    factory.start().unwrap();
    handle.wait_for_sync(LONG).await.unwrap();
    let maps = Maps::new(&client);
    maps.create("b", "").await;
    maps.create("a", "").await;
    maps.delete("a").await;
    settle().await;
    assert_eq!(log.take(), ["add a", "delete a"]);
}

/// The checks for every kind of informer.
async fn is_kept<K: Object>(informer: Informer<K>, maps: &Maps) {
    informer.add_index("app", Index::label("app")).unwrap();
    let (log, handle) = listen(&informer);
    informer.start().unwrap();
    assert!(handle.wait_for_sync(LONG).await.is_ok());
    maps.label("a", Some("web")).await;
    settle().await;
    let lister = informer.lister();
    assert_eq!(log.take(), ["add a initial", "update a"]);
    assert_eq!(names(&lister.by_index("app", "web").unwrap()), ["a"]);
    assert_eq!(names(&lister.select(None, &LabelSelector::parse("app=web").unwrap())), ["a"]);
    assert!(lister.get("default", "a").unwrap().get().is_ok());
    maps.label("a", None).await;
    settle().await;
    assert!(lister.by_index("app", "web").unwrap().is_empty());
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_only_objects_are_kept_by_the_same_code() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    let maps = Maps::new(&client);
    maps.create("a", "secret").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    is_kept(factory.informer::<ConfigMap>(InformerOptions::all()).unwrap(), &maps).await;
    is_kept(factory.dynamic_informer(&resource, InformerOptions::all()).unwrap(), &maps).await;
    let metadata = factory.metadata_informer::<ConfigMap>(InformerOptions::all()).unwrap();
    is_kept(metadata.clone(), &maps).await;
    let json = metadata.lister().get("default", "a").unwrap().to_json().unwrap();
    assert!(!String::from_utf8(json).unwrap().contains("secret"), "only the metadata was asked for");
    is_kept(factory.dynamic_metadata_informer(&resource, InformerOptions::all()).unwrap(), &maps).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_installed_later_syncs_then() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("samplecrd.example.com", "v1", "Network"));
    let informer = factory.dynamic_informer(&resource, InformerOptions::all()).unwrap();
    let (log, handle) = listen(&informer);
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync(Duration::from_secs(60)).await.is_err());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "networks.samplecrd.example.com"},
        "spec": {
            "group": "samplecrd.example.com", "scope": "Namespaced",
            "names": {"plural": "networks", "singular": "network", "kind": "Network", "listKind": "NetworkList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap();
    client.cluster::<CustomResourceDefinition>().create(&PostParams::default(), &definition).await.unwrap();
    factory.wait_for_cache_sync(Duration::from_secs(120)).await.unwrap();
    let networks = client.dynamic(&resource, NamespaceScope::Namespace("default".to_owned()));
    networks.create(&PostParams::default(), &DynamicObject::new("a", &resource)).await.unwrap();
    settle().await;
    assert!(handle.has_synced());
    assert_eq!(log.take(), ["add a"]);
    assert_eq!(names(&informer.lister().list()), ["a"]);
}
