//! Replicas of one program: one of them acts.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_client::{Client, World};
use steersman_runtime::leader_election::{LeaderElection, Timing};
use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::time::{Instant, timeout};

use crate::support::{Log, Maps, Running, eventually, named, settle, start};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A replica with a network of its own. Its controller logs what it reconciles.
pub(crate) struct Replica {
    pub(crate) network: FaultyNetwork,
    manager: Manager,
    world: World,
    pub(crate) running: Running,
}

pub(crate) fn election(name: &str) -> LeaderElection {
    // A standby that polled would not hide a watch that fails.
    let timing = Timing { fallback_poll: 600 * SECOND, ..Timing::default() };
    LeaderElection::new("operator").identity(name).timing(timing)
}

async fn reconcile(
    name: String,
    log: Log<String>,
    ctx: Context<ConfigMap>,
    key: ObjectKey,
) -> Result<Action, ReconcileError> {
    log.push(format!("{name} {}", key.name()));
    if ctx.object(&key).await?.is_some() {
        let secret = Secret { metadata: named(&format!("{}-{name}", key.name())), ..Secret::default() };
        // A leader of an earlier term may have created it.
        ctx.client().create(&secret).await.map(drop).or_else(|error| match error {
            error if error.is_already_exists() => Ok(()),
            error => Err(error),
        })?;
    }
    Ok(Action::done())
}

pub(crate) fn replica(server: &Embedded, election: LeaderElection, name: &str, log: &Log<String>) -> Replica {
    let network = FaultyNetwork::new(server);
    let world = World::seeded(name.len() as u64, "2026-01-31T10:00:00Z".parse().unwrap());
    let manager = Manager::builder(network.client()).world(world.clone()).leader_election(election).unwrap().build();
    let (name, log) = (name.to_owned(), log.clone());
    manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .complete(reconcile_fn(move |ctx, key| reconcile(name.clone(), log.clone(), ctx, key)))
        .unwrap();
    let running = start(&manager);
    Replica { network, manager, world, running }
}

impl Replica {
    pub(crate) fn leads(&self) -> bool {
        self.manager.leadership().unwrap().is_leader()
    }

    pub(crate) async fn is_elected(&self) {
        eventually("the replica leads", || self.leads()).await;
    }

    pub(crate) async fn is_ready(&self) {
        eventually("the replica is ready", || self.manager.is_ready()).await;
    }
}

async fn lease(server: &Embedded) -> Lease {
    client(server).namespaced::<Lease>("default").get("operator").await.unwrap()
}

fn client(server: &Embedded) -> Client {
    server.client()
}

pub(crate) async fn holder(server: &Embedded) -> (String, i32) {
    let spec = lease(server).await.spec.unwrap();
    (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap())
}

