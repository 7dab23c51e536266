//! Caches of Kubernetes objects, and handlers of their changes: client-go's `tools/cache`.
//!
//! ```text
//!  ListerWatcher ──▶ Reflector ──deltas──▶ DeltaFifo ──batches──▶ Informer ──▶ Indexer ◀── Lister
//!                                                                    └──events──▶ EventHandlers
//! ```
//!
//! - A [`ListerWatcher`] requests the objects of one kind from a server.
//! - A [`Reflector`] lists and then watches through it, forever. It writes what it reads into a
//!   [`DeltaFifo`], which queues changes by object and tracks the version that has been reached.
//! - An [`Informer`] applies the changes to the [`Indexer`], batch by batch, and then calls its
//!   [`EventHandler`]s.
//! - A [`Lister`] reads the cache. A [`Subscription`] follows the whole set.
//! - A [`SharedInformerFactory`] has one informer for each kind.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_cache::{Event, Index, InformerOptions, SharedInformerFactory, handler};
//!
//! # let embedded = steersman_testing::Embedded::start();
//! # let client = embedded.client();
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
//! **Metadata eager, body lazy.** The cache does not hold decoded objects. It holds [`Cached`]
//! ones: their bytes, without `managedFields`, and their metadata, decoded on arrival. Predicates,
//! selectors, owner look-ups and indexes by label or field use these. [`Cached::get`] decodes an
//! object once for all its readers. An object that does not fit its type is an error of that object
//! alone. [`StorageMode`] is the form of stored bodies.
//!
//! **Allocator.** The crate does not change settings of the process. Programs that use
//! `StorageMode::Compressed` call [`release_freed_memory`] in `main`.
//!
//! **Features.** `compression` adds `StorageMode::Compressed`. It is off by default: it builds zstd
//! from C, and a cache compresses only if it is asked to.
//!
//! The types document the contracts: [`Informer`] (contracts 1 to 4, 8 and 9), [`DeltaFifo`] and
//! [`Lister`] (7), [`SharedInformerFactory`] (11).

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
    NamespaceOptions, SharedInformerFactory, Subscription, handler,
};
pub use key::ObjectKey;
pub use object::{
    Cached, Object, Storage, StorageMetrics, StorageMode, StorageOptions, Transform, release_freed_memory,
};
pub use queue::{Batch, Changes, Delta, DeltaFifo, Queued, Work};
pub use reflector::{
    ApiListerWatcher, ListOptions, ListStream, ListerWatcher, Phase, Reason, Reflector, ReflectorError,
    ReflectorOptions, ReflectorStatus, ReflectorStore, ShortBackoff, StatusReader, WatchOptions, WatchStream,
};
pub use store::{Index, Indexer, Lister, NAMESPACE_INDEX, Replaced, Snapshot};
