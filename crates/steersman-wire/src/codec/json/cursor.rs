//! Walks through JSON in one piece, and skips what is not needed.

use std::borrow::Cow;
use std::ops::Range;

use super::block::quote_or_backslash;
use super::extent::{Nesting, is_delimiter, is_white_space};
use super::text::unescape;
use crate::codec::object_error::ObjectFault;
use crate::codec::outline::Outline;

/// A position in a JSON text.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// Ends of values that are known already.
    outline: Option<&'a Outline>,
}

/// The name of a member as it is written, without the quotes.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    raw: &'a [u8],
    escaped: bool,
    /// The position of its opening quote.
    pub(super) start: usize,
}

impl<'a> Name<'a> {
    /// The name, without escapes.
    #[inline(always)]
    pub(super) fn text(self) -> Result<Cow<'a, [u8]>, ObjectFault> {
        if !self.escaped {
            return Ok(Cow::Borrowed(self.raw));
        }
        let text = unescape(self.raw).map_err(|fault| fault.moved(self.start + 1))?;
        Ok(Cow::Owned(text.into_owned().into_bytes()))
    }
}

/// How far the members of an object were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    First,
    Later,
}

/// A member with its surroundings, for callers that cut members out.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) name: Name<'a>,
    /// The position of the comma before it. `None` for the first member.
    pub(super) comma: Option<usize>,
}

/// The members of an object in their order. Each value must be skipped before the next member is
/// read.
#[derive(Debug)]
pub(super) struct Object(Members);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0, outline: None }
    }

    /// A cursor with the known outline of the text.
    pub(super) fn with_outline(bytes: &'a [u8], outline: &'a Outline) -> Self {
        Self { outline: Some(outline), ..Self::new(bytes) }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space. The cursor stays before it.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !is_white_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    pub(super) fn fault(&self, expected: &'static str) -> ObjectFault {
        ObjectFault::Syntax { offset: self.at, expected }
    }

    /// Steps over this byte.
    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ObjectFault> {
        if self.peek() != Some(byte) {
            return Err(self.fault(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Enters an object, if one comes next.
    pub(super) fn object(&mut self) -> Result<Object, ObjectFault> {
        self.expect(b'{', "an object")?;
        self.depth += 1;
        Ok(Object(Members::First))
    }

    /// The name of the next member; the cursor stops before its value. `None` at the end of the
    /// object, which the cursor leaves.
    #[inline]
    pub(super) fn member(&mut self, object: &mut Object) -> Result<Option<Member<'a>>, ObjectFault> {
        let mut comma = None;
        match (self.peek(), object.0) {
            (Some(b'}'), _) => {
                self.at += 1;
                self.depth -= 1;
                return Ok(None);
            }
            (Some(b','), Members::Later) => {
                comma = Some(self.at);
                self.at += 1;
            }
            (_, Members::First) => object.0 = Members::Later,
            _ => return Err(self.fault("a comma or the object's end")),
        }
        if self.peek() != Some(b'"') {
            return Err(self.fault("a member's name"));
        }
        let start = self.at;
        let (raw, escaped) = self.string()?;
        self.expect(b':', "a colon after a member's name")?;
        self.peek();
        Ok(Some(Member { name: Name { raw: &self.bytes[raw], escaped, start }, comma }))
    }

    /// Enters a list, if one comes next.
    pub(super) fn list(&mut self) -> Result<List, ObjectFault> {
        self.expect(b'[', "a list")?;
        self.depth += 1;
        Ok(List(Members::First))
    }

    /// Whether there is another element, which comes next. At the end the cursor leaves the list.
    pub(super) fn element(&mut self, list: &mut List) -> Result<bool, ObjectFault> {
        match (self.peek(), list.0) {
            (Some(b']'), _) => {
                self.at += 1;
                self.depth -= 1;
                return Ok(false);
            }
            (Some(b','), Members::Later) => {
                self.at += 1;
                // A value must follow a comma; skipping it fails if none does.
                self.peek();
            }
            (_, Members::First) => list.0 = Members::Later,
            _ => return Err(self.fault("a comma or the list's end")),
        }
        Ok(true)
    }

    /// Skips a string whose opening quote is next. Returns the range between the quotes, and
    /// whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<(Range<usize>, bool), ObjectFault> {
        let (start, mut escaped) = (self.at + 1, false);
        let mut from = start;
        loop {
            let Some(place) = quote_or_backslash(self.bytes, from) else {
                self.at = self.bytes.len();
                return Err(self.fault("the end of a string"));
            };
            if self.bytes[place] == b'"' {
                self.at = place + 1;
                return Ok((start..place, escaped));
            }
            escaped = true;
            from = place + 2;
        }
    }

    /// Skips the next value and returns its range.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<Range<usize>, ObjectFault> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => {
                self.string()?;
            }
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    fn container(&mut self) -> Result<(), ObjectFault> {
        if let Some(end) = self.outline.and_then(|outline| outline.end_of(self.at)) {
            self.at = end;
            return Ok(());
        }
        let mut nesting = Nesting::new(self.depth);
        let end = nesting.feed(&self.bytes[self.at..]);
        if nesting.too_deep() {
            return Err(ObjectFault::TooDeep);
        }
        let Some(end) = end else {
            self.at = self.bytes.len();
            return Err(self.fault("the end of an object or list"));
        };
        self.at += end;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), ObjectFault> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| is_delimiter(*byte)).unwrap_or(rest.len());
        let scalar = &rest[..length];
        if !matches!(scalar, b"true" | b"false" | b"null") && !is_number(scalar) {
            return Err(self.fault("a value"));
        }
        self.at += length;
        Ok(())
    }

    /// Checks that nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), ObjectFault> {
        if self.peek().is_some() { Err(self.fault("nothing after the value")) } else { Ok(()) }
    }
}

/// The elements of a list. Each must be skipped before the next is read.
#[derive(Debug)]
pub(super) struct List(Members);

/// Whether this is a number in the grammar of JSON.
fn is_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then(|| &text[count..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let Some(mut rest) = (match text {
        [b'0', rest @ ..] => Some(rest),
        _ => digits(text),
    }) else {
        return false;
    };
    if let [b'.', fraction @ ..] = rest {
        let Some(after) = digits(fraction) else { return false };
        rest = after;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let Some(after) = digits(exponent) else { return false };
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_json() {
        for number in ["0", "-0", "10", "1.5", "1e9", "1E+9", "-1.25e-7", "123456789012345678901234567890"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1a", "NaN", "--1"] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_where_it_goes_wrong() {
        for (text, at) in [
            (r#"{"a":1,}"#, 7),
            (r#"{,"a":1}"#, 1),
            (r#"{"a" 1}"#, 5),
            (r#"{"a":}"#, 5),
            (r#"{"a":tru}"#, 5),
            (r#"{"a":1 "b":2}"#, 7),
            (r#"{"a"#, 3),
            (r#"{"a":{"#, 6),
            ("[", 0),
        ] {
            let mut cursor = Cursor::new(text.as_bytes());
            let mut walk = || {
                let mut object = cursor.object()?;
                while cursor.member(&mut object)?.is_some() {
                    cursor.skip()?;
                }
                cursor.end()
            };
            let fault = walk().expect_err(text);
            assert!(matches!(fault, ObjectFault::Syntax { offset, .. } if offset == at), "{text}: {fault:?}");
        }
    }
}
