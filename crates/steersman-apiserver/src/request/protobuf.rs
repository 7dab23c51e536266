//! Protobuf bodies, which Go clients send for built-in kinds.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use steersman_wire::protobuf;

use crate::request::Verb;
use crate::request::body::media_type;
use crate::response::status::Status;
use crate::rules::kinds::Kind;
use crate::server::BODY_MAX;

/// The largest size of an object as JSON: an item of two bytes can stand for many empty fields.
const JSON_MAX: usize = 4 * BODY_MAX;

/// The headers and the body as if the client had sent JSON. Custom resources and their definitions
/// have no messages here: such a body stays unchanged, and is refused. Delete options have the same
/// message for all kinds.
pub(crate) fn in_json<'a>(
    kind: &Kind,
    verb: Verb,
    headers: &'a HeaderMap,
    body: &'a Bytes,
) -> Result<(Cow<'a, HeaderMap>, Cow<'a, Bytes>), Status> {
    let is_known = || match verb {
        Verb::Delete | Verb::DeleteCollection => true,
        _ => kind.is_built_in() && protobuf::has_kind(&kind.api_version(), &kind.kind),
    };
    if body.is_empty() || media_type(headers) != protobuf::MEDIA_TYPE || !is_known() {
        return Ok((Cow::Borrowed(headers), Cow::Borrowed(body)));
    }
    let json = protobuf::to_json_within(body, JSON_MAX).map_err(|error| Status::bad_request(error.to_string()))?;
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok((Cow::Owned(headers), Cow::Owned(json.into())))
}
