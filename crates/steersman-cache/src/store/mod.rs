//! The objects of one kind by key and by index, and their lister.

pub(crate) mod indexer;
mod lister;

pub use indexer::{Index, Indexer, NAMESPACE_INDEX, Replaced, Snapshot};
pub use lister::Lister;
