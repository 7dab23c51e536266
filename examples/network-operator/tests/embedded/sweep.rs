//! Networks in Neutron without an owner.

use http::Request;
use kube_client::client::Body;
use network_operator::Handle;
use neutron::NewNetwork;
use serde_json::json;
use steersman::Client;
use steersman::client::Config;
use tower::ServiceExt;

use crate::common::{NEVER, OFTEN, Running, World, cluster, eventually, options, spec};

async fn leave_over(world: &World, name: &str, description: &str) -> String {
    let new = NewNetwork { name: name.to_owned(), description: description.to_owned(), ..NewNetwork::default() };
    world.neutron.create_network(&new).await.unwrap().id
}

async fn removed(world: &World, id: &str) {
    eventually("the network is swept", || async {
        match world.neutron.network(id).await.unwrap() {
            None => Ok(()),
            Some(network) => Err(format!("{network:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_network_whose_network_object_is_gone_is_swept_at_the_start_and_others_are_not() {
    let world = World::new().await;
    let orphan = leave_over(&world, "orphan", &Handle::new(&cluster(), "no-such-uid").to_string()).await;
    let mine = leave_over(&world, "mine", "").await;
    let theirs = leave_over(&world, "theirs", "kubernetes/another-cluster/no-such-uid").await;
    let operator = world.operator(NEVER);
    removed(&world, &orphan).await;
    for kept in [mine, theirs] {
        assert!(world.neutron.network(&kept).await.unwrap().is_some());
    }
    operator.stop().await;
}

#[tokio::test]
async fn a_network_whose_finalizer_was_removed_by_force_is_swept_on_resync() {
    let world = World::new().await;
    let operator = world.operator(NEVER);
    world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
    let status = world.ready("blue").await;
    operator.stop().await;
    world.patch("blue", json!({"metadata": {"finalizers": null}})).await;
    world.delete("blue").await;
    world.gone("blue").await;
    // It did not exist at the start, so that a later sweep finds it.
    let operator = world.operator(OFTEN);
    world.create("green", spec("10.2.0.0/24", "10.2.0.1")).await;
    removed(&world, &status.network_id.unwrap()).await;
    let left = world.ready("green").await;
    let orphan = leave_over(&world, "orphan", &Handle::new(&cluster(), "no-such-uid").to_string()).await;
    removed(&world, &orphan).await;
    assert!(world.neutron.network(&left.network_id.unwrap()).await.unwrap().is_some());
    operator.stop().await;
}

/// A client for an operator that lists, and then gets no events.
pub(crate) fn blind(world: &World) -> Client {
    let server = world.server.server().clone();
    let blind = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (mut head, body) = request.into_parts();
            let uri = head.uri.to_string();
            if uri.contains("sendInitialEvents=true") {
                // The server refuses a streaming list, so the reflector falls back to a plain list.
                head.uri =
                    uri.replace("resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact").parse().unwrap();
            } else if uri.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            server.oneshot(Request::from_parts(head, body)).await
        }
    });
    let config = Config::new(http::Uri::from_static("http://server.test"));
    Client::builder(config).build_over(blind).unwrap()
}

#[tokio::test]
async fn a_network_that_is_newer_than_the_cache_is_not_swept() {
    let world = World::new().await;
    let client = blind(&world);
    let operator = Running::start(client, world.neutron.clone(), options(OFTEN));
    let orphan = || leave_over(&world, "orphan", "kubernetes/test/no-such-uid");
    removed(&world, &orphan().await).await;

    let handle = world.handle(&world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await);
    let newer = leave_over(&world, "default/blue", &handle).await;
    for _ in 0..2 {
        removed(&world, &orphan().await).await;
    }
    assert!(
        world.neutron.network(&newer).await.unwrap().is_some(),
        "its Network exists, though the cache does not know"
    );
    operator.abort();
}
