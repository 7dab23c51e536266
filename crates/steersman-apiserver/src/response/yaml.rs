//! JSON as YAML, in the style that the real server writes it.

use std::cmp::Ordering;

use libyaml_safer::{Emitter, Encoding, Event, MappingStyle, ScalarStyle, SequenceStyle};
use serde_json::Value;

use crate::request::yaml::resolve::{Scalar, go_float, is_sexagesimal, resolve};

/// The value as a document.
pub(crate) fn write(value: &Value) -> String {
    let mut text = Vec::new();
    // Writing to memory fails for no valid value.
    let _ = emit(value, &mut text);
    escaped(&String::from_utf8_lossy(&text))
}

/// Characters beyond the first plane are escaped. The text around them is quoted, see [`string`].
pub(super) fn escaped(text: &str) -> String {
    if !text.contains(is_astral) {
        return text.to_owned();
    }
    let escape = |character: char| match is_astral(character) {
        true => format!("\\U{:08X}", u32::from(character)),
        false => character.to_string(),
    };
    text.chars().map(escape).collect()
}

fn is_astral(character: char) -> bool {
    u32::from(character) > 0xffff
}

fn emit(value: &Value, text: &mut Vec<u8>) -> libyaml_safer::Result<()> {
    let mut emitter = Emitter::new();
    emitter.set_output_string(text);
    emitter.set_unicode(true);
    emitter.emit(Event::stream_start(Encoding::Utf8))?;
    emitter.emit(Event::document_start(None, &[], true))?;
    emit_value(value, &mut emitter)?;
    emitter.emit(Event::document_end(true))?;
    emitter.emit(Event::stream_end())?;
    emitter.flush()
}

fn emit_value(value: &Value, emitter: &mut Emitter<'_>) -> libyaml_safer::Result<()> {
    match value {
        Value::Null => emitter.emit(plain("null")),
        Value::Bool(truth) => emitter.emit(plain(&truth.to_string())),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => emitter.emit(plain(&go_float(float))),
            None => emitter.emit(plain(&number.to_string())),
        },
        Value::String(text) => emitter.emit(string(text)),
        Value::Array(items) => {
            emitter.emit(Event::sequence_start(None, None, true, SequenceStyle::Block))?;
            for item in items {
                emit_value(item, emitter)?;
            }
            emitter.emit(Event::sequence_end())
        }
        Value::Object(members) => {
            emitter.emit(Event::mapping_start(None, None, true, MappingStyle::Block))?;
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| natural(one, other));
            for (name, member) in members {
                emitter.emit(string(name))?;
                emit_value(member, emitter)?;
            }
            emitter.emit(Event::mapping_end())
        }
    }
}

pub(super) fn plain(text: &str) -> Event {
    Event::scalar(None, None, text, true, true, ScalarStyle::Plain)
}

/// Text is quoted if it would be parsed as another type.
pub(super) fn string(text: &str) -> Event {
    let is_text = matches!(resolve(text), Scalar::String(_)) && !is_sexagesimal(text);
    let style = match text {
        _ if text.contains(is_astral) => ScalarStyle::DoubleQuoted,
        _ if text.contains('\n') => ScalarStyle::Literal,
        _ if is_text => ScalarStyle::Plain,
        _ => ScalarStyle::DoubleQuoted,
    };
    Event::scalar(None, None, text, true, true, style)
}

/// The order of names: numbers in them count as numbers, and letters come after everything else.
fn natural(one: &str, other: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let digits = |text: &[char]| text[at..].iter().take_while(|character| character.is_ascii_digit()).count();
    let before = a[..at].iter().rev().take_while(|character| character.is_ascii_digit());
    // A zero after other digits is part of their number.
    let within = (a[at] == '0' || b[at] == '0') && before.clone().any(|digit| *digit != '0');
    let number = |text: &[char]| {
        let text = text[at..].iter().take_while(|character| character.is_ascii_digit());
        text.fold(u64::from(within), |number, digit| {
            number.wrapping_mul(10).wrapping_add(u64::from(digit.to_digit(10).unwrap_or(0)))
        })
    };
    number(&a).cmp(&number(&b)).then(digits(&a).cmp(&digits(&b))).then(a[at].cmp(&b[at]))
}
