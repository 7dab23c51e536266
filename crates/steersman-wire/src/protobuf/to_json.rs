//! Messages, written as the JSON that Go would have written.

use std::borrow::Cow;
use std::ops::Range;

use super::reader::{Reader, Value};
use super::table::{Count, Field, Message, Schema, Type};
use super::time;
use crate::base64;
use crate::codec::TypeMeta;
use crate::json::push_text;
use crate::object_error::Fault;
use crate::strip::{Cut, Node, Strip};

/// Writes an object as JSON, without what `strip` names, and with its type if that is given.
///
/// What comes out is what the server would have sent as JSON, but for the order of fields: what is empty is there, or not, as Go
/// does it. Fields that are not in the table, which a newer server may send, are left out.
pub(super) fn object(
    schema: &Schema,
    bytes: &[u8],
    type_meta: Option<&TypeMeta>,
    strip: &Strip,
) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer { schema, bytes, out: Vec::with_capacity(bytes.len() * 2) };
    writer.out.push(b'{');
    if let Some(TypeMeta { api_version, kind }) = type_meta {
        for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
            writer.name(name);
            push_text(&mut writer.out, value);
        }
    }
    writer.members(schema.root(), 0..bytes.len(), Some(strip.root()))?;
    writer.out.push(b'}');
    Ok(writer.out)
}

struct Writer<'a> {
    schema: &'a Schema,
    bytes: &'a [u8],
    out: Vec<u8>,
}

