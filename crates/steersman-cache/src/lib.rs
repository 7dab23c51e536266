//! Kubernetes objects kept at hand.

mod cached;
mod delta_fifo;
mod error;
mod indexer;
mod key;
mod lister_watcher;
mod memo;
mod queued;
mod storage;

pub use cached::{Cached, Object};
pub use delta_fifo::{Batch, Changes, Delta, DeltaFifo, Work};
pub use error::{DecodeError, Error};
pub use indexer::{Index, Indexer, NAMESPACE_INDEX, Replaced, Snapshot};
pub use key::ObjectKey;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub use queued::Queued;
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions};
