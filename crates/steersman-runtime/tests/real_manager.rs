//! The life of a manager on a real API server.

#[path = "real_manager/endpoints.rs"]
mod endpoints;
mod support;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use steersman_client::{
    ApiResource, Client, DeleteParams, DynamicObject, ListParams, NamespaceScope, ObjectMeta, Patch, PatchParams,
    PostParams,
};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{
    Action, Context, DebugQuery, Error, Manager, ObjectKey, ReconcileError, StopSignal, dynamic, kind, reconcile_fn,
};
use steersman_testing::{RealServer, eventually_within};

use support::{Log, start};

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client, and a namespace of the test's own.
async fn server(prefix: &str) -> (Client, String) {
    let server = RealServer::shared().await.unwrap();
    let client = Client::builder(server.config().await.unwrap()).build().unwrap();
    (client, server.namespace(prefix).await.unwrap())
}

async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, || ready(is_true())).await;
}

fn map_in(namespace: &str, name: &str) -> ConfigMap {
    let metadata = ObjectMeta { namespace: Some(namespace.into()), name: Some(name.into()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Creates a Secret of the same name that the ConfigMap owns.
async fn own_a_secret(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(map) = ctx.object(&key).await? else { return Ok(Action::done()) };
    // Every namespace has one that the cluster creates.
    if key.name() == "kube-root-ca.crt" {
        return Ok(Action::done());
    }
    let map = map.get()?;
    let metadata = map_in(key.namespace().unwrap_or_default(), key.name()).metadata;
    ctx.client()
        .create_or_update(Secret { metadata, ..Secret::default() }, |secret| {
            set_controller_reference(&*map, secret)?;
            Ok(())
        })
        .await?;
    Ok(Action::done())
}

#[tokio::test]
async fn a_controller_makes_what_its_objects_want_and_repairs_it() {
    let (client, namespace) = server("repair").await;
    let manager = Manager::new(client.clone());
    manager
        .controller(kind::<ConfigMap>().namespace(&namespace))
        .owns(kind::<Secret>().namespace(&namespace))
        .max_concurrent(2)
        .complete(reconcile_fn(own_a_secret))
        .unwrap();
    let running = start(&manager);
    let (maps, secrets) = (client.namespaced::<ConfigMap>(&namespace), client.namespaced::<Secret>(&namespace));
    maps.create(&PostParams::default(), &map_in(&namespace, "web")).await.unwrap();
    let made = |but: Option<String>| {
        let secrets = &secrets;
        eventually_within(PATIENCE, "the Secret is made", move || {
            let but = but.clone();
            async move {
                let uid = secrets.get_opt("web").await.unwrap().and_then(|secret| secret.metadata.uid);
                uid.filter(|uid| but.as_ref() != Some(uid))
            }
        })
    };
    let first = made(None).await;
    secrets.delete("web", &DeleteParams::default()).await.unwrap();
    made(Some(first)).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn it_starts_and_stops_in_order_and_finishes_what_is_in_flight() {
    let (client, namespace) = server("order").await;
    client.namespaced::<ConfigMap>(&namespace).create(&PostParams::default(), &map_in(&namespace, "a")).await.unwrap();
    let manager = Manager::new(client);
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note("reconcile begins");
            let mut map = ConfigMap::clone(&*ctx.object(&key).await?.unwrap().get()?);
            eventually("the word to stop", || notes.all().contains(&"stop".to_owned())).await;
            map.data = Some([("seen".to_owned(), "yes".to_owned())].into());
            ctx.client().update(&map).await?;
            // It sees its own write, so the caches have synced.
            let seen = ctx.client().get::<ConfigMap>(&key).await?.get()?.data.is_some();
            notes.note(format!("reconcile ends: {seen}"));
            Ok(Action::done())
        }
    });
    let watched = kind::<ConfigMap>().namespace(&namespace).fields("metadata.name=a");
    manager.controller(watched).complete(reconciler).unwrap();
    let notes = log.clone();
    let runnable = move |stop: StopSignal| async move {
        notes.note("runnable begins");
        stop.stopped().await;
        notes.note("runnable ends");
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    let running = start(&manager);
    eventually("a reconcile is in flight", || log.len() == 2).await;
    log.note("stop");
    running.stop().await.unwrap();
    assert_eq!(log.all(), ["runnable begins", "reconcile begins", "stop", "reconcile ends: true", "runnable ends"]);
    assert!(manager.status().is_empty());
}

#[tokio::test]
async fn what_overstays_the_grace_period_is_cut_off_and_named() {
    let (client, namespace) = server("grace").await;
    client.namespaced::<ConfigMap>(&namespace).create(&PostParams::default(), &map_in(&namespace, "a")).await.unwrap();
    let manager = Manager::builder(client).grace_period(Duration::from_millis(300)).build();
    let hangs = reconcile_fn(|_: Context<ConfigMap>, _| async {
        std::future::pending::<Result<Action, ReconcileError>>().await
    });
    let controller =
        manager.controller(kind::<ConfigMap>().namespace(&namespace)).named("stubborn").complete(hangs).unwrap();
    let running = start(&manager);
    eventually("a reconcile is in flight", || controller.metrics().active == 1).await;
    let error = running.stop().await.unwrap_err();
    assert!(matches!(&error, Error::Grace { names, .. } if names == &["controller stubborn"]), "{error}");
}

#[tokio::test]
async fn a_runnable_that_fails_stops_all_and_is_named() {
    let (client, namespace) = server("failing").await;
    let manager = Manager::new(client);
    let done = reconcile_fn(|_: Context<ConfigMap>, _| async { Ok(Action::done()) });
    manager.controller(kind::<ConfigMap>().namespace(&namespace)).complete(done).unwrap();
    manager
        .add("mail server", |_| async { Err::<(), _>(ReconcileError::message("the post office is closed")) })
        .unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("mail server") && text.contains("the post office is closed"), "{text}");
}

#[tokio::test]
async fn a_kind_that_is_not_installed_is_named_and_waited_for() {
    let (client, namespace) = server("kinds").await;
    let boats = ApiResource {
        group: "harbour.test".to_owned(),
        version: "v1".to_owned(),
        api_version: "harbour.test/v1".to_owned(),
        kind: "Boat".to_owned(),
        plural: "boats".to_owned(),
    };
    let limited = Manager::builder(client.clone()).cache_sync_timeout(Duration::from_secs(1)).build();
    limited.declare(dynamic(&boats)).unwrap();
    let text = start(&limited).ended().await.unwrap_err().to_string();
    assert!(text.contains("harbour.test/v1/boats"), "{text}");

    let manager = Manager::new(client.clone());
    let reconciles = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&reconciles);
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, _| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(Action::done()) }
    });
    manager.controller(dynamic(&boats)).complete(reconciler).unwrap();
    let running = start(&manager);
    eventually("it logs what is missing", || {
        manager.status().iter().any(|status| status.last_error.is_some() && status.resource.contains("boats"))
    })
    .await;
    assert!(!manager.is_ready());
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
    eventually("the manager is ready", || manager.is_ready()).await;
    let boat = DynamicObject::new("ferry", &boats).within(&namespace);
    let api = client.dynamic(&boats, NamespaceScope::Namespace(namespace));
    api.create(&PostParams::default(), &boat).await.unwrap();
    eventually("the controller works", || reconciles.load(Ordering::Relaxed) == 1).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn another_client_that_undoes_the_writes_is_named_by_its_field_manager() {
    let (client, namespace) = server("fight").await;
    let manager = Manager::new(client.clone());
    let ours = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
        let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
        let value = map.data.as_ref().and_then(|data| data.get("value"));
        if key.name() == "a" && value.is_none_or(|value| value != "ours") {
            let patch = Patch::Merge(json!({"data": {"value": "ours"}}));
            ctx.client().objects::<ConfigMap>().patch(&key, &patch).await?;
        }
        Ok(Action::done())
    });
    let controller = manager.controller(kind::<ConfigMap>().namespace(&namespace)).complete(ours).unwrap();
    let running = start(&manager);
    let maps = client.namespaced::<ConfigMap>(&namespace);
    maps.create(&PostParams::default(), &map_in(&namespace, "a")).await.unwrap();
    let rival = PatchParams { field_manager: Some("rival".to_owned()), force: true, ..PatchParams::default() };
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": "theirs"}});
    let theirs = Patch::Apply(theirs);
    let lister = manager.declare(kind::<ConfigMap>().namespace(&namespace)).unwrap();
    let key = ObjectKey::new(&namespace, "a");
    let started = Instant::now();
    while controller.metrics().hot_loops_total == 0 {
        assert!(started.elapsed() < PATIENCE, "the fight is not found");
        eventually("the value is ours", || {
            let map = lister.get_by_key(&key).and_then(|map| map.get().ok());
            map.and_then(|map| map.data.clone())
                .is_some_and(|data| data.get("value").is_some_and(|value| value == "ours"))
        })
        .await;
        maps.patch("a", &rival, &theirs).await.unwrap();
    }
    let found = manager.debug_state(&DebugQuery::default()).hot_loops.remove(0);
    assert!(found.cycle.contains("another client (field manager \"rival\") wrote version "), "{found:?}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_server_accepts_every_event_that_the_recorder_writes() {
    let (client, namespace) = server("events").await;
    let manager = Manager::new(client.clone());
    let running = start(&manager);
    let prefix = format!("{}.example.com", "p".repeat(200));
    let longest = manager.events(&format!("{prefix}/{}", "c".repeat(63))).unwrap();
    let recorder = manager.events("events").unwrap();
    let maps = client.namespaced::<ConfigMap>(&namespace);
    let map = maps.create(&PostParams::default(), &map_in(&namespace, &"m".repeat(253))).await.unwrap();
    let (emoji, accents) = ("\u{1f600}".repeat(2000), "\u{e9}".repeat(2000));
    longest.related(&map).normal(&map, accents.clone(), accents.clone(), emoji);
    // A series, whose second occurrence is a patch.
    for _ in 0..2 {
        recorder.warning(&map, "Failed", "Sync", "");
        eventually("it is written", || manager.event_metrics().pending == 0).await;
    }
    for number in 0..12 {
        recorder.normal(&map_in(&namespace, "web"), "Noted", "Sync", format!("{number}{accents}"));
    }
    // Cluster-scoped objects, one with a name that no Event can have.
    for name in ["plain", "system:node-proxier"] {
        let role = ClusterRole {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            ..Default::default()
        };
        recorder.normal(&role, "Seen", "See", namespace.clone());
    }
    eventually("all are written", || manager.event_metrics().pending == 0).await;
    let metrics = manager.event_metrics();
    assert_eq!((metrics.created_total, metrics.patched_total), (1 + 1 + 11 + 2, 1), "{metrics:?}");
    assert_eq!((metrics.refused_total, metrics.discarded_total, metrics.failed_total), (0, 0, 0), "{metrics:?}");
    let events = client.namespaced::<Event>(&namespace).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(events.len(), 13);
    let failed = events.iter().find(|event| event.reason.as_deref() == Some("Failed")).unwrap();
    assert_eq!(failed.series.as_ref().unwrap().count, 2);
    let long = events.iter().find(|event| event.related.is_some()).unwrap();
    let lengths = [&long.reason, &long.action, &long.note, &long.reporting_instance];
    assert_eq!(lengths.map(|text| text.as_ref().unwrap().len()), [128, 128, 1024, 128]);

    // No controller ends the deletion of a namespace here.
    client.cluster::<Namespace>().delete(&namespace, &DeleteParams::default()).await.unwrap();
    recorder.normal(&map_in(&namespace, "late"), "TooLate", "Sync", "");
    eventually("it is dropped", || manager.event_metrics().discarded_total == 1).await;
    recorder.normal(&map_in("there-is-no-such-namespace", "late"), "TooLate", "Sync", "");
    eventually("it is dropped", || manager.event_metrics().discarded_total == 2).await;
    // The real server does refuse what is invalid.
    recorder.normal(&map_in("default", "invalid"), "", "Sync", "");
    eventually("it is refused", || manager.event_metrics().refused_total == 1).await;
    running.stop().await.unwrap();
}
