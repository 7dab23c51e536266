//! JSON with its duplicate keys and the digits of its numbers. Errors are those of Go's scanner,
//! because clients see them.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// The deepest nesting. Go allows 10,000 levels; no stored object needs them, and readers of the
/// value recurse.
pub(crate) const DEPTH_MAX: usize = 512;

/// A JSON value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// Its digits.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// In the order of the text, with duplicate keys.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses one value. The error is Go's.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, String> {
        let mut reader = JsonReader { text, at: 0, depth: 0 };
        let value = reader.value()?;
        reader.skip_space();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.unexpected("after top-level value")),
        }
    }

    /// The name of its type in Go's errors.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Self::String(Cow::Owned(text)),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(key, value)| (Cow::Owned(key), Self::from(value))).collect())
            }
        }
    }
}

/// A number as Go decodes it: an integer of 64 bits if it is written as one and fits, otherwise
/// floating point. `None` if it exceeds floating point.
pub(crate) fn number(digits: &str) -> Option<Number> {
    if let Ok(integer) = digits.parse::<i64>() {
        return Some(integer.into());
    }
    float(digits)
}

/// The floating-point number of these digits, as an integer where Go would write one.
pub(crate) fn float(digits: &str) -> Option<Number> {
    /// Whole numbers up to this one have a unique representation.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let float: f64 = digits.parse().ok()?;
    if float.fract() == 0.0 && float.abs() <= EXACT_MAX {
        return Some((float as i64).into());
    }
    Number::from_f64(float)
}

struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> JsonReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error about the next character, or about the end of the text.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(character) => format!("invalid character {} {context}", quote(character)),
        }
    }

    fn value(&mut self) -> Result<Json<'a>, String> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json<'a>, String>) -> Result<Json<'a>, String> {
        if self.depth == DEPTH_MAX {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Json<'a>, String> {
        let mut fields = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(fields));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            fields.push((key, self.value()?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Json<'a>, String> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, literal: &str, value: Json<'a>) -> Result<Json<'a>, String> {
        for expected in literal.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {literal} (expecting '{}')", char::from(expected));
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Json<'a>, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(Json::Number(String::from_utf8_lossy(&self.text[start..self.at])))
    }

    /// At least one digit.
    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        loop {
            let plain = self.at;
            while matches!(self.peek(), Some(byte) if byte >= b' ' && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            let text: &'a [u8] = &self.text[plain..self.at];
            match self.peek() {
                Some(b'"') if plain == start => {
                    self.at += 1;
                    return Ok(valid(text));
                }
                Some(b'"') => {
                    self.at += 1;
                    let mut string = owned.unwrap_or_default();
                    string.push_str(&valid(text));
                    return Ok(Cow::Owned(string));
                }
                Some(b'\\') => {
                    let string = owned.get_or_insert_default();
                    string.push_str(&valid(text));
                    let escaped = self.escaped()?;
                    string.push(escaped);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// The character of an escape. An unpaired surrogate becomes U+FFFD.
    fn escaped(&mut self) -> Result<char, String> {
        self.at += 1;
        let character = match self.peek() {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'u') => {
                self.at += 1;
                let first = self.hexadecimal()?;
                let after_first = self.at;
                if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let second = self.hexadecimal()?;
                    if (0xDC00..0xE000).contains(&second) {
                        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    // Not the other surrogate, but a separate character.
                    self.at = after_first;
                }
                return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    fn hexadecimal(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// The text, with U+FFFD for each byte that is not UTF-8.
fn valid(mut bytes: &[u8]) -> Cow<'_, str> {
    let mut replaced = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) if replaced.is_empty() => return Cow::Borrowed(text),
            Ok(text) => return Cow::Owned(replaced + text),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                replaced.push_str(std::str::from_utf8(valid).unwrap_or_default());
                replaced.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[1..];
            }
        }
    }
}

/// A byte as Go's errors print it.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0x00..=0x1f | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> String {
        match Json::parse(text) {
            Ok(Json::String(string)) => string.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Recorded from a real server, or taken from the sources of Go's scanner.
    #[test]
    fn errors_are_in_the_words_of_go() {
        for (text, error) in [
            ("", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            (r#"{"a":}"#, "invalid character '}' looking for beginning of value"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            (r#"{"a":1} x"#, "invalid character 'x' after top-level value"),
            (r#"{"a":1"#, "unexpected end of JSON input"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("[01]", "invalid character '1' after array element"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12x4""#, r"invalid character 'x' in \u hexadecimal character escape"),
            (r#""\ud800\u12"#, "unexpected end of JSON input"),
            ("'", r"invalid character '\'' looking for beginning of value"),
            ("\u{80}", "invalid character 'Â' looking for beginning of value"),
            ("\u{0}", r"invalid character '\x00' looking for beginning of value"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Json::parse(nested(DEPTH_MAX).as_bytes()).is_ok());
        let too_deep = nested(DEPTH_MAX + 1);
        assert_eq!(Json::parse(too_deep.as_bytes()), Err("invalid character '[' exceeded max depth".to_owned()));
        assert!(Json::parse("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
        // The limit is on depth, not on the number of values.
        assert!(Json::parse(format!("[{}[]]", "[],".repeat(DEPTH_MAX * 2)).as_bytes()).is_ok());
    }

    #[test]
    fn what_is_not_text_becomes_the_replacement_character() {
        assert_eq!(string(b"\"\xff\xfe\xe2\x82x\""), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}x");
        assert_eq!(string(br#""\ud800x""#), "\u{fffd}x");
        assert_eq!(string(br#""\udc00\ud83d\ude00""#), "\u{fffd}\u{1f600}");
        assert_eq!(string(br#""\ud83d\u0041""#), "\u{fffd}A");
        assert_eq!(string(br#""a\"\\\/\b\f\n\r\t""#), "a\"\\/\u{8}\u{c}\n\r\t");
    }

    #[test]
    fn numbers_keep_their_digits_and_duplicates_stay() {
        let json = Json::parse(br#" { "a" : -1.50e+3 , "a" : [ ] } "#).unwrap();
        let Json::Object(fields) = json else { panic!("{json:?}") };
        assert_eq!(fields[0], ("a".into(), Json::Number("-1.50e+3".into())));
        assert_eq!(fields[1], ("a".into(), Json::Array(Vec::new())));
    }

    #[test]
    fn numbers_are_held_as_go_holds_them() {
        for (digits, expected) in [
            ("1", 1.into()),
            ("1.0", 1.into()),
            ("1e3", 1000.into()),
            ("-0", 0.into()),
            ("1.5", Number::from_f64(1.5).unwrap()),
            ("9223372036854775807", i64::MAX.into()),
            ("9223372036854775808", Number::from_f64(9_223_372_036_854_775_808.0).unwrap()),
        ] {
            assert_eq!(number(digits), Some(expected), "{digits}");
        }
        assert_eq!(number("1e400"), None);
        assert_eq!(number(&"9".repeat(10_000)), None);
    }
}
