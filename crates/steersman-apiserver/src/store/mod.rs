//! The objects: the current state of each resource, and the changes that led to it.
//!
//! One revision counter serves all resources; an object's `resourceVersion` is the revision that
//! wrote it. Each resource has its current state, ordered by namespace and name, and a log of its
//! latest changes. A past state is the current one with later changes undone; a watch reads the log
//! from its position on. So nothing is copied for a reader: an object is encoded once, when it is
//! written, and shared by every list and watch that shows it.
//!
//! The log is bounded. A reader of a revision whose changes were dropped, or a watch that is that
//! far behind, gets [`Expired`]. A follower holds a position in the log and none of its changes, so
//! a slow one keeps nothing in memory.
//!
//! A custom resource is stored from [`Store::begin`] to [`Store::remove`]. Its log then belongs to
//! the followers that have not read it to the end, within a bound on the bytes of all such logs.

pub(crate) mod addresses;
mod log;
pub(crate) mod object;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::watch;

use self::log::Log;
pub(crate) use self::log::{Change, EventType, Expired, Retention};
use crate::access::RBAC_GROUP;
use crate::lifecycle::dependents::Dependents;
use crate::lifecycle::protection::ClaimUsers;
use crate::request::budget;
use crate::rules::kinds::{builtin, pods};
use crate::store::object::Object;

/// A longer list takes long enough to delay other connections.
pub(crate) const LONG: usize = 2_000;

/// A revision: what `resourceVersion` counts.
pub(crate) type Revision = u64;

/// The name of a resource in the store: `pods`, `deployments.apps`, `networks.samplecrd.k8s.io`.
/// All versions of a kind are one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId {
    pub(crate) group: Arc<str>,
    pub(crate) plural: Arc<str>,
}

/// Namespace and name; the namespace of a cluster-wide object is empty. The order is that of their
/// paths in etcd.
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

/// Why a write was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// An object of that name exists.
    Exists,
    /// No object of that name exists.
    NotFound,
    /// It is not in the state that the writer has read.
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
    /// The resources with many objects. Written under the lock of the state.
    long: RwLock<HashSet<ResourceId>>,
    /// The revision of the latest write of a role or a binding. Written under the lock of the
    /// state.
    policy: AtomicU64,
}

struct State {
    /// The revision of the latest write.
    revision: Revision,
    resources: HashMap<ResourceId, Resource>,
    dependents: Dependents,
    claim_users: ClaimUsers,
    /// Changes up to this revision were dropped, also of resources without writes.
    compacted: Revision,
    /// The revision at which a resource was last removed: one that begins later may have had an
    /// earlier past.
    removed: Revision,
    /// The logs of removed resources that followers still read, oldest first.
    leftover: Vec<Weak<Mutex<Option<Log>>>>,
}

struct Resource {
    /// The same text as in the map of resources, so that others share it.
    id: ResourceId,
    objects: BTreeMap<Key, Arc<Object>>,
    log: Log,
    /// No watch begins before this revision: the resource was first served then. `None` while it is
    /// not.
    begun: Option<Revision>,
    /// The revision of the last write, to wake watchers.
    written: watch::Sender<Revision>,
    /// The log for followers, once the resource is removed.
    leftover: Arc<Mutex<Option<Log>>>,
}

impl Resource {
    fn new(id: ResourceId, begun: Option<Revision>, revision: Revision, compacted: Revision) -> Self {
        Self {
            id,
            objects: BTreeMap::new(),
            log: Log::new(compacted),
            begun,
            written: watch::Sender::new(revision),
            leftover: Arc::default(),
        }
    }

    fn push(&mut self, change: Change, retention: Retention) {
        let revision = change.revision;
        self.log.push(change, retention);
        self.written.send_replace(revision);
    }
}

impl Store {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { state: Mutex::new(State::default()), retention, long: RwLock::default(), policy: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks all requests for objects.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.lock()
    }

    /// The revision of the latest write.
    pub(crate) fn revision(&self) -> Revision {
        self.lock().revision
    }

