//! Reads from one cache that show earlier writes.

use std::sync::Arc;
use std::time::Duration;

use steersman_cache::{Cached, Informer, Lister, Object, ObjectKey};
use steersman_wire::LabelSelector;
use tokio::time::Instant;

use super::{ReadScope, Writes};
use crate::Error;
use crate::caches::{CacheEntry, CacheHandle};
use crate::flight_recorder::log;

/// How long a read waits for a cache to sync if it waits for nothing else.
const SYNC_LIMIT: Duration = Duration::from_secs(10);
/// How many times a read is repeated because an older state came in between.
const READS_MAX: usize = 16;

/// Reads the cache of one kind with the guarantee of [`CachedClient`](crate::CachedClient). A read
/// for which no write is pending costs little more than the lookup itself.
pub(crate) struct CacheReader<K> {
    informer: Informer<K>,
    lister: Lister<K>,
    entry: Arc<CacheEntry>,
    writes: Arc<Writes>,
    /// How long a read waits for earlier writes. `None`: it does not wait.
    limit: Option<Duration>,
}

impl<K: Object> CacheReader<K> {
    pub(crate) fn new(
        CacheHandle { informer, entry }: CacheHandle<K>,
        writes: &Arc<Writes>,
        limit: Option<Duration>,
    ) -> Self {
        Self { lister: informer.lister(), informer, entry, writes: Arc::clone(writes), limit }
    }

    pub(crate) fn lister(&self) -> &Lister<K> {
        &self.lister
    }

    /// One object. Fails if the cache can never hold it.
    pub(crate) async fn get(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        self.check_covers(ReadScope::One(key), None)?;
        self.read(ReadScope::One(key), |lister| lister.get_by_key(key), Option::as_slice).await
    }

    /// Fails if the cache can hold nothing that the read asks for.
    pub(crate) fn check_covers(&self, which: ReadScope<'_>, labels: Option<&LabelSelector>) -> Result<(), Error> {
        self.entry.check_covers(which, labels)
    }

    /// Reads from the cache once it has synced and shows all writes before this call.
    pub(crate) async fn read<T>(
        &self,
        which: ReadScope<'_>,
        look: impl Fn(&Lister<K>) -> T,
        objects: impl Fn(&T) -> &[Cached<K>],
    ) -> Result<T, Error> {
        if !self.informer.has_synced() {
            let _hurry = self.informer.shorten_backoff();
            self.informer.wait_for_sync(self.limit.unwrap_or(SYNC_LIMIT)).await?;
        }
        let Some(limit) = self.limit else { return Ok(look(&self.lister)) };
        let pending = self.writes.pending(which, &self.entry);
        if pending.is_empty() {
            return Ok(look(&self.lister));
        }
        let started = Instant::now();
        let left = || limit.saturating_sub(started.elapsed());
        let missing = || self.writes.missing(&pending, &self.entry);
        let mut has_waited = missing().is_some();
        if has_waited
            && !self.lister.wait_until(left(), || missing().is_none()).await
            && let Some((key, wanted)) = missing()
        {
            return Err(self.late(&key, wanted, started.elapsed()).await);
        }
        let mut rereads = 0;
        loop {
            let (found, outdated) = self.writes.look(&pending, &self.entry, || look(&self.lister), &objects);
            let Some(outdated) = outdated else {
                if has_waited {
                    log::waited(&self.entry.identity.kind, started.elapsed());
                }
                return Ok(found);
            };
            has_waited = true;
            if outdated.is_shown(&self.entry) {
                // Each round removes one object that must not be seen, or ends at the deadline.
                if !self.lister.wait_until(left(), || !outdated.is_shown(&self.entry)).await {
                    return Err(self.late(&outdated.key, outdated.wanted(), started.elapsed()).await);
                }
                continue;
            }
            rereads += 1;
            if rereads == READS_MAX {
                // A state that is known to be older than a write is not returned.
                return Err(self.stale(&outdated.key, outdated.wanted(), started.elapsed()));
            }
        }
    }

