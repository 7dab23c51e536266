//! API servers for the tests of Kubernetes controllers.
//!
//! [`Embedded`] is steersman's own API server, in the process of the test. It needs nothing, starts
//! in milliseconds, and works with tokio's paused time. Most tests use it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_testing::{Embedded, eventually};
//!
//! let server = Embedded::start();
//! let maps = server.client().namespaced::<ConfigMap>("default");
//! # let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}}))?;
//! # maps.create(&Default::default(), &map).await?;
//! // … start a controller that creates a ConfigMap, then:
//! let map = eventually("the ConfigMap exists", || async { maps.get_opt("settings").await.unwrap() }).await;
//! assert_eq!(map.metadata.name.unwrap(), "settings");
//! # Ok(()) }
//! ```
//!
//! - [`Embedded::install_crds`] and [`RealServer::install_crds`] return when the custom resources
//!   are served.
//! - [`eventually`] waits for a condition and panics with a text that names what did not happen.
//! - [`Embedded::with_rbac`] refuses what no role permits, and [`Embedded::requests`] shows which
//!   requests there were.
//! - [`Embedded::compact`] makes watches fail with 410 Gone, as etcd's compaction does.
//! - [`FaultyNetwork`] stands between a client and the server, and refuses, delays or cuts requests
//!   on command. [`FaultyProxy`] does the same to the connections of any server.
//! - [`Log`] collects what handlers and reconcilers see.
//! - With the feature `operator`, the module `rbac` proves that the derived roles of an operator
//!   are enough, and not more.
//!
//! `docs/testing.md` in the repository shows whole tests of a controller, when to pause the time,
//! and what the embedded server cannot do: admission, webhooks and CEL,
//! among others. `DIFFERENCES.md` of the crate `steersman-apiserver` is the exact list.
//!
//! # A real server
//!
//! [`RealServer`] is a kube-apiserver with its etcd. [`RealServer::start`] starts both on free
//! loopback ports, with certificates of their own and RBAC on. Both end with the value: also when
//! the test panics, and also when its process is killed. The programs have to be on the machine;
//! [`Program::find`] documents where they are looked for. An [`Error`] holds the end of the
//! server's log. When a test panics, the logs of all running servers are printed.
//!
//! ```no_run
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_testing::RealServer;
//!
//! let server = RealServer::start().await?;
//! let maps = server.client().await?.namespaced::<ConfigMap>("default");
//! assert_eq!(maps.list(&Default::default()).await?.items.len(), 0);
//!
//! // A user without rights:
//! let maps = server.user("jane", ["developers"]).await?.namespaced::<ConfigMap>("default");
//! assert!(maps.list(&Default::default()).await.is_err());
//! # Ok(()) }
//! ```
//!
//! A start takes some seconds, so the tests of one binary share a server with
//! [`RealServer::shared`] and use a namespace each ([`RealServer::namespace`]). Each test asks for
//! its own client, because a client ends with the tokio runtime in which it was created, and every
//! `#[tokio::test]` has its own.

mod assets;
mod audit;
mod certificates;
mod definitions;
mod embedded;
mod error;
mod eventually;
mod faulty_network;
mod faulty_proxy;
mod kubeconfig;
mod log;
mod panic_log;
mod port;
mod private;
mod process;
#[cfg(feature = "operator")]
pub mod rbac;
mod real_server;

pub use assets::{ETCD_VERSION, HELM_VERSION, KUBERNETES_VERSION, Missing, Program, cache_dir};
pub use audit::{AuditEvent, AuditObject, AuditStatus, AuditUser};
pub use embedded::{Embedded, EmbeddedBuilder};
pub use error::Error;
pub use eventually::{Awaited, eventually, eventually_within};
pub use faulty_network::{Fault, FaultyNetwork};
pub use faulty_proxy::FaultyProxy;
pub use log::Log;
pub use real_server::{RealServer, RealServerBuilder};
pub use steersman_world::World;
