//! Kubernetes on the wire, without any I/O.
//!
//! Objects arrive in lists and watch streams. [`Encoding`] names how a body is encoded. Its splitters
//! take a body chunk by chunk and return the bytes of one object after the other, most of them without
//! a copy. [`Json`] reads from those bytes what a cache needs, without decoding the object: its
//! [`Metadata`], and single fields by their [`FieldPath`]. On the way, [`Strip`] leaves out fields that
//! no controller reads, and [`Json::scan_remainder`] leaves out what the metadata already holds.
//!
//! Built-in kinds also travel as [`protobuf`]. An [`Item`] that arrived as protobuf becomes JSON when it
//! is read.
//!
//! ```
//! use steersman_wire::{Encoding, Json, Limits, Strip};
//!
//! let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"web-0","managedFields":[]},"spec":{"nodeName":"n1"}}]}"#;
//! let mut list = Encoding::Json.split_list(Limits::default());
//! for chunk in body.as_bytes().chunks(16) {
//!     list.push(chunk.to_vec().into());
//!     while let Some(item) = list.next_item()? {
//!         let pod = Json.scan_item(&item?, &Strip::default(), list.list().item_type().as_ref())?;
//!         assert_eq!((pod.metadata.kind(), pod.metadata.name()), ("Pod", "web-0"));
//!         assert_eq!(
//!             pod.object,
//!             r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0"},"spec":{"nodeName":"n1"}}"#
//!         );
//!         let node = Json.read(&pod.object, &"spec.nodeName".parse()?)?;
//!         assert_eq!(node.as_ref().and_then(|node| node.as_str()), Some("n1"));
//!     }
//! }
//! assert_eq!(list.finish()?.resource_version, "7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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

mod apimachinery;
mod codec;

pub use apimachinery::field_path::{FieldPath, InvalidFieldPath};
pub use apimachinery::names::{
    NameFormat, is_dns1035_label, is_dns1123_label, is_dns1123_subdomain, is_path_segment_name, is_path_segment_prefix,
    is_qualified_name, is_valid_label_value,
};
pub use apimachinery::quantity::{canonical_quantity, compare_quantity};
pub use apimachinery::quote::quote;
pub use apimachinery::resource_version::{InvalidResourceVersion, ResourceVersion, compare_resource_version};
pub use apimachinery::selector::{
    FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Operator, SelectorError,
};
pub use apimachinery::time;
pub use codec::encoding::Encoding;
pub use codec::json::Json;
pub use codec::metadata::{Metadata, OwnerReference};
pub use codec::object_error::{Fault, ObjectError};
pub use codec::shared_texts::SharedTexts;
pub use codec::splitter::{ListSplitter, WatchSplitter};
pub use codec::status::Status;
pub use codec::strip::Strip;
pub use codec::{Item, Limits, ListMeta, Scanned, TypeMeta, Value, WatchEvent, WireError, base64, protobuf};
