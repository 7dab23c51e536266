//! The plain store and queue of client-go, for users who build on them. No informer uses them.

mod fifo;
mod store;

pub use fifo::Fifo;
pub use store::Store;
