//! The proxy's own responses.

use std::error::Error;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use steersman_http::BodyTimeout;

/// A request that is not forwarded, or that the server did not respond to.
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

    /// The content type of the body is missing.
    pub(super) fn unsupported_type(message: String) -> Self {
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, reason: "UnsupportedMediaType", message }
    }

    /// The body of the request cannot be read.
    pub(super) fn body(error: &dyn Error) -> Self {
        let message = format!("the body of the request cannot be read: {error}");
        Self { status: StatusCode::BAD_REQUEST, reason: "BadRequest", message }
    }

    /// The body of the request has more than `bytes_max` bytes.
    pub(super) fn body_too_long(bytes_max: usize) -> Self {
        let message = format!("the body is too long: at most {bytes_max} bytes are forwarded");
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "RequestEntityTooLarge", message }
    }

    /// The body of the request comes too slowly.
    pub(super) fn body_too_slow(timeout: &BodyTimeout) -> Self {
        Self { status: StatusCode::GATEWAY_TIMEOUT, reason: "Timeout", message: timeout.to_string() }
    }

    /// The server did not respond.
    pub(super) fn no_response(server: &str, error: &kube_client::Error) -> Self {
        let message = format!("{server} did not respond: {}", causes(error));
        Self { status: StatusCode::BAD_GATEWAY, reason: "ServiceUnavailable", message }
    }

    /// The refusal as a `Status`, which every client of an API server can read.
    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("steersman proxy: {}", self.message), "reason": self.reason, "code": self.status.as_u16(),
        });
        let mut response = Response::new(Full::from(format!("{status}\n")));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// The causes of an error, each once. The outermost error adds nothing to them.
fn causes(error: &kube_client::Error) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        cause = error.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
