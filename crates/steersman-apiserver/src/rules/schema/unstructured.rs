//! The conversion of a parsed value into a type without its JSON text, which is how the real server
//! reads the result of a strategic merge patch. It accepts what decoding accepts, with other errors
//! and other conversions of numbers.

use serde_json::Value;

use super::types::{StructId, Type, Types};
use super::{FieldValidation, Json};
use crate::request::budget;
use crate::rules::go_text;
use crate::rules::kinds::builtin;
use crate::rules::schema::decode::Decoder;

/// More unknown fields are not reported.
const UNKNOWN_MAX: usize = 1_000;

/// Converts numbers so that the value can be decoded as the struct, and returns its unknown fields.
pub(crate) fn from_unstructured(value: &mut Value, fields: StructId) -> Result<Vec<String>, String> {
    let mut converter = Converter { types: &builtin().types, path: String::new(), unknown: Vec::new() };
    converter.value(value, &Type::Struct(fields))?;
    converter.unknown.sort_unstable();
    Ok(converter.unknown)
}

struct Converter<'a> {
    types: &'a Types,
    /// The path of fields and items. Keys of maps are not part of it.
    path: String,
    unknown: Vec<String>,
}

impl Converter<'_> {
    fn value(&mut self, value: &mut Value, ty: &Type) -> Result<(), String> {
        if !budget::step(1) {
            return Err("the object is too large".to_owned());
        }
        match ty.unnamed() {
            _ if value.is_null() => Ok(()),
            Type::Pointer(inner) => self.value(value, inner),
            Type::Bool if value.is_boolean() => Ok(()),
            Type::String if value.is_string() => Ok(()),
            Type::Float64 if value.is_number() => Ok(()),
            Type::Int64 if value.is_i64() => Ok(()),
            // Numbers that are too large lose their higher bits.
            Type::Int32 if value.is_i64() => {
                *value = (value.as_i64().unwrap_or_default() as i32).into();
                Ok(())
            }
            Type::Int32 | Type::Int64 if value.as_f64().is_some_and(|number| number.fract() == 0.0) => {
                let number = value.as_f64().unwrap_or_default() as i64;
                *value = if *ty.unnamed() == Type::Int32 { (number as i32).into() } else { number.into() };
                Ok(())
            }
            Type::Bool | Type::String | Type::Float64 | Type::Int32 | Type::Int64 => {
                Err(self.not_convertible(value, ty))
            }
            Type::Struct(id) => self.structure(value, *id),
            Type::Map(item) => match value {
                Value::Object(members) => members.values_mut().try_for_each(|member| self.value(member, item)),
                other => Err(format!("cannot restore map from {}", kind(other))),
            },
            Type::List(item) => match value {
                Value::Array(items) => {
                    let length = self.path.len();
                    for (index, value) in items.iter_mut().enumerate() {
                        self.path.push_str(&format!("[{index}]"));
                        self.value(value, item)?;
                        self.path.truncate(length);
                    }
                    Ok(())
                }
                other => Err(format!("cannot restore slice from {}", kind(other))),
            },
            Type::Bytes => match value {
                Value::String(_) => {
                    self.by_decoding(value, ty).map_err(|error| format!("error decoding from json: {error}"))
                }
                Value::Array(_) => self.by_decoding(value, ty),
                other => Err(format!("cannot restore slice from {}", kind(other))),
            },
            Type::Any => Ok(()),
            // These types have a decoder of their own.
            _ => self.by_decoding(value, ty),
        }
    }

    fn structure(&mut self, value: &mut Value, id: StructId) -> Result<(), String> {
        let members = match value {
            Value::Object(members) => members,
            other => return Err(format!("cannot restore struct from: {}", kind(other))),
        };
        let types = self.types;
        let structure = types.get(id);
        let length = self.path.len();
        for (name, member) in members {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
            match structure.field(name) {
                Some(field) => self.value(member, &field.ty)?,
                None if self.unknown.len() < UNKNOWN_MAX && budget::make(self.path.len()) => {
                    self.unknown.push(format!("unknown field \"{}\"", self.path));
                }
                None => {}
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn by_decoding(&self, value: &Value, ty: &Type) -> Result<(), String> {
        let mut decoder = Decoder::new(self.types, FieldValidation::Ignore);
        let decoded = decoder.value(ty, Json::from(value.clone()), None)?;
        decoder.finish(decoded, FieldValidation::Ignore).map(drop).map_err(|error| error.to_string())
    }

    /// Go's error about a value that its reflection does not convert.
    fn not_convertible(&self, value: &Value, ty: &Type) -> String {
        let (found, wanted) = (go_text::type_name(value), ty.unnamed());
        // Go converts integers to strings, and floating point to integers, so the attempt fails
        // later.
        let is_tried = match wanted {
            Type::String => found == "int64",
            Type::Int32 | Type::Int64 => found == "float64",
            _ => false,
        };
        if is_tried {
            return format!("cannot convert {found} to {}", self.types.go_name(ty));
        }
        format!("unrecognized type: {}", self.types.go_name(wanted))
    }
}

/// The kind of a value's type in Go.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => go_text::type_name(other),
    }
}
