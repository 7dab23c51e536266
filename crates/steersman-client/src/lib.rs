//! Kubernetes clients, over one configured connection: [`Client`].
//!
//! | client | for |
//! |---|---|
//! | [`RestClient`] | any path and verb, raw or decoded |
//! | [`Api`] of a type ([`Client::namespaced`], [`Client::all_namespaces`], [`Client::cluster`]) | objects of a Rust type: every `k8s-openapi` kind, every `CustomResource` |
//! | [`Api`] of [`DynamicObject`] ([`Client::dynamic`]) | objects of a kind that is known at run time only |
//! | [`Api`] of [`PartialObjectMeta`] ([`Api::metadata`]) | the metadata of objects, which is all that many controllers want |
//! | [`DiscoveryClient`] ([`Client::discovery`]) | which groups, versions and kinds the server serves |
//! | [`RestMapper`] ([`Client::mapper`]) | the resource of a kind, and the kind of a name such as `deploy`; [`Client::dynamic_kind`] |
//!
//! Where the server is and who asks comes from [`Config`]: see [`config_from_environment`],
//! [`config_from_flags`] and, in a Pod, [`config_in_cluster`].

mod api;
mod builder;
mod client;
mod config;
mod conflict;
mod discovery;
mod encoding;
mod error;
mod file;
mod layers;
mod rest;
mod rest_mapper;
mod stream;
mod text;
mod warning;
mod watch_connection;

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

pub use api::{Api, Deleted, Place, Subresource};
pub use builder::ClientBuilder;
pub use client::Client;
pub use config::{config_from_environment, config_from_flags, config_from_service_account, config_in_cluster};
pub use conflict::{Backoff, retry_if, retry_on_conflict};
pub use discovery::{
    Cause, Discovery, DiscoveryClient, Failure, ServedGroup, ServedResource, ServedSubresource, ServedVersion,
};
pub use error::{Asked, DecodeError, Error, TimeoutError, TransportError};
pub use layers::observe::{RequestMetrics, RequestSample};
pub use layers::timeouts::Timeouts;
pub use rest::{RestAnswer, RestClient, RestRequest};
pub use rest_mapper::{MappingError, RestMapper};
pub use stream::{Event, RawList, RawWatch};
pub use warning::{LogWarnings, NoWarnings, Warning, WarningHandler};
