//! Objects that are deleted, at once or later, and what is remembered of them.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::{DeleteParams, Deleted, Patch, Preconditions};
use steersman_runtime::{ListQuery, kind, metadata};
use steersman_testing::Fault;

use crate::with_client::{World, key, looks_for_any, map, names, settle, value};

async fn world() -> World {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>()).unwrap()).await;
    world.network.delay_watches(Duration::from_millis(100));
    world
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_at_once_is_not_seen_any_more() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    world.client.create(&map("a/m", "1")).await.unwrap();
    maps.get(&key("a/m")).await.unwrap();
    world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    assert_eq!(
        world.client.stale_ok().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().len(),
        1,
        "the cache has it still"
    );
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
    assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_before_the_cache_had_it_never_appears() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    let (was_seen, _looking) = looks_for_any(&world.client);
    world.client.create(&map("a/m", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    for _ in 0..100 {
        assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    assert!(*was_seen.borrow(), "the cache had it for a while");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_made_and_deleted_unseen_is_not_waited_for() {
    let world = world().await;
    world.network.hold("watch=true");
    world.client.create(&map("a/m", "1")).await.unwrap();
    world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    assert!(world.client.objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_again_is_the_new_one() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    for value_now in ["1", "2", "3"] {
        let created = world.client.create(&map("a/m", value_now)).await.unwrap();
        let read = maps.get(&key("a/m")).await.unwrap();
        assert_eq!((value(&read), read.meta().uid()), (value_now.to_owned(), created.metadata.uid.as_deref().unwrap()));
        world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_finalizer_holds_is_read_as_it_is_on_its_way_out() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    let mut held = map("a/m", "1");
    held.metadata.finalizers = Some(vec!["example.com/a".to_owned(), "example.com/b".to_owned()]);
    maps.create(&held).await.unwrap();
    let answer = maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    assert!(matches!(answer, Deleted::Object(_)));
    assert!(maps.get(&key("a/m")).await.unwrap().meta().deletion_timestamp().is_some());

    let finalizers = |names: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    maps.patch(&key("a/m"), &finalizers(&["example.com/b"])).await.unwrap();
    assert_eq!(maps.get(&key("a/m")).await.unwrap().meta().finalizers().collect::<Vec<_>>(), ["example.com/b"]);
    // The response is the object with an old version, although it is deleted.
    maps.patch(&key("a/m"), &finalizers(&[])).await.unwrap();
    assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
}

/// The cache knows the uid of the object before the request is sent.
#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_deletion_whose_response_has_no_uid() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&map("a/m", "1")).await.unwrap();
    let uid = maps.get(&key("a/m")).await.unwrap().meta().uid().to_owned();
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    world.network.fail("DELETE ", Fault::Body(success));
    maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    let error = maps.get(&key("a/m")).await.unwrap_err();
    assert!(error.is_stale() && error.to_string().contains(&uid), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_server_refuses_promises_nothing() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&map("a/m", "1")).await.unwrap();
    maps.get(&key("a/m")).await.unwrap();
    let preconditions = Some(Preconditions { uid: Some("another".to_owned()), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    assert!(maps.delete(&key("a/m"), &params).await.unwrap_err().is_conflict());
    assert_eq!(value(&maps.get(&key("a/m")).await.unwrap()), "1");
    assert!(maps.delete(&key("a/other"), &DeleteParams::default()).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn what_all_caches_have_seen_is_forgotten() {
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
    })
    .await;
    let maps = world.client.objects::<ConfigMap>();
    for number in 0..2_000 {
        let name = format!("a/{number}");
        maps.create(&map(&name, "1")).await.unwrap();
        if number % 2 == 0 {
            maps.get(&key(&name)).await.unwrap();
            maps.delete(&key(&name), &DeleteParams::default()).await.unwrap();
        }
        if number % 100 == 0 {
            settle().await;
        }
        assert!(world.client.remembered_writes() <= 2 * 256 + 2 * 100, "{}", world.client.remembered_writes());
    }
    assert_eq!(maps.list(&ListQuery::all()).await.unwrap().len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_has_not_seen_is_not_forgotten() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&map("a/deleted", "1")).await.unwrap();
    maps.get(&key("a/deleted")).await.unwrap();
    world.network.hold("watch=true");
    maps.delete(&key("a/deleted"), &DeleteParams::default()).await.unwrap();
    // Longer than deletions are remembered that no cache shows.
    tokio::time::sleep(Duration::from_secs(400)).await;
    for number in 0..1_000 {
        maps.create(&map(&format!("a/{number}"), "1")).await.unwrap();
    }
    assert_eq!(world.client.remembered_writes(), 1_001);
    assert!(maps.get(&key("a/deleted")).await.unwrap_err().is_stale());
    assert!(maps.get(&key("a/0")).await.unwrap_err().is_stale());
    world.network.delay_watches(Duration::ZERO);
    world.network.release();
    assert_eq!(maps.list(&ListQuery::all()).await.unwrap().len(), 1_000);
    let names = names(&maps.list(&ListQuery::all()).await.unwrap());
    assert!(!names.contains(&"deleted".to_owned()));
}

/// With any number of deletions, and however often settled ones are dropped.
#[tokio::test(start_paused = true)]
async fn objects_that_were_made_and_deleted_unseen_never_appear() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    let (was_seen, _looking) = looks_for_any(&world.client);
    world.network.hold("watch=true");
    for number in 0..1_500 {
        let name = format!("a/{number}");
        maps.create(&map(&name, "1")).await.unwrap();
        maps.delete(&key(&name), &DeleteParams::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
    assert_eq!(world.client.remembered_writes(), 1_500, "the cache has passed none of them");
    world.network.delay_watches(Duration::from_secs(2));
    world.network.release();
    for _ in 0..400 {
        assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    assert!(*was_seen.borrow(), "the cache had some for a while");
    // The cache has passed all of them.
    for number in 0..3_000 {
        maps.create(&map(&format!("b/{number}"), "1")).await.unwrap();
        maps.get(&key(&format!("b/{number}"))).await.unwrap();
    }
    assert!(world.client.remembered_writes() <= 512, "{}", world.client.remembered_writes());
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_for_many_deletions_that_come_one_by_one() {
    let world = world().await;
    let maps = world.client.objects::<ConfigMap>();
    for number in 0..40 {
        world.client.create(&map(&format!("a/m{number:02}"), "1")).await.unwrap();
    }
    let there = maps.list(&ListQuery::all()).await.unwrap();
    assert_eq!(there.len(), 40);
    // In the order of the list, so that each wait ends with one deletion.
    for map in &there {
        world.client.delete::<ConfigMap>(&map.key()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(maps.list(&ListQuery::all()).await.unwrap().is_empty());
}
