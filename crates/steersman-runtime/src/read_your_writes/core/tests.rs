//! The cells of the transition tables, and a property test against a model of server and caches.

use std::collections::BTreeSet;
use std::slice::from_ref;

use proptest::prelude::*;
use steersman_client::ObjectMeta;

use super::super::wanted::Deleted;
use super::*;

/// A cache that shows what a test puts into it.
#[derive(Debug, Clone, Default)]
struct Fake {
    number: usize,
    /// Keeps only objects that are written with a version that ends in 0.
    is_selective: bool,
    reached: u64,
    shown: BTreeMap<ObjectKey, (String, String)>,
}

impl CacheView for Fake {
    fn number(&self) -> usize {
        self.number
    }

    fn is_unselective(&self) -> bool {
        !self.is_selective
    }

    fn can_hold(&self, _: &ObjectKey) -> bool {
        true
    }

    fn selects(&self, _: &ObjectKey, written: &Written) -> Selected {
        if !self.is_selective || is_selected(&written.version) { Selected::Yes } else { Selected::No }
    }

    fn reached(&self) -> String {
        // A cache without a list has no version.
        if self.reached == 0 { String::new() } else { self.reached.to_string() }
    }

    fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<Shown<'_>>) -> T) -> T {
        look(self.shown.get(key).map(|(uid, version)| Shown { uid, version }))
    }
}

/// The selective caches of these tests select by the version, so that a write needs no labels.
fn is_selected(version: &str) -> bool {
    version.ends_with('0')
}

fn key() -> ObjectKey {
    ObjectKey::new("a", "x")
}

fn state(uid: &str, version: u64) -> Written {
    let (uid, resource_version) = (Some(uid.to_owned()), Some(version.to_string()));
    Written::new(&ObjectMeta { uid, resource_version, ..ObjectMeta::default() }).unwrap()
}

/// What a read of the object has to do in a cache.
fn standing(core: &Core, cache: &Fake) -> Standing {
    core.objects.get(&key()).map(|wanted| wanted.standing(cache.number)).unwrap_or_default()
}

const SEEN: Standing = Standing { awaited: false, suspect: false };
const AWAITED: Standing = Standing { awaited: true, suspect: false };
const LEAVING: Standing = Standing { awaited: false, suspect: true };
const RETURNING: Standing = Standing { awaited: true, suspect: true };

#[test]
fn each_look_moves_a_deletion() {
    use Deleted::{Absent, Expected, Shown};
    // From; shows the object; has been there; then without and with a selector.
    let table = [
        (Expected, true, false, Some(Shown), Some(Shown)),
        (Expected, true, true, Some(Shown), Some(Shown)),
        (Expected, false, true, None, Some(Absent)),
        (Expected, false, false, Some(Expected), Some(Expected)),
        (Shown, true, false, Some(Shown), Some(Shown)),
        (Shown, true, true, Some(Shown), Some(Shown)),
        (Shown, false, true, None, Some(Absent)),
        (Shown, false, false, None, Some(Absent)),
        (Absent, true, false, Some(Shown), Some(Shown)),
        (Absent, true, true, Some(Shown), Some(Shown)),
        (Absent, false, true, None, Some(Absent)),
        (Absent, false, false, None, Some(Absent)),
    ];
    for (from, shows, has_been_there, unselective, selective) in table {
        let case = (from, shows, has_been_there);
        assert_eq!(from.after_look(shows, has_been_there, true), unselective, "without a selector: {case:?}");
        assert_eq!(from.after_look(shows, has_been_there, false), selective, "with a selector: {case:?}");
    }
}

