//! What was written through a client and has to be seen in its caches.
//!
//! [`Writes`] is the thin face: it has the lock, reads the clock and the caches, and keeps one
//! `Core` for each resource. `core.rs` and `wanted.rs` are pure: they are given the time and the
//! caches. [`CacheReader`] waits.
//!
//! # States
//!
//! For each object and each cache there is a state of the last write, and one of each deletion.
//! Events are answers of the server, and looks at the cache. A dash stands for an event that cannot
//! happen, or changes nothing.
//!
//! The last write (`Unseen`; *seen* if the cache is not in the list):
//!
//! | state | a read | written, selected | written, left the selection | look: reached it | look: behind | deleted |
//! |---|---|---|---|---|---|---|
//! | seen | shows what it finds | awaited | leaving | – | – | seen |
//! | awaited | waits | awaited | leaving | seen | – | seen |
//! | leaving | shows nothing older | returning | leaving | seen | – | seen |
//! | returning | waits | returning | leaving | seen | – | seen |
//!
//! A deletion (`Deleted`; *passed* if the cache is not in the list):
//!
//! | state | a read | look: shows the object | look: absent, has been there | look: absent, may be before it | deleted again |
//! |---|---|---|---|---|---|
//! | expected | does not show the object | shown | passed or absent | – | – |
//! | shown | does not show the object | – | passed or absent | passed or absent | – |
//! | absent | does not show the object | shown | – | – | – |
//!
//! A deletion begins as *absent* where the cache has shown the object, otherwise as *expected*. A
//! cache without selectors is then *passed*; one that selects stays *absent*, because the object
//! may come back into the selection. *Returning* differs from *awaited* for reads that began before
//! the object came back: they show nothing older than the write that took it out. A new cache
//! begins as *awaited* or *leaving*, and *expected*. A sweep forgets what is seen and passed
//! everywhere.
//!
//! `core/tests.rs` has a test for each cell of the tables (`each_look_moves_a_deletion`,
//! `each_event_moves_the_last_write`), and a property test against a model of server and caches.

mod core;
mod reader;
mod wanted;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_cache::{Cached, ObjectKey};
use steersman_wire::ResourceVersion;
use tokio::time::Instant;

use self::core::{CacheView, Core, Outdated, Pending, Shown, ShownObject};
use crate::caches::{CacheEntry, Selected};

pub(crate) use self::core::ReadScope;
pub(crate) use reader::CacheReader;
pub(crate) use wanted::{SeenBefore, Written};

/// How many times a read looks at a cache while others may settle suspects.
const UNLOCKED_LOOKS: usize = 2;

/// The last write of each object, and its deletion, by resource, as long as a cache may show
/// something older.
///
/// **What a read costs.** Each cache has two sets of objects. It has not shown the *awaited* ones
/// yet: a read waits for those that it covers. Of the *suspects* it may show a state that must not
/// be seen any more: a read looks up in that set what it has found. So a list pays for writes that
/// the cache has not shown and for its own result, and not for what was deleted. A cache without
/// selectors that has caught up has no suspects (test
/// `a_list_does_not_pay_for_finalizations_that_the_cache_has_shown`).
///
/// **When a deletion is settled.** The server does not tell the version of a deletion. A cache
/// without selectors has passed it if it has once been at a time when the object existed, and does
/// not show it now. From a cache that selects, an object can also be absent because others took it
/// out of the selection, and it can come back before it is deleted. There, and where the object was
/// never seen, the deletion stays *unproven*.
///
/// **Memory** is bounded, for each resource. At most these are remembered: twice the states that a
/// cache has not reached or still shows although they are deleted, twice 1,024 unproven deletions,
/// and 256 (tests `what_all_caches_have_seen_is_forgotten`,
/// `a_list_does_not_pay_for_deletions_from_a_cache_that_selects`). An unproven deletion is
/// forgotten after 300 s, or when 1,024 later ones are.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Anything was ever written.
    any: AtomicBool,
    by_resource: Mutex<HashMap<String, Remembered>>,
}

#[derive(Debug, Default)]
struct Remembered {
    core: Core,
    /// A warning has been logged that versions of this resource do not compare.
    warned: bool,
}

impl CacheView for CacheEntry {
    fn number(&self) -> usize {
        self.number
    }

    fn is_unselective(&self) -> bool {
        self.is_unselective()
    }

    fn can_hold(&self, key: &ObjectKey) -> bool {
        self.can_hold(key)
    }

    fn selects(&self, key: &ObjectKey, written: &Written) -> Selected {
        self.selects(key, written.labels(), |field| written.field(field))
    }

    fn reached(&self) -> String {
        self.lookup().resource_version()
    }

    fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<Shown<'_>>) -> T) -> T {
        let meta = self.lookup().meta(key);
        look(meta.as_ref().map(|meta| Shown { uid: meta.uid(), version: meta.resource_version() }))
    }
}

impl<V: CacheView> CacheView for Arc<V> {
    fn number(&self) -> usize {
        (**self).number()
    }

    fn is_unselective(&self) -> bool {
        (**self).is_unselective()
    }

    fn can_hold(&self, key: &ObjectKey) -> bool {
        (**self).can_hold(key)
    }

