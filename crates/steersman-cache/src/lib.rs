//! Kubernetes objects kept at hand.

mod backoff;
mod cached;
mod compressed;
mod delta_fifo;
mod error;
mod factory;
mod fifo;
mod handlers;
mod indexer;
mod informer;
mod key;
mod lister;
mod lister_watcher;
mod memo;
mod queued;
mod reflector;
mod source;
mod storage;
mod store;
mod subscription;

pub use cached::{Cached, Object};
pub use delta_fifo::{Batch, Changes, Delta, DeltaFifo, Work};
pub use error::{DecodeError, Error};
pub use factory::{InformerOptions, SharedInformerFactory};
pub use fifo::Fifo;
pub use handlers::{Event, EventHandler, FilteringHandler, HandlerHandle, handler};
pub use indexer::{Index, Indexer, NAMESPACE_INDEX, Replaced, Snapshot};
pub use informer::{Informer, InformerConfig, InformerMetrics};
pub use key::ObjectKey;
pub use lister::Lister;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub use queued::Queued;
pub use reflector::{Phase, Reason, Reflector, ReflectorError, ReflectorOptions, ReflectorStatus, ReflectorStore};
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions, Transform};
pub use store::Store;
pub use subscription::Subscription;