#[test]
fn each_event_moves_the_last_write() {
    /// Brings a new object into a state of the table.
    fn enter(from: Standing) -> (Core, Fake) {
        let (mut core, mut cache) = (Core::default(), Fake { is_selective: true, ..Fake::default() });
        let versions: &[u64] = match from {
            LEAVING => &[11],
            RETURNING => &[9, 10],
            _ => &[10],
        };
        versions.iter().for_each(|version| core.written(from_ref(&cache), &key(), state("u", *version)));
        let version = *versions.last().unwrap();
        if from == SEEN {
            cache.reached = version;
            core.pending(ReadScope::All, &cache);
        }
        assert_eq!(standing(&core, &cache), from);
        (core, cache)
    }
    for from in [SEEN, AWAITED, LEAVING, RETURNING] {
        let (mut core, cache) = enter(from);
        core.written(from_ref(&cache), &key(), state("u", 20));
        let expected = if matches!(from, LEAVING | RETURNING) { RETURNING } else { AWAITED };
        assert_eq!(standing(&core, &cache), expected, "written, selected: {from:?}");

        let (mut core, cache) = enter(from);
        core.written(from_ref(&cache), &key(), state("u", 21));
        assert_eq!(standing(&core, &cache), LEAVING, "written, left the selection: {from:?}");

        let (mut core, cache) = enter(from);
        core.written(from_ref(&cache), &key(), state("u", 5));
        assert_eq!(standing(&core, &cache), from, "an answer that is late: {from:?}");

        let (mut core, mut cache) = enter(from);
        cache.reached = 11;
        core.review_everywhere(&key(), from_ref(&cache));
        assert_eq!(standing(&core, &cache), SEEN, "look, reached: {from:?}");

        let (mut core, mut cache) = enter(from);
        cache.shown.insert(key(), ("u".to_owned(), "11".to_owned()));
        core.review_everywhere(&key(), from_ref(&cache));
        assert_eq!(standing(&core, &cache), SEEN, "look, shows a later state: {from:?}");

        let (mut core, mut cache) = enter(from);
        cache.reached = if from == SEEN { 9 } else { 8 };
        core.review_everywhere(&key(), from_ref(&cache));
        assert_eq!(standing(&core, &cache), from, "look, behind: {from:?}");

        let (mut core, cache) = enter(from);
        core.deleted(from_ref(&cache), Instant::now(), &key(), (Some("u"), None), &SeenBefore::default());
        let only_the_deletion = Standing { awaited: false, suspect: true };
        assert_eq!(standing(&core, &cache), only_the_deletion, "deleted: {from:?}");
        assert!(core.objects[&key()].written.is_none());

        let (mut core, cache) = enter(from);
        let late = Fake { number: 1, ..cache.clone() };
        let behind = Fake { reached: 0, ..late };
        core.pending(ReadScope::All, &behind);
        let expected = if from == LEAVING { LEAVING } else { AWAITED };
        assert_eq!(standing(&core, &behind), expected, "a new cache is behind: {from:?}");
        core.sweep(from_ref(&cache), Instant::now());
        assert_eq!(core.len(), usize::from(from != SEEN), "a sweep forgets what is seen: {from:?}");
        assert!(!core.caches.contains_key(&1), "and caches that are gone");
    }
}

#[test]
fn a_sweep_forgets_unproven_deletions_when_they_are_old() {
    let (mut core, cache) = (Core::default(), Fake { is_selective: true, ..Fake::default() });
    let start = Instant::now();
    core.deleted(from_ref(&cache), start, &key(), (Some("u"), None), &SeenBefore::default());
    core.sweep(from_ref(&cache), start + UNPROVEN_KEPT - Duration::from_millis(1));
    assert_eq!(core.len(), 1);
    core.sweep(from_ref(&cache), start + UNPROVEN_KEPT);
    assert_eq!(core.len(), 0);
}

/// A state of an object on the server. Its version is its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Object {
    uid: String,
    version: u64,
}

/// The server: all changes of all objects. `None` is a deletion.
#[derive(Debug, Default)]
struct Server {
    log: Vec<(ObjectKey, Option<Object>)>,
    uids: u64,
}

impl Server {
    fn now(&self) -> u64 {
        self.log.len() as u64
    }

    fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.log.iter().rev().find(|(other, _)| other == key)?.1.as_ref()
    }

    /// Creates or updates an object. Its version decides whether selective caches keep it.
    fn put(&mut self, key: &ObjectKey, selected: bool) -> Object {
        let uid = match self.get(key) {
            Some(object) => object.uid.clone(),
            None => {
                self.uids += 1;
                format!("uid-{}", self.uids)
            }
        };
        // Other objects, of which no cache is told, take versions in between.
        let other = ObjectKey::new("other", "other");
        while is_selected(&(self.now() + 1).to_string()) != selected {
            self.log.push((other.clone(), None));
        }
        let object = Object { uid, version: self.now() + 1 };
        self.log.push((key.clone(), Some(object.clone())));
        object
    }

    /// Returns the last state, and the version of the deletion.
    fn delete(&mut self, key: &ObjectKey) -> Option<(Object, u64)> {
        let object = self.get(key)?.clone();
        self.log.push((key.clone(), None));
        Some((object, self.now()))
    }
}

