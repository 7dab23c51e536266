//! Reads messages field by field.

use crate::codec::object_error::ObjectFault;

/// A reader over the rest of a message.
#[derive(Clone)]
pub(super) struct MessageReader<'a> {
    rest: &'a [u8],
    /// The address of the object, from which offsets in faults are computed.
    origin: usize,
}

/// The value of a field, without knowledge of its type.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(super) enum Value<'a> {
    /// A number or a boolean.
    Varint(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of eight bytes.
    Double(f64),
    /// A number of four bytes. No kind has one.
    Fixed,
}

impl<'a> MessageReader<'a> {
    /// Creates a reader of a message that is an object.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self::within(message, message)
    }

    /// Creates a reader of a message within an object.
    pub(super) fn within(object: &[u8], message: &'a [u8]) -> Self {
        Self { rest: message, origin: object.as_ptr() as usize }
    }

    /// The number and value of the next field. `None` at the end.
    #[inline(always)]
    pub(super) fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, ObjectFault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = (tag >> 3) as u32;
        if tag > u64::from(u32::MAX) {
            return Err(self.fault("the number of a field"));
        }
        Ok(Some((number, if tag & 7 == 2 { Value::Bytes(self.bytes()?) } else { self.number(tag & 7)? })))
    }

    /// The next value, if it belongs to that field again.
    #[inline]
    pub(super) fn again(&mut self, number: u32) -> Result<Option<Value<'a>>, ObjectFault> {
        let before = self.rest;
        match self.field()? {
            Some((found, value)) if found == number => Ok(Some(value)),
            _ => {
                self.rest = before;
                Ok(None)
            }
        }
    }

    /// Reads bytes that follow their length.
    #[inline(always)]
    fn bytes(&mut self) -> Result<&'a [u8], ObjectFault> {
        let length = self.varint()?;
        let split = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((bytes, rest)) = split else { return Err(self.fault("as many bytes as are announced")) };
        self.rest = rest;
        Ok(bytes)
    }

    fn number(&mut self, wire_type: u64) -> Result<Value<'a>, ObjectFault> {
        let (value, rest) = match wire_type {
            0 => return Ok(Value::Varint(self.varint()?)),
            1 => self.rest.split_first_chunk().map(|(bytes, rest)| (Value::Double(f64::from_le_bytes(*bytes)), rest)),
            5 => self.rest.get(4..).map(|rest| (Value::Fixed, rest)),
            _ => return Err(self.fault("a field")),
        }
        .ok_or_else(|| self.fault("a number of a fixed size"))?;
        self.rest = rest;
        Ok(value)
    }

    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, ObjectFault> {
        // Most numbers are small.
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, ObjectFault> {
        let (mut number, mut shift) = (0_u64, 0);
        while let [byte, rest @ ..] = self.rest {
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
            if shift >= 64 {
                break;
            }
        }
        Err(self.fault("a number"))
    }

    /// The unread rest.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    pub(super) fn fault(&self, expected: &'static str) -> ObjectFault {
        ObjectFault::Syntax { offset: self.rest.as_ptr() as usize - self.origin, expected }
    }
}

/// Writes a number.
pub(super) fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a field that is a number.
pub(super) fn push_number(out: &mut Vec<u8>, field: u32, number: u64) {
    push_varint(out, u64::from(field) << 3);
    push_varint(out, number);
}

/// Writes a field that is a number of eight bytes.
pub(super) fn push_double(out: &mut Vec<u8>, field: u32, number: f64) {
    push_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Writes a field that is a text, bytes or a message.
pub(super) fn push_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    push_varint(out, u64::from(field) << 3 | 2);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, 5, number);
            push_bytes(&mut out, 1_000, b"text");
            push_double(&mut out, 7, 0.5);
            let mut reader = MessageReader::new(&out);
            assert_eq!(reader.field(), Ok(Some((5, Value::Varint(number)))));
            assert_eq!(reader.field(), Ok(Some((1_000, Value::Bytes(b"text")))));
            assert_eq!(reader.field(), Ok(Some((7, Value::Double(0.5)))));
            assert_eq!(reader.field(), Ok(None));
        }
    }

    #[test]
    fn what_is_cut_off_or_makes_no_sense_is_refused() {
        for bytes in [
            &b"\x08"[..],
            b"\x80",
            b"\x0a\x05abc",
            b"\x09\x00",
            b"\x0d\x00",
            b"\x0b",
            b"\x0f",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert!(MessageReader::new(bytes).field().is_err(), "{bytes:?}");
        }
    }
}
