//! The requests for objects, on any server: the embedded one here, the real one in
//! `real_clients.rs`.

use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use serde_json::json;
use steersman_client::{
    Api, ApiResource, Backoff, Client, DeleteParams, Deleted, DynamicObject, GetParams, ListParams, NamespaceScope,
    ObjectMeta, Patch, PatchParams, PostParams, Preconditions, Status, TypedEvent, WatchParams, merge_from,
    merge_from_with_optimistic_lock, retry_on_conflict,
};
use steersman_testing::eventually;

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("app".to_owned(), value.to_owned())].into()),
            ..Default::default()
        },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..Default::default()
    }
}

pub(crate) fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("key")).map_or("", String::as_str)
}

fn names<'a, K: kube_core::Resource + 'a>(items: impl IntoIterator<Item = &'a K>) -> Vec<String> {
    items.into_iter().map(|item| item.meta().name.clone().unwrap()).collect()
}

/// Objects of a Rust type.
pub(crate) async fn typed(client: &Client, namespace: &str) {
    let maps = client.namespaced::<ConfigMap>(namespace);
    let post = PostParams::default();
    let dry = PostParams { dry_run: true, ..Default::default() };
    maps.create(&dry, &map("dry", "run")).await.unwrap();
    assert!(maps.get_opt("dry").await.unwrap().is_none());

    let created = maps.create(&post, &map("one", "first")).await.unwrap();
    assert!(created.metadata.uid.is_some());
    assert!(maps.create(&post, &map("one", "first")).await.unwrap_err().is_already_exists());
    assert_eq!(maps.get("one").await.unwrap(), created);
    assert_eq!(maps.get_opt("one").await.unwrap().as_ref(), Some(&created));
    // Any version may be served from the server's watch cache, which can lag behind the write.
    let any = GetParams::any();
    let cached = eventually("the watch cache has the object", || async { maps.get_with("one", &any).await.ok() }).await;
    assert_eq!(cached, created);

    let mut changed = created.clone();
    changed.data = map("", "second").data;
    let updated = maps.update("one", &post, &changed).await.unwrap();
    assert_eq!(value(&updated), "second");
    assert!(maps.update("one", &post, &created).await.unwrap_err().is_conflict(), "it has changed");

    let merge = Patch::Merge(json!({"data": {"key": "third"}}));
    assert_eq!(value(&maps.patch("one", &PatchParams::default(), &merge).await.unwrap()), "third");
    let operations = json!([{"op": "test", "path": "/data/key", "value": "third"}, {"op": "replace", "path": "/data/key", "value": "fourth"}]);
    let json_patch = Patch::Json::<()>(serde_json::from_value(operations).unwrap());
    let patched = maps.patch("one", &PatchParams::default(), &json_patch).await.unwrap();
    assert_eq!(value(&patched), "fourth");

    maps.create(&post, &map("two", "other")).await.unwrap();
    let any = ListParams::default().match_any();
    eventually("a list of any version has both objects", || async {
        let all = maps.list(&any).await.unwrap();
        let own = all.items.iter().filter(|map| map.data.as_ref().is_some_and(|data| data.contains_key("key")));
        (names(own) == ["one", "two"]).then_some(())
    })
    .await;
    let selected = maps.list(&ListParams::default().labels("app=other")).await.unwrap();
    assert_eq!(names(&selected.items), ["two"]);
    let everywhere = client.all_namespaces::<ConfigMap>().list(&ListParams::default()).await.unwrap();
    assert!(everywhere.items.iter().filter(|map| map.metadata.namespace.as_deref() == Some(namespace)).count() >= 2);
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    assert!(page.items.len() == 1 && page.metadata.continue_.is_some());

    let wrong = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let conditional = DeleteParams { preconditions: Some(wrong), ..Default::default() };
    assert!(maps.delete("one", &conditional).await.unwrap_err().is_conflict());
    match maps.delete("one", &DeleteParams::default()).await.unwrap() {
        Deleted::Gone(status) => assert!(status.is_success(), "{status:?}"),
        Deleted::Object(map) => panic!("{map:?}"),
    }
    assert!(maps.delete("one", &DeleteParams::default()).await.unwrap_err().is_not_found());

    let mut held = map("held", "held");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&post, &held).await.unwrap();
    match maps.delete("held", &DeleteParams::default()).await.unwrap() {
        Deleted::Object(map) => assert!(map.metadata.deletion_timestamp.is_some()),
        Deleted::Gone(status) => panic!("{status:?}"),
    }
    maps.patch("held", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    assert!(maps.get_opt("held").await.unwrap().is_none());

    for name in ["a", "b"] {
        maps.create(&post, &map(name, "many")).await.unwrap();
    }
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=many")).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none() && maps.get_opt("b").await.unwrap().is_none());
    assert!(maps.get_opt("two").await.unwrap().is_some());
}