    /// Why a wait ended without its condition: the informer has ended, or the deadline has passed.
    async fn late(&self, key: &ObjectKey, wanted: String, waited: Duration) -> Error {
        if self.informer.is_stopped() {
            let stopped = || steersman_cache::Error::Stopped { kind: self.entry.identity.kind.clone() };
            // Names the panic if there was one.
            return self.informer.wait_for_sync(Duration::ZERO).await.err().unwrap_or_else(stopped).into();
        }
        self.stale(key, wanted, waited)
    }

    fn stale(&self, key: &ObjectKey, wanted: String, waited: Duration) -> Error {
        let (kind, reached) = (self.entry.identity.kind.clone(), self.lister.resource_version());
        Error::Stale { kind, key: key.to_string(), wanted, reached, waited }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_client::DeleteParams;
    use steersman_testing::Embedded;

    use super::*;
    use crate::{Manager, kind};

    #[tokio::test(start_paused = true)]
    async fn what_stays_older_than_what_was_written_is_an_error() {
        let server = Embedded::empty();
        let manager = Manager::new(server.client());
        manager.declare(kind::<ConfigMap>()).unwrap();
        let running = manager.clone();
        tokio::spawn(async move { running.start(std::future::pending()).await });
        let maps = manager.client().objects::<ConfigMap>();
        let mut map = ConfigMap::default();
        (map.metadata.namespace, map.metadata.name) = (Some("default".to_owned()), Some("m".to_owned()));
        maps.create(&map).await.unwrap();
        let key = ObjectKey::new("default", "m");
        let before = maps.get(&key).await.unwrap();
        maps.delete(&key, &DeleteParams::default()).await.unwrap();
        let reads = std::cell::Cell::new(0);
        let look = |_: &Lister<ConfigMap>| {
            reads.set(reads.get() + 1);
            Some(before.clone())
        };
        let reader = manager.client().reader(manager.caches().find(maps.identity()).unwrap());
        let error = reader.read(ReadScope::One(&key), look, Option::as_slice).await.unwrap_err();
        assert!(error.is_stale() && error.to_string().contains("default/m"), "{error}");
        // The first of them waited until the cache no longer showed the object.
        assert_eq!(reads.get(), READS_MAX + 1);
        assert!(maps.get_opt(&key).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_another_read_settles_is_still_checked() {
        let server = Embedded::empty();
        let manager = Manager::new(server.client());
        manager.declare(kind::<ConfigMap>()).unwrap();
        let running = manager.clone();
        tokio::spawn(async move { running.start(std::future::pending()).await });
        let maps = manager.client().objects::<ConfigMap>();
        let mut map = ConfigMap::default();
        (map.metadata.namespace, map.metadata.name) = (Some("default".to_owned()), Some("m".to_owned()));
        maps.create(&map).await.unwrap();
        let key = ObjectKey::new("default", "m");
        let before = maps.get(&key).await.unwrap();
        maps.delete(&key, &DeleteParams::default()).await.unwrap();
        let reader = manager.client().reader(manager.caches().find(maps.identity()).unwrap());
        let reads = std::cell::Cell::new(0);
        let look = |lister: &Lister<ConfigMap>| {
            reads.set(reads.get() + 1);
            match reads.get() {
                1 => Some(before.clone()),
                // The cache applies the deletion after this lookup, and another read settles it
                // there.
                2 => {
                    assert!(lister.get_by_key(&key).is_none());
                    reader.writes.pending(ReadScope::All, &reader.entry);
                    Some(before.clone())
                }
                _ => lister.get_by_key(&key),
            }
        };
        let found = reader.read(ReadScope::One(&key), look, Option::as_slice).await.unwrap();
        assert!(found.is_none(), "the deletion was answered before the read began");
        assert_eq!(reads.get(), 3);
    }
}
