//! Requests built by kube-core, and their JSON bodies.

use http::Request;
use kube_client::client::Body;
use serde::Serialize;

use crate::Error;

type Built = Result<Request<Vec<u8>>, kube_core::request::Error>;

pub(crate) fn request(built: Built) -> Result<Request<Body>, Error> {
    written(built).map(|request| request.map(Body::from))
}

pub(super) fn written(built: Built) -> Result<Request<Vec<u8>>, Error> {
    let mut request = built.map_err(|error| Error::InvalidRequest(error.to_string()))?;
    // kube-core writes `path?` without parameters, and `path?&a=b` with some.
    let query = request.uri().query();
    if let Some(query) = query.filter(|query| query.is_empty() || query.starts_with('&')) {
        let (path, query) = (request.uri().path(), query.trim_start_matches('&'));
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| {
            Error::InvalidRequest(format!("invalid path {target:?}: {error}"))
        })?;
    }
    Ok(request)
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| not_json::<T>(&error))
}

pub(crate) fn to_json_value<T: Serialize>(value: &T) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| not_json::<T>(&error))
}

fn not_json<T>(error: &serde_json::Error) -> Error {
    Error::InvalidRequest(format!("a {} cannot be encoded as JSON: {error}", std::any::type_name::<T>()))
}
