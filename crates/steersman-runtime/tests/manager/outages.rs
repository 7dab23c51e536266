//! What is read and written around an outage.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{Manager, kind};
use steersman_testing::Embedded;
use tokio::time::{Instant, sleep};

use crate::support::network::{Fault, Network};
use crate::support::*;

/// Long enough for the longest back-off.
const OUTAGE: Duration = Duration::from_secs(90);
/// A hurried back-off, and a little for the request.
const SOON: Duration = Duration::from_millis(2_100);

/// A manager that runs, with ConfigMaps in its cache, and the way to its server.
async fn running() -> (Manager, Running, Network) {
    let server = Embedded::start();
    let (network, client) = Network::new(&server);
    let manager = Manager::new(client);
    manager.declare(kind::<ConfigMap>()).unwrap();
    let running = run(&manager).await;
    (manager, running, network)
}

#[tokio::test(start_paused = true)]
async fn a_list_after_a_write_succeeds_seconds_after_the_server_is_back() {
    for round in 0..5 {
        let (manager, running, network) = running().await;
        network.fail("", Fault::Refused);
        network.cut();
        sleep(OUTAGE + round * Duration::from_secs(7)).await;
        network.mend();
        let back = Instant::now();
        manager.client().create(&map("a", "1")).await.unwrap();
        let maps = manager.client().objects::<ConfigMap>().list().await.unwrap();
        assert_eq!(maps.len(), 1);
        assert!(back.elapsed() <= SOON, "the list succeeded after {:?}", back.elapsed());
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_shortens_the_back_off_of_all_caches() {
    let (manager, running, network) = running().await;
    let secrets = manager.declare(kind::<Secret>()).unwrap();
    settle().await;
    network.fail("watch=true", Fault::Refused);
    network.cut();
    sleep(OUTAGE).await;
    network.mend();
    manager.client().create(&map("a", "1")).await.unwrap();
    let back = Instant::now();
    let watching =
        |manager: &Manager| manager.status().iter().all(|status| status.phase == steersman_cache::Phase::Watching);
    eventually("all caches watch again", || watching(&manager)).await;
    assert!(back.elapsed() <= SOON, "they watched after {:?}", back.elapsed());
    drop(secrets);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_shortens_the_back_off() {
    let (manager, running, network) = running().await;
    network.fail("watch=true", Fault::Refused);
    network.cut();
    settle().await;
    manager.client().create(&map("a", "1")).await.unwrap();
    sleep(OUTAGE).await;
    let away = Instant::now();
    let error = manager.client().objects::<ConfigMap>().list().await.unwrap_err();
    assert!(error.is_stale() && away.elapsed() >= Duration::from_secs(10), "{error}");
    sleep(OUTAGE).await;
    network.mend();
    let back = Instant::now();
    manager.client().objects::<ConfigMap>().list().await.unwrap();
    assert!(back.elapsed() <= SOON, "the list succeeded after {:?}", back.elapsed());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_for_the_first_list_shortens_the_back_off() {
    let (manager, running, network) = running().await;
    network.fail("/secrets", Fault::Refused);
    manager.declare(kind::<Secret>()).unwrap();
    sleep(OUTAGE).await;
    network.mend();
    let back = Instant::now();
    manager.client().objects::<Secret>().list().await.unwrap();
    assert!(back.elapsed() <= SOON, "the list succeeded after {:?}", back.elapsed());
    running.stop().await.unwrap();
}
