//! What the caches have to show of one object, and what they must not show any more. The
//! transition tables are in `mod.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use steersman_cache::ObjectKey;
use steersman_client::ObjectMeta;
use steersman_wire::compare_resource_version;
use tokio::time::Instant;

use super::core::{CacheView, Shown};
use crate::caches::{CacheEntry, Selected, selected_values};

/// The last write of an object, and the deletions of objects of its name. Caches are identified by
/// their numbers.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) written: Option<Arc<Written>>,
    /// The caches that have shown neither `written` nor a later state.
    unseen: Vec<(usize, Unseen)>,
    history: History,
    pub(super) deletions: Vec<Deletion>,
}

/// A state that the server has returned.
#[derive(Debug)]
pub(crate) struct Written {
    pub(super) version: String,
    pub(super) uid: String,
    /// `None` if the response did not have them.
    labels: Option<BTreeMap<String, String>>,
    /// The fields that a cache selects by and that are known.
    fields: BTreeMap<String, String>,
}

/// What a cache will do with a written state that it has not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unseen {
    /// Show it.
    Awaited,
    /// Remove the object, which has left the selection.
    Leaving,
    /// Remove the object and then show it again. A read that began before it came back waits for
    /// the removal alone.
    Returning,
}

/// A write that a state of an object contradicts.
#[derive(Debug)]
pub(super) enum Write {
    /// The object with this uid is deleted.
    Deletion(String),
    /// The object was written at this version.
    Version(String),
}

/// An object that is gone.
#[derive(Debug)]
pub(super) struct Deletion {
    uid: String,
    pub(super) number: u64,
    pub(super) since: Instant,
    /// A version at which the object existed, or at which it was deleted.
    known_at: Option<String>,
    history: History,
    /// The caches that may show the object.
    open: Vec<(usize, Deleted)>,
}

/// What a cache shows of an object that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deleted {
    /// Not the object. The cache may be at a time before the object existed.
    Expected,
    /// The object.
    Shown,
    /// Not the object. The cache has been at a time when the object existed, but the object may
    /// have left the selection, and may come back.
    Absent,
}

impl Deleted {
    /// The state after a look at the cache. `shows` is whether it shows the object,
    /// `has_been_there` whether it has reached a version at which the object existed. `None` if the
    /// cache has passed the deletion.
    pub(super) fn after_look(self, shows: bool, has_been_there: bool, is_unselective: bool) -> Option<Self> {
        match (self, shows, has_been_there) {
            (_, true, _) => Some(Self::Shown),
            (Self::Expected, false, false) => Some(Self::Expected),
            // The states in a cache are in order. Without a selector, an object leaves it only by
            // its deletion.
            _ => (!is_unselective).then_some(Self::Absent),
        }
    }
}

/// The last writes of an object that a cache has not shown: their numbers and versions. A read that
/// began between two of them has to show the first, and does not wait for the second.
#[derive(Debug, Default)]
struct History {
    writes: VecDeque<(u64, String)>,
    /// Older ones are dropped.
    is_cut: bool,
}

/// What the caches show of an object before a request about it is sent.
#[derive(Debug, Default)]
pub(crate) struct SeenBefore {
    /// By the numbers of the caches.
    uids: Vec<(usize, String)>,
}

/// The last written state of an object that is deleted now.
pub(super) struct LastWritten {
    pub(super) written: Arc<Written>,
    unseen: Vec<(usize, Unseen)>,
    history: History,
}

/// What a read of one cache has to do about an object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Wait until the cache shows it.
    pub(super) awaited: bool,
    /// Check the state that it finds.
    pub(super) suspect: bool,
}

impl SeenBefore {
    pub(crate) fn of(caches: &[Arc<CacheEntry>], key: &ObjectKey) -> Self {
        let uid = |entry: &Arc<CacheEntry>| {
            let uid = entry.lookup().meta(key)?.uid().to_owned();
            (!uid.is_empty()).then_some((entry.number, uid))
        };
        Self { uids: caches.iter().filter_map(uid).collect() }
    }

    #[cfg(test)]
    pub(super) fn from_uids(uids: Vec<(usize, String)>) -> Self {
        Self { uids }
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &str> {
        self.uids.iter().map(|(_, uid)| &**uid)
    }
}

impl Written {
    /// A response without a version is not recorded.
    pub(crate) fn new(meta: &ObjectMeta) -> Option<Self> {
        let version = meta.resource_version.clone()?;
        let uid = meta.uid.clone().unwrap_or_default();
        Some(Self { version, uid, labels: None, fields: BTreeMap::new() })
    }

    /// With the labels and fields that selectors use, from the whole object.
    pub(crate) fn with_object<K: Serialize>(
        mut self,
        meta: &ObjectMeta,
        object: &K,
        caches: &[Arc<CacheEntry>],
    ) -> Self {
        self.labels = Some(meta.labels.clone().unwrap_or_default());
        self.fields = selected_values(caches.iter().map(|entry| &**entry), object);
        self
    }

