//! Where objects are kept: the current state of each resource, and the changes that led to it.
//!
//! One revision counter serves all resources; an object's `resourceVersion` is the revision that wrote it. Of each resource
//! there is the current state, ordered by namespace and name, and a log of its latest changes. A state of the past is the
//! current one with later changes undone; a watch reads the log from its place on. So nothing is copied for a reader: an
//! object is encoded once, when it is written, and shared by every list and watch that shows it.
//!
//! The log is bounded. A reader that wants a revision whose changes are gone, or a watch that has fallen so far behind, gets
//! [`Expired`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::dependents::Dependents;
use crate::object::Object;

/// A revision: what `resourceVersion` counts.
pub(crate) type Revision = u64;

/// What is stored under one name: `pods`, `deployments.apps`, `networks.samplecrd.k8s.io`. All versions of a kind are one
/// resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId {
    pub(crate) group: Arc<str>,
    pub(crate) plural: Arc<str>,
}

/// Namespace and name; the namespace of a cluster-wide object is empty. The order is that of their paths in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Key {
    fn path(&self) -> impl Iterator<Item = u8> {
        self.namespace.bytes().chain(std::iter::once(b'/')).chain(self.name.bytes())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.path().cmp(other.path())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// How much of the past is kept of each resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// Changes.
    pub(crate) changes: usize,
    /// Bytes of the objects in them.
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

/// What a watcher is told of a change.
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
    /// The state that a watcher is shown. An object that left a selector shows its last state inside, with the revision of
    /// the change.
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

/// The changes up to the wanted revision are no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision that is still known.
    pub(crate) oldest: Revision,
}

/// Why a write was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// An object of that name exists.
    Exists,
    /// No object of that name exists.
    NotFound,
    /// It is not in the state that the writer had read.
    Changed,
}

/// The state of one resource at one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) objects: Vec<Arc<Object>>,
}

/// Everything that is stored.
pub(crate) struct Store {
    state: Mutex<State>,
    retention: Retention,
}

struct State {
    /// The revision of the latest write.
    revision: Revision,
    resources: HashMap<ResourceId, Resource>,
    dependents: Dependents,
    /// Changes up to this revision are gone, also of resources that nothing was written to.
    compacted: Revision,
}

struct Resource {
    /// As the map of resources has it, so that others share its text.
    id: ResourceId,
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Arc<Change>>,
    log_bytes: usize,
    /// Changes up to this revision are gone: whoever comes now and asks for an earlier one is refused.
    compacted: Revision,
    /// No watch begins before this revision: it is when the resource was first served.
    begun: Revision,
    /// The latest change that is gone. A follower that has seen it misses nothing, however long ago that was.
    lost: Revision,
    /// Says which revision was written last, to wake watchers.
    written: watch::Sender<Revision>,
}

impl Resource {
    fn new(id: ResourceId, revision: Revision, compacted: Revision) -> Self {
        Self {
            id,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            compacted,
            begun: 0,
            lost: compacted,
            written: watch::Sender::new(revision),
        }
    }

    fn push(&mut self, change: Change, retention: Retention) {
        let revision = change.revision;
        self.log_bytes += change.bytes();
        self.log.push_back(Arc::new(change));
        while self.log.len() > retention.changes || (self.log_bytes > retention.bytes && self.log.len() > 1) {
            self.forget_first();
        }
        self.written.send_replace(revision);
    }

    fn forget_first(&mut self) {
        if let Some(change) = self.log.pop_front() {
            self.log_bytes -= change.bytes();
            self.compacted = self.compacted.max(change.revision);
            self.lost = change.revision;
        }
    }

    /// Refuses a revision that is no longer known.
    fn check(&self, revision: Revision) -> Result<(), Expired> {
        if revision < self.compacted { Err(Expired { oldest: self.compacted }) } else { Ok(()) }
    }

    /// Changes after `revision`, oldest first.
    fn changes_after(&self, revision: Revision) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, Expired> {
        if revision < self.lost {
            return Err(Expired { oldest: self.compacted });
        }
        let first = self.log.partition_point(|change| change.revision <= revision);
        Ok(self.log.range(first..))
    }
}

impl Change {
    fn bytes(&self) -> usize {
        self.after.as_ref().or(self.last.as_ref()).map_or(0, |object| object.body().len())
    }
}

