//! The whole set of objects, each time it has changed.

use std::fmt;

use tokio::sync::watch;

use crate::Lister;
use crate::informer::Progress;
use crate::object::cached::Object;
use crate::store::indexer::Snapshot;

/// Follows the whole set of objects of an informer, for those who compute something of all of them: what client-go's
/// `UndeltaStore` is for.
///
/// However much has changed since the last call, the subscriber gets the newest set, once: there is no backlog (test
/// `a_subscriber_gets_the_newest_set_and_never_a_backlog`).
pub struct Subscription<K> {
    lister: Lister<K>,
    progress: watch::Receiver<Progress>,
    /// How many changes there had been when the set was last given; none before.
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

    /// Waits until the set has changed since the last call, and returns all of it. The first one comes when the informer has
    /// synced. `None` when the informer has stopped and there is nothing new.
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
