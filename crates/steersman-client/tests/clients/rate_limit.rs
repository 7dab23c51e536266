//! The rate limit.

use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, Error, TimeoutError};
use steersman_testing::Log;
use tokio::time::Instant;

use super::{MAP, answer, builder, server};

async fn get(client: &Client) {
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
}

fn near(took: Duration, wanted: f64) {
    assert!((took.as_secs_f64() - wanted).abs() < 0.05, "{took:?} instead of {wanted} s");
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_tokens() {
    let client = builder().rate_limit(5.0, 10).build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    let started = Instant::now();
    for _ in 0..10 {
        get(&client).await;
    }
    near(started.elapsed(), 0.0);
    for _ in 0..15 {
        get(&client).await;
    }
    near(started.elapsed(), 3.0);
    // The bucket refills, but not beyond the burst.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let started = Instant::now();
    join_all((0..15).map(|_| get(&client))).await;
    near(started.elapsed(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn clones_share_the_bucket() {
    let client = builder().rate_limit(1.0, 1).build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    let started = Instant::now();
    let clones: Vec<Client> = (0..4).map(|_| client.clone()).collect();
    join_all(clones.iter().map(get)).await;
    near(started.elapsed(), 3.0);
}

#[tokio::test(start_paused = true)]
async fn a_handle_without_the_limit_neither_waits_nor_takes_tokens() {
    let client = builder().rate_limit(0.1, 1).build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    let (started, unlimited) = (Instant::now(), client.clone().without_rate_limit());
    get(&unlimited).await;
    get(&client).await;
    get(&unlimited).await;
    near(started.elapsed(), 0.0);
    get(&client).await;
    near(started.elapsed(), 10.0);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_counts() {
    let (service, _) = server(|before, _| {
        let mut response = answer(if before == 0 { 429 } else { 200 }, MAP);
        response.headers_mut().insert("retry-after", "0".parse().unwrap());
        response
    });
    let client = builder().rate_limit(0.1, 1).build_over(service).unwrap();
    let started = Instant::now();
    get(&client).await;
    near(started.elapsed(), 10.0);
}

#[tokio::test(start_paused = true)]
async fn watches_are_exempt() {
    let client = builder().rate_limit(0.001, 1).build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    let started = Instant::now();
    get(&client).await;
    for _ in 0..100 {
        client.rest().get().abs_path("/api/v1/configmaps?watch=true").send().await.unwrap();
    }
    near(started.elapsed(), 0.0);
    get(&client).await;
    near(started.elapsed(), 1000.0);
}

/// Not even through kube's client, which passes all requests through one buffer.
#[tokio::test(start_paused = true)]
async fn a_waiting_request_does_not_block_others() {
    let seen = Log::new();
    let (service, _) = server(|_, _| answer(200, MAP));
    let client = builder().rate_limit(0.001, 1).build_over(service).unwrap();
    let kube = kube_client::Client::from(client.clone());
    get(&client).await;
    let started = Instant::now();
    let waits = tokio::spawn({
        let (seen, kube) = (seen.clone(), kube.clone());
        async move {
            let maps: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(kube, "default");
            maps.get("a").await.unwrap();
            seen.push("got");
        }
    });
    tokio::task::yield_now().await;
    let watch = http::Request::get("/api/v1/configmaps?watch=true").body(kube_client::client::Body::empty()).unwrap();
    kube.send(watch).await.unwrap();
    seen.push("watches");
    near(started.elapsed(), 0.0);
    waits.await.unwrap();
    near(started.elapsed(), 1000.0);
    assert_eq!(seen.all(), ["watches", "got"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_returns_its_token() {
    let client = builder().rate_limit(1.0, 1).build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    get(&client).await;
    let started = Instant::now();
    for _ in 0..100 {
        assert!(tokio::time::timeout(Duration::from_millis(1), get(&client)).await.is_err());
    }
    get(&client).await;
    near(started.elapsed(), 1.0);
    // The remaining waits keep their times, and no two share one.
    let started = Instant::now();
    let mut first = Box::pin(get(&client));
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(get(&client));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    let third = async {
        get(&client).await;
        near(started.elapsed(), 3.0);
    };
    futures::future::join(second, third).await;
}

/// As Go's limiter: a wait that cannot succeed is not begun, and takes no token.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_after_the_request_s_timeout_is_not_waited_for() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    let client = builder().rate_limit(0.1, 1).build_over(service).unwrap();
    get(&client).await;
    let started = Instant::now();
    let send = |limit| client.rest().get().abs_path("/version").timeout(Duration::from_secs(limit)).send();
    let error = send(5).await.unwrap_err();
    let Error::Timeout { timeout, .. } = &error else { panic!("{error}") };
    assert_eq!(*timeout, TimeoutError::RateLimit(Duration::from_secs(5)));
    assert_eq!((started.elapsed(), seen.len()), (Duration::ZERO, 1));
    send(11).await.unwrap();
    near(started.elapsed(), 10.0);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_limit_unless_one_is_set() {
    let client = builder().build_over(server(|_, _| answer(200, MAP)).0).unwrap();
    let started = Instant::now();
    for _ in 0..1000 {
        get(&client).await;
    }
    near(started.elapsed(), 0.0);
}

#[test]
fn rates_that_let_nothing_through_are_refused() {
    for (qps, burst) in [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (f64::INFINITY, 1), (f64::NEG_INFINITY, 1), (5.0, 0)] {
        let (service, _) = server(|_, _| answer(200, MAP));
        let error = builder().rate_limit(qps, burst).build_over(service).unwrap_err();
        assert!(matches!(error, Error::Config(_)));
        let wanted = format!("rate limit of {qps} a second with a burst of {burst}");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}
