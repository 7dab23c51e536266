//! A framework for writing Kubernetes controllers.
//!
//! A controller brings the world to the state that objects describe. You write one function,
//! `reconcile`. It receives the key of an object, compares the desired state with the actual one,
//! and makes the missing changes. The framework is everything around it, in the order in which a
//! change passes through:
//!
//! ```text
//!  API server ──LIST/WATCH──▶ Reflector ──deltas──▶ DeltaFifo ──▶ Informer ──▶ Indexer (local cache, indexes)
//!      ▲                                                             │
//!      │                                                             └──▶ event handlers ──keys──▶ WorkQueue
//!      │                                                                                              │
//!      └──── writes (create, update, patch, apply, delete) ──── Reconciler ◀── Worker ◀───────────────┘
//!                                                                   └── reads from the Indexer, never from the server
//! ```
//!
//! A [`Manager`] has one [`Client`], one cache for each kind, and any number of controllers. This
//! controller creates a ConfigMap for each Network and sets the status of the Network:
//!
//! ```
//! # mod program {
//! use std::time::Duration;
//!
//! use serde::{Deserialize, Serialize};
//! use steersman::k8s_openapi::api::core::v1::ConfigMap;
//! use steersman::manifests::crd::crd;
//! use steersman::owner::set_controller_reference;
//! use steersman::predicate::GenerationChanged;
//! use steersman::{Action, Client, Context, Manager, ObjectKey, Patch, ReconcileError, Reconciler};
//! use steersman::{CustomResource, kind, shutdown_signal};
//!
//! /// The desired network.
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Network", namespaced, status = "NetworkStatus")]
//! #[kube(doc = "A network with a ConfigMap of its settings.")]
//! #[kube(printcolumn = r#"{"name": "CIDR", "type": "string", "jsonPath": ".spec.cidr"}"#)]
//! #[kube(printcolumn = r#"{"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"}"#)]
//! #[kube(printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
//! pub struct NetworkSpec {
//!     /// The addresses of the network, such as 10.0.0.0/24.
//!     pub cidr: String,
//! }
//!
//! /// What the controller has done.
//! #[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
//! pub struct NetworkStatus {
//!     /// Whether the ConfigMap exists.
//!     pub ready: bool,
//! }
//!
//! struct NetworkReconciler;
//!
//! impl Reconciler<Network> for NetworkReconciler {
//!     type Error = ReconcileError;
//!
//!     async fn reconcile(&self, ctx: &Context<Network>, key: &ObjectKey) -> Result<Action, ReconcileError> {
//!         let Some(network) = ctx.get(key).await? else { return Ok(Action::done()) };
//!         let map = ConfigMap { metadata: key.to_meta(), ..ConfigMap::default() };
//!         ctx.client()
//!             .create_or_update(map, |map| {
//!                 map.data = Some([("cidr".to_owned(), network.spec.cidr.clone())].into());
//!                 // Fails if the ConfigMap has another controller.
//!                 set_controller_reference(&*network, map)
//!             })
//!             .await?;
//!         let ready = Patch::Merge(serde_json::json!({"status": {"ready": true}}));
//!         ctx.client().objects::<Network>().patch_status(key, &ready).await?;
//!         Ok(Action::requeue_after(Duration::from_secs(300)))
//!     }
//! }
//!
//! /// Apart from `main`, because the test calls it too.
//! fn add_controllers(manager: &Manager) -> Result<(), steersman::Error> {
//!     manager
//!         .controller(kind::<Network>().predicate(GenerationChanged))
//!         .owns(kind::<ConfigMap>())
//!         .max_concurrent(4)
//!         .complete(NetworkReconciler)?;
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     if std::env::args().nth(1).as_deref() == Some("crd") {
//!         println!("{}", serde_json::to_string_pretty(&crd::<Network>()?)?);
//!         return Ok(());
//!     }
//!     // Logs at level INFO. RUST_LOG=steersman=debug shows more.
//!     tracing_subscriber::fmt::init();
//!     let manager = Manager::new(Client::from_environment().await?);
//!     add_controllers(&manager)?;
//!     Ok(manager.start(shutdown_signal()).await?)
//! }
//! # pub(super) mod tests {
//! #     use steersman::client::PostParams;
//! #     use steersman_testing::{Embedded, eventually};
//! #
//! #     use super::*;
//! #
//! #     pub(crate) async fn a_network_gets_a_config_map() -> Result<(), Box<dyn std::error::Error>> {
//! #         let server = Embedded::start();
//! #         server.install_crds([crd::<Network>()?]).await?;
//! #         let client = server.client();
//! #         let network = Network::new("demo", NetworkSpec { cidr: "10.0.0.0/24".to_owned() });
//! #         client.namespaced::<Network>("default").create(&PostParams::default(), &network).await?;
//! #
//! #         let manager = Manager::new(client.clone());
//! #         add_controllers(&manager)?;
//! #         // The manager runs until this future ends.
//! #         let test = async {
//! #             let maps = client.namespaced::<ConfigMap>("default");
//! #             let map = eventually("the ConfigMap exists", || async { maps.get_opt("demo").await.unwrap() }).await;
//! #             assert_eq!(map.data.unwrap()["cidr"], "10.0.0.0/24");
//! #         };
//! #         manager.start(test).await?;
//! #         Ok(())
//! #     }
//! # }
//! # }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     program::tests::a_network_gets_a_config_map().await
//! # }
//! ```
//!
//! The root has the names that most controllers need. The others are in modules:
//!
//! | module | contents |
//! |---|---|
//! | [`predicate`] | which changes cause a reconcile |
//! | [`owner`] | owner references |
//! | [`condition`] | conditions in the status |
//! | [`finalizer`] | cleanup before an object is deleted |
//! | [`layer`] | code around every reconcile |
//! | [`runtime`] | everything about managers and controllers; the five modules above are in it |
//! | [`client`] | the clients without a cache, and the parameters of requests |
//! | [`cache`] | informers, without a manager |
//! | [`workqueue`] | the queue, without Kubernetes |
//! | [`manifests`] | CRDs from Rust types, roles and the rest, as files |
//! | [`http`] | the server of metrics, probes and webhooks, with TLS |
//! | [`wire`] | lists, watches, metadata and selectors as bytes |
//!
//! Each of the last seven is a crate and begins with an essay of its own. To test a controller
//! without a cluster, use the crate `steersman-testing`: its embedded API server runs inside the
//! test. The example above is tested on it. The `README.md` of the repository has the `Cargo.toml`
//! and the test of the example, and `docs/testing.md` explains the rest.

pub use k8s_openapi;
pub use kube::{self, CustomResourceExt, Resource, ResourceExt};
pub use steersman_cache as cache;
pub use steersman_client::{self as client, Client, ObjectMeta, Patch};
pub use steersman_derive::{CustomResource, KubeSchema};
pub use steersman_http as http;
pub use steersman_manifests as manifests;
pub use steersman_runtime::{
    self as runtime, Action, Cached, CachedClient, Context, Error, Kind, ListQuery, Manager, ObjectKey, Objects,
    ReconcileError, Reconciler, Verb, condition, dynamic, finalizer, kind, layer, metadata, owner, predicate,
    reconcile_fn, shutdown_signal,
};
pub use steersman_wire as wire;
pub use steersman_workqueue as workqueue;

/// The code that derive macros generate uses it.
#[doc(hidden)]
pub mod __private {
    pub use serde_json;
    pub use steersman_derive::discard;
    pub use steersman_manifests::kube_core;
}

/// The controller in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The controllers of the pages for users of controller-runtime and kube-rs, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-controller-runtime.md")]
struct FromControllerRuntime;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-kube-rs.md")]
struct FromKubeRs;

/// The program of the page about production, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operations.md")]
struct Operations;

/// The operator of the page about permissions, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/permissions.md")]
struct Permissions;
