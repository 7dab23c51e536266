//! What was written through a client and has to be seen in its caches.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use steersman_cache::{Cached, ObjectKey};
use steersman_client::ObjectMeta;
use steersman_wire::{Metadata, ResourceVersion, compare_resource_version};
use tokio::time::Instant;

use crate::caches::{Declared, Keeps, selected_values};

/// A deletion is remembered for so long, and longer where a cache still shows the object. The server does not tell its version, and
/// so a cache that has not seen the object yet may show it later.
const DELETIONS_KEPT: Duration = Duration::from_secs(300);
/// So many objects are remembered before those that all caches have seen are looked for.
const SWEEP: usize = 256;

/// The last write of each object, by resource, as long as a cache may not have seen it.
///
/// Its memory is bounded: it has at most twice as many objects as the caches lag behind, and 256 (test
/// `what_all_caches_have_seen_is_forgotten`).
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Anything was ever written.
    any: AtomicBool,
    by_resource: Mutex<HashMap<String, Remembered>>,
}

#[derive(Debug, Default)]
struct Remembered {
    objects: HashMap<ObjectKey, Wanted>,
    /// When to look for what all caches have seen.
    sweep_at: usize,
    /// Somebody was told that versions of this resource do not compare.
    told: bool,
}

/// What a cache has to show of one object.
#[derive(Debug, Default, Clone)]
struct Wanted {
    written: Option<Arc<Written>>,
    /// The numbers of the caches that have shown it.
    seen: Vec<usize>,
    /// Objects of this name that are gone.
    gone: Vec<Gone>,
}

/// A state that the server has answered with.
#[derive(Debug)]
pub(crate) struct Written {
    version: String,
    uid: String,
    /// `None` if the answer did not have them.
    labels: Option<BTreeMap<String, String>>,
    /// Those that a cache selects by and that are known.
    fields: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Gone {
    uid: String,
    since: Instant,
    /// Every cache had the object before it was deleted: it will not come any more where it is no longer.
    was_everywhere: bool,
}

/// Which objects somebody is going to read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    One(&'a ObjectKey),
    Namespace(&'a str),
    All,
}

/// What a read has to show of an object: it was written before the read began.
#[derive(Debug)]
pub(crate) struct Pending {
    key: ObjectKey,
    wanted: Wanted,
}

/// What the caches know of an object before it is deleted.
#[derive(Debug, Default)]
pub(crate) struct Sighting {
    uids: BTreeSet<String>,
    everywhere: bool,
}

/// Whether a cache shows what was written.
#[derive(Debug, PartialEq, Eq)]
enum Shown {
    /// And it will go on doing so.
    ForGood,
    /// What it has is right, but something older may come.
    ForNow,
    /// It lacks this.
    No(String),
}

impl Sighting {
    pub(crate) fn of(caches: &[Arc<Declared>], key: &ObjectKey) -> Self {
        let mut uids = BTreeSet::new();
        let mut everywhere = true;
        for declared in caches {
            let uid = declared.look().meta(key).map(|meta| meta.uid().to_owned());
            everywhere &= !declared.can_hold(key) || (uid.is_some() && declared.is_unselective());
            uids.extend(uid);
        }
        Self { everywhere: everywhere && uids.len() <= 1, uids }
    }
}

impl Written {
    /// Of an answer without a version nothing is to be remembered.
    pub(crate) fn new(meta: &ObjectMeta) -> Option<Self> {
        let version = meta.resource_version.clone()?;
        Some(Self { version, uid: meta.uid.clone().unwrap_or_default(), labels: None, fields: BTreeMap::new() })
    }

    /// With what selectors look at, as the whole object has it.
    pub(crate) fn with_object<K: Serialize>(mut self, meta: &ObjectMeta, object: &K, caches: &[Arc<Declared>]) -> Self {
        self.labels = Some(meta.labels.clone().unwrap_or_default());
        self.fields = selected_values(caches.iter().map(|declared| &**declared), object);
        self
    }

    fn keeps(&self, key: &ObjectKey, declared: &Declared) -> Keeps {
        declared.keeps(key, self.labels.as_ref(), |field| self.fields.get(field).map(String::as_str))
    }
}

impl Which<'_> {
    fn includes(self, key: &ObjectKey) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Namespace(namespace) => key.namespace() == Some(namespace),
            Self::All => true,
        }
    }
}

