//! Reading the objects of built-in kinds: what a body says becomes what the real server would store of it.
//!
//! The real server reads a body into a Go struct, keeps that in protobuf, and writes the struct out again. Clients see the
//! traces, and controllers come to depend on them: unknown fields are gone, `hostNetwork: false` is gone while
//! `automountServiceAccountToken: false` stays, an absent `spec` comes back as `{}`, an empty list without `omitempty` as
//! null, `1000m` as `1`. Here the same is done to [`Value`]s, driven by the [`Types`] of the table of kinds.
//!
//! A body comes in as bytes: [`RequestBody::parse`] finds what is not JSON, and [`RequestBody::decode`] what is not of the
//! type. Both say it in the real server's words. Values that were read before, such as the result of a patch, go through
//! [`decode_value`].

mod decode;
mod json;
/// The table says more than reading a body needs: list keys and patch strategies are for apply and strategic merge patches,
/// which come next.
#[allow(dead_code)]
mod types;

use serde_json::Value;

#[cfg_attr(not(test), allow(unused_imports))]
pub(crate) use self::types::Type;
#[cfg(test)]
pub(crate) use self::types::{ListType, Patch};
pub(crate) use self::types::{StructId, Types};

use self::decode::Decoder;
pub(crate) use self::json::DEPTH_MAX;
use self::json::Json;
use crate::kinds::builtin;

/// What becomes of fields that are unknown or come twice (the query parameter `fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Nothing is said.
    Ignore,
    /// The answer has a warning for each.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

impl FieldValidation {
    /// Reads the query parameter; empty means the default.
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

/// A value that has the type asked for, and what the client is to be warned of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// The texts of `Warning` headers: `unknown field "spec.foo"`.
    pub(crate) warnings: Vec<String>,
}

/// Why a body was refused: a bad request, always.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// It is not JSON, or not an object with an apiVersion and a kind that are strings.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Unreadable(String),
    /// A field has a value of another type.
    #[error("{0}")]
    Type(String),
    /// There are fields that are unknown or come twice, and the client asked for strictness.
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

impl DecodeError {
    /// The message of the Status: `expected` is the kind that the path asks for, and `kind` and `version` those of the
    /// body, or of the path where the body has none.
    pub(crate) fn message(&self, expected: &str, kind: &str, version: &str, body: &[u8]) -> String {
        match self {
            Self::Unreadable(_) => {
                format!("the object provided is unrecognized (must be of type {expected}): {self} ({})", summary(body))
            }
            _ => format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {self}"),
        }
    }
}

/// The beginning of a body, in hexadecimal when it cannot be JSON of an object.
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
    /// What it says of itself; empty where it says nothing.
    pub(crate) api_version: String,
    /// What it says of itself; empty where it says nothing.
    pub(crate) kind: String,
}

impl<'a> RequestBody<'a> {
    /// Reads JSON, and what it says of its type.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let json = Json::parse(bytes).map_err(DecodeError::Unreadable)?;
        let mut body = Self { json: Json::Null, api_version: String::new(), kind: String::new() };
        match &json {
            Json::Object(fields) => {
                for (name, value) in fields {
                    // Go finds these two in any case; all other fields only as they are spelled.
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
            // An object without fields, to Go.
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

    /// Reads it as a struct of a built-in kind.
    pub(crate) fn decode(self, fields: StructId, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        decode(self.json, fields, validation)
    }

    /// Takes it as it is, as for custom resources: only fields that come twice are found, and the last one is kept.
    pub(crate) fn into_value(self, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        let mut decoder = Decoder::new(&builtin().types, validation);
        let value = decoder.untyped(self.json).map_err(DecodeError::Type)?;
        decoder.finish(value, validation)
    }
}

/// Reads any JSON, as Go would: of fields that come twice the last one counts. The error is Go's.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Decoded, String> {
    let validation = FieldValidation::Warn;
    let mut decoder = Decoder::new(&builtin().types, validation);
    let value = decoder.untyped(Json::parse(bytes)?)?;
    decoder.finish(value, validation).map_err(|error| error.to_string())
}

/// Says what was found before the object was read, before what was found in it.
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

/// Reads a value as a struct of a built-in kind.
pub(crate) fn decode_value(
    value: Value,
    fields: StructId,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode(Json::from(value), fields, validation)
}

/// Reads a value as the metadata of any object.
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
