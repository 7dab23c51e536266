//! Splits lists into items.

use std::sync::Arc;

use bytes::Bytes;

use super::envelope::{self, MAGIC, RAW, TYPE_META};
use super::pieces::{Piece, Pieces};
use super::reader::{MessageReader, Value};
use super::table::Message;
use super::{ProtobufType, key, to_json};
use crate::Strip;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::status::ErrorStatus;
use crate::codec::{Form, Limits, ListMeta, RawItem, WireError};

/// Splits a list in protobuf into its items.
#[derive(Debug)]
pub(crate) struct ProtobufListSplitter {
    pieces: Pieces,
    state: State,
    /// How many bytes of the list are still to come.
    within: u64,
    /// How many items were read.
    items: usize,
    list: ListMeta,
    /// The type of the items.
    item_type: Option<ProtobufType>,
    failed: Option<WireError>,
}

/// What the splitter expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first four bytes of the body.
    Magic,
    /// A field of the envelope, or the end of the body.
    Envelope,
    /// The length of this field of the envelope.
    EnvelopeLength(u64),
    /// This field of the envelope.
    EnvelopeValue(u64),
    /// A field of the list.
    List,
    /// The length of this field of the list.
    ListLength(u64),
    /// This field of the list.
    ListValue(u64),
    /// A `Status` instead of a list.
    Status,
}

/// The fields of every list.
const LIST_META: u32 = 1;
const ITEMS: u32 = 2;
const WITH_LENGTH: &str = "a field with a length";

