//! Event handlers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{
    Cached, Event, EventHandler, FilteringHandler, HandlerHandle, Index, Informer, StorageOptions, handler,
};
use steersman_testing::Embedded;

use crate::common::script::{map_json, map_json_in, scripted};
use crate::common::*;

/// Records values too.
struct Values(Log<String>);

impl EventHandler<ConfigMap> for Values {
    fn on_add(&mut self, object: &Cached<ConfigMap>, initial: bool) {
        self.0.push(format!("add {} {initial}", value(object)));
    }

    fn on_update(&mut self, old: &Cached<ConfigMap>, new: &Cached<ConfigMap>) {
        self.0.push(format!("update {} to {}", value(old), value(new)));
    }

    fn on_delete(&mut self, object: &Cached<ConfigMap>, final_state_unknown: bool) {
        self.0.push(format!("delete {} {final_state_unknown}", value(object)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_adds_updates_and_deletes_with_old_and_new() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    maps.create("a", "0").await;
    let (informer, _factory, _) = maps_informer(&server).await;
    let log = Log::new();
    informer.add_event_handler(Values(log.clone())).unwrap();
    settle().await;
    maps.set("a", "1").await;
    settle().await;
    maps.create("b", "2").await;
    settle().await;
    maps.delete("a").await;
    settle().await;
    assert_eq!(log.take(), ["add 0 true", "update 0 to 1", "add 2 false", "delete 1 false"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_there_from_the_start_is_marked_initial_for_early_handlers_too() {
    let server = Embedded::empty();
    let (factory, client) = factory(&server);
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    let informer = factory.informer::<ConfigMap>(Default::default()).unwrap();
    let (log, handle) = listen(&informer);
    factory.start().unwrap();
    assert!(handle.wait_for_sync(LONG).await.is_ok());
    maps.create("b", "").await;
    settle().await;
    assert_eq!(log.take(), ["add a initial", "add b"]);
}

#[tokio::test]
async fn each_handler_has_a_buffer_of_its_own_whose_length_can_be_seen() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let slow_log = Log::new();
    let log = slow_log.clone();
    // On a thread of its own, because it blocks.
    let slow_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let slow = {
        let _in_runtime = slow_runtime.enter();
        let slow = handler(move |event: &Event<ConfigMap>| {
            wait.recv().unwrap();
            log.push(describe(event));
        });
        informer.add_event_handler(slow).unwrap()
    };
    let (quick_log, quick) = listen(&informer);
    until("it watches", || script.is_watched()).await;
    script.listed(1);
    for number in 0..100 {
        script.added(&map_json(&format!("map-{number}"), 10 + number, ""));
    }
    until("the quick handler has received every event", || quick_log.len() == 100).await;
    assert_eq!((slow.pending(), slow_log.len()), (100, 0));
    assert_eq!(informer.metrics().events_pending, slow.pending() + quick.pending());
    for _ in 0..100 {
        go.send(()).unwrap();
    }
    until("the slow handler has received every event", || slow.pending() == 0).await;
    assert_eq!(slow_log.all(), quick_log.all());
    slow_runtime.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn a_resync_comes_at_most_once_a_second() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let version = Maps::new(&client).create("a", "").await;
    informer.lister().wait_for_version(&version, LONG).await.unwrap();
    let log = Log::new();
    let handle = informer.add_event_handler_with_resync(recording(&log), Duration::ZERO).unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(log.take(), ["add a initial", "again a", "again a"]);
    // None after its removal, while another handler continues.
    let other = Log::new();
    informer.add_event_handler_with_resync(recording(&other), Duration::from_secs(1)).unwrap();
    handle.remove();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(log.take(), Vec::<String>::new());
    assert_eq!(other.take(), ["add a initial", "again a", "again a"]);
    // `Duration::MAX` does not panic.
    informer.add_event_handler_with_resync(recording(&other), Duration::MAX).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_not_through_with_a_resync_is_spared_the_next() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, _factory, _) = maps_informer(&server).await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let log = Log::new();
    let received = log.clone();
    let slow = handler(move |event: &Event<ConfigMap>| {
        wait.recv().unwrap();
        received.push(describe(event));
    });
    // On a thread of its own, because it blocks.
    let slow_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = {
        let _in_runtime = slow_runtime.enter();
        informer.add_event_handler_with_resync(slow, Duration::from_secs(1)).unwrap()
    };
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert_eq!(handle.pending(), 2, "the object, and once more");
    assert_eq!(informer.metrics().resyncs_skipped_total, 9);
    (0..2).for_each(|_| go.send(()).unwrap());
    until_in_real_time("the other thread has received both", || handle.pending() == 0).await;
    until("it receives the object again", || {
        let _ = go.send(());
        log.len() > 2
    })
    .await;
    assert_eq!(log.all()[..3], ["add a initial", "again a", "again a"]);
    slow_runtime.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_handle_that_does_not_sync_names_what_is_missing() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    let (_, handle) = listen(&informer);
    let error = handle.wait_for_sync(Duration::from_secs(5)).await.unwrap_err();
    let expected = "a handler of things has not received all initial objects after 5s: the cache has not synced";
    assert_eq!(error.to_string(), expected);
    script.added(&map_json("a", 2, ""));
    script.listed(3);
    handle.wait_for_sync(LONG).await.unwrap();
    let late = informer.add_event_handler(recording(&Log::new())).unwrap();
    let error = late.wait_for_sync(Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.ends_with("events pending: 1"), "{error}");
    let removed = informer.add_event_handler(recording(&Log::new())).unwrap();
    removed.remove();
    let error = removed.wait_for_sync(LONG).await.unwrap_err().to_string();
    assert!(error.ends_with("it was removed, or its informer stopped"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn updates_with_equal_versions_go_only_to_those_who_resync() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    let (plain, _) = listen(&informer);
    let resyncing = Log::new();
    informer.add_event_handler_with_resync(recording(&resyncing), LONG).unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(1);
    script.added(&map_json("a", 2, ""));
    script.modified(&map_json("a", 2, ""));
    script.modified(&map_json("a", 3, ""));
    settle().await;
    assert_eq!(plain.take(), ["add a", "update a"]);
    assert_eq!(resyncing.take(), ["add a", "again a", "update a"]);
    // Without versions, repetitions cannot be detected, so every handler receives them.
    let mut unversioned = map_json("b", 0, "");
    unversioned["metadata"]["resourceVersion"] = serde_json::Value::Null;
    script.added(&unversioned);
    script.modified(&unversioned);
    settle().await;
    assert_eq!(plain.take(), ["add b", "update b"]);
}

#[tokio::test(start_paused = true)]
async fn a_handle_has_synced_when_its_initial_objects_were_delivered_and_not_before() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let log = Log::new();
    let received = log.clone();
    let handle =
        informer.add_event_handler(handler(move |event: &Event<ConfigMap>| received.push(describe(event)))).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, ""));
    settle().await;
    assert!(!handle.has_synced() && !informer.has_synced());
    script.listed(3);
    informer.wait_for_sync(LONG).await.unwrap();
    assert!(handle.wait_for_sync(LONG).await.is_ok() && handle.has_synced());
    assert_eq!(log.take(), ["add a initial"]);
    // A late handler has received nothing before its task runs.
    let (log, late) = listen(&informer);
    assert!(!late.has_synced() && late.pending() == 1);
    assert!(late.wait_for_sync(LONG).await.is_ok());
    assert_eq!(log.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_removed_once_and_the_removal_can_be_waited_for() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let (log, handle) = listen(&informer);
    let (other, _) = listen(&informer);
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    settle().await;
    handle.remove();
    handle.remove();
    handle.remove_and_wait().await.unwrap();
    handle.clone().remove_and_wait().await.unwrap();
    maps.create("b", "").await;
    settle().await;
    assert_eq!((log.take(), handle.pending()), (vec!["add a".to_owned()], 0));
    assert_eq!(other.take(), ["add a", "add b"]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_gets_no_events_that_were_sent_before() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, _factory, _) = maps_informer(&server).await;
    let (log, handle) = listen(&informer);
    assert_eq!(handle.pending(), 1);
    handle.remove_and_wait().await.unwrap();
    assert!(log.take().is_empty() && handle.wait_for_sync(LONG).await.is_err());
    assert_eq!(informer.metrics().events_pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_handler_is_contained_and_counted() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let log = Log::new();
    let received = log.clone();
    let handle = informer.add_event_handler(handler(move |event: &Event<ConfigMap>| {
        assert_ne!(event.object().meta().name(), "bad", "this is the test");
        received.push(describe(event));
    }));
    let handle = handle.unwrap();
    let (other, _) = listen(&informer);
    let maps = Maps::new(&client);
    for name in ["a", "bad", "b"] {
        maps.create(name, "").await;
    }
    settle().await;
    assert_eq!(log.take(), ["add a", "add b"]);
    assert_eq!((handle.panics(), handle.pending()), (1, 0));
    assert_eq!(other.take(), ["add a", "add bad", "add b"]);
}

#[tokio::test(start_paused = true)]
async fn leaving_the_filter_is_a_delete_and_entering_it_an_add() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let log = Log::new();
    let filter = |object: &Cached<ConfigMap>| object.meta().label("app").is_some();
    informer.add_event_handler(FilteringHandler { filter, handler: recording(&log) }).unwrap();
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    for label in [Some("web"), Some("db"), None] {
        maps.label("a", label).await;
        settle().await;
    }
    maps.delete("a").await;
    settle().await;
    assert_eq!(log.take(), ["add a", "update a", "delete a"]);
}

/// Calls its informer from a handler.
struct Busy {
    informer: Informer<ConfigMap>,
    own: Log<HandlerHandle>,
    log: Log<String>,
}

impl EventHandler<ConfigMap> for Busy {
    fn on_add(&mut self, object: &Cached<ConfigMap>, _: bool) {
        self.informer.add_index("value", Index::path("data.value".parse().unwrap())).unwrap();
        let found = self.informer.lister().by_index("value", &value(object)).unwrap();
        self.log.push(format!("found {:?}", names(&found)));
        self.informer.add_event_handler(recording(&self.log)).unwrap();
        self.informer.metrics();
        self.own.all()[0].remove();
    }

    fn on_update(&mut self, _: &Cached<ConfigMap>, _: &Cached<ConfigMap>) {}

    fn on_delete(&mut self, _: &Cached<ConfigMap>, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_use_its_informer() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let (own, log) = (Log::new(), Log::new());
    let busy = Busy { informer: informer.clone(), own: own.clone(), log: log.clone() };
    own.push(informer.add_event_handler(busy).unwrap());
    let maps = Maps::new(&client);
    maps.create("a", "1").await;
    settle().await;
    maps.create("b", "2").await;
    settle().await;
    assert_eq!(log.take(), [r#"found ["a"]"#, "add a initial", "add b"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_two_namespaces_has_synced_when_both_are_listed() {
    let (one, two) = (crate::common::script::Script::new(), crate::common::script::Script::new());
    let sources = vec![(Some("one".to_owned()), one.clone()), (Some("two".to_owned()), two.clone())];
    let informer = crate::common::script::scripted_in::<ConfigMap>(sources, StorageOptions::default());
    informer.start().unwrap();
    let (log, handle) = listen(&informer);
    until("they watch", || one.is_watched() && two.is_watched()).await;
    two.added(&map_json_in("two", "b", 7, ""));
    two.listed(8);
    settle().await;
    assert!(!handle.has_synced() && !informer.has_synced());
    assert_eq!(informer.lister().resource_version(), "", "of the other nothing is known yet");
    one.added(&map_json_in("one", "a", 5, ""));
    one.listed(6);
    assert!(handle.wait_for_sync(LONG).await.is_ok() && informer.has_synced());
    assert_eq!(log.take(), ["add b initial", "add a initial"]);
    assert_eq!(informer.lister().resource_version(), "6");
    one.bookmark(20);
    settle().await;
    assert_eq!(informer.lister().resource_version(), "8");
    two.bookmark(19);
    settle().await;
    assert_eq!(informer.lister().resource_version(), "19");
}
