//! Splits watch streams into events.

use std::sync::Arc;

use bytes::Bytes;

use super::pieces::{Piece, Pieces};
use super::reader::{MessageReader, Value};
use super::table::Message;
use super::{ProtobufType, envelope, error, to_json};
use crate::Strip;
use crate::codec::json::bookmark;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::status::ErrorStatus;
use crate::codec::{Form, Limits, RawItem, TypeMeta, WatchEvent, WireError};

/// Splits a watch stream in protobuf into its events.
///
/// Each event follows its length, which takes four bytes, so an invalid event can be skipped.
#[derive(Debug)]
pub(crate) struct ProtobufWatchSplitter {
    pieces: Pieces,
    /// How many events were read.
    events: usize,
    within: bool,
    /// The type of the last object. The next one usually has the same.
    last: Option<(Arc<TypeMeta>, &'static Message)>,
}

impl ProtobufWatchSplitter {
    /// Creates a splitter for the body of a watch.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { pieces: Pieces::new(limits), events: 0, within: false, last: None }
    }

    fn advance(&mut self) -> Option<Result<WatchEvent, ObjectError>> {
        if !self.within {
            let length = u32::from_be_bytes(self.pieces.array()?);
            self.pieces.begin(length.into());
            self.within = true;
        }
        let piece = self.pieces.proceed()?;
        self.within = false;
        Some(match piece {
            Piece::Whole(frame) => self.event(&frame),
            Piece::TooLarge(_) => Err(ObjectFault::TooLarge { limit: self.pieces.limit() }.into()),
        })
    }

    fn event(&mut self, frame: &Bytes) -> Result<WatchEvent, ObjectError> {
        let (kind, object) = parts(frame)?;
        let Some(object) = object else { return Err(ObjectFault::Event { found: "no object".to_owned() }.into()) };
        let opened = envelope::open(object)?;
        let raw = frame.slice_ref(opened.raw);
        let message = self.message(opened.type_meta).map_err(|fault| error(&raw, fault))?;
        let json = || match to_json::object(message, &raw, None, &Strip::nothing()) {
            Ok((json, _)) => Ok(json),
            Err(fault) => Err(error(&raw, fault)),
        };
        let item = || {
            let type_meta = self.last.as_ref().map(|(type_meta, _)| Arc::clone(type_meta));
            RawItem {
                index: self.events,
                object: raw.clone(),
                form: Form::Protobuf(ProtobufType { message, type_meta }),
            }
        };
        match kind {
            b"ADDED" => Ok(WatchEvent::Added(item())),
            b"MODIFIED" => Ok(WatchEvent::Modified(item())),
            b"DELETED" => Ok(WatchEvent::Deleted(item())),
            b"BOOKMARK" => bookmark(&json()?).map_err(|fault| error(&raw, fault)),
            b"ERROR" => ErrorStatus::from_json(&json()?).map(WatchEvent::Error).map_err(|fault| {
                ObjectFault::Decode { message: fault.to_string(), line: fault.line(), column: fault.column() }.into()
            }),
            b"" => Err(error(&raw, ObjectFault::Event { found: "no type".to_owned() })),
            other => {
                let found = format!("the type {:?}", String::from_utf8_lossy(other));
                Err(error(&raw, ObjectFault::Event { found }))
            }
        }
    }

    fn message(&mut self, type_meta: TypeMeta) -> Result<&'static Message, ObjectFault> {
        if let Some((last, message)) = &self.last
            && **last == type_meta
        {
            return Ok(message);
        }
        let message = envelope::message(&type_meta)?;
        self.last = Some((Arc::new(type_meta), message));
        Ok(message)
    }
}

/// The type and the object of an event.
fn parts(event: &[u8]) -> Result<(&[u8], Option<&[u8]>), ObjectFault> {
    let (mut kind, mut object) = (&b""[..], None);
    let mut reader = MessageReader::new(event);
    while let Some(field) = reader.field()? {
        match field {
            (1, Value::Bytes(text)) => kind = text,
            (2, Value::Bytes(message)) => {
                let mut raw = MessageReader::within(event, message);
                while let Some(field) = raw.field()? {
                    if let (1, Value::Bytes(bytes)) = field {
                        object = Some(bytes);
                    }
                }
            }
            _ => {}
        }
    }
    Ok((kind, object))
}

impl ProtobufWatchSplitter {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    pub(crate) fn next_event(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, WireError> {
        let Some(event) = self.advance() else { return Ok(None) };
        let index = self.events;
        self.events += 1;
        Ok(Some(event.map_err(|error| error.at_index(index))))
    }

    pub(crate) fn finish(mut self) -> Result<(), WireError> {
        while self.next_event()?.is_some() {}
        if self.within || !self.pieces.is_between_values() {
            return Err(WireError::Truncated { length: self.pieces.offset(), within: "an event" });
        }
        Ok(())
    }
}