impl Fake {
    /// Applies the log up to this place.
    fn advance(&mut self, server: &Server, applied: &mut u64, to: u64, bookmark: bool) {
        while *applied < to {
            let (key, object) = &server.log[usize::try_from(*applied).unwrap()];
            *applied += 1;
            let kept = object.as_ref().filter(|object| !self.is_selective || is_selected(&object.version.to_string()));
            let is_event = match kept {
                Some(object) => {
                    self.shown.insert(key.clone(), (object.uid.clone(), object.version.to_string()));
                    true
                }
                None => self.shown.remove(key).is_some(),
            };
            if is_event {
                self.reached = *applied;
            }
        }
        if bookmark {
            self.reached = *applied;
        }
    }
}

/// What a read must show, as of its beginning.
#[derive(Debug, Clone, Default)]
struct Claims {
    /// The last states that were written and not deleted since.
    written: BTreeMap<ObjectKey, Object>,
    /// The uids that are deleted for sure.
    deleted: BTreeSet<String>,
}

#[derive(Debug)]
struct Read {
    cache: usize,
    scope: Option<ObjectKey>,
    pending: Pending,
    claims: Claims,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write { object: usize, selected: bool },
    Delete { object: usize, answer: u8 },
    OthersWrite { object: usize, selected: bool },
    OthersDelete { object: usize },
    Advance { cache: usize, by: u64, bookmark: bool },
    NewCache { selective: bool },
    Begin { cache: usize, object: Option<usize> },
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let object = 0..3_usize;
    let step = prop_oneof![
        4 => (object.clone(), any::<bool>()).prop_map(|(object, selected)| Step::Write { object, selected }),
        3 => (object.clone(), 0..4_u8).prop_map(|(object, answer)| Step::Delete { object, answer }),
        2 => (object.clone(), any::<bool>()).prop_map(|(object, selected)| Step::OthersWrite { object, selected }),
        1 => object.clone().prop_map(|object| Step::OthersDelete { object }),
        6 => (0..4_usize, 1..12_u64, any::<bool>())
            .prop_map(|(cache, by, bookmark)| Step::Advance { cache, by, bookmark }),
        1 => any::<bool>().prop_map(|selective| Step::NewCache { selective }),
        6 => (0..4_usize, proptest::option::of(object)).prop_map(|(cache, object)| Step::Begin { cache, object }),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..60)
}

#[derive(Default)]
struct Model {
    core: Core,
    server: Server,
    caches: Vec<Fake>,
    /// How much of the log each cache has applied.
    applied: Vec<u64>,
    claims: Claims,
    reads: Vec<Read>,
}

impl Model {
    fn new() -> Self {
        let mut model = Self::default();
        model.add_cache(false);
        model.add_cache(true);
        model
    }

    /// Adds a cache. Its first list is as old as the oldest cache: what all have passed may be
    /// forgotten.
    fn add_cache(&mut self, is_selective: bool) {
        if self.caches.len() < 4 {
            let mut cache = Fake { number: self.caches.len(), is_selective, ..Fake::default() };
            let (oldest, mut applied) = (self.applied.iter().min().copied().unwrap_or_default(), 0);
            cache.advance(&self.server, &mut applied, oldest, true);
            self.caches.push(cache);
            self.applied.push(applied);
        }
    }

