//! The OpenAPI documents: `/openapi/v2`, `/openapi/v3` and the documents of each group below it.
//!
//! They are made on request from the recorded table (`table`), the table of kinds and the
//! CustomResourceDefinitions, and equal those of the real server byte for byte. A `Route` is a
//! method at a path: `builtin` and `custom` have those of kinds, and `route` shows them in both
//! versions. `document` puts a document together as a tree of `Node`s, which is written as JSON or
//! as the messages of gnostic (`protobuf`).
//!
//! Documents without custom resources are the same for all servers of a process and are kept once
//! they were requested. Documents with custom resources are made for each request; the server keeps
//! their hashes.

mod builtin;
mod content;
mod custom;
mod document;
mod node;
mod protobuf;
mod route;
mod schema;
mod shared;
mod sources;
mod table;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value, json};

use self::content::{Compressed, Form, Served};
use crate::request::Query;
use crate::request::negotiation;
use crate::response::status::Status;
use crate::response::{Body, HandlerResult};
use crate::server::Shared;

const V2: &str = "/openapi/v2";
const V3: &str = "/openapi/v3";
const JSON: &str = "application/json";
/// The media type of protobuf in responses, and the subtypes that clients accept it by.
struct Protobuf {
    media_type: &'static str,
    subtypes: [&'static str; 2],
}

const V2_PROTOBUF: Protobuf = Protobuf {
    media_type: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    subtypes: ["com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2@v1.0+protobuf"],
};
const V3_PROTOBUF: Protobuf = Protobuf {
    media_type: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    subtypes: ["com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf"],
};
/// How long a document with a hash may be kept.
const YEAR: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// Whether there may be a document at this path.
pub(crate) fn is_document(path: &str) -> bool {
    path == V2 || path == V3 || path.starts_with("/openapi/v3/")
}

impl Shared {
    /// The response to a request for a document. The real server takes every method for GET.
    pub(crate) fn openapi(&self, path: &str, query: &Query, headers: &HeaderMap) -> HandlerResult {
        let mut response = match path {
            V2 => self.openapi_v2(headers),
            V3 => self.openapi_index(headers),
            path => {
                let document = path.strip_prefix(V3).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
                self.openapi_v3(document, query, headers)
            }
        }?;
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        Ok(response)
    }

    fn openapi_v2(&self, headers: &HeaderMap) -> HandlerResult {
        let vary = [HeaderValue::from_static("Accept-Encoding"), HeaderValue::from_static("Accept")];
        let mut response = match form(headers, &V2_PROTOBUF) {
            Some((form, media_type)) => {
                let served = self.openapi_source("v2").ok_or_else(Status::no_such_path)?;
                let mut response = self.conditional(&served, form, headers, Compressed::IfAccepted)?;
                content_type(&mut response, media_type);
                response
            }
            None => empty(StatusCode::NOT_ACCEPTABLE),
        };
        for value in vary {
            response.headers_mut().append(VARY, value);
        }
        Ok(response)
    }

    /// The documents of version 3, with their hashes.
    fn openapi_index(&self, headers: &HeaderMap) -> HandlerResult {
        let mut paths = Map::new();
        for (document, hash) in self.openapi_documents() {
            let url = versioned(&document, &hash);
            paths.insert(document, json!({ "serverRelativeURL": url }));
        }
        let served = Served::plain(json!({ "paths": Value::Object(paths) }).to_string());
        let mut response = self.conditional(&served, Form::Json, headers, Compressed::Never)?;
        content_type(&mut response, "text/plain; charset=utf-8");
        Ok(response)
    }

    fn openapi_v3(&self, document: &str, query: &Query, headers: &HeaderMap) -> HandlerResult {
        let Some(served) = self.openapi_source(document) else { return Ok(empty(StatusCode::NOT_FOUND)) };
        let mut response = match form(headers, &V3_PROTOBUF) {
            Some((form, media_type)) => {
                let wanted = query.get("hash").filter(|hash| !hash.is_empty());
                let mut response = match wanted {
                    Some(hash) if hash != served.hash() => {
                        let mut moved = empty(StatusCode::MOVED_PERMANENTLY);
                        insert(&mut moved, LOCATION, &versioned(document, served.hash()));
                        content::tag(&mut moved, &served);
                        moved
                    }
                    _ => self.conditional(&served, form, headers, Compressed::Never)?,
                };
                if wanted.is_some_and(|hash| hash == served.hash()) {
                    insert(&mut response, CACHE_CONTROL, "public, immutable");
                    let expires = (self.world.now() + YEAR).strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
                    insert(&mut response, EXPIRES, &expires);
                }
                content_type(&mut response, media_type);
                response
            }
            // A header without a media type is neither accepted nor refused.
            None if is_empty(headers) => return Ok(empty(StatusCode::OK)),
            None => empty(StatusCode::NOT_ACCEPTABLE),
        };
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        Ok(response)
    }
}

/// The address of a document with this hash.
fn versioned(document: &str, hash: &str) -> String {
    format!("{V3}/{document}?hash={hash}")
}

/// The form that the client accepts, and its media type.
fn form(headers: &HeaderMap, protobuf: &Protobuf) -> Option<(Form, &'static str)> {
    let accept = negotiation::accept(headers).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    for (kind, subtype) in negotiation::media_types(accept) {
        if !["*", "application"].contains(&kind) {
            continue;
        }
        if ["*", "json"].contains(&subtype) {
            return Some((Form::Json, JSON));
        }
        if protobuf.subtypes.contains(&subtype) {
            return Some((Form::Protobuf, protobuf.media_type));
        }
    }
    None
}

fn is_empty(headers: &HeaderMap) -> bool {
    negotiation::accept(headers).is_some_and(|accept| negotiation::media_types(accept).is_empty())
}

/// A response without a body, and without a type of it.
fn empty(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::<Bytes>::default().boxed_unsync());
    *response.status_mut() = code;
    response
}

fn content_type(response: &mut Response<Body>, media_type: &'static str) {
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
}

fn insert(response: &mut Response<Body>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests;
