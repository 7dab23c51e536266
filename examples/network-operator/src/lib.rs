//! An operator: it keeps the networks of OpenStack Neutron as objects in Kubernetes say.
//!
//! A [`Network`] says what somebody wants. The operator looks at each one, compares what should be
//! with what is, and does what is missing, for as long as both exist:
//!
//! ```text
//!  API server ──watch──▶ cache ──▶ Reconciler ──▶ Desired ──compare──▶ Provider ──▶ Neutron
//!      ▲                               │                                              │
//!      └──── status, finalizer ────────┘ ◀────────────── ids, or its own words ───────┘
//! ```
//!
//! - [`Network`] (`network.rs`) is the custom resource; its definition is in `deploy/crd.yaml`.
//! - [`Desired`] (`desired.rs`) is what a Network wants of Neutron, and how what is there has to
//!   change.
//! - `provider.rs` is all that is done in Neutron; `reconciler.rs` is the loop around it, and says
//!   step by step what it does.
//! - `deployments.rs` makes a Network for each Deployment that wants one, with addresses from a
//!   [`Pool`].
//! - `sweep.rs` removes from Neutron what nobody wants any more.
//! - [`Operator`] (`operator.rs`) puts these together.
//!
//! # What Neutron does not do, and how the operator does without
//!
//! Neutron has no names that are unique, and nobody can choose an id. A process that is killed
//! between asking for a network and hearing its id would leave one behind at each start. So each
//! network carries a [`Handle`] in its description, made of the cluster's id and the object's uid,
//! from the request on that creates it, and before one is created those with the handle are listed.
//!
//! Two operators can still create at once: both list, both find none. Then each tries to write the
//! id of its own into the status of the Network, and the API server lets one of them: the write
//! names the version that was read. Who comes second looks again, finds two, keeps the one in the
//! status and deletes the other. Nothing is ever deleted as a duplicate that is not in excess of
//! what the status names.
//!
//! A finalizer holds the Network until Neutron has nothing of it. If somebody takes that away by
//! force, the sweep finds the network by its handle. It asks Neutron first and the API server last:
//! what it then does not find was not there when its network was.
//!
//! # When something is wrong
//!
//! The condition `Ready` has the words of who refused. What another spec would cure is not tried
//! again before there is another spec; all else is tried again, at first at once and then ever more
//! rarely, up to every half a minute.
//!
//! | reason | what it means | tried again |
//! |---|---|---|
//! | `InvalidSpec`, `Refused` | the spec makes no sense, to us or to Neutron | when it changes |
//! | `InUse` | ports hold the network or the old subnet | with back-off |
//! | `OverQuota` | the project has as many as it may | with back-off |
//! | `Unauthorized` | Keystone or Neutron does not let us | with back-off |
//! | `NeutronUnavailable` | no answer, or one of failure | with back-off |
//! | `Conflict`, `Misconfigured` | whatever else Neutron has to say, or what is missing to reach it | with back-off |
//!
//! # Use
//!
//! The program is `cargo run` at the root of the repository; `README.md` beside this crate says how
//! to deploy it. As a library:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use network_operator::{Operator, Options, Pool, cluster_id};
//! use neutron::Neutron;
//! use steersman::Client;
//!
//! let client = Client::from_environment().await?;
//! let options = Options {
//!     cluster_id: cluster_id(&client).await?,
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

mod deployments;
mod desired;
mod error;
mod event;
mod handle;
#[expect(unreachable_pub, reason = "the derive of the schema makes structs of its own")]
mod network;
mod operator;
mod pool;
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
pub use operator::{Operator, Options, Summary, cluster_id};
pub use pool::Pool;
pub use reconciler::FINALIZER;
