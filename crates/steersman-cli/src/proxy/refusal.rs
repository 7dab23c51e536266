//! What the proxy answers by itself.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

/// Why a request is not answered by the server.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    /// The proxy does not forward such requests.
    pub(super) fn forbidden(message: String) -> Self {
        Self { status: StatusCode::FORBIDDEN, reason: "Forbidden", message }
    }

    /// The type of the body is missing.
    pub(super) fn unsupported_type(message: String) -> Self {
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, reason: "UnsupportedMediaType", message }
    }

    /// The body of the request cannot be read.
    pub(super) fn body(error: &hyper::Error) -> Self {
        let message = format!("the body of the request cannot be read: {error}");
        Self { status: StatusCode::BAD_REQUEST, reason: "BadRequest", message }
    }

    /// The body of the request has more than `bytes_max` bytes.
    pub(super) fn body_too_long(bytes_max: usize) -> Self {
        let message = format!("the body is too long: at most {bytes_max} bytes are forwarded");
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "RequestEntityTooLarge", message }
    }

    /// The body of the request makes too little progress.
    pub(super) fn body_too_slow(received: usize, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs();
        let message = format!("the body of the request came too slowly: {received} bytes in {seconds} s");
        Self { status: StatusCode::GATEWAY_TIMEOUT, reason: "Timeout", message }
    }

    /// The server does not answer.
    pub(super) fn silence(server: &str, error: &kube_client::Error) -> Self {
        let message = format!("{server} does not answer: {}", causes(error));
        Self { status: StatusCode::BAD_GATEWAY, reason: "ServiceUnavailable", message }
    }

    /// The refusal as the API server itself would word it, so that its clients can read it.
    pub(super) fn answer(&self) -> Response<Full<Bytes>> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("steersman proxy: {}", self.message), "reason": self.reason, "code": self.status.as_u16(),
        });
        let mut answer = Response::new(Full::from(format!("{status}\n")));
        *answer.status_mut() = self.status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

/// What led to an error, each cause once: the outermost says only that something below failed.
fn causes(error: &kube_client::Error) -> String {
    let mut words = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if words.last() != Some(&text) {
            words.push(text);
        }
        cause = error.source();
    }
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}
