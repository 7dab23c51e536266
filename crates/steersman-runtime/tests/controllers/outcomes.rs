//! The effect of the result of a reconcile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::Client;
use steersman_runtime::{
    Action, Context, Controller, FlightRecorder, Manager, ObjectKey, ReconcileError, kind, reconcile_fn,
};
use steersman_testing::Embedded;
use steersman_workqueue::ItemFastSlowRateLimiter;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// The action of the next reconcile.
#[derive(Clone, Copy)]
enum Do {
    Done,
    Again(u64),
    Fail,
    FailForGood,
    Panic,
    Hang,
}

type Script = Arc<Mutex<VecDeque<Do>>>;

/// A controller that follows the script and then does nothing, and the times of its reconciles
/// since the start of the test.
struct Scripted {
    manager: Manager,
    maps: Maps,
    controller: Controller,
    log: Log<(String, Duration)>,
}

fn scripted(script: impl IntoIterator<Item = Do>) -> Scripted {
    let (manager, client) = manager();
    scripted_in(manager, &client, script)
}

fn scripted_in(manager: Manager, client: &Client, script: impl IntoIterator<Item = Do>) -> Scripted {
    let log = Log::new();
    let (notes, script, began) = (log.clone(), Script::new(Mutex::new(script.into_iter().collect())), Instant::now());
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.push((key.name().to_owned(), began.elapsed()));
        let next = script.lock().unwrap().pop_front();
        async move {
            match next.unwrap_or(Do::Done) {
                Do::Done => Ok(Action::done()),
                Do::Again(seconds) => Ok(Action::requeue_after(Duration::from_secs(seconds))),
                Do::Fail => Err(ReconcileError::message("it is not there yet")),
                Do::FailForGood => Err(ReconcileError::terminal("it never will be")),
                Do::Panic => panic!("it is too much"),
                Do::Hang => std::future::pending().await,
            }
        }
    });
    let controller = manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .reconcile_timeout(Duration::from_secs(40))
        .complete(reconciler)
        .unwrap();
    Scripted { manager, maps: Maps::new(client), controller, log }
}

