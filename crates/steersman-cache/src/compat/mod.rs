//! client-go's plain store and queue, for users who build on them. No informer uses them.

mod fifo;
mod store;

pub use fifo::Fifo;
pub use store::Store;