/// Objects of a kind that is known at run time only.
pub(crate) async fn dynamic(client: &Client, namespace: &str) {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let maps = client.dynamic(&resource, NamespaceScope::Namespace(namespace.to_owned()));
    let post = PostParams::default();
    let mut object = DynamicObject::new("dynamic", &resource).data(json!({"data": {"key": "first"}}));
    object.metadata.labels = Some([("app".to_owned(), "dynamic".to_owned())].into());
    let mut created = maps.create(&post, &object).await.unwrap();
    assert_eq!(created.data["data"]["key"], "first");
    assert_eq!(created.types.as_ref().unwrap().kind, "ConfigMap");
    created.data["data"]["key"] = json!("second");
    let updated = maps.update("dynamic", &post, &created).await.unwrap();
    assert_eq!(updated.data["data"]["key"], "second");
    assert!(maps.update("dynamic", &post, &created).await.unwrap_err().is_conflict());
    let merge = Patch::Merge(json!({"data": {"key": "third"}}));
    maps.patch("dynamic", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(maps.get("dynamic").await.unwrap().data["data"]["key"], "third");
    let list = maps.list(&ListParams::default().labels("app=dynamic")).await.unwrap();
    assert_eq!(names(&list.items), ["dynamic"]);
    let everywhere =
        client.dynamic(&resource, NamespaceScope::AllNamespaces).list(&ListParams::default()).await.unwrap();
    assert!(names(&everywhere.items).contains(&"dynamic".to_owned()));
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=dynamic")).await.unwrap();
    assert!(maps.get_opt("dynamic").await.unwrap().is_none());

    let namespaces = client.dynamic(&ApiResource::erase::<Namespace>(&()), NamespaceScope::Cluster);
    assert_eq!(namespaces.get(namespace).await.unwrap().metadata.name.as_deref(), Some(namespace));
    let typed = client.cluster::<Namespace>();
    assert_eq!(typed.get(namespace).await.unwrap().metadata.name.as_deref(), Some(namespace));
}

/// The metadata of objects alone.
pub(crate) async fn metadata_only(client: &Client, namespace: &str) {
    let maps = client.namespaced::<ConfigMap>(namespace);
    let created = maps.create(&PostParams::default(), &map("meta", "meta")).await.unwrap();
    let metadata = maps.metadata();
    let got = metadata.get("meta").await.unwrap();
    assert_eq!(got.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    assert_eq!(got.metadata, created.metadata);
    let list = metadata.list(&ListParams::default().labels("app=meta")).await.unwrap();
    assert_eq!(names(&list.items), ["meta"]);
    let merge = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let patched = metadata.patch("meta", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(patched.metadata.annotations.unwrap()["a"], "b");
    assert_eq!(value(&maps.get("meta").await.unwrap()), "meta", "the rest is as it was");
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic = client.dynamic(&resource, NamespaceScope::Namespace(namespace.to_owned())).metadata();
    assert_eq!(dynamic.get("meta").await.unwrap().metadata.uid, created.metadata.uid);
    metadata.delete("meta", &DeleteParams::default()).await.unwrap();
    assert!(metadata.get_opt("meta").await.unwrap().is_none());
}

pub(crate) async fn deployment(client: &Client, namespace: &str, name: &str) -> Api<Deployment> {
    let deployments = client.namespaced::<Deployment>(namespace);
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    deployments
}

/// The subresource `status`.
pub(crate) async fn status(client: &Client, namespace: &str) {
    let deployments = deployment(client, namespace, "with-status").await;
    let post = PostParams::default();
    let mut object = deployments.get_status("with-status").await.unwrap();
    object.spec.as_mut().unwrap().replicas = Some(7);
    object.status.get_or_insert_default().observed_generation = Some(1);
    let written = deployments.update_status("with-status", &post, &object).await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().observed_generation, Some(1));
    assert_eq!(written.spec.unwrap().replicas, Some(1), "nothing but the status is written");
    let merge = Patch::Merge(json!({"status": {"observedGeneration": 2}}));
    let patched = deployments.patch_status("with-status", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(patched.status.as_ref().unwrap().observed_generation, Some(2));
    assert!(deployments.update_status("with-status", &post, &object).await.unwrap_err().is_conflict());
    let untyped: serde_json::Value = deployments.status().update("with-status", &post, &patched).await.unwrap();
    assert_eq!(untyped["status"]["observedGeneration"], 2);
}

/// A patch made from two states of an object, with and without the version as a precondition.
pub(crate) async fn merge_patches(client: &Client, namespace: &str) {
    let maps = client.namespaced::<ConfigMap>(namespace);
    let old = maps.create(&PostParams::default(), &map("merged", "old")).await.unwrap();
    let mut new = old.clone();
    new.metadata.labels = None;
    new.data.as_mut().unwrap().insert("more".to_owned(), "m".to_owned());
    let elsewhere = Patch::Merge(json!({"data": {"other": "o"}}));
    maps.patch("merged", &PatchParams::default(), &elsewhere).await.unwrap();

    let locked = merge_from_with_optimistic_lock(&old, &new).unwrap();
    let conflict = maps.patch("merged", &PatchParams::default(), &locked).await.unwrap_err();
    assert!(conflict.is_conflict(), "the object has changed since it was read: {conflict}");
    let patched = maps.patch("merged", &PatchParams::default(), &merge_from(&old, &new).unwrap()).await.unwrap();
    assert_eq!(patched.metadata.labels, None);
    let expected = [("key", "old"), ("more", "m"), ("other", "o")];
    assert_eq!(patched.data.as_ref().unwrap(), &expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());

    let mut newer = patched.clone();
    newer.data = None;
    let locked = merge_from_with_optimistic_lock(&patched, &newer).unwrap();
    assert_eq!(maps.patch("merged", &PatchParams::default(), &locked).await.unwrap().data, None);
}

/// The subresource `eviction`.
pub(crate) async fn eviction(client: &Client, namespace: &str) {
    let pods = client.namespaced::<Pod>(namespace);
    let pod = json!({"metadata": {"name": "evicted"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let eviction = Eviction {
        metadata: ObjectMeta { name: Some("evicted".into()), namespace: Some(namespace.into()), ..Default::default() },
        ..Default::default()
    };
    let post = PostParams::default();
    let status: Status = pods.subresource("eviction").create("evicted", &post, &eviction).await.unwrap();
    assert!(status.is_success(), "{status:?}");
    assert!(pods.get_opt("evicted").await.unwrap().is_none(), "it never ran, so it is gone at once");
    let again = pods.subresource("eviction").create::<_, Status>("evicted", &post, &eviction).await;
    assert!(again.unwrap_err().is_not_found());
}

/// The subresource `scale`.
pub(crate) async fn scale(client: &Client, namespace: &str) {
    let deployments = deployment(client, namespace, "scaled").await;
    let scale = deployments.subresource("scale");
    let mut object: Scale = scale.get("scaled").await.unwrap();
    assert_eq!(object.spec.as_ref().unwrap().replicas, Some(1));
    object.spec.as_mut().unwrap().replicas = Some(3);
    let written: Scale = scale.update("scaled", &PostParams::default(), &object).await.unwrap();
    assert_eq!(written.spec.unwrap().replicas, Some(3));
    assert_eq!(deployments.get("scaled").await.unwrap().spec.unwrap().replicas, Some(3));
    let merge = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let patched: Scale = scale.patch("scaled", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(4));
}

/// A watch sends every change since a list.
pub(crate) async fn watch(client: &Client, namespace: &str) {
    let maps = client.namespaced::<ConfigMap>(namespace);
    let mut first = maps.create(&PostParams::default(), &map("first", "0")).await.unwrap();
    let list = maps.list(&ListParams::default().labels("app")).await.unwrap();
    assert_eq!(names(&list.items), ["first"]);
    let version = list.metadata.resource_version.unwrap();

    let events = maps.watch(&WatchParams::default().labels("app"), &version).await.unwrap();
    first.data = map("", "1").data;
    maps.update("first", &PostParams::default(), &first).await.unwrap();
    maps.create(&PostParams::default(), &map("second", "0")).await.unwrap();
    maps.delete("first", &DeleteParams::default()).await.unwrap();
    let changes = events.try_filter_map(async |event| {
        let name = |map: ConfigMap| map.metadata.name.unwrap();
        Ok(match event {
            TypedEvent::Added(map) => Some(format!("added {}", name(map))),
            TypedEvent::Modified(map) => Some(format!("modified {}", name(map))),
            TypedEvent::Deleted(map) => Some(format!("deleted {}", name(map))),
            TypedEvent::Bookmark { .. } => None,
        })
    });
    let changes: Vec<String> = changes.take(3).try_collect().await.unwrap();
    assert_eq!(changes, ["modified first", "added second", "deleted first"]);
}

/// Two clients write to one object, and no write is lost.
pub(crate) async fn two_writers(client: &Client, namespace: &str) {
    const EACH: usize = 5;
    let maps = client.namespaced::<ConfigMap>(namespace);
    maps.create(&PostParams::default(), &map("counter", "0")).await.unwrap();
    // Enough for any interleaving.
    let mut backoff = Backoff::RETRY;
    backoff.tries = 1000;
    let writers = (0..2).map(|_| async {
        for _ in 0..EACH {
            retry_on_conflict(backoff, || async {
                let mut counter = maps.get("counter").await?;
                let next = value(&counter).parse::<usize>().unwrap() + 1;
                counter.data = map("", &next.to_string()).data;
                // Lets the other writer in between.
                tokio::task::yield_now().await;
                maps.update("counter", &PostParams::default(), &counter).await
            })
            .await?;
        }
        Ok::<_, steersman_client::Error>(())
    });
    try_join_all(writers).await.unwrap();
    assert_eq!(value(&maps.get("counter").await.unwrap()), (2 * EACH).to_string());
}
