//! The sources of keys, and which keys they filter out.

use std::time::Duration;

use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_client::{Api, Client, DeleteParams, Patch, PatchParams, PostParams};
use steersman_runtime::predicate::{
    Change, ChangeKind, GenerationChanged, LabelsMatch, Predicate, ResourceVersionChanged,
};
use steersman_runtime::{Cached, Error, Event, Index, ObjectKey, StorageMode, StorageOptions, kind, metadata};

use crate::noting;
use crate::support::*;

fn secrets(client: &Client) -> Api<Secret> {
    client.namespaced("default")
}

async fn create_secret(client: &Client, name: &str, of: &str) {
    let mut secret = Secret { metadata: named(name), ..Secret::default() };
    secret.metadata.labels = Some([("of".to_owned(), of.to_owned())].into());
    secrets(client).create(&PostParams::default(), &secret).await.unwrap();
}

async fn move_secret(client: &Client, name: &str, of: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"of": of}}}));
    secrets(client).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// A Secret maps to the object that its label names.
fn by_label<K>(object: &Cached<K>) -> Vec<ObjectKey> {
    object.meta().label("of").map(key).into_iter().collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_map_function_is_asked_about_both_states_of_an_update() {
    let (manager, client) = manager();
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).watches(kind::<Secret>(), by_label).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s", "a").await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    move_secret(&client, "s", "b").await;
    settle().await;
    assert_eq!(sorted(log.take()), ["a", "b"]);
    secrets(&client).delete("s", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["b"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn metadata_are_watched_alone() {
    let (manager, client) = manager();
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).watches(metadata::<Secret>(), by_label).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s", "a").await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    let cached = manager.client().metadata::<Secret>().get(&key("s")).await.unwrap();
    assert_eq!(cached.meta().label("of"), Some("a"));
    let whole = manager.client().get::<Secret>(&key("s")).await.unwrap_err();
    assert!(whole.to_string().contains("kind::<Secret>()"), "whole Secrets are not kept: {whole}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_come_from_a_channel_past_all_predicates() {
    let (manager, client) = manager();
    let log = Log::new();
    let (mut keys, channel) = mpsc::channel(8);
    manager
        .controller(kind::<ConfigMap>())
        .channel(channel)
        .predicate(|_: &Change<'_>| false)
        .complete(noting(&log))
        .unwrap();
    // Before the controller runs.
    keys.try_send(key("early")).unwrap();
    let running = run(&manager).await;
    settle().await;
    assert_eq!(log.take(), ["early"], "and nothing that the predicate keeps out");
    keys.try_send(key("later")).unwrap();
    settle().await;
    assert_eq!(log.take(), ["later"]);
    drop(keys);
    settle().await;
    Maps::new(&client).create("a").await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_predicate_of_a_source_is_for_that_source_and_one_of_the_controller_for_all() {
    let (manager, client) = manager();
    let log = Log::new();
    let not_hidden = |change: &Change<'_>| change.object.annotation("hidden").is_none();
    let created = |change: &Change<'_>| change.kind == ChangeKind::Create;
    manager
        .controller(kind::<ConfigMap>().predicate(created))
        .watches(kind::<Secret>(), by_label)
        .predicate(not_hidden)
        .complete(noting(&log))
        .unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    let maps = Maps::new(&client);
    maps.create("a").await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    maps.set("a", "2").await;
    settle().await;
    assert_eq!(log.take(), [""; 0], "its own predicate wants creations only");
    create_secret(&client, "s", "b").await;
    settle().await;
    log.take();
    move_secret(&client, "s", "c").await;
    settle().await;
    assert_eq!(sorted(log.take()), ["b", "c"], "which is not asked about Secrets");
    let mut hidden = map("hidden", "1");
    hidden.metadata.annotations = Some([("hidden".to_owned(), "yes".to_owned())].into());
    maps.0.create(&PostParams::default(), &hidden).await.unwrap();
    let mut secret = Secret { metadata: hidden.metadata, ..Secret::default() };
    secret.metadata.labels = Some([("of".to_owned(), "d".to_owned())].into());
    secrets(&client).create(&PostParams::default(), &secret).await.unwrap();
    settle().await;
    assert_eq!(log.take(), [""; 0], "the controller's is asked about both");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_predicates_of_a_source_have_to_agree() {
    let (manager, client) = manager();
    let log = Log::new();
    let watched = kind::<ConfigMap>()
        .predicate(LabelsMatch::parse("app=web").unwrap())
        .predicate(GenerationChanged.not().or(ResourceVersionChanged));
    manager.controller(watched).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    let maps = Maps::new(&client);
    maps.create("a").await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    maps.patch("a", json!({"metadata": {"labels": {"app": "web"}}})).await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_filter_sees_the_objects() {
    let (manager, client) = manager();
    let log = Log::new();
    let value_is_2 = |event: &Event<ConfigMap>| {
        event.object().get().is_ok_and(|map| map.data.as_ref().is_some_and(|data| data["value"] == "2"))
    };
    manager.controller(kind::<ConfigMap>().namespace("default").filter(value_is_2)).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    let maps = Maps::new(&client);
    maps.create("a").await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    maps.set("a", "2").await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    maps.set("a", "3").await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_added_and_removed_while_the_manager_runs() {
    let (manager, client) = manager();
    create_secret(&client, "before", "a").await;
    let log = Log::new();
    let controller = manager.controller(kind::<ConfigMap>().namespace("default")).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    let watch = controller.watch(kind::<Secret>(), by_label).unwrap();
    assert!(watch.wait_for_sync(LONG).await.is_ok());
    settle().await;
    assert_eq!(log.take(), ["a"], "what is there already counts");
    create_secret(&client, "s", "b").await;
    settle().await;
    assert_eq!(log.take(), ["b"]);
    watch.remove_and_wait().await.unwrap();
    create_secret(&client, "t", "c").await;
    settle().await;
    assert_eq!(log.take(), [""; 0], "it was taken away");
    Maps::new(&client).create("d").await;
    settle().await;
    assert_eq!(log.take(), ["d"], "the others are not disturbed");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_controllers_share_one_cache_and_have_a_queue_each() {
    let (manager, client) = manager();
    let (one, two) = (Log::new(), Log::new());
    let slow = Duration::from_secs(100);
    let notes = one.clone();
    let reconciler =
        steersman_runtime::reconcile_fn(move |_: steersman_runtime::Context<ConfigMap>, key: ObjectKey| {
            notes.note(key.name());
            async move {
                tokio::time::sleep(slow).await;
                Ok::<_, steersman_runtime::ReconcileError>(steersman_runtime::Action::done())
            }
        });
    manager.controller(kind::<ConfigMap>().namespace("default")).named("one").complete(reconciler).unwrap();
    manager.controller(kind::<ConfigMap>().namespace("default")).named("two").complete(noting(&two)).unwrap();
    let running = run(&manager).await;
    assert_eq!(manager.status().len(), 1, "one cache");
    let maps = Maps::new(&client);
    for name in ["a", "b", "c"] {
        maps.create(name).await;
    }
    settle().await;
    assert_eq!((one.len(), two.len()), (1, 3), "one that is slow does not hold up the other");
    tokio::time::sleep(slow * 4).await;
    assert_eq!(sorted(one.take()), ["a", "b", "c"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_map_function_looks_into_a_cache() {
    let (manager, client) = manager();
    let secrets = |map: &ConfigMap| map.data.iter().flatten().map(|(_, secret)| secret.clone()).collect();
    let maps = kind::<ConfigMap>().namespace("default").index("secret", Index::function(secrets));
    let maps = manager.declare(maps).unwrap();
    let log = Log::new();
    let referring = move |secret: &Cached<Secret>| maps.index_keys("secret", secret.meta().name()).unwrap();
    manager.controller(kind::<ConfigMap>()).watches(kind::<Secret>(), referring).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    for (name, secret) in [("a", "s"), ("b", "t"), ("c", "s")] {
        Maps::new(&client).create(name).await;
        Maps::new(&client).set(name, secret).await;
    }
    settle().await;
    log.take();
    create_secret(&client, "s", "").await;
    settle().await;
    assert_eq!(sorted(log.take()), ["a", "c"]);
    create_secret(&client, "unknown", "").await;
    settle().await;
    assert_eq!(log.take(), [""; 0]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_predicate_or_filter_that_panics_lets_the_event_through() {
    let (manager, client) = manager();
    let (log, watched) = (Log::new(), kind::<ConfigMap>().namespace("default"));
    let maps = watched.predicate(|_: &Change<'_>| panic!("no opinion")).filter(|_| panic!("none either"));
    let controller = manager.controller(maps).named("shaky").complete(noting(&log)).unwrap();
    let (logged, _guard) = traced();
    let running = run(&manager).await;
    Maps::new(&client).create("a").await;
    settle().await;
    assert_eq!(log.take(), ["a"]);
    assert_eq!(controller.metrics().source_panics_total, 2);
    let text = logged.text();
    for part in
        ["a predicate panicked", "a filter panicked", "shaky", "ConfigMap", "default/a", "no opinion", "none either"]
    {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_filter_without_a_panic_still_decides() {
    let (manager, client) = manager();
    let (log, watched) = (Log::new(), kind::<ConfigMap>().namespace("default"));
    let maps = watched.predicate(|_: &Change<'_>| panic!("no opinion")).predicate(|_: &Change<'_>| false);
    let controller = manager.controller(maps).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    Maps::new(&client).create("a").await;
    settle().await;
    assert_eq!((log.len(), controller.metrics().source_panics_total), (0, 1));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_map_function_that_panics_for_one_state_maps_the_other() {
    let (manager, client) = manager();
    let log = Log::new();
    let map = |secret: &Cached<Secret>| {
        assert_ne!(secret.meta().label("of"), Some("bad"), "the label maps to no key");
        by_label(secret)
    };
    let controller =
        manager.controller(kind::<ConfigMap>()).watches(kind::<Secret>(), map).complete(noting(&log)).unwrap();
    let (logged, _guard) = traced();
    let running = run(&manager).await;
    create_secret(&client, "s", "a").await;
    settle().await;
    log.take();
    move_secret(&client, "s", "bad").await;
    settle().await;
    assert_eq!(log.take(), ["a"], "who is no longer concerned");
    move_secret(&client, "s", "b").await;
    settle().await;
    assert_eq!(log.take(), ["b"], "who is concerned now");
    assert_eq!(controller.metrics().source_panics_total, 2);
    let text = logged.text();
    assert!(text.contains("a map function panicked") && text.contains("default/s"), "{text}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_added_before_the_start_starts_nothing() {
    let (manager, client) = manager();
    create_secret(&client, "s", "a").await;
    let log = Log::new();
    let controller = manager.controller(kind::<ConfigMap>().namespace("default")).complete(noting(&log)).unwrap();
    let watch = controller.watch(kind::<Secret>(), by_label).unwrap();
    settle().await;
    let status = manager.status();
    assert_eq!((status.len(), status.iter().map(|status| status.lists).sum::<u64>()), (2, 0), "{status:?}");
    let running = run(&manager).await;
    assert!(watch.wait_for_sync(LONG).await.is_ok());
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_after_the_end_is_refused_and_starts_nothing() {
    let (manager, _) = manager();
    let log = Log::new();
    let controller = manager.controller(kind::<ConfigMap>()).complete(noting(&log)).unwrap();
    // It ends before the controller has started.
    manager.start(std::future::ready(())).await.unwrap();
    let refused = controller.watch(kind::<Secret>(), by_label).unwrap_err();
    assert!(matches!(refused, Error::Stopped), "{refused}");
    settle().await;
    assert!(manager.status().is_empty(), "{:?}", manager.status());
    drop(manager);
    assert!(matches!(controller.watch(kind::<Secret>(), by_label), Err(Error::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn a_selection_of_one_controller_is_not_shared_silently() {
    let (manager, _) = manager();
    let log = Log::new();
    let here = || kind::<ConfigMap>().namespace("default");
    manager.controller(here()).named("one").complete(noting(&log)).unwrap();
    let error = manager.controller(kind::<ConfigMap>()).named("two").complete(noting(&log)).unwrap_err().to_string();
    for part in ["controller one", "ConfigMap", "default", "Manager::declare(kind::<ConfigMap>()"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    manager.controller(here()).named("two").complete(noting(&log)).unwrap();

    let without_data = StorageOptions::default().transform(|secret: &mut Secret| secret.data = None);
    let owns = |name: &str, secrets| manager.controller(here()).named(name).owns(secrets).complete(noting(&log));
    owns("three", kind::<Secret>().storage(without_data.clone())).unwrap();
    let error = owns("four", kind::<Secret>()).unwrap_err().to_string();
    assert!(error.contains("controller three") && error.contains("storage"), "{error}");
    owns("four", kind::<Secret>().storage(without_data)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_controller_keeps_in_another_form_is_shared() {
    let (manager, _) = manager();
    let log = Log::new();
    let decoded = StorageOptions { mode: StorageMode::Decoded, ..StorageOptions::default() };
    manager.controller(kind::<ConfigMap>().storage(decoded)).named("one").complete(noting(&log)).unwrap();
    manager.controller(kind::<ConfigMap>()).named("two").complete(noting(&log)).unwrap();
    assert_eq!(manager.status().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_no_longer_watched_is_undeclared() {
    let (manager, client) = manager();
    let log = Log::new();
    let maps = || kind::<ConfigMap>().namespace("default");
    let controller = manager.controller(maps()).named("maps").complete(noting(&log)).unwrap();
    let error = manager.undeclare(maps()).await.unwrap_err();
    assert!(matches!(&error, Error::InUse { by, .. } if by == &["maps"]), "before it runs: {error}");
    let running = run(&manager).await;
    let error = manager.undeclare(maps()).await.unwrap_err().to_string();
    assert!(error.contains("ConfigMap cannot be removed, because maps watches it"), "while it runs: {error}");

    let watch = controller.watch(kind::<Secret>(), by_label).unwrap();
    assert!(watch.wait_for_sync(LONG).await.is_ok());
    let error = manager.undeclare(kind::<Secret>()).await.unwrap_err().to_string();
    assert!(
        error.contains("Secret cannot be removed, because maps watches it") && error.contains("remove_and_wait()"),
        "{error}"
    );
    assert_eq!(manager.status().len(), 2);
    watch.remove_and_wait().await.unwrap();
    manager.undeclare(kind::<Secret>()).await.unwrap();
    assert_eq!(manager.status().len(), 1);
    let error = manager.client().get::<Secret>(&key("s")).await.unwrap_err().to_string();
    assert!(error.contains("Manager::declare(kind::<Secret>())"), "{error}");
    assert!(manager.undeclare(kind::<Secret>()).await.is_err(), "there is none");

    // The next one begins empty, and may select other objects.
    create_secret(&client, "s", "a").await;
    let watch = controller.watch(kind::<Secret>().namespace("default"), by_label).unwrap();
    assert!(watch.wait_for_sync(LONG).await.is_ok());
    manager.client().get::<Secret>(&key("s")).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_undeclared_before_the_start_is_not_waited_for() {
    let (manager, _) = manager();
    manager.declare(kind::<ConfigMap>()).unwrap();
    manager.declare(kind::<Secret>()).unwrap();
    manager.undeclare(kind::<Secret>()).await.unwrap();
    let running = run(&manager).await;
    assert_eq!(manager.status().len(), 1);
    running.stop().await.unwrap();
}
