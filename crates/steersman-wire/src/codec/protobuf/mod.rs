//! Protobuf, the second encoding of API servers for built-in kinds.
//!
//! It is used for transport only: a protobuf item becomes JSON when it is read, and objects that
//! are sent were JSON before. A server writes and reads it faster, so watch events arrive sooner,
//! and bodies are smaller. Other kinds have no messages and travel as JSON.
//!
//! `table` has the fields of messages. `to_json` and `from_json` convert objects. `list` and
//! `watch` split bodies with `pieces`. A single object is in an envelope with its type
//! (`envelope`).

mod covers;
mod envelope;
mod from_json;
mod list;
mod pieces;
mod reader;
mod table;
mod to_json;
mod watch;

pub(crate) use list::ProtobufListSplitter;
pub(crate) use watch::ProtobufWatchSplitter;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use self::reader::{MessageReader, Value};
use self::table::Message;
use crate::codec::TypeMeta;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::outline::Outline;
use crate::{Json, Strip};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Whether objects of a kind can travel as protobuf.
pub fn has_kind(api_version: &str, kind: &str) -> bool {
    Message::of(api_version, kind).is_some()
}

/// Whether objects of a kind can travel as protobuf to a reader of `T`: the messages have every
/// field that `T` reads. The check takes some time.
///
/// ```
/// use steersman_wire::protobuf;
///
/// #[derive(serde::Deserialize)]
/// struct Map {
///     data: std::collections::BTreeMap<String, String>,
/// }
///
/// #[derive(serde::Deserialize)]
/// struct MapOfTomorrow {
///     data: std::collections::BTreeMap<String, String>,
///     moods: Vec<String>,
/// }
///
/// assert!(protobuf::covers::<Map>("v1", "ConfigMap"));
/// assert!(!protobuf::covers::<MapOfTomorrow>("v1", "ConfigMap"));
/// // Accepts anything.
/// assert!(!protobuf::covers::<serde_json::Value>("v1", "ConfigMap"));
/// ```
pub fn covers<T: DeserializeOwned>(api_version: &str, kind: &str) -> bool {
    Message::of(api_version, kind).is_some_and(covers::covers::<T>)
}

/// Converts a single object in its envelope to JSON.
pub fn to_json(body: &[u8]) -> Result<Vec<u8>, ObjectError> {
    to_json_within(body, usize::MAX)
}

/// Converts a single object in its envelope to JSON of at most about `bytes_max` bytes.
///
/// A small body can become large: a message of two bytes may stand for an object with many empty
/// fields that JSON writes.
pub fn to_json_within(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, ObjectError> {
    let opened = envelope::open(body)?;
    let strip = Strip::nothing();
    let written = to_json::object_within(opened.message()?, opened.raw, Some(&opened.type_meta), &strip, bytes_max);
    written.map(|(json, _)| json).map_err(|fault| error(opened.raw, fault))
}

/// Converts a JSON object to protobuf, in the envelope of a single object.
///
/// Returns `None` if the object has no type, if the type is not built in, or if the object has
/// anything that the message cannot hold: a field of a newer release, or an invalid time. Send the
/// JSON then, and let the server decide.
pub fn from_json(object: &[u8]) -> Option<Vec<u8>> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        api_version: String,
        kind: String,
    }
    let Typed { api_version, kind } = Json.decode(object).ok()?;
    let mut written = Vec::with_capacity(object.len());
    from_json::object(Message::of(&api_version, &kind)?, object, &mut written).ok()?;
    Some(envelope::wrap(&TypeMeta { api_version, kind }, &written))
}

/// The object as Go writes it after reading it: empty fields are present or absent as in Go, and
/// quantities and times are in their canonical forms. Two objects that are equal for a server are
/// equal in this form, except for the order of fields. Returns `None` where [`from_json`] does.
///
/// ```
/// use steersman_wire::protobuf;
///
/// let [one, other] = [r#"{"limits":{"cpu":"1000m"}}"#, r#"{"limits":{"cpu":"1"},"claims":[]}"#].map(|resources| {
///     format!(r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"containers":[{{"name":"a","resources":{resources}}}]}}}}"#)
/// });
/// assert_eq!(protobuf::canonical(one.as_bytes()), protobuf::canonical(other.as_bytes()));
/// ```
pub fn canonical(object: &[u8]) -> Option<Vec<u8>> {
    to_json(&from_json(object)?).ok()
}

/// The type of an item that arrived as protobuf.
#[derive(Debug, Clone)]
pub(crate) struct ProtobufType {
    message: &'static Message,
    /// Its type meta, if it arrived with the item.
    type_meta: Option<Arc<TypeMeta>>,
}

impl ProtobufType {
    /// The object as JSON without the fields in `strip`, and its outline.
    pub(crate) fn to_json(&self, bytes: &[u8], strip: &Strip) -> Result<(Vec<u8>, Outline), ObjectError> {
        to_json::object(self.message, bytes, self.type_meta.as_deref(), strip).map_err(|fault| error(bytes, fault))
    }
}

/// The error of an object, with its key if it can be read.
#[cold]
fn error(object: &[u8], fault: ObjectFault) -> ObjectError {
    ObjectError { index: None, key: key(object), fault }
}

/// The `namespace/name` of an object. Its beginning is enough.
fn key(object: &[u8]) -> Option<String> {
    let mut reader = MessageReader::new(object);
    if reader.varint().ok()? != 1 << 3 | 2 {
        return None;
    }
    let length = usize::try_from(reader.varint().ok()?).ok()?;
    let metadata = &reader.rest()[..length.min(reader.rest().len())];
    let (mut name, mut namespace) = (None, None);
    let mut metadata = MessageReader::within(object, metadata);
    // An object that is cut off ends with an error. The fields before it are known.
    while let Ok(Some((number, value))) = metadata.field() {
        match (number, value) {
            (1, Value::Bytes(text)) => name = std::str::from_utf8(text).ok(),
            (3, Value::Bytes(text)) => namespace = std::str::from_utf8(text).ok(),
            _ => {}
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    })
}
