//! Kubernetes objects kept at hand.

mod cached;
mod delta_fifo;
mod error;
mod fifo;
mod key;
mod lister_watcher;
mod memo;
mod queued;
mod storage;
mod store;

pub use cached::{Cached, Object};
pub use delta_fifo::{Batch, Changes, Delta, DeltaFifo, Work};
pub use error::{DecodeError, Error};
pub use fifo::Fifo;
pub use key::ObjectKey;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub use queued::Queued;
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions};
pub use store::Store;
