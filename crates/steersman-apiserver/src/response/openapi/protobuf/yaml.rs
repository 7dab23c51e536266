//! A value as YAML, with its members in their order.

use libyaml_safer::{Emitter, Encoding, Event, MappingStyle, SequenceStyle};

use crate::request::yaml::resolve::go_float;
use crate::response::openapi::node::Node;
use crate::response::yaml::{escaped, plain, string};

pub(super) fn write(value: &Node) -> String {
    let mut text = Vec::new();
    // Writing to memory fails for no valid value.
    let _ = emit(value, &mut text);
    escaped(&String::from_utf8_lossy(&text))
}

fn emit(value: &Node, text: &mut Vec<u8>) -> libyaml_safer::Result<()> {
    let mut emitter = Emitter::new();
    emitter.set_output_string(text);
    emitter.set_unicode(true);
    emitter.set_width(-1);
    emitter.emit(Event::stream_start(Encoding::Utf8))?;
    emitter.emit(Event::document_start(None, &[], true))?;
    emit_value(value, &mut emitter)?;
    emitter.emit(Event::document_end(true))?;
    emitter.emit(Event::stream_end())?;
    emitter.flush()
}

fn emit_value(value: &Node, emitter: &mut Emitter<'_>) -> libyaml_safer::Result<()> {
    match value {
        Node::Null => emitter.emit(plain("null")),
        Node::Bool(truth) => emitter.emit(plain(&truth.to_string())),
        Node::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => emitter.emit(plain(&go_float(float))),
            None => emitter.emit(plain(&number.to_string())),
        },
        Node::Text(text) => emitter.emit(string(text)),
        Node::List(items) => {
            emitter.emit(Event::sequence_start(None, None, true, SequenceStyle::Block))?;
            for item in items {
                emit_value(item, emitter)?;
            }
            emitter.emit(Event::sequence_end())
        }
        Node::Map(members) => {
            emitter.emit(Event::mapping_start(None, None, true, MappingStyle::Block))?;
            for (name, member) in members {
                emitter.emit(string(name))?;
                emit_value(member, emitter)?;
            }
            emitter.emit(Event::mapping_end())
        }
    }
}
