//! Answers: the head that an object is given for whoever asked, lists made of bytes that exist, refusals.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::Value;

use crate::convert;
use crate::kinds::Kind;
use crate::list::{self, ListBody};
use crate::negotiation::{self, Conversion, Encoding, MEDIA_TYPES};
use crate::object::Object;
use crate::status::Status;
use crate::yaml;

/// The body of an answer: bytes, or events that come one by one.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An answer, or a refusal.
pub(crate) type Answer = Result<Response<Body>, Status>;

/// The group that objects belong to when they are wanted as metadata alone.
const META: &str = "meta.k8s.io";

/// In which form an object is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As it is.
    Whole,
    /// As another kind than the stored one.
    As(&'static Kind),
    /// Its metadata alone, as of this apiVersion. What is written is of another kind than the stored one, if there is one.
    Metadata(&'static str, Option<&'static Kind>),
}

/// What an `Accept` header asks for where objects are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    /// Whether it is a list of metadata that was asked for, or the metadata of one object; `None` when neither was.
    pub(crate) list: Option<bool>,
}

impl Wanted {
    /// What an `Accept` header asks for. A form that is not served is passed over for the next one, as long as there is one.
    pub(crate) fn read(accept: Option<&str>, watch: bool) -> Result<Self, Status> {
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let made = if watch { format!("{MEDIA_TYPES}, {streams}") } else { MEDIA_TYPES.to_owned() };
        negotiation::check_media_type(accept, &made)?;
        let agreed = negotiation::negotiate(accept, is_served).ok_or_else(|| Status::not_acceptable(MEDIA_TYPES))?;
        if watch && agreed.encoding == Encoding::Yaml {
            return Err(Status::not_acceptable(streams));
        }
        Ok(match agreed.conversion {
            None => Self { form: Form::Whole, list: None },
            Some(conversion) => {
                let version = if conversion.version == "v1" { "meta.k8s.io/v1" } else { "meta.k8s.io/v1beta1" };
                Self { form: Form::Metadata(version, None), list: Some(conversion.kind == "PartialObjectMetadataList") }
            }
        })
    }

