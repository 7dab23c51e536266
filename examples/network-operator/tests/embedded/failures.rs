//! Failures: the message of the condition, and whether the operator retries.

use network_operator::Phase;
use std::time::Duration;

use neutron::embedded::Fault;
use neutron::{Neutron, NewPort};
use serde_json::json;

use crate::common::{NEVER, OFTEN, World, eventually, spec};

/// A user of a network.
async fn port(neutron: &Neutron, network_id: &str) -> String {
    let new = NewPort { network_id: network_id.to_owned(), ..NewPort::default() };
    neutron.create_port(&new).await.unwrap().id
}

#[tokio::test]
async fn ports_in_use_hold_a_deleted_network_until_they_are_gone() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let status = world.ready("blue").await;
    let network_id = status.network_id.unwrap();
    let port = port(&world.neutron, &network_id).await;
    world.delete("blue").await;
    let message = world.reason("blue", "InUse").await;
    assert!(message.contains("NetworkInUse") && message.contains(&network_id), "Neutron's own words: {message}");
    let status = world.networks.get("blue").await.unwrap().status.unwrap();
    assert_eq!(status.phase, Some(Phase::Deleting));
    world.neutron.delete_port(&port).await.unwrap();
    world.gone("blue").await;
    assert!(world.all().await.is_empty());
    operator.stop().await;
}

#[tokio::test]
async fn ports_in_use_hold_the_old_subnet_until_they_are_gone() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let before = world.ready("blue").await;
    let port = port(&world.neutron, before.network_id.as_deref().unwrap()).await;
    world.patch("blue", json!({"spec": {"cidr": "10.2.0.0/24", "gateway": "10.2.0.1"}})).await;
    let message = world.reason("blue", "InUse").await;
    assert!(message.contains("SubnetInUse"), "Neutron's own words: {message}");
    world.neutron.delete_port(&port).await.unwrap();
    let after = world.ready("blue").await;
    assert_ne!(after.subnet_id, before.subnet_id);
    operator.stop().await;
}

#[tokio::test]
async fn over_quota_is_reported_and_retried() {
    let world = World::new().await;
    world.embedded.set_quota("network", 1);
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    world.ready("blue").await;
    world.create("green", spec("10.2.0.0/24", "10.2.0.1")).await;
    let message = world.reason("green", "OverQuota").await;
    assert!(message.contains("Quota exceeded"), "Neutron's own words: {message}");
    world.delete("blue").await;
    world.ready("green").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_spec_that_makes_no_sense_is_not_tried_again_before_it_changes() {
    let world = World::new().await;
    let operator = world.operator(OFTEN);
    // A real API server refuses it; this one has no CEL.
    world.create("blue", spec("10.1.0.0/24", "10.9.0.1")).await;
    let message = world.reason("blue", "InvalidSpec").await;
    assert_eq!(message, "the gateway 10.9.0.1 is not within 10.1.0.0/24");
    let status = world.networks.get("blue").await.unwrap().status.unwrap();
    assert_eq!((status.phase, status.network_id), (Some(Phase::Failed), None));

    // Other Networks continue; this one is not reconciled, not even by a resync.
    world.create("green", spec("10.2.0.0/24", "10.2.0.1")).await;
    world.ready("green").await;
    let errors = operator.operator.summary().errors;
    let later = operator.operator.summary().reconciles + 5;
    eventually("green is looked at five times more", || async {
        let reconciles = operator.operator.summary().reconciles;
        if reconciles >= later { Ok(()) } else { Err(format!("{reconciles} of {later}")) }
    })
    .await;
    assert_eq!(operator.operator.summary().errors, errors);

    world.patch("blue", json!({"spec": {"gateway": "10.1.0.1"}})).await;
    world.ready("blue").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_refusal_by_neutron_shows_its_message_and_is_not_retried() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    // The address of the network itself.
    world.create("blue", spec("10.1.0.0/24", "10.1.0.0")).await;
    let message = world.reason("blue", "Refused").await;
    assert!(message.contains("Gateway is not valid on subnet"), "Neutron's own words: {message}");
    let summary = operator.operator.summary();
    assert_eq!(summary.errors, 1, "{summary}");
    world.patch("blue", json!({"spec": {"gateway": "10.1.0.1"}})).await;
    world.ready("blue").await;
    assert_eq!(world.all().await.len(), 1);
    operator.stop().await;
}

#[tokio::test]
async fn an_outage_of_neutron_is_reported_and_retried() {
    let world = World::new().await;
    world.embedded.set_fault(Some(Fault::Unavailable));
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let message = world.reason("blue", "NeutronUnavailable").await;
    assert!(message.contains("503"), "the server's own words: {message}");
    world.embedded.set_fault(None);
    world.ready("blue").await;
    assert_eq!(world.all().await.len(), 1);

    world.embedded.set_fault(Some(Fault::Unavailable));
    world.delete("blue").await;
    world.reason("blue", "NeutronUnavailable").await;
    world.embedded.set_fault(None);
    world.gone("blue").await;
    assert!(world.all().await.is_empty());
    operator.stop().await;
}

#[tokio::test]
async fn what_was_done_though_the_answer_was_lost_is_not_done_twice() {
    const COUNT: usize = 20;
    let world = World::new().await;
    let operator = world.operator(NEVER);
    for number in 0..COUNT {
        world.create(&format!("net-{number}"), spec(&format!("10.{number}.0.0/24"), &format!("10.{number}.0.1"))).await;
    }
    // Which responses are lost is random; in the end none is.
    let mut moments = tokio::time::interval(Duration::from_millis(2));
    for moment in 0..200 {
        world.embedded.set_fault((moment % 2 == 0).then_some(Fault::LoseAnswers));
        moments.tick().await;
    }
    world.embedded.set_fault(None);
    for number in 0..COUNT {
        let status = world.ready(&format!("net-{number}")).await;
        assert_eq!(world.actual(&status).await.1.len(), 1);
    }
    world.count(COUNT).await;
    operator.stop().await;
}
