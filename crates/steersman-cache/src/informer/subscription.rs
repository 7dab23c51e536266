//! The whole set of objects, after each change.

use std::fmt;

use tokio::sync::watch;

use crate::Lister;
use crate::informer::Progress;
use crate::object::cached::Object;
use crate::store::indexer::Snapshot;

/// Follows the whole set of objects of an informer, for consumers that compute from all of them:
/// the use of client-go's `UndeltaStore`.
///
/// The subscriber gets the newest set once, however many changes there were since the last call.
/// There is no backlog (test `a_subscriber_gets_the_newest_set_and_never_a_backlog`).
pub struct Subscription<K> {
    lister: Lister<K>,
    progress: watch::Receiver<Progress>,
    /// Number of changes when the set was last returned.
    seen: Option<u64>,
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("lister", &self.lister).finish_non_exhaustive()
    }
}

impl<K: Object> Subscription<K> {
    pub(crate) fn new(lister: Lister<K>, progress: watch::Receiver<Progress>) -> Self {
        Self { lister, progress, seen: None }
    }

    /// Waits until the set has changed since the last call, and returns it. The first call returns
    /// when the informer has synced. `None` if the informer has stopped without further changes.
    pub async fn changed(&mut self) -> Option<Snapshot<K>> {
        let seen = self.seen;
        let is_new = |progress: &Progress| progress.synced && seen != Some(progress.changes);
        let progress = *self.progress.wait_for(|progress| is_new(progress) || progress.stopped).await.ok()?;
        if !is_new(&progress) {
            return None;
        }
        self.seen = Some(progress.changes);
        Some(self.lister.list())
    }
}
