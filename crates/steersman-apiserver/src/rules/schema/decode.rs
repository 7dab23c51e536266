//! Decodes a value of a known type as Go's JSON decoder does, and encodes the result as its encoder
//! does.
//!
//! Go remembers the first value of a wrong type and reads on. An error of a type with its own
//! decoder (times, quantities) ends the reading at once and is the one that is reported. Unknown
//! and duplicate fields are reported in the order of the text. A duplicate field is decoded into
//! the same variable again, so structs and maps are merged.

use std::borrow::Cow;

use serde_json::{Map, Value};
use steersman_wire::time::{self, Precision};
use steersman_wire::{base64, canonical_quantity};

use super::json::{self, Json};
use super::types::{Field, StructId, Type, Types};
use super::{DecodeError, Decoded, FieldValidation};
use crate::request::budget;

/// More unknown and duplicate fields are not reported.
const STRICT_ERRORS_MAX: usize = 100;

/// Ends the decoding of an object that is too large.
const TOO_LARGE: &str = "the object is too large";

/// How deep structs may be nested. Only schemas of definitions nest without end. They are read by
/// recursion in many places, and a level takes up to 12 KiB of the stack in a build without
/// optimization, of 2 MiB that most threads have. Values without a type may be nested deeper.
const STRUCTS_MAX: usize = 64;

/// Ends the decoding of a struct that is nested deeper.
const TOO_DEEP: &str = "schemas are nested too deep: use x-kubernetes-preserve-unknown-fields for the inner ones";

/// The decoding of one value.
pub(super) struct Decoder<'a> {
    types: &'a Types,
    /// Whether unknown and duplicate fields are collected.
    strict: bool,
    strict_errors: Vec<String>,
    /// The first value of a wrong type.
    wrong_type: Option<String>,
    /// The innermost struct.
    of_struct: &'a str,
    /// How many structs it is in, with itself.
    structs: usize,
    /// The path of fields, with the structs that Go embeds them by.
    fields: Vec<&'a str>,
    /// The path of fields, items and keys.
    path: Vec<Step<'a>>,
}

enum Step<'a> {
    Field(&'a str),
    Key(String),
    Item(usize),
}

