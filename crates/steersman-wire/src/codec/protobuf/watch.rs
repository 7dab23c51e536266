//! Watch streams, split into events.

use std::sync::Arc;

use bytes::Bytes;

use super::pieces::{Piece, Pieces};
use super::reader::{Reader, Value};
use super::table::Message;
use super::{Sent, envelope, error, to_json};
use crate::Strip;
use crate::codec::json::bookmark;
use crate::codec::object_error::{Fault, ObjectError};
use crate::codec::status::Status;
use crate::codec::{Form, Item, Limits, TypeMeta, WatchEvent, WireError};

/// Splits a watch stream in protobuf into its events.
///
/// Each event has its length in front of it, in four bytes, so that one that cannot be read is passed over.
#[derive(Debug)]
pub(crate) struct ProtobufWatchSplitter {
    pieces: Pieces,
    /// How many events have been seen.
    events: usize,
    within: bool,
    /// What the last object was, which the next one will be as well.
    last: Option<(Arc<TypeMeta>, &'static Message)>,
}

impl ProtobufWatchSplitter {
    /// Starts on the body of a watch.
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
            Piece::TooLarge(_) => Err(Fault::TooLarge { limit: self.pieces.limit() }.into()),
        })
    }

    fn event(&mut self, frame: &Bytes) -> Result<WatchEvent, ObjectError> {
        let (kind, object) = parts(frame)?;
        let Some(object) = object else { return Err(Fault::Event { found: "no object".to_owned() }.into()) };
        let opened = envelope::open(object)?;
        let raw = frame.slice_ref(opened.raw);
        let message = self.message(opened.type_meta).map_err(|fault| error(&raw, fault))?;
        let json = || match to_json::object(message, &raw, None, &Strip::nothing()) {
            Ok((json, _)) => Ok(json),
            Err(fault) => Err(error(&raw, fault)),
        };
        let item = || {
            let type_meta = self.last.as_ref().map(|(type_meta, _)| Arc::clone(type_meta));
            Item { index: self.events, object: raw.clone(), form: Form::Protobuf(Sent { message, type_meta }) }
        };
        match kind {
            b"ADDED" => Ok(WatchEvent::Added(item())),
            b"MODIFIED" => Ok(WatchEvent::Modified(item())),
            b"DELETED" => Ok(WatchEvent::Deleted(item())),
            b"BOOKMARK" => bookmark(&json()?).map_err(|fault| error(&raw, fault)),
            b"ERROR" => Status::from_json(&json()?).map(WatchEvent::Error).map_err(|fault| {
                Fault::Decode { message: fault.to_string(), line: fault.line(), column: fault.column() }.into()
            }),
            b"" => Err(error(&raw, Fault::Event { found: "no type".to_owned() })),
            other => {
                let found = format!("the type {:?}", String::from_utf8_lossy(other));
                Err(error(&raw, Fault::Event { found }))
            }
        }
    }

    fn message(&mut self, type_meta: TypeMeta) -> Result<&'static Message, Fault> {
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
fn parts(event: &[u8]) -> Result<(&[u8], Option<&[u8]>), Fault> {
    let (mut kind, mut object) = (&b""[..], None);
    let mut reader = Reader::new(event);
    while let Some(field) = reader.field()? {
        match field {
            (1, Value::Bytes(text)) => kind = text,
            (2, Value::Bytes(message)) => {
                let mut raw = Reader::within(event, message);
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
