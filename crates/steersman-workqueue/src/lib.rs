//! The queue between the events of a controller and its workers.
//!
//! Events add keys to a [`WorkQueue`]. Workers take them out with [`get`](WorkQueue::get) and
//! report the outcome. A key that is added many times is processed once. Two workers never process
//! the same key at a time. A key that is added while it is processed is processed once more. No key
//! is lost.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::time::Duration;
//! use steersman_workqueue::WorkQueue;
//!
//! let queue = WorkQueue::new();
//! queue.add("default/web");
//! queue.add("default/web");
//! queue.add_after("default/db", Duration::from_secs(30));
//!
//! let item = queue.get().await.expect("the queue is not shut down");
//! assert_eq!(*item, "default/web");
//! item.retry(); // it failed: it comes back after 5 ms, then 10, 20, …
//!
//! let item = queue.get().await.expect("the queue is not shut down");
//! assert_eq!((*item, queue.retries(&item)), ("default/web", 1));
//! item.done();
//!
//! queue.shut_down(); // drops delayed keys; workers get `None`
//! assert!(queue.get().await.is_none());
//! # }
//! ```
//!
//! - **Delays**: [`add_after`](WorkQueue::add_after). The earliest time counts, and one timer
//!   serves all keys.
//! - **Rate limits**: a [`RateLimiter`] decides how long a failed key waits. There are the four of
//!   client-go, and two mixes: [`controller_runtime_default`], the default of [`WorkQueue::new`],
//!   and [`client_go_default`].
//! - **Priorities**: [`AddOptions::priority`]. Higher priorities come first, and no key starves
//!   ([`Core::set_ageing`]).
//! - **Metrics**: [`QueueMetrics`] receives what happens, with the metric names of client-go.
//! - **Shutdown**: [`shut_down`](WorkQueue::shut_down) and
//!   [`shut_down_with_drain`](WorkQueue::shut_down_with_drain).
//!
//! The queue proper is [`Core`], a state machine without a clock, a lock or a runtime, which can
//! also be used directly. The queue spawns no task. It needs tokio's timer only while a worker
//! waits for a delayed key.

mod add_options;
mod core;
mod delays;
mod error;
mod get;
mod item;
pub mod metrics;
#[cfg(steersman_loom)]
#[doc(hidden)]
pub mod model_time;
mod outcome;
mod payload;
mod processing;
mod queue;
mod rate_limiter;
mod slots;
mod sync;
mod table;
mod waiters;

pub use crate::core::Core;
pub use add_options::AddOptions;
pub use error::Error;
pub use get::{Get, GetOwned};
pub use item::Item;
pub use metrics::{QueueMetrics, Unfinished};
pub use outcome::{Outcome, Ticket};
pub use payload::Payload;
pub use queue::WorkQueue;
pub use rate_limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter, RateLimiter,
    WithMaxWaitRateLimiter, client_go_default, controller_runtime_default,
};
