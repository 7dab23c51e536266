//! The forms in which an object is sent, and the `Accept` header that chooses one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::request::Query;
use crate::request::negotiation::{self, Conversion, Encoding, MEDIA_TYPES};
use crate::response::list_body::{self, ListBody};
use crate::response::status::Status;
use crate::response::table::age::Now;
use crate::response::table::{Include, TableForm};
use crate::response::{self, Body, json, with_json};
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::store::object::Object;

/// The group of metadata-only objects.
const META: &str = "meta.k8s.io";

/// The requested form of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Unchanged.
    Whole,
    /// As another kind than the stored one.
    As(&'static Kind),
    /// Its metadata alone, with this apiVersion. A write has another kind than the stored one, if
    /// there is one.
    Metadata(&'static str, Option<&'static Kind>),
    /// As rows of cells.
    Table(TableForm),
}

/// The `Accept` header of a request for objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    /// Whether a list of metadata was requested, or the metadata of one object; `None` if neither
    /// was.
    pub(crate) list: Option<bool>,
}

impl Accepted {
    /// Parses an `Accept` header. A form that is not served is skipped for the next one, if there
    /// is one.
    pub(crate) fn read(accept: Option<&str>, watch: bool) -> Result<Self, Status> {
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let made = if watch { format!("{MEDIA_TYPES}, {streams}") } else { MEDIA_TYPES.to_owned() };
        negotiation::check_media_type(accept, &made)?;
        let negotiated =
            negotiation::negotiate(accept, is_served).ok_or_else(|| Status::not_acceptable(MEDIA_TYPES))?;
        if watch && negotiated.encoding == Encoding::Yaml {
            return Err(Status::not_acceptable(streams));
        }
        Ok(match negotiated.conversion {
            None => Self { form: Form::Whole, list: None },
            Some(conversion) => {
                let version = if conversion.version == "v1" { "meta.k8s.io/v1" } else { "meta.k8s.io/v1beta1" };
                if conversion.kind == "Table" {
                    return Ok(Self { form: Form::Table(TableForm::new(version)), list: None });
                }
                Self { form: Form::Metadata(version, None), list: Some(conversion.kind == "PartialObjectMetadataList") }
            }
        })
    }

