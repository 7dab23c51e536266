//! Bodies that come as protobuf, which clients in Go send for kinds that are built in.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use steersman_wire::protobuf;

use crate::kinds::Kind;
use crate::status::Status;
use crate::write::media_type;

/// The headers and the body as if the client had sent JSON. Custom resources have no messages: what is sent of them stays as it
/// is, and is refused.
pub(crate) fn in_json<'a>(
    kind: &Kind,
    headers: &'a HeaderMap,
    body: &'a Bytes,
) -> Result<(Cow<'a, HeaderMap>, Cow<'a, Bytes>), Status> {
    if body.is_empty() || !kind.is_built_in() || media_type(headers) != protobuf::MEDIA_TYPE {
        return Ok((Cow::Borrowed(headers), Cow::Borrowed(body)));
    }
    let json = protobuf::to_json(body).map_err(|error| Status::bad_request(error.to_string()))?;
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok((Cow::Owned(headers), Cow::Owned(json.into())))
}