    /// Refuses the metadata of one object where there is a list, and the other way round.
    pub(crate) fn check_shape(self, kind: &Kind, is_list: bool) -> Result<(), Status> {
        match (self.list, is_list) {
            (Some(false), true) => Err(Status::not_acceptable_shape(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                go_type(kind, "List")
            ))),
            (Some(true), false) => Err(Status::not_acceptable_shape(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go_type(kind, "")
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether an object can be answered with in this form.
pub(crate) fn is_served(conversion: Option<&Conversion>) -> bool {
    conversion.is_none_or(|conversion| {
        conversion.group == META
            && matches!(conversion.version.as_str(), "v1" | "v1beta1")
            && matches!(conversion.kind.as_str(), "PartialObjectMetadata" | "PartialObjectMetadataList")
    })
}

/// The type that the real server has for a kind, as its messages tell.
fn go_type(kind: &Kind, suffix: &str) -> String {
    if !kind.is_built_in() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = match kind.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{}{suffix}", kind.kind)
}

impl Form {
    /// The kind that the client reads and writes, when it is not the stored one.
    pub(crate) fn view(self) -> Option<&'static Kind> {
        match self {
            Self::As(view) => Some(view),
            Self::Metadata(_, view) => view,
            Self::Whole => None,
        }
    }

    /// The same form for a client that reads and writes another kind than the stored one.
    pub(crate) fn of_view(self, view: &'static Kind) -> Self {
        match self {
            Self::Metadata(version, _) => Self::Metadata(version, Some(view)),
            Self::Whole | Self::As(_) => Self::As(view),
        }
    }

    /// What stands before the body of an object.
    fn head(self, kind: &Kind) -> String {
        match self {
            Self::Whole => format!(r#"{{"kind":"{}","apiVersion":"{}","#, kind.kind, kind.api_version()),
            Self::As(view) => format!(r#"{{"kind":"{}","apiVersion":"{}","#, view.kind, view.api_version()),
            Self::Metadata(version, _) => format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{version}","#),
        }
    }

    fn write(self, to: &mut Vec<u8>, head: &str, object: &Object) {
        to.extend_from_slice(head.as_bytes());
        match self {
            Self::Whole => to.extend_from_slice(object.body()),
            Self::As(view) => {
                let value = convert::from_stored(view, object.value());
                to.extend_from_slice(Object::new(&value, object.revision(), Vec::new()).body());
            }
            Self::Metadata(..) => {
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

    /// One line of a watch, in one part or more. The bytes of a large object are a part of their
    /// own, which all watches share with the store.
    pub(crate) fn event(self, kind: &Kind, event: &str, object: &Object, parts: &mut VecDeque<Bytes>) {
        let head = self.head(kind);
        let is_shared = matches!(self, Self::Whole) && object.body().len() > list::CHUNK;
        let size = if is_shared { 0 } else { object.body().len() };
        let mut text = Vec::with_capacity(head.len() + size + 32);
        text.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
        if is_shared {
            text.extend_from_slice(head.as_bytes());
            parts.extend([text.into(), object.body().clone(), Bytes::from_static(b"}\n")]);
        } else {
            self.write(&mut text, &head, object);
            text.extend_from_slice(b"}\n");
            parts.push_back(text.into());
        }
    }

    /// A list of objects. Items of built-in kinds carry no kind and no version of their own.
    pub(crate) fn list(self, kind: &Kind, metadata: &Value, objects: Vec<Arc<Object>>) -> Response<Body> {
        let (list_kind, version) = match self {
            Self::Whole => (kind.list_kind.clone(), kind.api_version()),
            Self::As(view) => (view.list_kind.clone(), view.api_version()),
            Self::Metadata(version, _) => ("PartialObjectMetadataList".to_owned(), version.to_owned()),
        };
        let head = format!(r#"{{"kind":"{list_kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
        let item_head = match self {
            Self::Whole | Self::As(_) if kind.is_built_in() => "{".to_owned(),
            _ => self.head(kind),
        };
        let size: usize = objects.iter().map(|object| object.body().len() + item_head.len() + 1).sum();
        if matches!(self, Self::Whole) && size > list::CHUNK {
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

/// Whether the body is JSON.
pub(crate) fn is_json(answer: &Response<Body>) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json")
}

/// The refusal as it is sent.
pub(crate) fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, status.object().to_string());
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response.warning(&status.warnings)
}

/// Adds what the client should know but need not act on.
pub(crate) trait Warnings {
    /// Adds a header for each.
    fn warning(self, warnings: &[String]) -> Self;

    /// Adds a header for each before those that are there.
    fn warning_first(self, warnings: &[String]) -> Self;
}

impl Warnings for Response<Body> {
    fn warning(mut self, warnings: &[String]) -> Self {
        for warning in shortened(warnings) {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", steersman_wire::quote(warning))) {
                self.headers_mut().append(WARNING, value);
            }
        }
        self
    }

    fn warning_first(mut self, warnings: &[String]) -> Self {
        let later: Vec<HeaderValue> = self.headers().get_all(WARNING).iter().cloned().collect();
        self.headers_mut().remove(WARNING);
        let mut answer = self.warning(warnings);
        for warning in later {
            answer.headers_mut().append(WARNING, warning);
        }
        answer
    }
}

/// The warnings that are sent, each once. When all of them are too long, each is cut, and those at the end are left out,
/// as the real server does it.
fn shortened(warnings: &[String]) -> Vec<&str> {
    const TOTAL_MAX: usize = 4 * 1024;
    const ITEM_MAX: usize = 256;

    let mut seen = HashSet::new();
    let each_once = || warnings.iter().filter(|warning| !warning.is_empty());
    // None of the later ones matters when the first so many are too long together.
    let mut total = 0;
    let fits = each_once().all(|warning| {
        total += if seen.insert(warning.as_str()) { warning.chars().count() } else { 0 };
        total <= TOTAL_MAX
    });
    seen.clear();
    let mut written = 0;
    let mut sent = Vec::new();
    for warning in each_once() {
        if !fits && written >= TOTAL_MAX {
            break;
        }
        if !seen.insert(warning.as_str()) {
            continue;
        }
        let end = warning.char_indices().nth(ITEM_MAX).filter(|_| !fits).map_or(warning.len(), |(end, _)| end);
        written += warning[..end].chars().count();
        sent.push(&warning[..end]);
    }
    sent
}

/// The same answer with a body made of its JSON. Only for bodies that are in memory, so that this does not wait.
fn rewritten(answer: Response<Body>, write: impl FnOnce(&Value) -> Option<Vec<u8>>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let Some(Ok(collected)) = futures::FutureExt::now_or_never(body.collect()) else {
        return Response::from_parts(parts, Full::default().boxed_unsync());
    };
    let bytes = collected.to_bytes();
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    // What we have written has a bound of ours.
    reader.disable_recursion_limit();
    let text = Value::deserialize(&mut reader).ok().and_then(|value| write(&value));
    Response::from_parts(parts, Full::new(text.map_or(bytes, Bytes::from)).boxed_unsync())
}

/// The same answer, for people to read.
pub(crate) fn indented(answer: Response<Body>) -> Response<Body> {
    rewritten(answer, |value| serde_json::to_vec_pretty(value).ok())
}

/// The same answer in YAML.
pub(crate) fn in_yaml(answer: Response<Body>) -> Response<Body> {
    let mut answer = rewritten(answer, |value| Some(yaml::write(value).into_bytes()));
    let media_type = HeaderValue::from_static(Encoding::Yaml.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// The same answer without a body, as for the method `HEAD`.
pub(crate) fn without_body(answer: Response<Body>) -> Response<Body> {
    answer.map(|_| Full::default().boxed_unsync())
}
