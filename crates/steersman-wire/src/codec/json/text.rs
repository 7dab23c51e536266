//! The strings of JSON.

use std::borrow::Cow;

use super::block::quote_or_backslash;
use crate::codec::object_error::ObjectFault;

/// The text of a string, given the bytes between its quotes. Offsets in faults count from there.
pub(super) fn unescape(raw: &[u8]) -> Result<Cow<'_, str>, ObjectFault> {
    let text = std::str::from_utf8(raw).map_err(|error| ObjectFault::Utf8 { offset: error.valid_up_to() })?;
    // Without an early exit, so that the compiler can vectorise the loop.
    if raw.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
        let offset = raw.iter().position(|byte| *byte < 0x20).unwrap_or_default();
        return Err(ObjectFault::Syntax { offset, expected: "no control character in a string" });
    }
    let Some(mut place) = quote_or_backslash(raw, 0) else { return Ok(Cow::Borrowed(text)) };
    let (mut unescaped, mut copied) = (String::with_capacity(raw.len()), 0);
    loop {
        unescaped.push_str(&text[copied..place]);
        let (character, length) = escape(&raw[place..]).map_err(|fault| fault.moved(place))?;
        unescaped.push(character);
        copied = place + length;
        match quote_or_backslash(raw, copied) {
            Some(next) => place = next,
            None => break,
        }
    }
    unescaped.push_str(&text[copied..]);
    Ok(Cow::Owned(unescaped))
}

/// The character of the escape at the start of `raw`, and the length of the escape.
fn escape(raw: &[u8]) -> Result<(char, usize), ObjectFault> {
    const EXPECTED: ObjectFault = ObjectFault::Syntax { offset: 0, expected: "an escape that JSON knows" };
    let character = match raw.get(1) {
        _ if raw[0] != b'\\' => return Err(EXPECTED),
        Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(raw).ok_or(EXPECTED),
        _ => return Err(EXPECTED),
    };
    Ok((character, 2))
}

/// `\u0061`, or two of them for one character. Half a pair is an error.
fn unicode_escape(raw: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(raw)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 6));
    }
    let pair = [first, code_unit(raw.get(6..)?)?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 12))
}

fn code_unit(raw: &[u8]) -> Option<u16> {
    let digits = raw.strip_prefix(br"\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

/// Writes a text as a JSON string.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    // Without an early exit, so that the compiler can vectorise the loop.
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |found, byte| found | is_special(byte)) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_mean_what_serde_json_takes_them_for() {
        for raw in [
            "",
            "plain",
            r#"a\"b\\c\/d"#,
            r"\b\f\n\r\t",
            r"\u0061\u00e9\u20ac",
            r"\ud83d\ude00 and \uD83D\uDE00",
            "é😀",
            r"\u0000",
            r"ends with \\",
        ] {
            let expected: String = serde_json::from_str(&format!("\"{raw}\"")).expect("the text is JSON");
            assert_eq!(unescape(raw.as_bytes()).expect(raw), expected);
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for raw in [r"\x", r"\", r"\u12", r"\u12g4", r"\u+123", r"\ud83d", r"\ud83d\n", r"\ude00", r"\ud83da", "a\nb"] {
            assert!(serde_json::from_str::<String>(&format!("\"{raw}\"")).is_err(), "{raw:?} is JSON after all");
            assert!(unescape(raw.as_bytes()).is_err(), "{raw:?}");
        }
        assert!(unescape(b"\xff").is_err());
    }
}
