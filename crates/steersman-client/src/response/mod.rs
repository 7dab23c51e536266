//! Responses: bodies collected in memory, bodies read as streams of objects, and the `Status` of a
//! failed request.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use steersman_wire::Encoding;

use crate::error::{Error, RequestInfo, ResponseError, TimeoutError, TransportError, chain};
use crate::layers::gate::GateError;
use crate::offline::OfflineError;

mod body;
mod status;
mod stream;

pub(crate) use body::BodyLimit;
pub(crate) use status::{from_wire_status, read_status};
pub use stream::{RawList, RawWatch};

pub(crate) fn encoding_of(headers: &HeaderMap) -> Encoding {
    Encoding::of(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

/// A body as JSON.
pub(crate) fn to_json(info: &RequestInfo, encoding: Encoding, body: Bytes) -> Result<Bytes, Error> {
    match encoding.object(&body) {
        Ok(Cow::Borrowed(_)) => Ok(body),
        Ok(Cow::Owned(json)) => Ok(json.into()),
        Err(error) => Err(Error::Object { request: info.clone(), error: Box::new(error) }),
    }
}

/// Decodes a body. The error holds nothing of it.
pub(crate) fn decode<T: DeserializeOwned>(info: &RequestInfo, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::Decode { request: info.clone(), problem: ResponseError::json::<T>(&error) })
}

/// The error of a layer or of the connection.
pub(crate) fn transport_error(info: RequestInfo, error: tower::BoxError) -> Error {
    if let Some(gate) = chain(&*error).find_map(|error| error.downcast_ref::<GateError>().copied()) {
        return Error::Gate { request: info, gate };
    }
    if chain(&*error).any(<dyn std::error::Error + 'static>::is::<OfflineError>) {
        return Error::Offline { request: info };
    }
    let timeout = chain(&*error).find_map(|error| error.downcast_ref::<TimeoutError>().copied());
    match timeout {
        Some(timeout) => Error::Timeout { request: info, timeout },
        None => Error::Transport { request: info, source: TransportError(error) },
    }
}
