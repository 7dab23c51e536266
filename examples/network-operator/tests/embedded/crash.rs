//! An operator that is killed at each of its requests to the API server in turn, before the request
//! is sent and after the server has handled it, and then started again. Its requests to Neutron lie
//! between those.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kube_client::client::Body;
use serde_json::json;
use steersman::Client;
use steersman::client::Config;
use tokio::sync::Notify;
use tower::{BoxError, ServiceExt};

use crate::common::{NEVER, Running, World, options, spec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    After,
}

/// A client that kills the process at the write with this number.
///
/// Not `FaultyNetwork`: its faults do not depend on how many requests there were before, and none
/// of them lets the server handle a request and then ends the client.
fn deadly(world: &World, at: usize, when: When, killed: &Arc<Notify>) -> Client {
    let (server, writes, killed) = (world.server.server().clone(), Arc::new(AtomicUsize::new(0)), Arc::clone(killed));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, writes, killed) = (server.clone(), Arc::clone(&writes), Arc::clone(&killed));
        async move {
            let is_write = request.method() != Method::GET;
            let number = if is_write { writes.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
            let die = || async {
                killed.notify_one();
                std::future::pending::<()>().await;
            };
            if is_write && (number > at || (number, when) == (at, When::Before)) {
                die().await;
            }
            let answer = server.oneshot(request).await.unwrap_or_else(|never| match never {});
            if (number, when) == (at, When::After) {
                die().await;
            }
            Ok::<_, BoxError>(answer)
        }
    });
    Client::builder(Config::new(http::Uri::from_static("http://server.test"))).build_over(service).unwrap()
}

/// Runs an operator that is killed at that write. Returns `false` if it finished before.
async fn killed_at(world: &World, at: usize, when: When, done: impl AsyncFn(&World)) -> bool {
    let killed = Arc::new(Notify::new());
    let operator = Running::start(deadly(world, at, when, &killed), world.neutron.clone(), options(NEVER));
    let was_killed = tokio::select! {
        // A write shows before its operator dies: if both are seen at once, it was killed.
        biased;
        () = killed.notified() => true,
        () = done(world) => false,
    };
    operator.abort();
    was_killed
}

#[tokio::test]
async fn an_operator_that_is_killed_anywhere_in_the_life_of_a_network_leaves_nothing_twice_and_nothing_over() {
    let mut deaths = 0;
    for at in 1.. {
        let before = deaths;
        for when in [When::Before, When::After] {
            let world = World::new().await;
            world.create("blue", spec("10.1.0.0/24", "10.1.0.1")).await;
            deaths += usize::from(killed_at(&world, at, when, async |world| drop(world.ready("blue").await)).await);
            let operator = world.operator(NEVER);
            let status = world.ready("blue").await;
            assert_eq!(world.all().await.len(), 1, "killed {when:?} write {at}");
            assert_eq!(world.actual(&status).await.1.len(), 1, "killed {when:?} write {at}");
            operator.stop().await;

            world.patch("blue", json!({"spec": {"cidr": "10.2.0.0/24", "gateway": "10.2.0.1"}})).await;
            deaths += usize::from(killed_at(&world, at, when, async |world| drop(world.ready("blue").await)).await);
            let operator = world.operator(NEVER);
            let status = world.ready("blue").await;
            let (_, subnets) = world.actual(&status).await;
            assert_eq!(subnets.len(), 1, "killed {when:?} write {at}");
            assert_eq!(subnets[0].cidr, "10.2.0.0/24", "killed {when:?} write {at}");
            operator.stop().await;

            world.delete("blue").await;
            deaths += usize::from(killed_at(&world, at, when, async |world| world.gone("blue").await).await);
            let operator = world.operator(NEVER);
            world.gone("blue").await;
            assert!(world.all().await.is_empty(), "killed {when:?} write {at}");
            operator.stop().await;
        }
        if deaths == before {
            break;
        }
    }
    // The finalizer, the claim and the status of the first; the status of the second; the finalizer
    // of the third.
    assert_eq!(deaths, 2 * (3 + 1 + 1));
}
