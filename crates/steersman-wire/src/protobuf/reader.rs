//! Messages, field by field.

use std::ops::Range;

use crate::object_error::Fault;

/// A message within some bytes, and how far it has been read.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// What a field holds, as far as that can be told without knowing the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, or true or false.
    Varint(u64),
    /// Where a text, bytes or a message are.
    Bytes(Range<usize>),
    /// A number of four or eight bytes, which no kind has.
    Fixed,
}

impl<'a> Reader<'a> {
    /// All of the bytes are one message.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() }
    }

    /// The message that lies there. Places are still counted from the beginning of the bytes.
    pub(super) fn within(bytes: &'a [u8], place: Range<usize>) -> Self {
        Self { bytes, at: place.start, end: place.end }
    }

    /// The next field's number and value; none at the end.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<(u32, Value)>, Fault> {
        if self.at == self.end {
            return Ok(None);
        }
        let tag = self.varint()?;
        let Ok(number) = u32::try_from(tag >> 3) else { return Err(self.fault("the number of a field")) };
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.skip(8)?,
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).ok().filter(|length| *length <= self.end - self.at);
                let Some(length) = length else { return Err(self.fault("as many bytes as are announced")) };
                let start = self.at;
                self.at += length;
                Value::Bytes(start..self.at)
            }
            5 => self.skip(4)?,
            _ => return Err(self.fault("a field")),
        };
        Ok(Some((number, value)))
    }

    /// The next value, if it is of that field again.
    #[inline]
    pub(super) fn again(&mut self, number: u32) -> Result<Option<Value>, Fault> {
        let before = self.at;
        match self.field()? {
            Some((found, value)) if found == number => Ok(Some(value)),
            _ => {
                self.at = before;
                Ok(None)
            }
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let (mut number, mut shift) = (0_u64, 0);
        while let Some(byte) = self.bytes[..self.end].get(self.at) {
            self.at += 1;
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

    /// How many bytes are left.
    pub(super) fn rest(&self) -> usize {
        self.end - self.at
    }

    pub(super) fn fault(&self, expected: &'static str) -> Fault {
        Fault::Syntax { offset: self.at, expected }
    }

    fn skip(&mut self, length: usize) -> Result<Value, Fault> {
        if self.end - self.at < length {
            return Err(self.fault("a number of a fixed size"));
        }
        self.at += length;
        Ok(Value::Fixed)
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
            let mut reader = Reader::new(&out);
            assert_eq!(reader.field(), Ok(Some((5, Value::Varint(number)))));
            let end = out.len();
            assert_eq!(reader.field(), Ok(Some((1_000, Value::Bytes(end - 4..end)))));
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
            assert!(Reader::new(bytes).field().is_err(), "{bytes:?}");
        }
    }
}
