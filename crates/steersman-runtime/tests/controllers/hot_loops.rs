//! Hot loops are found and named; busy controllers are not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::{Patch, PatchParams};
use steersman_runtime::{Action, Context, DebugQuery, Manager, ObjectKey, Reconciler, kind, reconcile_fn};

use crate::support::{Maps, eventually, manager, run, settle, traced};

/// How long a reconcile takes: paused time stands still while a loop never waits.
const WORK: Duration = Duration::from_millis(1);

/// Sets the entry `value` of each ConfigMap.
fn setting(value: &'static str) -> impl Reconciler<ConfigMap> {
    reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| async move {
        let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
        tokio::time::sleep(WORK).await;
        if map.data.as_ref().and_then(|data| data.get("value")).is_none_or(|found| found != value) {
            let patch = Patch::Merge(json!({"data": {"value": value}}));
            ctx.client().objects::<ConfigMap>().patch(&key, &patch).await?;
        }
        Ok(Action::done())
    })
}

fn cycles(manager: &Manager) -> Vec<String> {
    manager.debug_state(&DebugQuery::default()).hot_loops.into_iter().map(|found| found.cycle).collect()
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_writes_in_each_reconcile_is_a_hot_loop() {
    let (log, _guard) = traced();
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let rounds = AtomicU64::new(0);
    let counting = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(WORK).await;
            let patch = Patch::Merge(json!({"data": {"seen": round.to_string()}}));
            ctx.client().objects::<ConfigMap>().patch(&key, &patch).await?;
            Ok(Action::requeue_after(Duration::from_secs(600)))
        }
    });
    let controller = manager.controller(kind::<ConfigMap>()).named("x").complete(counting).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    eventually("the loop is found", || controller.metrics().hot_loops_total == 1).await;
    eventually("many more rounds", || controller.metrics().reconciles_total > 200).await;
    running.stop().await.unwrap();
    let found = cycles(&manager);
    assert_eq!(found.len(), 1, "{found:?}");
    let text = &found[0];
    assert!(text.starts_with("ConfigMap default/a: controller x wrote version "), "{text}");
    assert!(text.contains(", which caused controller x (default/a) to write version "), "{text}");
    let log = String::from_utf8(log.all()).unwrap();
    assert_eq!(log.matches("hot loop: ConfigMap default/a: controller x wrote").count(), 1, "{log}");
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_undo_each_other_are_both_named() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let left = manager.controller(kind::<ConfigMap>()).named("left").complete(setting("left")).unwrap();
    manager.controller(kind::<ConfigMap>()).named("right").complete(setting("right")).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    eventually("the fight is found", || left.metrics().hot_loops_total == 1).await;
    running.stop().await.unwrap();
    let found = cycles(&manager);
    assert!(found[0].contains("controller left") && found[0].contains("controller right"), "{found:?}");
    assert!(found[0].starts_with("ConfigMap default/a: controller "), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn another_client_that_undoes_the_writes_is_a_hot_loop() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let controller = manager.controller(kind::<ConfigMap>()).named("x").complete(setting("ours")).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    for _ in 0..20 {
        settle().await;
        let params = PatchParams { field_manager: Some("rival".to_owned()), ..PatchParams::default() };
        maps.0.patch("a", &params, &Patch::Merge(json!({"data": {"value": "theirs"}}))).await.unwrap();
    }
    settle().await;
    running.stop().await.unwrap();
    assert_eq!(controller.metrics().hot_loops_total, 1);
    let found = cycles(&manager);
    assert!(found[0].contains("controller x wrote version") && found[0].contains("another client"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_controller_is_no_hot_loop() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    // Notes each new value, as a status does, and looks again every second.
    let busy = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
        let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
        let entry = |name: &str| map.data.as_ref().and_then(|data| data.get(name)).cloned();
        if entry("value") != entry("seen") {
            let patch = Patch::Merge(json!({"data": {"seen": entry("value")}}));
            ctx.client().objects::<ConfigMap>().patch(&key, &patch).await?;
        }
        Ok(Action::requeue_after(Duration::from_secs(1)))
    });
    let controller = manager.controller(kind::<ConfigMap>()).max_concurrent(4).complete(busy).unwrap();
    let running = run(&manager).await;
    for name in ["a", "b", "c"] {
        maps.create(name).await;
    }
    for round in 0..2_000 {
        let name = ["a", "b", "c"][round % 3];
        maps.set(name, &(round / 7 % 5).to_string()).await;
        if round % 11 == 0 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    settle().await;
    let metrics = controller.metrics();
    running.stop().await.unwrap();
    assert!(metrics.reconciles_total > 1_000, "{metrics:?}");
    assert_eq!((metrics.hot_loops_total, cycles(&manager)), (0, Vec::new()));
}
