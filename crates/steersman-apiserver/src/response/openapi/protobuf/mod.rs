//! Documents in protobuf, as the messages of gnostic.
//!
//! Each message is described by a table from the names in JSON to field numbers. A value that the
//! message does not have is left out, as is one that is empty, as in proto3. Extensions, and values
//! of any type, are YAML texts there.

mod messages;
mod yaml;

pub(super) use self::messages::{DOCUMENT_V2, DOCUMENT_V3};
use super::node::Node;

/// A message of gnostic.
pub(super) struct Message {
    /// The names in JSON, the numbers and the types of its fields, in the order of the numbers.
    fields: &'static [(&'static str, u32, Type)],
    /// The number of its extensions.
    extensions: Option<u32>,
    shape: Shape,
}

/// How a value becomes a message.
enum Shape {
    /// Its members are fields.
    Plain,
    /// Its other members are entries with a name and a value, in the field of this number.
    Entries(u32, &'static Message),
    /// It is the only field of the message, with this number.
    Wrapped(u32, &'static Message),
    /// It is a reference or something else, each a field of the message.
    OrReference { own: u32, message: &'static Message, reference: u32 },
    /// It is a schema in field 1 or a boolean in field 2.
    OrBool(&'static Message),
    /// A parameter of version 2, by where it is.
    Parameter,
    /// A list of texts in field 1, or one text.
    Texts,
    /// A number, boolean or text, each a field of the message.
    Scalar,
}

/// The type of a field.
enum Type {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    One(&'static Message),
    Many(&'static Message),
    /// A YAML text.
    Any,
    /// A list of YAML texts.
    Anys,
}

/// The document as bytes.
pub(super) fn encode(document: &Node, message: &'static Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(document, message, &mut bytes);
    bytes
}

fn write(node: &Node, message: &'static Message, to: &mut Vec<u8>) {
    match message.shape {
        Shape::Plain => write_fields(node, message, to),
        Shape::Entries(number, entry) => write_entries(node, number, entry, message.extensions, to),
        Shape::Wrapped(number, inner) => write_message(number, to, |to| write(node, inner, to)),
        Shape::OrReference { own, message, reference } => match node.get("$ref") {
            Some(target) => write_message(reference, to, |to| write_scalar(1, target, to)),
            None => write_message(own, to, |to| write(node, message, to)),
        },
        Shape::OrBool(inner) => match node {
            Node::Bool(value) => write_varint_field(2, u64::from(*value), to),
            node => write_message(1, to, |to| write(node, inner, to)),
        },
        Shape::Parameter => {
            let (number, message) = match node.get("in") {
                Some(Node::Text(at)) if at == "query" => (3, &messages::QUERY_PARAMETER),
                Some(Node::Text(at)) if at == "path" => (4, &messages::PATH_PARAMETER),
                _ => return write_message(1, to, |to| write(node, &messages::BODY_PARAMETER, to)),
            };
            write_message(2, to, |to| write_message(number, to, |to| write(node, message, to)));
        }
        Shape::Texts => match node {
            Node::List(items) => items.iter().for_each(|item| write_scalar(1, item, to)),
            node => write_scalar(1, node, to),
        },
        // A field of a choice is written also if it is empty. Lists and maps are none of the
        // choices.
        Shape::Scalar => match node {
            Node::Number(number) => write_double(1, number.as_f64().unwrap_or_default(), to),
            Node::Bool(value) => write_varint_field(2, u64::from(*value), to),
            Node::Text(text) => write_bytes(3, text.as_bytes(), to),
            Node::Null | Node::List(_) | Node::Map(_) => {}
        },
    }
}

fn write_fields(node: &Node, message: &'static Message, to: &mut Vec<u8>) {
    for (name, number, kind) in message.fields {
        let Some(value) = node.get(name) else { continue };
        match (kind, value) {
            (Type::Text, Node::Text(text)) if text.is_empty() => {}
            (Type::Text, value) => write_scalar(*number, value, to),
            (Type::Texts, Node::List(items)) => items.iter().for_each(|item| write_scalar(*number, item, to)),
            (Type::Bool, Node::Bool(true)) => write_varint_field(*number, 1, to),
            (Type::Int, Node::Number(value)) => {
                let value = value.as_i64().unwrap_or_default();
                if value != 0 {
                    write_varint_field(*number, value.cast_unsigned(), to);
                }
            }
            (Type::Double, Node::Number(value)) => {
                let value = value.as_f64().unwrap_or_default();
                if value != 0.0 {
                    write_double(*number, value, to);
                }
            }
            (Type::One(message), value) => write_message(*number, to, |to| write(value, message, to)),
            (Type::Many(message), Node::List(items)) => {
                items.iter().for_each(|item| write_message(*number, to, |to| write(item, message, to)));
            }
            // Not a list, where a list of one is meant.
            (Type::Many(message), value) => write_message(*number, to, |to| write(value, message, to)),
            (Type::Any, value) => write_any(*number, value, to),
            (Type::Anys, Node::List(items)) => items.iter().for_each(|item| write_any(*number, item, to)),
            _ => {}
        }
    }
    write_extensions(node, message.extensions, to);
}

fn write_entries(node: &Node, number: u32, entry: &'static Message, extensions: Option<u32>, to: &mut Vec<u8>) {
    let Node::Map(members) = node else { return };
    for (name, value) in members {
        if extensions.is_some() && name.starts_with("x-") {
            continue;
        }
        write_message(number, to, |to| {
            write_bytes(1, name.as_bytes(), to);
            write_message(2, to, |to| write(value, entry, to));
        });
    }
    write_extensions(node, extensions, to);
}

fn write_extensions(node: &Node, number: Option<u32>, to: &mut Vec<u8>) {
    let (Some(number), Node::Map(members)) = (number, node) else { return };
    for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
        write_message(number, to, |to| {
            write_bytes(1, name.as_bytes(), to);
            write_any(2, value, to);
        });
    }
}

/// A value of any type.
fn write_any(number: u32, value: &Node, to: &mut Vec<u8>) {
    write_message(number, to, |to| write_bytes(2, yaml::write(value).as_bytes(), to));
}

fn write_scalar(number: u32, value: &Node, to: &mut Vec<u8>) {
    if let Node::Text(text) = value {
        write_bytes(number, text.as_bytes(), to);
    }
}

fn write_message(number: u32, to: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    content(&mut bytes);
    write_bytes(number, &bytes, to);
}

fn write_bytes(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 2, to);
    write_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

fn write_varint_field(number: u32, value: u64, to: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3, to);
    write_varint(value, to);
}

fn write_double(number: u32, value: f64, to: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 1, to);
    to.extend_from_slice(&value.to_le_bytes());
}

fn write_varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}
