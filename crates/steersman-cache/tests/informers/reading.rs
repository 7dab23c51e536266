//! Listers, indexes, subscriptions, and waiting for a version.

use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{Error, Index, NAMESPACE_INDEX, ObjectKey, StorageOptions};
use steersman_testing::Embedded;
use steersman_wire::LabelSelector;

use crate::common::script::{map_json, scripted};
use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_lister_finds_by_namespace_key_index_and_selector() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    create_namespace(&client, "shop").await;
    let (here, shop) = (Maps::new(&client), Maps::of(&client, "shop"));
    here.create("a", "1").await;
    shop.create("a", "2").await;
    shop.create("b", "1").await;
    let version = shop.label("a", Some("web")).await;
    let lister = informer.lister();
    lister.wait_for_version(&version, LONG).await.unwrap();

    assert_eq!((lister.len(), lister.is_empty()), (3, false));
    assert_eq!(value(&lister.get("shop", "a").unwrap()), "2");
    assert_eq!(value(&lister.get_by_key(&ObjectKey::new("default", "a")).unwrap()), "1");
    assert!(lister.get("default", "b").is_none());
    let mut keys = lister.keys();
    keys.sort();
    assert_eq!(keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["default/a", "shop/a", "shop/b"]);
    assert_eq!(lister.index_names(), [NAMESPACE_INDEX]);
    assert_eq!(names(&lister.namespace("shop")), ["a", "b"]);
    assert_eq!(names(&lister.by_index(NAMESPACE_INDEX, "default").unwrap()), ["a"]);
    let web = LabelSelector::parse("app=web").unwrap();
    assert_eq!(names(&lister.select(None, &web)), ["a"]);
    assert!(lister.select(Some("default"), &web).is_empty());
    assert_eq!(names(&lister.select_by_index(NAMESPACE_INDEX, "shop", &web).unwrap()), ["a"]);
    let error = lister.by_index("value", "1").unwrap_err().to_string();
    assert!(error.contains("add_index") && error.contains("namespace"), "{error}");
}

#[test]
fn a_condition_that_is_waited_for_may_use_its_informer() {
    let (done, is_done) = std::sync::mpsc::channel();
    // On a thread of its own, because a failure would hang.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let reached = runtime.block_on(async {
            let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
            informer.start().unwrap();
            until("it watches", || script.is_watched()).await;
            script.listed(1);
            script.added(&map_json("a", 2, ""));
            let condition = || {
                // Its stop wakes all waits.
                let was_stopped = || {
                    let was_stopped = informer.is_stopped();
                    let _ = informer.stop().now_or_never();
                    was_stopped
                };
                informer.has_synced() && informer.lister().len() == 1 && was_stopped()
            };
            informer.lister().wait_until(LONG, condition).await
        });
        done.send(reached).unwrap();
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true), "the condition waits for who asks it");
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_added_later_finds_what_is_there_and_what_comes() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "1").await;
    let (informer, _factory, client) = maps_informer(&server).await;
    informer.add_index("path", Index::path("data.value".parse().unwrap())).unwrap();
    let values = |map: &ConfigMap| map.data.iter().flat_map(|data| data.values().cloned()).collect();
    informer.add_index("function", Index::function(values)).unwrap();
    let version = Maps::new(&client).create("b", "1").await;
    let lister = informer.lister();
    lister.wait_for_version(&version, LONG).await.unwrap();
    for index in ["path", "function"] {
        assert_eq!(names(&lister.by_index(index, "1").unwrap()), ["a", "b"]);
        assert_eq!(lister.index_values(index).unwrap(), ["1"]);
        assert_eq!(lister.index_keys(index, "1").unwrap().len(), 2);
    }
    Maps::new(&client).set("a", "2").await;
    settle().await;
    for index in ["path", "function"] {
        assert_eq!(names(&lister.by_index(index, "1").unwrap()), ["b"]);
        assert_eq!(names(&lister.by_index(index, "2").unwrap()), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_gets_the_newest_set_and_never_a_backlog() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let mut subscription = informer.subscribe();
    assert!(subscription.changed().await.unwrap().is_empty());
    let maps = Maps::new(&client);
    for name in ["a", "b", "c"] {
        maps.create(name, "").await;
        settle().await;
    }
    assert_eq!(names(&subscription.changed().await.unwrap()), ["a", "b", "c"]);
    let nothing = tokio::time::timeout(Duration::from_secs(30), subscription.changed()).await;
    assert!(nothing.is_err(), "nothing has changed since");
    maps.delete("b").await;
    assert_eq!(names(&subscription.changed().await.unwrap()), ["a", "c"]);
    maps.delete("a").await;
    settle().await;
    informer.stop().await.unwrap();
    assert_eq!(names(&subscription.changed().await.unwrap()), ["c"], "the last set is given before the end");
    assert!(subscription.changed().await.is_none());
    assert!(subscription.changed().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_is_not_woken_by_bookmarks_nor_by_what_is_the_same() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    let mut subscription = informer.subscribe();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, ""));
    script.listed(3);
    assert_eq!(subscription.changed().await.unwrap().len(), 1);
    script.modified(&map_json("a", 2, ""));
    script.bookmark(10);
    informer.lister().wait_for_version("10", LONG).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(30), subscription.changed()).await;
    assert!(woken.is_err());
    script.modified(&map_json("a", 11, ""));
    assert!(subscription.changed().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_version_that_fails_names_the_version() {
    let (informer, _factory, client) = maps_informer(&Embedded::empty()).await;
    let lister = informer.lister();
    let version = Maps::new(&client).create("a", "").await;
    lister.wait_for_version(&version, Duration::from_secs(1)).await.unwrap();
    let reached = lister.resource_version();
    let error = lister.wait_for_version("1000000", Duration::from_secs(2)).await.unwrap_err();
    let text =
        format!("the cache of /api/v1/configmaps has not reached version 1000000 within 2s; it is at {reached:?}");
    assert_eq!(error.to_string(), text);
    // A version without an order is an error at once.
    let started = tokio::time::Instant::now();
    for version in ["", "abc", "0"] {
        let error = lister.wait_for_version(version, LONG).await.unwrap_err();
        assert!(matches!(&error, Error::IncomparableVersion { .. }), "{error}");
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}
