//! What an operator needs in a cluster, and its manifests.
//!
//! [`Operator`] is the model. [`plain`](plain()), [`kustomize`](kustomize()) and [`helm`](helm())
//! write it as [`Files`], which are written to a folder or compared with it:
//!
//! ```
//! use steersman_manifests::operator::{Access, Operator, RuleResource, Verb, plain};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut operator = Operator::new("network-operator", "network-operator:0.1.0");
//! let networks = RuleResource::namespaced("example.com", "networks");
//! operator.access = vec![Access::new(networks, Verb::READ, "the controller watches them")];
//! let files = plain(&operator)?;
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! files.write(folder)?;
//! assert!(files.check(folder)?.is_empty(), "the folder is up to date");
//! # Ok(()) }
//! ```
//!
//! Every file begins with a header. Files without it are the user's: they are not overwritten and
//! not deleted.

mod access;
mod files;
mod helm;
mod kustomize;
mod model;
mod objects;
mod plain;
mod roles;
mod workload;
mod yaml;

pub use access::{Access, RuleResource, Verb};
pub use files::{FileChange, Files, FilesError};
pub use helm::helm;
pub use kustomize::kustomize;
pub use model::{MetricsEndpoint, Operator, WatchScope};
pub use plain::plain;
