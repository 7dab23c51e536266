//! The jobs of controllers do the work that they report.

use steersman_bench::contestant::{Ask, Outcome};
use steersman_bench::own;
use steersman_bench::pods::Shape;
use steersman_bench::reconcile::{self, Reading};
use steersman_bench::replay::Replay;
use tokio::net::TcpListener;

/// What to ask of a contestant of a replay that lives as long as the runtime.
async fn ask(job: &str, replay: Replay, size: u64, events: u64) -> Ask {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = Some(format!("http://{}", listener.local_addr().expect("a listener has an address")));
    tokio::spawn(replay.serve(listener));
    Ask { job: job.to_owned(), size, url, events, workers: 4, window: 0, kubeconfig: None, started: None }
}

fn figure(outcome: &Outcome, name: &str) -> f64 {
    outcome.figures.iter().find(|(known, _)| *known == name).expect("the figure is there").1
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_is_reconciled_once_whether_it_is_read_whole_or_in_part() {
    for reading in [Reading::Typed, Reading::View] {
        let ask = ask("reconcile", Replay::new(120, Shape::Plain, 0), 120, 0).await;
        let outcome = reconcile::run(&ask, reading).await.expect("the job is done");
        assert_eq!(outcome.count, 120, "{reading:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_is_reconciled_in_every_round() {
    let ask = ask("reconcile-noop", Replay::of_small_objects(300, 1), 300, 0).await;
    let outcome = reconcile::run(&ask, Reading::Typed).await.expect("the job is done");
    assert_eq!(outcome.count as f64, 300.0 * figure(&outcome, "repeats"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_object_of_ten_kinds_is_reconciled_before_the_manager_is_at_rest() {
    let ask = ask("idle", Replay::of_small_objects(20, 10), 20, 0).await;
    let outcome = reconcile::run(&ask, Reading::Typed).await.expect("the job is done");
    assert_eq!(outcome.count, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_timed_from_its_last_byte() {
    let ask = ask("reconcile-own", Replay::new(150, Shape::Plain, 100).with_rate(1000), 150, 100).await;
    let outcome = own::run(&ask).await.expect("the job is done");
    assert_eq!(outcome.count, 100);
    assert!(figure(&outcome, "p50_us") > 0.0 && figure(&outcome, "p50_us") <= figure(&outcome, "p99_us"));
}