impl Store {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { state: Mutex::new(State::default()), retention }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision of the latest write.
    pub(crate) fn revision(&self) -> Revision {
        self.lock().revision
    }

    /// The current state of one object.
    pub(crate) fn get(&self, resource: &ResourceId, key: &Key) -> Option<Arc<Object>> {
        self.lock().resources.get(resource)?.objects.get(key).cloned()
    }

    /// Writes an object. `make` encodes it with the revision it is given.
    ///
    /// `expected` is the state that the writer has seen: nothing for a create.
    pub(crate) fn put(
        &self,
        resource: &ResourceId,
        key: &Key,
        expected: Option<&Arc<Object>>,
        make: impl FnOnce(Revision) -> Object,
    ) -> Result<Arc<Object>, WriteError> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let resource = state.resource(resource);
        let before = resource.objects.get(key);
        match (before, expected) {
            (Some(_), None) => return Err(WriteError::Exists),
            (None, Some(_)) => return Err(WriteError::NotFound),
            (Some(before), Some(expected)) if !Arc::ptr_eq(before, expected) => return Err(WriteError::Changed),
            _ => {}
        }
        let object = Arc::new(make(revision));
        let before = resource.objects.insert(key.clone(), Arc::clone(&object));
        let id = resource.id.clone();
        let change = Change::new(revision, key.clone(), before.clone(), Some(Arc::clone(&object)), None);
        resource.push(change, self.retention);
        state.dependents.change(&id, before.as_deref(), Some(&object));
        state.revision = revision;
        Ok(object)
    }

    /// Removes an object that is in the state that the writer has seen, and gives its last state, which has the revision
    /// of the deletion.
    pub(crate) fn delete(
        &self,
        resource: &ResourceId,
        key: &Key,
        expected: &Arc<Object>,
    ) -> Result<Arc<Object>, WriteError> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let resource = state.resource(resource);
        match resource.objects.get(key) {
            None => return Err(WriteError::NotFound),
            Some(before) if !Arc::ptr_eq(before, expected) => return Err(WriteError::Changed),
            Some(_) => {}
        }
        let before = resource.objects.remove(key);
        let id = resource.id.clone();
        let last = Arc::new(expected.at(revision));
        let change = Change::new(revision, key.clone(), before, None, Some(Arc::clone(&last)));
        resource.push(change, self.retention);
        state.dependents.change(&id, Some(expected), None);
        state.revision = revision;
        Ok(last)
    }

    /// The current state of a resource, or of one namespace of it.
    pub(crate) fn list(&self, resource: &ResourceId, namespace: Option<&str>) -> Snapshot {
        let state = self.lock();
        let objects = state.resources.get(resource).map_or_else(Vec::new, |resource| resource.in_namespace(namespace));
        Snapshot { revision: state.revision, objects }
    }

    /// The state of a resource at a revision of the past.
    pub(crate) fn list_at(
        &self,
        resource: &ResourceId,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Snapshot, Expired> {
        let state = self.lock();
        let Some(resource) = state.resources.get(resource) else {
            let oldest = state.compacted;
            let nothing = Snapshot { revision, objects: Vec::new() };
            return if revision < oldest { Err(Expired { oldest }) } else { Ok(nothing) };
        };
        resource.check(revision)?;
        let mut objects: BTreeMap<Key, Arc<Object>> = BTreeMap::new();
        for object in resource.in_namespace(namespace) {
            objects.insert(object.key().clone(), object);
        }
        for change in resource.changes_after(revision)?.rev() {
            if namespace.is_some_and(|namespace| *change.key.namespace != *namespace) {
                continue;
            }
            match &change.before {
                Some(before) => drop(objects.insert(change.key.clone(), Arc::clone(before))),
                None => drop(objects.remove(&change.key)),
            }
        }
        Ok(Snapshot { revision, objects: objects.into_values().collect() })
    }

    /// Follows the changes of a resource from `revision` on.
    pub(crate) fn follow(&self, resource: &ResourceId, revision: Revision) -> Result<Follower, Expired> {
        let mut state = self.lock();
        let entry = state.resource(resource);
        entry.check(revision)?;
        if revision < entry.begun {
            return Err(Expired { oldest: entry.begun });
        }
        let written = entry.written.subscribe();
        Ok(Follower { resource: resource.clone(), reached: revision, written })
    }

    /// Forgets the past of every resource up to `revision`, as etcd's compaction does.
    pub(crate) fn compact(&self, revision: Revision) {
        let mut state = self.lock();
        for resource in state.resources.values_mut() {
            while resource.log.front().is_some_and(|change| change.revision <= revision) {
                resource.forget_first();
            }
            resource.compacted = resource.compacted.max(revision);
        }
        state.compacted = state.compacted.max(revision);
    }

    /// Says that a resource is served from now on: nobody can watch what was before.
    pub(crate) fn begin(&self, resource: &ResourceId) {
        let mut state = self.lock();
        let revision = state.revision;
        state.resource(resource).begun = revision;
    }

    /// The objects that name this owner, by resource, namespace and name.
    pub(crate) fn dependents(&self, owner: &str) -> Vec<(ResourceId, Arc<Object>)> {
        let state = self.lock();
        let found = state.dependents.of(owner).filter_map(|(resource, key)| {
            Some((resource.clone(), Arc::clone(state.resources.get(resource)?.objects.get(key)?)))
        });
        found.collect()
    }

    /// The resources that something was ever stored of.
    pub(crate) fn resources(&self) -> Vec<ResourceId> {
        self.lock().resources.keys().cloned().collect()
    }

    /// Whether there is anything of a resource in a namespace.
    pub(crate) fn has_any(&self, resource: &ResourceId, namespace: &str) -> bool {
        let state = self.lock();
        state.resources.get(resource).is_some_and(|resource| resource.range(namespace).next().is_some())
    }

    /// Lets everybody who follows a resource go, once they have seen its changes.
    pub(crate) fn end_followers(&self, resource: &ResourceId) {
        let mut state = self.lock();
        let revision = state.revision;
        if let Some(resource) = state.resources.get_mut(resource) {
            // They learn of it by the end of their channel.
            resource.written = watch::Sender::new(revision);
        }
    }

    /// The changes that a follower has not seen, at most `limit` of them.
    pub(crate) fn next_changes(&self, follower: &mut Follower, limit: usize) -> Result<Vec<Arc<Change>>, Expired> {
        let state = self.lock();
        let Some(resource) = state.resources.get(&follower.resource) else { return Ok(Vec::new()) };
        let changes: Vec<Arc<Change>> = resource.changes_after(follower.reached)?.take(limit).cloned().collect();
        follower.reached = if changes.len() == limit {
            changes.last().map_or(follower.reached, |change| change.revision)
        } else {
            // Nothing of this resource lies between its last change and the present. A follower may be ahead of that.
            follower.reached.max(state.revision)
        };
        Ok(changes)
    }
}

