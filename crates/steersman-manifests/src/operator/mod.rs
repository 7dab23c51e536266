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
//! # What is written
//!
//! | object | when |
//! |---|---|
//! | CRDs, ServiceAccount, Deployment | always |
//! | Namespace, which admits restricted Pods only | always, but not in a chart: a release has a namespace |
//! | ClusterRole | [`access`](Operator::access) in all namespaces, or to cluster-scoped objects |
//! | Role in each namespace | [`access`](Operator::access), if [`scope`](Operator::scope) names namespaces |
//! | Role in the operator's namespace | a lease, or [`own_access`](Operator::own_access) |
//! | ClusterRoles for users, three for each CRD | always: to administrate, edit and view its objects |
//! | Service, ClusterRole for scrapers | metrics |
//! | ServiceMonitor, ConfigMap with the dashboard | on request |
//! | NetworkPolicy | unless it is switched off |
//! | PodDisruptionBudget | more than one replica |
//!
//! Beside them are the [`samples`](Operator::samples), and `grafana/<name>.json` with a dashboard
//! of the metrics for Grafana.
//!
//! Every generated file has a mark. Files without it are the user's: they are not overwritten and
//! not deleted.

mod access;
mod dashboard;
mod files;
mod helm;
mod kustomize;
mod model;
mod objects;
mod plain;
mod roles;
mod workload;
mod yaml;

pub use access::{Access, AccessReason, RuleResource, Verb};
pub use files::{FileChange, Files, FilesError};
pub use helm::helm;
pub use kustomize::kustomize;
pub use model::{MetricsEndpoint, Operator, WatchScope};
pub use plain::plain;
pub use roles::roles;
