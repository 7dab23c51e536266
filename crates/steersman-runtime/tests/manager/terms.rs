//! What ends with a term of leadership, and what goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::client::Body;
use steersman_client::{Client, DeleteParams, World};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::{
    Action, Context, Error, Manager, ManagerBuilder, ReconcileError, StopSignal, kind, reconcile_fn,
};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use crate::leader_election::{SECOND, election, holder, replica};
use crate::support::{Log, Maps, client, eventually, named, settle, start};

fn builder(client: Client, election: LeaderElection) -> ManagerBuilder {
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    Manager::builder(client).world(world).leader_election(election).unwrap()
}

/// Logs that it was dropped.
struct Cut(Log<String>, &'static str);

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.push(format!("{} cut", self.1));
    }
}

/// Adds a controller whose reconciles take this time. Each reconcile notifies when it begins, and
/// logs that it ends.
fn add_slow(manager: &Manager, name: &'static str, time: Duration, everywhere: bool, log: &Log<String>) -> Arc<Notify> {
    let begun = Arc::new(Notify::new());
    let (notify, log) = (Arc::clone(&begun), log.clone());
    let mut controller = manager.controller(kind::<ConfigMap>()).named(name);
    if everywhere {
        controller = controller.on_every_replica();
    }
    controller
        .complete(reconcile_fn(move |_: Context<ConfigMap>, _| {
            let (notify, log) = (Arc::clone(&notify), log.clone());
            async move {
                let cut = Cut(log, name);
                notify.notify_one();
                sleep(time).await;
                cut.0.push(format!("{name} ended"));
                std::mem::forget(cut);
                Ok(Action::done())
            }
        }))
        .unwrap();
    begun
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_is_lost_while_the_manager_stops_ends_its_reconciles() {
    for (step_down, removes) in [(false, false), (true, false), (true, true)] {
        let (server, log) = (Embedded::empty(), Log::new());
        Maps::new(&client(&server)).create("x").await;
        let network = FaultyNetwork::new(&server);
        let election = if step_down { election("one").step_down() } else { election("one") };
        let manager = builder(network.client(), election).build();
        let begun = Arc::new(Notify::new());
        let (notify, noted) = (Arc::clone(&begun), log.clone());
        let controller = manager
            .controller(kind::<ConfigMap>())
            .complete(reconcile_fn(move |_: Context<ConfigMap>, _| {
                let (notify, cut) = (Arc::clone(&notify), Cut(noted.clone(), "reconcile"));
                async move {
                    let _cut = cut;
                    notify.notify_one();
                    std::future::pending::<Result<Action, ReconcileError>>().await
                }
            }))
            .unwrap();
        let running = start(&manager);
        begun.notified().await;
        let stopping = Instant::now();
        network.fail("leases", Fault::Refused);
        if removes {
            manager.remove_controller(&controller).await.unwrap();
        }
        let stopped = running.stop().await;
        let waited = stopping.elapsed();
        assert!((8 * SECOND..=12 * SECOND + SECOND / 10).contains(&waited), "{waited:?}");
        assert_eq!(log.all(), ["reconcile cut"]);
        if step_down {
            stopped.unwrap();
        } else {
            let error = stopped.unwrap_err();
            assert!(matches!(error, Error::LeadershipLost { .. }), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_is_lost_while_the_manager_stops_ends_elected_runnables() {
    let (server, log) = (Embedded::empty(), Log::new());
    let network = FaultyNetwork::new(&server);
    let manager = builder(network.client(), election("one")).build();
    let noted = log.clone();
    manager
        .add_elected("stuck", move |_| {
            let cut = Cut(noted.clone(), "runnable");
            async move {
                let _cut = cut;
                std::future::pending::<Result<(), ReconcileError>>().await
            }
        })
        .unwrap();
    let running = start(&manager);
    eventually("the replica leads", || manager.leadership().unwrap().is_leader()).await;
    settle().await;
    let stopping = Instant::now();
    network.fail("leases", Fault::Refused);
    let error = running.stop().await.unwrap_err();
    let waited = stopping.elapsed();
    assert!((8 * SECOND..=12 * SECOND + SECOND / 10).contains(&waited), "{waited:?}");
    assert!(matches!(error, Error::LeadershipLost { .. }), "{error}");
    assert_eq!(log.all(), ["runnable cut"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_does_not_contend() {
    // One that was the leader, and a standby.
    for leads in [true, false] {
        let (server, log) = (Embedded::empty(), Log::new());
        Maps::new(&client(&server)).create("x").await;
        let other = (!leads).then(|| replica(&server, election("other"), "other", &Log::new()));
        if let Some(other) = &other {
            other.is_elected().await;
        }
        let network = FaultyNetwork::new(&server);
        let manager = builder(network.client(), election("one").step_down()).build();
        let begun = add_slow(&manager, "everywhere", 25 * SECOND, true, &log);
        let running = start(&manager);
        begun.notified().await;
        let leadership = manager.leadership().unwrap().clone();
        eventually("the leader is known", || !leadership.holder().is_empty()).await;
        assert_eq!(leadership.is_leader(), leads);
        let stopping = tokio::spawn(running.stop());
        settle().await;
        if let Some(other) = other {
            other.running.stop().await.unwrap();
        } else {
            network.fail("leases", Fault::Refused);
            eventually("the leadership is lost", || !leadership.is_leader()).await;
            network.mend();
        }
        let record = holder(&server).await;
        let mut changes = leadership.changes();
        while !stopping.is_finished() {
            assert!(!leadership.is_leader(), "leads: {leads}");
            tokio::select! {
                () = changes.changed() => {}
                () = sleep(SECOND) => {}
            }
        }
        stopping.await.unwrap().unwrap();
        assert_eq!(log.all(), ["everywhere ended"]);
        // Its own record is released at the end.
        let expected = if leads { (String::new(), record.1) } else { record };
        assert_eq!(holder(&server).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_leader_has_the_grace_period_after_a_loss() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let network = FaultyNetwork::new(&server);
    let manager = builder(network.client(), election("one")).build();
    let elected = add_slow(&manager, "elected", 1_000 * SECOND, false, &log);
    let everywhere = add_slow(&manager, "everywhere", 28 * SECOND, true, &log);
    let noted = log.clone();
    manager
        .add("runnable", async move |stop: StopSignal| {
            stop.stopped().await;
            sleep(5 * SECOND).await;
            noted.push("runnable ended".to_owned());
            Ok::<_, ReconcileError>(())
        })
        .unwrap();
    let running = start(&manager);
    elected.notified().await;
    everywhere.notified().await;
    network.fail("leases", Fault::Refused);
    let error = running.ended().await.unwrap_err();
    assert!(matches!(error, Error::LeadershipLost { .. }), "{error}");
    assert_eq!(log.all(), ["elected cut", "everywhere ended", "runnable ended"]);
}

/// A client whose requests for Leases take this time.
fn slow_leases(server: &Embedded, time: Duration) -> Client {
    let server = server.server().clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            if request.uri().path().contains("/leases") {
                sleep(time).await;
            }
            server.oneshot(request).await
        }
    });
    kube_client::Client::new(service, "default").into()
}

#[tokio::test(start_paused = true)]
async fn a_release_has_the_time_of_a_request_after_the_grace_period() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let slow = slow_leases(&server, SECOND);
    let manager = builder(slow, election("one")).grace_period(5 * SECOND).build();
    let begun = add_slow(&manager, "slow", 4 * SECOND + SECOND / 2, false, &log);
    let running = start(&manager);
    begun.notified().await;
    running.stop().await.unwrap();
    assert_eq!(log.all(), ["slow ended"]);
    assert_eq!(holder(&server).await, (String::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_of_an_ended_term_writes_nothing_in_the_next_one() {
    let (server, log) = (Embedded::empty(), Log::new());
    Maps::new(&client(&server)).create("x").await;
    let network = FaultyNetwork::new(&server);
    let manager = builder(network.client(), election("one").step_down()).build();
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&contexts);
    manager
        .controller(kind::<ConfigMap>())
        .complete(reconcile_fn(move |ctx: Context<ConfigMap>, _| {
            kept.lock().unwrap().push(ctx);
            async { Ok(Action::done()) }
        }))
        .unwrap();
    let running = start(&manager);
    let terms = async |count| {
        eventually("the object is reconciled", || count == contexts.lock().unwrap().len()).await;
    };
    terms(1).await;
    let context = |term: usize| contexts.lock().unwrap()[term].clone();
    let first = context(0).epoch().expect("it leads");
    network.fail("leases", Fault::Refused);
    eventually("the leadership is lost", || !manager.leadership().unwrap().is_leader()).await;
    assert_eq!(context(0).epoch(), None);
    let other = replica(&server, election("other"), "other", &log);
    other.is_elected().await;
    network.mend();
    other.running.stop().await.unwrap();
    terms(2).await;
    let secret = |name: &str| Secret { metadata: named(name), ..Secret::default() };
    let (old, new) = (context(0), context(1));
    assert_eq!((old.epoch(), new.epoch().unwrap().transitions), (None, first.transitions + 2));
    let refused = old.client().create(&secret("old")).await.unwrap_err();
    assert!(matches!(refused, Error::NotLeader(_)), "{refused}");
    let live = old.client().live().namespaced::<Secret>("default");
    assert!(live.create(&steersman_client::PostParams::default(), &secret("old")).await.is_err());
    new.client().create(&secret("new")).await.unwrap();
    // The client of the manager is for code that needs no leader.
    manager.client().create(&secret("ungated")).await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_makes_no_second_leader() {
    let (server, log) = (Embedded::empty(), Log::new());
    let one = replica(&server, election("one"), "one", &log);
    one.is_elected().await;
    let two = replica(&server, election("two"), "two", &log);
    two.is_ready().await;
    settle().await;
    let delete = async || {
        let leases = client(&server).namespaced::<Lease>("default");
        leases.delete("operator", &DeleteParams::default()).await.unwrap();
    };
    // The leader creates it again.
    delete().await;
    for _ in 0..200 {
        sleep(SECOND / 10).await;
        assert!(one.leads() && !two.leads());
    }
    assert_eq!(holder(&server).await, ("one".to_owned(), 1));
    // The leader cannot.
    one.network.fail("leases", Fault::Refused);
    delete().await;
    let deleted = Instant::now();
    while !two.leads() {
        sleep(SECOND / 10).await;
        assert!(!(one.leads() && two.leads()));
        assert!(deleted.elapsed() < 20 * SECOND, "the standby leads in the end");
    }
    assert!(matches!(one.running.ended().await, Err(Error::LeadershipLost { .. })));
}
