//! The envelope around a single object: four bytes, and a message with the type and the bytes of
//! the object (Go's `runtime.Unknown`).

use super::reader::{MessageReader, Value, push_bytes};
use super::table::Message;
use crate::codec::TypeMeta;
use crate::codec::object_error::ObjectFault;

/// The first bytes of a body.
pub(super) const MAGIC: &[u8; 4] = b"k8s\0";
/// The fields of the envelope.
pub(super) const TYPE_META: u32 = 1;
pub(super) const RAW: u32 = 2;

/// An open envelope.
pub(super) struct Envelope<'a> {
    pub(super) type_meta: TypeMeta,
    /// The object.
    pub(super) raw: &'a [u8],
}

impl Envelope<'_> {
    /// The message type of the object.
    pub(super) fn message(&self) -> Result<&'static Message, ObjectFault> {
        message(&self.type_meta)
    }
}

/// The message of a type, which has to be built in.
pub(super) fn message(type_meta: &TypeMeta) -> Result<&'static Message, ObjectFault> {
    let TypeMeta { api_version, kind } = type_meta;
    Message::of(api_version, kind).ok_or_else(|| {
        let message = format!("{api_version} {kind} arrived as protobuf, which has only built-in kinds: request JSON");
        ObjectFault::Decode { message, line: 0, column: 0 }
    })
}

/// Opens an envelope.
pub(super) fn open(bytes: &[u8]) -> Result<Envelope<'_>, ObjectFault> {
    let Some(envelope) = bytes.strip_prefix(MAGIC) else {
        return Err(ObjectFault::Syntax { offset: 0, expected: "the envelope of an object" });
    };
    let (mut type_meta, mut raw) = (TypeMeta::default(), &b""[..]);
    let mut reader = MessageReader::within(bytes, envelope);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (TYPE_META, Value::Bytes(message)) => type_meta = read_type_meta(message)?,
            (RAW, Value::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok(Envelope { type_meta, raw })
}

/// Go's `runtime.TypeMeta`.
pub(super) fn read_type_meta(bytes: &[u8]) -> Result<TypeMeta, ObjectFault> {
    let mut type_meta = TypeMeta::default();
    let mut reader = MessageReader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(text)) => type_meta.api_version = String::from_utf8_lossy(text).into_owned(),
            (2, Value::Bytes(text)) => type_meta.kind = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    Ok(type_meta)
}

/// Puts a message into an envelope.
pub(super) fn wrap(type_meta: &TypeMeta, message: &[u8]) -> Vec<u8> {
    let mut inner = Vec::new();
    push_bytes(&mut inner, 1, type_meta.api_version.as_bytes());
    push_bytes(&mut inner, 2, type_meta.kind.as_bytes());
    let mut out = Vec::with_capacity(message.len() + inner.len() + 16);
    out.extend_from_slice(MAGIC);
    push_bytes(&mut out, TYPE_META, &inner);
    push_bytes(&mut out, RAW, message);
    out
}
