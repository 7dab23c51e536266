//! How objects come over the wire, whatever the encoding.

pub mod base64;
pub(crate) mod encoding;
mod hidden;
pub(crate) mod json;
pub(crate) mod metadata;
pub(crate) mod object_error;
mod outline;
pub mod protobuf;
pub(crate) mod shared_texts;
pub(crate) mod splitter;
pub(crate) mod status;
pub(crate) mod strip;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::codec::hidden::Length;
use crate::codec::outline::Outline;
use crate::codec::protobuf::Sent;
use crate::{Metadata, ObjectError, Status, Strip};

/// How much a server may have us hold in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes an object may have, and each other part of a list. A larger one is passed over and reported.
    pub object_bytes_max: usize,
}

impl Default for Limits {
    /// 64 MiB, a lot more than etcd holds in one object.
    fn default() -> Self {
        Self { object_bytes_max: 64 << 20 }
    }
}

/// An item of a list, or the object of an event, as it came. `Debug` prints its length, because it may be a Secret.
#[derive(Clone)]
pub struct Item {
    /// Which one, counted from zero.
    pub index: usize,
    pub(crate) object: Bytes,
    pub(crate) form: Form,
}

/// How an item came.
// Nothing is allocated for an item that comes as JSON.
#[allow(clippy::large_enum_variant)]
#[derive(Clone)]
pub(crate) enum Form {
    Json(Outline),
    Protobuf(Sent),
}

impl Item {
    /// An item in JSON, of which nothing was learned while it was split off.
    pub fn new(index: usize, object: Bytes) -> Self {
        Self { index, object, form: Form::Json(Outline::default()) }
    }

    /// How many bytes it came in.
    pub fn size(&self) -> usize {
        self.object.len()
    }

    /// The item as JSON: as it came, if it came so.
    pub fn json(&self) -> Result<Bytes, ObjectError> {
        match &self.form {
            Form::Json(_) => Ok(self.object.clone()),
            Form::Protobuf(sent) => {
                let json = sent.to_json(&self.object, &Strip::nothing());
                json.map(|(json, _)| json.into()).map_err(|error| error.at_index(self.index))
            }
        }
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoding = match self.form {
            Form::Json(_) => "JSON",
            Form::Protobuf(_) => "protobuf",
        };
        f.debug_struct("Item")
            .field("index", &self.index)
            .field("encoding", &encoding)
            .field("object", &Length(self.size()))
            .finish()
    }
}

impl From<Bytes> for Item {
    /// An object in JSON that stands alone.
    fn from(object: Bytes) -> Self {
        Self::new(0, object)
    }
}

impl PartialEq for Item {
    /// Whether they are the same bytes at the same place.
    fn eq(&self, other: &Self) -> bool {
        (self.index, &self.object) == (other.index, &other.object)
    }
}

impl Eq for Item {}

/// What an object is: `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TypeMeta {
    /// Group and version, such as `apps/v1`, or `v1`.
    pub api_version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
}

/// What a list says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListMeta {
    /// The list's own type, such as `v1` and `PodList`.
    pub type_meta: TypeMeta,
    /// The version of the whole list, from which to watch.
    pub resource_version: String,
    /// With what to ask for the next page; empty when there is none.
    pub continue_token: String,
    /// How many items there are on later pages, where the server says so.
    pub remaining_item_count: Option<i64>,
}

impl ListMeta {
    /// The type of the list's items, told from the list's own; none when the list does not tell (`List` can hold anything).
    pub fn item_type(&self) -> Option<TypeMeta> {
        let kind = self.type_meta.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(TypeMeta { api_version: self.type_meta.api_version.clone(), kind: kind.to_owned() })
    }
}

/// What [`Json::scan`](crate::Json::scan) gives. `Debug` prints the length of the object, because it may be a Secret.
#[derive(Clone)]
pub struct Scanned {
    /// The metadata, without what was to be left out.
    pub metadata: Metadata,
    /// The object, without what was to be left out; or its remainder, if that was asked for.
    pub object: Bytes,
}

impl fmt::Debug for Scanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, object } = self;
        f.debug_struct("Scanned").field("metadata", metadata).field("object", &Length(object.len())).finish()
    }
}

/// A field of an object. `Debug` prints the length of texts, objects and lists, because they may be of a Secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is written, however large.
    Number(&'a str),
    /// A text.
    String(Cow<'a, str>),
    /// An object or a list, as it is encoded.
    Raw(&'a [u8]),
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => f.debug_tuple("Bool").field(value).finish(),
            Self::Number(number) => f.debug_tuple("Number").field(&Length(number.len())).finish(),
            Self::String(text) => f.debug_tuple("String").field(&Length(text.len())).finish(),
            Self::Raw(raw) => f.debug_tuple("Raw").field(&Length(raw.len())).finish(),
        }
    }
}

impl Value<'_> {
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object is there.
    Added(Item),
    /// The object has changed.
    Modified(Item),
    /// The object is gone; this is its last state.
    Deleted(Item),
    /// Everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether all objects that existed at the start have been sent (annotation `k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
    /// The server ends the watch.
    Error(Status),
}

/// A list or a stream cannot be followed any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Something else should stand there. Offsets count from the beginning of the body.
    #[error("the body makes no sense at byte {offset}: expected {expected}")]
    Structure {
        /// Where.
        offset: u64,
        /// What should stand there.
        expected: &'static str,
    },
    /// The body has ended too early.
    #[error("the body ended after {length} bytes in the midst of {within}; it was probably cut off: ask again")]
    Truncated {
        /// How many bytes there were.
        length: u64,
        /// What had not ended.
        within: &'static str,
    },
    /// A part of the list other than its items is too large.
    #[error("the list's {name} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Which part.
        name: String,
        /// How large it may be.
        limit: usize,
    },
    /// The list's own metadata cannot be read.
    #[error("the list's own fields cannot be read: {message}")]
    ListMeta {
        /// Why.
        message: String,
    },
    /// The body is not a list but something else, such as a `Table`.
    #[error("the body is not a list but {kind}; the request must ask for plain objects")]
    NotAList {
        /// What it is.
        kind: String,
    },
    /// The body is not a list but the server's refusal.
    #[error("the server answered {} {}: {}", .0.code, .0.reason, .0.message)]
    Status(Box<Status>),
}
