//! Kubernetes on the wire, without any I/O.
//!
//! A request for objects says which ones: a [`LabelSelector`] on their labels, a [`FieldSelector`] on their fields. Both are
//! parsed from the text of a query parameter, and asked about an object through a closure that looks up one label or field,
//! so that it does not matter how the object is kept.
//!
//! ```
//! use steersman_wire::{FieldSelector, LabelSelector};
//!
//! let selector = LabelSelector::parse("tier in (web, cache), !canary")?;
//! assert!(selector.matches(|label| (label == "tier").then_some("web")));
//! assert_eq!(selector.to_string(), "!canary,tier in (cache,web)");
//!
//! let selector = FieldSelector::parse("metadata.name=web,spec.nodeName!=")?;
//! assert_eq!(selector.requires_exact_match("metadata.name"), Some("web"));
//!
//! let error = LabelSelector::parse("tier ~ web").unwrap_err();
//! assert_eq!(error.to_string(), "unable to parse requirement: found '~', expected: in, notin, =, ==, !=, gt, lt");
//! # Ok::<(), steersman_wire::SelectorError>(())
//! ```
//!
//! Objects have names, and labels have keys and values, with rules: [`NameFormat`] holds those that a kind's objects follow,
//! and the `is_…` functions check one rule each. They return what is wrong, nothing if all is well.
//!
//! ```
//! use steersman_wire::{NameFormat, is_dns1123_label};
//!
//! assert_eq!(is_dns1123_label("web.example"), ["must not contain dots"]);
//! assert!(NameFormat::DnsSubdomain.validate_prefix("web-").is_empty());
//! ```
//!
//! Objects have resource versions, which are decimal numbers of any length and can be put in order: [`ResourceVersion`].
//!
//! What is accepted, what it means and every error text are those of apimachinery v0.36, because people and programs know
//! them and the servers they talk to use them. `tests/apimachinery.rs` holds this crate to a table of its answers.

pub mod base64;
mod field_selector;
mod json_selector;
mod label_parser;
mod label_selector;
mod names;
mod quote;
mod resource_version;
mod selector;

pub use field_selector::{FieldRequirement, FieldSelector};
pub use label_selector::{LabelRequirement, LabelSelector};
pub use names::{
    NameFormat, is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_path_segment_name, is_path_segment_prefix,
    is_qualified_name, is_valid_label_value,
};
pub use quote::quote;
pub use resource_version::{InvalidResourceVersion, ResourceVersion, compare_resource_version};
pub use selector::{Operator, SelectorError};
