//! Controllers: write `reconcile`, say what to watch, and a [`Manager`] does the rest. What controller-runtime is to Go.
//!
//! ```text
//!  caches ──events──▶ Predicates ──▶ keys (itself, owners, map) ──▶ WorkQueue ──▶ Worker ──▶ Layers ──▶ Reconciler
//!    ▲                                                                                                     │
//!    └───────────────────────── reads ── CachedClient ── writes ──▶ API server ◀───────────────────────────┘
//! ```
//!
//! A [`Manager`] has one client and one cache for each kind. A [`Kind`] says which objects of a kind are kept and which of their
//! changes matter ([`Predicate`]). A [`ControllerBuilder`] says whose keys a change is about: the object's own, its owner's, or what a
//! function makes of it. The keys wait in a queue; workers take them, through any number of [`Layer`]s, to a [`Reconciler`], which is
//! given a [`Context`] and says with an [`Action`] when to look again. It reads from the caches and writes to the server with the
//! [`CachedClient`], which reads what it wrote.
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use steersman_runtime::{Action, Context, Failure, Manager, ObjectKey, kind, reconcile_fn, set_controller_reference};
//! # use std::time::Duration;
//! # use steersman_client::{Client, ObjectMeta, PostParams};
//!
//! /// Every ConfigMap has an empty Secret of its name.
//! async fn reconcile(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, Failure> {
//!     // Gone: the server takes its Secret along.
//!     let Some(map) = ctx.object(&key).await? else { return Ok(Action::done()) };
//!     let map = map.get()?;
//!     let mut secret = Secret::default();
//!     secret.metadata.name = Some(key.name().to_owned());
//!     secret.metadata.namespace = key.namespace().map(Into::into);
//!     // One that belongs to somebody else is an error, and is left alone.
//!     ctx.client().create_or_update(secret, |secret| set_controller_reference(&*map, secret).map(drop)).await?;
//!     Ok(Action::done())
//! }
//!
//! async fn run(client: Client, shutdown: impl Future<Output = ()> + Send) -> Result<(), steersman_runtime::Error> {
//!     let manager = Manager::new(client);
//!     manager
//!         .controller(kind::<ConfigMap>())
//!         .owns(kind::<Secret>()) // who deletes a Secret gets it back
//!         .max_concurrent(4)
//!         .complete(reconcile_fn(reconcile))?;
//!     manager.start(shutdown).await // in a program: steersman_runtime::shutdown_signal()
//! }
//! #
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let embedded = steersman_testing::Embedded::start();
//! # let client = Client::from(embedded.client());
//! # let metadata = ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() };
//! # let map = ConfigMap { metadata, ..ConfigMap::default() };
//! # client.namespaced("default").create(&PostParams::default(), &map).await?;
//! # let secrets = client.namespaced::<Secret>("default");
//! # let made = async {
//! #     while !secrets.get_opt("web").await.is_ok_and(|found| found.is_some()) {
//! #         tokio::time::sleep(Duration::from_millis(10)).await;
//! #     }
//! # };
//! # tokio::time::timeout(Duration::from_secs(60), run(client.clone(), made)).await??;
//! # assert_eq!(secrets.get("web").await?.metadata.owner_references.unwrap()[0].kind, "ConfigMap");
//! # Ok(())
//! # }
//! ```
//!
//! What is promised stands at the types, with the names of the tests: [`Manager`] and [`Controller`] (contracts 5 and 10 of the
//! design), [`CachedClient`] (6 and 11), [`Finalizer`], [`Scheme`]. And for all of them together: a controller that is killed at
//! any of its requests, before it was sent or after it was done, and started again, ends in the same state
//! (`a_controller_that_is_killed_while_it_creates_ends_in_the_same_state`, in `tests/crash.rs`).
//!
//! None of this is needed to write a controller: an informer, a work queue and a loop do, as
//! `a_controller_written_by_hand_needs_no_manager` shows in `tests/controllers/low_road.rs`.

mod caches;
mod client;
mod conditions;
mod controller;
mod create_or_update;
mod enqueue;
mod error;
mod finalizer;
mod kind;
mod layers;
mod manager;
mod owner_reference;
mod predicate;
mod query;
mod reads;
mod reconciler;
mod scheme;
mod scope;
mod signals;
mod sources;
mod stop;
mod writes;

pub use steersman_cache::{Cached, Event, Index, Lister, Object, ObjectKey, StorageMode, StorageOptions};

pub use client::{CachedClient, Objects};
pub use conditions::{condition, is_condition_true, remove_condition, set_condition};
pub use controller::{Controller, ControllerBuilder, ControllerMetrics};
pub use create_or_update::{Mutated, OperationResult};
pub use enqueue::LOW_PRIORITY;
pub use error::{Error, Failure, NotCached};
pub use finalizer::{Finalizer, FinalizerState, add_finalizer, has_finalizer, remove_finalizer};
pub use kind::{Kind, dynamic, dynamic_metadata, kind, metadata};
pub use layers::{Layer, PanicGuard, Panicked, Timeout, Tracing};
pub use manager::{Manager, ManagerBuilder};
pub use owner_reference::{
    controller_reference, owner_reference, remove_owner_reference, set_controller_reference, set_owner_reference,
    set_reference,
};
pub use predicate::{
    And, AnnotationsChanged, Change, ChangeKind, GenerationChanged, LabelsChanged, LabelsMatch, Not, Or, Predicate,
    ResourceVersionChanged,
};
pub use query::ListQuery;
pub use reconciler::{Action, Context, DynReconciler, ReconcileFn, ReconcileFuture, Reconciler, reconcile_fn};
pub use scheme::{Decoded, Scheme};
pub use signals::shutdown_signal;
pub use stop::Stop;
