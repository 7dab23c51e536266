//! The `Status` of a failed request.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use kube_core::Status;
use kube_core::response::{StatusCause, StatusDetails};

use super::body::collect_start;
use super::encoding_of;
use crate::Error;
use crate::error::RequestInfo;
use crate::layers::ResponseBody;

/// How much of an error response is read. A `Status` has a few kilobytes.
const ERROR_BODY_BYTES_MAX: usize = 1 << 20;
/// The longest text that an error takes from a response that is not a `Status`.
const TEXT_BYTES_MAX: usize = 512;

/// The server's `Status`, or one made from the status code if something else responded, such as a
/// proxy. Either has the delay of the `Retry-After` header.
pub(crate) async fn read_status(info: &RequestInfo, response: Response<ResponseBody>) -> Result<Status, Error> {
    let code = response.status();
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let (is_text, encoding) = (is_text(response.headers()), encoding_of(response.headers()));
    let body = collect_start(info, response.into_body(), ERROR_BODY_BYTES_MAX).await?;
    // A body that cannot be decoded leaves the status code.
    let body = encoding.object(&body).unwrap_or_default();

    let status = serde_json::from_slice::<Status>(&body).ok().filter(Status::is_failure);
    let mut status = status.unwrap_or_else(|| Status::failure(&text_of(&body, is_text), reason_of(code)));
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if let Some(seconds) = retry_after {
        let details = status.details.get_or_insert_with(no_details);
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        }
    }
    Ok(status)
}

/// Whether the content type is text, or absent.
fn is_text(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    media_type.is_none_or(|media_type| media_type.starts_with("text/"))
}

/// The beginning of a plain-text body, as proxies and authenticators send. Empty for what may be an
/// object, which may be a Secret.
fn text_of(body: &[u8], is_text: bool) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
    let text = text.trim();
    if !is_text || text.starts_with(['{', '[', '"']) { String::new() } else { text.to_owned() }
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

/// The `reason` that an API server sends with a status code.
fn reason_of(code: StatusCode) -> &'static str {
    match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

/// The `Status` in a list or a watch.
pub(crate) fn from_wire_status(status: steersman_wire::ErrorStatus) -> Status {
    let cause = |reason: String| StatusCause { reason, message: String::new(), field: String::new() };
    let details = StatusDetails {
        causes: status.causes.into_iter().map(cause).collect(),
        retry_after_seconds: status.retry_after_seconds.unwrap_or(0),
        ..no_details()
    };
    Status::failure(&status.message, &status.reason).with_code(status.code).with_details(details)
}
