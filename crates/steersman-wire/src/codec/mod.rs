//! How objects travel, in any encoding.

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
use crate::codec::protobuf::ProtobufType;
use crate::{ErrorStatus, Metadata, ObjectError, Strip};

/// Limits on the memory that a body may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes an object, or any other part of a list, may have. A larger one is skipped and
    /// reported.
    pub object_bytes_max: usize,
}

impl Default for Limits {
    /// 64 MiB, much more than etcd stores in one object.
    fn default() -> Self {
        Self { object_bytes_max: 64 << 20 }
    }
}

/// An item of a list, or the object of an event, as it arrived. `Debug` prints its length, because
/// it may be a Secret.
#[derive(Clone)]
pub struct RawItem {
    /// The index in its list or watch, from zero.
    pub index: usize,
    pub(crate) object: Bytes,
    pub(crate) form: Form,
}

/// The encoding of an item, with the results of splitting.
// A JSON item needs no allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone)]
pub(crate) enum Form {
    Json(Outline),
    Protobuf(ProtobufType),
}

impl RawItem {
    /// An item in JSON without an outline.
    pub fn new(index: usize, object: Bytes) -> Self {
        Self { index, object, form: Form::Json(Outline::default()) }
    }

    /// How many bytes it arrived in.
    pub fn size(&self) -> usize {
        self.object.len()
    }

    /// The item as JSON. No copy if it arrived as JSON.
    pub fn json(&self) -> Result<Bytes, ObjectError> {
        match &self.form {
            Form::Json(_) => Ok(self.object.clone()),
            Form::Protobuf(item_type) => {
                let json = item_type.to_json(&self.object, &Strip::nothing());
                json.map(|(json, _)| json.into()).map_err(|error| error.at_index(self.index))
            }
        }
    }
}

impl fmt::Debug for RawItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoding = match self.form {
            Form::Json(_) => "JSON",
            Form::Protobuf(_) => "protobuf",
        };
        f.debug_struct("RawItem")
            .field("index", &self.index)
            .field("encoding", &encoding)
            .field("object", &Length(self.size()))
            .finish()
    }
}

impl From<Bytes> for RawItem {
    /// A single object in JSON.
    fn from(object: Bytes) -> Self {
        Self::new(0, object)
    }
}

impl PartialEq for RawItem {
    /// Whether the bytes and the index are equal.
    fn eq(&self, other: &Self) -> bool {
        (self.index, &self.object) == (other.index, &other.object)
    }
}

impl Eq for RawItem {}

/// The type of an object: `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TypeMeta {
    /// Group and version, such as `apps/v1`, or `v1`.
    pub api_version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
}

/// The metadata of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListMeta {
    /// The type of the list itself, such as `v1` and `PodList`.
    pub type_meta: TypeMeta,
    /// The version of the whole list, from which a watch can start.
    pub resource_version: String,
    /// The token for the next page. Empty if there is none.
    pub continue_token: String,
    /// How many items later pages hold, if the server sends it.
    pub remaining_item_count: Option<i64>,
}

impl ListMeta {
    /// The type of the items, derived from the type of the list. `None` if that does not determine
    /// it: a `List` can hold anything.
    pub fn item_type(&self) -> Option<TypeMeta> {
        let kind = self.type_meta.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(TypeMeta { api_version: self.type_meta.api_version.clone(), kind: kind.to_owned() })
    }
}

/// The result of [`Json::scan`](crate::Json::scan). `Debug` prints the length of the object,
/// because it may be a Secret.
#[derive(Clone)]
pub struct Scanned {
    /// The metadata without the stripped fields.
    pub metadata: Metadata,
    /// The object without the stripped fields, or its remainder.
    pub object: Bytes,
}

impl fmt::Debug for Scanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metadata, object } = self;
        f.debug_struct("Scanned").field("metadata", metadata).field("object", &Length(object.len())).finish()
    }
}

/// A field of an object. `Debug` prints the length of texts, objects and lists, because they may
/// belong to a Secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is written, of any size.
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
    /// The object was created, or existed when the watch began.
    Added(RawItem),
    /// The object has changed.
    Modified(RawItem),
    /// The object was deleted. This is its last state.
    Deleted(RawItem),
    /// All changes up to this version were sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether all objects that existed at the start were sent (annotation
        /// `k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
    /// The server ends the watch.
    Error(ErrorStatus),
}

/// A list or a watch cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The body has something unexpected. Offsets count from the beginning of the body.
    #[error("invalid body at byte {offset}: expected {expected}")]
    Structure {
        /// The offset in bytes.
        offset: u64,
        /// What was expected there.
        expected: &'static str,
    },
    /// The body ended too early.
    #[error("the body ended after {length} bytes within {within}; it was probably cut off: retry the request")]
    Truncated {
        /// The length of the body in bytes.
        length: u64,
        /// The part that did not end.
        within: &'static str,
    },
    /// A part of the list other than its items is too large.
    #[error("the {name} of the list exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The name of the part.
        name: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The metadata of the list itself cannot be read.
    #[error("invalid fields of the list: {message}")]
    ListMeta {
        /// The reason.
        message: String,
    },
    /// The body is not a list but something else, such as a `Table`.
    #[error("the body is not a list but {kind}; the request must accept plain objects")]
    NotAList {
        /// What the body is.
        kind: String,
    },
    /// The server answered with a `Status`.
    #[error("the server answered {} {}: {}", .0.code, .0.reason, .0.message)]
    Status(Box<ErrorStatus>),
}