impl Writes {
    fn by_resource(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.by_resource.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many objects are remembered.
    pub(crate) fn len(&self) -> usize {
        self.by_resource().values().map(|remembered| remembered.objects.len()).sum()
    }

    /// The server has answered with this state of an object.
    pub(crate) fn written(&self, caches: &[Arc<Declared>], resource: &str, key: ObjectKey, written: Written) {
        let mut by_resource = self.by_resource();
        self.any.store(true, atomic::Ordering::Release);
        let remembered = by_resource.entry(resource.to_owned()).or_default();
        if ResourceVersion::parse(&written.version).is_err() {
            if !std::mem::replace(&mut remembered.told, true) {
                let version = &written.version;
                tracing::warn!(
                    resource,
                    version,
                    "versions that do not compare: reads do not wait for what was written"
                );
            }
            return;
        }
        let wanted = remembered.objects.entry(key).or_default();
        // Two writers may be told in another order than the server wrote.
        let newer = |before: &Arc<Written>| {
            compare_resource_version(&before.version, &written.version).is_ok_and(Ordering::is_gt)
        };
        if !wanted.written.as_ref().is_some_and(newer) {
            wanted.written = Some(Arc::new(written));
            wanted.seen.clear();
        }
        remembered.sweep_if_due(caches);
    }

    /// An object has been deleted: that with the uid that the server told, and whatever the caches knew before it was sent.
    pub(crate) fn gone(
        &self,
        caches: &[Arc<Declared>],
        resource: &str,
        key: &ObjectKey,
        told: Option<String>,
        mut before: Sighting,
    ) {
        let mut by_resource = self.by_resource();
        self.any.store(true, atomic::Ordering::Release);
        let remembered = by_resource.entry(resource.to_owned()).or_default();
        if let Some(told) = told.filter(|uid| !uid.is_empty()) {
            before.everywhere &= before.uids.contains(&told);
            before.uids.insert(told);
        }
        if before.uids.is_empty() {
            return;
        }
        let wanted = remembered.objects.entry(key.clone()).or_default();
        if before.everywhere && wanted.written.as_ref().is_some_and(|written| before.uids.contains(&written.uid)) {
            wanted.written = None;
        }
        wanted.gone.retain(|gone| !before.uids.contains(&gone.uid));
        let (since, was_everywhere) = (Instant::now(), before.everywhere);
        wanted.gone.extend(before.uids.into_iter().map(|uid| Gone { uid, since, was_everywhere }));
        remembered.sweep_if_due(caches);
    }

    /// What was written so far of the objects to be read, as far as this cache may not show it.
    pub(crate) fn pending(&self, which: Which<'_>, declared: &Declared) -> Vec<Pending> {
        // Most reads end here, or at one of the next two returns.
        if !self.any.load(atomic::Ordering::Acquire) {
            return Vec::new();
        }
        let mut by_resource = self.by_resource();
        let Some(remembered) = by_resource.get_mut(&declared.identity.resource) else { return Vec::new() };
        let reached = OnceCell::new();
        let mut pending = Vec::new();
        let mut look = |key: &ObjectKey, wanted: &mut Wanted| {
            if wanted.was_shown_for_good(declared) {
                return;
            }
            let reached = reached.get_or_init(|| declared.look().resource_version());
            if wanted.look(key, reached, declared) != Shown::ForGood {
                pending.push(Pending { key: key.clone(), wanted: wanted.clone() });
            }
        };
        match which {
            Which::One(key) => {
                if let Some(wanted) = remembered.objects.get_mut(key) {
                    look(key, wanted);
                }
            }
            which => {
                let chosen = remembered.objects.iter_mut().filter(|(key, _)| which.includes(key));
                chosen.for_each(|(key, wanted)| look(key, wanted));
            }
        }
        pending
    }

    /// The first object of `pending` that the cache does not show as it should, and what it lacks. What was written since the read
    /// began is not waited for, but will do.
    pub(crate) fn missing(&self, pending: &[Pending], declared: &Declared) -> Option<(ObjectKey, String)> {
        let reached = declared.look().resource_version();
        let mut by_resource = self.by_resource();
        let remembered = by_resource.get_mut(&declared.identity.resource);
        let mut objects = remembered.map(|remembered| &mut remembered.objects);
        pending.iter().find_map(|Pending { key, wanted }| {
            // What is no longer remembered has been seen by all caches.
            let now = objects.as_mut()?.get_mut(key)?;
            if !matches!(now.look(key, &reached, declared), Shown::No(_)) {
                return None;
            }
            let cached = declared.look().meta(key);
            let Shown::No(what) = wanted.shown(key, cached.as_ref(), &reached, declared) else { return None };
            Some((key.clone(), what))
        })
    }
}

/// Which of the objects that were read, when the cache had reached at least that version, is older than what was written, and what it
/// lacks. It can have come between the look at the cache and the read.
pub(crate) fn outdated<K>(
    pending: &[Pending],
    objects: &[Cached<K>],
    reached: &str,
    declared: &Declared,
) -> Option<(ObjectKey, String)> {
    let by_key: HashMap<_, _> = pending
        .iter()
        .map(|pending| ((pending.key.namespace().unwrap_or_default(), pending.key.name()), pending))
        .collect();
    objects.iter().map(Cached::meta).find_map(|meta| {
        let Pending { key, wanted } = by_key.get(&(meta.namespace(), meta.name()))?;
        let Shown::No(what) = wanted.shown(key, Some(meta), reached, declared) else { return None };
        Some((key.clone(), what))
    })
}

impl Remembered {
    /// Forgets what all caches have seen, once there is as much again as was left the last time.
    fn sweep_if_due(&mut self, caches: &[Arc<Declared>]) {
        if self.objects.len() <= self.sweep_at.max(SWEEP) {
            return;
        }
        let caches: Vec<_> = caches.iter().map(|declared| (declared, declared.look().resource_version())).collect();
        self.objects.retain(|key, wanted| {
            let shown = caches.iter().map(|(declared, reached)| wanted.look(key, reached, declared));
            let shown: Vec<_> = shown.collect();
            if !shown.iter().any(|shown| matches!(shown, Shown::No(_))) {
                wanted.forget_old_deletions();
            }
            !wanted.is_empty() && shown.iter().any(|shown| *shown != Shown::ForGood)
        });
        self.sweep_at = self.objects.len() * 2;
    }
}

/// Whether a version is at least the one that is wanted. Versions that do not compare are not waited for: there is no way to know.
fn has_reached(version: &str, wanted: &str) -> bool {
    compare_resource_version(version, wanted).map_or(!version.is_empty(), Ordering::is_ge)
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.written.is_none() && self.gone.is_empty()
    }

