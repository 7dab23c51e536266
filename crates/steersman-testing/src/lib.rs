//! A real kube-apiserver and etcd for tests.
//!
//! [`RealServer::start`] brings up both on free loopback ports, with certificates of their own and RBAC on, and takes them
//! down again with the value: also when the test panics, and also when its process is killed. It needs the two programs on
//! the machine; [`Program`] says which and where they are looked for. What goes wrong comes back as an [`Error`] that holds
//! the end of the server's log; when a test panics, the logs of the servers that run then are printed with it.
//!
//! ```no_run
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_client::Api;
//! use steersman_testing::RealServer;
//!
//! let server = RealServer::start().await?;
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await?);
//! assert_eq!(maps.list(&Default::default()).await?.items.len(), 0);
//!
//! // What somebody with fewer rights would get:
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.user("jane", ["developers"]).await?);
//! assert!(maps.list(&Default::default()).await.is_err());
//! # Ok(()) }
//! ```
//!
//! A start takes some seconds, so the tests of one binary share a server with [`RealServer::shared`] and stay apart by
//! namespace ([`RealServer::namespace`]). Each test asks for its own client, because a `kube_client::Client` dies with the
//! runtime it was made in, and every `#[tokio::test]` has its own.

mod assets;
mod certificates;
mod embedded;
mod error;
mod kubeconfig;
mod panic_log;
mod port;
mod private;
mod process;
mod real_server;

pub use assets::{ETCD_VERSION, KUBERNETES_VERSION, Missing, Program, cache_dir};
pub use embedded::Embedded;
pub use error::Error;
pub use real_server::{RealServer, RealServerBuilder};
