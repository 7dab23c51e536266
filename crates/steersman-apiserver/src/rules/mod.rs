//! What is served, and what an object of each kind may be.
//!
//! `kinds` is the table of built-in kinds and `custom` holds the kinds of
//! CustomResourceDefinitions. `schema` reads bodies as Go's types would. `builtin` and `crd` fill
//! in defaults and validate; `metadata` does so for the part that all kinds share. `convert` stands
//! between a stored kind and its other versions.

pub(crate) mod builtin;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod custom;
pub(crate) mod kinds;
pub(crate) mod metadata;
mod resource;
pub(crate) mod schema;