    fn is_gone(&self, uid: &str) -> bool {
        self.gone.iter().any(|gone| gone.uid == uid)
    }

    /// What was written of them is forgotten with them.
    fn forget_old_deletions(&mut self) {
        let is_old = |gone: &Gone| gone.since.elapsed() >= DELETIONS_KEPT;
        self.written.take_if(|written| self.gone.iter().any(|gone| gone.uid == written.uid && is_old(gone)));
        self.gone.retain(|gone| !is_old(gone));
    }

    /// Whether a cache shows it. A state that a cache has shown is remembered: it will not go back behind it.
    fn look(&mut self, key: &ObjectKey, reached: &str, declared: &Declared) -> Shown {
        let cached = declared.look().meta(key);
        if self.is_seen(cached.as_ref(), reached, declared) && !self.seen.contains(&declared.number) {
            self.seen.push(declared.number);
        }
        self.shown(key, cached.as_ref(), reached, declared)
    }

    /// Whether a cache has shown it once, and nothing can come in between: no look at the cache is needed to know.
    fn was_shown_for_good(&self, declared: &Declared) -> bool {
        self.gone.is_empty() && self.seen.contains(&declared.number)
    }

    /// Whether the cache has, or once had, the state that was written or a later one.
    fn is_seen(&self, cached: Option<&Metadata>, reached: &str, declared: &Declared) -> bool {
        self.written.as_ref().is_none_or(|written| {
            self.seen.contains(&declared.number)
                || has_reached(reached, &written.version)
                || cached.is_some_and(|cached| has_reached(cached.resource_version(), &written.version))
        })
    }

    /// Whether a cache that has reached at least this version, and has this state of the object, shows it.
    fn shown(&self, key: &ObjectKey, cached: Option<&Metadata>, reached: &str, declared: &Declared) -> Shown {
        if let Some(uid) = cached.map(Metadata::uid).filter(|uid| self.is_gone(uid)) {
            return Shown::No(format!("the deletion of uid {uid}"));
        }
        let written = match &self.written {
            Some(written) if !self.is_seen(cached, reached, declared) => written,
            _ if self.gone.iter().all(|gone| gone.was_everywhere) => return Shown::ForGood,
            _ => return Shown::ForNow,
        };
        let keeps = if self.is_gone(&written.uid) { Keeps::No } else { written.keeps(key, declared) };
        if keeps == Keeps::No && cached.is_none() {
            return Shown::ForNow;
        }
        Shown::No(format!("version {}", written.version))
    }
}
