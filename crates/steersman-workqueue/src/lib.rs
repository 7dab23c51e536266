//! The queue between a controller's events and its workers.
//!
//! Events add keys to a [`WorkQueue`], workers take them out with [`get`](WorkQueue::get) and say how it went. A key that
//! is added many times is worked on once; no key is worked on by two workers at a time; a key that is added while it is
//! worked on is worked on once more; none is lost.
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
//! item.retry(); // it failed: 5 ms from now, then 10, 20, …
//!
//! let item = queue.get().await.expect("the queue is not shut down");
//! assert_eq!((*item, queue.retries(&item)), ("default/web", 1));
//! item.done();
//!
//! queue.shut_down(); // what was delayed is dropped, and workers are told to go
//! assert!(queue.get().await.is_none());
//! # }
//! ```
//!
//! - **Delays**: [`add_after`](WorkQueue::add_after). The earliest time counts, and one timer serves any number of keys.
//! - **Rate limits**: a [`RateLimiter`] says how long a failed key waits. There are the four of client-go, and two ready-made
//!   mixes: [`controller_runtime_default`] (which [`WorkQueue::new`] uses) and [`client_go_default`].
//! - **Priorities**: [`AddOptions::priority`]. Higher comes first, but nobody starves ([`Core::set_ageing`]).
//! - **Metrics**: [`Metrics`] is told what happens, under the names that existing dashboards know.
//! - **An end**: [`shut_down`](WorkQueue::shut_down) and [`shut_down_with_drain`](WorkQueue::shut_down_with_drain).
//!
//! The queue proper is [`Core`], a state machine without a clock, a lock or a runtime, which can be driven by hand. The
//! queue spawns no task; it needs tokio's timer only when a worker waits for a key that is delayed.

mod core;
mod delays;
mod error;
mod get;
mod intake;
mod item;
pub mod metrics;
#[cfg(steersman_loom)]
#[doc(hidden)]
pub mod model_time;
mod processing;
mod queue;
mod rate_limiter;
mod slots;
mod sync;
mod table;
mod waiters;

pub use crate::core::{AddOptions, Core, Ticket, Verdict};
pub use error::Error;
pub use get::{Get, GetOwned};
pub use item::Item;
pub use metrics::{Metrics, Unfinished};
pub use queue::WorkQueue;
pub use rate_limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter, RateLimiter,
    WithMaxWaitRateLimiter, client_go_default, controller_runtime_default,
};
