//! The cached client: reads from caches, writes to the server.

mod with_client;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use serde_json::{Value, json};
use steersman_client::{
    ApiResource, Backoff, DeleteParams, Deleted, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, merge_from,
    merge_from_with_optimistic_lock,
};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{
    Error, Index, ListQuery, OperationResult, StorageMode, StorageOptions, dynamic, dynamic_metadata, kind, metadata,
};
use steersman_testing::Fault;
use steersman_wire::LabelSelector;
use with_client::{World, key, labelled, map, meta, names, set_value, settle, value};

async fn with_maps() -> World {
    World::new(|manager| manager.declare(kind::<ConfigMap>()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn objects_are_read_by_key_namespace_labels_and_index() {
    let by_value =
        Index::function(|map: &ConfigMap| map.data.iter().flatten().map(|(_, value)| value.clone()).collect());
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>().index("app", Index::label("app")).index("value", by_value)).unwrap();
    })
    .await;
    let maps = world.client.objects::<ConfigMap>();
    for map in [labelled("a/web", "app=web"), labelled("b/web", "app=web"), labelled("a/db", "app=db"), map("a/x", "1")]
    {
        maps.create(&map).await.unwrap();
    }
    assert_eq!(maps.get(&key("a/web")).await.unwrap().meta().label("app"), Some("web"));
    assert!(maps.get(&key("a/none")).await.unwrap_err().is_not_found());
    assert!(maps.get_opt(&key("a/none")).await.unwrap().is_none());
    assert_eq!(names(&maps.list(&ListQuery::all()).await.unwrap()), ["db", "web", "web", "x"]);
    assert_eq!(names(&maps.list(&ListQuery::all().namespace("a")).await.unwrap()), ["db", "web", "x"]);
    let selector = LabelSelector::parse("app in (web, db)").unwrap();
    assert_eq!(names(&maps.list(&ListQuery::all().labels(selector.clone())).await.unwrap()), ["db", "web", "web"]);
    assert_eq!(names(&maps.list(&ListQuery::all().namespace("b").labels(selector.clone())).await.unwrap()), ["web"]);
    assert_eq!(names(&maps.list(&ListQuery::all().index("app", "web")).await.unwrap()), ["web", "web"]);
    assert_eq!(names(&maps.list(&ListQuery::all().index("value", "1")).await.unwrap()), ["x"]);
    let error = maps.list(&ListQuery::all().index("other", "1")).await.unwrap_err().to_string();
    assert!(error.contains("other"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_query_combines_namespace_labels_and_index() {
    let by_value =
        Index::function(|map: &ConfigMap| map.data.iter().flatten().map(|(_, value)| value.clone()).collect());
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().index("value", by_value)).unwrap()).await;
    for (name, label, value) in
        [("a/one", "app=web", "1"), ("a/two", "app=db", "1"), ("a/three", "app=web", "2"), ("b/four", "app=web", "1")]
    {
        let data = map(name, value).data;
        world.client.create(&ConfigMap { data, ..labelled(name, label) }).await.unwrap();
    }
    let maps = world.client.objects::<ConfigMap>();
    let web = || LabelSelector::parse("app=web").unwrap();
    let all = ListQuery::all;
    for (query, wanted) in [
        (all(), vec!["four", "one", "three", "two"]),
        (all().namespace("a"), vec!["one", "three", "two"]),
        (all().labels(web()), vec!["four", "one", "three"]),
        (all().index("value", "1"), vec!["four", "one", "two"]),
        (all().namespace("a").labels(web()), vec!["one", "three"]),
        (all().namespace("a").index("value", "1"), vec!["one", "two"]),
        (all().labels(web()).index("value", "1"), vec!["four", "one"]),
        (all().namespace("a").labels(web()).index("value", "1"), vec!["one"]),
        (all().namespace("b").labels(web()).index("value", "2"), vec![]),
    ] {
        assert_eq!(names(&maps.list(&query).await.unwrap()), wanted, "{query:?}");
    }
    let error = maps.list(&all().index("other", "1")).await.unwrap_err().to_string();
    assert!(error.contains("other"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dynamic_and_metadata_only_objects_are_read_and_written() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::new(|manager| {
        manager.declare(dynamic(&resource)).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
        manager.declare(dynamic_metadata(&resource)).unwrap();
    })
    .await;
    let objects = world.client.dynamic(&resource);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "m"}, "data": {"value": "1"}
    }))
    .unwrap();
    objects.create(&object).await.unwrap();
    assert_eq!(objects.get(&key("a/m")).await.unwrap().get().unwrap().data["data"]["value"], "1");

    let metadata = world.client.metadata::<ConfigMap>();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    metadata.patch(&key("a/m"), &patch).await.unwrap();
    assert_eq!(metadata.get(&key("a/m")).await.unwrap().meta().label("app"), Some("web"));
    let both = world.client.dynamic_metadata(&resource);
    assert_eq!(both.get(&key("a/m")).await.unwrap().meta().label("app"), Some("web"));
    assert_eq!(objects.get(&key("a/m")).await.unwrap().get().unwrap().data["data"]["value"], "1", "it is as it was");
    metadata.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    assert!(both.get_opt(&key("a/m")).await.unwrap().is_none());
}

