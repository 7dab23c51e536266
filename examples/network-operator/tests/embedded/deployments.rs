//! Deployments that want a Network.

use std::collections::BTreeSet;

use http::Request;
use ipnet::IpNet;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube_client::client::Body;
use network_operator::{ALLOCATED_ANNOTATION, ALLOCATED_CONDITION, NETWORK_LABEL, Network, Options};
use serde_json::json;
use steersman::client::{Api, Config, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::owner::set_controller_reference;
use steersman::{Client, Patch};
use tower::ServiceExt;

use crate::common::{NEVER, OFTEN, Running, World, eventually, options, spec};

/// A Deployment, with or without the label that asks for a Network.
fn deployment(name: &str, labelled: bool) -> Deployment {
    let labels = if labelled { json!({NETWORK_LABEL: "true"}) } else { json!({}) };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
            },
        },
    }))
    .unwrap()
}

fn deployments(world: &World) -> Api<Deployment> {
    world.client.namespaced("default")
}

async fn apply(world: &World, name: &str, labelled: bool) -> Deployment {
    deployments(world).create(&PostParams::default(), &deployment(name, labelled)).await.unwrap()
}

async fn cidr(world: &World, name: &str) -> String {
    world.ready(name).await;
    world.networks.get(name).await.unwrap().spec.cidr
}

fn count(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).unwrap_or(1)
}

/// Waits for an Event, and returns its message and its count.
async fn event(world: &World, reason: &str) -> (String, i32) {
    let events = world.client.namespaced::<Event>("default");
    eventually(reason, || async {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let found = events.iter().find(|event| event.reason.as_deref() == Some(reason));
        let said = found.map(|event| (event.message.clone().unwrap(), count(event)));
        said.ok_or_else(|| format!("{events:?}"))
    })
    .await
}

#[tokio::test]
async fn a_labelled_deployment_gets_a_network_that_it_owns() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "plain", false).await;
    let web = apply(&world, "web", true).await;
    world.ready("web").await;
    let network = world.networks.get("web").await.unwrap();
    assert_eq!((network.spec.cidr.as_str(), network.spec.gateway.as_str()), ("10.100.0.0/24", "10.100.0.1"));
    let owner = &network.metadata.owner_references.unwrap()[0];
    assert_eq!((Some(&owner.uid), owner.controller), (web.metadata.uid.as_ref(), Some(true)));
    assert!(world.networks.get_opt("plain").await.unwrap().is_none());
    operator.stop().await;
}

#[tokio::test]
async fn with_all_deployments_each_gets_one() {
    let world = World::new().await;
    let operator = world.operator_with(Options { all_deployments: true, ..options(NEVER) });
    apply(&world, "plain", false).await;
    world.ready("plain").await;
    operator.stop().await;
}

#[tokio::test]
async fn addresses_are_unique_and_overlap_with_no_other_network() {
    let world = World::new().await;
    // The second of four blocks is partly in use.
    world.create("mine", spec("10.100.1.128/25", "10.100.1.129")).await;
    let operator = world.operator(NEVER);
    for name in ["a", "b", "c"] {
        apply(&world, name, true).await;
    }
    let mut cidrs = BTreeSet::new();
    for name in ["a", "b", "c"] {
        cidrs.insert(cidr(&world, name).await);
    }
    assert_eq!(cidrs, ["10.100.0.0/24", "10.100.2.0/24", "10.100.3.0/24"].map(String::from).into());
    operator.stop().await;
}

#[tokio::test]
async fn addresses_stay_the_same_across_restarts() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "a", true).await;
    cidr(&world, "a").await;
    apply(&world, "b", true).await;
    let before = cidr(&world, "b").await;
    deployments(&world).delete("a", &DeleteParams::default()).await.unwrap();
    world.gone("a").await;
    operator.stop().await;
    let operator = world.operator(OFTEN);
    let reconciles = 10;
    eventually("it has looked again", || async {
        let summary = operator.operator.summary();
        if summary.reconciles > reconciles { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    assert_eq!(cidr(&world, "b").await, before, "though an earlier block is free");
    operator.stop().await;
}

#[tokio::test]
async fn when_no_addresses_are_left_an_event_and_a_condition_say_so_until_some_are_free() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    for name in ["a", "b", "c", "d"] {
        apply(&world, name, true).await;
        world.ready(name).await;
    }
    apply(&world, "e", true).await;
    let (message, _) = event(&world, "CIDRPoolExhausted").await;
    assert_eq!(message, "no addresses left for a Network: all of 10.100.0.0/22 in blocks of /24 is in use");
    assert!(world.networks.get_opt("e").await.unwrap().is_none());
    let has_condition = |status: &'static str, reason: &'static str| {
        let deployments = deployments(&world);
        eventually("the condition is set", move || {
            let deployments = deployments.clone();
            async move {
                let conditions = deployments.get("e").await.unwrap().status.unwrap_or_default().conditions;
                let conditions = conditions.unwrap_or_default();
                let said = conditions.iter().find(|condition| condition.type_ == ALLOCATED_CONDITION);
                let same = said.is_some_and(|said| said.status == status && said.reason.as_deref() == Some(reason));
                if same { Ok(()) } else { Err(format!("{conditions:?}")) }
            }
        })
    };
    has_condition("False", "CIDRPoolExhausted").await;
    eventually("it is tried again, and counted", || async {
        let (_, count) = event(&world, "CIDRPoolExhausted").await;
        if count > 1 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
    deployments(&world).delete("b", &DeleteParams::default()).await.unwrap();
    assert_eq!(cidr(&world, "e").await, "10.100.1.0/24");
    has_condition("True", "Allocated").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_network_goes_with_its_deployment() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "web", true).await;
    world.ready("web").await;
    deployments(&world).delete("web", &DeleteParams::default()).await.unwrap();
    world.gone("web").await;
    assert!(world.all().await.is_empty());
    operator.stop().await;
}

#[tokio::test]
async fn a_network_goes_with_the_label() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "web", true).await;
    world.ready("web").await;
    let unlabelled = json!({"metadata": {"labels": {NETWORK_LABEL: null}}});
    deployments(&world).patch("web", &PatchParams::default(), &Patch::Merge(unlabelled)).await.unwrap();
    world.gone("web").await;
    assert!(deployments(&world).get_opt("web").await.unwrap().is_some());
    operator.stop().await;
}