    pub(super) fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.labels.as_ref()
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Whether a cache that has reached a version, and then has this state of the object, has shown
    /// this state or a later one.
    pub(super) fn is_seen(&self, shown: Option<Shown<'_>>, reached: &str) -> bool {
        has_reached(reached, &self.version) || shown.is_some_and(|shown| has_reached(shown.version, &self.version))
    }

    /// What a cache that has not shown this state will do.
    fn unseen_in(&self, key: &ObjectKey, cache: &impl CacheView) -> (usize, Unseen) {
        let will = match cache.selects(key, self) {
            Selected::No => Unseen::Leaving,
            Selected::Yes | Selected::Unknown => Unseen::Awaited,
        };
        (cache.number(), will)
    }
}

impl History {
    /// A few are enough: a read ends soon.
    const MAX: usize = 8;

    fn push(&mut self, number: u64, version: &str) {
        if self.writes.len() == Self::MAX {
            self.writes.pop_front();
            self.is_cut = true;
        }
        self.writes.push_back((number, version.to_owned()));
    }

    /// The version of the last write with a number below `below`, or of a later write if that one
    /// was dropped.
    fn required(&self, below: u64) -> Option<&str> {
        let last = self.writes.iter().rfind(|(number, _)| *number < below);
        let (_, version) = last.or_else(|| self.writes.front().filter(|_| self.is_cut))?;
        Some(version)
    }

    /// The write that this state is older than, of those with a number below `below`.
    fn contradicts(&self, state: Shown<'_>, below: u64) -> Option<Write> {
        let version = self.required(below)?;
        (!has_reached(state.version, version)).then(|| Write::Version(version.to_owned()))
    }
}

impl Deletion {
    /// The deletion of the object with this uid, and its last written state, if that is remembered.
    pub(super) fn new(
        uid: &str,
        (number, since): (u64, Instant),
        version: Option<&str>,
        last: Option<LastWritten>,
        holders: &[usize],
        before: &SeenBefore,
    ) -> Self {
        let open = holders.iter().map(|&cache| {
            let had_it = before.uids.iter().any(|(other, before)| *other == cache && *before == uid);
            let is_unseen = |last: &LastWritten| last.unseen.iter().any(|(other, _)| *other == cache);
            let has_seen = last.as_ref().is_some_and(|last| !is_unseen(last));
            (cache, if had_it || has_seen { Deleted::Absent } else { Deleted::Expected })
        });
        let open = open.collect();
        let known_at = version.map(ToOwned::to_owned);
        let known_at = known_at.or_else(|| last.as_ref().map(|last| last.written.version.clone()));
        let history = last.map(|last| last.history).unwrap_or_default();
        Self { uid: uid.to_owned(), number, since, known_at, history, open }
    }

    /// Whether a cache may show the object.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether no cache shows the object, and no version is known that a cache has yet to reach.
    pub(super) fn is_unproven(&self) -> bool {
        let is_unproven = |state| match state {
            Deleted::Expected => self.known_at.is_none(),
            Deleted::Shown => false,
            Deleted::Absent => true,
        };
        self.is_open() && self.open.iter().all(|(_, state)| is_unproven(*state))
    }

    fn review(&mut self, shown: Option<Shown<'_>>, reached: &str, cache: &impl CacheView) {
        let Some(index) = self.open.iter().position(|(open, _)| *open == cache.number()) else { return };
        let shows = shown.is_some_and(|shown| shown.uid == self.uid);
        let has_been_there = self.known_at.as_ref().is_some_and(|version| has_reached(reached, version));
        match self.open[index].1.after_look(shows, has_been_there, cache.is_unselective()) {
            Some(state) => self.open[index].1 = state,
            None => drop(self.open.swap_remove(index)),
        }
    }

    /// What is known of this object that a state, of this or another object of the same name, is
    /// older than.
    fn predates(&self, state: Shown<'_>, below: u64) -> Option<Write> {
        if self.number >= below {
            return self.history.contradicts(state, below);
        }
        let known_at = self.known_at.as_ref().filter(|known_at| !has_reached(state.version, known_at))?;
        Some(Write::Version(known_at.clone()))
    }

    fn is_open_in(&self, cache: usize) -> bool {
        self.open.iter().any(|(open, _)| *open == cache)
    }
}

impl Wanted {
    pub(super) fn states(&self) -> usize {
        usize::from(self.written.is_some()) + self.deletions.len()
    }

    pub(super) fn is_deleted(&self, uid: &str) -> bool {
        self.deletions.iter().any(|deletion| deletion.uid == uid)
    }

    /// A new state, which these caches have to show.
    pub(super) fn set_written(&mut self, key: &ObjectKey, written: Written, number: u64, caches: &[impl CacheView]) {
        if self.unseen.is_empty() {
            self.history = History::default();
        }
        self.history.push(number, &written.version);
        let holders = caches.iter().filter(|cache| cache.can_hold(key));
        let unseen = holders.map(|cache| match (self.unseen_in(cache.number()), written.unseen_in(key, cache)) {
            (Some(Unseen::Leaving | Unseen::Returning), (cache, Unseen::Awaited)) => (cache, Unseen::Returning),
            (_, unseen) => unseen,
        });
        self.unseen = unseen.collect();
        self.written = Some(Arc::new(written));
    }

