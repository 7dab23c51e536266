//! Strings as Go writes them in messages.

use std::fmt::Write;

/// Quotes `text` as Go's `%q` does for values in error messages: `Invalid value: "a\tb"`.
///
/// Characters that are not printable are escaped. Rust and Go may use different versions of
/// Unicode, so one may print a recently assigned character that the other escapes.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            ' '..='~' => quoted.push(character),
            _ if is_printable(character) => quoted.push(character),
            _ => escape(character, &mut quoted),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(character: char, quoted: &mut String) {
    let code = u32::from(character);
    let written = match code {
        0..0x80 => write!(quoted, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
    written.expect("writing to a string does not fail");
}

/// Whether a character is printable: no control or format character, no space, not private, and
/// assigned.
fn is_printable(character: char) -> bool {
    // The standard library shows it only by escaping, and it also escapes combining marks at the
    // beginning of a string.
    let text = String::from_iter(['a', character]);
    text.escape_debug().skip(1).eq([character])
}

/// Writes strings as Go's JSON encoder writes a list of them, escaped for HTML. An empty list is
/// `null`.
pub(crate) fn json_list(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let values: Vec<String> = values.iter().map(|value| json_string(value)).collect();
    format!("[{}]", values.join(","))
}

fn json_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for character in serde_json::Value::from(text).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(quoted, "\\u{:04x}", u32::from(character)).expect("writing to a string does not fail");
            }
            _ => quoted.push(character),
        }
    }
    quoted
}
