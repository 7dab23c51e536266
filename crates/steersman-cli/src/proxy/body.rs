//! The body of a request, within limits of size and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use steersman_http::{BodyTimeout, TimedBody};

use super::refusal::Refusal;

/// More than the API server accepts.
const BYTES_MAX: usize = 16 << 20;
/// How long a body may make no progress.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the whole body.
pub(super) async fn collect(body: Incoming) -> Result<Bytes, Refusal> {
    let body = Limited::new(TimedBody::new(body, TIMEOUT), BYTES_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Refusal::body_too_long(BYTES_MAX);
        }
        match error.downcast_ref::<BodyTimeout>() {
            Some(timeout) => Refusal::body_too_slow(timeout),
            None => Refusal::body(&*error),
        }
    })
}