    /// The last written state, if it is of one of these objects, which are deleted.
    pub(super) fn take_written_of(&mut self, uids: &BTreeSet<&str>) -> Option<LastWritten> {
        let is_its = |written: &mut Arc<Written>| written.uid.is_empty() || uids.contains(&*written.uid);
        let written = self.written.take_if(is_its)?;
        let (unseen, history) = (std::mem::take(&mut self.unseen), std::mem::take(&mut self.history));
        Some(LastWritten { written, unseen, history })
    }

    /// A cache has come that may be behind.
    pub(super) fn open_in(&mut self, key: &ObjectKey, cache: &impl CacheView) {
        if let Some(written) = &self.written {
            self.unseen.push(written.unseen_in(key, cache));
        }
        let open = (cache.number(), Deleted::Expected);
        self.deletions.iter_mut().for_each(|deletion| deletion.open.push(open));
    }

    /// Drops caches that no longer exist.
    pub(super) fn close(&mut self, is_declared: impl Fn(usize) -> bool) {
        self.unseen.retain(|(cache, _)| is_declared(*cache));
        self.deletions.iter_mut().for_each(|deletion| deletion.open.retain(|(cache, _)| is_declared(*cache)));
    }

    /// Drops the written state if all caches have shown it. Returns `true` if nothing is left then.
    pub(super) fn is_settled(&mut self) -> bool {
        self.written.take_if(|_| self.unseen.is_empty());
        self.written.is_none() && self.deletions.is_empty()
    }

    /// Looks at a cache that has reached this version, or a later one by now. What it has once
    /// shown is remembered: it does not go back behind it.
    pub(super) fn review(&mut self, key: &ObjectKey, reached: &str, cache: &impl CacheView) {
        cache.look(key, |shown| {
            self.deletions.iter_mut().for_each(|deletion| deletion.review(shown, reached, cache));
            if self.written.as_ref().is_some_and(|written| written.is_seen(shown, reached)) {
                self.unseen.retain(|(unseen, _)| *unseen != cache.number());
            }
        });
    }

    /// What a read of a cache has to do, by what is known from the last look.
    pub(super) fn standing(&self, cache: usize) -> Standing {
        let is_deleted = self.deletions.iter().any(|deletion| deletion.is_open_in(cache));
        match self.unseen_in(cache) {
            None => Standing { awaited: false, suspect: is_deleted },
            // The cache shows an older state, or none.
            Some(Unseen::Leaving) => Standing { awaited: false, suspect: true },
            Some(Unseen::Awaited) => Standing { awaited: true, suspect: is_deleted },
            Some(Unseen::Returning) => Standing { awaited: true, suspect: true },
        }
    }

    fn unseen_in(&self, cache: usize) -> Option<Unseen> {
        self.unseen.iter().find(|(unseen, _)| *unseen == cache).map(|(_, will)| *will)
    }

    /// The write with a number below `below` that this state of the object is older than.
    pub(super) fn contradicts(&self, state: Shown<'_>, below: u64, cache: usize) -> Option<Write> {
        let is_its = |deletion: &&Deletion| deletion.uid == state.uid && deletion.number < below;
        if let Some(deletion) = self.deletions.iter().find(is_its) {
            return Some(Write::Deletion(deletion.uid.clone()));
        }
        // A name belongs to one object at a time: a state that is older than a deleted object is
        // outdated, too.
        let predates = self.deletions.iter().find_map(|deletion| deletion.predates(state, below));
        predates.or_else(|| self.unseen_in(cache).and_then(|_| self.history.contradicts(state, below)))
    }
}

/// Whether a version is at least the one that is wanted. Versions that do not compare are not
/// waited for: there is no way to know.
pub(super) fn has_reached(version: &str, wanted: &str) -> bool {
    compare_resource_version(version, wanted).map_or(!version.is_empty(), std::cmp::Ordering::is_ge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_has_to_show_the_last_write_before_it_began() {
        let mut history = History::default();
        assert_eq!(history.required(9), None);
        for number in [3, 5, 7] {
            history.push(number, &format!("version {number}"));
        }
        let required = |history: &History, below| history.required(below).map(ToOwned::to_owned);
        assert_eq!(required(&history, 3), None);
        assert_eq!(required(&history, 4), Some("version 3".to_owned()));
        assert_eq!(required(&history, 7), Some("version 5".to_owned()));
        assert_eq!(required(&history, 100), Some("version 7".to_owned()));
        for number in 8..14 {
            history.push(number, &format!("version {number}"));
        }
        // One more than is stored: a read that began earlier waits for a later write rather than
        // for none.
        assert_eq!(history.writes.len(), History::MAX);
        assert_eq!(required(&history, 4), Some("version 5".to_owned()));
        assert_eq!(required(&history, 8), Some("version 7".to_owned()));
    }
}
