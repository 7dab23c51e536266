//! An operator that keeps the networks of OpenStack Neutron equal to objects in Kubernetes.
//!
//! A [`Network`] declares a desired network. The operator compares it with the actual state and
//! makes the missing changes, as long as both exist:
//!
//! ```text
//!  API server ──watch──▶ cache ──▶ Reconciler ──▶ Desired ──compare──▶ Provider ──▶ Neutron
//!      ▲                               │                                              │
//!      └──── status, finalizer ────────┘ ◀────────────── ids, or its own words ───────┘
//! ```
//!
//! - [`Network`] (`network.rs`) is the custom resource; its definition is in `deploy/install.yaml`.
//! - [`Desired`] (`desired.rs`) is the state that a Network wants in Neutron, and computes the
//!   changes to get there.
//! - `provider.rs` makes all changes in Neutron; `reconciler.rs` is the loop around it, and
//!   documents its steps.
//! - `deployments.rs` creates a Network for each Deployment that wants one, with addresses from a
//!   [`Pool`].
//! - `sweep.rs` removes networks from Neutron whose Network no longer exists.
//! - [`Operator`] (`operator.rs`) combines these, and declares what it does at the API server.
//! - [`program()`] (`program.rs`) is the program around it: flags, CRD, manifests.
//! - `otlp.rs`, with the feature `otlp`, sends the spans of the operator to a collector.
//!
//! # What Neutron lacks, and what the operator does instead
//!
//! Names in Neutron are not unique, and a client cannot choose an id. A process that is killed
//! between the request for a network and its response would leave a network behind at each start.
//! So each network has a [`Handle`] in its description, made of the cluster's id and the object's
//! uid. The request that creates it sets the handle. Before the operator creates a network, it
//! lists those with the handle.
//!
//! Two operators can still create at the same time: both list, and both find none. Each then tries
//! to write the id of its network into the status of the Network. The write names the version that
//! was read, so the API server accepts one of them. The other operator reads again, finds two
//! networks, keeps the one in the status and deletes its own. It deletes only networks that the
//! status does not name.
//!
//! A finalizer keeps the Network until Neutron has nothing of it. If the finalizer is removed by
//! force, the sweep finds the network by its handle. It reads Neutron first and the API server
//! last: an object that it does not find then did not exist when the network was listed.
//!
//! # Failures
//!
//! The condition `Ready` has the message of the system that refused. If only a change of the spec
//! can help, the operator does not retry before that. Everything else is retried with back-off, up
//! to half a minute.
//!
//! | reason | what it means | tried again |
//! |---|---|---|
//! | `InvalidSpec`, `Refused` | the spec is invalid, or Neutron refuses it | when it changes |
//! | `InUse` | ports use the network or the old subnet | with back-off |
//! | `OverQuota` | the quota of the project is exhausted | with back-off |
//! | `Unauthorized` | Keystone or Neutron denies access | with back-off |
//! | `NeutronUnavailable` | no response, or a server error | with back-off |
//! | `Conflict`, `Misconfigured` | any other error of Neutron, or of its configuration | with back-off |
//!
//! # Use
//!
//! The program is `cargo run` at the root of the repository; `README.md` beside this crate shows
//! how to deploy it. As a library:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use network_operator::{Operator, Options, Pool};
//! use neutron::Neutron;
//! use steersman::Client;
//!
//! let client = Client::from_environment().await?;
//! let options = Options {
//!     cluster_id: None,
//!     project_id: None,
//!     resync: Duration::from_secs(300),
//!     workers: 4,
//!     all_deployments: false,
//!     pool: Pool::new("10.100.0.0/16".parse()?, 24)?,
//! };
//! let operator = Operator::new(client, Neutron::from_env()?, options)?;
//! operator.run(steersman::shutdown_signal()).await?;
//! println!("{}", operator.summary());
//! # Ok(())
//! # }
//! ```

mod cluster;
mod deployments;
mod desired;
mod error;
mod handle;
#[expect(unreachable_pub, reason = "the derive of the schema makes structs of its own")]
mod network;
mod operator;
#[cfg(feature = "otlp")]
pub mod otlp;
mod pool;
mod program;
mod provider;
mod reconciler;
mod status;
mod sweep;
mod timings;

pub use deployments::{ALLOCATED_ANNOTATION, ALLOCATED_CONDITION, NETWORK_LABEL};
pub use desired::{Desired, Difference, InvalidSpec};
pub use error::Error;
pub use handle::{ClusterId, Handle};
pub use network::{Network, NetworkSpec, NetworkStatus, Phase};
pub use operator::{Operator, Options, Summary};
pub use pool::Pool;
pub use program::{Flags, program};
pub use reconciler::FINALIZER;
