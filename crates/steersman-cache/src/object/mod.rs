//! An object as the cache holds it: metadata read on arrival, and the body as bytes.

pub(crate) mod cached;
mod compressed;
mod memo;
pub(crate) mod memory;
pub(crate) mod storage;

pub use cached::{Cached, Object};
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions, Transform};