impl<'a> Decoder<'a> {
    pub(super) fn new(types: &'a Types, validation: FieldValidation) -> Self {
        Self {
            types,
            strict: validation != FieldValidation::Ignore,
            strict_errors: Vec::new(),
            wrong_type: None,
            of_struct: "",
            structs: 0,
            fields: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The result.
    pub(super) fn finish(self, value: Value, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        match self.wrong_type {
            Some(error) => Err(DecodeError::Type(error)),
            None if validation == FieldValidation::Strict && !self.strict_errors.is_empty() => {
                Err(DecodeError::Strict(self.strict_errors))
            }
            None => Ok(Decoded { value, warnings: self.strict_errors }),
        }
    }

    /// Decodes `json` as `ty`, into `before` if the field is a duplicate. An error ends the
    /// decoding.
    pub(super) fn value(&mut self, ty: &'a Type, json: Json<'_>, before: Option<Value>) -> Result<Value, String> {
        if !budget::step(1) {
            return Err(TOO_LARGE.to_owned());
        }
        let before = || before.unwrap_or_else(|| self.zero(ty));
        let value = match (ty.unnamed(), json) {
            (Type::Pointer(_) | Type::List(_) | Type::Map(_) | Type::Bytes, Json::Null) => Value::Null,
            (Type::Pointer(ty), json) => {
                let before = before();
                self.value(ty, json, Some(before).filter(|before| !before.is_null()))?
            }
            (Type::Quantity, Json::Null) => "0".into(),
            (Type::IntOrString, Json::Null) => 0.into(),
            (Type::Time | Type::MicroTime, Json::Null) => Value::Null,
            (Type::SchemaOrBool | Type::SchemaOrList | Type::SchemaOrStrings, json) => self.schema_or(ty, json)?,
            (_, Json::Null) => before(),
            (Type::Struct(id), Json::Object(fields)) => {
                let before = before();
                self.structure(*id, fields, before)?
            }
            (Type::Map(item), Json::Object(fields)) => {
                let before = before();
                self.map(item, fields, before)?
            }
            (Type::List(item), Json::Array(items)) => {
                let before = before();
                self.list(item, items, before)?
            }
            (Type::Bool, Json::Bool(value)) => Value::Bool(value),
            (Type::String, Json::String(text)) => Value::String(text.into_owned()),
            (Type::Int32, Json::Number(digits)) => match digits.parse::<i32>() {
                Ok(number) => number.into(),
                Err(_) => self.wrong_number(&digits, ty),
            },
            (Type::Int64, Json::Number(digits)) => match digits.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => self.wrong_number(&digits, ty),
            },
            (Type::Float64, Json::Number(digits)) => match json::float(&digits) {
                Some(number) => Value::Number(number),
                None => self.wrong_number(&digits, ty),
            },
            (Type::Bytes, Json::String(text)) => match base64::decode(&text) {
                Ok(bytes) => base64::encode(&bytes).into(),
                Err(error) => self.wrong_value(|_| error),
            },
            (Type::Bytes, Json::Array(items)) => self.bytes(items),
            (Type::Time, json) => self.time(json, Precision::Seconds)?,
            (Type::MicroTime, json) => self.time(json, Precision::Microseconds)?,
            (Type::Quantity, Json::String(text)) => canonical_quantity(text.trim())?.into(),
            (Type::Quantity, Json::Number(digits)) => canonical_quantity(&digits)?.into(),
            // The error is the one for a text that is not a quantity.
            (Type::Quantity, json) => canonical_quantity(json.describe())?.into(),
            (Type::IntOrString, Json::String(text)) => Value::String(text.into_owned()),
            (Type::IntOrString, Json::Number(digits)) => match digits.parse::<i32>() {
                Ok(number) => number.into(),
                Err(_) => return Err(self.message(&format!("number {digits}"), "int32")),
            },
            (Type::IntOrString, json) => return Err(self.message(json.describe(), "int32")),
            (Type::Any, json) => self.any(json)?,
            (_, json) => {
                let found = json.describe();
                self.wrong_value(|decoder| decoder.message(found, &decoder.types.go_name(ty)))
            }
        };
        within_budget(value)
    }

    fn structure(
        &mut self,
        id: StructId,
        fields: Vec<(Cow<'_, str>, Json<'_>)>,
        before: Value,
    ) -> Result<Value, String> {
        let types: &'a Types = self.types;
        let structure = types.get(id);
        budget::step(structure.fields.len() / 4);
        if self.structs == STRUCTS_MAX {
            return Err(TOO_DEEP.to_owned());
        }
        self.structs += 1;
        // Fields that are absent from `before` were empty.
        let mut before = if let Value::Object(before) = before { before } else { Map::new() };
        let mut values: Vec<Option<Value>> = structure.fields.iter().map(|field| before.remove(&field.name)).collect();
        let mut seen = vec![false; structure.fields.len()];
        let outer = std::mem::replace(&mut self.of_struct, structure.go_name());
        for (name, json) in fields {
            let Some(index) = structure.field_index(&name) else {
                self.strict_error("unknown", &name);
                continue;
            };
            let field = &structure.fields[index];
            if std::mem::replace(&mut seen[index], true) {
                self.strict_error("duplicate", &name);
            }
            let depth = self.fields.len();
            self.fields.extend(field.embedded_by.as_deref());
            self.fields.push(&field.name);
            self.path.push(Step::Field(&field.name));
            let absent = json == Json::Null && matches!(field.ty.unnamed(), Type::Pointer(_));
            let value = self.value(&field.ty, json, values[index].take())?;
            values[index] = Some(value).filter(|_| !absent);
            self.path.pop();
            self.fields.truncate(depth);
        }
        self.of_struct = outer;
        self.structs -= 1;
        let is_inside = !self.fields.is_empty();
        // Only whole objects have a type, embedded ones have none.
        let is_stored = |field: &Field| !is_inside || field.embedded_by.as_deref() != Some("TypeMeta");
        let fields = structure.fields.iter().zip(values).filter(|(field, _)| is_stored(field));
        let written = fields.filter_map(|(field, value)| Some((field.name.clone(), self.written(field, value)?)));
        Ok(Value::Object(written.collect()))
    }

    /// What Go's encoder writes for a field, unless it omits the field.
    fn written(&self, field: &Field, value: Option<Value>) -> Option<Value> {
        let Some(value) = value else {
            return is_written_if_empty(field).then(|| self.zero(&field.ty));
        };
        let is_empty = if field.name == "managedFields" { value.is_null() } else { is_empty(&field.ty, &value) };
        let left_out = (field.omit_empty && is_empty) || (field.omit_zero && value.is_null());
        (!left_out).then_some(value)
    }

    fn map(&mut self, item: &'a Type, fields: Vec<(Cow<'_, str>, Json<'_>)>, before: Value) -> Result<Value, String> {
        let mut map = if let Value::Object(before) = before { before } else { Map::new() };
        let mut seen = std::collections::HashSet::new();
        for (key, json) in fields {
            if self.strict {
                if !seen.insert(key.clone()) {
                    self.strict_error("duplicate", &key);
                }
                self.path.push(Step::Key(key.clone().into_owned()));
            }
            let value = match self.value(item, json, None)? {
                // Members of a map are stored even if they are empty.
                Value::Null if *item.unnamed() == Type::Bytes => "".into(),
                Value::Null if matches!(item.unnamed(), Type::List(_)) => Value::Array(Vec::new()),
                value => value,
            };
            map.insert(key.into_owned(), value);
            if self.strict {
                self.path.pop();
            }
        }
        // Storage does not distinguish an empty map and an absent one.
        Ok(if map.is_empty() { Value::Null } else { Value::Object(map) })
    }

    fn list(&mut self, item: &'a Type, items: Vec<Json<'_>>, before: Value) -> Result<Value, String> {
        // Go decodes the items of a duplicate list into the existing items.
        let mut before = if let Value::Array(before) = before { before.into_iter() } else { Vec::new().into_iter() };
        let mut list = Vec::with_capacity(items.len());
        for (index, json) in items.into_iter().enumerate() {
            self.path.push(Step::Item(index));
            list.push(self.value(item, json, before.next())?);
            self.path.pop();
        }
        // Storage does not distinguish an empty list and an absent one.
        Ok(if list.is_empty() && !self.is_managed_fields() { Value::Null } else { Value::Array(list) })
    }

    /// Whether this is the list of the object's own managers, which an empty one resets.
    fn is_managed_fields(&self) -> bool {
        self.path.len() <= 2 && matches!(self.path.last(), Some(Step::Field("managedFields")))
    }

    /// Go also accepts bytes as a list of numbers.
    fn bytes(&mut self, items: Vec<Json<'_>>) -> Value {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            match &item {
                Json::Null => bytes.push(0),
                Json::Number(digits) => match digits.parse::<u8>() {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => {
                        self.wrong_value(|decoder| decoder.message(&format!("number {digits}"), "uint8"));
                    }
                },
                other => {
                    self.wrong_value(|decoder| decoder.message(other.describe(), "uint8"));
                }
            }
        }
        base64::encode(&bytes).into()
    }

    fn time(&self, json: Json<'_>, precision: Precision) -> Result<Value, String> {
        let Json::String(text) = json else { return Err(self.message(json.describe(), "string")) };
        Ok(match (time::parse(&text, precision)?, precision) {
            // The beginning of the year 1 is Go's zero time.
            ((time::ZERO, 0), _) => Value::Null,
            ((seconds, _), Precision::Seconds) => time::format(seconds, None).into(),
            ((seconds, micros), Precision::Microseconds) => time::format(seconds, Some(micros)).into(),
        })
    }

    /// The parts of JSON schemas that have two forms. Go decodes their contents without a check for
    /// unknown fields, and the first error ends the decoding.
    fn schema_or(&mut self, ty: &Type, json: Json<'_>) -> Result<Value, String> {
        let types: &'a Types = self.types;
        let schema = types.find("apiextensions.v1.JSONSchemaProps").map(Type::Struct);
        let strict = std::mem::replace(&mut self.strict, false);
        let value = match (ty.unnamed(), json, schema) {
            (_, Json::Object(fields), Some(Type::Struct(id))) => self.structure(id, fields, Value::Null)?,
            (Type::SchemaOrList, Json::Array(items), Some(Type::Struct(id))) => {
                let mut schemas = Vec::new();
                for item in items {
                    let Json::Object(fields) = item else {
                        return Err(self.message(item.describe(), "v1.JSONSchemaProps"));
                    };
                    schemas.push(self.structure(id, fields, Value::Null)?);
                }
                if schemas.is_empty() { Value::Null } else { Value::Array(schemas) }
            }
            (Type::SchemaOrStrings, Json::Array(items), _) => {
                let mut strings = Vec::new();
                for item in items {
                    let Json::String(text) = item else {
                        return Err(self.message(item.describe(), "string"));
                    };
                    strings.push(Value::String(text.into_owned()));
                }
                if strings.is_empty() { Value::Null } else { Value::Array(strings) }
            }
            (Type::SchemaOrBool, Json::Bool(value), _) => Value::Bool(value),
            (Type::SchemaOrBool, ..) => return Err("boolean or JSON schema expected".to_owned()),
            // Anything else counts as absent.
            _ => Value::Null,
        };
        self.strict = strict;
        match self.wrong_type.take() {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }

    /// Any value, unchanged and unchecked.
    fn any(&mut self, json: Json<'_>) -> Result<Value, String> {
        let strict = std::mem::replace(&mut self.strict, false);
        let value = self.untyped(json);
        self.strict = strict;
        value
    }

    /// A value without a type. Duplicate fields are reported, and the last one is kept.
    pub(super) fn untyped(&mut self, json: Json<'_>) -> Result<Value, String> {
        if !budget::step(1) {
            return Err(TOO_LARGE.to_owned());
        }
        within_budget(match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(digits) => match json::number(&digits) {
                Some(number) => Value::Number(number),
                None => {
                    return Err(format!("json: cannot unmarshal number {digits} into Go value of type float64"));
                }
            },
            Json::String(text) => Value::String(text.into_owned()),
            Json::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    self.path.push(Step::Item(index));
                    list.push(self.untyped(item)?);
                    self.path.pop();
                }
                Value::Array(list)
            }
            Json::Object(fields) => {
                let mut map = Map::new();
                for (key, json) in fields {
                    if map.contains_key(key.as_ref()) {
                        self.strict_error("duplicate", &key);
                    }
                    self.path.push(Step::Key(key.clone().into_owned()));
                    let value = self.untyped(json)?;
                    self.path.pop();
                    map.insert(key.into_owned(), value);
                }
                Value::Object(map)
            }
        })
    }

    /// The zero value of this type, as Go's encoder writes it.
    fn zero(&self, ty: &Type) -> Value {
        match ty.unnamed() {
            Type::Bool => Value::Bool(false),
            Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString => 0.into(),
            Type::String => "".into(),
            Type::Quantity => "0".into(),
            Type::SchemaOrBool => Value::Bool(false),
            Type::Struct(id) => {
                let fields = self.types.get(*id).fields.iter();
                let written = fields.filter_map(|field| Some((field.name.clone(), self.written(field, None)?)));
                let zero = Value::Object(written.collect());
                budget::make(budget::shallow(&zero));
                zero
            }
            _ => Value::Null,
        }
    }

    fn strict_error(&mut self, what: &str, name: &str) {
        use std::fmt::Write;

        if !self.strict || self.strict_errors.len() >= STRICT_ERRORS_MAX {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            let separator = if path.is_empty() { "" } else { "." };
            // Writing to a string does not fail.
            let _ = match step {
                Step::Field(name) => write!(path, "{separator}{name}"),
                Step::Key(name) => write!(path, "{separator}{name}"),
                Step::Item(index) => write!(path, "[{index}]"),
            };
        }
        let separator = if path.is_empty() { "" } else { "." };
        let error = format!("{what} field {:?}", format!("{path}{separator}{name}"));
        if !budget::text(error.len() * 4) || !budget::make(error.len()) {
            return;
        }
        if !self.strict_errors.contains(&error) {
            self.strict_errors.push(error);
        }
    }

    /// Remembers the first error. The value in place of the wrong one is never used.
    fn wrong_value(&mut self, error: impl FnOnce(&Self) -> String) -> Value {
        if self.wrong_type.is_none() {
            self.wrong_type = Some(error(self));
        }
        Value::Null
    }

    fn wrong_number(&mut self, digits: &str, ty: &Type) -> Value {
        self.wrong_value(|decoder| decoder.message(&format!("number {digits}"), &decoder.types.go_name(ty)))
    }

    fn message(&self, found: &str, wanted: &str) -> String {
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        let (of_struct, fields) = (self.of_struct, self.fields.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {of_struct}.{fields} of type {wanted}")
    }
}

/// The value, within the budget of the request. [`budget::check`] reports when it is exceeded.
fn within_budget(value: Value) -> Result<Value, String> {
    if budget::make(budget::shallow(&value)) { Ok(value) } else { Err(TOO_LARGE.to_owned()) }
}

/// Whether Go's encoder writes a field with the zero value of its type.
pub(crate) fn is_written_if_empty(field: &Field) -> bool {
    !(field.omit_zero || (field.omit_empty && can_be_empty(&field.ty)))
}

/// Whether Go's `omitempty` omits values of the type: never structs.
fn can_be_empty(ty: &Type) -> bool {
    use Type::{Bool, Bytes, Float64, Int32, Int64, List, Map, Pointer, String};

    matches!(ty.unnamed(), Bool | Int32 | Int64 | Float64 | String | Bytes | Pointer(_) | List(_) | Map(_))
}

/// Whether Go's `omitempty` omits the value.
fn is_empty(ty: &Type, value: &Value) -> bool {
    match ty.unnamed() {
        // A pointer that is set is written, even if its value is empty, or null as Go's zero time.
        Type::Pointer(_) => false,
        _ if !can_be_empty(ty) => false,
        _ => match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        },
    }
}
