//! What an operator needs in a cluster, as manifests.
//!
//! [`crd()`](crd::crd) makes the CRD of a custom resource from its Rust type, and
//! [`CrdBuilder`](crd::CrdBuilder) the CRD of a kind with several versions. A field that a server
//! would refuse is an error that names its Rust path:
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use steersman::CustomResource;
//! use steersman_manifests::crd::{crd, manifest};
//!
//! /// A network.
//! #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Network", namespaced)]
//! pub struct NetworkSpec {
//!     #[schemars(extend("x-steersman-immutable" = true))]
//!     pub cidr: String,
//!     pub addressing: Addressing,
//! }
//!
//! #[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
//! #[serde(tag = "type", rename_all = "camelCase")]
//! pub enum Addressing {
//!     Static { gateway: String },
//!     Dynamic,
//! }
//!
//! # fn main() -> Result<(), steersman_manifests::crd::Error> {
//! let definition = manifest(&crd::<Network>()?)?;
//! let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
//! assert_eq!(spec["properties"]["cidr"]["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
//! assert_eq!(spec["properties"]["addressing"]["properties"]["type"]["enum"][0], "static");
//! # Ok(()) }
//! ```
//!
//! [`crd`] lists how Rust types become schemas, and the markers. [`diff`](crd::diff()) lists the
//! changes between two CRDs, and which of them break objects or clients.
//!
//! [`operator::Operator`] is the model of everything else: roles, the Deployment, Services. Its
//! writers are in [`operator`].

pub mod crd;
pub mod operator;

#[doc(hidden)]
pub use crd::kube_core;