/// Writing an object from its metadata would delete everything else.
#[tokio::test(start_paused = true)]
async fn metadata_alone_is_not_written_as_a_whole() {
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
    })
    .await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    let metadata = world.client.metadata::<ConfigMap>();
    let object = metadata.get(&key("a/m")).await.unwrap().get().unwrap();
    world.writes();
    for error in [
        metadata.create(&object).await.unwrap_err(),
        metadata.update(&object).await.unwrap_err(),
        metadata.update_status(&object).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("from its metadata"), "{error}");
    }
    assert!(world.writes().is_empty());
}

/// Contract 11.
#[tokio::test(start_paused = true)]
async fn reading_a_kind_that_is_not_declared_names_the_call_to_add() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::new(|manager| manager.declare(kind::<Secret>()).unwrap()).await;
    let typed = world.client.get::<ConfigMap>(&key("a/m")).await.unwrap_err().to_string();
    let dynamic = world.client.dynamic(&resource).list(&ListQuery::all()).await.unwrap_err().to_string();
    let metadata = world.client.metadata::<ConfigMap>().list(&ListQuery::all()).await.unwrap_err().to_string();
    let both = world.client.dynamic_metadata(&resource).list(&ListQuery::all()).await.unwrap_err().to_string();
    // Another form of a declared kind has another cache.
    let other = world.client.metadata::<Secret>().list(&ListQuery::all()).await.unwrap_err().to_string();
    for (error, call) in [
        (typed, "Manager::declare(kind::<ConfigMap>())"),
        (dynamic, "Manager::declare(dynamic(<configmaps>))"),
        (metadata, "Manager::declare(metadata::<ConfigMap>())"),
        (both, "Manager::declare(dynamic_metadata(<configmaps>))"),
        (other, "Manager::declare(metadata::<Secret>())"),
    ] {
        assert!(error.contains(call) && error.contains("owns(…)"), "{call} is not in: {error}");
    }
    settle().await;
    assert!(!world.manager.status().iter().any(|status| status.resource.contains("configmaps")), "nothing was started");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_filled_yet_is_not_taken_for_an_empty_one() {
    let world = World::new(|manager| manager.declare(kind::<Secret>()).unwrap()).await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    world.network.hold("/configmaps");
    world.manager.declare(kind::<ConfigMap>()).unwrap();
    let error = world.client.get::<ConfigMap>(&key("a/m")).await.unwrap_err();
    assert!(!error.is_not_found() && error.to_string().contains("configmaps"), "{error}");
    world.network.release();
    assert_eq!(value(&world.client.get(&key("a/m")).await.unwrap()), "1");
}

