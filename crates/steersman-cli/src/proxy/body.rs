//! The body of a request, which has to keep coming.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::refusal::Refusal;

/// More than the API server takes.
const BYTES_MAX: usize = 16 << 20;
/// How long a body may make no progress.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The slowest that a body may come on average, in bytes a second, once its first [`TIMEOUT`] is over.
const BYTES_PER_SECOND_MIN: u32 = 16 << 10;

/// Reads the whole body, within the limits of size and time.
pub(super) async fn collect(mut body: Incoming) -> Result<Bytes, Refusal> {
    let began = Instant::now();
    let (mut progressed, mut bytes) = (began, BytesMut::new());
    loop {
        let overall = Duration::from_secs(1) * u32::try_from(bytes.len()).unwrap_or(u32::MAX) / BYTES_PER_SECOND_MIN;
        let deadline = (progressed + TIMEOUT).min(began + TIMEOUT + overall);
        let frame = timeout_at(deadline, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Refusal::body_too_slow(bytes.len(), began.elapsed()))? else { break };
        let Ok(data) = frame.map_err(|error| Refusal::body(&error))?.into_data() else { continue };
        // An empty frame is no progress.
        if !data.is_empty() {
            progressed = Instant::now();
        }
        bytes.extend_from_slice(&data);
        if bytes.len() > BYTES_MAX {
            return Err(Refusal::body_too_long(BYTES_MAX));
        }
    }
    Ok(bytes.freeze())
}
