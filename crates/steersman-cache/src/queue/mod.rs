//! The queue between a reflector and its informer.

pub(crate) mod delta_fifo;
pub(crate) mod queued;
pub(crate) mod source;

pub use delta_fifo::{Batch, Changes, Delta, DeltaFifo, Work};
pub use queued::Queued;
