//! Writes JSON as messages.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::reader::{push_bytes, push_double, push_number};
use super::table::{Choice, Count, Field, Message, Named, Type};
use crate::time::{self, Precision};
use crate::{base64, canonical_quantity};

/// Appends the message of an object to `out`. Fails if the object has anything that the message
/// cannot hold.
///
/// Fields that the object lacks are also missing in the message, where Go would write them as
/// empty. Readers treat both alike.
pub(super) fn object(message: &'static Message, json: &[u8], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let seed = Members { message, is_object: true, out };
    seed.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Writes the members of an object as the fields of a message.
struct Members<'a> {
    message: &'static Message,
    /// Whether the object has a type, which is not part of the message.
    is_object: bool,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { message, is_object, out } = self;
        let mut inline = Inline::default();
        let mut seen = 0_u64;
        while let Some(name) = members.next_key::<String>()? {
            let Some(Named { path, place, field }) = message.named(&name) else {
                let is_own_type = is_object && matches!(&*name, "apiVersion" | "kind");
                if !is_own_type && !message.is_type_field(&name) {
                    return Err(A::Error::custom("unknown field"));
                }
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen >> place & 1 == 1 {
                return Err(A::Error::custom("duplicate field"));
            }
            seen |= 1 << place;
            let out = if path.is_empty() { &mut *out } else { inline.at(&path) };
            members.next_value_seed(FieldValue { field, out })?;
        }
        inline.write(out);
        Ok(())
    }
}

/// The messages without a name. Their fields are members of the object around them.
#[derive(Default)]
struct Inline {
    bytes: Vec<u8>,
    within: Vec<(u32, Inline)>,
}

impl Inline {
    fn at(&mut self, path: &[u32]) -> &mut Vec<u8> {
        let Some((number, rest)) = path.split_first() else { return &mut self.bytes };
        let place = self.within.iter().position(|(found, _)| found == number).unwrap_or_else(|| {
            self.within.push((*number, Self::default()));
            self.within.len() - 1
        });
        self.within[place].1.at(rest)
    }

    /// Appends the messages after the fields of the one around them.
    fn write(self, out: &mut Vec<u8>) {
        for (number, mut inline) in self.within {
            let mut message = std::mem::take(&mut inline.bytes);
            inline.write(&mut message);
            push_bytes(out, number, &message);
        }
    }
}

/// Writes one field with all its values.
struct FieldValue<'a> {
    field: &'static Field,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for FieldValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.name())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, out } = self;
        match field.count {
            Count::List => deserializer.deserialize_seq(Elements(Self { field, out })),
            Count::Map => deserializer.deserialize_map(Entries(Self { field, out })),
            Count::One | Count::Optional | Count::Inline => {
                One { kind: field.kind, number: field.number, out }.deserialize(deserializer)
            }
        }
    }
}

/// Writes the elements of a list.
struct Elements<'a>(FieldValue<'a>);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let FieldValue { field, out } = self.0;
        let (kind, number) = (field.kind, field.number);
        while elements.next_element_seed(One { kind, number, out: &mut *out })?.is_some() {}
        Ok(())
    }
}

/// Writes the entries of a map.
struct Entries<'a>(FieldValue<'a>);

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let FieldValue { field, out } = self.0;
        let mut entry = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            entry.clear();
            push_bytes(&mut entry, 1, key.as_bytes());
            members.next_value_seed(One { kind: field.kind, number: 2, out: &mut entry })?;
            push_bytes(out, field.number, &entry);
        }
        Ok(())
    }
}

/// Writes one value as a field of that number.
struct One<'a> {
    kind: Type,
    number: u32,
    out: &'a mut Vec<u8>,
}

impl One<'_> {
    /// Writes a field whose message is written by `write`.
    fn message<E>(self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let mut message = Vec::new();
        write(&mut message)?;
        push_bytes(self.out, self.number, &message);
        Ok(())
    }

    fn time<E: Error>(self, text: &str, precision: Precision) -> Result<(), E> {
        let (seconds, micros) = time::parse(text, precision).map_err(E::custom)?;
        self.message(|message| {
            push_number(message, 1, seconds as u64);
            push_number(message, 2, u64::from(micros) * 1_000);
            Ok(())
        })
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.kind {
            Type::Message(message) => {
                self.message(|out| Members { message, is_object: false, out }.deserialize(deserializer))
            }
            Type::Schema => {
                let message = Message::schema();
                self.message(|out| Members { message, is_object: false, out }.deserialize(deserializer))
            }
            Type::Raw => {
                let raw: Box<RawValue> = serde::Deserialize::deserialize(deserializer)?;
                self.message(|message| {
                    push_bytes(message, 1, raw.get().as_bytes());
                    Ok(())
                })
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the field's type")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.kind {
            Type::Bool => push_number(self.out, self.number, value.into()),
            Type::Choice(Choice::Bool) => {
                return self.message(|message| {
                    push_number(message, 1, value.into());
                    Ok(())
                });
            }
            _ => return Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        let fits = i32::try_from(value).is_ok();
        match self.kind {
            Type::Int64 => push_number(self.out, self.number, value as u64),
            Type::Double => push_double(self.out, self.number, value as f64),
            Type::Int32 if fits => push_number(self.out, self.number, value as u64),
            Type::IntOrString if fits => {
                return self.message(|message| {
                    push_number(message, 1, 0);
                    push_number(message, 2, value as u64);
                    Ok(())
                });
            }
            _ => return Err(E::invalid_type(Unexpected::Signed(value), &self)),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::invalid_type(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !matches!(self.kind, Type::Double) {
            return Err(E::invalid_type(Unexpected::Float(value), &self));
        }
        push_double(self.out, self.number, value);
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            Type::String => push_bytes(self.out, self.number, text.as_bytes()),
            Type::Bytes => {
                let bytes = base64::decode(text).map_err(E::custom)?;
                push_bytes(self.out, self.number, &bytes);
            }
            Type::Time => return self.time(text, Precision::Seconds),
            Type::MicroTime => return self.time(text, Precision::Microseconds),
            Type::Quantity => {
                let canonical = canonical_quantity(text).map_err(E::custom)?;
                return self.message(|message| {
                    push_bytes(message, 1, canonical.as_bytes());
                    Ok(())
                });
            }
            Type::IntOrString => {
                return self.message(|message| {
                    push_number(message, 1, 1);
                    push_bytes(message, 3, text.as_bytes());
                    Ok(())
                });
            }
            _ => return Err(E::invalid_type(Unexpected::Str("a text"), &self)),
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.kind {
            // Go's zero time.
            Type::Time | Type::MicroTime => push_bytes(self.out, self.number, b""),
            _ => return Err(E::invalid_type(Unexpected::Unit, &self)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let (number, kind) = match self.kind {
            Type::Strings => (1, Type::String),
            Type::Choice(Choice::List) => (2, Type::Schema),
            Type::Choice(Choice::Strings) => (2, Type::String),
            _ => return Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        };
        self.message(|message| {
            while elements.next_element_seed(One { kind, number, out: &mut *message })?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        let Type::Choice(choice) = self.kind else { return Err(A::Error::invalid_type(Unexpected::Map, &self)) };
        self.message(|message| {
            let mut schema = Vec::new();
            Members { message: Message::schema(), is_object: false, out: &mut schema }.visit_map(members)?;
            let is_second = choice == Choice::Bool;
            if is_second {
                // Go calls a schema allowed.
                push_number(message, 1, 1);
            }
            push_bytes(message, if is_second { 2 } else { 1 }, &schema);
            Ok(())
        })
    }
}
