//! Reads and writes around an outage.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};
use steersman_client::PostParams;
use steersman_runtime::{Action, Context, Index, ListQuery, Manager, ObjectKey, kind, reconcile_fn};
use steersman_testing::Embedded;
use steersman_wire::LabelSelector;
use tokio::time::{Instant, sleep};

use crate::support::*;
use crate::support::{Fault, FaultyNetwork, faulty_network};

/// Long enough for the longest back-off.
const OUTAGE: Duration = Duration::from_secs(90);
/// A shortened back-off, and a little for the request.
const SOON: Duration = Duration::from_millis(2_100);

/// A running manager with ConfigMaps in its cache, and the network to its server.
async fn running() -> (Manager, Running, FaultyNetwork) {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
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
        let maps = manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap();
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
async fn a_subresource_that_is_created_shortens_the_back_off_of_all_caches() {
    let (manager, running, network) = running().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let pods = manager.client().objects::<Pod>();
    let create = PostParams::default();
    pods.live(Some("default")).create(&create, &serde_json::from_value(pod).unwrap()).await.unwrap();
    network.fail("watch=true", Fault::Refused);
    network.cut();
    sleep(OUTAGE).await;
    network.mend();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let _: Value = pods.subresource("eviction").create(&key("a"), &eviction).await.unwrap();
    let back = Instant::now();
    eventually("the cache watches again", || {
        manager.status().iter().all(|status| status.phase == steersman_cache::Phase::Watching)
    })
    .await;
    assert!(back.elapsed() <= SOON, "it watched after {:?}", back.elapsed());
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
    let error = manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap_err();
    assert!(error.is_stale() && away.elapsed() >= Duration::from_secs(10), "{error}");
    sleep(OUTAGE).await;
    network.mend();
    let back = Instant::now();
    manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap();
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
    manager.client().objects::<Secret>().list(&ListQuery::all()).await.unwrap();
    assert!(back.elapsed() <= SOON, "the list succeeded after {:?}", back.elapsed());
    running.stop().await.unwrap();
}

/// Contract 9, for the client and for a reconciler.
#[tokio::test(start_paused = true)]
async fn cached_reads_go_on_while_the_server_is_away() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    let manager = Manager::new(client);
    let log = Log::new();
    let notes = log.clone();
    // Reconciled repeatedly, because of the resync.
    let maps = kind::<ConfigMap>().index("app", Index::label("app")).resync(Duration::from_secs(10));
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            let value = ctx.object(&key).await?.map(|map| map.meta().name().to_owned());
            let listed = ctx.client().objects::<ConfigMap>().list(&ListQuery::all()).await?.len();
            notes.note(format!("{value:?} of {listed}"));
            Ok(Action::done())
        }
    });
    manager.controller(maps).complete(reconciler).unwrap();
    let running = run(&manager).await;
    let mut labelled = map("a", "1");
    labelled.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    manager.client().create(&labelled).await.unwrap();
    let maps = manager.client().objects::<ConfigMap>();
    maps.get(&key("a")).await.unwrap();

    network.fail("", Fault::Refused);
    network.cut();
    sleep(OUTAGE).await;
    log.take();
    for _ in 0..10 {
        sleep(Duration::from_secs(60)).await;
        let started = Instant::now();
        assert_eq!(maps.get(&key("a")).await.unwrap().meta().name(), "a");
        assert!(maps.get_opt(&key("none")).await.unwrap().is_none());
        assert_eq!(maps.list(&ListQuery::all()).await.unwrap().len(), 1);
        assert_eq!(maps.list(&ListQuery::all().namespace("default")).await.unwrap().len(), 1);
        assert_eq!(
            maps.list(&ListQuery::all().labels(LabelSelector::parse("app=web").unwrap())).await.unwrap().len(),
            1
        );
        assert_eq!(maps.list(&ListQuery::all().index("app", "web")).await.unwrap().len(), 1);
        assert_eq!(started.elapsed(), Duration::ZERO, "nothing was waited for");
    }
    assert!(maps.live(Some("default")).get("a").await.is_err(), "the server is away");
    let reconciled = log.all();
    assert!(reconciled.len() >= 50, "{reconciled:?}");
    assert!(reconciled.iter().all(|note| note == "Some(\"a\") of 1"), "{reconciled:?}");
    running.stop().await.unwrap();
}
