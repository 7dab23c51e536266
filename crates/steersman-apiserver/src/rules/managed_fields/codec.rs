//! Sets of fields as JSON: the format `FieldsV1`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::element::PathElement;
use super::set::{FieldNode, FieldSet};
use crate::request::budget;
use crate::response::html_safe;
use crate::rules::schema::DEPTH_MAX;

/// The estimated memory of a node.
const NODE_BYTES: usize = 96;

/// Reads a set. The error states what is wrong with it.
pub(crate) fn decode(text: &[u8]) -> Result<FieldSet, String> {
    budget::text(text.len());
    let mut reader = serde_json::Deserializer::from_slice(text);
    // The seed has a bound of its own.
    reader.disable_recursion_limit();
    let (set, _) = Level { room: DEPTH_MAX }.deserialize(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(set)
}

/// Reads the paths below a node, and whether the node itself is a member.
struct Level {
    room: usize,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = (FieldSet, bool);

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = (FieldSet, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((FieldSet::default(), true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Some(room) = self.room.checked_sub(1) else {
            return Err(A::Error::custom("the fields are nested too deep"));
        };
        let (mut set, mut member, mut is_leaf) = (FieldSet::default(), false, true);
        while let Some(Key(key)) = members.next_key()? {
            if !budget::step(1) || !budget::make(NODE_BYTES + key.len()) {
                return Err(A::Error::custom("there are too many fields"));
            }
            if key == "." {
                member = true;
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            let Some(element) = element(&key).map_err(A::Error::custom)? else {
                // An element of a later release.
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let (children, is_member) = members.next_value_seed(Level { room })?;
            is_leaf = false;
            let node = set.node(element);
            node.member |= is_member;
            if !children.is_empty() {
                node.children = children;
            }
        }
        Ok((set, member || is_leaf))
    }
}

/// A key, borrowed if it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(text.to_owned().into()))
            }
        }
        reader.deserialize_str(Text)
    }
}

/// Reads one element: `f:name`, `k:{"name":"a"}`, `v:"a"` or `i:0`. `None` for a type that is not
/// known.
fn element(key: &str) -> Result<Option<PathElement>, String> {
    if key.len() < 2 {
        return Err("key must be 2 characters long:".to_owned());
    }
    if key.as_bytes()[1] != b':' {
        return Err(format!("missing colon: {key}"));
    }
    let rest = &key[2..];
    Ok(Some(match key.as_bytes()[0] {
        b'f' => PathElement::field(rest),
        b'v' => PathElement::Value(serde_json::from_str(rest).map_err(|error| error.to_string())?),
        b'k' => {
            let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|error| error.to_string())?;
            PathElement::Key(keys.into_iter().map(|(name, value)| (name.into(), value)).collect())
        }
        b'i' => PathElement::Index(rest.parse().map_err(|_| format!("not a number: {rest}"))?),
        _ => return Ok(None),
    }))
}

/// Writes a set.
pub(crate) fn encode(set: &FieldSet, out: &mut Vec<u8>) {
    out.push(b'{');
    encode_nodes(&set.nodes, out);
    out.push(b'}');
    budget::text(out.len() / 4);
}

fn encode_nodes(nodes: &[FieldNode], out: &mut Vec<u8>) {
    for (place, node) in nodes.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_key(&node.element, out);
        out.push(b'{');
        if node.member && !node.children.is_empty() {
            out.extend_from_slice(br#"".":{},"#);
        }
        encode_nodes(&node.children.nodes, out);
        out.push(b'}');
    }
}

/// Writes an element as the key of a member: `"f:name":`.
pub(super) fn write_key(element: &PathElement, out: &mut Vec<u8>) {
    match element {
        PathElement::Field(name) => return write_field(name, out),
        PathElement::Key(keys) => {
            let mut text = String::from("k:{");
            for (place, (name, value)) in keys.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&html_safe(Value::String(name.to_string()).to_string()));
                text.push(':');
                text.push_str(&html_safe(value.to_string()));
            }
            text.push('}');
            write_text(&text, out);
        }
        PathElement::Value(value) => write_text(&format!("v:{}", html_safe(value.to_string())), out),
        PathElement::Index(index) => write_text(&format!("i:{index}"), out),
    }
    out.push(b':');
}

/// Writes the key of a field: `"f:name":`.
pub(super) fn write_field(name: &str, out: &mut Vec<u8>) {
    if name.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(b"\"f:");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    } else {
        write_text(&format!("f:{name}"), out);
        out.push(b':');
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory does not fail");
}
