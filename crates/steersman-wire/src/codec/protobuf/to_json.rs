//! Writes messages as the JSON that Go would write.

use super::reader::{MessageReader, Value};
use super::table::{Choice, Count, Field, Message, Type};
use crate::apimachinery::time;
use crate::codec::TypeMeta;
use crate::codec::base64;
use crate::codec::json::push_text;
use crate::codec::object_error::ObjectFault;
use crate::codec::outline::{LEVELS, Outline};
use crate::codec::strip::{Cut, Node, Strip};

/// Writes an object as JSON, without the fields in `strip`, with its type if it is given, and
/// records its outline.
///
/// The result is what the server would send as JSON, except for the order of fields: empty fields
/// are present or absent as in Go. Fields that are not in the table, which a newer server may send,
/// are left out.
pub(super) fn object(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<&TypeMeta>,
    strip: &Strip,
) -> Result<(Vec<u8>, Outline), ObjectFault> {
    object_within(message, bytes, type_meta, strip, usize::MAX)
}

/// The same, but fails beyond about `bytes_max` bytes.
pub(super) fn object_within(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<&TypeMeta>,
    strip: &Strip,
    bytes_max: usize,
) -> Result<(Vec<u8>, Outline), ObjectFault> {
    let out = Vec::with_capacity(bytes.len() * 2);
    let mut outline = Outline::default();
    outline.is_ascii = true;
    let mut writer = Writer { bytes, out, bytes_max, depth: 0, outline };
    writer.open(b'{');
    if let Some(TypeMeta { api_version, kind }) = type_meta {
        writer.name(r#","apiVersion":"#);
        writer.text(api_version.as_bytes());
        writer.name(r#","kind":"#);
        writer.text(kind.as_bytes());
    }
    writer.members(message, bytes, Some(strip.root()))?;
    writer.close(b'}');
    Ok((writer.out, writer.outline))
}

/// The limit of nested objects and lists. Only schemas can be nested without end, and servers
/// refuse those with a third of these levels.
const DEPTH_MAX: usize = 256;

/// Every whole number below it is the same as an integer.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

struct Writer<'a> {
    /// The object.
    bytes: &'a [u8],
    out: Vec<u8>,
    /// The limit of the output.
    bytes_max: usize,
    /// How many objects and lists are open.
    depth: usize,
    outline: Outline,
}

impl<'a> Writer<'a> {
    /// Begins an object or a list.
    #[inline]
    fn open(&mut self, bracket: u8) {
        // The bracket of the object itself is on no level.
        let level = self.depth.wrapping_sub(1);
        if level < LEVELS {
            self.outline.begin(level, self.out.len());
        }
        self.depth += 1;
        self.out.push(bracket);
    }

    /// Ends an object or a list.
    #[inline]
    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth -= 1;
        let level = self.depth.wrapping_sub(1);
        if level < LEVELS {
            self.outline.end(level, self.out.len());
        }
    }

    fn message(&mut self, message: &Message, bytes: &'a [u8], strip: Option<&Node>) -> Result<(), ObjectFault> {
        self.open(b'{');
        self.members(message, bytes, strip)?;
        self.close(b'}');
        Ok(())
    }

    /// Writes the fields of a message as members of the open object.
    fn members(&mut self, message: &Message, bytes: &'a [u8], strip: Option<&Node>) -> Result<(), ObjectFault> {
        let mut reader = MessageReader::within(self.bytes, bytes);
        if self.out.len() > self.bytes_max {
            return Err(reader.fault("an object that is smaller as JSON"));
        }
        if self.depth > DEPTH_MAX {
            return Err(reader.fault("an object with fewer levels"));
        }
        let mut seen = 0_u64;
        while let Some((number, value)) = reader.field()? {
            let Some(place) = message.place(number) else { continue };
            let field = &message.fields[place];
            if seen >> place & 1 == 1 {
                // Go, the only writer of these messages, writes the values of a field one after the
                // other.
                return Err(reader.fault("each field once"));
            }
            seen |= 1 << place;
            let cut = strip.and_then(|node| node.at(field.name().as_bytes()));
            let within = if let Some(Cut::Within(node)) = cut { Some(node) } else { None };
            if matches!(cut, Some(Cut::Whole)) {
                while reader.again(number)?.is_some() {}
                continue;
            }
            match field.count {
                Count::One if field.omit_empty && is_empty(value) => {}
                Count::One | Count::Optional => {
                    self.name(field.member);
                    self.value(field.kind, value, within)?;
                }
                Count::List => self.list(field, value, &mut reader)?,
                Count::Map => self.map(field, value, &mut reader, within)?,
                Count::Inline => self.inline(field.kind, value, strip)?,
            }
        }
        self.absent(message, message.always & !seen, strip)
    }

    /// Writes the members of a message that belong to the JSON object around it.
    fn inline(&mut self, kind: Type, value: Value<'a>, strip: Option<&Node>) -> Result<(), ObjectFault> {
        let (Type::Message(within), Value::Bytes(bytes)) = (kind, value) else { return Err(wrong_type()) };
        self.members(within, bytes, strip)
    }

    /// Writes fields that are absent from the message and present in JSON.
    fn absent(&mut self, message: &Message, mut places: u64, strip: Option<&Node>) -> Result<(), ObjectFault> {
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let field = &message.fields[place];
            if field.count == Count::Inline {
                self.inline(field.kind, Value::Bytes(b""), strip)?;
                continue;
            }
            if matches!(strip.and_then(|node| node.at(field.name().as_bytes())), Some(Cut::Whole)) {
                continue;
            }
            self.name(field.member);
            match (field.count, field.kind) {
                (Count::One, Type::Bool | Type::Int32 | Type::Int64) => {
                    self.value(field.kind, Value::Varint(0), None)?;
                }
                (Count::One, Type::Bytes | Type::Strings) => self.out.extend_from_slice(b"null"),
                (Count::One, _) => self.value(field.kind, Value::Bytes(b""), None)?,
                _ => self.out.extend_from_slice(b"null"),
            }
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, first: Value<'a>, reader: &mut MessageReader<'a>) -> Result<(), ObjectFault> {
        self.name(field.member);
        self.open(b'[');
        let mut next = Some(first);
        while let Some(value) = next {
            match (field.kind, value) {
                // Numbers may be packed.
                (Type::Bool | Type::Int32 | Type::Int64, Value::Bytes(bytes)) => {
                    let mut numbers = MessageReader::within(self.bytes, bytes);
                    while !numbers.rest().is_empty() {
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
        self.close(b']');
        Ok(())
    }

    fn map(
        &mut self,
        field: &Field,
        first: Value<'a>,
        reader: &mut MessageReader<'a>,
        strip: Option<&Node>,
    ) -> Result<(), ObjectFault> {
        self.name(field.member);
        self.open(b'{');
        let mut next = Some(first);
        while let Some(entry) = next {
            let Value::Bytes(entry) = entry else { return Err(wrong_type()) };
            let (mut key, mut value) = (&b""[..], None);
            let mut entry = MessageReader::within(self.bytes, entry);
            while let Some(found) = entry.field()? {
                match found {
                    (1, Value::Bytes(bytes)) => key = bytes,
                    (2, found) => value = Some(found),
                    _ => {}
                }
            }
            let cut = strip.and_then(|node| node.at(key));
            if !matches!(cut, Some(Cut::Whole)) {
                let within = if let Some(Cut::Within(node)) = cut { Some(node) } else { None };
                self.separate();
                self.text(key);
                self.out.push(b':');
                self.value(field.kind, value.unwrap_or_else(|| empty(field.kind)), within)?;
            }
            next = reader.again(field.number)?;
        }
        self.close(b'}');
        Ok(())
    }

    fn value(&mut self, kind: Type, value: Value<'a>, strip: Option<&Node>) -> Result<(), ObjectFault> {
        match (kind, value) {
            (Type::Bool, Value::Varint(number)) => {
                self.out.extend_from_slice(if number == 0 { b"false" } else { b"true" });
            }
            (Type::Int32, Value::Varint(number)) => self.number(i64::from(number as i32)),
            (Type::Int64, Value::Varint(number)) => self.number(number as i64),
            (Type::String, Value::Bytes(text)) => self.text(text),
            (Type::Bytes, Value::Bytes(bytes)) => self.text(base64::encode(bytes).as_bytes()),
            (Type::Time, Value::Bytes(message)) => self.time(message, false)?,
            (Type::MicroTime, Value::Bytes(message)) => self.time(message, true)?,
            (Type::Quantity, Value::Bytes(message)) => match self.first_bytes(message)? {
                b"" => self.out.extend_from_slice(br#""0""#),
                text => self.text(text),
            },
            (Type::IntOrString, Value::Bytes(message)) => self.int_or_string(message)?,
            (Type::Raw, Value::Bytes(message)) => self.raw(message)?,
            (Type::Strings, Value::Bytes(message)) => {
                let mut reader = MessageReader::within(self.bytes, message);
                self.open(b'[');
                while let Some(field) = reader.field()? {
                    if let (1, Value::Bytes(text)) = field {
                        self.separate();
                        self.text(text);
                    }
                }
                self.close(b']');
            }
            (Type::Double, Value::Double(number)) => self.double(number),
            (Type::Schema, Value::Bytes(message)) => self.message(Message::schema(), message, strip)?,
            (Type::Choice(choice), Value::Bytes(message)) => self.choice(choice, message)?,
            (Type::Message(within), Value::Bytes(message)) => {
                self.message(within, message, strip)?;
            }
            _ => return Err(wrong_type()),
        }
        Ok(())
    }

    /// The first field of a message, if it is a text or bytes.
    fn first_bytes(&self, message: &'a [u8]) -> Result<&'a [u8], ObjectFault> {
        let mut reader = MessageReader::within(self.bytes, message);
        let mut found = &b""[..];
        while let Some(field) = reader.field()? {
            if let (1, Value::Bytes(bytes)) = field {
                found = bytes;
            }
        }
        Ok(found)
    }

    fn time(&mut self, message: &[u8], with_micros: bool) -> Result<(), ObjectFault> {
        let mut reader = MessageReader::within(self.bytes, message);
        let (mut seconds, mut nanos) = (0, 0_i32);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Varint(number)) => seconds = number as i64,
                (2, Value::Varint(number)) => nanos = number as i32,
                _ => {}
            }
        }
        if message.is_empty() || seconds == time::ZERO {
            // Go's zero time.
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        let micros = with_micros.then(|| nanos.clamp(0, 999_999_999) as u32 / 1_000);
        self.out.push(b'"');
        time::push(&mut self.out, seconds, micros).ok_or_else(|| reader.fault("a time of our calendar"))?;
        self.out.push(b'"');
        Ok(())
    }

    fn int_or_string(&mut self, message: &[u8]) -> Result<(), ObjectFault> {
        let mut reader = MessageReader::within(self.bytes, message);
        let (mut is_text, mut number, mut text) = (false, 0, &b""[..]);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Varint(kind)) => is_text = kind == 1,
                (2, Value::Varint(found)) => number = found as i32,
                (3, Value::Bytes(bytes)) => text = bytes,
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

    /// Writes the value of a choice. A second value wins over a first one, as in Go, except for the
    /// boolean.
    fn choice(&mut self, choice: Choice, message: &'a [u8]) -> Result<(), ObjectFault> {
        let mut reader = MessageReader::within(self.bytes, message);
        let (mut schema, mut list, mut allows) = (None, Vec::new(), false);
        while let Some(field) = reader.field()? {
            match (choice, field) {
                (Choice::Bool, (1, Value::Varint(number))) => allows = number != 0,
                (Choice::Bool, (2, Value::Bytes(found))) => schema = Some(found),
                (_, (1, Value::Bytes(found))) => schema = Some(found),
                (_, (2, Value::Bytes(found))) => list.push(found),
                _ => {}
            }
        }
        match schema {
            Some(schema) if list.is_empty() => self.message(Message::schema(), schema, None),
            None if choice == Choice::Bool => {
                self.out.extend_from_slice(if allows { b"true" } else { b"false" });
                Ok(())
            }
            None if list.is_empty() => {
                self.out.extend_from_slice(b"null");
                Ok(())
            }
            _ => {
                let kind = if choice == Choice::List { Type::Schema } else { Type::String };
                self.open(b'[');
                for item in list {
                    self.separate();
                    self.value(kind, Value::Bytes(item), None)?;
                }
                self.close(b']');
                Ok(())
            }
        }
    }

    /// Writes a number as Go does: without a fraction if it has none.
    fn double(&mut self, number: f64) {
        // Writing to memory does not fail.
        let _ = if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
            serde_json::to_writer(&mut self.out, &(number as i64))
        } else {
            serde_json::to_writer(&mut self.out, &number)
        };
    }

    /// Writes JSON that is part of a message. It must be valid, or the whole object would be
    /// invalid.
    fn raw(&mut self, message: &'a [u8]) -> Result<(), ObjectFault> {
        let raw = self.first_bytes(message)?;
        if raw.is_empty() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(raw).is_err() {
            return Err(MessageReader::within(self.bytes, raw).fault("JSON"));
        }
        self.outline.is_ascii &= raw.is_ascii();
        self.out.extend_from_slice(raw);
        Ok(())
    }

    /// Writes the name of a member, with a comma before it unless it is the first.
    #[inline]
    fn name(&mut self, member: &str) {
        let from = usize::from(self.out.last() == Some(&b'{'));
        self.out.extend_from_slice(&member.as_bytes()[from..]);
    }

    /// Writes a comma, unless the next element is the first.
    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }

    fn number(&mut self, number: i64) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.out, &number);
    }

    /// Writes a text. Invalid UTF-8 is replaced, as Go does when it writes JSON.
    fn text(&mut self, text: &[u8]) {
        // Without an early exit, so that the compiler can vectorise the loop.
        let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\' || byte > 0x7e;
        if text.iter().fold(false, |found, byte| found | is_special(*byte)) {
            self.outline.is_ascii &= text.is_ascii();
            push_text(&mut self.out, &String::from_utf8_lossy(text));
            return;
        }
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
    }
}

/// Whether the value is empty in Go.
fn is_empty(value: Value<'_>) -> bool {
    match value {
        Value::Varint(number) => number == 0,
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Double(number) => number == 0.0,
        Value::Fixed => false,
    }
}

/// The value of a map entry that has none.
fn empty(kind: Type) -> Value<'static> {
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => Value::Varint(0),
        _ => Value::Bytes(b""),
    }
}

fn wrong_type() -> ObjectFault {
    ObjectFault::Syntax { offset: 0, expected: "a value of the field's type" }
}