impl State {
    fn resource(&mut self, id: &ResourceId) -> &mut Resource {
        let (revision, compacted) = (self.revision, self.compacted);
        self.resources.entry(id.clone()).or_insert_with(|| Resource::new(id.clone(), revision, compacted))
    }
}

impl Default for State {
    fn default() -> Self {
        Self { revision: 1, resources: HashMap::new(), dependents: Dependents::default(), compacted: 0 }
    }
}

impl Resource {
    fn in_namespace(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let Some(namespace) = namespace else { return self.objects.values().cloned().collect() };
        self.range(namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    fn range(&self, namespace: &str) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let first = Key { namespace: namespace.into(), name: "".into() };
        let from_first = self.objects.range((Bound::Included(first), Bound::Unbounded));
        from_first.take_while(move |(key, _)| *key.namespace == *namespace)
    }
}

impl Change {
    fn new(
        revision: Revision,
        key: Key,
        before: Option<Arc<Object>>,
        after: Option<Arc<Object>>,
        last: Option<Arc<Object>>,
    ) -> Self {
        Self { revision, key, before, after, last }
    }
}

/// A place in the changes of one resource.
pub(crate) struct Follower {
    resource: ResourceId,
    /// Changes up to this revision have been seen.
    reached: Revision,
    written: watch::Receiver<Revision>,
}

impl Follower {
    /// The revision up to which everything has been seen.
    pub(crate) fn reached(&self) -> Revision {
        self.reached
    }

    /// Waits for a change after those that were seen. `false` when the resource is gone.
    pub(crate) async fn changed(&mut self) -> bool {
        let reached = self.reached;
        self.written.wait_for(|written| *written > reached).await.is_ok()
    }
}
