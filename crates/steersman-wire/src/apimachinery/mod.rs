//! What Go's `k8s.io/apimachinery` does with short texts: selectors, names, quantities, resource
//! versions, paths of fields and dates. Nothing here depends on how an object is encoded.
//!
//! What is accepted, what it means and every error text are those of apimachinery v0.36, because
//! people and programs know them and the servers they talk to use them. `tests/apimachinery.rs`
//! compares this module with a table that Go wrote.

pub(crate) mod field_path;
pub(crate) mod names;
pub(crate) mod quantity;
pub(crate) mod quote;
pub(crate) mod resource_version;
pub(crate) mod selector;
pub mod time;
