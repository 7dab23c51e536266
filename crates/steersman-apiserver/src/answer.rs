//! Answers: the head that an object is given for whoever asked, lists made of bytes that exist, refusals.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::kinds::Kind;
use crate::list::{self, ListBody};
use crate::object::Object;
use crate::status::Status;

/// The body of an answer: bytes, or events that come one by one.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// What refusals say that is understood, in the words of the real server. We speak the first.
pub(crate) const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// An answer, or a refusal.
pub(crate) type Answer = Result<Response<Body>, Status>;

/// In which form an object is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is.
    Whole,
    /// Its metadata alone.
    Metadata,
}

impl Form {
    /// What an `Accept` header asks for. A form that is not served is passed over for the next one, as long as there is one.
    pub(crate) fn accepted(accept: Option<&HeaderValue>, watch: bool) -> Result<Self, Status> {
        let text = accept.and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        let mut known = false;
        for media_type in text.split(',') {
            let mut parts = media_type.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            if !matches!(name, "" | "*/*" | "application/json") {
                continue;
            }
            known = true;
            let parameters: Vec<&str> = parts.collect();
            match parameters.iter().find_map(|parameter| parameter.strip_prefix("as=")) {
                None => return Ok(Self::Whole),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Metadata),
                Some(_) => {}
            }
        }
        if known {
            return Err(Status::not_acceptable(MEDIA_TYPES));
        }
        let streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        Err(Status::not_available(&format!("{MEDIA_TYPES}{}", if watch { streams } else { "" })))
    }

    /// What stands before the body of an object.
    fn head(self, kind: &Kind) -> String {
        match self {
            Self::Whole => format!(r#"{{"kind":"{}","apiVersion":"{}","#, kind.kind, kind.api_version()),
            Self::Metadata => r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#.to_owned(),
        }
    }

    fn write(self, to: &mut Vec<u8>, head: &str, object: &Object) {
        to.extend_from_slice(head.as_bytes());
        match self {
            Self::Whole => to.extend_from_slice(object.body()),
            Self::Metadata => {
                to.extend_from_slice(&object.metadata());
                to.push(b'}');
            }
        }
    }

    /// The object as it is sent.
    pub(crate) fn object(self, kind: &Kind, object: &Object) -> Bytes {
        let head = self.head(kind);
        let mut text = Vec::with_capacity(head.len() + object.body().len() + 1);
        self.write(&mut text, &head, object);
        text.into()
    }

    /// One line of a watch.
    pub(crate) fn event(self, kind: &Kind, event: &str, object: &Object) -> Bytes {
        let head = self.head(kind);
        let mut text = Vec::with_capacity(head.len() + object.body().len() + 32);
        text.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
        self.write(&mut text, &head, object);
        text.extend_from_slice(b"}\n");
        text.into()
    }

    /// A list of objects. Items of built-in kinds carry no kind and no version of their own.
    pub(crate) fn list(self, kind: &Kind, metadata: &Value, objects: Vec<Arc<Object>>) -> Response<Body> {
        let (list_kind, version) = match self {
            Self::Whole => (kind.list_kind(), kind.api_version()),
            Self::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let head = format!(r#"{{"kind":"{list_kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
        let item_head = if self == Self::Whole && kind.is_built_in() { "{".to_owned() } else { self.head(kind) };
        let size: usize = objects.iter().map(|object| object.body().len() + item_head.len() + 1).sum();
        if self == Self::Whole && size > list::CHUNK {
            return with_json(ListBody::new(head.into_bytes(), item_head, objects).boxed_unsync());
        }
        let mut text = Vec::with_capacity(size + head.len() + 2);
        text.extend_from_slice(head.as_bytes());
        for (place, object) in objects.iter().enumerate() {
            if place > 0 {
                text.push(b',');
            }
            self.write(&mut text, &item_head, object);
        }
        text.extend_from_slice(b"]}");
        json(StatusCode::OK, text)
    }
}

/// JSON, with that code.
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

/// Text, with that code.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = json(code, text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The refusal as it is sent.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, status.object().to_string());
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Adds what the client should know but need not act on.
pub(crate) trait Warnings {
    /// Adds a header for each.
    fn warning(self, warnings: &[String]) -> Self;
}

impl Warnings for Response<Body> {
    fn warning(mut self, warnings: &[String]) -> Self {
        for warning in warnings {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", steersman_wire::quote(warning))) {
                self.headers_mut().append(WARNING, value);
            }
        }
        self
    }
}

/// The same answer, for people to read.
pub(crate) fn indented(answer: Response<Body>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    // Bodies of single answers are in memory, so that this does not wait.
    let Some(Ok(collected)) = futures::FutureExt::now_or_never(body.collect()) else {
        return Response::from_parts(parts, Full::default().boxed_unsync());
    };
    let bytes = collected.to_bytes();
    let text = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| serde_json::to_vec_pretty(&value).ok());
    Response::from_parts(parts, Full::new(text.map_or(bytes, Bytes::from)).boxed_unsync())
}
