//! The order of stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{
    Action, CachedClient, Context, Error, Manager, ObjectKey, ReconcileError, StopSignal, kind, reconcile_fn,
};
use steersman_testing::Embedded;
use tokio::time::{Instant, sleep};

use crate::support::faulty_network;
use crate::support::*;

/// Whether a cached read still works, which holds until the caches are stopped.
async fn caches_work(client: &CachedClient, value: &str) -> bool {
    let written = client.objects::<ConfigMap>().update(&map("a", value)).await.is_ok();
    let read = client.get::<ConfigMap>(&key("a")).await.unwrap();
    written && read.get().unwrap().data.as_ref().unwrap()["value"] == value
}

#[tokio::test(start_paused = true)]
async fn it_stops_in_reverse() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note("reconcile begins");
            sleep(Duration::from_secs(5)).await;
            notes.note(format!("reconcile ends, caches: {}", caches_work(ctx.client(), "reconciled").await));
            Ok(Action::done())
        }
    });
    manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let (notes, reads) = (log.clone(), manager.client().clone());
    let runnable = move |stop: StopSignal| async move {
        stop.stopped().await;
        notes.note("runnable is stopped");
        sleep(Duration::from_secs(5)).await;
        notes.note(format!("runnable ends, caches: {}", caches_work(&reads, "ended").await));
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    let running = run(&manager).await;
    eventually("a reconcile is in flight", || log.len() == 1).await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert!(stopping.elapsed() >= Duration::from_secs(9), "both had their time: {:?}", stopping.elapsed());
    assert_eq!(
        log.all(),
        ["reconcile begins", "reconcile ends, caches: true", "runnable is stopped", "runnable ends, caches: true"]
    );
    assert!(manager.status().is_empty(), "no cache is left: {:?}", manager.status());
}

#[tokio::test(start_paused = true)]
async fn two_controllers_and_fifty_runnables_stop_cleanly_while_reconciles_are_in_flight() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    for number in 0..40 {
        maps.create(&format!("map-{number}")).await;
    }
    let (begun, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for name in ["one", "two"] {
        let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
        let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(20)).await;
                ended.fetch_add(1, Ordering::Relaxed);
                Ok(Action::done())
            }
        });
        manager.controller(kind::<ConfigMap>()).named(name).max_concurrent(4).complete(reconciler).unwrap();
    }
    let runnables = Arc::<AtomicUsize>::default();
    for number in 0..50_u64 {
        let ended = Arc::clone(&runnables);
        let runnable = move |stop: StopSignal| async move {
            stop.stopped().await;
            sleep(Duration::from_millis(number * 100)).await;
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ReconcileError>(())
        };
        manager.add(&format!("runnable {number}"), runnable).unwrap();
    }
    let running = run(&manager).await;
    eventually("eight reconciles are in flight", || begun.load(Ordering::Relaxed) == 8).await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(30), "within the grace period: {:?}", stopping.elapsed());
    assert_eq!(begun.load(Ordering::Relaxed), 8, "no other was begun");
    assert_eq!(ended.load(Ordering::Relaxed), 8, "none was cut off");
    assert_eq!(runnables.load(Ordering::Relaxed), 50, "none was cut off");
}

