//! The task that sends resyncs.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::inner::Inner;
use crate::object::cached::Object;

/// Sends all objects to each handler that is due for a resync.
pub(super) async fn run_resyncs<K: Object>(inner: Arc<Inner<K>>) {
    loop {
        let next = inner.processor().next_resync();
        let due = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = inner.handlers_changed.notified() => {}
            () = due => inner.processor().resync(Instant::now(), || inner.indexer().list()),
        }
    }
}
