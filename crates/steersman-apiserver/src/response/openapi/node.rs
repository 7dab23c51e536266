//! A part of a document: JSON whose members have an order.
//!
//! The real server writes the members of Go's structs in their order and those of maps by name. The
//! hash of a document depends on it.

use std::borrow::Cow;

use serde_json::{Number, Value};

use crate::request::budget;

/// A name or a text, which most often is a part of the recorded table.
pub(super) type Text = Cow<'static, str>;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Text, Node)>),
}

impl Node {
    pub(super) fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    /// A list of texts.
    pub(super) fn texts(texts: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// The value of a member.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// Writes the value as JSON, after `to`.
    pub(super) fn write(&self, escape: Escape, to: &mut Vec<u8>) {
        match self {
            Self::Null => to.extend_from_slice(b"null"),
            Self::Bool(value) => to.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Number(number) => to.extend_from_slice(number.to_string().as_bytes()),
            Self::Text(text) => write_text(text, escape, to),
            Self::List(items) => {
                to.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        to.push(b',');
                    }
                    item.write(escape, to);
                }
                to.push(b']');
            }
            Self::Map(members) => {
                to.push(b'{');
                write_members(members, escape, to);
                to.push(b'}');
            }
        }
    }
}

/// Writes members with a comma between them.
pub(super) fn write_members(members: &[(Text, Node)], escape: Escape, to: &mut Vec<u8>) {
    for (place, (name, value)) in members.iter().enumerate() {
        if place > 0 {
            to.push(b',');
        }
        write_text(name, escape, to);
        to.push(b':');
        value.write(escape, to);
    }
}

/// How texts are written, which Go's two encoders do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// As few characters as possible.
    Json,
    /// The characters of HTML too.
    Html,
}

fn write_text(text: &str, escape: Escape, to: &mut Vec<u8>) {
    let start = to.len();
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(&mut *to, text);
    let is_html = |byte: &u8| matches!(byte, b'<' | b'>' | b'&');
    let has_separators = || text.contains(['\u{2028}', '\u{2029}']);
    if escape == Escape::Html && (to[start..].iter().any(is_html) || has_separators()) {
        let plain = String::from_utf8_lossy(&to[start..])
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        to.truncate(start);
        to.extend_from_slice(plain.as_bytes());
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        budget::step(1);
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(as_go(number)),
            Value::String(text) => Self::Text(text.clone().into()),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(members) => {
                Self::Map(members.iter().map(|(name, value)| (name.clone().into(), value.into())).collect())
            }
        }
    }
}

/// The number as Go writes it: `10.0` is an integer.
fn as_go(number: &Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        #[expect(clippy::cast_possible_truncation, reason = "the number is a small integer")]
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => Number::from(float as i64),
        _ => number.clone(),
    }
}

/// Builds a map member by member.
#[derive(Default)]
pub(super) struct Members(Vec<(Text, Node)>);

impl Members {
    pub(super) fn with(mut self, name: impl Into<Text>, value: Node) -> Self {
        self.push(name, value);
        self
    }

    pub(super) fn with_text(self, name: &'static str, text: impl Into<Text>) -> Self {
        self.with(name, Node::text(text))
    }

    pub(super) fn push(&mut self, name: impl Into<Text>, value: Node) {
        self.0.push((name.into(), value));
    }

    pub(super) fn build(self) -> Node {
        Node::Map(self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_keep_their_order_and_texts_are_escaped_as_asked() {
        let node =
            Members::default().with_text("b", "<a>\n\u{2028}").with("a", Node::from(&json!([1, 2.0, 0.5, null])));
        let node = node.build();
        for (escape, expected) in [
            (Escape::Json, "{\"b\":\"<a>\\n\u{2028}\",\"a\":[1,2,0.5,null]}"),
            (Escape::Html, "{\"b\":\"\\u003ca\\u003e\\n\\u2028\",\"a\":[1,2,0.5,null]}"),
        ] {
            let mut text = Vec::new();
            node.write(escape, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
