//! The served kinds, and the rules for their objects.
//!
//! `kinds` is the table of built-in kinds and `custom` has the kinds of CustomResourceDefinitions.
//! `schema` decodes bodies as Go's types would. `builtin` and `crd` set defaults and validate;
//! `metadata` does so for the part that all kinds share. `convert` converts between a stored kind
//! and its other versions. `strategic_merge` applies patches that know the lists of built-in kinds.
//! `managed_fields` records who wrote which fields, and merges what is applied. `go_text` prints
//! values in messages as Go does.

pub(crate) mod builtin;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod custom;
pub(crate) mod go_text;
pub(crate) mod kinds;
pub(crate) mod managed_fields;
pub(crate) mod metadata;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod strategic_merge;
