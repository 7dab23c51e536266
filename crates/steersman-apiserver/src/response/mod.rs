//! Responses: objects, lists, discovery documents and `Status` errors, in the encoding that the
//! client accepts.

pub(crate) mod discovery;
pub(crate) mod form;
mod list_body;
pub(crate) mod openapi;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod version;
pub(crate) mod warnings;
pub(crate) mod yaml;

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Value, json};

use self::status::Status;
use self::warnings::Warnings;
use crate::request::budget;
use crate::request::negotiation::Encoding;

/// The body of a response: bytes, or a stream of events.
pub type ServerBody = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) use ServerBody as Body;

/// A response, or a refusal.
pub(crate) type HandlerResult = Result<Response<Body>, Status>;

/// A JSON response with this code.
pub(crate) fn json(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = with_json(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = code;
    response
}

fn with_json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A text response with this code.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = json(code, text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response to a request whose URI names neither a resource nor a path.
pub(crate) fn unreadable(uri: &str) -> Response<Body> {
    let cause = format!("failed to create RequestInfo: unable to determine kind and namespace from url, {uri}");
    let message = format!("Internal Server Error: {}: {cause}\n", steersman_wire::quote(uri));
    text(StatusCode::INTERNAL_SERVER_ERROR, without_tags(&message))
}

/// A text in which a browser takes no part for a tag.
pub(crate) fn without_tags(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON as Go writes it: characters are escaped that HTML or JavaScript give a meaning.
pub(crate) fn html_safe(json: String) -> String {
    let has_meaning = |character: char| matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if !json.contains(has_meaning) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if has_meaning(character) {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

/// Whether the body is JSON.
pub(crate) fn is_json(response: &Response<Body>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json")
}

/// The refusal as it is sent.
pub(crate) fn error(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, status.object().to_string());
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response.warning(&status.warnings)
}

/// The memory that a response may take while it is parsed and written again.
const REWRITTEN_MAX: usize = 512 << 20;
/// The bytes of JSON that take a step to parse and to write again.
const REWRITE_STEP: usize = 16;

/// The same response with a body converted from its JSON. Only for bodies that are in memory, so
/// that this does not wait.
fn rewritten(response: Response<Body>, write: impl FnOnce(&Value) -> Option<Vec<u8>>) -> HandlerResult {
    let too_large = || {
        Status::too_large(format!(
            "Request entity too large: the answer takes more than {REWRITTEN_MAX} bytes of memory to be written in YAML or \
             indented; ask for plain JSON, or use the parameter limit"
        ))
    };
    let (parts, body) = response.into_parts();
    if body.size_hint().lower() > REWRITTEN_MAX as u64 {
        return Err(too_large());
    }
    let Some(Ok(collected)) = futures::FutureExt::now_or_never(body.collect()) else {
        return Ok(Response::from_parts(parts, Full::default().boxed_unsync()));
    };
    let bytes = collected.to_bytes();
    budget::step(bytes.len() / REWRITE_STEP);
    if budget::parsed(&bytes) > REWRITTEN_MAX {
        return Err(too_large());
    }
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    // Our own output has a bound on its depth.
    reader.disable_recursion_limit();
    let text = Value::deserialize(&mut reader).ok().and_then(|value| write(&value));
    Ok(Response::from_parts(parts, Full::new(text.map_or(bytes, Bytes::from)).boxed_unsync()))
}

/// The same response, indented.
pub(crate) fn indented(response: Response<Body>) -> HandlerResult {
    rewritten(response, |value| serde_json::to_vec_pretty(value).ok())
}

/// The same response in YAML.
pub(crate) fn in_yaml(response: Response<Body>) -> HandlerResult {
    let mut response = rewritten(response, |value| Some(yaml::write(value).into_bytes()))?;
    let media_type = HeaderValue::from_static(Encoding::Yaml.media_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(response)
}

/// The same response without a body, for the method `HEAD`.
pub(crate) fn without_body(response: Response<Body>) -> Response<Body> {
    response.map(|_| Full::default().boxed_unsync())
}

/// The response to a create that stores no object.
pub(crate) fn created() -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    json(StatusCode::CREATED, status.to_string())
}
