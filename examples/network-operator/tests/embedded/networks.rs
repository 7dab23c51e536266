//! The life of a Network.

use network_operator::{FINALIZER, NetworkSpec};
use neutron::{NetworkChange, NewSubnet, SubnetChange};
use serde_json::json;
use steersman::client::DeleteParams;

use crate::common::{NEVER, OFTEN, Running, World, eventually, options, spec};
use crate::sweep::blind;

#[tokio::test]
async fn a_network_is_created_in_neutron_with_its_subnet_and_shown_in_the_status() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    let wanted = NetworkSpec {
        mtu: Some(1400),
        dhcp: false,
        dns_servers: vec!["9.9.9.9".to_owned(), "1.1.1.1".to_owned()],
        // Neutron clears the host bits.
        ..spec("10.1.0.7/24", "10.1.0.1")
    };
    let created = world.create("blue", wanted).await;
    let status = world.ready("blue").await;
    let (network, subnets) = world.actual(&status).await;
    assert_eq!((network.name.as_str(), network.mtu, network.shared), ("default/blue", Some(1400), false));
    assert_eq!(network.description, world.handle(&created));
    let [subnet] = &subnets[..] else { panic!("one subnet: {subnets:?}") };
    assert_eq!(status.subnet_id.as_deref(), Some(subnet.id.as_str()));
    assert_eq!((subnet.cidr.as_str(), subnet.gateway_ip.as_deref()), ("10.1.0.0/24", Some("10.1.0.1")));
    assert_eq!(
        (subnet.enable_dhcp, &subnet.dns_nameservers[..]),
        (false, &["9.9.9.9".to_owned(), "1.1.1.1".into()][..])
    );
    assert_eq!(status.observed_generation, created.metadata.generation);
    assert_eq!(status.conditions[0].status, "True");
    let finalizers = world.networks.get("blue").await.unwrap().metadata.finalizers.unwrap();
    assert_eq!(finalizers, [FINALIZER]);
    operator.stop().await;
}

#[tokio::test]
async fn a_change_of_the_spec_changes_the_same_network_and_subnet() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let before = world.ready("blue").await;
    let change =
        json!({"gateway": "10.1.0.100", "mtu": 1300, "dhcp": false, "shared": true, "dnsServers": ["9.9.9.9"]});
    world.patch("blue", json!({"spec": change})).await;
    let after = world.ready("blue").await;
    assert_eq!((&after.network_id, &after.subnet_id), (&before.network_id, &before.subnet_id));
    let (network, subnets) = world.actual(&after).await;
    assert_eq!((network.mtu, network.shared), (Some(1300), true));
    let subnet = &subnets[0];
    assert_eq!((subnet.gateway_ip.as_deref(), subnet.enable_dhcp), (Some("10.1.0.100"), false));
    assert_eq!(subnet.dns_nameservers, ["9.9.9.9"]);
    let pools: Vec<_> = subnet.allocation_pools.iter().map(|pool| (pool.start.as_str(), pool.end.as_str())).collect();
    assert_eq!(pools, [("10.1.0.1", "10.1.0.99"), ("10.1.0.101", "10.1.0.254")]);

    world.patch("blue", json!({"spec": {"dnsServers": []}})).await;
    let status = world.ready("blue").await;
    assert!(world.actual(&status).await.1[0].dns_nameservers.is_empty(), "what is taken out of the spec goes");
    operator.stop().await;
}

#[tokio::test]
async fn another_cidr_is_another_subnet_of_the_same_network() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let before = world.ready("blue").await;
    // It overlaps with the old one, so the old one has to be deleted first.
    world.patch("blue", json!({"spec": {"cidr": "10.1.0.0/16", "gateway": "10.1.0.1"}})).await;
    let after = world.ready("blue").await;
    assert_eq!(after.network_id, before.network_id);
    assert_ne!(after.subnet_id, before.subnet_id);
    let (_, subnets) = world.actual(&after).await;
    let cidrs: Vec<_> = subnets.iter().map(|subnet| subnet.cidr.as_str()).collect();
    assert_eq!(cidrs, ["10.1.0.0/16"]);
    operator.stop().await;
}

/// Waits until an operator has reconciled this many times more.
async fn looks(running: &Running, times: u64) {
    let enough = running.operator.summary().reconciles + times;
    eventually("it looks again", || async {
        let reconciles = running.operator.summary().reconciles;
        if reconciles >= enough { Ok(()) } else { Err(format!("{reconciles} of {enough}")) }
    })
    .await;
}

#[tokio::test]
async fn an_operator_whose_cache_is_out_of_date_does_not_delete_the_new_subnet() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let before = world.ready("blue").await;
    let behind = Running::start(blind(&world), world.neutron.clone(), options(OFTEN));
    looks(&behind, 2).await;
    world.patch("blue", json!({"spec": {"cidr": "10.2.0.0/24", "gateway": "10.2.0.1"}})).await;
    let after = world.ready("blue").await;
    assert_ne!(after.subnet_id, before.subnet_id);
    looks(&behind, 5).await;
    let subnets: Vec<_> = world.actual(&after).await.1.into_iter().map(|subnet| subnet.id).collect();
    assert_eq!(Some(&subnets[..]), after.subnet_id.as_ref().map(std::slice::from_ref));
    behind.abort();
    operator.stop().await;
}

