//! The objects of one kind by key and by index, and how they are read.

pub(crate) mod indexer;
mod lister;

pub use indexer::{Index, Indexer, NAMESPACE_INDEX, Replaced, Snapshot};
pub use lister::Lister;