/// The time since the previous reconcile, in milliseconds.
fn gaps(log: &Log<(String, Duration)>) -> Vec<u128> {
    let times: Vec<_> = log.all().iter().map(|(_, time)| time.as_millis()).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn done_means_until_something_changes() {
    let test = scripted([]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(LONG).await;
    assert_eq!(test.log.len(), 1);
    test.maps.set("a", "2").await;
    sleep(LONG).await;
    assert_eq!(test.log.len(), 2);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_backs_off_per_key() {
    let script = [Do::Fail; 8].into_iter().chain([Do::Done, Do::Fail, Do::Fail, Do::Done]);
    let test = scripted(script);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(LONG).await;
    assert_eq!(test.log.len(), 9, "eight failures and a success");
    for (index, gap) in gaps(&test.log).into_iter().enumerate() {
        let wanted = 5 << index;
        // Timers are exact to a millisecond.
        assert!((wanted..=wanted + 2).contains(&gap), "{index}: {gap} ms, not {wanted}");
    }
    let metrics = test.controller.metrics();
    assert_eq!((metrics.reconciles_total, metrics.errors_total), (9, 8));
    // The back-off begins again at 5 ms.
    test.log.take();
    test.maps.set("a", "2").await;
    sleep(LONG).await;
    let gaps = gaps(&test.log);
    assert!(gaps.len() == 2 && (5..=7).contains(&gaps[0]) && (10..=12).contains(&gaps[1]), "{gaps:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_key_do_not_slow_another() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    maps.create("bad").await;
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.note(key.name());
        async move { if key.name() == "bad" { Err(ReconcileError::message("bad")) } else { Ok(Action::done()) } }
    });
    let controller = manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconciler).unwrap();
    let running = run(&manager).await;
    sleep(Duration::from_secs(60)).await;
    assert!(controller.failures(&key("bad")) > 10);
    log.take();
    let asked = Instant::now();
    maps.create("good").await;
    eventually("it is reconciled", || log.all().contains(&"good".to_owned())).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!((controller.failures(&key("good")), controller.last_error(&key("good")).is_none()), (0, true));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_is_looked_at_before_the_back_off_is_over() {
    let test = scripted([Do::Fail; 14]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(Duration::from_secs(42)).await;
    // After 14 failures it waits for 41 s.
    assert_eq!(test.log.len(), 14);
    test.maps.set("a", "2").await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(test.log.len(), 15);
    running.stop().await.unwrap();
}

/// Then no clock is read for a key that is done.
#[tokio::test(start_paused = true)]
async fn requeue_after_counts_from_now_without_metrics_and_recorder() {
    let server = Embedded::empty();
    let client = client(&server);
    let manager = Manager::builder(client.clone()).without_controller_metrics();
    let manager = manager.flight_recorder(FlightRecorder::off()).build();
    let test = scripted_in(manager, &client, [Do::Again(100), Do::Done]);
    let running = run(&test.manager).await;
    // The queue is older than the delay.
    sleep(LONG).await;
    test.maps.create("a").await;
    sleep(LONG).await;
    let gaps = gaps(&test.log);
    assert!(matches!(gaps[..], [100_000..=100_010]), "{gaps:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requeue_after_comes_back_then_and_forgets_failures() {
    let test = scripted([Do::Fail, Do::Fail, Do::Again(100), Do::Fail, Do::Done]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(Duration::from_secs(50)).await;
    assert_eq!((test.log.len(), test.controller.failures(&key("a"))), (3, 0), "it is no failure");
    assert!(test.controller.last_error(&key("a")).is_none());
    sleep(LONG).await;
    let gaps = gaps(&test.log);
    assert_eq!(gaps.len(), 4);
    assert!((100_000..=100_002).contains(&gaps[2]), "{gaps:?}");
    assert!((5..=7).contains(&gaps[3]), "failures were forgotten: {gaps:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried() {
    let test = scripted([Do::Fail, Do::FailForGood]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(LONG).await;
    assert_eq!(test.log.len(), 2);
    assert_eq!(test.controller.failures(&key("a")), 2);
    let last = test.controller.last_error(&key("a")).unwrap();
    assert!(last.is_terminal() && last.to_string() == "it never will be", "{last}");
    test.maps.set("a", "2").await;
    sleep(LONG).await;
    assert_eq!(test.log.len(), 3, "something has changed");
    assert_eq!(test.controller.failures(&key("a")), 0);
    assert!(test.controller.last_error(&key("a")).is_none());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_error_of_its_reconcile_only() {
    let test = scripted([Do::Panic]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    eventually("it was tried again", || test.log.len() == 2).await;
    let gaps = gaps(&test.log);
    assert!((5..=7).contains(&gaps[0]), "with back-off: {gaps:?}");
    settle().await;
    assert_eq!((test.controller.metrics().errors_total, test.controller.metrics().reconciles_total), (1, 2));
    assert!(test.manager.is_ready());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_failures_and_the_last_error_of_a_key_can_be_asked_for() {
    // The second one that hangs keeps the third failure in sight.
    let test = scripted([Do::Fail, Do::Panic, Do::Hang, Do::Hang]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    let asked = |times| test.controller.failures(&key("a")) == times;
    eventually("it has panicked", || asked(2)).await;
    let last = test.controller.last_error(&key("a")).unwrap().to_string();
    assert_eq!(last, "the reconcile panicked: it is too much");
    eventually("it took too long", || asked(3)).await;
    let last = test.controller.last_error(&key("a")).unwrap().to_string();
    assert!(last.contains("did not end within 40s"), "{last}");
    eventually("it succeeded", || asked(0)).await;
    assert!(test.controller.last_error(&key("a")).is_none());
    assert!(test.controller.last_error(&key("never heard of")).is_none());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_ended() {
    let test = scripted([Do::Hang]);
    test.maps.create("a").await;
    let running = run(&test.manager).await;
    sleep(LONG).await;
    let gaps = gaps(&test.log);
    assert_eq!(gaps.len(), 1);
    assert!((40_005..=40_010).contains(&gaps[0]), "{gaps:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_rate_limiter_sets_the_delays() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let (notes, began) = (log.clone(), Instant::now());
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        notes.push((key.name().to_owned(), began.elapsed()));
        async { Err(ReconcileError::message("no")) }
    });
    let limiter = ItemFastSlowRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60), 2);
    manager.controller(kind::<ConfigMap>().namespace("default")).rate_limiter(limiter).complete(reconciler).unwrap();
    let running = run(&manager).await;
    sleep(Duration::from_secs(130)).await;
    let seconds: Vec<_> = gaps(&log).into_iter().map(|gap| gap / 1000).collect();
    assert_eq!(seconds, [1, 1, 60, 60]);
    running.stop().await.unwrap();
}
