//! The stored object: metadata decoded on arrival, and the body as bytes.
//!
//! `cached.rs` is what users see, and `body.rs` what is stored. `storage.rs` stores objects in the
//! form that a kind asks for. `memo.rs` keeps frequently read objects decoded, `compressed.rs`
//! trains dictionaries (`uncompressed.rs` replaces it without the feature `compression`), and
//! `memory.rs` configures the allocator.

mod body;
pub(crate) mod cached;
#[cfg(feature = "compression")]
mod compressed;
#[cfg(not(feature = "compression"))]
#[path = "uncompressed.rs"]
mod compressed;
mod decode;
mod memo;
mod memory;
pub(crate) mod storage;

pub use cached::{Cached, Object};
pub use memory::release_freed_memory;
pub use storage::{Storage, StorageMetrics, StorageMode, StorageOptions, Transform};
