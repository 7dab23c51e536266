//! What the context of a reconcile offers.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ReconcileError, kind, reconcile_fn};
use tokio::time::Instant;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_context_reads_the_decoded_object_and_none_of_a_deleted_one() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key| {
        let notes = notes.clone();
        async move {
            let value = ctx.get(&key).await?.map(|map| map.data.clone().unwrap_or_default()["value"].clone());
            let version = ctx.object(&key).await?.map(|map| !map.meta().resource_version().is_empty());
            notes.note(format!("{key}: {value:?}, {version:?}"));
            Ok(Action::done())
        }
    });
    manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconciler).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    eventually("the object is reconciled", || log.len() == 1).await;
    maps.delete("a").await;
    eventually("the deletion is reconciled", || log.len() == 2).await;
    assert_eq!(log.all(), ["default/a: Some(\"1\"), Some(true)", "default/a: None, None"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_waits_for_the_stop_signal_ends_with_the_manager() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _| {
        let notes = notes.clone();
        async move {
            notes.note(format!("started, stopped: {}", ctx.stop_signal().is_stopped()));
            ctx.stop_signal().stopped().await;
            notes.note(format!("ended, stopped: {}", ctx.stop_signal().is_stopped()));
            Err(ReconcileError::message("not complete"))
        }
    });
    manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconciler).unwrap();
    let running = run(&manager).await;
    eventually("the reconcile has started", || log.len() == 1).await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(1), "{:?}", stopping.elapsed());
    assert_eq!(log.all(), ["started, stopped: false", "ended, stopped: true"]);
}
