//! Caches that hold only some objects: by namespace, labels or fields.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};
use steersman_client::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use steersman_runtime::{ListQuery, kind};
use tokio::time::Instant;

use crate::with_client::{World, key, labelled, looks_for_any, map, meta, names, settle, value};

fn label(value: &str) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"labels": {"app": value}}}))
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_an_object_out_of_the_labels_is_waited_for_until_the_copy_is_gone() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().labels("app=web")).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&labelled("a/m", "app=web")).await.unwrap();
    maps.get(&key("a/m")).await.unwrap();
    world.network.delay_watches(Duration::from_millis(100));
    maps.patch(&key("a/m"), &label("other")).await.unwrap();
    assert_eq!(
        world.client.stale_ok().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().len(),
        1,
        "the cache has it still"
    );
    assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
    maps.patch(&key("a/m"), &label("web")).await.unwrap();
    assert_eq!(maps.get(&key("a/m")).await.unwrap().meta().label("app"), Some("web"));

    world.network.hold("watch=true");
    maps.patch(&key("a/m"), &label("other")).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap_err().is_stale());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_cache_does_not_keep_is_not_waited_for() {
    let selective = kind::<ConfigMap>().labels("app=web").namespace("a");
    let world = World::new(|manager| manager.declare(selective).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    world.network.hold("watch=true");
    let started = Instant::now();
    maps.create(&labelled("a/other", "app=other")).await.unwrap();
    maps.create(&labelled("b/web", "app=web")).await.unwrap();
    maps.delete(&key("b/web"), &DeleteParams::default()).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
    assert!(maps.get_opt(&key("a/other")).await.unwrap().is_none());
    let outside = maps.get_opt(&key("b/web")).await.unwrap_err();
    assert!(!outside.is_stale() && !outside.is_not_found(), "{outside}");
    assert!(started.elapsed().is_zero());
    maps.create(&labelled("a/web", "app=web")).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap_err().is_stale());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_entered_and_left_the_labels_unseen_never_appears() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().labels("app=web")).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    world.network.delay_watches(Duration::from_millis(100));
    let (was_seen, _looking) = looks_for_any(&world.client);
    maps.create(&labelled("a/m", "app=web")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    maps.patch(&key("a/m"), &label("other")).await.unwrap();
    for _ in 0..100 {
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    assert!(*was_seen.borrow(), "the cache had it for a while");
}

fn secret(key: &str, type_: &str) -> Secret {
    Secret { metadata: meta(key), type_: Some(type_.to_owned()), ..Secret::default() }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_answer_has_is_evaluated() {
    let world = World::new(|manager| manager.declare(kind::<Secret>().fields("type=example.com/a")).unwrap()).await;
    let secrets = world.client.objects::<Secret>();
    world.network.delay_watches(Duration::from_millis(100));
    let started = Instant::now();
    secrets.create(&secret("a/other", "example.com/b")).await.unwrap();
    assert!(secrets.get_opt(&key("a/other")).await.unwrap().is_none());
    assert!(started.elapsed().is_zero());
    secrets.create(&secret("a/s", "example.com/a")).await.unwrap();
    secrets.get(&key("a/s")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_name_is_evaluated_as_a_field() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().fields("metadata.name=m")).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    world.network.hold("watch=true");
    maps.create(&map("a/other", "1")).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
    maps.create(&map("a/m", "1")).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap_err().is_stale());
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_answer_does_not_have_is_waited_for_by_the_watermark() {
    let world = World::new(|manager| manager.declare(kind::<Pod>().fields("spec.nodeName=n")).unwrap()).await;
    let pods = world.client.objects::<Pod>();
    let pod = |name: &str, node: Option<&str>| -> Pod {
        let pod = json!({"metadata": {"name": name, "namespace": "a"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        serde_json::from_value(pod).unwrap()
    };
    pods.create(&pod("nowhere", None)).await.unwrap();
    assert!(pods.get_opt(&key("a/nowhere")).await.unwrap_err().is_stale(), "it may be on its way");
    // Something later, in the same stream.
    world.other.namespaced::<Pod>("a").create(&PostParams::default(), &pod("there", Some("n"))).await.unwrap();
    assert!(pods.get_opt(&key("a/nowhere")).await.unwrap().is_none());
    assert_eq!(names(&pods.list(&ListQuery::all()).await.unwrap()), ["there"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_namespace_delays_no_read() {
    let both = kind::<ConfigMap>().namespace("a").namespace("b");
    let world = World::new(|manager| manager.declare(both).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    let started = Instant::now();
    world.network.delay_watches(Duration::from_millis(10));
    for round in 0..10 {
        let created = maps.create(&map("a/m", "1")).await.unwrap();
        assert_eq!(value(&maps.get(&key("a/m")).await.unwrap()), "1");
        let updated = ConfigMap { data: map("a/m", "2").data, ..created };
        maps.update(&updated).await.unwrap();
        assert_eq!(value(&maps.get(&key("a/m")).await.unwrap()), "2");
        if round % 2 == 0 {
            maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
        } else {
            let delete = world.other.namespaced::<ConfigMap>("a");
            delete.delete("m", &DeleteParams::default()).await.unwrap();
            settle().await;
        }
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!(world.client.remembered_writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn deletions_are_waited_for_where_another_namespace_is_idle() {
    let both = kind::<ConfigMap>().namespace("a").namespace("b");
    let world = World::new(|manager| manager.declare(both).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    world.network.delay_watches(Duration::from_millis(100));
    // Never seen by the cache before it is deleted.
    maps.create(&map("a/m", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    for _ in 0..100 {
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    let held = ObjectMeta { finalizers: Some(vec!["example.com/a".to_owned()]), ..meta("b/m") };
    maps.create(&ConfigMap { metadata: held, ..ConfigMap::default() }).await.unwrap();
    maps.delete(&key("b/m"), &DeleteParams::default()).await.unwrap();
    assert!(maps.get(&key("b/m")).await.unwrap().meta().deletion_timestamp().is_some());
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch(&key("b/m"), &none).await.unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
}

/// In a cache with selectors, an object can be absent although its deletion is yet to come.
#[tokio::test(start_paused = true)]
async fn an_object_that_left_the_labels_and_came_back_before_it_was_deleted_never_appears() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().labels("app=web")).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&labelled("a/m", "app=web")).await.unwrap();
    maps.get(&key("a/m")).await.unwrap();
    world.network.delay_watches(Duration::from_millis(300));
    let others = world.other.namespaced::<ConfigMap>("a");
    others.patch("m", &PatchParams::default(), &label("other")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    others.patch("m", &PatchParams::default(), &label("web")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
    // The object is absent from the cache, and settled deletions are dropped.
    for number in 0..600 {
        maps.create(&labelled(&format!("b/{number}"), "app=other")).await.unwrap();
    }
    let (was_seen, _looking) = looks_for_any(&world.client);
    for _ in 0..500 {
        assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(*was_seen.borrow(), "it was back for a while");
}