#[tokio::test]
async fn subnets_that_others_have_added_are_theirs() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let status = world.ready("blue").await;
    let added = NewSubnet::new(status.network_id.clone().unwrap(), "192.168.7.0/24");
    let added = world.neutron.create_subnet(&added).await.unwrap();
    world.patch("blue", json!({"spec": {"cidr": "10.2.0.0/24", "gateway": "10.2.0.1"}})).await;
    let status = world.ready("blue").await;
    let (_, subnets) = world.actual(&status).await;
    let mut cidrs: Vec<_> = subnets.iter().map(|subnet| subnet.cidr.as_str()).collect();
    cidrs.sort_unstable();
    assert_eq!(cidrs, ["10.2.0.0/24", "192.168.7.0/24"]);
    assert!(subnets.iter().any(|subnet| subnet.id == added.id));
    operator.stop().await;
}

#[tokio::test]
async fn a_deleted_network_is_deleted_in_neutron_before_its_finalizer_goes() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    world.create("green", spec("10.2.0.0/24", "10.2.0.1")).await;
    let (blue, green) = (world.ready("blue").await, world.ready("green").await);
    world.delete("blue").await;
    world.gone("blue").await;
    assert_eq!(world.neutron.network(&blue.network_id.unwrap()).await.unwrap(), None);
    let left = world.all().await;
    assert_eq!(left.iter().map(|network| network.id.clone()).collect::<Vec<_>>(), [green.network_id.unwrap()]);
    operator.stop().await;
}

#[tokio::test]
async fn a_network_that_is_deleted_while_no_operator_runs_waits_for_one() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    world.ready("blue").await;
    operator.stop().await;
    world.delete("blue").await;
    assert!(world.networks.get("blue").await.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(world.all().await.len(), 1);
    let operator = world.operator(NEVER);
    world.gone("blue").await;
    assert!(world.all().await.is_empty());
    operator.stop().await;
}

#[tokio::test]
async fn a_manual_change_in_neutron_is_reverted_within_the_resync_period() {
    let world = World::new().await;
    let operator = world.operator(OFTEN);
    let wanted = NetworkSpec { mtu: Some(1400), ..spec("10.1.0.0/24", "10.1.0.1") };
    world.create("blue", wanted).await;
    let status = world.ready("blue").await;
    let (network, subnet) = (status.network_id.clone().unwrap(), status.subnet_id.clone().unwrap());
    let change = NetworkChange { name: Some("mine".to_owned()), mtu: Some(1300), ..NetworkChange::default() };
    world.neutron.update_network(&network, &change, None).await.unwrap();
    let change = SubnetChange { dns_nameservers: Some(vec!["8.8.8.8".to_owned()]), ..SubnetChange::default() };
    world.neutron.update_subnet(&subnet, &change, None).await.unwrap();
    eventually("everything is as it was", || async {
        let (network, subnets) = world.actual(&status).await;
        let repaired = network.name == "default/blue" && network.mtu == Some(1400);
        if repaired && subnets[0].dns_nameservers.is_empty() { Ok(()) } else { Err(format!("{network:?} {subnets:?}")) }
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_manual_deletion_in_neutron_is_reverted_within_the_resync_period() {
    let world = World::new().await;
    let operator = world.operator(OFTEN);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let first = world.ready("blue").await;
    world.neutron.delete_subnet(&first.subnet_id.clone().unwrap()).await.unwrap();
    let second = eventually("another subnet", || async {
        let status = world.networks.get("blue").await.unwrap().status.unwrap();
        if status.subnet_id != first.subnet_id { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(second.network_id, first.network_id);
    world.neutron.delete_network(&first.network_id.clone().unwrap()).await.unwrap();
    eventually("another network", || async {
        let status = world.networks.get("blue").await.unwrap().status.unwrap();
        let there = status.network_id != first.network_id && status.subnet_id.is_some();
        if there { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(world.all().await.len(), 1);
    operator.stop().await;
}

#[tokio::test]
async fn a_network_whose_handle_was_removed_gets_it_back() {
    let world = World::new().await;
    let operator = world.operator(OFTEN);
    let created = world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let status = world.ready("blue").await;
    let change = NetworkChange { description: Some("mine".to_owned()), ..NetworkChange::default() };
    world.neutron.update_network(&status.network_id.clone().unwrap(), &change, None).await.unwrap();
    eventually("the handle is back", || async {
        let (network, _) = world.actual(&status).await;
        if network.description == world.handle(&created) { Ok(()) } else { Err(format!("{network:?}")) }
    })
    .await;
    assert_eq!(world.all().await.len(), 1);
    operator.stop().await;
}

#[tokio::test]
async fn a_network_of_the_same_name_that_is_made_again_is_another_one() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let first = world.ready("blue").await;
    world.networks.delete("blue", &DeleteParams::foreground()).await.unwrap();
    world.gone("blue").await;
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let second = world.ready("blue").await;
    assert_ne!(first.network_id, second.network_id);
    assert_eq!(world.all().await.len(), 1);
    operator.stop().await;
}
