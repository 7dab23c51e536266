//! Kinds that are not installed yet.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use steersman_client::{ApiResource, Client, DynamicObject, NamespaceScope, PostParams};
use steersman_runtime::{Action, Context, Index, Manager, ObjectKey, dynamic, kind, reconcile_fn};
use steersman_testing::Embedded;
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::support::*;

pub(crate) fn boats() -> ApiResource {
    ApiResource {
        group: "harbour.test".to_owned(),
        version: "v1".to_owned(),
        api_version: "harbour.test/v1".to_owned(),
        kind: "Boat".to_owned(),
        plural: "boats".to_owned(),
    }
}

pub(crate) async fn install(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "boats.harbour.test"},
        "spec": {
            "group": "harbour.test", "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats", "singular": "boat"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap();
    client.cluster::<CustomResourceDefinition>().create(&PostParams::default(), &definition).await.unwrap();
}

pub(crate) async fn launch(client: &Client, name: &str) {
    let boat: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "harbour.test/v1", "kind": "Boat", "metadata": {"name": name, "namespace": "default"},
    }))
    .unwrap();
    let api = client.dynamic(&boats(), NamespaceScope::Namespace("default".to_owned()));
    // A kind is served a little after it was defined.
    let params = PostParams::default();
    steersman_testing::eventually("the kind is served", || api.create(&params, &boat)).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_named_and_waited_for() {
    let (manager, client) = manager();
    let (logged, _guard) = traced();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
    });
    manager.controller(dynamic(&boats())).complete(reconciler).unwrap();
    let running = start(&manager);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!manager.is_ready());
    let status = manager.status();
    assert_eq!(status.len(), 1);
    assert!(status[0].to_string().contains("/apis/harbour.test/v1/boats"), "{}", status[0]);
    assert!(status[0].last_error.is_some(), "{}", status[0]);
    let text = logged.text();
    assert!(text.contains("the manager waits for its caches") && text.contains("harbour.test/v1/boats"), "{text}");
    let reminders = text.matches("the manager waits").count();
    assert!((50..=60).contains(&reminders), "every ten seconds: {reminders}");

    install(&client).await;
    launch(&client, "ferry").await;
    eventually("the manager is ready", || manager.is_ready()).await;
    eventually("the controller has begun", || log.len() == 1).await;
    assert_eq!(log.all(), ["default/ferry"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_added_while_the_manager_runs_waits_for_its_kind_alone() {
    let (manager, client) = manager();
    let log = Log::new();
    let notes = log.clone();
    let maps = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
    });
    manager.controller(kind::<ConfigMap>()).complete(maps).unwrap();
    let running = run(&manager).await;
    let (logged, _guard) = traced();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
    });
    manager.controller(dynamic(&boats())).named("harbour-master").complete(reconciler).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(logged.text().contains("controller harbour-master waits for its caches"), "{}", logged.text());
    log.take();
    Maps::new(&client).create("a").await;
    eventually("the other goes on", || log.len() == 1).await;
    install(&client).await;
    launch(&client, "ferry").await;
    eventually("it has begun", || log.len() == 2).await;
    assert_eq!(log.all(), ["default/a", "default/ferry"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_a_limit_a_kind_that_is_not_installed_is_an_error_with_its_name() {
    let server = Embedded::empty();
    let manager = Manager::builder(client(&server)).cache_sync_timeout(Duration::from_secs(120)).build();
    manager.declare(dynamic(&boats())).unwrap();
    manager.declare(kind::<ConfigMap>()).unwrap();
    let started = Instant::now();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("/apis/harbour.test/v1/boats") && !text.contains("configmaps"), "{text}");
    assert!(text.contains("120"), "the whole time that was waited: {text}");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(120) && took < Duration::from_secs(125), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn it_can_be_stopped_while_it_waits_for_a_kind() {
    let (manager, _) = manager();
    manager.declare(dynamic(&boats())).unwrap();
    let running = start(&manager);
    settle().await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kind_that_is_declared_while_it_is_undeclared_has_a_cache_that_runs() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let running = run(&manager).await;
    for round in 0..300 {
        manager.declare(kind::<ConfigMap>()).unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let (there, undeclared) = (Arc::clone(&barrier), manager.clone());
        let undeclare = tokio::spawn(async move {
            there.wait().await;
            undeclared.undeclare(kind::<ConfigMap>()).await
        });
        let declared = manager.clone();
        let declare = tokio::spawn(async move {
            barrier.wait().await;
            declared.declare(kind::<ConfigMap>())
        });
        undeclare.await.unwrap().unwrap();
        declare.await.unwrap().unwrap();
        // If the cache was declared first and undeclared then, there is none.
        manager.declare(kind::<ConfigMap>()).unwrap();
        let found = manager.client().objects::<ConfigMap>().get_opt(&key("a")).await;
        assert!(found.as_ref().is_ok_and(Option::is_some), "round {round}: {found:?}");
    }
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cached_reads_go_on_while_the_function_of_a_new_index_runs() {
    let limit = Duration::from_secs(20);
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    manager.declare(kind::<ConfigMap>()).unwrap();
    manager.declare(kind::<Namespace>()).unwrap();
    let running = run(&manager).await;
    let (entered, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    // The first call waits.
    let gate = Mutex::new(Some(released));
    let values = move |map: &ConfigMap| {
        let first = gate.lock().unwrap().take();
        if let Some(released) = first {
            entered.send(()).unwrap();
            released.recv_timeout(3 * limit).expect("the reads have succeeded");
        }
        map.metadata.name.clone().into_iter().collect()
    };
    let declaring = manager.clone();
    let indexed = kind::<ConfigMap>().index("name", Index::function(values));
    let declared = tokio::task::spawn_blocking(move || declaring.declare(indexed));
    begun.recv().await.unwrap();
    let reading = manager.clone();
    // A task of its own, because a read that waits for a lock blocks its thread.
    let reads = tokio::spawn(async move {
        let reads = reading.client();
        reads.get::<Namespace>(&"default".parse().unwrap()).await.expect("another kind is read");
        reads.get::<ConfigMap>(&key("a")).await.expect("the same kind is read");
        reads.create(&map("b", "1")).await.unwrap();
        reads.get::<ConfigMap>(&key("b")).await.expect("what was written is read");
        reading.declare(kind::<Secret>()).expect("another kind is declared");
        assert!(reading.is_ready() && !reading.status().is_empty() && !reading.informer_metrics().is_empty());
    });
    tokio::time::timeout(limit, reads).await.expect("nothing waits for the function").unwrap();
    release.send(()).unwrap();
    let lister = declared.await.unwrap().unwrap();
    for name in ["a", "b"] {
        assert_eq!(lister.index_keys("name", name).unwrap(), [key(name)]);
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_each_informer_are_there() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    manager.declare(kind::<ConfigMap>().namespace("default")).unwrap();
    manager.declare(kind::<Secret>()).unwrap();
    assert_eq!(manager.informer_metrics().len(), 2);
    let running = run(&manager).await;
    let metrics = manager.informer_metrics();
    let figures: Vec<_> = metrics.iter().map(|(name, metrics)| (&**name, metrics.objects)).collect();
    assert_eq!(figures, [("/api/v1/configmaps in default", 1), ("/api/v1/secrets", 0)]);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclaring_a_cache_whose_code_is_stuck_ends_with_an_error() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let manager = Manager::builder(client(&server)).grace_period(Duration::from_millis(100)).build();
    let running = run(&manager).await;
    let (entered, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let stuck = move |_: &ConfigMap| {
        entered.send(()).unwrap();
        // Until the test ends.
        released.lock().unwrap().recv().unwrap_err();
        Vec::new()
    };
    manager.declare(kind::<ConfigMap>().index("stuck", Index::function(stuck))).unwrap();
    begun.recv().await.unwrap();
    let undeclared = tokio::time::timeout(Duration::from_secs(20), manager.undeclare(kind::<ConfigMap>())).await;
    let error = undeclared.expect("it ends").unwrap_err().to_string();
    assert!(error.contains("ConfigMap") && error.contains("100ms"), "{error}");
    drop(release);
    running.stop().await.unwrap();
}
