//! A framework for writing Kubernetes controllers.
//!
//! A controller makes the world as objects say it should be. You write one function, `reconcile`, which is given the key of an object,
//! looks at what there is and does what is missing. Everything around it is here, in the order in which a change meets it:
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
//! A [`Manager`] has one [`Client`], one cache for each kind, and any number of controllers. This controller makes a ConfigMap
//! for each Network and sets the status of the Network:
//!
//! ```
//! # mod program {
//! use std::time::Duration;
//!
//! use serde::{Deserialize, Serialize};
//! use steersman::k8s_openapi::api::core::v1::ConfigMap;
//! use steersman::kube::{CustomResource, CustomResourceExt};
//! use steersman::{Action, Client, Context, Failure, GenerationChanged, Manager, ObjectKey, ObjectMeta, Patch, Reconciler};
//! use steersman::{kind, set_controller_reference, shutdown_signal};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Network", namespaced, status = "NetworkStatus")]
//! #[kube(crates(kube_core = "steersman::kube::core"))]
//! pub struct NetworkSpec {
//!     pub cidr: String,
//! }
//!
//! #[derive(Clone, Debug, Default, Deserialize, Serialize, schemars::JsonSchema)]
//! pub struct NetworkStatus {
//!     pub ready: bool,
//! }
//!
//! struct NetworkReconciler;
//!
//! impl Reconciler<Network> for NetworkReconciler {
//!     type Error = Failure;
//!
//!     async fn reconcile(&self, ctx: &Context<Network>, key: &ObjectKey) -> Result<Action, Failure> {
//!         let Some(network) = ctx.object(key).await? else { return Ok(Action::done()) };
//!         let network = network.get()?;
//!         let metadata = ObjectMeta {
//!             name: Some(key.name().to_owned()),
//!             namespace: key.namespace().map(ToOwned::to_owned),
//!             ..ObjectMeta::default()
//!         };
//!         ctx.client()
//!             .create_or_update(ConfigMap { metadata, ..ConfigMap::default() }, |map| {
//!                 map.data = Some([("cidr".to_owned(), network.spec.cidr.clone())].into());
//!                 // Fails if the ConfigMap has another controller.
//!                 set_controller_reference(&*network, map)?;
//!                 Ok(())
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
//!         println!("{}", serde_json::to_string_pretty(&Network::crd())?);
//!         return Ok(());
//!     }
//!     // Logs at level INFO. RUST_LOG=steersman=debug shows more.
//!     tracing_subscriber::fmt::init();
//!     let manager = Manager::new(Client::from_environment().await?);
//!     add_controllers(&manager)?;
//!     Ok(manager.start(shutdown_signal()).await?)
//! }
//! # pub(super) mod tests {
//! #     use steersman::PostParams;
//! #     use steersman_testing::{Embedded, eventually};
//! #
//! #     use super::*;
//! #
//! #     pub(crate) async fn a_network_gets_a_config_map() -> Result<(), Box<dyn std::error::Error>> {
//! #         let server = Embedded::start();
//! #         server.install_crds([Network::crd()]).await?;
//! #         let client = Client::from(server.client());
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
//! The parts can be used by themselves, with no manager: [`cache`] has informers, [`workqueue`] the queue, [`client`] the
//! clients. Each crate begins with an essay of its own. To test a controller with no cluster, use the crate
//! `steersman-testing`: its embedded API server runs inside the test, and the example above is tested on it. The
//! repository's `README.md` has the `Cargo.toml` and the test of the example, and `docs/testing.md` explains the rest.

pub use k8s_openapi;
pub use kube;
pub use steersman_cache as cache;
pub use steersman_client as client;
pub use steersman_runtime as runtime;
pub use steersman_wire as wire;
pub use steersman_workqueue as workqueue;

pub use steersman_client::{
    Api, ApiResource, Client, Config, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams,
    PostParams,
};
pub use steersman_runtime::*;

/// The controller in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The controllers of the pages for those who come from elsewhere, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-controller-runtime.md")]
struct FromControllerRuntime;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-kube-rs.md")]
struct FromKubeRs;
