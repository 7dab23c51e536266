//! Decodings and states in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use steersman_cache::{Cached, Event, FilteringHandler, Index, StorageMode, StorageOptions, handler};
use steersman_testing::Embedded;
use steersman_wire::{LabelSelector, WatchEvent};

use crate::common::script::{map_json, scripted};
use crate::common::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_decoded_for_50_000_events_with_metadata_paths_and_selectors() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.add_index("value", Index::path("data.value".parse().unwrap())).unwrap();
    informer.add_index("app", Index::label("app")).unwrap();
    informer.add_index("uid", Index::metadata(|meta| vec![meta.uid().to_owned()])).unwrap();
    let log = Log::new();
    let predicate = |object: &Cached<ConfigMap>| object.meta().label("app") == Some("web");
    informer.add_event_handler(FilteringHandler { filter: predicate, handler: recording(&log) }).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    // As text, because building the JSON values would take most of the time.
    let labelled = |number: u64, version: u64| {
        let (name, value) = (number % 1_000, version % 10);
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"map-{name}","namespace":"default","uid":"{name}","#
        ) + &format!(r#""resourceVersion":"{version}","labels":{{"app":"web"}}}},"data":{{"value":"{value}"}}}}"#)
    };
    for number in 0..1_000 {
        script.send(Ok(WatchEvent::Added(bytes::Bytes::from(labelled(number, 1 + number)).into())));
    }
    script.listed(2_000);
    informer.wait_for_sync(LONG).await.unwrap();
    for number in 0..50_000 {
        script.send(Ok(WatchEvent::Modified(bytes::Bytes::from(labelled(number, 10_000 + number)).into())));
    }
    let lister = informer.lister();
    lister.wait_for_version("59999", LONG).await.unwrap();
    settle().await;
    assert_eq!(log.len(), 51_000);
    assert_eq!(lister.select(None, &LabelSelector::parse("app=web").unwrap()).len(), 1_000);
    assert_eq!(lister.by_index("value", "3").unwrap().len(), 100);
    assert_eq!(informer.metrics().storage.decodes_total, 0);
    // The metric does change.
    lister.get("default", "map-1").unwrap().get().unwrap();
    assert_eq!(informer.metrics().storage.decodes_total, 1);
}

/// Number of live objects.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// An object that counts its live instances.
#[derive(Serialize)]
struct Counted(serde_json::Value);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        LIVE.fetch_add(1, Ordering::Relaxed);
        Ok(Self(value))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn updates_of_the_same_objects_leave_nothing_behind() {
    let (informer, script) = scripted::<Counted>(stored(StorageMode::Decoded));
    informer.add_index("value", Index::path("data.value".parse().unwrap())).unwrap();
    informer.add_event_handler(handler(|_: &Event<Counted>| {})).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    for number in 0..1_000 {
        script.added(&map_json(&format!("map-{number}"), 1 + number, ""));
    }
    script.listed(2_000);
    informer.wait_for_sync(LONG).await.unwrap();
    for round in 1..=10 {
        for number in 0..1_000 {
            let version = round * 10_000 + number;
            script.modified(&map_json(&format!("map-{number}"), version, &format!("{version}")));
        }
        informer.lister().wait_for_version(&format!("{}", round * 10_000 + 999), LONG).await.unwrap();
        settle().await;
        assert_eq!(LIVE.load(Ordering::Relaxed), 1_000, "in round {round}");
        assert_eq!(informer.lister().index_values("value").unwrap().len(), 1_000);
        let metrics = informer.metrics();
        assert_eq!((metrics.objects, metrics.deltas_pending, metrics.events_pending), (1_000, 0, 0));
    }
    for number in 0..1_000 {
        script.deleted(&map_json(&format!("map-{number}"), 200_000 + number, ""));
    }
    informer.lister().wait_for_version("200999", LONG).await.unwrap();
    settle().await;
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_does_not_pile_up_in_memory() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, held) = (Arc::clone(&most), informer.clone());
    let count = move |_: &Event<ConfigMap>| {
        seen.fetch_max(held.metrics().storage.objects, Ordering::Relaxed);
    };
    informer.add_event_handler(handler(count)).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    for number in 0..100 {
        script.added(&map_json(&format!("map-{number}"), 1 + number, ""));
    }
    script.listed(2_000);
    informer.wait_for_sync(LONG).await.unwrap();
    for number in 0..10_000 {
        script.modified(&map_json(&format!("map-{}", number % 100), 10_000 + number, ""));
    }
    informer.lister().wait_for_version("19999", LONG).await.unwrap();
    settle().await;
    let most = most.load(Ordering::Relaxed);
    assert!((100..2_000).contains(&most), "{most} states were held at a time");
}

#[tokio::test(start_paused = true)]
async fn a_list_after_a_cut_shares_the_states_that_are_the_same() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    for number in 0..50 {
        maps.create(&format!("map-{number}"), "").await;
    }
    let (network, client) = faulty_network(&server);
    let factory = steersman_cache::SharedInformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>(Default::default()).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    let decodes = |informer: &steersman_cache::Informer<ConfigMap>| informer.metrics().storage.decodes_total;
    let held: Vec<_> = informer.lister().list().iter().map(|object| object.get().unwrap()).collect();
    assert_eq!(decodes(&informer), 50);

    network.fail("/configmaps", Fault::Refused);
    network.cut();
    settle().await;
    let version = maps.set("map-7", "new").await;
    server.compact();
    network.mend();
    informer.lister().wait_for_version(&version, LONG).await.unwrap();
    assert!(informer.status()[0].lists >= 2);
    // An unchanged state returns the decoded object that is held; another state would decode again.
    for object in &informer.lister().list() {
        object.get().unwrap();
    }
    assert_eq!(decodes(&informer), 51, "only the one that has changed is another state");
    assert_eq!(held.len(), 50);
}
