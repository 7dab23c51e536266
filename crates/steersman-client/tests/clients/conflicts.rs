//! Retries after a conflict.

use std::cell::Cell;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Backoff, Error, retry_on_conflict};
use steersman_testing::Log;
use tokio::time::Instant;

use super::{answer, builder, server};

async fn refusal(code: u16, reason: &str) -> Error {
    let body = format!(r#"{{"kind":"Status","status":"Failure","reason":"{reason}","code":{code}}}"#);
    let body: &'static str = body.leak();
    let client = builder().build_over(server(move |_, _| answer(code, body)).0).unwrap();
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err()
}

/// When an update that fails `conflicts` times is tried.
async fn tries(backoff: Backoff, conflicts: usize) -> (Result<usize, Error>, Vec<Duration>) {
    let (started, seen) = (Instant::now(), Log::new());
    let result = retry_on_conflict(backoff, || async {
        seen.push(started.elapsed());
        if seen.len() <= conflicts { Err(refusal(409, "Conflict").await) } else { Ok(seen.len()) }
    })
    .await;
    (result, seen.all())
}

/// Checks that the delays are these, in ms, or up to a tenth longer.
fn apart(times: &[Duration], wanted: &[u64]) {
    let delays: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(delays.len(), wanted.len(), "{delays:?}");
    for (delay, wanted) in delays.iter().zip(wanted) {
        let least = Duration::from_millis(*wanted);
        // The clock of these tests has a resolution of 1 ms.
        assert!(*delay >= least && *delay <= least.mul_f64(1.1) + Duration::from_millis(1), "{delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_succeeds_is_done_once() {
    let (result, times) = tries(Backoff::RETRY, 0).await;
    assert_eq!((result.unwrap(), times.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn five_tries_ten_milliseconds_apart() {
    let (result, times) = tries(Backoff::RETRY, 4).await;
    assert_eq!(result.unwrap(), 5);
    apart(&times, &[10, 10, 10, 10]);
    let (result, times) = tries(Backoff::RETRY, 100).await;
    assert!(result.unwrap_err().is_conflict(), "the last conflict is returned");
    apart(&times, &[10, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn four_tries_further_and_further_apart() {
    let (result, times) = tries(Backoff::BACKOFF, 100).await;
    assert!(result.unwrap_err().is_conflict());
    apart(&times, &[10, 50, 250]);
}

#[tokio::test(start_paused = true)]
async fn other_errors_are_returned_at_once() {
    for (code, reason) in [(404, "NotFound"), (409, "AlreadyExists"), (422, "Invalid"), (500, "InternalError")] {
        let tried = Cell::new(0);
        let result: Result<(), _> = retry_on_conflict(Backoff::RETRY, || async {
            tried.set(tried.get() + 1);
            Err(refusal(code, reason).await)
        })
        .await;
        assert_eq!((result.unwrap_err().status().unwrap().code, tried.get()), (code, 1), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn delays_differ() {
    let mut backoff = Backoff::RETRY;
    (backoff.tries, backoff.delay, backoff.jitter) = (20, Duration::from_secs(1), 1.0);
    let (_, times) = tries(backoff, 100).await;
    let delays: std::collections::BTreeSet<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(delays.len() > 1, "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backoff_beyond_all_time_does_not_panic() {
    let mut backoff = Backoff::BACKOFF;
    (backoff.tries, backoff.factor) = (u32::MAX, f64::INFINITY);
    let update = tries(backoff, 100);
    assert!(tokio::time::timeout(Duration::from_secs(3600), update).await.is_err(), "it waits for ever");
}
