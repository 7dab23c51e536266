//! The common parts of the tests of the client and of the two Neutrons.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::time::{Duration, Instant};

pub(crate) mod client_suite;
pub(crate) mod http;
pub(crate) mod script;
pub(crate) mod stub;

/// Polls until a condition holds, for at most a minute. The crate depends on no other of this
/// workspace, so it does not use that of `steersman-testing`.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < deadline, "did not happen within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
