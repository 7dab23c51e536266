//! Kubernetes objects kept at hand, and handlers told what changes: what client-go calls `tools/cache`.
//!
//! ```text
//!  ListerWatcher ──▶ Reflector ──deltas──▶ DeltaFifo ──batches──▶ Informer ──▶ Indexer ◀── Lister
//!                                                                    └──events──▶ EventHandlers
//! ```
//!
//! A [`ListerWatcher`] asks a server for the objects of one kind. A [`Reflector`] lists and then watches through it, for ever, and puts
//! what it reads into a [`DeltaFifo`], which queues what happened by object and knows up to which version everything is out. An
//! [`Informer`] takes it from there, batch by batch, into the [`Indexer`], and then tells its [`EventHandler`]s. A [`Lister`] reads;
//! a [`Subscription`] follows the whole set. A [`SharedInformerFactory`] has one informer for each kind.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_cache::{Event, Index, InformerOptions, SharedInformerFactory, handler};
//!
//! # let embedded = steersman_testing::Embedded::start();
//! # let client = steersman_client::Client::from(embedded.client());
//! let factory = SharedInformerFactory::new(client);
//! let maps = factory.informer::<ConfigMap>(InformerOptions::all().index("app", Index::label("app")))?;
//! maps.add_event_handler(handler(|event: &Event<ConfigMap>| println!("{event:?}")))?;
//! factory.start()?;
//! factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
//!
//! for map in maps.lister().by_index("app", "web")? {
//!     println!("{} has {:?}", map.meta().name(), map.get()?.data);
//! }
//! factory.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Metadata eager, body lazy.** The cache does not hold decoded objects: it holds [`Cached`] ones, which are the bytes that came, without
//! `managedFields`, and their metadata, read on arrival. Predicates, selectors, owner look-ups and indexes by label or field work on
//! those. An object is decoded when somebody calls [`Cached::get`], once for all who ask, and one that does not fit its type harms
//! nobody else. [`StorageMode`] says in which form bodies are kept.
//!
//! What is promised stands at the types: [`Informer`] (contracts 1 to 4, 8 and 9 of the design), [`DeltaFifo`] and [`Lister`] (7),
//! [`SharedInformerFactory`] (11).

mod compat;
mod error;
mod informer;
mod key;
mod object;
mod queue;
mod reflector;
mod store;

pub use compat::{Fifo, Store};
pub use error::{DecodeError, Error};
pub use informer::{
    Event, EventHandler, FilteringHandler, HandlerHandle, Informer, InformerConfig, InformerMetrics, InformerOptions,
    SharedInformerFactory, Subscription, handler,
};
pub use key::ObjectKey;
pub use object::{Cached, Object, Storage, StorageMetrics, StorageMode, StorageOptions, Transform};
pub use queue::{Batch, Changes, Delta, DeltaFifo, Queued, Work};
pub use reflector::{
    ApiListerWatcher, Hurry, ListOptions, ListStream, ListerWatcher, Phase, Reason, Reflector, ReflectorError,
    ReflectorOptions, ReflectorStatus, ReflectorStore, WatchOptions, WatchStream,
};
pub use store::{Index, Indexer, Lister, NAMESPACE_INDEX, Replaced, Snapshot};
