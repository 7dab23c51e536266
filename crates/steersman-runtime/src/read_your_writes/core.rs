//! The pure core: what the caches of one resource have to show, and must not show any more.
//!
//! It reads no cache and no clock. Each call is given the caches, as [`CacheView`]s, and the time.
//! `wanted.rs` has the state of one object in one cache.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use steersman_cache::ObjectKey;
use steersman_wire::compare_resource_version;
use tokio::time::Instant;

use super::wanted::{Deletion, SeenBefore, Standing, Wanted, Write, Written, has_reached};
use crate::caches::Selected;

#[cfg(test)]
mod tests;

/// How long a deletion is remembered of which nothing proves that a cache has passed it.
pub(super) const UNPROVEN_KEPT: Duration = Duration::from_secs(300);
/// How many such deletions of a resource are remembered.
pub(super) const UNPROVEN_MAX: usize = 1_024;
/// The number of remembered states from which on those are looked for that all caches have passed.
pub(super) const SWEEP: usize = 256;
/// How many suspects a list looks at again.
pub(super) const SETTLED_BY_A_LIST: usize = 8;

/// A cache, as the core sees it.
pub(super) trait CacheView {
    /// Identifies the cache.
    fn number(&self) -> usize;

    /// Whether objects leave the cache only when they are deleted.
    fn is_unselective(&self) -> bool;

    /// Whether the cache can hold an object with this key, now or later.
    fn can_hold(&self, key: &ObjectKey) -> bool;

    /// Whether the cache keeps an object in the state that was written.
    fn selects(&self, key: &ObjectKey, written: &Written) -> Selected;

    /// The version that the cache has reached.
    fn reached(&self) -> String;

    /// Calls `look` with the state of the object that the cache shows.
    fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<Shown<'_>>) -> T) -> T;
}

/// A state of an object, as a cache shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) uid: &'a str,
    pub(super) version: &'a str,
}

/// An object in the state that a read shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownObject<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) shown: Shown<'a>,
}

/// The objects that a read covers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadScope<'a> {
    One(&'a ObjectKey),
    Namespace(&'a str),
    All,
}

/// What a read has to show: it was written before the read began.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The states that the cache has not shown.
    awaited: Vec<(ObjectKey, Arc<Written>)>,
    /// What the read finds is checked against writes with a number below.
    pub(super) below: Option<u64>,
}

/// Something that a read has found and must not show.
#[derive(Debug)]
pub(crate) struct Outdated {
    pub(crate) key: ObjectKey,
    write: Write,
}

/// The last write of each object of a resource, and its deletion, as long as a cache may show
/// something older.
#[derive(Debug, Default)]
pub(super) struct Core {
    objects: HashMap<ObjectKey, Wanted>,
    /// By their numbers.
    caches: BTreeMap<usize, Open>,
    /// How many states and deletions are remembered.
    states: usize,
    /// The number of the next write.
    next: u64,
    /// How many times an object was a suspect of a cache and then was none any more.
    settled: u64,
    /// When to look for what all caches have passed.
    sweep_at: usize,
    /// How many times a read has looked for a remembered object.
    #[cfg(test)]
    pub(super) looks: usize,
}

/// What one cache may not show as it should. The sets are ordered, so that equal runs look at the
/// same objects.
#[derive(Debug, Default)]
struct Open {
    /// Objects that the cache has to show, and has not.
    awaited: BTreeSet<ObjectKey>,
    /// Objects of which the cache may show what must not be seen any more.
    suspects: BTreeSet<ObjectKey>,
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
    pub(super) fn is_shown_by(&self, cache: &impl CacheView) -> bool {
        cache.look(&self.key, |shown| {
            shown.is_some_and(|shown| match &self.write {
                Write::Deletion(uid) => shown.uid == uid,
                Write::Version(version) => !has_reached(shown.version, version),
            })
        })
    }

    /// What the cache lacks, for an error.
    pub(crate) fn wanted(&self) -> String {
        match &self.write {
            Write::Deletion(uid) => format!("the deletion of uid {uid}"),
            Write::Version(version) => format!("version {version}"),
        }
    }
}

