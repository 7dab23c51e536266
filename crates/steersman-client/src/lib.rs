//! Kubernetes clients over one configured connection: [`Client`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_client::{Client, ListParams, Patch, PatchParams};
//!
//! async fn pause_all(client: &Client, namespace: &str) -> Result<usize, steersman_client::Error> {
//!     let maps = client.namespaced::<ConfigMap>(namespace);
//!     let list = maps.list(&ListParams::default().labels("app=web")).await?;
//!     let paused = Patch::Merge(serde_json::json!({"data": {"paused": "yes"}}));
//!     for name in list.items.iter().filter_map(|map| map.metadata.name.as_deref()) {
//!         maps.patch(name, &PatchParams::default(), &paused).await?;
//!     }
//!     Ok(list.items.len())
//! }
//!
//! // In a program: Client::from_environment().await?
//! # let client = steersman_testing::Embedded::start().client();
//! # let map = serde_json::json!({"metadata": {"name": "a", "labels": {"app": "web"}}});
//! # let maps = client.namespaced::<ConfigMap>("default");
//! # maps.create(&Default::default(), &serde_json::from_value(map)?).await?;
//! assert_eq!(pause_all(&client, "default").await?, 1);
//! # assert_eq!(maps.get("a").await?.data.unwrap()["paused"], "yes");
//! # Ok(()) }
//! ```
//!
//! | client | for |
//! |---|---|
//! | [`RestClient`] | any path and verb, raw or decoded |
//! | [`Api`] of a type ([`Client::namespaced`], [`Client::all_namespaces`], [`Client::cluster`]) | objects of a Rust type: every `k8s-openapi` kind, every `CustomResource` |
//! | [`Api`] of [`DynamicObject`] ([`Client::dynamic`]) | objects of a kind that is known at run time only |
//! | [`Api`] of [`PartialObjectMeta`] ([`Api::metadata`]) | the metadata of objects, which is all that many controllers need |
//! | [`DiscoveryClient`] ([`Client::discovery`]) | the groups, versions and kinds that the server serves |
//! | [`RestMapper`] ([`Client::mapper`]) | the resource of a kind, and the kind of a name such as `deploy`; [`Client::dynamic_kind`] |
//!
//! [`Config`] has the server's address and the credentials: see [`config_from_environment`],
//! [`config_from_flags`] and, in a Pod, [`config_in_cluster`].
//!
//! A request is built in `api/` or `rest.rs`, passes the `layers/` and leaves through `transport/`.
//! `response/` reads what comes back.

mod api;
mod builder;
mod client;
mod config;
mod discovery;
mod error;
mod layers;
mod offline;
mod response;
mod rest;
mod trace;
mod transport;

pub use kube_client::Config;
pub use kube_core::discovery::ApiResource;
pub use kube_core::metadata::PartialObjectMeta;
pub use kube_core::params::{
    DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    ValidationDirective, VersionMatch, WatchParams,
};
pub use kube_core::{DynamicObject, GroupVersionKind, GroupVersionResource, ObjectList, ObjectMeta, Status};

pub use steersman_wire::{Limits, ListMeta, ObjectError, WatchEvent};
pub use steersman_world::World;

pub use api::{Api, Deleted, NamespaceScope, Subresource, TypedEvent};
pub use api::{Backoff, merge_from, merge_from_with_optimistic_lock, retry_if, retry_on_conflict};
pub use builder::ClientBuilder;
pub use client::Client;
pub use config::{config_from_environment, config_from_flags, config_from_service_account, config_in_cluster};
pub use discovery::{
    Discovery, DiscoveryCause, DiscoveryClient, DiscoveryFailure, MappingError, RestMapper, ServedGroup,
    ServedResource, ServedSubresource, ServedVersion,
};
pub use error::{Error, RequestInfo, ResponseError, TimeoutError, TransportError};
pub use layers::gate::{GateError, WriteGate};
pub use layers::observe::{RequestMetrics, RequestSample};
pub use layers::timeouts::Timeouts;
pub use layers::warning::{LogWarnings, NoWarnings, Warning, WarningHandler};
pub use layers::write_check::WriteAction;
pub use response::{RawList, RawWatch};
pub use rest::{RestClient, RestRequest, RestResponse};
pub use trace::{Trace, TraceContext};