    /// The revision of the latest write of a role or a binding. Takes no lock.
    pub(crate) fn policy_revision(&self) -> Revision {
        self.policy.load(Ordering::Acquire)
    }

    fn note_policy(&self, id: &ResourceId, revision: Revision) {
        if *id.group == *RBAC_GROUP {
            self.policy.store(revision, Ordering::Release);
        }
    }

    /// The current state of one object.
    pub(crate) fn get(&self, resource: &ResourceId, key: &Key) -> Option<Arc<Object>> {
        self.lock().resources.get(resource)?.objects.get(key).cloned()
    }

    /// Writes an object. `make` encodes it with the revision it receives.
    ///
    /// `expected` is the state that the writer has read: `None` for a create. A write to a custom
    /// resource that has not begun, or was removed, is refused with [`WriteError::NotFound`].
    pub(crate) fn put(
        &self,
        resource: &ResourceId,
        key: &Key,
        expected: Option<&Arc<Object>>,
        make: impl FnOnce(Revision) -> Object,
    ) -> Result<Arc<Object>, WriteError> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let Some(resource) = state.resource(resource) else { return Err(WriteError::NotFound) };
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
        self.count(&id, resource.objects.len());
        self.note_policy(&id, revision);
        state.dependents.change(&id, before.as_deref(), Some(&object));
        state.claim_users.change(&id, before.as_deref(), Some(&object));
        state.revision = revision;
        Ok(object)
    }

    /// Removes an object that is in the state that the writer has read, and returns its last state,
    /// which has the revision of the deletion.
    pub(crate) fn delete(
        &self,
        resource: &ResourceId,
        key: &Key,
        expected: &Arc<Object>,
    ) -> Result<Arc<Object>, WriteError> {
        let mut state = self.lock();
        let revision = state.revision + 1;
        let Some(resource) = state.resource(resource) else { return Err(WriteError::NotFound) };
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
        self.count(&id, resource.objects.len());
        self.note_policy(&id, revision);
        state.dependents.change(&id, Some(expected), None);
        state.claim_users.change(&id, Some(expected), None);
        state.revision = revision;
        Ok(last)
    }

    /// The current state of a resource, or of one namespace of it.
    pub(crate) fn list(&self, resource: &ResourceId, namespace: Option<&str>) -> Snapshot {
        let state = self.lock();
        let objects = state.resources.get(resource).map_or_else(Vec::new, |resource| resource.in_namespace(namespace));
        Snapshot { revision: state.revision, objects }
    }

    /// The state of a resource at a past revision.
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
        resource.log.check(revision)?;
        let mut objects: BTreeMap<Key, Arc<Object>> = BTreeMap::new();
        for object in resource.in_namespace(namespace) {
            objects.insert(object.key().clone(), object);
        }
        for change in resource.log.after(revision)?.rev() {
            budget::step(1);
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

    /// Follows the changes of a resource from `revision` on. A custom resource that was removed has
    /// no changes to follow.
    pub(crate) fn follow(&self, resource: &ResourceId, revision: Revision) -> Result<Follower, Expired> {
        let mut state = self.lock();
        let oldest = state.revision;
        let Some(entry) = state.resource(resource) else { return Err(Expired { oldest }) };
        entry.log.check(revision)?;
        if let Some(oldest) = entry.begun.filter(|begun| revision < *begun) {
            return Err(Expired { oldest });
        }
        let (written, leftover) = (entry.written.subscribe(), Arc::clone(&entry.leftover));
        Ok(Follower { resource: resource.clone(), reached: revision, written, leftover })
    }

    /// Drops the past of every resource up to `revision`, as etcd's compaction does.
    pub(crate) fn compact(&self, revision: Revision) {
        let mut state = self.lock();
        for resource in state.resources.values_mut() {
            resource.log.forget_until(revision);
        }
        for leftover in state.leftover.iter().filter_map(Weak::upgrade) {
            if let Some(log) = &mut *lock(&leftover) {
                log.forget_until(revision);
            }
        }
        state.compacted = state.compacted.max(revision);
    }

    /// Stores a custom resource from now on: no watch begins before that. Does nothing if it is
    /// stored already.
    pub(crate) fn begin(&self, resource: &ResourceId) {
        let mut state = self.lock();
        let (revision, past) = (state.revision, state.compacted.max(state.removed));
        let new = || Resource::new(resource.clone(), Some(revision), revision, past);
        state.resources.entry(resource.clone()).or_insert_with(new).begun.get_or_insert(revision);
    }

    /// Stops storing a custom resource. Its followers end once they have seen its changes. Its
    /// objects exist again when it begins again.
    ///
    /// Its log stays as long as one of them reads it, within the bound on all such logs: beyond it
    /// the oldest are dropped, and their followers get [`Expired`].
    pub(crate) fn remove(&self, resource: &ResourceId) {
        let mut state = self.lock();
        // The end of their channel notifies its followers.
        let Some(Resource { log, leftover, objects, .. }) = state.resources.remove(resource) else { return };
        let revision = state.revision;
        state.removed = revision;
        if !objects.is_empty() {
            let unserved = Resource { objects, ..Resource::new(resource.clone(), None, revision, revision) };
            state.resources.insert(resource.clone(), unserved);
        }
        state.leftover.retain(|leftover| leftover.strong_count() > 0);
        if Arc::strong_count(&leftover) > 1 {
            *lock(&leftover) = Some(log);
            state.leftover.push(Arc::downgrade(&leftover));
        }
        let mut room = self.retention.bytes;
        for leftover in state.leftover.iter().rev().filter_map(Weak::upgrade) {
            let mut log = lock(&leftover);
            let Some(log) = &mut *log else { continue };
            while log.bytes > room {
                log.forget_first();
            }
            room -= log.bytes;
        }
    }

    /// The objects that name this owner, by resource, namespace and name.
    pub(crate) fn dependents(&self, owner: &str) -> Vec<(ResourceId, Arc<Object>)> {
        let state = self.lock();
        let found = state.dependents.of(owner).filter_map(|(resource, key)| {
            budget::step(1);
            Some((resource.clone(), Arc::clone(state.resources.get(resource)?.objects.get(key)?)))
        });
        found.collect()
    }

    /// Whether this owner still waits for an object in foreground deletion.
    pub(crate) fn is_blocked(&self, owner: &str) -> bool {
        self.lock().dependents.is_blocked(owner)
    }

    /// The Pods on a node whose volumes name this claim.
    pub(crate) fn claim_users(&self, claim: &Key) -> Vec<Arc<Object>> {
        let state = self.lock();
        let Some(pods) = state.resources.get(&pods().id()) else { return Vec::new() };
        let users: Vec<_> = state.claim_users.of(claim).filter_map(|pod| pods.objects.get(pod).cloned()).collect();
        budget::step(users.len());
        users
    }

    /// Whether a resource has more than [`LONG`] objects. Does not wait for requests that list or
    /// write them.
    pub(crate) fn is_long(&self, resource: &ResourceId) -> bool {
        self.long.read().unwrap_or_else(PoisonError::into_inner).contains(resource)
    }

    /// Records how many objects a resource has.
    fn count(&self, resource: &ResourceId, objects: usize) {
        if (objects > LONG) != self.is_long(resource) {
            let mut long = self.long.write().unwrap_or_else(PoisonError::into_inner);
            if objects > LONG {
                long.insert(resource.clone())
            } else {
                long.remove(resource)
            };
        }
    }

    /// Whether no object of a resource is stored.
    pub(crate) fn is_empty(&self, resource: &ResourceId) -> bool {
        self.lock().resources.get(resource).is_none_or(|resource| resource.objects.is_empty())
    }

    /// The resources that have ever had an object.
    pub(crate) fn resources(&self) -> Vec<ResourceId> {
        self.lock().resources.keys().cloned().collect()
    }

    /// Whether a namespace has any object of a resource.
    pub(crate) fn has_any(&self, resource: &ResourceId, namespace: &str) -> bool {
        let state = self.lock();
        state.resources.get(resource).is_some_and(|resource| resource.range(namespace).next().is_some())
    }

    /// The changes that a follower has not seen: at most `limit` of them, and after the first no
    /// more than `bytes` of objects.
    pub(crate) fn next_changes(
        &self,
        follower: &mut Follower,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Arc<Change>>, Expired> {
        let state = self.lock();
        let (changes, is_all) = state.with_log(follower, |log| {
            let (mut changes, mut room) = (Vec::new(), bytes);
            for change in log.after(follower.reached)? {
                let size = change.shown_bytes();
                if changes.len() == limit || (size > room && !changes.is_empty()) {
                    return Ok((changes, false));
                }
                room = room.saturating_sub(size);
                changes.push(Arc::clone(change));
            }
            Ok((changes, true))
        })?;
        follower.reached = if is_all {
            // This resource has no change between its last one and the present. A follower may be
            // ahead of that.
            follower.reached.max(state.revision)
        } else {
            changes.last().map_or(follower.reached, |change| change.revision)
        };
        Ok(changes)
    }

    /// Why a follower cannot continue, once a state of its beginning was dropped.
    pub(crate) fn expired(&self, follower: &Follower) -> Expired {
        self.lock().with_log(follower, Log::expired)
    }
}

impl State {
    /// The store of a resource. Built-in resources need not begin.
    fn resource(&mut self, id: &ResourceId) -> Option<&mut Resource> {
        if !self.resources.contains_key(id) {
            let is_built_in = builtin().kinds().any(|kind| kind.group == *id.group && kind.plural == *id.plural);
            if !is_built_in {
                return None;
            }
            let resource = Resource::new(id.clone(), Some(0), self.revision, self.compacted);
            self.resources.insert(id.clone(), resource);
        }
        self.resources.get_mut(id).filter(|resource| resource.begun.is_some())
    }

    /// Reads the log of a follower: that of its resource, or what is left of it.
    fn with_log<R>(&self, follower: &Follower, read: impl FnOnce(&Log) -> R) -> R {
        // A resource that was removed and begun again is another one.
        let is_followed = |resource: &&Resource| Arc::ptr_eq(&resource.leftover, &follower.leftover);
        match self.resources.get(&follower.resource).filter(is_followed) {
            Some(resource) => read(&resource.log),
            None => match &*lock(&follower.leftover) {
                Some(log) => read(log),
                None => read(&Log::new(self.removed)),
            },
        }
    }
}

fn lock(leftover: &Mutex<Option<Log>>) -> MutexGuard<'_, Option<Log>> {
    leftover.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for State {
    fn default() -> Self {
        Self {
            revision: 1,
            resources: HashMap::new(),
            dependents: Dependents::default(),
            claim_users: ClaimUsers::default(),
            compacted: 0,
            removed: 0,
            leftover: Vec::new(),
        }
    }
}

impl Resource {
    fn in_namespace(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let objects: Vec<_> = match namespace {
            Some(namespace) => self.range(namespace).map(|(_, object)| Arc::clone(object)).collect(),
            None => self.objects.values().cloned().collect(),
        };
        budget::step(objects.len());
        objects
    }

    fn range(&self, namespace: &str) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let first = Key { namespace: namespace.into(), name: "".into() };
        let from_first = self.objects.range((Bound::Included(first), Bound::Unbounded));
        from_first.take_while(move |(key, _)| *key.namespace == *namespace)
    }
}

/// A position in the changes of one resource.
pub(crate) struct Follower {
    resource: ResourceId,
    /// Changes up to this revision have been seen.
    reached: Revision,
    written: watch::Receiver<Revision>,
    /// The log, once the resource is removed.
    leftover: Arc<Mutex<Option<Log>>>,
}

impl Follower {
    /// The revision up to which all changes have been seen.
    pub(crate) fn reached(&self) -> Revision {
        self.reached
    }

    /// Waits for an unseen change. `false` when the resource is removed.
    pub(crate) async fn changed(&mut self) -> bool {
        let reached = self.reached;
        self.written.wait_for(|written| *written > reached).await.is_ok()
    }
}

#[cfg(test)]
mod tests;