#[tokio::test(start_paused = true)]
async fn one_replica_acts_and_the_other_is_ready() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let two = replica(&server, election("two"), "two", &log);
    two.is_ready().await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(log.all(), ["one x"]);
    assert!(one.leads() && !two.leads());
    assert_eq!(two.manager.leadership().unwrap().holder(), "one");
    assert_eq!(holder(&server).await, ("one".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_hands_over_at_once() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let two = replica(&server, election("two"), "two", &log);
    two.is_ready().await;
    Maps::new(&client(&server)).create("x").await;
    settle().await;
    let stopped = Instant::now();
    one.running.stop().await.unwrap();
    two.is_elected().await;
    assert!(stopped.elapsed() < SECOND, "{:?}", stopped.elapsed());
    settle().await;
    assert_eq!(log.all(), ["one x", "two x"], "the new leader looks at everything");
    assert_eq!(holder(&server).await, ("two".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_vanishes_is_followed_when_its_lease_is_over() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let two = replica(&server, election("two"), "two", &log);
    two.is_ready().await;
    let killed = Instant::now();
    one.running.abort();
    two.is_elected().await;
    let waited = killed.elapsed().as_secs();
    assert!((13..=16).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_stops_before_another_may_lead() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let cut = Instant::now();
    one.network.fail("leases", Fault::Refused);
    let error = one.running.ended().await.unwrap_err();
    assert!(matches!(&error, Error::LeadershipLost { lease, .. } if lease == "operator"), "{error}");
    assert!(error.to_string().contains("no renewal succeeded within the renew deadline"), "{error}");
    let waited = cut.elapsed().as_secs();
    assert!((8..=10).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_delay_the_loss() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let silent = Instant::now();
    one.network.fail("leases", Fault::Silence);
    let error = one.running.ended().await.unwrap_err();
    assert!(error.to_string().contains("no renewal succeeded within the renew deadline"), "{error}");
    // The last request began a second before the deadline and has a limit of five seconds.
    let waited = silent.elapsed();
    assert!((8 * SECOND..=10 * SECOND + SECOND / 100).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_between_two_calls_is_not_missed() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one").step_down(), "one", &log);
    let leadership = one.manager.leadership().unwrap();
    let mut changes = leadership.changes();
    one.is_elected().await;
    // The term has begun before this call.
    timeout(60 * SECOND, changes.changed()).await.expect("the change is reported");
    assert!(leadership.is_leader());
    one.network.fail("leases", Fault::Refused);
    eventually("the leadership is lost", || !leadership.is_leader()).await;
    settle().await;
    timeout(60 * SECOND, changes.changed()).await.expect("the change is reported");
    assert!(!leadership.is_leader());
    // Renewals are no changes.
    one.network.mend();
    one.is_elected().await;
    settle().await;
    timeout(60 * SECOND, changes.changed()).await.expect("the change is reported");
    assert!(timeout(60 * SECOND, changes.changed()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_write_after_a_long_pause_is_not_sent() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one").step_down(), "one", &log);
    one.is_elected().await;
    // The machine sleeps past the renew deadline. A reconcile that begins before the election has
    // noticed must not write.
    one.network.take_requests();
    one.world.suspend(11 * SECOND);
    assert!(!one.leads());
    Maps::new(&client(&server)).create("x").await;
    eventually("the reconcile has begun", || !log.is_empty()).await;
    let writes = || one.network.requests().iter().filter(|request| request.starts_with("POST /api/v1/")).count();
    assert_eq!(writes(), 0);
    // The replica contends again, and the failed key is retried.
    eventually("the Secret is written in the next term", || writes() == 1).await;
    assert!(one.leads());
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_steps_down_contends_again() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let one = replica(&server, election("one").step_down(), "one", &log);
    one.is_elected().await;
    let first = one.manager.leadership().unwrap().epoch().unwrap();
    settle().await;
    one.network.fail("leases", Fault::Refused);
    eventually("the leadership is lost", || !one.leads()).await;
    let two = replica(&server, election("two"), "two", &log);
    two.is_elected().await;
    one.network.mend();
    settle().await;
    assert!(!one.leads());
    two.running.stop().await.unwrap();
    one.is_elected().await;
    let second = one.manager.leadership().unwrap().epoch().unwrap();
    assert_eq!((second.lease_uid, second.transitions), (first.lease_uid, first.transitions + 2));
    settle().await;
    assert_eq!(log.all(), ["one x", "two x", "one x"], "each term looks at everything");
    one.running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_overruns_the_grace_period_keeps_the_lease() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("x").await;
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    let builder = Manager::builder(client(&server)).world(world).grace_period(5 * SECOND);
    let manager = builder.leader_election(election("one")).unwrap().build();
    let stuck = Arc::new(tokio::sync::Notify::new());
    let begun = Arc::clone(&stuck);
    manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(move |_: Context<ConfigMap>, _| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                std::future::pending::<Result<Action, ReconcileError>>().await
            }
        }))
        .unwrap();
    let running = start(&manager);
    stuck.notified().await;
    assert!(matches!(running.stop().await.unwrap_err(), Error::Grace { .. }));
    assert_eq!(holder(&server).await.0, "one");
}

#[tokio::test(start_paused = true)]
async fn a_stop_after_a_pause_does_not_touch_the_new_holder() {
    let (server, log) = (Embedded::empty(), Log::new());
    // Without it, the manager would end at the loss and not come to its release.
    let one = replica(&server, election("one").step_down(), "one", &log);
    one.is_elected().await;
    one.network.fail("leases", Fault::Refused);
    let two = replica(&server, election("two"), "two", &log);
    two.is_elected().await;
    one.network.mend();
    one.running.stop().await.unwrap();
    assert_eq!(holder(&server).await, ("two".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn controllers_that_need_no_leader_and_runnables_run_on_every_replica() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let one = replica(&server, election("one"), "one", &Log::new());
    one.is_elected().await;
    let world = World::seeded(2, "2026-01-31T10:00:00Z".parse().unwrap());
    let builder = Manager::builder(client(&server)).world(world);
    let manager = builder.leader_election(election("two")).unwrap().build();
    let reconciled = log.clone();
    manager
        .controller(kind::<ConfigMap>())
        .on_every_replica()
        .complete(reconcile_fn(move |_: Context<ConfigMap>, _| {
            let reconciled = reconciled.clone();
            async move {
                reconciled.push("controller".to_owned());
                Ok::<_, ReconcileError>(Action::done())
            }
        }))
        .unwrap();
    let (everywhere, elected) = (log.clone(), log.clone());
    manager
        .add("everywhere", move |_| async move {
            everywhere.push("runnable".to_owned());
            Ok::<_, ReconcileError>(())
        })
        .unwrap();
    manager
        .add_elected("elected", move |stop| {
            let elected = elected.clone();
            async move {
                elected.push("elected".to_owned());
                stop.stopped().await;
                Ok::<_, ReconcileError>(())
            }
        })
        .unwrap();
    let running = start(&manager);
    eventually("the second replica is ready", || manager.is_ready()).await;
    settle().await;
    let mut seen = log.take();
    seen.sort();
    assert_eq!(seen, ["controller", "runnable"]);
    one.running.stop().await.unwrap();
    eventually("the elected runnable starts", || log.all() == ["elected"]).await;
    running.stop().await.unwrap();
}

#[test]
fn the_default_durations_are_those_of_controller_runtime() {
    let Timing { lease_duration, renew_deadline, retry_period, .. } = Timing::default();
    assert_eq!([lease_duration, renew_deadline, retry_period], [15 * SECOND, 10 * SECOND, 2 * SECOND]);
}

#[test]
fn durations_that_allow_two_leaders_are_refused() {
    let cases = [
        (Timing { renew_deadline: 13 * SECOND, ..Timing::default() }, "at most 0.8 times lease_duration"),
        (Timing { renew_deadline: 2 * SECOND, ..Timing::default() }, "more than 1.2 times retry_period"),
        (Timing { lease_duration: Duration::from_millis(15_500), ..Timing::default() }, "whole number of seconds"),
        (Timing { retry_period: Duration::ZERO, ..Timing::default() }, "retry_period is 0ns"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    for (timing, problem) in cases {
        let election = LeaderElection::new("operator").timing(timing);
        let error = Manager::builder(Embedded::empty().client()).leader_election(election).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[tokio::test]
async fn a_lease_has_the_name_of_an_object() {
    let build = |name: &str| Manager::builder(Embedded::empty().client()).leader_election(LeaderElection::new(name));
    for valid in ["operator", "operator.example.com", "0a1b2c3d.example.com"] {
        assert!(build(valid).is_ok(), "{valid}");
    }
    let long = "a".repeat(254);
    for (name, problem) in [
        ("", "the Lease has no name"),
        ("Network Operator", "invalid name \"Network Operator\" of the Lease: a lowercase RFC 1123 subdomain"),
        ("a/b", "invalid name \"a/b\" of the Lease"),
        (&*long, "must be no more than 253"),
    ] {
        let error = build(name).unwrap_err();
        assert!(matches!(error, Error::InvalidLeaderElection { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
}