    fn key(object: usize) -> ObjectKey {
        ObjectKey::new("a", &format!("object-{object}"))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { object, selected } => {
                let key = Self::key(object);
                let object = self.server.put(&key, selected);
                self.core.written(&self.caches, &key, state(&object.uid, object.version));
                self.claims.written.insert(key, object);
            }
            Step::Delete { object, answer } => self.delete(&Self::key(object), answer),
            Step::OthersWrite { object, selected } => drop(self.server.put(&Self::key(object), selected)),
            Step::OthersDelete { object } => drop(self.server.delete(&Self::key(object))),
            Step::Advance { cache, by, bookmark } => {
                let number = cache % self.caches.len();
                let to = (self.applied[number] + by).min(self.server.now());
                self.caches[number].advance(&self.server, &mut self.applied[number], to, bookmark);
            }
            Step::NewCache { selective } => self.add_cache(selective),
            Step::Begin { cache, object } => {
                let cache = cache % self.caches.len();
                let scope = object.map(Self::key);
                let pending = self.core.pending(read_scope(scope.as_ref()), &self.caches[cache]);
                self.reads.push(Read { cache, scope, pending, claims: self.claims.clone() });
            }
            Step::Sweep => self.core.sweep(&self.caches, Instant::now()),
        }
        // Reads go on as long as something is missing.
        let reads = std::mem::take(&mut self.reads);
        for read in reads {
            match self.finished(&read) {
                true => self.check(&read),
                false => self.reads.push(read),
            }
        }
    }

    fn delete(&mut self, key: &ObjectKey, answer: u8) {
        let shown = |cache: &Fake| Some((cache.number, cache.shown.get(key)?.0.clone()));
        let before = SeenBefore::from_uids(self.caches.iter().filter_map(shown).collect());
        let Some((object, version)) = self.server.delete(key) else { return };
        let (last, deleted) = (object.version.to_string(), version.to_string());
        let answer = match answer {
            0 => (Some(&*object.uid), Some(&*deleted)),
            1 => (Some(&*object.uid), Some(&*last)),
            2 => (Some(&*object.uid), None),
            // A Status without details.
            _ => (None, None),
        };
        self.core.deleted(&self.caches, Instant::now(), key, answer, &before);
        let known: Vec<_> = before.uids().chain(answer.0).map(ToOwned::to_owned).collect();
        if known.contains(&object.uid) {
            self.claims.written.remove(key);
        }
        self.claims.deleted.extend(known);
    }

    fn found<'a>(&'a self, read: &'a Read) -> Vec<(&'a ObjectKey, &'a (String, String))> {
        let shown = self.caches[read.cache].shown.iter();
        shown.filter(|(key, _)| read.scope.as_ref().is_none_or(|scope| scope == *key)).collect()
    }

    /// Whether the core lets a read return what its cache shows now.
    fn finished(&mut self, read: &Read) -> bool {
        let cache = &self.caches[read.cache];
        if self.core.missing(&read.pending, cache).is_some() {
            return false;
        }
        let Some(below) = read.pending.below else { return true };
        let found: Vec<_> = self.found(read).into_iter().map(|(key, shown)| (key.clone(), shown.clone())).collect();
        let found = found.iter().map(|(key, (uid, version))| ShownObject {
            namespace: key.namespace().unwrap_or_default(),
            name: key.name(),
            shown: Shown { uid, version },
        });
        self.core.outdated(below, read.cache, found.collect::<Vec<_>>().into_iter()).is_none()
    }

    /// A read that returns now shows everything that was written before it began.
    fn check(&self, read: &Read) {
        let (cache, applied) = (&self.caches[read.cache], self.applied[read.cache]);
        for (key, (uid, _)) in self.found(read) {
            assert!(!read.claims.deleted.contains(uid), "{key} is shown with the deleted {uid}: {read:?}");
        }
        for (key, object) in &read.claims.written {
            if read.scope.as_ref().is_some_and(|scope| scope != key) {
                continue;
            }
            let shown = cache.shown.get(key).map(|(_, version)| version.parse::<u64>().unwrap());
            // An object that was deleted since may be absent or not.
            let is_deleted = self.claims.deleted.contains(&object.uid);
            match shown {
                Some(shown) => assert!(shown >= object.version, "{key} at {shown}: {read:?}"),
                None if is_deleted || cache.is_selective && !is_selected(&object.version.to_string()) => {}
                None if self.claims.written.get(key) != Some(object) => {}
                None => assert!(applied >= object.version, "{key} is absent: {read:?}"),
            }
        }
    }

    /// A cache that has caught up answers every read at once, and is soon not suspected any more.
    fn check_progress(&mut self) {
        let now = self.server.now();
        for (cache, applied) in self.caches.iter_mut().zip(&mut self.applied) {
            cache.advance(&self.server, applied, now, true);
        }
        let reads = std::mem::take(&mut self.reads);
        for read in &reads {
            assert!(self.finished(read), "a read still waits for a cache that has caught up: {read:?}");
            self.check(read);
        }
        self.core.sweep(&self.caches, Instant::now());
        if self.caches.iter().all(|cache| !cache.is_selective) {
            assert_eq!(self.core.len(), 0, "all caches have passed everything");
        }
    }
}

fn read_scope(key: Option<&ObjectKey>) -> ReadScope<'_> {
    key.map_or(ReadScope::All, ReadScope::One)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_read_shows_what_was_written_before_it_began_and_ends_when_the_cache_has_caught_up(steps in steps()) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.step(step));
        model.check_progress();
    }
}