impl ProtobufListSplitter {
    /// Creates a splitter for the body of a list.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            pieces: Pieces::new(limits),
            state: State::Magic,
            within: 0,
            items: 0,
            list: ListMeta::default(),
            item_type: None,
            failed: None,
        }
    }

    fn advance(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        loop {
            let before = self.pieces.offset();
            let (state, item) = match self.state {
                State::Magic => match self.pieces.array() {
                    None => return Ok(None),
                    Some(magic) if magic == *MAGIC => (State::Envelope, None),
                    Some(_) => return Err(WireError::Structure { offset: 0, expected: "the envelope of a list" }),
                },
                State::Envelope => match self.pieces.varint()? {
                    None => return Ok(None),
                    Some(tag) if tag & 7 == 2 => (State::EnvelopeLength(tag >> 3), None),
                    Some(_) => return Err(self.pieces.structure(WITH_LENGTH)),
                },
                State::EnvelopeLength(field) => {
                    let Some(length) = self.pieces.varint()? else { return Ok(None) };
                    (self.enter(field, length)?, None)
                }
                State::EnvelopeValue(field) => {
                    let Some(piece) = self.pieces.proceed() else { return Ok(None) };
                    if field == u64::from(TYPE_META) {
                        let type_meta = self.whole(piece, "type")?;
                        let type_meta = envelope::read_type_meta(&type_meta);
                        self.list.type_meta = type_meta.map_err(|fault| list_meta(&fault))?;
                    }
                    (State::Envelope, None)
                }
                State::List if self.within == 0 => (State::Envelope, None),
                State::List => match self.pieces.varint()? {
                    None => return Ok(None),
                    Some(tag) if tag & 7 == 2 => (State::ListLength(tag >> 3), None),
                    Some(_) => return Err(self.pieces.structure(WITH_LENGTH)),
                },
                State::ListLength(field) => {
                    let Some(length) = self.pieces.varint()? else { return Ok(None) };
                    let read = self.pieces.offset() - before;
                    if self.within.checked_sub(read).is_none_or(|rest| rest < length) {
                        return Err(self.pieces.structure("an item that ends before its list"));
                    }
                    self.pieces.begin(length);
                    (State::ListValue(field), None)
                }
                State::ListValue(field) => {
                    let Some(piece) = self.pieces.proceed() else {
                        self.within -= self.pieces.offset() - before;
                        return Ok(None);
                    };
                    (State::List, self.take(field, piece)?)
                }
                State::Status => {
                    let Some(piece) = self.pieces.proceed() else { return Ok(None) };
                    let status = self.whole(piece, "refusal")?;
                    return Err(refusal(&status));
                }
            };
            if matches!(self.state, State::List | State::ListLength(_) | State::ListValue(_)) {
                let read = self.pieces.offset() - before;
                self.within = self.within.checked_sub(read).ok_or_else(|| self.pieces.structure("the list's end"))?;
            }
            self.state = state;
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Begins a field of the envelope.
    fn enter(&mut self, field: u64, length: u64) -> Result<State, WireError> {
        if field != u64::from(RAW) {
            self.pieces.begin(length);
            return Ok(State::EnvelopeValue(field));
        }
        let kind = &self.list.type_meta.kind;
        if kind == "Status" {
            self.pieces.begin(length);
            return Ok(State::Status);
        }
        let item_type = self.list.item_type();
        let Some(item_type) = item_type else { return Err(WireError::NotAList { kind: kind.clone() }) };
        let message = envelope::message(&item_type).map_err(|fault| list_meta(&fault))?;
        // In JSON, items that are metadata alone have their type, while others have none.
        let type_meta = (item_type.kind == "PartialObjectMetadata").then(|| Arc::new(item_type));
        self.item_type = Some(ProtobufType { message, type_meta });
        self.within = length;
        Ok(State::List)
    }

    /// Handles a field of the list, and returns it if it is an item.
    fn take(&mut self, field: u64, piece: Piece) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        if field == u64::from(LIST_META) {
            let meta = self.whole(piece, "metadata")?;
            self.read_meta(&meta).map_err(|fault| list_meta(&fault))?;
            return Ok(None);
        }
        let Some(item_type) = self.item_type.as_ref().filter(|_| field == u64::from(ITEMS)) else { return Ok(None) };
        let index = self.items;
        self.items += 1;
        Ok(Some(match piece {
            Piece::Whole(object) => Ok(RawItem { index, object, form: Form::Protobuf(item_type.clone()) }),
            Piece::TooLarge(beginning) => {
                let fault = ObjectFault::TooLarge { limit: self.pieces.limit() };
                Err(ObjectError { index: Some(index), key: key(&beginning), fault })
            }
        }))
    }

    fn whole(&self, piece: Piece, name: &str) -> Result<Bytes, WireError> {
        match piece {
            Piece::Whole(bytes) => Ok(bytes),
            Piece::TooLarge(_) => Err(WireError::TooLarge { name: name.to_owned(), limit: self.pieces.limit() }),
        }
    }

    /// Go's `metav1.ListMeta`.
    fn read_meta(&mut self, bytes: &[u8]) -> Result<(), ObjectFault> {
        let text = |text| String::from_utf8_lossy(text).into_owned();
        let mut reader = MessageReader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (2, Value::Bytes(bytes)) => self.list.resource_version = text(bytes),
                (3, Value::Bytes(bytes)) => self.list.continue_token = text(bytes),
                (4, Value::Varint(count)) => self.list.remaining_item_count = Some(count as i64),
                _ => {}
            }
        }
        Ok(())
    }
}

fn list_meta(fault: &ObjectFault) -> WireError {
    WireError::ListMeta { message: fault.to_string() }
}

/// The error for a body that is a `Status`.
fn refusal(bytes: &[u8]) -> WireError {
    let status = Message::of("v1", "Status").map(|message| to_json::object(message, bytes, None, &Strip::nothing()));
    let status = status.and_then(Result::ok).and_then(|(json, _)| ErrorStatus::from_json(&json).ok());
    match status {
        Some(status) => WireError::Status(Box::new(status)),
        None => WireError::ListMeta { message: "the Status of the server cannot be read".to_owned() },
    }
}

impl ProtobufListSplitter {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.pieces.push(chunk);
    }

    pub(crate) fn next_item(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.advance().inspect_err(|error| self.failed = Some(error.clone()))
    }

    pub(crate) fn list(&self) -> &ListMeta {
        &self.list
    }

    pub(crate) fn finish(mut self) -> Result<ListMeta, WireError> {
        while self.next_item()?.is_some() {}
        if self.state != State::Envelope || !self.pieces.is_between_values() || self.item_type.is_none() {
            let within = if self.pieces.offset() == 0 { "nothing at all" } else { "a list" };
            return Err(WireError::Truncated { length: self.pieces.offset(), within });
        }
        Ok(self.list)
    }
}
