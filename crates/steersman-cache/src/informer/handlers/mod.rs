//! Event handlers: each has a task and a buffer of its own.
//!
//! The informer sends through a `Listener`, the task calls the handler through a `Caller`, and the
//! user holds a [`HandlerHandle`]. `backlog.rs` merges the events of a handler that is far behind.

mod backlog;
mod caller;
mod event;
mod event_handler;
mod handle;
mod listener;

pub use event::Event;
pub use event_handler::{EventHandler, FilteringHandler, handler};
pub use handle::HandlerHandle;
pub(crate) use handle::{STOP_TIMEOUT, stop_result};
pub(crate) use listener::{Listener, Message};
