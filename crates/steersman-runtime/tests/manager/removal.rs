//! Controllers that are removed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::predicate::Change;
use steersman_runtime::{Action, Context, Controller, Error, Manager, ObjectKey, Reconciler, kind, reconcile_fn};
use steersman_testing::Embedded;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// A reconciler that takes some time.
fn slow(log: &Log<String>, takes: Duration) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        let log = log.clone();
        async move {
            log.note(format!("begins {}", key.name()));
            sleep(takes).await;
            log.note(format!("ends {}", key.name()));
            Ok(Action::done())
        }
    })
}

fn add(manager: &Manager, log: &Log<String>, takes: Duration) -> Result<Controller, Error> {
    manager.controller(kind::<ConfigMap>()).owns(kind::<Secret>()).complete(slow(log, takes))
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_removed_while_the_manager_runs() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let log = Log::new();
    let controller = add(&manager, &log, Duration::from_secs(5)).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    maps.create("b").await;
    eventually("a reconcile is in flight", || log.len() == 1).await;
    assert!(matches!(manager.undeclare(kind::<Secret>()).await, Err(Error::InUse { .. })));
    manager.remove_controller(&controller).await.unwrap();
    assert_eq!(log.take(), ["begins a", "ends a"], "what runs is finished, what waits is dropped");
    maps.set("b", "2").await;
    controller.enqueue(key("c"));
    settle().await;
    assert!(log.is_empty(), "{:?}", log.all());
    // Its caches are free, and so is its name.
    manager.remove_controller(&controller).await.unwrap();
    manager.undeclare(kind::<Secret>()).await.unwrap();
    let again = add(&manager, &log, Duration::ZERO).unwrap();
    eventually("the new one reconciles everything", || log.len() == 4).await;
    // Removing the old one once more does not touch the new one.
    manager.remove_controller(&controller).await.unwrap();
    again.enqueue(key("a"));
    eventually("the new one runs", || log.len() == 6).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_removed_before_the_start_never_runs() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let controller = add(&manager, &log, Duration::ZERO).unwrap();
    manager.remove_controller(&controller).await.unwrap();
    let running = run(&manager).await;
    settle().await;
    assert!(log.is_empty(), "{:?}", log.all());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_waits_for_its_caches_is_removed_and_the_manager_gets_ready() {
    let server = Embedded::empty();
    let (network, through) = faulty_network(&server);
    network.fail("/secrets", Fault::Status(403));
    let manager = Manager::new(through);
    let controller = add(&manager, &Log::new(), Duration::ZERO).unwrap();
    let running = start(&manager);
    settle().await;
    assert!(!manager.is_ready());
    manager.remove_controller(&controller).await.unwrap();
    manager.undeclare(kind::<Secret>()).await.unwrap();
    eventually("nothing is waited for", || manager.is_ready()).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_does_not_end_is_an_error_of_the_removal() {
    let server = Embedded::empty();
    let manager = Manager::builder(client(&server)).grace_period(Duration::from_secs(7)).build();
    let log = Log::new();
    let controller = add(&manager, &log, LONG).unwrap();
    let running = run(&manager).await;
    Maps::new(&client(&server)).create("a").await;
    eventually("a reconcile is in flight", || log.len() == 1).await;
    let started = Instant::now();
    let error = manager.remove_controller(&controller).await.unwrap_err();
    assert!(matches!(&error, Error::NotStopped { what, .. } if what == "controller configmap"), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    assert!(matches!(running.stop().await, Err(Error::Grace { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_sees_that_its_controller_is_removed() {
    let (manager, client) = manager();
    let log = Log::<String>::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _| {
        let notes = notes.clone();
        async move {
            notes.note("begins");
            ctx.stop_signal().stopped().await;
            notes.note("stops");
            Ok(Action::done())
        }
    });
    let controller = manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    Maps::new(&client).create("a").await;
    eventually("a reconcile is in flight", || log.len() == 1).await;
    manager.remove_controller(&controller).await.unwrap();
    assert_eq!(log.take(), ["begins", "stops"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_removed_controller_leaves_the_metrics_and_the_memory() {
    let (manager, _client) = manager();
    let held = Arc::new(());
    let (of_predicate, log) = (Arc::clone(&held), Log::new());
    let controller = manager
        .controller(kind::<ConfigMap>())
        .predicate(move |_: &Change<'_>| Arc::strong_count(&of_predicate) > 0)
        .complete(slow(&log, Duration::ZERO))
        .unwrap();
    let running = run(&manager).await;
    let is_shown = || manager.metrics().encode().contains("controller=\"configmap\"");
    assert!(is_shown());
    manager.remove_controller(&controller).await.unwrap();
    assert!(!is_shown(), "{}", manager.metrics().encode());
    drop(controller);
    eventually("nothing of the controller is held", || Arc::strong_count(&held) == 1).await;
    running.stop().await.unwrap();
}
