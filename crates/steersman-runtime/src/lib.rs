//! Controllers: the counterpart of Go's controller-runtime.
//!
//! ```text
//!  caches ──events──▶ Predicates ──▶ keys (itself, owners, map) ──▶ WorkQueue ──▶ Worker ──▶ Layers ──▶ Reconciler
//!    ▲                                                                                                     │
//!    └───────────────────────── reads ── CachedClient ── writes ──▶ API server ◀───────────────────────────┘
//! ```
//!
//! A [`Manager`] has one client and one cache for each kind. A [`Kind`] declares which objects the
//! cache keeps and which changes cause a reconcile ([`predicate`]). A [`ControllerBuilder`]
//! declares which keys a change enqueues: the key of the object itself, of its owner, or the keys
//! that a function returns. Workers take the keys out of a queue and pass them through the
//! [layers](layer) to a [`Reconciler`]. It receives a [`Context`] and returns an [`Action`]. With
//! the [`CachedClient`] it reads from the caches and writes to the server; its reads show its own
//! writes.
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use steersman_runtime::owner::set_controller_reference;
//! use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
//! # use steersman_client::{Client, PostParams};
//! # use steersman_testing::{Embedded, eventually};
//!
//! /// Every ConfigMap has an empty Secret of its name.
//! async fn reconcile(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
//!     // The server deletes the Secret of a deleted ConfigMap.
//!     let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
//!     let secret = Secret { metadata: key.to_meta(), ..Secret::default() };
//!     // Fails if the Secret has another controller.
//!     ctx.client().create_or_update(secret, |secret| set_controller_reference(&*map, secret)).await?;
//!     Ok(Action::done())
//! }
//!
//! async fn run(client: Client, shutdown: impl Future<Output = ()> + Send) -> Result<(), steersman_runtime::Error> {
//!     let manager = Manager::new(client);
//!     manager
//!         .controller(kind::<ConfigMap>())
//!         .owns(kind::<Secret>()) // reconciles the ConfigMap if its Secret is deleted
//!         .max_concurrent(4)
//!         .complete(reconcile_fn(reconcile))?;
//!     manager.start(shutdown).await // in a program: steersman_runtime::shutdown_signal()
//! }
//! #
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = Embedded::start().client();
//! # let map = ConfigMap { metadata: ObjectKey::new("default", "web").to_meta(), ..ConfigMap::default() };
//! # client.namespaced("default").create(&PostParams::default(), &map).await?;
//! # let secrets = client.namespaced::<Secret>("default");
//! # let test_secrets = secrets.clone();
//! # let made = async move {
//! #     eventually("the Secret is made", || async { test_secrets.get_opt("web").await.unwrap() }).await;
//! # };
//! # run(client.clone(), made).await?;
//! # assert_eq!(secrets.get("web").await?.metadata.owner_references.unwrap()[0].kind, "ConfigMap");
//! # Ok(())
//! # }
//! ```
//!
//! The contracts are documented at their types, with the names of their tests: [`Manager`] and
//! [`Controller`] (contracts 5 and 10), [`CachedClient`] (6 and 11),
//! [`Finalizer`](finalizer::Finalizer), [`Scheme`]. One contract concerns all of them: a controller
//! that is killed before or after any of its requests and started again ends in the same state
//! (`a_controller_that_is_killed_while_it_creates_ends_in_the_same_state`, in `tests/crash.rs`).
//!
//! A controller can be written without a manager: an informer, a work queue and a loop are enough.
//! `a_controller_made_of_its_parts_needs_no_manager` in `tests/controllers/low_road.rs` is an
//! example.

mod access;
mod caches;
mod client;
pub mod condition;
mod controller;
mod error;
mod events;
pub mod finalizer;
mod flight_recorder;
mod host;
mod kind;
pub mod layer;
pub mod leader_election;
mod manager;
pub mod metrics;
pub mod owner;
pub mod predicate;
mod probes;
mod read_your_writes;
mod reconciler;
mod scheme;
mod scope;
mod stop;

pub use caches::CacheDefaults;
pub use client::{CachedClient, ListQuery, Mutated, Objects, ObjectsSubresource, OperationResult};
pub use controller::{Controller, ControllerBuilder, ControllerMetrics, KeySender, LOW_PRIORITY};
pub use error::{Error, NotCached, ReconcileError};
pub use events::{EventMetrics, EventObject, EventRecorder};
pub use flight_recorder::{
    CauseState, ControllerState, DebugQuery, DebugState, FailingKey, FlightRecorder, HotLoopState, InformerState,
    LeaseState, ReconcileState, WaitedReadState, WaitingKey, WriteState,
};
pub use kind::{Kind, StaticKind, dynamic, dynamic_metadata, kind, metadata};
pub use manager::{Manager, ManagerBuilder, shutdown_signal};
pub use probes::Probes;
pub use reconciler::{Action, Context, Reconciler, reconcile_fn};
pub use scheme::{DecodedObject, Scheme};
pub use steersman_cache::{
    Cached, Event, Index, Lister, NamespaceOptions, Object, ObjectKey, ReflectorError, ReflectorOptions, StorageMode,
    StorageOptions,
};
pub use steersman_manifests::operator::{Access, AccessReason, Verb};
pub use stop::StopSignal;

use host::host_name;
