//! What starts while some caches have not synced, and what the log shows of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_client::DynamicObject;
use steersman_runtime::{
    Action, Context, Kind, Manager, Object, ObjectKey, ReconcileError, StopSignal, dynamic, kind, reconcile_fn,
};
use steersman_testing::Embedded;
use tokio::time::{Instant, sleep};

use crate::kinds::{boats, install, launch};
use crate::support::*;
use crate::support::{Fault, faulty_network};

/// A controller that logs its keys.
fn noting<K: Object>(manager: &Manager, watched: Kind<K>, name: &str, log: &Log<String>) {
    let (log, controller) = (log.clone(), name.to_owned());
    let reconciler = reconcile_fn(move |_: Context<K>, key: ObjectKey| {
        log.note(format!("{controller}: {key}"));
        async { Ok(Action::done()) }
    });
    manager.controller(watched).named(name).complete(reconciler).unwrap();
}

/// A runnable that logs its start.
fn noting_runnable(manager: &Manager, log: &Log<String>) {
    let log = log.clone();
    let run = move |stop: StopSignal| async move {
        log.note("runnable");
        stop.stopped().await;
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", run).unwrap();
}

fn warnings(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("WARN") && line.contains("waits for")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_holds_up_its_own_controllers_only() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    noting(&manager, kind::<ConfigMap>().namespace("default"), "maps", &log);
    noting(&manager, dynamic(&boats()), "boats", &log);
    noting_runnable(&manager, &log);
    let running = start(&manager);
    eventually("what can start has started", || log.len() == 2).await;
    let mut started = log.take();
    started.sort();
    assert_eq!(started, ["maps: default/a", "runnable"]);
    sleep(LONG).await;
    assert!(!manager.is_ready(), "a controller has not started");
    Maps::new(&client).create("b").await;
    eventually("the controller goes on", || log.len() == 1).await;
    install(&client).await;
    launch(&client, "ferry").await;
    eventually("the other has started", || log.len() == 2).await;
    assert_eq!(log.all(), ["maps: default/b", "boats: default/ferry"]);
    assert!(manager.is_ready());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_forbidden_holds_up_its_own_controllers_and_the_runnables() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let (network, through) = faulty_network(&server);
    network.fail("secrets", Fault::Status(403));
    let manager = Manager::new(through);
    let log = Log::new();
    noting(&manager, kind::<ConfigMap>().namespace("default"), "maps", &log);
    noting(&manager, kind::<Secret>(), "secrets", &log);
    noting_runnable(&manager, &log);
    let running = start(&manager);
    eventually("the controller has started", || log.len() == 1).await;
    sleep(LONG).await;
    assert_eq!(log.all(), ["maps: default/a"], "runnables may read everything that is declared");
    assert!(!manager.is_ready());
    network.mend();
    eventually("the manager is ready", || manager.is_ready()).await;
    eventually("the runnable has started", || log.len() == 2).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_installed_while_the_manager_waits_is_noticed_within_five_seconds() {
    for waited in [1, 60, 600, 3_600] {
        let (manager, client) = manager();
        let log = Log::new();
        noting(&manager, dynamic(&boats()), "boats", &log);
        let running = start(&manager);
        sleep(Duration::from_secs(waited)).await;
        install(&client).await;
        let installed = Instant::now();
        eventually("the manager is ready", || manager.is_ready()).await;
        assert!(installed.elapsed() <= Duration::from_secs(5), "after {waited} s: {:?}", installed.elapsed());
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_manager_waits_for_is_logged_within_seconds_and_then_every_ten() {
    let (manager, client) = manager();
    let (logged, _guard) = traced();
    let log = Log::new();
    noting(&manager, kind::<ConfigMap>(), "maps", &log);
    noting(&manager, dynamic(&boats()), "boats", &log);
    let running = start(&manager);
    sleep(Duration::from_millis(3_100)).await;
    let text = logged.text();
    let [line] = warnings(&text)[..] else { panic!("one line: {text}") };
    for part in ["the manager waits for its caches", "/apis/harbour.test/v1/boats", "CustomResourceDefinition", "boats"]
    {
        assert!(line.contains(part), "{part:?} is missing: {line}");
    }
    assert!(!line.contains("configmaps") && !line.contains("maps\""), "only what is missing: {line}");
    assert!(line.len() < 300, "{} bytes: {line}", line.len());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(warnings(&logged.text()).len(), 7, "{}", logged.text());
    assert!(!logged.text().contains("caches synced"), "{}", logged.text());
    let attempts = logged.text().matches("WARN steersman_cache::reflector").count();
    assert!((1..=2).contains(&attempts), "a reflector repeats the same failure once a minute at most: {attempts}");
    install(&client).await;
    eventually("the manager is ready", || manager.is_ready()).await;
    let reminders = warnings(&logged.text()).len();
    sleep(LONG).await;
    let text = logged.text();
    assert_eq!(warnings(&text).len(), reminders, "nothing is waited for any more");
    assert_eq!(text.matches("INFO steersman_runtime::manager::start: caches synced").count(), 1, "{text}");
    for controller in ["maps", "boats"] {
        let started = |line: &&str| line.contains("controller started") && line.contains(&format!("{controller:?}"));
        let lines: Vec<_> = text.lines().filter(started).collect();
        assert!(lines.len() == 1 && lines[0].contains("INFO"), "{text}");
    }
    running.stop().await.unwrap();
}

/// The first line that names what the manager waits for, if requests fail like this.
async fn first_warning(fault: Fault) -> String {
    let (network, through) = faulty_network(&Embedded::empty());
    network.fail("", fault);
    let manager = Manager::new(through);
    for watched in ["a", "b", "c", "d", "e"] {
        manager.declare(kind::<ConfigMap>().namespace(watched)).ok();
    }
    manager.declare(kind::<Secret>()).unwrap();
    let (logged, _guard) = traced();
    let running = start(&manager);
    sleep(Duration::from_millis(3_500)).await;
    let text = logged.text();
    running.stop().await.unwrap();
    let [line] = warnings(&text)[..] else { panic!("one line: {text}") };
    assert!(line.contains("/api/v1/secrets") && line.contains("configmaps"), "{line}");
    assert!(line.len() < 300, "{} bytes: {line}", line.len());
    line.to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_log_shows_why_a_cache_is_missing() {
    let line = first_warning(Fault::Refused).await;
    assert!(line.contains("connection refused"), "{line}");
    let line = first_warning(Fault::Silence).await;
    assert!(line.contains("no response"), "{line}");
    let line = first_warning(Fault::Status(403)).await;
    assert!(line.contains("forbidden") && line.contains("list") && line.contains("watch"), "{line}");
    let line = first_warning(Fault::Status(500)).await;
    assert!(line.contains("500"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_after_it_has_refused_is_logged_as_silent() {
    let (network, through) = faulty_network(&Embedded::empty());
    network.fail("", Fault::Refused);
    let manager = Manager::new(through);
    manager.declare(kind::<Secret>()).unwrap();
    let (logged, _guard) = traced();
    let running = start(&manager);
    sleep(Duration::from_millis(3_500)).await;
    network.mend();
    network.fail("", Fault::Silence);
    sleep(Duration::from_secs(20)).await;
    let text = logged.text();
    running.stop().await.unwrap();
    let last = warnings(&text).pop().unwrap().to_owned();
    assert!(warnings(&text)[0].contains("connection refused"), "{text}");
    assert!(last.contains("no response for ") && !last.contains("refused"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_server_runs_while_caches_wait_and_stops_last() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let (network, through) = faulty_network(&server);
    network.fail("configmaps", Fault::Refused);
    let manager = Manager::new(through);
    let log = Log::new();
    let (notes, probed) = (log.clone(), manager.clone());
    let probes = move |stop: StopSignal| async move {
        notes.note(format!("server starts, ready: {}", probed.is_ready()));
        stop.stopped().await;
        notes.note(format!("server stops, ready: {}, caches: {}", probed.is_ready(), probed.status().len()));
        Ok::<_, ReconcileError>(())
    };
    manager.add_server("probes", probes).unwrap();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
        let notes = notes.clone();
        async move {
            sleep(Duration::from_secs(5)).await;
            notes.note("reconcile ends");
            Ok(Action::done())
        }
    });
    let controller = manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let notes = log.clone();
    let runnable = move |stop: StopSignal| async move {
        stop.stopped().await;
        sleep(Duration::from_secs(5)).await;
        notes.note("runnable ends");
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    let running = start(&manager);
    settle().await;
    assert_eq!(log.take(), ["server starts, ready: false"]);
    // A runnable that is added now does not wait either.
    let notes = log.clone();
    let metrics = move |stop: StopSignal| async move {
        notes.note("metrics start");
        stop.stopped().await;
        Ok::<_, ReconcileError>(())
    };
    manager.add_server("metrics", metrics).unwrap();
    settle().await;
    assert_eq!(log.take(), ["metrics start"]);
    network.mend();
    eventually("a reconcile runs", || controller.metrics().active == 1).await;
    running.stop().await.unwrap();
    assert_eq!(log.all(), ["reconcile ends", "runnable ends", "server stops, ready: false, caches: 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_stops_all_and_is_named() {
    let (manager, _) = manager();
    manager.declare(dynamic(&boats())).unwrap();
    manager.add_server("probes", |_| async { Err::<(), _>(std::io::Error::other("the port is taken")) }).unwrap();
    let text = start(&manager).ended().await.unwrap_err().to_string();
    assert!(text.contains("probes") && text.contains("the port is taken"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_waits_can_be_stopped() {
    let (manager, _) = manager();
    let log = Log::new();
    noting(&manager, dynamic(&boats()), "boats", &log);
    let reconciler = reconcile_fn(|_: Context<DynamicObject>, _| async { Ok(Action::done()) });
    let controller = manager.controller(dynamic(&boats())).named("more").complete(reconciler).unwrap();
    let running = start(&manager);
    settle().await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(1), "{:?}", stopping.elapsed());
    assert!(controller.watch(kind::<Secret>(), |_| Vec::new()).is_err(), "its queue is closed");
}
