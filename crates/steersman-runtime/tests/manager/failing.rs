//! One runnable fails.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{
    Action, Context, Error, ListQuery, Manager, ObjectKey, ReconcileError, StopSignal, kind, reconcile_fn,
};
use steersman_testing::Embedded;
use steersman_workqueue::RateLimiter;
use tokio::time::{Instant, sleep};

use crate::support::*;
use crate::support::{Fault, FaultyNetwork, faulty_network};

/// A runnable that logs when it has stopped in order.
fn orderly(
    log: &Log<String>,
) -> impl FnOnce(StopSignal) -> futures::future::BoxFuture<'static, Result<(), ReconcileError>> + use<> {
    let log = log.clone();
    move |stop: StopSignal| {
        Box::pin(async move {
            stop.stopped().await;
            log.note("stopped in order");
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_fails_stops_all_and_is_named() {
    let (manager, _) = manager();
    let log = Log::new();
    manager.add("orderly", orderly(&log)).unwrap();
    manager
        .add("mail server", |_| async {
            sleep(Duration::from_secs(3)).await;
            Err::<(), _>(std::io::Error::other("the post office is closed"))
        })
        .unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(&error, Error::Runnable { name, .. } if name == "mail server"), "{text}");
    assert!(text.contains("mail server") && text.contains("the post office is closed"), "{text}");
    assert_eq!(log.all(), ["stopped in order"]);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_stops_all_and_is_named() {
    let (manager, _) = manager();
    let log = Log::new();
    manager.add("orderly", orderly(&log)).unwrap();
    let panics = |_| async {
        sleep(Duration::from_secs(1)).await;
        assert!(log_is_dry(), "no more wood");
        Ok::<_, ReconcileError>(())
    };
    fn log_is_dry() -> bool {
        false
    }
    manager.add("stove", panics).unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("stove") && text.contains("it panicked: no more wood"), "{text}");
    assert_eq!(log.all(), ["stopped in order"]);
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_ends_without_an_error_stops_no_other() {
    let (manager, _) = manager();
    manager.add("short", |_| async { Ok::<_, ReconcileError>(()) }).unwrap();
    let running = run(&manager).await;
    sleep(LONG).await;
    assert!(manager.is_ready());
    running.stop().await.unwrap();
}

/// A limiter that panics, outside any reconcile.
struct Broken;

impl<T> RateLimiter<T> for Broken {
    fn when(&mut self, _: &T, _: std::time::Instant) -> Duration {
        panic!("no time")
    }

    fn forget(&mut self, _: &T) {}

    fn retries(&self, _: &T) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_worker_dies_stops_all_and_is_named() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, _| async { Err(ReconcileError::message("no")) });
    manager.controller(kind::<ConfigMap>()).named("unlucky").rate_limiter(Broken).complete(reconciler).unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("controller unlucky") && text.contains("panicked"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_lets_the_others_finish() {
    let (manager, client) = manager();
    for name in ["a-slow", "b-bad", "c-waiting"] {
        Maps::new(&client).create(name).await;
    }
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note(format!("{key} begins"));
            if key.name() == "b-bad" {
                return Err(ReconcileError::message("no"));
            }
            sleep(Duration::from_secs(10)).await;
            notes.note(format!("{key} ends"));
            Ok(Action::done())
        }
    });
    let maps = kind::<ConfigMap>().namespace("default");
    manager.controller(maps).named("unlucky").max_concurrent(2).rate_limiter(Broken).complete(reconciler).unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("controller unlucky") && text.contains("panicked"), "{text}");
    assert_eq!(log.all(), ["default/a-slow begins", "default/b-bad begins", "default/a-slow ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_while_others_overstay_is_the_one_that_is_named() {
    let (manager, _) = manager();
    manager.add("deaf", |_| async { std::future::pending::<Result<(), ReconcileError>>().await }).unwrap();
    manager.add("broken", |_| async { Err::<(), _>(ReconcileError::message("it broke")) }).unwrap();
    let (log, _guard) = traced();
    let started = Instant::now();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("broken") && text.contains("it broke"), "{text}");
    assert!(started.elapsed() >= Duration::from_secs(30), "the other had the grace period");
    assert!(log.text().contains("deaf"), "{}", log.text());
}

/// A manager whose requests can be made to panic, on a server that has the ConfigMap `a`.
async fn fragile() -> (Manager, FaultyNetwork, Embedded) {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let (network, through) = faulty_network(&server);
    (Manager::new(through), network, server)
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_panics_before_it_has_synced_stops_all_and_is_named() {
    let (manager, network, _server) = fragile().await;
    network.fail("configmaps", Fault::Panic);
    manager.declare(kind::<ConfigMap>().namespace("default").labels("app=web")).unwrap();
    let log = Log::new();
    manager.add("orderly", orderly(&log)).unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    for part in ["ConfigMap", "/api/v1/configmaps in default where app=web", "planted panic while sending"] {
        assert!(text.contains(part), "{part:?} is missing: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_panics_while_the_manager_runs_stops_all_and_its_reads_are_errors() {
    let (manager, network, server) = fragile().await;
    manager.declare(kind::<ConfigMap>()).unwrap();
    let (log, reads) = (Log::new(), manager.client().clone());
    let notes = log.clone();
    let reader = move |stop: StopSignal| async move {
        notes.note(format!("{:?}", reads.get::<ConfigMap>(&key("a")).await.map(|found| found.key().to_string())));
        stop.stopped().await;
        for name in ["a", "new"] {
            let read = reads.objects::<ConfigMap>().get_opt(&key(name)).await;
            notes.note(format!("{:?}", read.map(|found| found.is_some())));
        }
        let list = reads.objects::<ConfigMap>().list(&ListQuery::all()).await;
        notes.note(format!("{:?}", list.map(|found| found.len())));
        Ok::<_, ReconcileError>(())
    };
    manager.add("reader", reader).unwrap();
    let running = run(&manager).await;
    settle().await;
    network.fail("configmaps", Fault::Panic);
    network.cut();
    Maps::new(&client(&server)).create("new").await;
    let error = running.ended().await.unwrap_err().to_string();
    assert!(error.contains("/api/v1/configmaps") && error.contains("planted panic while sending"), "{error}");
    assert!(!manager.is_ready());
    let notes = log.all();
    assert_eq!((notes.len(), &*notes[0]), (4, "Ok(\"default/a\")"));
    for read in &notes[1..] {
        assert!(read.contains("/api/v1/configmaps") && read.contains("planted panic while sending"), "{read}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_when_its_informer_panics_returns_the_panic() {
    let (manager, network, _server) = fragile().await;
    manager.declare(kind::<ConfigMap>()).unwrap();
    let running = run(&manager).await;
    network.fail("watch=true", Fault::Refused);
    network.cut();
    settle().await;
    // The watch is down, so that a read of this object waits.
    manager.client().create(&map("new", "1")).await.unwrap();
    let maps = manager.client().objects::<ConfigMap>();
    let (new, started) = (key("new"), Instant::now());
    let panic = async {
        sleep(Duration::from_secs(1)).await;
        network.mend();
        network.fail("watch=true", Fault::Panic);
    };
    let all = ListQuery::all();
    let (read, list, ()) = tokio::join!(maps.get_opt(&new), maps.list(&all), panic);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(1) && waited < Duration::from_secs(5), "the reads ended after {waited:?}");
    for error in [read.unwrap_err(), list.unwrap_err()] {
        assert!(!error.is_stale(), "{error}");
        let text = error.to_string();
        assert!(text.contains("/api/v1/configmaps") && text.contains("planted panic while sending"), "{text}");
    }
    running.ended().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_declared_while_the_manager_runs_and_panics_stops_all() {
    let (manager, network, _server) = fragile().await;
    let log = Log::new();
    manager.add("orderly", orderly(&log)).unwrap();
    let running = run(&manager).await;
    network.fail("configmaps", Fault::Panic);
    manager.declare(kind::<ConfigMap>()).unwrap();
    let text = running.ended().await.unwrap_err().to_string();
    assert!(text.contains("/api/v1/configmaps") && text.contains("planted panic while sending"), "{text}");
    assert_eq!(log.all(), ["stopped in order"]);
}