impl Open {
    /// Returns `true` if the object was a suspect and is none now.
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

impl Core {
    /// How many objects are remembered.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Changes when a suspect of a cache is none any more.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    fn looked_at(&mut self, _objects: usize) {
        #[cfg(test)]
        {
            self.looks += _objects;
        }
    }

    /// Caches that come later may be behind what is remembered as well.
    fn enrol(&mut self, caches: &[impl CacheView]) {
        for cache in caches {
            if self.caches.contains_key(&cache.number()) {
                continue;
            }
            let mut open = Open::default();
            let reached = cache.reached();
            for (key, wanted) in self.objects.iter_mut().filter(|(key, _)| cache.can_hold(key)) {
                wanted.open_in(key, cache);
                wanted.review(key, &reached, cache);
                open.set(key, wanted.standing(cache.number()));
            }
            self.caches.insert(cache.number(), open);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Looks at a cache again: the state of the object that it has to show and does not.
    fn review(&mut self, key: &ObjectKey, cache: &impl CacheView, reached: &str) -> Option<Arc<Written>> {
        let open = self.caches.get_mut(&cache.number())?;
        let Some(wanted) = self.objects.get_mut(key) else {
            self.settled += u64::from(open.set(key, Standing::default()));
            return None;
        };
        wanted.review(key, reached, cache);
        let standing = wanted.standing(cache.number());
        self.settled += u64::from(open.set(key, standing));
        wanted.written.clone().filter(|_| standing.awaited)
    }

    /// Looks at some suspects again, so that a cache that has caught up soon has none. A cache that
    /// selects would keep them.
    fn settle_some(&mut self, cache: &impl CacheView) {
        let open = self.caches.get(&cache.number()).filter(|_| cache.is_unselective());
        let suspects = open.into_iter().flat_map(|open| &open.suspects).take(SETTLED_BY_A_LIST);
        let suspects: Vec<_> = suspects.cloned().collect();
        if !suspects.is_empty() {
            let reached = cache.reached();
            suspects.iter().for_each(|key| drop(self.review(key, cache, &reached)));
        }
        self.looked_at(suspects.len());
    }

    fn review_everywhere(&mut self, key: &ObjectKey, caches: &[impl CacheView]) {
        for cache in caches {
            let reached = cache.reached();
            self.review(key, cache, &reached);
        }
    }

    /// The server has answered with this state of an object.
    pub(super) fn written(&mut self, caches: &[impl CacheView], key: &ObjectKey, written: Written) {
        self.enrol(caches);
        let number = self.number();
        let wanted = self.objects.entry(key.clone()).or_default();
        // Two answers may come in another order than the server wrote.
        let is_older = |before: &Arc<Written>| {
            compare_resource_version(&before.version, &written.version).is_ok_and(std::cmp::Ordering::is_gt)
        };
        if wanted.written.as_ref().is_some_and(is_older) || wanted.is_deleted(&written.uid) {
            return;
        }
        self.states += usize::from(wanted.written.is_none());
        wanted.set_written(key, written, number, caches);
        self.review_everywhere(key, caches);
    }

    /// An object has been deleted: the one with the uid and the version in the answer, as far as
    /// the answer has them, and those that the caches showed before the request was sent.
    pub(super) fn deleted(
        &mut self,
        caches: &[impl CacheView],
        now: Instant,
        key: &ObjectKey,
        (answered, version): (Option<&str>, Option<&str>),
        before: &SeenBefore,
    ) {
        self.enrol(caches);
        // An object that a cache showed before, and that is another one, was deleted before this
        // one came.
        let uids: BTreeSet<&str> = before.uids().chain(answered).collect();
        if uids.is_empty() {
            return;
        }
        let number = self.number();
        // Which caches have shown the last state that was written.
        self.review_everywhere(key, caches);
        let holders: Vec<_> = caches.iter().filter(|cache| cache.can_hold(key)).map(CacheView::number).collect();
        let wanted = self.objects.entry(key.clone()).or_default();
        let mut last = wanted.take_written_of(&uids);
        self.states -= usize::from(last.is_some());
        for uid in uids {
            if wanted.is_deleted(uid) {
                continue;
            }
            let version = version.filter(|_| answered == Some(uid));
            let last = last.take_if(|last| last.written.uid == uid);
            let deletion = Deletion::new(uid, (number, now), version, last, &holders, before);
            wanted.deletions.push(deletion);
            self.states += 1;
        }
        self.review_everywhere(key, caches);
    }

    /// What was written so far of the objects to be read, as far as this cache may not show it.
    pub(super) fn pending(&mut self, scope: ReadScope<'_>, cache: &impl CacheView) -> Pending {
        self.enrol(std::slice::from_ref(cache));
        if !matches!(scope, ReadScope::One(_)) {
            self.settle_some(cache);
        }
        let Some(open) = self.caches.get(&cache.number()) else { return Pending::default() };
        let is_suspect = match scope {
            ReadScope::One(key) => open.suspects.contains(key),
            ReadScope::Namespace(_) | ReadScope::All => !open.suspects.is_empty(),
        };
        let unseen: Vec<ObjectKey> = match scope {
            ReadScope::One(key) => open.awaited.get(key).cloned().into_iter().collect(),
            scope => open.awaited.iter().filter(|key| scope.includes(key)).cloned().collect(),
        };
        self.looked_at(unseen.len());
        let mut awaited = Vec::new();
        if !unseen.is_empty() {
            let reached = cache.reached();
            for key in unseen {
                let written = self.review(&key, cache, &reached);
                awaited.extend(written.map(|written| (key, written)));
            }
        }
        // While a read waits for an object, that may become a suspect.
        let below = (is_suspect || !awaited.is_empty()).then_some(self.next);
        Pending { awaited, below }
    }

    /// The first object that the cache has to show and does not, and what it lacks. A later write
    /// does as well, but is not waited for.
    pub(super) fn missing(&mut self, pending: &Pending, cache: &impl CacheView) -> Option<(ObjectKey, String)> {
        let reached = cache.reached();
        pending.awaited.iter().find_map(|(key, written)| {
            // Shown; or deleted or taken out of the selection by now, and then what the read finds
            // is checked.
            self.review(key, cache, &reached)?;
            let is_missing = !cache.look(key, |shown| written.is_seen(shown, &reached));
            is_missing.then(|| (key.clone(), format!("version {}", written.version)))
        })
    }

    /// The first of the states that a read of a cache has found that must not be seen any more.
    pub(super) fn outdated<'a>(
        &mut self,
        below: u64,
        cache: usize,
        found: impl ExactSizeIterator<Item = ShownObject<'a>>,
    ) -> Option<Outdated> {
        if !self.caches.contains_key(&cache) {
            return None;
        }
        self.looked_at(found.len());
        let open = self.caches.get(&cache)?;
        let mut found = found;
        let mut key = String::new();
        found.find_map(|found| {
            key.clear();
            if !found.namespace.is_empty() {
                key.extend([found.namespace, "/"]);
            }
            key.push_str(found.name);
            let key = open.suspects.get(&*key)?;
            let write = self.objects.get(key)?.contradicts(found.shown, below, cache)?;
            Some(Outdated { key: key.clone(), write })
        })
    }

    /// Sweeps once there is as much again as was left the last time.
    pub(super) fn sweep_if_due(&mut self, caches: &[impl CacheView], now: Instant) {
        if self.states > self.sweep_at.max(SWEEP) {
            self.sweep(caches, now);
        }
    }

    /// Forgets what all caches have passed. `caches` are all that there are.
    pub(super) fn sweep(&mut self, caches: &[impl CacheView], now: Instant) {
        self.enrol(caches);
        self.caches.retain(|number, _| caches.iter().any(|cache| cache.number() == *number));
        for cache in caches {
            let reached = cache.reached();
            self.objects.iter_mut().for_each(|(key, wanted)| wanted.review(key, &reached, cache));
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
                let is_old = deletion.number < oldest_kept || now.duration_since(deletion.since) >= UNPROVEN_KEPT;
                deletion.is_open() && !(is_old && deletion.is_unproven())
            });
            !wanted.is_settled()
        });
        for (number, open) in &mut self.caches {
            *open = Open::default();
            self.objects.iter().for_each(|(key, wanted)| _ = open.set(key, wanted.standing(*number)));
        }
        self.settled += 1;
        self.states = self.objects.values().map(Wanted::states).sum();
        self.sweep_at = self.states * 2;
    }
}
