//! Kinds that are not installed yet.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use steersman_client::{ApiResource, Client, DynamicObject, Place, PostParams};
use steersman_runtime::{Action, Context, Failure, Manager, ObjectKey, dynamic, kind, reconcile_fn};
use steersman_testing::Embedded;
use tokio::time::Instant;

use crate::support::*;

fn boats() -> ApiResource {
    ApiResource {
        group: "harbour.test".to_owned(),
        version: "v1".to_owned(),
        api_version: "harbour.test/v1".to_owned(),
        kind: "Boat".to_owned(),
        plural: "boats".to_owned(),
    }
}

async fn install(client: &Client) {
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

async fn launch(client: &Client, name: &str) {
    let boat: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "harbour.test/v1", "kind": "Boat", "metadata": {"name": name, "namespace": "default"},
    }))
    .unwrap();
    let api = client.dynamic(&boats(), Place::Namespace("default".to_owned()));
    let started = Instant::now();
    // A kind is served a little after it was defined.
    while let Err(error) = api.create(&PostParams::default(), &boat).await {
        assert!(started.elapsed() < Duration::from_secs(60), "{error}");
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_named_and_waited_for() {
    let (manager, client) = manager();
    let (logged, _guard) = traced();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok::<_, Failure>(Action::done()) }
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
async fn a_controller_that_is_added_while_it_runs_waits_for_its_kind_and_disturbs_nobody() {
    let (manager, client) = manager();
    let log = Log::new();
    let notes = log.clone();
    let maps = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok::<_, Failure>(Action::done()) }
    });
    manager.controller(kind::<ConfigMap>()).complete(maps).unwrap();
    let running = run(&manager).await;
    let (logged, _guard) = traced();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok::<_, Failure>(Action::done()) }
    });
    manager.controller(dynamic(&boats())).named("harbour master").complete(reconciler).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(logged.text().contains("controller harbour master waits for its caches"), "{}", logged.text());
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
    let server = Embedded::start();
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
