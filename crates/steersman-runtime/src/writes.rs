//! What was written through a client and has to be seen in its caches.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_cache::ObjectKey;
use steersman_client::ObjectMeta;
use steersman_wire::compare_resource_version;
use tokio::time::Instant;

use crate::caches::{Caches, Declared, Keeps};

/// A deletion is remembered for so long: its version is not known, and so neither is when all caches have seen it.
const DELETIONS_KEPT: Duration = Duration::from_secs(300);
/// So many objects are remembered before those that all caches have seen are looked for.
const SWEEP: usize = 256;

/// The last write of each object, by the path of its kind, as long as a cache may not have seen it.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    by_path: Mutex<HashMap<String, Kind>>,
}

#[derive(Debug, Default)]
struct Kind {
    objects: HashMap<ObjectKey, Wanted>,
    /// When to look for what all caches have seen.
    sweep_at: usize,
}

/// What a cache has to show of one object.
#[derive(Debug, Default, Clone)]
pub(crate) struct Wanted {
    written: Option<Written>,
    /// Objects that are gone.
    gone: Vec<Gone>,
}

/// A state that the server has answered with.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    version: String,
    namespace: String,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
struct Gone {
    uid: String,
    since: Instant,
}

/// Which objects somebody is going to read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    One(&'a ObjectKey),
    Namespace(&'a str),
    All,
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
    fn by_path(&self) -> MutexGuard<'_, HashMap<String, Kind>> {
        self.by_path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has answered with this state of an object.
    pub(crate) fn written(&self, caches: &Caches, path: &str, meta: &ObjectMeta) {
        let (Some(name), Some(version)) = (&meta.name, &meta.resource_version) else { return };
        let namespace = meta.namespace.clone().unwrap_or_default();
        let key = ObjectKey::new(&namespace, name);
        let labels = meta.labels.clone().unwrap_or_default();
        let written = Written { version: version.clone(), namespace, labels };
        let mut by_path = self.by_path();
        let kind = by_path.entry(path.to_owned()).or_default();
        let wanted = kind.objects.entry(key).or_default();
        // Two writers may be told in another order than the server wrote.
        let newer = |before: &Written| compare_resource_version(&before.version, version).is_ok_and(Ordering::is_gt);
        if !wanted.written.as_ref().is_some_and(newer) {
            wanted.written = Some(written);
        }
        if kind.objects.len() > kind.sweep_at.max(SWEEP) {
            sweep(kind, &caches.at(path));
        }
    }

    /// The object with this uid is going to be deleted, or has been.
    pub(crate) fn gone(&self, path: &str, key: &ObjectKey, uid: &str) {
        let mut by_path = self.by_path();
        let wanted = by_path.entry(path.to_owned()).or_default().objects.entry(key.clone()).or_default();
        wanted.gone.retain(|gone| gone.uid != uid && gone.since.elapsed() < DELETIONS_KEPT);
        wanted.gone.push(Gone { uid: uid.to_owned(), since: Instant::now() });
    }

    /// It was not deleted after all.
    pub(crate) fn not_gone(&self, path: &str, key: &ObjectKey, uid: &str) {
        if let Some(wanted) = self.by_path().get_mut(path).and_then(|kind| kind.objects.get_mut(key)) {
            wanted.gone.retain(|gone| gone.uid != uid);
        }
    }

    /// The first object among those to be read that this cache does not show as it should, and what is wanted of it.
    pub(crate) fn missing(&self, path: &str, which: Which<'_>, declared: &Declared) -> Option<(ObjectKey, String)> {
        let by_path = self.by_path();
        let kind = by_path.get(path)?;
        let missing = |key: &ObjectKey, wanted: &Wanted| wanted.missing(key, declared).map(|what| (key.clone(), what));
        match which {
            Which::One(key) => missing(key, kind.objects.get(key)?),
            which => kind
                .objects
                .iter()
                .filter(|(key, _)| which.includes(key))
                .find_map(|(key, wanted)| missing(key, wanted)),
        }
    }
}

/// Forgets what all caches have seen.
fn sweep(kind: &mut Kind, caches: &[std::sync::Arc<Declared>]) {
    let versions: Vec<_> = caches.iter().map(|declared| declared.look().resource_version()).collect();
    kind.objects.retain(|_, wanted| {
        wanted.gone.retain(|gone| gone.since.elapsed() < DELETIONS_KEPT);
        wanted.written.take_if(|written| versions.iter().all(|version| has_reached(version, &written.version)));
        wanted.written.is_some() || !wanted.gone.is_empty()
    });
    kind.sweep_at = kind.objects.len() * 2;
}

/// Versions that do not compare are not waited for: there is no way to know.
fn has_reached(version: &str, wanted: &str) -> bool {
    if version.is_empty() {
        return false;
    }
    compare_resource_version(version, wanted).map_or(true, Ordering::is_ge)
}

impl Wanted {
    /// What the cache lacks, in words.
    fn missing(&self, key: &ObjectKey, declared: &Declared) -> Option<String> {
        let cached = declared.look().meta(key);
        if let Some(cached) = &cached
            && let Some(gone) = self.gone.iter().find(|gone| gone.uid == cached.uid())
        {
            return Some(format!("the deletion of uid {}", gone.uid));
        }
        let written = self.written.as_ref()?;
        if has_reached(&declared.look().resource_version(), &written.version) {
            return None;
        }
        let seen = cached.as_ref().is_some_and(|cached| has_reached(cached.resource_version(), &written.version));
        let label = |label: &str| written.labels.get(label).map(String::as_str);
        let there = match declared.scope.keeps(&written.namespace, label) {
            Keeps::Yes => seen,
            Keeps::No => cached.is_none() || seen,
            Keeps::Unknown => false,
        };
        (!there).then(|| format!("version {}", written.version))
    }
}
