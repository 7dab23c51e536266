//! Writes that may not leave, and requests with limits of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Error, GateError, ListParams, PostParams, TimeoutError, World, WriteGate};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_stops_writes_and_no_read() {
    let network = FaultyNetwork::new(&Embedded::empty());
    let open = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&open);
    let gate = WriteGate::new(move || state.load(Ordering::Relaxed).then_some(SECOND));
    let maps = network.client().with_write_gate(gate).namespaced::<ConfigMap>("default");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    open.store(false, Ordering::Relaxed);
    network.take_requests();
    let refused = maps.create(&PostParams::default(), &map("b")).await.unwrap_err();
    assert!(matches!(refused, Error::Gate { gate: GateError::Closed, .. }), "{refused}");
    assert!(refused.to_string().ends_with("not sent: the write gate is closed"), "{refused}");
    assert_eq!(network.take_requests(), [] as [&str; 0]);
    maps.list(&ListParams::default()).await.unwrap();
    assert!(maps.get("b").await.unwrap_err().is_not_found());
    // The gate belongs to this handle, not to the connection.
    network.client().namespaced::<ConfigMap>("default").create(&PostParams::default(), &map("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_is_cancelled_when_its_time_is_over() {
    let network = FaultyNetwork::new(&Embedded::empty());
    network.fail("POST", Fault::Silence);
    let gate = WriteGate::new(|| Some(3 * SECOND));
    let maps = network.client().with_write_gate(gate).namespaced::<ConfigMap>("default");
    let started = Instant::now();
    let cancelled = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert!(matches!(cancelled, Error::Gate { gate: GateError::Cancelled, .. }), "{cancelled}");
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_asked_before_each_attempt() {
    let network = FaultyNetwork::new(&Embedded::empty());
    // Asks for a second attempt after a second, when the gate is closed.
    network.fail("POST", Fault::RetryAfter(1));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let gate = WriteGate::new(move || (count.fetch_add(1, Ordering::Relaxed) == 0).then_some(SECOND));
    let maps = network.client().with_write_gate(gate).namespaced::<ConfigMap>("default");
    let refused = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert!(matches!(refused, Error::Gate { gate: GateError::Closed, .. }), "{refused}");
    assert_eq!((asked.load(Ordering::Relaxed), network.requests().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_the_limit_wins_over_a_response_that_is_ready() {
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    let asleep = world.clone();
    // The machine sleeps while the request is under way. The response is ready when it wakes.
    let service = tower::service_fn(move |_: http::Request<kube_client::client::Body>| {
        let asleep = asleep.clone();
        async move {
            asleep.suspend(4 * SECOND);
            tokio::task::yield_now().await;
            Ok::<_, std::convert::Infallible>(super::answer(201, super::MAP))
        }
    });
    let client = super::builder().build_over(service).unwrap().with_world(world);
    let maps = client.with_write_gate(WriteGate::new(|| Some(3 * SECOND))).namespaced::<ConfigMap>("default");
    let cancelled = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert!(matches!(cancelled, Error::Gate { gate: GateError::Cancelled, .. }), "{cancelled}");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_retries_sends_once_within_its_timeout() {
    let network = FaultyNetwork::new(&Embedded::empty());
    let client = network.client().without_retries().with_timeout(4 * SECOND);
    let maps = client.namespaced::<ConfigMap>("default");
    network.fail("configmaps/a", Fault::RetryAfter(1));
    let refused = maps.get("a").await.unwrap_err();
    assert!(refused.is_too_many_requests(), "{refused}");
    assert_eq!(network.take_requests().len(), 1);
    network.fail("configmaps/b", Fault::Silence);
    let started = Instant::now();
    let late = maps.get("b").await.unwrap_err();
    assert!(
        matches!(late, Error::Timeout { timeout: TimeoutError::Response(_) | TimeoutError::Request(_), .. }),
        "{late}"
    );
    assert_eq!((started.elapsed().as_secs(), network.take_requests().len()), (4, 1));
}