    fn selects(&self, key: &ObjectKey, written: &Written) -> Selected {
        (**self).selects(key, written)
    }

    fn reached(&self) -> String {
        (**self).reached()
    }

    fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<Shown<'_>>) -> T) -> T {
        (**self).look(key, look)
    }
}

impl Outdated {
    /// Whether the cache still shows it.
    pub(crate) fn is_shown(&self, entry: &CacheEntry) -> bool {
        self.is_shown_by(entry)
    }
}

impl Writes {
    fn by_resource(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.by_resource.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many objects are remembered.
    pub(crate) fn len(&self) -> usize {
        self.by_resource().values().map(|remembered| remembered.core.len()).sum()
    }

    /// The server has answered with this state of an object.
    pub(crate) fn written(&self, caches: &[Arc<CacheEntry>], resource: &str, key: &ObjectKey, written: Written) {
        let mut by_resource = self.by_resource();
        self.any.store(true, atomic::Ordering::Release);
        let remembered = by_resource.entry(resource.to_owned()).or_default();
        if ResourceVersion::parse(&written.version).is_err() {
            if !std::mem::replace(&mut remembered.warned, true) {
                let version = &written.version;
                tracing::warn!(
                    resource,
                    version,
                    "versions that do not compare: reads do not wait for what was written"
                );
            }
            return;
        }
        remembered.core.written(caches, key, written);
        remembered.core.sweep_if_due(caches, Instant::now());
    }

    /// An object has been deleted: the one with the uid and the version in the answer, as far as
    /// the answer has them, and those that the caches showed before the request was sent.
    pub(crate) fn deleted(
        &self,
        caches: &[Arc<CacheEntry>],
        resource: &str,
        key: &ObjectKey,
        (uid, version): (Option<&str>, Option<&str>),
        before: &SeenBefore,
    ) {
        let mut by_resource = self.by_resource();
        self.any.store(true, atomic::Ordering::Release);
        let core = &mut by_resource.entry(resource.to_owned()).or_default().core;
        let version = version.filter(|version| ResourceVersion::parse(version).is_ok());
        let now = Instant::now();
        core.deleted(caches, now, key, (uid.filter(|uid| !uid.is_empty()), version), before);
        core.sweep_if_due(caches, now);
    }

    /// What was written so far of the objects to be read, as far as this cache may not show it.
    pub(crate) fn pending(&self, which: ReadScope<'_>, entry: &Arc<CacheEntry>) -> Pending {
        // Most reads end here, or have nothing to look at below.
        if !self.any.load(atomic::Ordering::Acquire) {
            return Pending::default();
        }
        let mut by_resource = self.by_resource();
        let remembered = by_resource.get_mut(&entry.identity.resource);
        remembered.map_or_else(Pending::default, |remembered| remembered.core.pending(which, entry))
    }

    /// The first object that the cache has to show and does not, and what it lacks.
    pub(crate) fn missing(&self, pending: &Pending, entry: &CacheEntry) -> Option<(ObjectKey, String)> {
        self.by_resource().get_mut(&entry.identity.resource)?.core.missing(pending, entry)
    }

    /// Looks at a cache, and returns what was found with the first object in it that must not be
    /// seen any more.
    ///
    /// Between the look and the check the cache may apply a deletion, and another read may then
    /// settle it. The check no longer knows of it, although the look still found the object. So the
    /// look is repeated if a suspect was settled since it began, and from the third time on nothing
    /// is settled until the check is done.
    pub(crate) fn look<K, T>(
        &self,
        pending: &Pending,
        entry: &CacheEntry,
        look: impl Fn() -> T,
        objects: impl Fn(&T) -> &[Cached<K>],
    ) -> (T, Option<Outdated>) {
        let Some(below) = pending.below else { return (look(), None) };
        for _ in 0..UNLOCKED_LOOKS {
            let before = self.settled(entry);
            let found = look();
            let mut by_resource = self.by_resource();
            let Some(remembered) = by_resource.get_mut(&entry.identity.resource) else { return (found, None) };
            if remembered.core.settled() == before {
                let outdated = outdated(remembered, below, objects(&found), entry);
                return (found, outdated);
            }
        }
        let mut by_resource = self.by_resource();
        let found = look();
        let remembered = by_resource.get_mut(&entry.identity.resource);
        let outdated = remembered.and_then(|it| outdated(it, below, objects(&found), entry));
        (found, outdated)
    }

    fn settled(&self, entry: &CacheEntry) -> u64 {
        self.by_resource().get(&entry.identity.resource).map_or(0, |remembered| remembered.core.settled())
    }

    #[cfg(test)]
    fn looks(&self) -> usize {
        self.by_resource().values().map(|remembered| remembered.core.looks).sum()
    }
}

fn outdated<K>(remembered: &mut Remembered, below: u64, found: &[Cached<K>], entry: &CacheEntry) -> Option<Outdated> {
    let found = found.iter().map(Cached::meta).map(|meta| ShownObject {
        namespace: meta.namespace(),
        name: meta.name(),
        shown: Shown { uid: meta.uid(), version: meta.resource_version() },
    });
    remembered.core.outdated(below, entry.number, found)
}
