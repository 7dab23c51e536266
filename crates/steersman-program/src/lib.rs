//! The program around an operator.
//!
//! A [`Program`] has a setup function, which declares the controllers, and what belongs to the
//! operator: its CRDs and samples. The library of an operator has it in one function, here
//! `program`, and the program itself is one line:
//!
//! ```
//! use std::process::ExitCode;
//!
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use steersman::k8s_openapi::api::core::v1::ConfigMap;
//! use steersman::manifests::crd::crd;
//! use steersman::owner::set_controller_reference;
//! use steersman::runtime::Verb;
//! use steersman::{Action, Context, CustomResource, Error, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
//! use steersman_program::Program;
//!
//! /// A guestbook.
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced)]
//! pub struct GuestbookSpec {
//!     pub title: String,
//! }
//!
//! async fn reconcile(ctx: Context<Guestbook>, key: ObjectKey) -> Result<Action, ReconcileError> {
//!     let Some(guestbook) = ctx.get(&key).await? else { return Ok(Action::done()) };
//!     let map = ConfigMap { metadata: key.to_meta(), ..ConfigMap::default() };
//!     ctx.client().create_or_update(map, |map| set_controller_reference(&*guestbook, map)).await?;
//!     Ok(Action::done())
//! }
//!
//! fn setup(manager: &Manager) -> Result<(), Error> {
//!     manager
//!         .controller(kind::<Guestbook>())
//!         .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update]))
//!         .complete(reconcile_fn(reconcile))?;
//!     Ok(())
//! }
//!
//! pub fn program() -> Program {
//!     Program::new("guestbook", "0.1.0", setup) // env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")
//!         .crd(crd::<Guestbook>)
//!         .samples("{apiVersion: example.com/v1, kind: Guestbook, metadata: {name: demo}, spec: {title: Hello}}")
//!         .operator(|operator| operator.replicas = 3)
//! }
//!
//! fn main() -> ExitCode {
//! #   if std::env::args().len() == 1 {
//! #       let model = program().model().unwrap();
//! #       assert!(model.access.iter().any(|access| access.resource.name == "configmaps"));
//! #       return ExitCode::SUCCESS;
//! #   }
//!     program().main()
//! }
//! ```
//!
//! | command | does |
//! |---|---|
//! | `guestbook` | runs the operator until a signal stops it, with the flags of kubebuilder's projects ([`RunFlags`]) |
//! | `guestbook manifests --out DIR` | writes what the operator needs in a cluster: CRDs, roles, a Deployment; `--format` is `plain`, `kustomize` or `helm` |
//! | `guestbook manifests --out DIR --check` | exits with 1 if a file in `DIR` is out of date, and lists such files |
//! | `guestbook crd` | prints the CRDs as YAML |
//! | `guestbook crd diff OLD` | lists the changes since the CRDs in the file `OLD`, and exits with 1 if one is breaking |
//!
//! # Manifests
//!
//! The manager is the source of the manifests: it has the kinds that controllers watch, and the
//! writes that they declare. `manifests` runs the setup function on a manager whose client sends
//! nothing, with the [arguments](Program::args) that the Deployment has. So the ports, the Lease
//! and the namespaces are those of the running operator. Arguments after `--` replace them:
//! `guestbook manifests --out deploy -- --metrics-bind-address=:9443`.
//!
//! With namespaces to watch (`--watch-namespace`, or the variable `WATCH_NAMESPACE`), there are
//! Roles in them instead of a ClusterRole.
//!
//! In a debug build, and so in tests, a write that is not declared fails before it is sent.
//!
//! # Development
//!
//! With the feature `dev`, `Program::develop` runs the operator on an API server in the same
//! process, with the samples. It belongs into a binary of its own, so that the program which is
//! shipped has no API server.
//!
//! # Programs with more
//!
//! [`Program::with_flags`] adds flags. A program that does something else with some arguments, or
//! builds the client or the log itself, has a longer `main`: it calls [`Program::parse`], and then
//! [`Program::run`] or [`Program::execute`].

mod addresses;
mod definitions;
#[cfg(feature = "dev")]
mod dev;
mod error;
mod flags;
mod invocation;
mod manifests;
mod offline;
mod program;
mod report;
mod samples;

#[cfg(feature = "dev")]
pub use dev::{EmbeddedCluster, Screen, Tone};
pub use error::Error;
pub use flags::{ClusterFlags, Environment, LogFlags, LogFormat, NoFlags, RunFlags, ServingFlags, WatchFlags};
pub use invocation::{Invocation, Subcommand};
pub use program::Program;