#[tokio::test]
async fn an_operator_that_does_not_know_a_deployment_yet_leaves_its_network() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "known", true).await;
    let before = world.ready("known").await;
    // The other operator sees all Networks, and no Deployment.
    let server = world.server.server().clone();
    let ignorant = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (mut head, body) = request.into_parts();
            let uri = head.uri.to_string().replace("network%3Dtrue", "network%3Dnever");
            head.uri = uri.parse().unwrap();
            server.oneshot(Request::from_parts(head, body)).await
        }
    });
    let config = Config::new(http::Uri::from_static("http://server.test"));
    let client = Client::builder(config).build_over(ignorant).unwrap();
    let other = Running::start(client, world.neutron.clone(), options(NEVER));
    eventually("the other one has looked", || async {
        let summary = other.operator.summary();
        if summary.reconciles > 5 { Ok(()) } else { Err(summary.to_string()) }
    })
    .await;
    assert_eq!(world.ready("known").await.network_id, before.network_id);
    assert!(world.networks.get("known").await.unwrap().metadata.deletion_timestamp.is_none());
    other.stop().await;
    operator.stop().await;
}

#[tokio::test]
async fn a_network_that_is_deleted_in_neutron_is_created_again() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    apply(&world, "web", true).await;
    let before = world.ready("web").await;
    world.delete("web").await;
    eventually("another Network", || async {
        let network = world.networks.get_opt("web").await.unwrap();
        let id = network.and_then(|network| network.status?.network_id);
        if id.is_some() && id != before.network_id { Ok(()) } else { Err(format!("{id:?}")) }
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_foreign_network_of_that_name_is_not_touched() {
    let world = World::new().await;
    let mine = world.create("web", spec("192.168.0.0/24", "192.168.0.1")).await;
    let operator = world.operator(NEVER);
    apply(&world, "web", true).await;
    let (message, _) = event(&world, "NetworkNameTaken").await;
    assert_eq!(message, "the Network web exists and does not belong to this Deployment");
    deployments(&world).delete("web", &DeleteParams::default()).await.unwrap();
    apply(&world, "other", true).await;
    world.ready("other").await;
    let left = world.networks.get("web").await.unwrap();
    assert_eq!((left.metadata.uid, left.metadata.owner_references), (mine.metadata.uid, None));
    operator.stop().await;
}

#[tokio::test]
async fn of_two_networks_with_the_same_block_one_is_created_again() {
    let world = World::new().await;
    for name in ["a", "b"] {
        let owner = apply(&world, name, true).await;
        let mut network = Network::new(name, spec("10.100.0.0/24", "10.100.0.1"));
        network.metadata.namespace = Some("default".to_owned());
        // The state that an operator leaves that has not seen the other one.
        network.metadata.annotations = Some([(ALLOCATED_ANNOTATION.to_owned(), "10.100.0.0/24".to_owned())].into());
        set_controller_reference(&owner, &mut network).unwrap();
        world.networks.create(&PostParams::default(), &network).await.unwrap();
    }
    let operator = world.operator(NEVER);
    eventually("each has a block of its own", || async {
        let mut cidrs = BTreeSet::new();
        for network in world.networks.list(&ListParams::default()).await.unwrap().items {
            cidrs.insert(network.spec.cidr);
        }
        let wanted = ["10.100.0.0/24", "10.100.1.0/24"].map(String::from).into();
        if cidrs == wanted { Ok(()) } else { Err(format!("{cidrs:?}")) }
    })
    .await;
    world.ready("a").await;
    world.ready("b").await;
    operator.stop().await;
}

#[tokio::test]
async fn two_operators_at_once_end_with_different_addresses() {
    let world = World::new().await;
    let operators = [world.operator(OFTEN), world.operator(OFTEN)];
    let names = ["a", "b", "c", "d"];
    for name in names {
        apply(&world, name, true).await;
    }
    eventually("each has a block of its own", || async {
        let networks = world.networks.list(&ListParams::default()).await.unwrap().items;
        let ready = networks.iter().all(|network| network.metadata.deletion_timestamp.is_none());
        let blocks: BTreeSet<IpNet> = networks.iter().map(|network| network.spec.cidr.parse().unwrap()).collect();
        if ready && blocks.len() == names.len() { Ok(()) } else { Err(format!("{blocks:?}")) }
    })
    .await;
    for operator in operators {
        operator.stop().await;
    }
}
