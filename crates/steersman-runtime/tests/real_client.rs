//! The cached client on a real server: the form of its responses decides what reads wait for.

mod with_client;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use steersman_client::{Client, DeleteParams, Deleted, ObjectMeta, Patch};
use steersman_runtime::{CachedClient, ListQuery, Manager, ObjectKey, kind, metadata};
use steersman_testing::RealServer;
use with_client::{Running, set_value, start, value};

/// A manager's client of a real server, and a namespace of its own.
async fn client<T>(declare: impl FnOnce(&Manager, &str) -> T) -> (CachedClient, String, Running) {
    let server = RealServer::shared().await.unwrap();
    let namespace = server.namespace("client").await.unwrap();
    let manager = Manager::new(Client::builder(server.config().await.unwrap()).build().unwrap());
    declare(&manager, &namespace);
    let running = start(&manager).await;
    (manager.client().clone(), namespace, running)
}

fn map(namespace: &str, name: &str) -> ConfigMap {
    with_client::map(&format!("{namespace}/{name}"), "1")
}

fn finalizers(names: &[&str]) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"finalizers": names}}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_is_read_from_every_cache() {
    let (client, namespace, _running) = client(|manager, namespace| {
        manager.declare(kind::<ConfigMap>().namespace(namespace).namespace("default")).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
    })
    .await;
    let (maps, metadata) = (client.objects::<ConfigMap>(), client.metadata::<ConfigMap>());
    for number in 0..100 {
        let name = format!("m{}", number % 7);
        let key = ObjectKey::new(&namespace, &name);
        let created = maps.create(&map(&namespace, &name)).await.unwrap();
        assert_eq!(value(&maps.get(&key).await.unwrap()), "1");
        assert_eq!(metadata.get(&key).await.unwrap().meta().uid(), created.metadata.uid.unwrap());
        let patched = maps.patch(&key, &Patch::Merge(set_value("2"))).await.unwrap();
        assert_eq!(value(&maps.get(&key).await.unwrap()), "2");
        let version = metadata.get(&key).await.unwrap().meta().resource_version().to_owned();
        assert_eq!(Some(version), patched.metadata.resource_version);
        if number % 2 == 0 {
            maps.patch(&key, &finalizers(&["example.com/a"])).await.unwrap();
            let held = maps.delete(&key, &DeleteParams::default()).await.unwrap();
            assert!(matches!(held, Deleted::Object(_)));
            assert!(maps.get(&key).await.unwrap().meta().deletion_timestamp().is_some());
            assert!(metadata.get(&key).await.unwrap().meta().deletion_timestamp().is_some());
            maps.patch(&key, &finalizers(&[])).await.unwrap();
        } else {
            maps.delete(&key, &DeleteParams::default()).await.unwrap();
        }
        assert!(maps.get_opt(&key).await.unwrap().is_none(), "{number}");
        assert!(
            !metadata
                .list(&ListQuery::all().namespace(&namespace))
                .await
                .unwrap()
                .iter()
                .any(|object| object.key() == key),
            "{number}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_leaves_the_selector_is_gone_from_the_cache() {
    let (client, namespace, _running) = client(|manager, _| {
        manager.declare(kind::<Secret>().labels("app=web").fields("type=example.com/a")).unwrap();
    })
    .await;
    let secrets = client.objects::<Secret>();
    let label = |value: &str| -> Patch<Value> { Patch::Merge(json!({"metadata": {"labels": {"app": value}}})) };
    for (name, type_, is_kept) in [("a", "example.com/a", true), ("b", "example.com/b", false)] {
        let key = ObjectKey::new(&namespace, name);
        let metadata =
            ObjectMeta { namespace: Some(namespace.clone()), name: Some(name.to_owned()), ..Default::default() };
        secrets.create(&Secret { metadata, type_: Some(type_.to_owned()), ..Secret::default() }).await.unwrap();
        for _ in 0..20 {
            assert!(secrets.get_opt(&key).await.unwrap().is_none());
            secrets.patch(&key, &label("web")).await.unwrap();
            assert_eq!(secrets.get_opt(&key).await.unwrap().is_some(), is_kept);
            secrets.patch(&key, &label("other")).await.unwrap();
        }
        assert!(secrets.get_opt(&key).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_applied_object_is_read_and_conflicts_are_returned() {
    let (client, namespace, _running) = client(|manager, _| manager.declare(kind::<ConfigMap>()).unwrap()).await;
    let key = ObjectKey::new(&namespace, "m");
    let wanted = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"value": value}});
    let (ours, theirs) = (client.field_owner("ours").objects::<ConfigMap>(), client.field_owner("theirs").objects());
    ours.apply(&key, false, &wanted("1")).await.unwrap();
    assert_eq!(value(&ours.get(&key).await.unwrap()), "1");
    let error = theirs.apply(&key, false, &wanted("2")).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let applied: ConfigMap = theirs.apply(&key, true, &wanted("2")).await.unwrap();
    assert_eq!(value(&ours.get(&key).await.unwrap()), "2");
    let managers = applied.metadata.managed_fields.unwrap();
    assert!(managers.iter().any(|entry| entry.manager.as_deref() == Some("theirs")));
    let dry = client.dry_run().field_owner("theirs").objects::<ConfigMap>();
    dry.apply(&key, true, &wanted("3")).await.unwrap();
    assert_eq!(value(&ours.get(&key).await.unwrap()), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_scaled_is_read() {
    let (client, namespace, _running) =
        client(|manager, _| manager.declare(kind::<Deployment>().labels("app=web")).unwrap()).await;
    let deployments = client.objects::<Deployment>();
    let deployment = json!({"metadata": {"name": "d", "namespace": namespace, "labels": {"app": "web"}}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployments.create(&serde_json::from_value(deployment).unwrap()).await.unwrap();
    let key = ObjectKey::new(&namespace, "d");
    for replicas in 2..10 {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let _: Scale = deployments.subresource("scale").patch(&key, &patch).await.unwrap();
        let read = deployments.get(&key).await.unwrap().get().unwrap();
        assert_eq!(read.spec.as_ref().unwrap().replicas, Some(replicas));
    }
    deployments.delete(&key, &DeleteParams::default()).await.unwrap();
    assert!(deployments.get_opt(&key).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_built_in_kind_is_written_once_in_whatever_form() {
    let (client, namespace, _running) =
        client(|manager, namespace| manager.declare(kind::<Deployment>().namespace(namespace)).unwrap()).await;
    with_client::is_written_once_in_whatever_form(&client, &format!("{namespace}/d")).await;
}
