//! CRDs from Rust types, and the changes between two CRDs.
//!
//! The names, columns and subresources come from kube's derive macro, and the schema from the
//! `JsonSchema` of the types. schemars describes what serde reads; a server takes structural
//! schemas only. The pass between them makes these changes:
//!
//! | Rust | schema |
//! |---|---|
//! | an enum with `#[serde(tag = "…")]` | one object with the fields of all variants, an `enum` for the tag, and `oneOf` for the fields that a variant needs |
//! | an enum with fields, without a tag | one object with a field for each variant, and `oneOf` |
//! | an enum with `#[serde(untagged)]` | one object with the fields of all variants, and `anyOf`; integer or string: `x-kubernetes-int-or-string` |
//! | an enum without fields | `enum`; the comments of the variants are in the description |
//! | an `Option` | an optional field, not nullable: a server removes `null`. Items of lists, values of maps and required fields are nullable, and fields with `extend("nullable" = true)` |
//! | `u8`, `i8`, `u16`, `i16`, `u32` | `int32` or `int64` with bounds |
//! | `u64`, `usize` | `int64`, at least 0 |
//! | `f32`, `f64` | an error, unless floats are allowed |
//! | `BTreeSet`, `HashSet` | `x-kubernetes-list-type: set` |
//! | a list of conditions | a list that is a map by `type` |
//! | `serde_json::Value` | any value: `x-kubernetes-preserve-unknown-fields` |
//! | `IpAddr` | a string with the format `ipv4` or `ipv6` |
//! | formats that a server does not know | no format |
//! | a recursive type | an error |
//! | `#[serde(default)]` | `default`, but not in a variant of an enum |
//! | `#[deprecated]` | a description that begins so |
//!
//! # Markers
//!
//! Markers are keywords in `#[schemars(extend("keyword" = value))]`, which schemars has for
//! everything that it does not know. Those of Kubernetes, such as `x-kubernetes-embedded-resource`
//! and `exclusiveMinimum`, work in the same way.
//!
//! | keyword | on | meaning |
//! |---|---|---|
//! | `x-steersman-immutable` | a field | `true`: the field cannot change, appear or disappear after the object is created; `"once-set"`: it may appear later |
//! | `x-steersman-at-most-one-of` | a struct | a list of field names in JSON, or a list of such lists: at most one of them is set |
//! | `x-steersman-exactly-one-of` | a struct | the same, and one is set |
//! | `x-steersman-at-least-one-of` | a struct | one or more of the fields are set |
//! | `x-steersman-allow-float` | a field | `true`: the field may be a float |
//! | `x-steersman-description-max` | a field | the largest number of bytes of its description and of each below it; 0 removes them |
//!
//! Immutable fields and the one-of markers become CEL rules. A server estimates what rules cost: in
//! a list or map, set a largest length (`#[schemars(length(max = 100))]`) beside them.

mod builder;
mod description;
mod diff;
mod error;
#[doc(hidden)]
pub mod kube_core;
mod schema;

pub use builder::{CrdBuilder, crd};
pub use diff::{CrdChange, Diff, Direction, diff};
pub use error::{Error, SchemaProblem};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A definition as it is written to a file: whole numbers without a fraction.
///
/// The types of k8s-openapi hold bounds as floats, so serde writes `10.0` for 10.
///
/// # Errors
///
/// The definition cannot be written as JSON.
pub fn manifest(definition: &CustomResourceDefinition) -> Result<Value, Error> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let mut manifest = serde_json::to_value(definition).map_err(|source| Error::Json { name, source })?;
    whole_numbers(&mut manifest);
    Ok(manifest)
}

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *number = schema::whole(number),
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
