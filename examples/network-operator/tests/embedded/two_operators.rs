//! Two operators at the same time.

use std::collections::BTreeSet;

use neutron::NewNetwork;

use crate::common::{NEVER, OFTEN, World, spec};

#[tokio::test]
async fn duplicates_are_removed_and_the_one_in_the_status_is_kept() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    let blue = world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let before = world.ready("blue").await;
    operator.stop().await;
    // Without a status, the one with the smallest id would be kept: at least one has a smaller one.
    let new = NewNetwork { description: world.handle(&blue), ..NewNetwork::default() };
    while Some(world.neutron.create_network(&new).await.unwrap().id) > before.network_id {}
    let operator = world.operator(NEVER);
    world.count(1).await;
    assert_eq!(Some(world.all().await[0].id.clone()), before.network_id);
    operator.stop().await;
}

#[tokio::test]
async fn of_two_networks_that_no_status_names_the_one_with_the_smallest_id_is_kept() {
    let world = World::new().await;
    let blue = world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let new = NewNetwork { description: world.handle(&blue), ..NewNetwork::default() };
        ids.insert(world.neutron.create_network(&new).await.unwrap().id);
    }
    let operator = world.operator(NEVER);
    let status = world.ready("blue").await;
    assert_eq!(status.network_id, ids.first().cloned());
    world.count(1).await;
    operator.stop().await;
}

#[tokio::test]
async fn two_operators_at_once_leave_one_network_for_each_object() {
    const COUNT: usize = 20;
    let world = World::new().await;
    let operators = [world.operator(OFTEN), world.operator(OFTEN)];
    for number in 0..COUNT {
        world.create(&format!("net-{number}"), spec(&format!("10.1.{number}.0/24"), &format!("10.1.{number}.1"))).await;
    }
    let mut named = BTreeSet::new();
    for number in 0..COUNT {
        named.insert(world.ready(&format!("net-{number}")).await.network_id.unwrap());
    }
    world.count(COUNT).await;
    let mut named_now = BTreeSet::new();
    for number in 0..COUNT {
        named_now.insert(world.ready(&format!("net-{number}")).await.network_id.unwrap());
    }
    assert_eq!(named_now, named, "what a status names stays");
    let actual: BTreeSet<_> = world.all().await.into_iter().map(|network| network.id).collect();
    assert_eq!(actual, named);
    for id in &actual {
        assert_eq!(world.subnets(id).await.len(), 1);
    }
    for number in 0..COUNT {
        world.delete(&format!("net-{number}")).await;
    }
    world.count(0).await;
    for operator in operators {
        operator.stop().await;
    }
}
