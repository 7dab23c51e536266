//! The writes of a client that its caches have to show.

mod reader;
mod wanted;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steersman_cache::{Cached, ObjectKey};
use steersman_wire::{ResourceVersion, compare_resource_version};

use crate::caches::CacheEntry;
use wanted::{Deletion, Standing, Wanted};

pub(crate) use reader::CacheReader;
pub(crate) use wanted::{SeenBefore, Written};

/// How long a deletion is remembered if nothing proves that a cache has passed it.
const UNPROVEN_KEPT: Duration = Duration::from_secs(300);
/// How many such deletions are remembered for a resource.
const UNPROVEN_MAX: usize = 1_024;
/// From this number of remembered states on, those that all caches have passed are dropped.
const SWEEP: usize = 256;
/// How many suspects a list checks again.
const SETTLED_BY_A_LIST: usize = 8;
/// How many times a read looks into a cache while others may settle suspects.
const UNLOCKED_LOOKS: usize = 2;

/// The last write of each object, and its deletion, by resource, as long as a cache may show
/// something older.
///
/// **Cost of a read.** Each cache has two sets of objects. It has not shown the *awaited* ones yet:
/// a read waits for those that it covers. For the *suspects*, it may show a state that must no
/// longer be seen: a read looks up its results in that set. So a list pays for writes that the
/// cache has not shown and for its own result, but not for deleted objects. A cache without
/// selectors that has caught up has no suspects (test
/// `a_list_does_not_pay_for_finalizations_that_the_cache_has_shown`).
///
/// **When a deletion is settled.** The server does not return the version of a deletion. A cache
/// without selectors has passed it if the cache has reached a version at which the object existed,
/// and does not show the object now. In a cache with selectors, an object can also be absent
/// because another client took it out of the selection, and it can come back before it is deleted.
/// There, and where the object was never seen, the deletion stays *unproven*.
///
/// **Memory** is bounded, for each resource. At most these are remembered: twice the states that a
/// cache has not reached or still shows although they are deleted, twice 1,024 unproven deletions,
/// and 256 (tests `what_all_caches_have_seen_is_forgotten`,
/// `a_list_does_not_pay_for_deletions_from_a_cache_that_selects`). An unproven deletion is
/// forgotten after 300 s, or when 1,024 later ones are.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Whether there was any write.
    any: AtomicBool,
    by_resource: Mutex<HashMap<String, Remembered>>,
    /// How many times a read has looked up a remembered object.
    #[cfg(test)]
    looks: atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Remembered {
    objects: HashMap<ObjectKey, Wanted>,
    /// By their numbers.
    caches: HashMap<usize, Open>,
    /// How many states and deletions are remembered.
    states: usize,
    /// The number of the next write.
    next: u64,
    /// How many times an object stopped being a suspect of a cache.
    settled: u64,
    /// At this number, drop the states that all caches have passed.
    sweep_at: usize,
    /// A warning has been logged that versions of this resource do not compare.
    warned: bool,
}

/// The objects that one cache may not show correctly.
#[derive(Debug)]
struct Open {
    entry: Weak<CacheEntry>,
    /// Objects that the cache has to show, and has not.
    awaited: HashSet<ObjectKey>,
    /// Objects of which the cache may show a state that must no longer be seen.
    suspects: HashSet<ObjectKey>,
}

/// The objects that a read covers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadScope<'a> {
    One(&'a ObjectKey),
    Namespace(&'a str),
    All,
}

/// The writes that a read has to show: they happened before the read began.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The states that the cache has not shown.
    awaited: Vec<(ObjectKey, Arc<Written>)>,
    /// The result of the read is checked against writes with a number below this one.
    below: Option<u64>,
}

/// An object that a read has found and must not return.
#[derive(Debug)]
pub(crate) struct Outdated {
    pub(crate) key: ObjectKey,
    write: Write,
}

#[derive(Debug)]
enum Write {
    /// The object with this uid is deleted.
    Deletion(String),
    /// The object was written at this version.
    Version(String),
}

impl ReadScope<'_> {
    fn includes(self, key: &ObjectKey) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Namespace(namespace) => key.namespace() == Some(namespace),
            Self::All => true,
        }
    }
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.below.is_none()
    }
}

