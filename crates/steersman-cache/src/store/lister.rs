//! Reads the cache.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_wire::{LabelSelector, ResourceVersion, compare_resource_version};
use tokio::time::timeout;

use crate::informer::Inner;
use crate::object::cached::{Cached, Object};
use crate::store::indexer::{Snapshot, matching};
use crate::{Error, ObjectKey};

/// Reads the cache of an [`Informer`](crate::Informer). It sends no request, and waits only in
/// [`wait_for_version`](Self::wait_for_version) and [`wait_until`](Self::wait_until).
pub struct Lister<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("kind", &self.inner.kind()).finish_non_exhaustive()
    }
}

impl<K: Object> Lister<K> {
    pub(crate) fn new(inner: Arc<Inner<K>>) -> Self {
        Self { inner }
    }

    /// One object. The namespace is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Cached<K>> {
        self.inner.indexer().get(namespace, name).cloned()
    }

    /// One object.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.inner.indexer().get_by_key(key).cloned()
    }

    /// All objects at this moment. Later changes do not show in it.
    pub fn list(&self) -> Snapshot<K> {
        self.inner.indexer().list()
    }

    /// All objects of a namespace.
    pub fn namespace(&self, namespace: &str) -> Vec<Cached<K>> {
        self.inner.indexer().namespace(namespace)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.list().iter().map(Cached::key).collect()
    }

    /// The objects whose labels match, of one namespace or of all.
    pub fn select(&self, namespace: Option<&str>, labels: &LabelSelector) -> Vec<Cached<K>> {
        match namespace {
            // On a snapshot, so that a large cache does not block changes.
            None => matching(&self.list(), labels),
            Some(_) => self.inner.indexer().select(namespace, labels),
        }
    }

    /// The objects that have a value in an index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, Error> {
        self.inner.indexer().by_index(index, value)
    }

    /// The objects that have a value in an index and whose labels match.
    pub fn select_by_index(&self, index: &str, value: &str, labels: &LabelSelector) -> Result<Vec<Cached<K>>, Error> {
        self.inner.indexer().select_by_index(index, value, labels)
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<String> {
        self.inner.indexer().index_names().map(str::to_owned).collect()
    }

    /// The keys of the objects that have a value in an index.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.inner.indexer().index_keys(index, value)
    }

    /// The values that objects have in an index.
    pub fn index_values(&self, index: &str) -> Result<Vec<String>, Error> {
        self.inner.indexer().index_values(index)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.inner.indexer().len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version that the cache has reached: every event up to it is in the cache (contract 7),
    /// except for objects that could not be read, which the informer's
    /// [`status`](crate::Informer::status) counts. Empty before the first list.
    pub fn resource_version(&self) -> String {
        self.inner.indexer().resource_version().to_owned()
    }

    /// Waits until `condition` holds, and checks it after each change of the cache. Returns whether
    /// it holds: `false` after `limit`, or if the informer stops before. The condition may use the
    /// informer and its listers. During the wait, the informer's back-off is
    /// [short](crate::Informer::shorten_backoff).
    pub async fn wait_until(&self, limit: Duration, condition: impl Fn() -> bool) -> bool {
        if condition() {
            return true;
        }
        let mut progress = self.inner.progress();
        let _short = self.inner.shorten_backoff();
        let wait = async {
            loop {
                // The borrow ends before the condition, which may borrow too. A change during the
                // condition ends the wait below.
                let stopped = progress.borrow_and_update().stopped;
                if condition() || stopped || progress.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(limit, wait).await;
        condition()
    }

    /// Waits until the cache has reached a version, such as that of an object that was just
    /// written. It returns at once if the version is not a number or the informer is stopped.
    pub async fn wait_for_version(&self, version: &str, limit: Duration) -> Result<(), Error> {
        if ResourceVersion::parse(version).is_err() {
            let kind = self.inner.kind().to_owned();
            return Err(Error::IncomparableVersion { kind, version: version.to_owned() });
        }
        let reached = || {
            let indexer = self.inner.indexer();
            compare_resource_version(indexer.resource_version(), version).is_ok_and(Ordering::is_ge)
        };
        if self.wait_until(limit, reached).await {
            return Ok(());
        }
        Err(Error::VersionNotReached {
            kind: self.inner.kind().to_owned(),
            wanted: version.to_owned(),
            reached: self.resource_version(),
            waited: limit,
            stopped: self.inner.progress().borrow().stopped,
        })
    }
}
