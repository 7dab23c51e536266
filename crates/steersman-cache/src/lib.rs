//! Kubernetes objects kept at hand.

mod cached;
mod compressed;
mod error;
mod key;
mod lister_watcher;
mod memo;
mod storage;

pub use cached::{Cached, Object};
pub use error::{DecodeError, Error};
pub use key::ObjectKey;
pub use lister_watcher::{ApiListerWatcher, ListOptions, ListStream, ListerWatcher, WatchOptions, WatchStream};
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions, Transform};