impl Outdated {
    /// Whether the cache still shows it.
    pub(crate) fn is_shown(&self, entry: &CacheEntry) -> bool {
        entry.lookup().meta(&self.key).is_some_and(|cached| match &self.write {
            Write::Deletion(uid) => cached.uid() == uid,
            Write::Version(version) => !has_reached(cached.resource_version(), version),
        })
    }

    /// What the cache lacks, for an error message.
    pub(crate) fn wanted(&self) -> String {
        match &self.write {
            Write::Deletion(uid) => format!("the deletion of uid {uid}"),
            Write::Version(version) => format!("version {version}"),
        }
    }
}

impl Writes {
    fn by_resource(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.by_resource.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn looked_at(&self, _entries: usize) {
        #[cfg(test)]
        self.looks.fetch_add(_entries, atomic::Ordering::Relaxed);
    }

    /// How many objects are remembered.
    pub(crate) fn len(&self) -> usize {
        self.by_resource().values().map(|remembered| remembered.objects.len()).sum()
    }

    /// Records a state of an object that the server has returned.
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
                    "resource versions do not compare: reads do not wait for writes of this resource"
                );
            }
            return;
        }
        remembered.enrol(caches);
        remembered.written(key, written);
        remembered.sweep_if_due();
    }

    /// Records a deletion: of the object with the uid and the version in the response, if the
    /// response has them, and of the objects that the caches showed before the request was sent.
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
        let remembered = by_resource.entry(resource.to_owned()).or_default();
        remembered.enrol(caches);
        let version = version.filter(|version| ResourceVersion::parse(version).is_ok());
        remembered.deleted(key, uid.filter(|uid| !uid.is_empty()), version, before);
        remembered.sweep_if_due();
    }

    /// The earlier writes of the objects to be read that this cache may not show.
    pub(crate) fn pending(&self, which: ReadScope<'_>, entry: &Arc<CacheEntry>) -> Pending {
        // Most reads end here, or find nothing to check below.
        if !self.any.load(atomic::Ordering::Acquire) {
            return Pending::default();
        }
        let mut by_resource = self.by_resource();
        let Some(remembered) = by_resource.get_mut(&entry.identity.resource) else { return Pending::default() };
        remembered.enrol(std::slice::from_ref(entry));
        if !matches!(which, ReadScope::One(_)) {
            self.looked_at(remembered.settle_some(entry));
        }
        let Some(open) = remembered.caches.get(&entry.number) else { return Pending::default() };
        let is_suspect = match which {
            ReadScope::One(key) => open.suspects.contains(key),
            ReadScope::Namespace(_) | ReadScope::All => !open.suspects.is_empty(),
        };
        let unseen: Vec<ObjectKey> = match which {
            ReadScope::One(key) => open.awaited.get(key).cloned().into_iter().collect(),
            which => open.awaited.iter().filter(|key| which.includes(key)).cloned().collect(),
        };
        self.looked_at(unseen.len());
        let mut awaited = Vec::new();
        if !unseen.is_empty() {
            let reached = entry.lookup().resource_version();
            for key in unseen {
                let written = remembered.review(&key, entry, &reached);
                awaited.extend(written.map(|written| (key, written)));
            }
        }
        // While a read waits for an object, it may become a suspect.
        let below = (is_suspect || !awaited.is_empty()).then_some(remembered.next);
        Pending { awaited, below }
    }

    /// The first object that the cache has to show and does not, and what it lacks. A later write
    /// satisfies the wait as well, but is not required.
    pub(crate) fn missing(&self, pending: &Pending, entry: &CacheEntry) -> Option<(ObjectKey, String)> {
        if pending.awaited.is_empty() {
            return None;
        }
        let reached = entry.lookup().resource_version();
        let mut by_resource = self.by_resource();
        let remembered = by_resource.get_mut(&entry.identity.resource)?;
        pending.awaited.iter().find_map(|(key, written)| {
            // Shown; or deleted or taken out of the selection by now, and then what the read finds
            // is checked.
            remembered.review(key, entry, &reached)?;
            let is_missing = !written.is_seen(entry.lookup().meta(key).as_ref(), &reached);
            is_missing.then(|| (key.clone(), format!("version {}", written.version)))
        })
    }

    /// Looks into a cache, and returns the result with the first object in it that must no longer
    /// be seen.
    ///
    /// Between the lookup and the check the cache may apply a deletion, and another read may then
    /// settle it. The check no longer knows of it, although the lookup still found the object. So
    /// the lookup is repeated if a suspect was settled since it began. From the third attempt on,
    /// nothing is settled until the check is done.
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
            let by_resource = self.by_resource();
            let Some(remembered) = by_resource.get(&entry.identity.resource) else { return (found, None) };
            if remembered.settled == before {
                let outdated = self.outdated(remembered, below, objects(&found), entry);
                return (found, outdated);
            }
        }
        let by_resource = self.by_resource();
        let found = look();
        let remembered = by_resource.get(&entry.identity.resource);
        let outdated = remembered.and_then(|it| self.outdated(it, below, objects(&found), entry));
        (found, outdated)
    }

    fn settled(&self, entry: &CacheEntry) -> u64 {
        self.by_resource().get(&entry.identity.resource).map_or(0, |remembered| remembered.settled)
    }

    /// The first of the objects in the result of a read that must no longer be seen.
    fn outdated<K>(
        &self,
        remembered: &Remembered,
        below: u64,
        found: &[Cached<K>],
        entry: &CacheEntry,
    ) -> Option<Outdated> {
        let open = remembered.caches.get(&entry.number)?;
        self.looked_at(found.len());
        let mut key = String::new();
        found.iter().map(Cached::meta).find_map(|meta| {
            key.clear();
            if !meta.namespace().is_empty() {
                key.extend([meta.namespace(), "/"]);
            }
            key.push_str(meta.name());
            let key = open.suspects.get(&*key)?;
            let write = remembered.objects.get(key)?.contradicts(meta, below, entry)?;
            Some(Outdated { key: key.clone(), write })
        })
    }
}