    /// Refuses the metadata of one object for a list, and the other way round.
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

/// Whether an object can be returned in this form.
pub(crate) fn is_served(conversion: Option<&Conversion>) -> bool {
    conversion.is_none_or(|conversion| {
        conversion.group == META
            && matches!(conversion.version.as_str(), "v1" | "v1beta1")
            && matches!(conversion.kind.as_str(), "PartialObjectMetadata" | "PartialObjectMetadataList" | "Table")
    })
}

/// The real server's Go type of a kind, as in its messages.
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
    /// The kind that the client reads and writes, if it is not the stored one.
    pub(crate) fn view(self) -> Option<&'static Kind> {
        match self {
            Self::As(view) => Some(view),
            Self::Metadata(_, view) => view,
            Self::Table(table) => table.view,
            Self::Whole => None,
        }
    }

    /// The same form for a client that reads and writes another kind than the stored one.
    pub(crate) fn of_view(self, view: &'static Kind) -> Self {
        match self {
            Self::Metadata(version, _) => Self::Metadata(version, Some(view)),
            Self::Table(table) => Self::Table(TableForm { view: Some(view), ..table }),
            Self::Whole | Self::As(_) => Self::As(view),
        }
    }

    /// The same form, with ages of this time.
    pub(crate) fn at(self, now: Now) -> Self {
        match self {
            Self::Table(table) => Self::Table(TableForm { now, ..table }),
            form => form,
        }
    }

    /// The same form for the next event of a watch.
    pub(crate) fn without_headers(self) -> Self {
        match self {
            Self::Table(table) => Self::Table(TableForm { has_headers: false, ..table }),
            form => form,
        }
    }

    /// The same form, as the query asks for it.
    pub(crate) fn with_query(self, query: &Query) -> Result<Self, Status> {
        match self {
            Self::Table(table) => {
                let include = Include::parse(query.get("includeObject").unwrap_or_default())?;
                Ok(Self::Table(TableForm { include, ..table }))
            }
            form => Ok(form),
        }
    }

    /// The text before the body of an object.
    fn head(self, kind: &Kind) -> String {
        match self {
            Self::Whole => format!(r#"{{"kind":"{}","apiVersion":"{}","#, kind.kind, kind.api_version()),
            Self::As(view) => format!(r#"{{"kind":"{}","apiVersion":"{}","#, view.kind, view.api_version()),
            Self::Metadata(version, _) => format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{version}","#),
            // A Table is written as a whole.
            Self::Table(_) => String::new(),
        }
    }

    fn write(self, to: &mut Vec<u8>, kind: &Kind, head: &str, object: &Object) {
        to.extend_from_slice(head.as_bytes());
        match self {
            Self::Whole => to.extend_from_slice(object.body()),
            Self::As(view) => {
                let value = convert::from_stored(view, object.value());
                let object = Object::managed_by(&value, object.managed(), object.revision(), Vec::new());
                to.extend_from_slice(object.body());
            }
            Self::Metadata(..) => {
                to.extend_from_slice(&object.metadata());
                to.push(b'}');
            }
            Self::Table(table) => table.write_object(to, kind, object),
        }
    }

    /// The object as it is sent.
    pub(crate) fn object(self, kind: &Kind, object: &Object) -> Bytes {
        let head = self.head(kind);
        let mut text = Vec::with_capacity(head.len() + object.body().len() + 1);
        self.write(&mut text, kind, &head, object);
        text.into()
    }

    /// One line of a watch, in one part or more. The bytes of a large object are a part of their
    /// own, which all watches share with the store.
    pub(crate) fn event(self, kind: &Kind, event: &str, object: &Object, parts: &mut VecDeque<Bytes>) {
        let head = self.head(kind);
        let is_shared = matches!(self, Self::Whole) && object.body().len() > list_body::CHUNK;
        let size = if is_shared { 0 } else { object.body().len() };
        let mut text = Vec::with_capacity(head.len() + size + 32);
        text.extend_from_slice(format!(r#"{{"type":"{event}","object":"#).as_bytes());
        if is_shared {
            text.extend_from_slice(head.as_bytes());
            parts.extend([text.into(), object.body().clone(), Bytes::from_static(b"}\n")]);
        } else {
            self.write(&mut text, kind, &head, object);
            text.extend_from_slice(b"}\n");
            parts.push_back(text.into());
        }
    }

    /// A list of objects. Items of built-in kinds carry no kind and no version of their own.
    pub(crate) fn list(self, kind: &Kind, metadata: &Value, objects: Vec<Arc<Object>>) -> Response<Body> {
        if let Self::Table(table) = self {
            return match table.list(kind, metadata, objects) {
                Ok(text) => json(StatusCode::OK, text),
                Err(status) => response::error(&status),
            };
        }
        let (list_kind, version) = match self {
            Self::Whole => (kind.list_kind.clone(), kind.api_version()),
            Self::As(view) => (view.list_kind.clone(), view.api_version()),
            Self::Metadata(version, _) => ("PartialObjectMetadataList".to_owned(), version.to_owned()),
            Self::Table(_) => return response::error(&Status::unprocessable()),
        };
        let head = format!(r#"{{"kind":"{list_kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
        let item_head = match self {
            Self::Whole | Self::As(_) if kind.is_built_in() => "{".to_owned(),
            _ => self.head(kind),
        };
        let size: usize = objects.iter().map(|object| object.body().len() + item_head.len() + 1).sum();
        if matches!(self, Self::Whole) && size > list_body::CHUNK {
            return with_json(ListBody::new(head.into_bytes(), item_head, objects).boxed_unsync());
        }
        let mut text = Vec::with_capacity(size + head.len() + 2);
        text.extend_from_slice(head.as_bytes());
        for (place, object) in objects.iter().enumerate() {
            if place > 0 {
                text.push(b',');
            }
            self.write(&mut text, kind, &item_head, object);
        }
        text.extend_from_slice(b"]}");
        json(StatusCode::OK, text)
    }
}
