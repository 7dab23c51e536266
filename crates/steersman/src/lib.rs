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
//! A [`Manager`] has one [`Client`], one cache for each kind, and any number of controllers. Here is one that makes a ConfigMap for
//! every Network, keeps it as it should be, and says so in the status:
//!
//! ```
//! use std::time::Duration;
//!
//! use steersman::k8s_openapi::api::core::v1::ConfigMap;
//! use steersman::kube::CustomResource;
//! use steersman::{Action, Client, Context, Failure, GenerationChanged, Manager, ObjectKey, Patch, Reconciler, kind};
//! use steersman::{ObjectMeta, set_controller_reference};
//! # use steersman::kube::CustomResourceExt;
//! # use steersman::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
//! # use steersman::PostParams;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
//! #[kube(group = "samplecrd.k8s.io", version = "v1", kind = "Network", namespaced, status = "NetworkStatus")]
//! // Groups under k8s.io are the Kubernetes project's: others need this. With a domain of your own, leave it out.
//! #[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
//! # #[kube(crates(kube_core = "steersman::kube::core", k8s_openapi = "steersman::k8s_openapi"))]
//! pub struct NetworkSpec {
//!     pub cidr: String,
//!     pub gateway: String,
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
//!         let metadata = ObjectMeta { name: Some(key.name().into()), namespace: key.namespace().map(Into::into), ..Default::default() };
//!         ctx.client()
//!             .create_or_update(ConfigMap { metadata, ..ConfigMap::default() }, |map| {
//!                 map.data = Some([("cidr".to_owned(), network.spec.cidr.clone())].into());
//!                 // One that belongs to somebody else is left alone.
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
//! async fn run(client: Client, shutdown: impl Future<Output = ()> + Send) -> Result<(), steersman::Error> {
//!     let manager = Manager::new(client);
//!     manager
//!         .controller(kind::<Network>().predicate(GenerationChanged))
//!         .owns(kind::<ConfigMap>())
//!         .max_concurrent(4)
//!         .complete(NetworkReconciler)?;
//!     manager.start(shutdown).await // in a program: steersman::shutdown_signal()
//! }
//! #
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let embedded = steersman_testing::Embedded::start();
//! # let client = Client::from(embedded.client());
//! # client.cluster::<CustomResourceDefinition>().create(&PostParams::default(), &Network::crd()).await?;
//! # let networks = client.namespaced::<Network>("default");
//! # let spec = NetworkSpec { cidr: "10.0.0.0/24".into(), gateway: "10.0.0.1".into() };
//! # networks.create(&PostParams::default(), &Network::new("demo", spec)).await?;
//! # let ready = async {
//! #     loop {
//! #         let network = networks.get("demo").await.unwrap();
//! #         if network.status.is_some_and(|status| status.ready) { return }
//! #         tokio::time::sleep(Duration::from_millis(10)).await;
//! #     }
//! # };
//! # tokio::time::timeout(Duration::from_secs(60), run(client.clone(), ready)).await??;
//! # let map = client.namespaced::<ConfigMap>("default").get("demo").await?;
//! # assert_eq!(map.data.unwrap()["cidr"], "10.0.0.0/24");
//! # assert_eq!(map.metadata.owner_references.unwrap()[0].name, "demo");
//! # Ok(())
//! # }
//! ```
//!
//! The parts can be used by themselves, with no manager: [`cache`] has informers, [`workqueue`] the queue, [`client`] the clients, each
//! crate with an essay of its own. To test a controller with no cluster, use the crate `steersman-testing`: the example above runs on
//! its embedded API server, in process.

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