impl Writer<'_> {
    fn message(&mut self, message: &Message, place: Range<usize>, strip: Option<&Node>) -> Result<(), Fault> {
        self.out.push(b'{');
        self.members(message, place, strip)?;
        self.out.push(b'}');
        Ok(())
    }

    /// The fields of a message, as members of the object that has begun.
    fn members(&mut self, message: &Message, place: Range<usize>, strip: Option<&Node>) -> Result<(), Fault> {
        let mut reader = Reader::within(self.bytes, place);
        let mut seen = 0_u128;
        while let Some((number, value)) = reader.field()? {
            let Some(place) = message.place(number) else { continue };
            let field = &message.fields[place];
            if seen >> place & 1 == 1 {
                // Go writes the values of a field one after the other, and only it writes these messages.
                return Err(reader.fault("each field once"));
            }
            seen |= 1 << place;
            let cut = strip.and_then(|node| node.at(field.name.as_bytes()));
            let within = if let Some(Cut::Within(node)) = cut { Some(node) } else { None };
            if matches!(cut, Some(Cut::Whole)) {
                while reader.again(number)?.is_some() {}
                continue;
            }
            match field.count {
                Count::One if field.omit_empty && is_empty(&value) => {}
                Count::One | Count::Optional => {
                    self.name(field.name);
                    self.value(field.kind, value, within)?;
                }
                Count::List => self.list(field, value, &mut reader)?,
                Count::Map => self.map(field, value, &mut reader, within)?,
                Count::Inline => self.inline(field.kind, value, strip)?,
            }
        }
        self.absent(message, message.always & !seen, strip)
    }

    /// The members of a message that in JSON belong to the one around it.
    fn inline(&mut self, kind: Type, value: Value, strip: Option<&Node>) -> Result<(), Fault> {
        let (Type::Message(within), Value::Bytes(place)) = (kind, value) else { return Err(wrong()) };
        self.members(self.schema.message(within), place, strip)
    }

    /// Fields that are not in the message, and yet are in JSON.
    fn absent(&mut self, message: &Message, mut places: u128, strip: Option<&Node>) -> Result<(), Fault> {
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let field = &message.fields[place];
            if field.count == Count::Inline {
                self.inline(field.kind, Value::Bytes(0..0), strip)?;
                continue;
            }
            if matches!(strip.and_then(|node| node.at(field.name.as_bytes())), Some(Cut::Whole)) {
                continue;
            }
            self.name(field.name);
            match (field.count, field.kind) {
                (Count::One, Type::Bool | Type::Int32 | Type::Int64) => {
                    self.value(field.kind, Value::Varint(0), None)?;
                }
                (Count::One, Type::Bytes | Type::Strings) => self.out.extend_from_slice(b"null"),
                (Count::One, _) => self.value(field.kind, Value::Bytes(0..0), None)?,
                _ => self.out.extend_from_slice(b"null"),
            }
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, first: Value, reader: &mut Reader<'_>) -> Result<(), Fault> {
        self.name(field.name);
        self.out.push(b'[');
        let mut next = Some(first);
        while let Some(value) = next {
            match (field.kind, value) {
                // Numbers may come all in one.
                (Type::Bool | Type::Int32 | Type::Int64, Value::Bytes(place)) => {
                    let mut numbers = Reader::within(self.bytes, place);
                    while numbers.rest() > 0 {
                        self.separate();
                        self.value(field.kind, Value::Varint(numbers.varint()?), None)?;
                    }
                }
                (kind, value) => {
                    self.separate();
                    self.value(kind, value, None)?;
                }
            }
            next = reader.again(field.number)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, field: &Field, first: Value, reader: &mut Reader<'_>, strip: Option<&Node>) -> Result<(), Fault> {
        self.name(field.name);
        self.out.push(b'{');
        let mut next = Some(first);
        while let Some(entry) = next {
            let Value::Bytes(place) = entry else { return Err(wrong()) };
            let (mut key, mut value) = (0..0, None);
            let mut entry = Reader::within(self.bytes, place);
            while let Some(found) = entry.field()? {
                match found {
                    (1, Value::Bytes(place)) => key = place,
                    (2, found) => value = Some(found),
                    _ => {}
                }
            }
            let cut = strip.and_then(|node| node.at(&self.bytes[key.clone()]));
            if !matches!(cut, Some(Cut::Whole)) {
                let within = if let Some(Cut::Within(node)) = cut { Some(node) } else { None };
                self.separate();
                let key = text(&self.bytes[key]);
                push_text(&mut self.out, &key);
                self.out.push(b':');
                self.value(field.kind, value.unwrap_or_else(|| empty(field.kind)), within)?;
            }
            next = reader.again(field.number)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn value(&mut self, kind: Type, value: Value, strip: Option<&Node>) -> Result<(), Fault> {
        match (kind, value) {
            (Type::Bool, Value::Varint(number)) => {
                self.out.extend_from_slice(if number == 0 { b"false" } else { b"true" });
            }
            (Type::Int32, Value::Varint(number)) => self.number(i64::from(number as i32)),
            (Type::Int64, Value::Varint(number)) => self.number(number as i64),
            (Type::String, Value::Bytes(place)) => self.text(place),
            (Type::Bytes, Value::Bytes(place)) => {
                let text = base64::encode(&self.bytes[place]);
                push_text(&mut self.out, &text);
            }
            (Type::Time, Value::Bytes(place)) => self.time(place, false)?,
            (Type::MicroTime, Value::Bytes(place)) => self.time(place, true)?,
            (Type::Quantity, Value::Bytes(place)) => match self.first_bytes(place)? {
                Some(text) if !text.is_empty() => self.text(text),
                _ => self.out.extend_from_slice(br#""0""#),
            },
            (Type::IntOrString, Value::Bytes(place)) => self.int_or_string(place)?,
            (Type::Raw, Value::Bytes(place)) => self.raw(place)?,
            (Type::Strings, Value::Bytes(place)) => {
                let mut reader = Reader::within(self.bytes, place);
                self.out.push(b'[');
                while let Some((number, value)) = reader.field()? {
                    if let (1, Value::Bytes(place)) = (number, value) {
                        self.separate();
                        self.text(place);
                    }
                }
                self.out.push(b']');
            }
            (Type::Message(within), Value::Bytes(place)) => {
                self.message(self.schema.message(within), place, strip)?;
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The first field of a message, which is a text or bytes.
    fn first_bytes(&self, place: Range<usize>) -> Result<Option<Range<usize>>, Fault> {
        let mut reader = Reader::within(self.bytes, place);
        let mut found = None;
        while let Some(field) = reader.field()? {
            if let (1, Value::Bytes(place)) = field {
                found = Some(place);
            }
        }
        Ok(found)
    }

    fn time(&mut self, place: Range<usize>, with_micros: bool) -> Result<(), Fault> {
        if place.is_empty() {
            // Go's time that is no time.
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        let mut reader = Reader::within(self.bytes, place);
        let (mut seconds, mut nanos) = (0, 0_i32);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Varint(number)) => seconds = number as i64,
                (2, Value::Varint(number)) => nanos = number as i32,
                _ => {}
            }
        }
        let micros = with_micros.then(|| nanos.clamp(0, 999_999_999) as u32 / 1_000);
        let Some(text) = time::format(seconds, micros) else { return Err(reader.fault("a time of our calendar")) };
        push_text(&mut self.out, &text);
        Ok(())
    }

    fn int_or_string(&mut self, place: Range<usize>) -> Result<(), Fault> {
        let mut reader = Reader::within(self.bytes, place);
        let (mut is_text, mut number, mut text) = (false, 0, 0..0);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Varint(kind)) => is_text = kind == 1,
                (2, Value::Varint(found)) => number = found as i32,
                (3, Value::Bytes(place)) => text = place,
                _ => {}
            }
        }
        if is_text {
            self.text(text);
        } else {
            self.number(number.into());
        }
        Ok(())
    }

    /// JSON that is part of a message. It must be JSON, or what is around it would be none either.
    fn raw(&mut self, place: Range<usize>) -> Result<(), Fault> {
        let raw = self.first_bytes(place)?.filter(|raw| !raw.is_empty());
        let Some(raw) = raw else {
            self.out.extend_from_slice(b"null");
            return Ok(());
        };
        let offset = raw.start;
        let raw = &self.bytes[raw];
        if serde_json::from_slice::<serde::de::IgnoredAny>(raw).is_err() {
            return Err(Fault::Syntax { offset, expected: "JSON" });
        }
        self.out.extend_from_slice(raw);
        Ok(())
    }

    fn name(&mut self, name: &str) {
        self.separate();
        // Names of fields need no escapes.
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A comma, unless what comes next is the first.
    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }

    fn number(&mut self, number: i64) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.out, &number);
    }

    fn text(&mut self, place: Range<usize>) {
        push_text(&mut self.out, &text(&self.bytes[place]));
    }
}

/// A text, in which what is no UTF-8 is replaced, as Go does when it writes JSON.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether Go takes the value for empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Varint(number) => *number == 0,
        Value::Bytes(place) => place.is_empty(),
        Value::Fixed => false,
    }
}

/// The value of a map's entry that has none.
fn empty(kind: Type) -> Value {
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => Value::Varint(0),
        _ => Value::Bytes(0..0),
    }
}

fn wrong() -> Fault {
    Fault::Syntax { offset: 0, expected: "a value of the field's type" }
}
