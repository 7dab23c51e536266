//! Decodes and encodes objects with the user's types, whose code may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_wire::{Json, Metadata, ObjectFault};

use crate::{DecodeError, ObjectKey};

/// An error at a place in the JSON of the object with this metadata.
pub(super) fn decode_error(meta: &Metadata, wanted: &'static str, line: usize, column: usize) -> DecodeError {
    DecodeError {
        kind: meta.kind().to_owned(),
        key: ObjectKey::from(meta),
        resource_version: meta.resource_version().to_owned(),
        wanted,
        line,
        column,
        panicked: false,
    }
}

/// Decodes the object with this metadata. A panic in the type's own code is an error of the object.
pub(crate) fn decode<T: DeserializeOwned>(meta: &Metadata, json: &[u8]) -> Result<T, DecodeError> {
    let (fault, panicked) = match catch_unwind(AssertUnwindSafe(|| Json.decode(json))) {
        Ok(Ok(object)) => return Ok(object),
        Ok(Err(error)) => (Some(error.fault), false),
        Err(_) => (None, true),
    };
    let (line, column) = match fault {
        Some(ObjectFault::Decode { line, column, .. }) => (line, column),
        _ => (0, 0),
    };
    Err(DecodeError { panicked, ..decode_error(meta, std::any::type_name::<T>(), line, column) })
}

/// Encodes the object with this metadata. A panic in the type's own code is an error of the object.
pub(crate) fn encode<T: Serialize>(meta: &Metadata, object: &T) -> Result<Vec<u8>, DecodeError> {
    let (line, column, panicked) = match catch_unwind(AssertUnwindSafe(|| serde_json::to_vec(object))) {
        Ok(Ok(json)) => return Ok(json),
        Ok(Err(error)) => (error.line(), error.column(), false),
        Err(_) => (0, 0, true),
    };
    Err(DecodeError { panicked, ..decode_error(meta, std::any::type_name::<T>(), line, column) })
}
