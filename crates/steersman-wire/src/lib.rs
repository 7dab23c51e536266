//! Kubernetes on the wire, without any I/O.
//!
//! Objects arrive in lists and watch streams. [`Encoding`] names how a body is encoded. Its
//! splitters take a body chunk by chunk and return the bytes of one object after the other, most of
//! them without a copy. [`Json`] reads from those bytes what a cache needs, without decoding the
//! object: its [`Metadata`], and single fields by their [`FieldPath`]. On the way, [`Strip`] leaves
//! out fields that no controller reads, and [`Json::scan_remainder`] leaves out what the metadata
//! already holds.
//!
//! Built-in kinds also travel as [`protobuf`]. A [`RawItem`] that arrived as protobuf becomes JSON
//! when it is read.
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
//! A request selects objects with a [`LabelSelector`] on their labels and a [`FieldSelector`] on
//! their fields. Both are parsed from the text of a query parameter. They match an object through a
//! closure that looks up one label or field, so they work with any representation of the object.
//!
//! ```
//! use steersman_wire::{FieldSelector, LabelSelector};
//!
//! let selector = LabelSelector::parse("tier in (web, cache), !canary")?;
//! assert!(selector.matches(|label| (label == "tier").then_some("web")));
//! assert_eq!(selector.to_string(), "!canary,tier in (cache,web)");
//!
//! let selector = FieldSelector::parse("metadata.name=web,spec.nodeName!=")?;
//! let fields = [("metadata.name", "web"), ("spec.nodeName", "n1")];
//! assert!(selector.matches(|name| fields.iter().find(|field| field.0 == name).map(|field| field.1)));
//!
//! let error = LabelSelector::parse("tier ~ web").unwrap_err();
//! assert_eq!(error.to_string(), "unable to parse requirement: found '~', expected: in, notin, =, ==, !=, gt, lt");
//! # Ok::<(), steersman_wire::SelectorError>(())
//! ```
//!
//! [`NameFormat`] has the rules for the names of the objects of a kind. The `is_…` functions check
//! one rule each, for names, label keys and label values. They return the faults, or nothing if the
//! text is valid.
//!
//! ```
//! use steersman_wire::{NameFormat, is_dns1123_label};
//!
//! assert_eq!(is_dns1123_label("web.example"), ["must not contain dots"]);
//! assert!(NameFormat::DnsSubdomain.validate_prefix("web-").is_empty());
//! ```
//!
//! [`ResourceVersion`] compares resource versions, which are decimal numbers of any length.
//!
//! These parts accept the same texts as apimachinery v0.36, with the same meaning and the same
//! error texts, because people and programs know them and API servers use them.
//! `tests/apimachinery.rs` compares this crate with a table that apimachinery wrote.

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
    FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, SelectorError, SelectorOperator,
};
pub use apimachinery::time;
pub use codec::encoding::Encoding;
pub use codec::json::Json;
pub use codec::metadata::{Metadata, OwnerReference};
pub use codec::object_error::{ObjectError, ObjectFault};
pub use codec::shared_texts::SharedTexts;
pub use codec::splitter::{ListSplitter, WatchSplitter};
pub use codec::status::ErrorStatus;
pub use codec::strip::Strip;
pub use codec::{Limits, ListMeta, RawItem, Scanned, TypeMeta, Value, WatchEvent, WireError, base64, protobuf};
