//! The served kinds, and the rules for their objects.
//!
//! `kinds` is the table of built-in kinds and `custom` has the kinds of CustomResourceDefinitions.
//! `schema` decodes bodies as Go's types would. `builtin` and `crd` set defaults and validate;
//! `metadata` does so for the part that all kinds share. `convert` converts between a stored kind
//! and its other versions.

pub(crate) mod builtin;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod custom;
pub(crate) mod kinds;
pub(crate) mod metadata;
mod resource;
pub(crate) mod schema;
