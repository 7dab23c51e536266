//! Replicas as processes of their own, on a real API server whose audit log is the judge.
//!
//! The Lease lasts 3 s, the renew deadline is 2 s, the retry period 1 s and the fallback poll of
//! standbys 10 minutes. Each test checks the order of requests in the log, and no durations.

mod cluster;
mod replica;

use jiff::Timestamp;
use nix::sys::signal::Signal;

use cluster::Cluster;
use replica::{LOST, Options, Replica, STOPPED};

fn steps_down() -> Options {
    Options { steps_down: true, ..Options::default() }
}

/// Splits replicas into the one that leads and the others.
fn leader_first(mut replicas: Vec<Replica>, leader: &str) -> Vec<Replica> {
    replicas.sort_by_key(|replica| replica.identity != leader);
    replicas
}

async fn start(cluster: &Cluster, identities: &[&'static str], options: &Options) -> Vec<Replica> {
    let start = cluster.now();
    let replicas: Vec<_> = identities.iter().map(|identity| Replica::start(cluster, identity, options)).collect();
    for identity in identities {
        cluster.contends(identity, start).await;
    }
    let leader = cluster.acts(identities, start, 1).await;
    leader_first(replicas, leader)
}

#[tokio::test]
async fn one_of_three_acts_and_a_killed_one_is_followed() {
    let cluster = Cluster::new().await;
    let mut replicas = start(&cluster, &["one", "two", "three"], &steps_down()).await;
    while replicas.len() > 1 {
        let leader = replicas.remove(0);
        cluster.acts(&[leader.identity], Timestamp::MIN, 20).await;
        leader.send(Signal::SIGKILL);
        let killed = cluster.now();
        let others: Vec<_> = replicas.iter().map(|replica| replica.identity).collect();
        let next = cluster.acts(&others, killed, 20).await;
        replicas = leader_first(replicas, next);
    }
    assert_eq!(cluster.one_acts(), 0);
    let transitions = cluster.lease().await.lease_transitions.unwrap();
    assert!(transitions >= 2, "{transitions}");
}

#[tokio::test]
async fn an_orderly_stop_hands_over_although_the_standby_does_not_poll() {
    let cluster = Cluster::new().await;
    let mut replicas = start(&cluster, &["one", "two"], &steps_down()).await;
    let (standby, mut leader) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    let stopped = cluster.now();
    leader.send(Signal::SIGTERM);
    assert_eq!(leader.end().await.code(), Some(STOPPED));
    cluster.acts(&[standby.identity], stopped, 20).await;
    let writes = cluster.lease_writes();
    let release = writes.iter().position(|write| write.by == leader.identity && write.holder.is_empty());
    let release = release.expect("the leader releases the Lease");
    let last_beat = cluster.beats().into_iter().rfind(|beat| beat.by == leader.identity).unwrap();
    assert!(last_beat.received < writes[release].received, "it writes nothing after the release");
    assert_eq!(writes[release + 1].holder, standby.identity);
    assert_eq!(cluster.one_acts(), 0);
}

#[tokio::test]
async fn a_leader_without_a_server_stops_before_another_may_start() {
    let mut cluster = Cluster::new().await;
    let stubborn = Options { stubborn: true, ..Options::default() };
    let mut replicas = start(&cluster, &["one", "two"], &stubborn).await;
    let (standby, mut leader) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    cluster.server_mut().stop_apiserver().unwrap();
    assert_eq!(leader.end().await.code(), Some(LOST), "it ends while the server is away");
    cluster.server_mut().start_apiserver().await.unwrap();
    let back = cluster.now();
    cluster.acts(&[standby.identity], back, 20).await;
    assert_eq!(cluster.one_acts(), 0);
}

#[tokio::test]
async fn no_write_of_a_replica_that_was_paused_passes_the_gate() {
    let cluster = Cluster::new().await;
    let stubborn = Options { stubborn: true, ..steps_down() };
    let mut replicas = start(&cluster, &["one", "two"], &stubborn).await;
    let (standby, leader) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    cluster.acts(&[leader.identity], Timestamp::MIN, 50).await;
    leader.send(Signal::SIGSTOP);
    let paused = cluster.now();
    cluster.acts(&[standby.identity], paused, 20).await;
    let resumed = cluster.now();
    leader.send(Signal::SIGCONT);
    let refused = |_: &Cluster| (leader.refusals() > 0).then_some(());
    cluster.shows("the gate keeps a write back", refused).await;
    cluster.contends(leader.identity, resumed).await;
    cluster.acts(&[standby.identity], cluster.now(), 20).await;
    let late = cluster.one_acts();
    println!("{late} late writes, all refused with 409; {} kept back by the gate", leader.refusals());
}

#[tokio::test]
async fn a_stop_after_a_pause_leaves_the_lease_of_the_new_holder_alone() {
    let cluster = Cluster::new().await;
    let mut replicas = start(&cluster, &["one", "two"], &steps_down()).await;
    let (standby, mut leader) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    leader.send(Signal::SIGSTOP);
    let paused = cluster.now();
    cluster.acts(&[standby.identity], paused, 1).await;
    leader.send(Signal::SIGTERM);
    leader.send(Signal::SIGCONT);
    assert!(leader.end().await.code().is_some());
    cluster.acts(&[standby.identity], cluster.now(), 20).await;
    let writes = cluster.lease_writes();
    let taken = writes.iter().position(|write| write.holder == standby.identity).unwrap();
    assert!(writes[taken..].iter().all(|write| write.holder == standby.identity), "{:?}", &writes[taken..]);
    assert_eq!(cluster.lease().await.holder_identity.as_deref(), Some(standby.identity));
    assert_eq!(cluster.one_acts(), 0);
}

#[tokio::test]
async fn wall_clocks_that_differ_by_hours_have_no_effect() {
    for (clock, other_clock) in [("+1h", "-1h"), ("-1h", "+1h")] {
        let cluster = Cluster::new().await;
        let start = cluster.now();
        let with = |clock| Options { clock: Some(clock), ..steps_down() };
        let leader = Replica::start(&cluster, "one", &with(clock));
        cluster.acts(&["one"], start, 1).await;
        let standby = Replica::start(&cluster, "two", &with(other_clock));
        cluster.contends("two", start).await;
        // For much longer than the Lease lasts.
        let renewed = |cluster: &Cluster| {
            let writes = cluster.lease_writes();
            (writes.iter().filter(|write| write.by == "one").count() >= 8).then_some(writes)
        };
        let writes = cluster.shows("it is renewed", renewed).await;
        let holders: Vec<_> = writes.iter().map(|write| &*write.holder).collect();
        assert!(holders.iter().all(|holder| *holder == "one"), "clocks {clock} and {other_clock}: {holders:?}");
        leader.send(Signal::SIGKILL);
        let killed = cluster.now();
        cluster.acts(&[standby.identity], killed, 20).await;
        assert_eq!(cluster.one_acts(), 0);
    }
}
