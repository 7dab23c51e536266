//! The log of one resource: its latest changes, bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Key, Revision};
use crate::store::object::Object;

/// The limits of the log of each resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// Changes.
    pub(crate) changes: usize,
    /// Bytes of the past states that they keep. The logs of all removed resources together have the
    /// same limit.
    pub(crate) bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { changes: 10_000, bytes: 64 << 20 }
    }
}

/// One change of one object.
pub(crate) struct Change {
    pub(crate) revision: Revision,
    pub(crate) key: Key,
    /// The state before, unless the object was created.
    pub(crate) before: Option<Arc<Object>>,
    /// The state after, unless the object was deleted.
    pub(crate) after: Option<Arc<Object>>,
    /// The last state of a deleted object, with the revision of its deletion.
    pub(crate) last: Option<Arc<Object>>,
}

/// The event of a watch for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// The state that a watch sends. An object that left a selector has its last state inside, with
    /// the revision of the change.
    pub(crate) fn shown(&self, event: EventType) -> Option<Arc<Object>> {
        match event {
            EventType::Added | EventType::Modified => self.after.clone(),
            EventType::Deleted => match &self.last {
                Some(last) => Some(Arc::clone(last)),
                None => Some(Arc::new(self.before.as_ref()?.at(self.revision))),
            },
        }
    }
}

/// The changes up to the requested revision were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest known revision.
    pub(crate) oldest: Revision,
}

impl Change {
    pub(super) fn new(
        revision: Revision,
        key: Key,
        before: Option<Arc<Object>>,
        after: Option<Arc<Object>>,
        last: Option<Arc<Object>>,
    ) -> Self {
        Self { revision, key, before, after, last }
    }
}

impl Change {
    /// The bytes of the states that only the log keeps. The state after a change is the present
    /// one, or the state before a later change.
    fn kept_bytes(&self) -> usize {
        self.before.iter().chain(&self.last).map(|object| object.body().len()).sum()
    }

    /// The bytes of the state that a watch sends.
    pub(super) fn shown_bytes(&self) -> usize {
        self.after.as_ref().or(self.last.as_ref()).map_or(0, |object| object.body().len())
    }
}

/// The latest changes of one resource, oldest first.
pub(super) struct Log {
    changes: VecDeque<Arc<Change>>,
    pub(super) bytes: usize,
    /// Changes up to this revision were dropped: a new reader of an earlier one is refused.
    compacted: Revision,
    /// The latest change that was dropped. A follower that has seen it misses nothing, however long
    /// ago that was.
    lost: Revision,
}

impl Log {
    pub(super) fn new(compacted: Revision) -> Self {
        Self { changes: VecDeque::new(), bytes: 0, compacted, lost: compacted }
    }

    pub(super) fn push(&mut self, change: Change, retention: Retention) {
        self.bytes += change.kept_bytes();
        self.changes.push_back(Arc::new(change));
        while self.changes.len() > retention.changes || (self.bytes > retention.bytes && self.changes.len() > 1) {
            self.forget_first();
        }
    }

    pub(super) fn forget_first(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.bytes -= change.kept_bytes();
            self.compacted = self.compacted.max(change.revision);
            self.lost = change.revision;
        }
    }

    pub(super) fn forget_until(&mut self, revision: Revision) {
        while self.changes.front().is_some_and(|change| change.revision <= revision) {
            self.forget_first();
        }
        self.compacted = self.compacted.max(revision);
    }

    /// Refuses a revision that was dropped.
    pub(super) fn check(&self, revision: Revision) -> Result<(), Expired> {
        if revision < self.compacted { Err(self.expired()) } else { Ok(()) }
    }

    pub(super) fn expired(&self) -> Expired {
        Expired { oldest: self.compacted }
    }

    /// Changes after `revision`, oldest first.
    pub(super) fn after(&self, revision: Revision) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, Expired> {
        if revision < self.lost {
            return Err(self.expired());
        }
        let first = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(first..))
    }
}
