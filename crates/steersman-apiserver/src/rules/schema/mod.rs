//! Decoding of built-in kinds: a body becomes what the real server would store.
//!
//! The real server decodes a body into a Go struct, stores that as protobuf, and encodes the struct
//! again. The effects are visible, and controllers depend on them: unknown fields are dropped,
//! `hostNetwork: false` is dropped while `automountServiceAccountToken: false` stays, an absent
//! `spec` becomes `{}`, an empty list without `omitempty` becomes null, and `1000m` becomes `1`.
//! This module does the same to [`Value`]s, driven by the [`Types`] of the table of kinds.
//!
//! [`RequestBody::parse`] refuses a body that is not JSON, and [`RequestBody::decode`] one that is
//! not of the type. Both have the real server's messages. [`decode_value`] decodes parsed values,
//! such as the result of a patch.

mod decode;
mod json;
/// The table has more than decoding needs: list keys are for apply.
#[allow(dead_code)]
mod types;
mod unstructured;

use serde_json::Value;

pub(crate) use self::types::{Field, ListType, Patch, Struct, StructId, Type, Types};
pub(crate) use self::unstructured::from_unstructured;

use self::decode::Decoder;
pub(crate) use self::decode::is_written_if_empty;
pub(crate) use self::json::DEPTH_MAX;
use self::json::Json;
use crate::rules::kinds::builtin;

/// How unknown and duplicate fields are handled (the query parameter `fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are ignored.
    Ignore,
    /// The response has a warning for each.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

impl FieldValidation {
    /// Parses the query parameter. Empty means the default.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::default()),
            "Ignore" => Some(Self::Ignore),
            "Warn" => Some(Self::Warn),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// A decoded value, and the warnings for the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// The texts of `Warning` headers: `unknown field "spec.foo"`.
    pub(crate) warnings: Vec<String>,
}

/// Why a body was refused, with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// It is not JSON, or not an object with an apiVersion and a kind that are strings.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Unreadable(String),
    /// A field has a value of another type.
    #[error("{0}")]
    Type(String),
    /// There are unknown or duplicate fields, and field validation is strict.
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

impl DecodeError {
    /// The message of the Status. `expected` is the kind of the path; `kind` and `version` are
    /// those of the body, or of the path if the body has none.
    pub(crate) fn message(&self, expected: &str, kind: &str, version: &str, body: &[u8]) -> String {
        match self {
            Self::Unreadable(_) => {
                format!("the object provided is unrecognized (must be of type {expected}): {self} ({})", summary(body))
            }
            _ => format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {self}"),
        }
    }
}

/// The beginning of a body, in hexadecimal if it is no JSON object.
pub(crate) fn summary(body: &[u8]) -> String {
    const LENGTH_MAX: usize = 30;
    let start = &body[..body.len().min(LENGTH_MAX)];
    let more = if body.len() > LENGTH_MAX { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// A body that is JSON.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody<'a> {
    json: Json<'a>,
    /// As given in the body; empty if it is absent.
    pub(crate) api_version: String,
    /// As given in the body; empty if it is absent.
    pub(crate) kind: String,
}

impl<'a> RequestBody<'a> {
    /// Parses JSON, and its `apiVersion` and `kind`.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let json = Json::parse(bytes).map_err(DecodeError::Unreadable)?;
        let mut body = Self { json: Json::Null, api_version: String::new(), kind: String::new() };
        match &json {
            Json::Object(fields) => {
                for (name, value) in fields {
                    // Go matches these two case-insensitively, and all other fields exactly.
                    let (name, of_body) = match name.as_ref() {
                        name if name.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut body.api_version),
                        name if name.eq_ignore_ascii_case("kind") => ("kind", &mut body.kind),
                        _ => continue,
                    };
                    match value {
                        Json::String(text) => text.as_ref().clone_into(of_body),
                        Json::Null => {}
                        other => {
                            let found = other.describe();
                            let error =
                                format!("json: cannot unmarshal {found} into Go struct field .{name} of type string");
                            return Err(DecodeError::Unreadable(error));
                        }
                    }
                }
            }
            // For Go, this is an object without fields.
            Json::Null => {}
            other => {
                let fields =
                    r#"APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"""#;
                let found = other.describe();
                let error = format!("json: cannot unmarshal {found} into Go value of type struct {{ {fields} }}");
                return Err(DecodeError::Unreadable(error));
            }
        }
        body.json = json;
        Ok(body)
    }

    /// Decodes it as a struct of a built-in kind.
    pub(crate) fn decode(self, fields: StructId, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        decode(self.json, fields, validation)
    }

    /// Converts it without a type, as for custom resources. Only duplicate fields are reported, and
    /// the last one is kept.
    pub(crate) fn into_value(self, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        let mut decoder = Decoder::new(&builtin().types, validation);
        let value = decoder.untyped(self.json).map_err(DecodeError::Type)?;
        decoder.finish(value, validation)
    }
}

/// Parses any JSON as Go does: of duplicate fields, the last one counts. The error is Go's.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Decoded, String> {
    let validation = FieldValidation::Warn;
    let mut decoder = Decoder::new(&builtin().types, validation);
    let value = decoder.untyped(Json::parse(bytes)?)?;
    decoder.finish(value, validation).map_err(|error| error.to_string())
}

/// Adds errors that were found before the decoding, ahead of those of the decoding.
pub(crate) fn with_earlier(
    decoded: Result<Decoded, DecodeError>,
    mut found: Vec<String>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    if found.is_empty() || validation == FieldValidation::Ignore {
        return decoded;
    }
    match decoded {
        Ok(_) if validation == FieldValidation::Strict => Err(DecodeError::Strict(found)),
        Ok(Decoded { value, warnings }) => {
            found.extend(warnings);
            Ok(Decoded { value, warnings: found })
        }
        Err(DecodeError::Strict(others)) => {
            found.extend(others);
            Err(DecodeError::Strict(found))
        }
        error => error,
    }
}

/// Decodes a value as a struct of a built-in kind.
pub(crate) fn decode_value(
    value: Value,
    fields: StructId,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode(Json::from(value), fields, validation)
}

/// Decodes a value as the metadata of any object.
pub(crate) fn decode_metadata(value: Value, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let fields = builtin().types.find("meta.v1.ObjectMeta");
    decode_value(value, fields.ok_or_else(|| DecodeError::Type("metadata have no type".to_owned()))?, validation)
}

fn decode(json: Json<'_>, fields: StructId, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let ty = Type::Struct(fields);
    let mut decoder = Decoder::new(&builtin().types, validation);
    let value = decoder.value(&ty, json, None).map_err(DecodeError::Type)?;
    decoder.finish(value, validation)
}

#[cfg(test)]
mod tests;