#[tokio::test(start_paused = true)]
async fn what_overstays_the_grace_period_is_cut_off_and_named() {
    struct Cut(Log<String>);
    impl Drop for Cut {
        fn drop(&mut self) {
            self.0.note("cut off");
        }
    }
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let manager = Manager::builder(client(&server)).grace_period(Duration::from_secs(7)).build();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
        let cut = Cut(notes.clone());
        async move {
            let _cut = cut;
            std::future::pending::<Result<Action, ReconcileError>>().await
        }
    });
    let controller = manager.controller(kind::<ConfigMap>()).named("stubborn").complete(reconciler).unwrap();
    let deaf = |_| async { std::future::pending::<Result<(), ReconcileError>>().await };
    manager.add("deaf", deaf).unwrap();
    let polite = |stop: StopSignal| async move {
        stop.stopped().await;
        Ok::<_, ReconcileError>(())
    };
    manager.add("polite", polite).unwrap();
    let running = run(&manager).await;
    eventually("a reconcile is in flight", || controller.metrics().active == 1).await;
    let stopping = Instant::now();
    let error = running.stop().await.unwrap_err();
    let Error::Grace { names, .. } = &error else { panic!("{error}") };
    assert_eq!(names, &["controller stubborn", "deaf"], "the others ended");
    assert!(error.to_string().contains("7s") && error.to_string().contains("controller stubborn, deaf"), "{error}");
    let took = stopping.elapsed();
    assert!(took >= Duration::from_secs(7) && took < Duration::from_secs(8), "{took:?}");
    assert_eq!(log.all(), ["cut off"]);
    assert_eq!(controller.metrics().active, 0);
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_begins_after_the_word_to_stop() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    for name in ["a", "b", "c"] {
        maps.create(name).await;
    }
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.note(key.name());
        async {
            sleep(Duration::from_secs(1)).await;
            // It would come back if the queue accepted it.
            Err(ReconcileError::message("again"))
        }
    });
    let (mut keys, channel) = mpsc::channel(8);
    let controller = manager.controller(kind::<ConfigMap>()).channel(channel).complete(reconciler).unwrap();
    let running = run(&manager).await;
    eventually("a reconcile is in flight", || controller.metrics().active == 1).await;
    running.stop().await.unwrap();
    assert_eq!(log.len(), 1, "{:?}", log.all());
    controller.enqueue(key("d"));
    assert!(keys.try_send(key("d")).is_err(), "the channel is closed");
    assert_eq!(controller.metrics().queued, 0);
    let watched = controller.watch(kind::<Secret>(), |_| Vec::new());
    assert!(matches!(watched, Err(Error::Stopped)), "{watched:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_start_future_ends_everything() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let (network, through) = faulty_network(&server);
    let manager = Manager::new(through);
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
        let notes = notes.clone();
        async move {
            notes.note("begins");
            sleep(Duration::from_secs(10)).await;
            notes.note("ends");
            Ok(Action::done())
        }
    });
    let (keys, channel) = mpsc::channel(8);
    manager.controller(kind::<ConfigMap>()).channel(channel).complete(reconciler).unwrap();
    let notes = log.clone();
    manager
        .add("runnable", move |_| async move {
            sleep(Duration::from_secs(20)).await;
            notes.note("runnable ends");
            Ok::<_, ReconcileError>(())
        })
        .unwrap();
    let running = run(&manager).await;
    eventually("a reconcile is in flight", || log.len() == 1).await;
    running.abort();
    settle().await;
    let requests = network.requests().len();
    Maps::new(&client(&server)).create("b").await;
    network.cut();
    sleep(LONG).await;
    assert_eq!(log.all(), ["begins"]);
    assert_eq!(network.requests().len(), requests, "no cache watches any more");
    assert!(keys.is_closed());
    assert!(!manager.is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_end_in_time_is_named() {
    let server = Embedded::empty();
    let (_network, client) = faulty_network(&server);
    Maps::new(&client).create("a").await;
    let manager = Manager::builder(client).grace_period(Duration::from_millis(200)).build();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (entered, mut is_entered) = tokio::sync::mpsc::unbounded_channel();
    let stuck = move |_: &steersman_cache::Cached<ConfigMap>| {
        let _ = entered.send(());
        let _ = gate.lock().unwrap().recv();
        Vec::new()
    };
    let reconciler = reconcile_fn(async |_: Context<Secret>, _: ObjectKey| Ok(Action::done()));
    manager.controller(kind::<Secret>()).watches(kind::<ConfigMap>(), stuck).complete(reconciler).unwrap();
    let error = manager.start(async move { is_entered.recv().await.unwrap() }).await.unwrap_err();
    drop(go);
    let text = error.to_string();
    assert!(matches!(error, Error::Grace { .. }) && text.contains("configmaps"), "{text}");
}
