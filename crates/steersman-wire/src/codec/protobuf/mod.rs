//! Protobuf, as API servers speak it for the kinds that are built in.
//!
//! It is a way to travel and nothing more: what comes as protobuf becomes JSON when it is looked at, and what is sent was
//! JSON before. A server takes less time to write it and to read it, so that a watch tells sooner of a change, and there is
//! less to send. Kinds that are not built in have no messages, and travel as JSON.
//!
//! `table` knows the fields of messages, `to_json` and `from_json` go from one to the other, and `list` and `watch`
//! split bodies, in `pieces`. An object that travels alone is in an envelope, which says what it is (`envelope`).

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

use self::reader::{Reader, Value};
use self::table::Message;
use crate::codec::TypeMeta;
use crate::codec::object_error::{Fault, ObjectError};
use crate::codec::outline::Outline;
use crate::{Json, Strip};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Whether objects of a kind can travel as protobuf.
pub fn has_kind(api_version: &str, kind: &str) -> bool {
    Message::of(api_version, kind).is_some()
}

/// Whether objects of a kind can travel as protobuf to somebody who reads them as `T`: the messages hold every field that `T`
/// reads. It takes some time to find out.
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
/// // It takes whatever comes.
/// assert!(!protobuf::covers::<serde_json::Value>("v1", "ConfigMap"));
/// ```
pub fn covers<T: DeserializeOwned>(api_version: &str, kind: &str) -> bool {
    Message::of(api_version, kind).is_some_and(covers::covers::<T>)
}

/// An object as it comes alone, in its envelope, as JSON.
pub fn to_json(body: &[u8]) -> Result<Vec<u8>, ObjectError> {
    to_json_within(body, usize::MAX)
}

/// An object as it comes alone, in its envelope, as JSON of about so many bytes at most.
///
/// A message of two bytes may stand for an object whose fields are all empty and yet written, so that what comes of a
/// small body can be large.
pub fn to_json_within(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, ObjectError> {
    let opened = envelope::open(body)?;
    let strip = Strip::nothing();
    let written = to_json::object_within(opened.message()?, opened.raw, Some(&opened.type_meta), &strip, bytes_max);
    written.map(|(json, _)| json).map_err(|fault| error(opened.raw, fault))
}

/// An object that is given as JSON, in the envelope in which it travels alone.
///
/// None if it does not say its type, if the type is not built in, and if it has anything that the message cannot hold: a field of a newer
/// release, or a text that is no time where a time should be. It is then for the server to say what it makes of the JSON.
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

/// An object as Go would write it as JSON after reading it: what is empty is there, or not, as Go does it, quantities and times are in their
/// canonical forms. Two objects that mean the same to a server are the same in this form, but for the order of fields. None where
/// [`from_json`] gives none.
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

/// What is known of an item that came as protobuf.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    message: &'static Message,
    /// Its type, if it came with it.
    type_meta: Option<Arc<TypeMeta>>,
}

impl Sent {
    /// The object as JSON, without what `strip` names, and where its parts are.
    pub(crate) fn to_json(&self, bytes: &[u8], strip: &Strip) -> Result<(Vec<u8>, Outline), ObjectError> {
        to_json::object(self.message, bytes, self.type_meta.as_deref(), strip).map_err(|fault| error(bytes, fault))
    }
}

/// The error of an object, with its key if that can be told.
#[cold]
fn error(object: &[u8], fault: Fault) -> ObjectError {
    ObjectError { index: None, key: key(object), fault }
}

/// The `namespace/name` of an object, of which the beginning is enough.
fn key(object: &[u8]) -> Option<String> {
    let mut reader = Reader::new(object);
    if reader.varint().ok()? != 1 << 3 | 2 {
        return None;
    }
    let length = usize::try_from(reader.varint().ok()?).ok()?;
    let metadata = &reader.rest()[..length.min(reader.rest().len())];
    let (mut name, mut namespace) = (None, None);
    let mut metadata = Reader::within(object, metadata);
    // What is cut off ends with an error, and what is before it is known.
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
