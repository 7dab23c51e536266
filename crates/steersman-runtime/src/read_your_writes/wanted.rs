//! The state of one object that the caches have to show, and the states that they must no longer
//! show.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use steersman_cache::ObjectKey;
use steersman_client::ObjectMeta;
use steersman_wire::Metadata;
use tokio::time::Instant;

use super::{Write, has_reached};
use crate::caches::{CacheEntry, Selected, selected_values};

/// The last write of an object, and the deletions of objects of its name. Caches are identified by
/// their numbers.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) written: Option<Arc<Written>>,
    /// The caches that have shown neither `written` nor a later state.
    unseen: Vec<usize>,
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

/// A deleted object.
#[derive(Debug)]
pub(super) struct Deletion {
    uid: String,
    pub(super) number: u64,
    pub(super) since: Instant,
    /// A version at which the object existed, or at which it was deleted.
    known_at: Option<String>,
    history: History,
    /// The caches that may show the object.
    open: Vec<OpenIn>,
}

#[derive(Debug)]
struct OpenIn {
    cache: usize,
    /// The cache has been at a time when the object existed, or later.
    has_been_there: bool,
    /// The cache showed the object when it was last checked.
    is_shown: bool,
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
    unseen: Vec<usize>,
    history: History,
}

/// What a read of one cache has to do about an object.
#[derive(Debug, Default, Clone, Copy)]
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

    fn selects(&self, key: &ObjectKey, entry: &CacheEntry) -> Selected {
        entry.selects(key, self.labels.as_ref(), |field| self.fields.get(field).map(String::as_str))
    }

    /// Whether a cache that has reached a version, and then has this state of the object, has shown
    /// this state or a later one.
    pub(super) fn is_seen(&self, cached: Option<&Metadata>, reached: &str) -> bool {
        has_reached(reached, &self.version)
            || cached.is_some_and(|cached| has_reached(cached.resource_version(), &self.version))
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
    fn contradicts(&self, state: &Metadata, below: u64) -> Option<Write> {
        let version = self.required(below)?;
        (!has_reached(state.resource_version(), version)).then(|| Write::Version(version.to_owned()))
    }
}

impl Deletion {
    /// The deletion of the object with this uid, and its last written state, if that is remembered.
    pub(super) fn new(
        uid: &str,
        number: u64,
        version: Option<&str>,
        last: Option<LastWritten>,
        holders: &[usize],
        before: &SeenBefore,
    ) -> Self {
        let open = holders.iter().map(|&cache| {
            let had_it = before.uids.iter().any(|(other, before)| *other == cache && *before == uid);
            let has_seen = last.as_ref().is_some_and(|last| !last.unseen.contains(&cache));
            OpenIn { cache, has_been_there: had_it || has_seen, is_shown: false }
        });
        let open = open.collect();
        let known_at = version.map(ToOwned::to_owned);
        let known_at = known_at.or_else(|| last.as_ref().map(|last| last.written.version.clone()));
        let history = last.map(|last| last.history).unwrap_or_default();
        Self { uid: uid.to_owned(), number, since: Instant::now(), known_at, history, open }
    }

    /// Whether a cache may show the object.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether no cache shows the object, and no version is known that a cache has yet to reach.
    pub(super) fn is_unproven(&self) -> bool {
        self.is_open()
            && self.open.iter().all(|open| !open.is_shown && (open.has_been_there || self.known_at.is_none()))
    }

    fn review(&mut self, cached: Option<&Metadata>, reached: &str, entry: &CacheEntry) {
        let Some(index) = self.open.iter().position(|open| open.cache == entry.number) else { return };
        let open = &mut self.open[index];
        open.is_shown = cached.is_some_and(|cached| cached.uid() == self.uid);
        let has_reached = self.known_at.as_ref().is_some_and(|version| has_reached(reached, version));
        open.has_been_there |= open.is_shown || has_reached;
        // The states in a cache are in order. Without a selector, an object leaves it only by its
        // deletion.
        if open.has_been_there && !open.is_shown && entry.is_unselective() {
            self.open.swap_remove(index);
        }
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
    pub(super) fn set_written(&mut self, written: Written, number: u64, caches: Vec<usize>) {
        if self.unseen.is_empty() {
            self.history = History::default();
        }
        self.history.push(number, &written.version);
        (self.written, self.unseen) = (Some(Arc::new(written)), caches);
    }

    /// The last written state, if it is of one of these objects, which are deleted.
    pub(super) fn take_written_of(&mut self, uids: &BTreeSet<&str>) -> Option<LastWritten> {
        let is_its = |written: &mut Arc<Written>| written.uid.is_empty() || uids.contains(&*written.uid);
        let written = self.written.take_if(is_its)?;
        let (unseen, history) = (std::mem::take(&mut self.unseen), std::mem::take(&mut self.history));
        Some(LastWritten { written, unseen, history })
    }

    /// A cache has come that may be behind.
    pub(super) fn open_in(&mut self, cache: usize) {
        if self.written.is_some() {
            self.unseen.push(cache);
        }
        let open = || OpenIn { cache, has_been_there: false, is_shown: false };
        self.deletions.iter_mut().for_each(|deletion| deletion.open.push(open()));
    }

    /// Drops caches that no longer exist.
    pub(super) fn close(&mut self, is_declared: impl Fn(usize) -> bool) {
        self.unseen.retain(|cache| is_declared(*cache));
        self.deletions.iter_mut().for_each(|deletion| deletion.open.retain(|open| is_declared(open.cache)));
    }

    /// Drops the written state if all caches have shown it. Returns `true` if nothing is left then.
    pub(super) fn is_settled(&mut self) -> bool {
        self.written.take_if(|_| self.unseen.is_empty());
        self.written.is_none() && self.deletions.is_empty()
    }

    /// Checks a cache that has reached this version, or a later one by now. A state that it has
    /// once shown is recorded: a cache does not go back.
    pub(super) fn review(&mut self, key: &ObjectKey, reached: &str, entry: &CacheEntry) {
        let cached = entry.lookup().meta(key);
        let cached = cached.as_ref();
        self.deletions.iter_mut().for_each(|deletion| deletion.review(cached, reached, entry));
        if self.written.as_ref().is_some_and(|written| written.is_seen(cached, reached)) {
            self.unseen.retain(|cache| *cache != entry.number);
        }
    }

    /// The action of a read of a cache, from the result of the last check.
    pub(super) fn standing(&self, key: &ObjectKey, entry: &CacheEntry) -> Standing {
        let is_open = |deletion: &Deletion| deletion.open.iter().any(|open| open.cache == entry.number);
        let suspect = self.deletions.iter().any(is_open);
        match self.written.as_ref().filter(|_| self.unseen.contains(&entry.number)) {
            None => Standing { awaited: false, suspect },
            // It left the selection: the cache shows an older state, or none.
            Some(written) if written.selects(key, entry) == Selected::No => Standing { awaited: false, suspect: true },
            Some(_) => Standing { awaited: true, suspect },
        }
    }

    /// The write with a number below `below` that this state of the object is older than.
    pub(super) fn contradicts(&self, state: &Metadata, below: u64, entry: &CacheEntry) -> Option<Write> {
        if let Some(deletion) = self.deletions.iter().find(|deletion| deletion.uid == state.uid()) {
            return match deletion.number < below {
                true => Some(Write::Deletion(deletion.uid.clone())),
                false => deletion.history.contradicts(state, below),
            };
        }
        self.unseen.contains(&entry.number).then(|| self.history.contradicts(state, below)).flatten()
    }
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
