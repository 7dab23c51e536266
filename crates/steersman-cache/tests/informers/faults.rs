//! Objects that do not decode, and functions that panic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use steersman_cache::{Event, Index, StorageMode, StorageOptions, handler};
use steersman_client::ObjectMeta;
use steersman_wire::{ObjectError, ObjectFault};

use crate::common::script::{map_json, scripted};
use crate::common::*;

/// A ConfigMap whose value has to be one of two.
#[derive(Debug, Serialize, Deserialize)]
struct Strict {
    metadata: ObjectMeta,
    data: BTreeMap<String, Speed>,
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Speed {
    Fast,
    Slow,
}

#[tokio::test(start_paused = true)]
async fn one_object_of_a_thousand_that_does_not_decode_harms_only_its_own_readers() {
    for mode in [StorageMode::Encoded, StorageMode::Decoded] {
        let (informer, script) = scripted::<Strict>(stored(mode));
        let speed = |object: &Strict| vec![format!("{:?}", object.data["value"])];
        informer.add_index("speed", Index::function(speed)).unwrap();
        informer.start().unwrap();
        let (log, handle) = listen(&informer);
        until("it watches", || script.is_watched()).await;
        for number in 0..1_000 {
            let value = if number == 500 { "medium" } else { "fast" };
            script.added(&map_json(&format!("map-{number}"), 1_000 + number, value));
        }
        script.listed(5_000);
        assert!(handle.wait_for_sync(LONG).await.is_ok());
        assert_eq!(log.len(), 1_000);
        let lister = informer.lister();
        assert_eq!(lister.len(), 1_000, "it is not left out of lists");
        let status = &informer.status()[0];
        assert_eq!(status.object_errors, 1, "{mode:?}: it is reported once, without a read");
        let error = status.last_object_error.clone().unwrap();
        assert_eq!(error.key.as_deref(), Some("default/map-500"), "{mode:?}");
        assert!(error.to_string().contains("version 1500 of it is not a"), "{error}");
        assert!(!format!("{error:?}").contains("medium"), "what is in an object is not for logs: {error:?}");
        assert!(informer.metrics().storage.decode_errors_total > 0, "{mode:?}");
        let bad: Vec<_> = lister.list().into_iter().filter_map(|object| object.get().err()).collect();
        assert_eq!(bad.len(), 1);
        let error = bad[0].to_string();
        assert!(error.contains("ConfigMap default/map-500 at version 1500"), "{error}");
        assert!(!error.contains("medium"), "what is in an object is not for logs: {error}");
        assert_eq!(lister.by_index("speed", "Fast").unwrap().len(), 999);
        script.modified(&map_json("map-500", 5_001, "slow"));
        lister.wait_for_version("5001", LONG).await.unwrap();
        assert_eq!(lister.get("default", "map-500").unwrap().get().unwrap().data["value"], Speed::Slow);
        assert_eq!(names(&lister.by_index("speed", "Slow").unwrap()), ["map-500"]);
        assert_eq!(informer.status()[0].object_errors, 1);
        // An index that is added later has the same errors.
        script.added(&map_json("late", 5_002, "medium"));
        lister.wait_for_version("5002", LONG).await.unwrap();
        assert_eq!(informer.status()[0].object_errors, 2);
        informer.add_index("again", Index::function(speed)).unwrap();
        let expected = if mode == StorageMode::Decoded { 2 } else { 3 };
        assert_eq!(informer.status()[0].object_errors, expected, "{mode:?}: what came undecoded has been reported");
        // A deletion is not reported.
        script.deleted(&map_json("late", 5_003, "medium"));
        lister.wait_for_version("5003", LONG).await.unwrap();
        assert!(lister.get("default", "late").is_none());
        assert_eq!(informer.status()[0].object_errors, expected, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_transform_removes_is_not_kept_of_an_object_that_does_not_decode() {
    for mode in [StorageMode::Encoded, StorageMode::Decoded, StorageMode::Compressed] {
        let hide = |object: &mut Strict| _ = object.data.insert("value".to_owned(), Speed::Slow);
        let (informer, script) = scripted::<Strict>(stored(mode).transform(hide));
        informer.start().unwrap();
        let (log, _) = listen(&informer);
        until("it watches", || script.is_watched()).await;
        script.added(&map_json("new", 2, "secret"));
        script.added(&map_json("old", 3, "fast"));
        script.listed(4);
        informer.wait_for_sync(LONG).await.unwrap();
        script.modified(&map_json("old", 5, "secret"));
        script.bookmark(6);
        let lister = informer.lister();
        lister.wait_for_version("6", LONG).await.unwrap();
        assert_eq!(names(&lister.list()), ["old"], "{mode:?}");
        let old = lister.get("default", "old").unwrap();
        assert_eq!((old.meta().resource_version(), old.get().unwrap().data["value"]), ("3", Speed::Slow), "{mode:?}");
        let status = &informer.status()[0];
        let key = status.last_object_error.as_ref().unwrap().key.as_deref();
        assert_eq!((status.object_errors, key), (2, Some("default/old")), "{mode:?}");
        // Both are in the index once they are repaired.
        script.modified(&map_json("new", 7, "fast"));
        script.modified(&map_json("old", 8, "fast"));
        lister.wait_for_version("8", LONG).await.unwrap();
        assert_eq!(names(&lister.list()), ["new", "old"], "{mode:?}");
        settle().await;
        assert_eq!(log.take(), ["add old initial", "add new", "update old"], "{mode:?}");
    }
}

/// A ConfigMap whose own code panics.
#[derive(Debug)]
struct Touchy(serde_json::Value);

impl<'de> Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        assert_ne!(value["data"]["value"], "cannot be decoded", "this is the test");
        Ok(Self(value))
    }
}

impl Serialize for Touchy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert_ne!(self.0["data"]["value"], "cannot be encoded", "this is the test");
        self.0.serialize(serializer)
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_types_own_code_is_reported_and_the_informer_goes_on() {
    for (mode, transform) in [
        (StorageMode::Encoded, false),
        (StorageMode::Decoded, false),
        (StorageMode::Encoded, true),
        (StorageMode::Decoded, true),
    ] {
        let options: StorageOptions<Touchy> = stored(mode);
        let options = if transform { options.transform(|_| {}) } else { options };
        let (informer, script) = scripted::<Touchy>(options);
        informer.add_index("value", Index::path("data.value".parse().unwrap())).unwrap();
        informer.add_index("all", Index::function(|_: &Touchy| vec!["all".to_owned()])).unwrap();
        informer.start().unwrap();
        until("it watches", || script.is_watched()).await;
        // In a list and in a watch.
        script.added(&map_json("a", 2, "cannot be decoded"));
        script.listed(3);
        informer.wait_for_sync(LONG).await.unwrap();
        script.added(&map_json("b", 4, "cannot be decoded"));
        script.added(&map_json("c", 5, "cannot be encoded"));
        script.added(&map_json("d", 6, "good"));
        let lister = informer.lister();
        lister.wait_for_version("6", LONG).await.unwrap();
        let status = &informer.status()[0];
        let (expected, last) = if transform { (3, "default/c") } else { (2, "default/b") };
        let key = status.last_object_error.as_ref().unwrap().key.as_deref();
        assert_eq!((status.object_errors, key), (expected, Some(last)), "{mode:?} {transform}");
        assert_eq!(lister.len(), if transform { 1 } else { 4 }, "{mode:?} {transform}");
        assert_eq!(names(&lister.by_index("value", "good").unwrap()), ["d"]);
        assert!(lister.by_index("all", "all").unwrap().len() <= 2, "those that do not decode have no values");
        assert!(!informer.is_stopped());
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_read_are_reported_and_passed_over() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, "1"));
    let mut nameless = map_json("", 3, "");
    script.added(&nameless);
    script.listed(4);
    informer.wait_for_sync(LONG).await.unwrap();
    assert_eq!(informer.status()[0].object_errors, 1);
    nameless["metadata"]["name"] = serde_json::json!(7);
    script.added(&nameless);
    let broken = ObjectError { index: None, key: Some("default/a".to_owned()), fault: ObjectFault::TooDeep };
    script.send(Err(broken));
    script.added(&map_json("b", 6, ""));
    informer.lister().wait_for_version("6", LONG).await.unwrap();
    let status = &informer.status()[0];
    assert_eq!(status.object_errors, 3);
    assert_eq!(status.last_object_error.as_ref().unwrap().key.as_deref(), Some("default/a"));
    assert_eq!(names(&informer.lister().list()), ["a", "b"]);
    assert_eq!(value(&informer.lister().get("default", "a").unwrap()), "1", "it keeps its last state");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_index_function_leaves_the_object_without_values_in_that_index() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let values = |map: &ConfigMap| {
        let value = map.data.as_ref().unwrap()["value"].clone();
        assert_ne!(value, "bad", "this is the test");
        vec![value]
    };
    informer.add_index("value", Index::function(values)).unwrap();
    informer.add_index("name", Index::metadata(|meta| vec![meta.name().to_owned()])).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, "bad"));
    script.added(&map_json("b", 3, "good"));
    script.listed(4);
    informer.wait_for_sync(LONG).await.unwrap();
    script.modified(&map_json("b", 5, "bad"));
    script.added(&map_json("c", 6, "good"));
    let lister = informer.lister();
    lister.wait_for_version("6", LONG).await.unwrap();
    assert_eq!(names(&lister.list()), ["a", "b", "c"]);
    assert_eq!(lister.index_values("value").unwrap(), ["good"]);
    assert_eq!(names(&lister.by_index("value", "good").unwrap()), ["c"]);
    assert_eq!(names(&lister.by_index("name", "a").unwrap()), ["a"]);
    assert_eq!(informer.metrics().index_panics_total, 2);
    // The same for an index that is added later.
    informer.add_index("later", Index::metadata(|meta| panic!("this is the test of {}", meta.name()))).unwrap();
    assert_eq!(lister.index_values("later").unwrap(), Vec::<String>::new());
    assert_eq!(informer.metrics().index_panics_total, 5);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_transform_is_reported_and_its_object_passed_over() {
    let transform = |map: &mut ConfigMap| {
        let data = map.data.as_mut().unwrap();
        assert_ne!(data["value"], "bad", "this is the test");
        data.insert("value".to_owned(), "transformed".to_owned());
    };
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default().transform(transform));
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, "bad"));
    script.added(&map_json("b", 3, "good"));
    script.listed(4);
    informer.wait_for_sync(LONG).await.unwrap();
    assert_eq!(names(&informer.lister().list()), ["b"]);
    let error = informer.status()[0].last_object_error.clone().unwrap();
    assert_eq!(error.key.as_deref(), Some("default/a"));
    assert!(error.to_string().contains("transform panicked"), "{error}");
    script.modified(&map_json("a", 5, "good"));
    informer.lister().wait_for_version("5", LONG).await.unwrap();
    assert_eq!(value(&informer.lister().get("default", "a").unwrap()), "transformed");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_removes_the_object_anyway() {
    let transform = |map: &mut ConfigMap| assert_ne!(map.data.as_ref().unwrap()["value"], "bad", "this is the test");
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default().transform(transform));
    informer.start().unwrap();
    let log: Log<(String, String)> = Log::new();
    let received = log.clone();
    let note = handler(move |event: &Event<ConfigMap>| {
        received.push((describe(event), event.object().meta().resource_version().to_owned()));
    });
    informer.add_event_handler(note).unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(1);
    informer.wait_for_sync(LONG).await.unwrap();
    // In one batch, so that none is in the cache when the last one arrives.
    script.added(&map_json("a", 2, "1"));
    script.added(&map_json("b", 3, "1"));
    script.modified(&map_json("a", 4, "2"));
    script.modified(&map_json("a", 5, "bad"));
    script.deleted(&map_json("a", 6, "bad"));
    script.deleted(&map_json("unknown", 7, "bad"));
    until("it is gone", || informer.lister().len() == 1 && informer.status()[0].object_errors == 3).await;
    let lister = informer.lister();
    assert_eq!(lister.resource_version(), "4", "the skipped version is not reached");
    script.modified(&map_json("b", 8, "2"));
    lister.wait_for_version("8", LONG).await.unwrap();
    settle().await;
    let expected = [("add a", "2"), ("update a", "4"), ("add b", "3"), ("delete a unknown", "4"), ("update b", "8")];
    assert_eq!(log.take(), expected.map(|(words, version)| (words.to_owned(), version.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn an_index_function_may_read_the_cache() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let lister = Arc::new(informer.lister());
    let how_many = move |_: &ConfigMap| vec![lister.len().to_string()];
    informer.add_index("before", Index::function(how_many.clone())).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(1);
    for (name, version) in [("a", 2), ("b", 3)] {
        script.added(&map_json(name, version, ""));
        informer.lister().wait_for_version(&version.to_string(), LONG).await.unwrap();
    }
    informer.add_index("now", Index::function(how_many)).unwrap();
    let lister = informer.lister();
    assert_eq!(names(&lister.by_index("before", "1").unwrap()), ["b"]);
    assert_eq!(names(&lister.by_index("now", "2").unwrap()), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_function_holds_up_neither_reads_nor_events() {
    let limit = Duration::from_secs(20);
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.added(&map_json("a", 2, "old"));
    script.listed(3);
    informer.wait_for_sync(limit).await.unwrap();
    let (entered, mut running) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    // The first call blocks.
    let gate = Mutex::new(Some(released));
    let values = move |map: &ConfigMap| {
        let first = gate.lock().unwrap().take();
        if let Some(released) = first {
            entered.send(()).unwrap();
            released.recv_timeout(3 * limit).unwrap();
        }
        vec![map.data.as_ref().unwrap()["value"].clone()]
    };
    let adding = informer.clone();
    let added = tokio::task::spawn_blocking(move || adding.add_index("value", Index::function(values)));
    running.recv().await.unwrap();
    script.modified(&map_json("a", 4, "new"));
    script.added(&map_json("b", 5, "new"));
    let lister = informer.lister();
    lister.wait_for_version("5", limit).await.expect("events come while the function runs");
    assert_eq!(value(&lister.get("default", "a").unwrap()), "new");
    release.send(()).unwrap();
    added.await.unwrap().unwrap();
    assert_eq!(names(&lister.by_index("value", "new").unwrap()), ["a", "b"]);
    assert!(lister.by_index("value", "old").unwrap().is_empty());
    assert_eq!(informer.metrics().index_panics_total, 0);
}
