//! The faults of `FaultyNetwork`, one at a time.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::{Api, Client, ListParams, PostParams, WatchParams};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::time::{Instant, timeout};

fn network() -> (FaultyNetwork, Api<ConfigMap>, Client) {
    let server = Embedded::empty();
    let network = FaultyNetwork::new(&server);
    let maps = network.client().namespaced("default");
    (network, maps, server.client())
}

async fn create(client: &Client, name: &str) {
    let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    client.namespaced::<ConfigMap>("default").create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fault_applies_to_the_requests_it_selects_until_it_is_mended() {
    let (network, maps, _) = network();
    network.fail("GET /api/v1/namespaces/default/configmaps/a", Fault::Status(403));
    let refused = maps.get("a").await.unwrap_err();
    assert!(refused.to_string().contains("planted failure"), "{refused}");
    assert!(maps.get("b").await.unwrap_err().is_not_found(), "another path reaches the server");
    network.mend();
    assert!(maps.get("a").await.unwrap_err().is_not_found());
    let requests = network.take_requests();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert!(network.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_path_is_selected_whole() {
    let (network, maps, _) = network();
    network.fail_path(
        "/api/v1/namespaces/default/configmaps",
        Fault::Body(json!({
            "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
            "items": [{"metadata": {"name": "planted"}}],
        })),
    );
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert!(maps.get("planted").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_never_responds() {
    let (network, maps, _) = network();
    network.fail("configmaps", Fault::Silence);
    assert!(timeout(Duration::from_secs(5), maps.get("a")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn events_are_late_held_and_cut() {
    let (network, maps, direct) = network();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
    network.delay_watches(Duration::from_secs(3));
    let started = Instant::now();
    create(&direct, "late").await;
    events.next().await.unwrap().unwrap();
    assert_eq!(started.elapsed().as_secs(), 3);

    network.delay_watches(Duration::ZERO);
    network.hold("watch=true");
    create(&direct, "held").await;
    assert!(timeout(Duration::from_secs(5), events.next()).await.is_err());
    network.release();
    assert!(timeout(Duration::from_secs(1), events.next()).await.is_ok());

    assert!(events.next().now_or_never().is_none());
    network.cut();
    let broken = timeout(Duration::from_secs(1), events.next()).await.expect("the watch ends");
    assert!(broken.is_none_or(|event| event.is_err()));
}