#[tokio::test(start_paused = true)]
async fn live_reads_come_from_the_server() {
    let world = with_maps().await;
    world.network.hold("watch=true");
    world.client.create(&map("a/m", "1")).await.unwrap();
    assert!(world.client.stale_ok().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().is_empty());
    assert!(world.client.live().namespaced::<ConfigMap>("a").get_opt("m").await.unwrap().is_some());
    let maps = world.client.objects::<ConfigMap>();
    assert!(maps.live(Some("a")).get_opt("m").await.unwrap().is_some());
    assert_eq!(maps.live(None).path(), "/api/v1/configmaps");
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_updated_patched_and_deleted() {
    let world = with_maps().await;
    let created = world.client.create(&map("a/m", "1")).await.unwrap();
    assert!(world.client.create(&map("a/m", "1")).await.unwrap_err().is_already_exists());
    let updated = ConfigMap { data: map("a/m", "2").data, ..created.clone() };
    world.client.update(&updated).await.unwrap();
    assert!(world.client.update(&created).await.unwrap_err().is_conflict());
    let maps = world.client.objects::<ConfigMap>();
    maps.patch(&key("a/m"), &Patch::Merge(set_value("3"))).await.unwrap();
    let there = world.other.namespaced::<ConfigMap>("a");
    assert_eq!(there.get("m").await.unwrap().data.unwrap()["value"], "3");
    let deleted = maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    assert!(matches!(deleted, Deleted::Gone(_)));
    assert!(world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap_err().is_not_found());
    let generated = ObjectMeta { name: None, generate_name: Some("m-".to_owned()), ..meta("a/x") };
    let created = maps.create(&ConfigMap { metadata: generated, ..ConfigMap::default() }).await.unwrap();
    let name = created.metadata.name.unwrap();
    maps.get(&key(&format!("a/{name}"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_in_no_namespace_are_read_and_written() {
    let resource = ApiResource::erase::<Node>(&());
    let world = World::new(|manager| {
        manager.declare(kind::<Node>()).unwrap();
        manager.declare(dynamic(&resource).cluster_scoped()).unwrap();
    })
    .await;
    let metadata = ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() };
    world.client.create(&Node { metadata, ..Node::default() }).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    world.client.dynamic(&resource).patch(&key("n"), &patch).await.unwrap();
    assert_eq!(world.client.get::<Node>(&key("n")).await.unwrap().meta().label("a"), Some("b"));
    world.client.delete::<Node>(&key("n")).await.unwrap();
    assert!(world.client.dynamic(&resource).list(&ListQuery::all()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_without_the_name_or_namespace_it_needs_is_refused_before_it_is_sent() {
    let world = with_maps().await;
    let nameless = ConfigMap { metadata: ObjectMeta { name: None, ..meta("a/m") }, ..ConfigMap::default() };
    assert!(world.client.update(&nameless).await.unwrap_err().to_string().contains("metadata.name"));
    assert!(world.client.update_status(&nameless).await.unwrap_err().to_string().contains("metadata.name"));
    let nowhere = world.client.create(&map("m", "1")).await.unwrap_err();
    assert!(nowhere.to_string().contains("namespace"), "{nowhere}");
    assert!(world.client.update(&map("m", "1")).await.is_err());
    assert!(world.client.delete::<ConfigMap>(&key("m")).await.is_err());
    assert!(world.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_by_itself() {
    let world = World::new(|manager| manager.declare(kind::<Node>()).unwrap()).await;
    let metadata = ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() };
    let mut node = world.client.create(&Node { metadata, ..Node::default() }).await.unwrap();
    node.status.get_or_insert_default().phase = Some("Running".to_owned());
    node.spec.get_or_insert_default().pod_cidr = Some("10.0.0.0/24".to_owned());
    world.client.update_status(&node).await.unwrap();
    let read = world.client.get::<Node>(&key("n")).await.unwrap().get().unwrap();
    assert_eq!(read.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(read.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref()), None);
    let patch = Patch::Merge(json!({"status": {"phase": "Pending"}}));
    world.client.objects::<Node>().patch_status(&key("n"), &patch).await.unwrap();
    let read = world.client.get::<Node>(&key("n")).await.unwrap().get().unwrap();
    assert_eq!(read.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn dry_runs_change_nothing() {
    let world = with_maps().await;
    let created = world.client.create(&map("a/m", "1")).await.unwrap();
    let dry = world.client.dry_run();
    let maps = dry.objects::<ConfigMap>();
    dry.create(&map("a/n", "1")).await.unwrap();
    dry.update(&ConfigMap { data: map("a/m", "2").data, ..created }).await.unwrap();
    maps.patch(&key("a/m"), &Patch::Merge(set_value("3"))).await.unwrap();
    dry.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    let (_, result) = dry.create_or_update(map("a/o", "1"), |_| ()).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    assert!(dry.create(&map("a/m", "1")).await.unwrap_err().is_already_exists(), "the server has checked it");
    settle().await;
    let list = maps.list(&ListQuery::all()).await.unwrap();
    assert_eq!(names(&list), ["m"]);
    assert_eq!(value(&list[0]), "1");
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_with_one_request() {
    let world = with_maps().await;
    let maps = world.client.objects::<ConfigMap>();
    for map in [labelled("a/one", "app=web"), labelled("a/two", "app=web"), labelled("a/db", "app=db")] {
        maps.create(&map).await.unwrap();
    }
    maps.create(&labelled("b/three", "app=web")).await.unwrap();
    world.writes();
    let (params, web) = (DeleteParams::default(), ListParams::default().labels("app=web"));
    world.client.dry_run().objects::<ConfigMap>().delete_collection(Some("a"), &params, &web).await.unwrap();
    settle().await;
    assert_eq!(maps.list(&ListQuery::all()).await.unwrap().len(), 4, "a dry run deletes nothing");
    maps.delete_collection(Some("a"), &params, &web).await.unwrap();
    assert_eq!(world.writes().len(), 2);
    settle().await;
    assert_eq!(names(&maps.list(&ListQuery::all()).await.unwrap()), ["db", "three"]);
    let error = maps.delete_collection(None, &params, &web).await.unwrap_err();
    assert!(error.to_string().contains("namespace"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_from_two_states_sends_the_difference() {
    let world = with_maps().await;
    let maps = world.client.objects::<ConfigMap>();
    let old = maps.create(&map("a/m", "1")).await.unwrap();
    let mut new = old.clone();
    new.immutable = Some(true);
    // Another client changes another field.
    let there = world.other.namespaced::<ConfigMap>("a");
    there.patch("m", &PatchParams::default(), &Patch::Merge(set_value("2"))).await.unwrap();
    let locked = merge_from_with_optimistic_lock(&old, &new).unwrap();
    assert!(maps.patch(&key("a/m"), &locked).await.unwrap_err().is_conflict());
    maps.patch(&key("a/m"), &merge_from(&old, &new).unwrap()).await.unwrap();
    let now = maps.get(&key("a/m")).await.unwrap().get().unwrap();
    assert_eq!((now.immutable, &*now.data.as_ref().unwrap()["value"]), (Some(true), "2"));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_with_the_state_that_the_cache_has_caught_up_with() {
    let world = with_maps().await;
    let (client, maps) = (&world.client, world.client.objects::<ConfigMap>());
    maps.create(&map("a/m", "1")).await.unwrap();
    maps.get(&key("a/m")).await.unwrap();
    // The change of another client reaches the cache late.
    world.network.delay_watches(std::time::Duration::from_millis(5));
    let there = world.other.namespaced::<ConfigMap>("a");
    there.patch("m", &PatchParams::default(), &Patch::Merge(set_value("2"))).await.unwrap();
    let tries = std::cell::Cell::new(0);
    client
        .retry_on_conflict(Backoff::RETRY, || async {
            tries.set(tries.get() + 1);
            let mut map = ConfigMap::clone(&*client.get::<ConfigMap>(&key("a/m")).await?.get()?);
            map.immutable = Some(true);
            client.update(&map).await
        })
        .await
        .unwrap();
    let now = maps.get(&key("a/m")).await.unwrap().get().unwrap();
    assert_eq!((now.immutable, &*now.data.as_ref().unwrap()["value"]), (Some(true), "2"));
    assert_eq!(tries.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_subresource_is_read_from_the_server() {
    let world = World::new(|_| ()).await;
    let deployments = world.client.objects::<Deployment>();
    let deployment = json!({"metadata": {"name": "d", "namespace": "a"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployments.create(&serde_json::from_value(deployment).unwrap()).await.unwrap();
    let scale: Scale = deployments.subresource("scale").get(&key("a/d")).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let missing = deployments.subresource("scale").get::<Scale>(&key("a/none")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn writes_are_marked_with_the_field_owner() {
    let world = with_maps().await;
    let client = world.client.field_owner("the owner");
    let created = client.create(&map("a/m", "1")).await.unwrap();
    client.update(&created).await.unwrap();
    client.objects::<ConfigMap>().patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
    let writes = world.writes();
    assert_eq!(writes.len(), 3);
    for write in writes {
        assert!(write.contains("fieldManager=the+owner") || write.contains("fieldManager=the%20owner"), "{write}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_sends_the_field_manager() {
    let world = with_maps().await;
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "1"}});
    let error = world.client.objects::<ConfigMap>().apply(&key("a/m"), false, &wanted).await.unwrap_err();
    assert!(error.to_string().contains("field_owner("), "{error}");
    assert!(world.writes().is_empty());

    let mut answer = serde_json::to_value(map("a/m", "1")).unwrap();
    answer["metadata"]["resourceVersion"] = json!("1");
    world.network.fail("PATCH /api/v1/namespaces/a/configmaps/m", Fault::Body(answer));
    let maps = world.client.field_owner("me").objects::<ConfigMap>();
    let applied = maps.apply(&key("a/m"), false, &wanted).await.unwrap();
    assert_eq!(applied.data, map("a/m", "1").data);
    maps.apply(&key("a/m"), true, &wanted).await.unwrap();
    let writes = world.writes();
    assert!(writes[0].contains("fieldManager=me") && !writes[0].contains("force=true"), "{writes:?}");
    assert!(writes[1].contains("fieldManager=me") && writes[1].contains("force=true"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_of_the_status_can_be_forced() {
    let world = with_maps().await;
    let mut answer = serde_json::to_value(map("a/m", "1")).unwrap();
    answer["metadata"]["resourceVersion"] = json!("1");
    world.network.fail("PATCH /api/v1/namespaces/a/configmaps/m/status", Fault::Body(answer));
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let maps = world.client.objects::<ConfigMap>();
    let error = maps.apply_status(&key("a/m"), true, &wanted).await.unwrap_err();
    assert!(error.to_string().contains("field_owner("), "{error}");
    let maps = world.client.field_owner("me").objects::<ConfigMap>();
    maps.apply_status(&key("a/m"), false, &wanted).await.unwrap();
    maps.apply_status(&key("a/m"), true, &wanted).await.unwrap();
    let writes = world.writes();
    assert_eq!(writes.len(), 2);
    assert!(writes[0].contains("/m/status?") && !writes[0].contains("force=true"), "{writes:?}");
    assert!(writes[1].contains("/m/status?") && writes[1].contains("force=true"), "{writes:?}");
    assert_eq!(world.client.remembered_writes(), 1, "and it is read");
}

fn set(wanted: &str) -> impl FnOnce(&mut ConfigMap) {
    let data = Some(BTreeMap::from([("value".to_owned(), wanted.to_owned())]));
    |map: &mut ConfigMap| map.data = data
}

#[tokio::test(start_paused = true)]
async fn create_or_update_writes_only_what_is_not_as_it_should_be() {
    let world = with_maps().await;
    let new = || ConfigMap { metadata: meta("a/m"), ..ConfigMap::default() };
    let (created, result) = world.client.create_or_update(new(), set("1")).await.unwrap();
    assert_eq!((created.data, result), (map("a/m", "1").data, OperationResult::Created));
    world.writes();
    let (same, result) = world.client.create_or_update(new(), set("1")).await.unwrap();
    assert_eq!((same.data, result), (map("a/m", "1").data, OperationResult::Unchanged));
    assert!(world.writes().is_empty(), "nothing was sent");
    let (_, result) = world.client.create_or_update(new(), set("2")).await.unwrap();
    assert_eq!((result, world.writes().len()), (OperationResult::Updated, 1));
    assert_eq!(value(&world.client.get(&key("a/m")).await.unwrap()), "2");
}

#[tokio::test(start_paused = true)]
async fn a_built_in_kind_is_written_once_in_whatever_form() {
    let world = World::new(|manager| manager.declare(kind::<Deployment>()).unwrap()).await;
    with_client::is_written_once_in_whatever_form(&world.client, "a/d").await;
}

#[tokio::test(start_paused = true)]
async fn an_equivalent_object_is_not_written() {
    let world = with_maps().await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    world.client.get::<ConfigMap>(&key("a/m")).await.unwrap();
    world.writes();
    let empty = |map: &mut ConfigMap| {
        map.metadata.labels = Some(BTreeMap::new());
        map.metadata.finalizers = Some(Vec::new());
        map.binary_data = Some(BTreeMap::new());
    };
    let (_, result) = world.client.create_or_update(map("a/m", ""), empty).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    let (_, result) = world.client.create_or_patch(map("a/m", ""), empty).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    assert!(world.writes().is_empty(), "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn create_or_update_is_a_conflict_with_what_others_wrote_since() {
    let world = with_maps().await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    world.client.get::<ConfigMap>(&key("a/m")).await.unwrap();
    world.network.hold("watch=true");
    let others = Patch::Merge(json!({"data": {"theirs": "1"}}));
    world.other.namespaced::<ConfigMap>("a").patch("m", &PatchParams::default(), &others).await.unwrap();
    assert!(world.client.create_or_update(map("a/m", ""), set("2")).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn create_or_patch_sends_only_what_changed() {
    let world = with_maps().await;
    let change = |wanted: &'static str| {
        move |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("value".to_owned(), wanted.to_owned());
        }
    };
    let new = || ConfigMap { metadata: meta("a/m"), ..ConfigMap::default() };
    let (_, result) = world.client.create_or_patch(new(), change("1")).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    world.client.get::<ConfigMap>(&key("a/m")).await.unwrap();
    world.writes();
    let (_, result) = world.client.create_or_patch(new(), change("1")).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    assert!(world.writes().is_empty(), "nothing was sent");

    world.network.hold("watch=true");
    let others = Patch::Merge(json!({"data": {"theirs": "1"}}));
    world.other.namespaced::<ConfigMap>("a").patch("m", &PatchParams::default(), &others).await.unwrap();
    let (patched, result) = world.client.create_or_patch(new(), change("2")).await.unwrap();
    assert_eq!(result, OperationResult::Updated);
    let data = patched.data.unwrap();
    assert_eq!((&*data["value"], &*data["theirs"]), ("2", "1"), "what others wrote stays");
}

#[tokio::test(start_paused = true)]
async fn create_or_patch_sends_the_status_to_the_status() {
    let world = World::new(|manager| manager.declare(kind::<Node>()).unwrap()).await;
    let new =
        || Node { metadata: ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() }, ..Node::default() };
    world.client.create_or_patch(new(), |_| ()).await.unwrap();
    world.writes();
    let change = |node: &mut Node| {
        node.status.get_or_insert_default().phase = Some("Running".to_owned());
        node.spec.get_or_insert_default().unschedulable = Some(true);
    };
    let (patched, result) = world.client.create_or_patch(new(), change).await.unwrap();
    assert_eq!(result, OperationResult::Updated);
    assert_eq!(patched.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(patched.spec.unwrap().unschedulable, Some(true));
    let writes = world.writes();
    assert_eq!(writes.iter().map(|write| write.contains("/status")).collect::<Vec<_>>(), [false, true]);
    let (_, result) = world.client.create_or_patch(new(), change).await.unwrap();
    assert_eq!((result, world.writes().len()), (OperationResult::Unchanged, 0));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_or_renames_writes_nothing() {
    let world = with_maps().await;
    let owner = map("b/owner", "1");
    let owner = world.client.create(&owner).await.unwrap();
    world.client.create(&map("a/m", "1")).await.unwrap();
    world.writes();
    for name in ["a/m", "a/new"] {
        let owned = |map: &mut ConfigMap| -> Result<(), Error> {
            map.data = None;
            set_controller_reference(&owner, map)?;
            Ok(())
        };
        let error = world.client.create_or_update(map(name, ""), owned).await.unwrap_err();
        assert!(error.to_string().contains("same namespace"), "{error}");
        assert!(world.client.create_or_patch(map(name, ""), owned).await.is_err());
        let rename = |map: &mut ConfigMap| map.metadata.name = Some("other".to_owned());
        let error = world.client.create_or_update(map(name, ""), rename).await.unwrap_err();
        assert!(error.to_string().contains("has changed its name"), "{error}");
        assert!(world.client.create_or_patch(map(name, ""), rename).await.is_err());
    }
    let nameless = ConfigMap::default();
    assert!(world.client.create_or_update(nameless, |_| ()).await.unwrap_err().to_string().contains("metadata.name"));
    assert!(world.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_are_created_or_updated() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::new(|manager| manager.declare(dynamic(&resource)).unwrap()).await;
    let objects = world.client.dynamic(&resource);
    let new = || DynamicObject::new("m", &resource).within("a");
    let change = |object: &mut DynamicObject| object.data = json!({"data": {"value": "1"}});
    let (_, result) = objects.create_or_update(new(), change).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    let (_, result) = objects.create_or_update(new(), change).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    let change = |object: &mut DynamicObject| object.data["data"]["value"] = Value::from("2");
    let (patched, result) = objects.create_or_patch(new(), change).await.unwrap();
    assert_eq!((patched.data["data"]["value"].as_str(), result), (Some("2"), OperationResult::Updated));
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_declared_once_for_all_who_say_the_same() {
    let world = with_maps().await;
    world.manager.declare(kind::<ConfigMap>()).unwrap();
    let error = world.manager.declare(kind::<ConfigMap>().namespace("a")).unwrap_err().to_string();
    assert!(error.contains("ConfigMap") && error.contains("one cache for each kind"), "{error}");
    world.manager.declare(kind::<Deployment>().namespace("b").namespace("a")).unwrap();
    world.manager.declare(kind::<Deployment>().namespace("a").namespace("b")).unwrap();
    // A declaration without options shares the cache; an index is added.
    world.manager.declare(kind::<Deployment>().index("app", Index::label("app"))).unwrap();
    assert!(world.client.objects::<Deployment>().list(&ListQuery::all().index("app", "web")).await.unwrap().is_empty());
    let watched = world.manager.status();
    assert_eq!(watched.iter().filter(|status| status.resource.contains("deployments")).count(), 2);
    assert!(world.manager.declare(kind::<Secret>().labels("a b c")).is_err());
    assert!(world.manager.declare(kind::<Secret>().fields("what")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_kept_in_one_way() {
    let world = with_maps().await;
    fn decoded<K>() -> StorageOptions<K> {
        StorageOptions { mode: StorageMode::Decoded, ..StorageOptions::default() }
    }
    let error = world.manager.declare(kind::<ConfigMap>().storage(decoded())).unwrap_err().to_string();
    for part in ["ConfigMap", "storage", "one cache for each kind", "Manager::declare(kind::<ConfigMap>().storage(…))"]
    {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    world.manager.declare(kind::<ConfigMap>().storage(StorageOptions::default())).unwrap();

    let secrets = || kind::<Secret>().namespace("b").namespace("a").labels("app=web");
    let without_data = decoded().transform(|secret: &mut Secret| secret.data = None);
    world.manager.declare(secrets().storage(without_data.clone())).unwrap();
    world.manager.declare(secrets().storage(without_data.clone())).unwrap();
    // A declaration without options shares the cache that was declared for all.
    world.manager.declare(secrets()).unwrap();
    world.manager.declare(kind::<Secret>()).unwrap();
    world.manager.declare(kind::<Secret>().storage(without_data)).unwrap();
    assert!(world.manager.declare(secrets().storage(decoded())).is_err());
    let another = decoded().transform(|secret: &mut Secret| secret.data = None);
    assert!(world.manager.declare(secrets().storage(another)).is_err());
    let watched = world.manager.status();
    assert_eq!(
        watched.iter().filter(|status| status.resource.contains("secrets")).count(),
        2,
        "one cache: {watched:?}"
    );
}
