//! What the flight recorder shows of reconciles.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_client::PostParams;
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{
    Action, CauseState, Context, ControllerState, DebugQuery, DebugState, FlightRecorder, Manager, ObjectKey,
    ReconcileError, ReconcileState, kind, reconcile_fn,
};
use steersman_testing::Embedded;

use crate::support::exposition::Exposition;
use crate::support::{Maps, client, key, manager, named, run, settle, traced_at};

fn state(manager: &Manager) -> DebugState {
    manager.debug_state(&DebugQuery::default())
}

fn only(manager: &Manager) -> ControllerState {
    let mut state = state(manager);
    assert_eq!(state.controllers.len(), 1);
    state.controllers.remove(0)
}

/// The causes of each reconcile of a key, as `source event kind/key`.
fn causes(manager: &Manager, name: &str) -> Vec<String> {
    let text = |cause: &CauseState| {
        let parts = [Some(&cause.source), cause.event.as_ref(), cause.kind.as_ref(), cause.key.as_ref()];
        parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let ours = only(manager).reconciles.into_iter().filter(|reconcile| reconcile.key == key(name).to_string());
    ours.map(|reconcile| reconcile.causes.iter().map(text).collect::<Vec<_>>().join(", ")).collect()
}

fn last(manager: &Manager) -> ReconcileState {
    only(manager).reconciles.pop().expect("there was a reconcile")
}

#[tokio::test(start_paused = true)]
async fn each_cause_of_a_reconcile_is_named() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    maps.create("a").await;
    let (mut sender, receiver) = futures::channel::mpsc::channel(1);
    let controller = manager
        .controller(kind::<ConfigMap>().resync(Duration::from_secs(3600)))
        .owns(kind::<Secret>())
        .watches(kind::<k8s_openapi::api::core::v1::Service>(), |_| [key("a")])
        .channel(receiver)
        .complete(reconcile_fn(|_: Context<ConfigMap>, key: ObjectKey| async move {
            match key.name() {
                "fails" => Err(ReconcileError::message("on purpose")),
                "again" => Ok(Action::requeue_after(Duration::from_secs(60))),
                _ => Ok(Action::done()),
            }
        }))
        .unwrap();
    let running = run(&manager).await;
    settle().await;
    maps.set("a", "2").await;
    settle().await;
    controller.enqueue(key("a"));
    settle().await;
    sender.try_send(key("a")).unwrap();
    settle().await;
    let mut secret = Secret { metadata: named("child"), ..Secret::default() };
    let owner = maps.0.get("a").await.unwrap();
    set_controller_reference(&owner, &mut secret).unwrap();
    client.namespaced("default").create(&PostParams::default(), &secret).await.unwrap();
    settle().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let service: k8s_openapi::api::core::v1::Service = serde_json::from_value(service).unwrap();
    client.namespaced("default").create(&PostParams::default(), &service).await.unwrap();
    settle().await;
    maps.delete("a").await;
    settle().await;
    let expected = [
        "primary initial ConfigMap default/a",
        "primary updated ConfigMap default/a",
        "enqueue",
        "source",
        "owned added Secret default/child",
        "mapped added Service default/s",
        // The garbage collector deletes the Secret with its owner.
        "primary deleted ConfigMap default/a, owned deleted Secret default/child",
    ];
    assert_eq!(causes(&manager, "a"), expected);

    maps.create("again").await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(causes(&manager, "again")[..2], ["primary added ConfigMap default/again", "requeue_after"]);
    // An event before the time replaces it.
    maps.set("again", "2").await;
    settle().await;
    assert_eq!(causes(&manager, "again").last().unwrap(), "primary updated ConfigMap default/again");

    maps.create("fails").await;
    settle().await;
    assert_eq!(causes(&manager, "fails")[..2], ["primary added ConfigMap default/fails", "retry"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(causes(&manager, "again").iter().filter(|cause| cause.contains("resync")).count(), 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_overtakes_a_requeue_is_counted_as_the_trigger() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, _: ObjectKey| async {
        Ok(Action::requeue_after(Duration::from_secs(3600)))
    });
    manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    settle().await;
    maps.set("a", "2").await;
    settle().await;
    let shown = Exposition::parse(&manager.metrics().encode());
    let trigger = |source| shown.value("reconcile_trigger_total", &[("controller", "configmap"), ("source", source)]);
    assert_eq!((trigger("primary"), trigger("requeue_after")), (2.0, 0.0));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_shows_its_times_its_writes_and_its_end() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
            let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
            tokio::time::sleep(Duration::from_millis(1500)).await;
            if key.name() == "a" && map.immutable.is_none() {
                let changed = ConfigMap { immutable: Some(false), ..ConfigMap::clone(&map) };
                ctx.client().update(&changed).await?;
                ctx.get(&key).await?;
                return Ok(Action::requeue_after(Duration::from_secs(30)));
            }
            if key.name() == "b" { Err(ReconcileError::message("no".repeat(2_000))) } else { Ok(Action::done()) }
        }))
        .unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let first = only(&manager).reconciles.remove(0);
    assert_eq!((first.id, &*first.key, first.attempt, &*first.result), (1, "default/a", 1, "requeue_after"));
    assert!((1.5..1.7).contains(&first.took_seconds), "{first:?}");
    let written = &first.writes[0];
    assert_eq!((&*written.verb, &*written.kind, &*written.key), ("update", "ConfigMap", "default/a"));
    let version = maps.0.get("a").await.unwrap().metadata.resource_version.unwrap();
    assert_eq!(written.version.unwrap().to_string(), version);
    assert_eq!((first.writes.len(), &*first.waited_reads[0].kind), (1, "ConfigMap"), "{first:?}");
    let next = first.next.unwrap().duration_since(first.started).as_secs_f64();
    assert!((31.5..31.7).contains(&next), "{next}");
    let cause = first.causes[0].at.unwrap();
    assert!(first.started >= cause, "{first:?}");

    maps.create("b").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let controller = only(&manager);
    let failing = &controller.failing[0];
    assert_eq!((&*failing.key, controller.failing.len()), ("default/b", 1));
    assert!(failing.failures > 1 && failing.error.len() <= 512 && failing.error.ends_with('…'), "{failing:?}");
    let failed = controller.reconciles.iter().rfind(|reconcile| reconcile.key == "default/b").unwrap();
    assert_eq!((&*failed.result, failed.attempt), ("failed", failing.failures));
    let timeline = manager.debug_state(&DebugQuery::object("configmap", "default/b"));
    assert!(timeline.controllers[0].reconciles.iter().all(|reconcile| reconcile.key == "default/b"));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_keys_informers_and_readiness_are_shown() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(|_: Context<ConfigMap>, _: ObjectKey| async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(Action::done())
        }))
        .unwrap();
    assert!(!state(&manager).ready);
    let running = run(&manager).await;
    for name in ["a", "b", "c"] {
        maps.create(name).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let shown = state(&manager);
    assert!(shown.ready && shown.lease.is_none() && shown.hot_loops.is_empty());
    assert_eq!((&*shown.informers[0].resource, &*shown.informers[0].phase), ("/api/v1/configmaps", "Watching"));
    let controller = &shown.controllers[0];
    assert_eq!((controller.active, controller.queued, &*controller.kind), (1, 2, "ConfigMap"));
    assert_eq!(controller.waiting[0].key, "default/b");
    assert!((4.9..5.1).contains(&controller.waiting[0].waited_seconds), "{:?}", controller.waiting);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_is_off_records_nothing() {
    let server = Embedded::empty();
    let manager = Manager::builder(client(&server)).flight_recorder(FlightRecorder::off()).build();
    let maps = Maps::new(&client(&server));
    let controller = manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(|_: Context<ConfigMap>, _: ObjectKey| async { Ok(Action::done()) }))
        .unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    settle().await;
    assert_eq!((controller.metrics().reconciles_total, only(&manager).reconciles.len()), (1, 0));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_last_reconciles_are_kept() {
    let server = Embedded::empty();
    let recorder = FlightRecorder::default().reconciles_max(2);
    let manager = Manager::builder(client(&server)).flight_recorder(recorder).build();
    let maps = Maps::new(&client(&server));
    let controller = manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(|_: Context<ConfigMap>, _: ObjectKey| async { Ok(Action::done()) }))
        .unwrap();
    let running = run(&manager).await;
    for name in ["a", "b", "c"] {
        maps.create(name).await;
        settle().await;
    }
    let keys: Vec<_> = only(&manager).reconciles.into_iter().map(|reconcile| reconcile.key).collect();
    assert_eq!(
        (controller.metrics().reconciles_total, keys),
        (3, vec!["default/b".to_owned(), "default/c".to_owned()])
    );
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_record() {
    async fn recorded() -> String {
        let world = steersman_client::World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap());
        let server = Embedded::empty();
        let manager = Manager::builder(client(&server)).world(world).build();
        let maps = Maps::new(&client(&server));
        manager
            .controller(kind::<ConfigMap>())
            .complete(reconcile_fn(|_: Context<ConfigMap>, _: ObjectKey| async {
                tokio::time::sleep(Duration::from_millis(7)).await;
                Ok(Action::done())
            }))
            .unwrap();
        let running = run(&manager).await;
        maps.create("a").await;
        settle().await;
        let last = last(&manager);
        running.stop().await.unwrap();
        serde_json::to_string(&last).unwrap()
    }
    let first = recorded().await;
    assert!(first.contains("2026-01-31T10:00:0"), "{first}");
    assert_eq!(first, recorded().await);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_and_its_requests_are_one_trace() {
    let (log, _guard) = traced_at(tracing::Level::DEBUG);
    let world = steersman_client::World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap());
    let server = Embedded::empty();
    let manager = Manager::builder(client(&server)).world(world).trace_requests().build();
    manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
            let trace = steersman_client::Trace::current().expect("a reconcile has a trace");
            tracing::info!(trace = trace.id(), "inside");
            ctx.client().objects::<ConfigMap>().live(key.namespace()).get_opt(key.name()).await?;
            Ok(Action::done())
        }))
        .unwrap();
    let running = run(&manager).await;
    Maps::new(&client(&server)).create("a").await;
    settle().await;
    running.stop().await.unwrap();
    let text = log.text();
    let line = text.lines().find(|line| line.contains("inside")).unwrap_or_else(|| panic!("{text}"));
    // From the event to the reconcile, in this order.
    let event =
        line.find("event{controller=\"configmap\" object=default/a cause=added ConfigMap, version ").expect(line);
    let reconcile =
        line.find("reconcile{controller=\"configmap\" key=\"default/a\" reconcile_id=1 attempt=1 ").expect(line);
    assert!(event < reconcile, "{line}");
    let id = line.rsplit("trace=").next().unwrap().trim().trim_matches('"');
    assert_eq!(line.matches(id).count(), 2, "the span names the trace: {line}");
}