impl Open {
    /// Whether the object was a suspect and no longer is.
    fn set(&mut self, key: &ObjectKey, Standing { awaited, suspect }: Standing) -> bool {
        let was_suspect = !suspect && self.suspects.contains(key);
        for (is_in, set) in [(awaited, &mut self.awaited), (suspect, &mut self.suspects)] {
            match is_in {
                true if !set.contains(key) => drop(set.insert(key.clone())),
                true => {}
                false => drop(set.remove(key)),
            }
        }
        was_suspect
    }
}

impl Remembered {
    /// Caches that come later may be behind what is remembered as well.
    fn enrol(&mut self, caches: &[Arc<CacheEntry>]) {
        for entry in caches {
            if self.caches.contains_key(&entry.number) {
                continue;
            }
            let mut open = Open { entry: Arc::downgrade(entry), awaited: HashSet::new(), suspects: HashSet::new() };
            let reached = entry.lookup().resource_version();
            for (key, wanted) in self.objects.iter_mut().filter(|(key, _)| entry.can_hold(key)) {
                wanted.open_in(entry.number);
                wanted.review(key, &reached, entry);
                open.set(key, wanted.standing(key, entry));
            }
            self.caches.insert(entry.number, open);
        }
    }

    /// The caches that still exist.
    fn enrolled(&self) -> Vec<Arc<CacheEntry>> {
        self.caches.values().filter_map(|open| open.entry.upgrade()).collect()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Checks a cache again: the state of the object that it has to show and does not.
    fn review(&mut self, key: &ObjectKey, entry: &CacheEntry, reached: &str) -> Option<Arc<Written>> {
        let open = self.caches.get_mut(&entry.number)?;
        let Some(wanted) = self.objects.get_mut(key) else {
            self.settled += u64::from(open.set(key, Standing::default()));
            return None;
        };
        wanted.review(key, reached, entry);
        let standing = wanted.standing(key, entry);
        self.settled += u64::from(open.set(key, standing));
        wanted.written.clone().filter(|_| standing.awaited)
    }

    /// Checks some suspects again, so that a cache that has caught up soon has none. A cache with
    /// selectors would keep them.
    fn settle_some(&mut self, entry: &CacheEntry) -> usize {
        let open = self.caches.get(&entry.number).filter(|_| entry.is_unselective());
        let suspects = open.into_iter().flat_map(|open| &open.suspects).take(SETTLED_BY_A_LIST);
        let suspects: Vec<_> = suspects.cloned().collect();
        if !suspects.is_empty() {
            let reached = entry.lookup().resource_version();
            suspects.iter().for_each(|key| drop(self.review(key, entry, &reached)));
        }
        suspects.len()
    }

    fn review_everywhere(&mut self, key: &ObjectKey, caches: &[Arc<CacheEntry>]) {
        for entry in caches {
            let reached = entry.lookup().resource_version();
            self.review(key, entry, &reached);
        }
    }

    fn written(&mut self, key: &ObjectKey, written: Written) {
        let (number, caches) = (self.number(), self.enrolled());
        let wanted = self.objects.entry(key.clone()).or_default();
        // Two responses may arrive in another order than the server wrote.
        let is_older = |before: &Arc<Written>| {
            compare_resource_version(&before.version, &written.version).is_ok_and(std::cmp::Ordering::is_gt)
        };
        if wanted.written.as_ref().is_some_and(is_older) || wanted.is_deleted(&written.uid) {
            return;
        }
        self.states += usize::from(wanted.written.is_none());
        let holders = caches.iter().filter(|entry| entry.can_hold(key)).map(|entry| entry.number);
        wanted.set_written(written, number, holders.collect());
        self.review_everywhere(key, &caches);
    }

    fn deleted(&mut self, key: &ObjectKey, uid_in_response: Option<&str>, version: Option<&str>, before: &SeenBefore) {
        // An object that a cache showed before and that has another uid was deleted before this one
        // was created.
        let uids: BTreeSet<&str> = before.uids().chain(uid_in_response).collect();
        if uids.is_empty() {
            return;
        }
        let (number, caches) = (self.number(), self.enrolled());
        // Which caches have shown the last state that was written.
        self.review_everywhere(key, &caches);
        let holders: Vec<_> = caches.iter().filter(|entry| entry.can_hold(key)).map(|entry| entry.number).collect();
        let wanted = self.objects.entry(key.clone()).or_default();
        let mut last = wanted.take_written_of(&uids);
        self.states -= usize::from(last.is_some());
        for uid in uids {
            if wanted.is_deleted(uid) {
                continue;
            }
            let version = version.filter(|_| uid_in_response == Some(uid));
            let last = last.take_if(|last| last.written.uid == uid);
            let deletion = Deletion::new(uid, number, version, last, &holders, before);
            wanted.deletions.push(deletion);
            self.states += 1;
        }
        self.review_everywhere(key, &caches);
    }

    /// Drops what all caches have passed, once the number has doubled since the last time.
    fn sweep_if_due(&mut self) {
        if self.states <= self.sweep_at.max(SWEEP) {
            return;
        }
        self.caches.retain(|_, open| open.entry.strong_count() > 0);
        let caches = self.enrolled();
        for entry in &caches {
            let reached = entry.lookup().resource_version();
            self.objects.iter_mut().for_each(|(key, wanted)| wanted.review(key, &reached, entry));
        }
        let deletions = self.objects.values().flat_map(|wanted| &wanted.deletions);
        let mut unproven: Vec<_> = deletions.filter(|deletion| deletion.is_unproven()).map(|it| it.number).collect();
        unproven.sort_unstable();
        let excess = unproven.len().saturating_sub(UNPROVEN_MAX);
        let oldest_kept = unproven.get(excess).copied().unwrap_or(u64::MAX);
        let is_enrolled = |cache: usize| self.caches.contains_key(&cache);
        self.objects.retain(|_, wanted| {
            wanted.close(is_enrolled);
            wanted.deletions.retain(|deletion| {
                let is_old = deletion.number < oldest_kept || deletion.since.elapsed() >= UNPROVEN_KEPT;
                deletion.is_open() && !(is_old && deletion.is_unproven())
            });
            !wanted.is_settled()
        });
        for entry in &caches {
            let Some(open) = self.caches.get_mut(&entry.number) else { continue };
            (open.awaited, open.suspects) = Default::default();
            self.objects.iter().for_each(|(key, wanted)| _ = open.set(key, wanted.standing(key, entry)));
        }
        self.settled += 1;
        self.states = self.objects.values().map(Wanted::states).sum();
        self.sweep_at = self.states * 2;
    }
}

/// Whether a version has reached the wanted one. A version that does not compare counts as reached:
/// there is no way to know.
fn has_reached(version: &str, wanted: &str) -> bool {
    compare_resource_version(version, wanted).map_or(!version.is_empty(), std::cmp::Ordering::is_ge)
}
