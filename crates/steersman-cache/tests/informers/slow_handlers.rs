//! Handlers that do not keep up.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{
    Cached, Event, EventHandler, FilteringHandler, HandlerHandle, Informer, StorageOptions, handler,
};

use crate::common::script::{Script, map_json, scripted};
use crate::common::*;

/// More waiting events than a handler has without merging, including a batch and short-lived
/// objects.
const UNMERGED_MAX: usize = 5_100;

/// The uid and version of each object that a handler knows.
type Known = BTreeMap<String, (String, u64)>;

fn state(object: &Cached<ConfigMap>) -> (String, u64) {
    (object.meta().uid().to_owned(), object.meta().resource_version().parse().unwrap())
}

/// Follows the events, and fails on impossible ones.
struct Witness {
    known: Known,
    /// Receives the known objects after each event.
    log: Log<String>,
    sent: mpsc::Sender<Known>,
    /// Blocks the first call that is not initial.
    gate: Option<mpsc::Receiver<()>>,
}

impl Witness {
    fn note(&mut self, problem: Option<String>) {
        problem.into_iter().for_each(|problem| self.log.push(problem));
        let _ = self.sent.send(self.known.clone());
    }

    fn wait(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.recv().unwrap();
        }
    }
}

impl EventHandler<ConfigMap> for Witness {
    fn on_add(&mut self, object: &Cached<ConfigMap>, initial: bool) {
        if !initial {
            self.wait();
        }
        let before = self.known.insert(object.meta().name().to_owned(), state(object));
        self.note(before.map(|before| format!("{object:?} was added, but {before:?} was known")));
    }

    fn on_update(&mut self, old: &Cached<ConfigMap>, new: &Cached<ConfigMap>) {
        self.wait();
        let before = self.known.insert(new.meta().name().to_owned(), state(new));
        let fits = before.as_ref() == Some(&state(old)) && state(old).1 <= state(new).1;
        self.note((!fits).then(|| format!("{old:?} was updated to {new:?}, but {before:?} was known")));
    }

    fn on_delete(&mut self, object: &Cached<ConfigMap>, _: bool) {
        self.wait();
        let before = self.known.remove(object.meta().name());
        let fits = before.as_ref().is_some_and(|(uid, _)| *uid == state(object).0);
        self.note((!fits).then(|| format!("{object:?} was deleted, but {before:?} was known")));
    }
}

/// A runtime for a handler that blocks.
fn other_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

/// An informer with these objects, at versions from 11.
async fn informer(names: impl IntoIterator<Item = String>) -> (Informer<ConfigMap>, Script) {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    for (number, name) in names.into_iter().enumerate() {
        script.added(&map_json(&name, 11 + number as u64, ""));
    }
    script.listed(100);
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    (informer, script)
}

/// Sends events with new versions, a few at a time.
struct Sender {
    script: Script,
    informer: Informer<ConfigMap>,
    version: u64,
}

impl Sender {
    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn modify(&mut self, name: &str) {
        let version = self.next();
        self.script.modified(&map_json(name, version, ""));
    }

    fn delete(&mut self, name: &str) {
        let version = self.next();
        self.script.deleted(&map_json(name, version, ""));
    }

    fn add(&mut self, name: &str) {
        let version = self.next();
        self.script.added(&map_json(name, version, ""));
    }

    /// Deletes `map-8`, whose uid has this number, and creates one of the same name with the next
    /// uid.
    fn replace(&mut self, number: u32) {
        let object = |version, number| {
            let mut object = map_json("map-8", version, "");
            object["metadata"]["uid"] = uid_of(number).into();
            object
        };
        let gone = object(self.next(), number);
        self.script.deleted(&gone);
        let new = object(self.next(), number + 1);
        self.script.added(&new);
    }

    async fn applied(&self) {
        let lister = self.informer.lister();
        lister.wait_for_version(&self.version.to_string(), Duration::from_secs(60)).await.unwrap();
    }
}

fn uid_of(number: u32) -> String {
    if number == 0 { "uid-map-8".to_owned() } else { format!("uid-map-8-{number}") }
}

#[tokio::test]
async fn a_stuck_handler_costs_a_few_entries_for_each_object_and_then_sees_how_it_ended() {
    let names: Vec<_> = (0..10).map(|number| format!("map-{number}")).collect();
    let (informer, script) = informer(names.clone()).await;
    let ((go, gate), (sent, seen), log) = (mpsc::channel(), mpsc::channel(), Log::new());
    let runtime = other_thread();
    let witness = Witness { known: Known::new(), log: log.clone(), sent, gate: Some(gate) };
    let handle = {
        let _in_runtime = runtime.enter();
        informer.add_event_handler_with_resync(witness, Duration::from_secs(1)).unwrap()
    };
    handle.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    let mut sender = Sender { script, informer: informer.clone(), version: 1_000 };
    let mut most = 0;
    for round in 0..100_000_u32 {
        sender.modify(&names[round as usize % 8]);
        if round % 5 == 0 {
            let name = format!("short-lived-{round}");
            sender.add(&name);
            sender.delete(&name);
        }
        if round % 1_000 == 0 {
            sender.replace(round / 1_000);
            sender.applied().await;
            most = most.max(informer.metrics().events_pending);
        }
    }
    sender.delete("map-9");
    sender.applied().await;
    most = most.max(informer.metrics().events_pending);
    assert!(most <= UNMERGED_MAX, "{most} events wait for a stuck handler of 10 objects");
    assert_eq!(informer.metrics().events_pending, handle.pending());
    assert!(informer.metrics().events_merged_total > 100_000, "{:?}", informer.metrics());

    go.send(()).unwrap();
    let mut known = Known::new();
    until("every event is received", || handle.pending() == 0).await;
    while let Ok(next) = seen.try_recv() {
        known = next;
    }
    assert_eq!(log.all(), Vec::<String>::new());
    let lister = informer.lister();
    let held: Known = lister.list().iter().map(|map| (map.meta().name().to_owned(), state(map))).collect();
    assert_eq!((known, held.len()), (held, 9));
    // It continues as before.
    sender.modify("map-0");
    sender.applied().await;
    let last = seen.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(last["map-0"].1, sender.version);
    runtime.shutdown_background();
}

/// Follows the events, each of which needs a permit.
struct Gated {
    witness: Witness,
    permits: mpsc::Receiver<()>,
}

impl EventHandler<ConfigMap> for Gated {
    fn on_add(&mut self, object: &Cached<ConfigMap>, initial: bool) {
        self.permits.recv().unwrap();
        self.witness.on_add(object, initial);
    }

    fn on_update(&mut self, old: &Cached<ConfigMap>, new: &Cached<ConfigMap>) {
        self.permits.recv().unwrap();
        self.witness.on_update(old, new);
    }

    fn on_delete(&mut self, object: &Cached<ConfigMap>, final_state_unknown: bool) {
        self.permits.recv().unwrap();
        self.witness.on_delete(object, final_state_unknown);
    }
}

#[tokio::test]
async fn a_handler_that_falls_behind_twice_sees_every_object_in_order() {
    let names: Vec<_> = (0..100).map(|number| format!("map-{number}")).collect();
    let (informer, script) = informer(names.clone()).await;
    let ((permit, permits), (sent, seen), log) = (mpsc::channel(), mpsc::channel(), Log::new());
    let runtime = other_thread();
    let witness = Witness { known: Known::new(), log: log.clone(), sent, gate: None };
    let handle = {
        let _in_runtime = runtime.enter();
        informer.add_event_handler(Gated { witness, permits }).unwrap()
    };
    let allow = |events: usize| (0..events).for_each(|_| permit.send(()).unwrap());
    let wait_for_pending = async |pending: usize| {
        until("few enough events wait", || handle.pending() <= pending).await;
    };
    let mut sender = Sender { script, informer: informer.clone(), version: 1_000 };
    // Each object is in the backlog, which is popped in several pieces.
    for _ in 0..40 {
        names.iter().for_each(|name| sender.modify(name));
        sender.applied().await;
    }
    let pending = handle.pending();
    allow(pending - 3);
    wait_for_pending(3).await;
    // The last piece is popped, and the handler blocks again: new events go to the channel first,
    // then to the backlog.
    for _ in 0..40 {
        names.iter().for_each(|name| sender.modify(name));
        sender.applied().await;
    }
    allow(handle.pending());
    wait_for_pending(0).await;
    assert_eq!(log.all(), Vec::<String>::new());
    let known = seen.try_iter().last().unwrap();
    assert!(known.values().all(|(_, version)| *version > sender.version - 100), "{known:?}");
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_handler_that_is_stuck_from_the_start_has_synced_only_after_the_whole_list() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let (go, gate) = mpsc::channel::<()>();
    let (runtime, log) = (other_thread(), Log::new());
    let received = log.clone();
    let handle: HandlerHandle = {
        let _in_runtime = runtime.enter();
        let blocking = handler(move |event: &Event<ConfigMap>| {
            gate.recv().unwrap();
            received.push(describe(event));
        });
        informer.add_event_handler(blocking).unwrap()
    };
    let objects = 20_u64;
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    for number in 0..objects {
        script.added(&map_json(&format!("map-{number}"), 11 + number, ""));
    }
    script.listed(100);
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    let mut sender = Sender { script, informer: informer.clone(), version: 1_000 };
    for round in 0..10_000 {
        sender.modify(&format!("map-{}", round % objects));
        if round % 500 == 0 {
            sender.applied().await;
        }
    }
    sender.applied().await;
    let pending = handle.pending();
    assert!(pending <= UNMERGED_MAX, "{pending} events wait");
    for _ in 1..objects {
        go.send(()).unwrap();
    }
    until("all objects but one are received", || log.len() >= 19).await;
    assert!(!handle.has_synced());
    for _ in 0..=pending {
        let _ = go.send(());
    }
    handle.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    assert!(log.all()[..20].iter().all(|words| words.starts_with("add") && words.ends_with("initial")));
    until("every event is received", || handle.pending() == 0).await;
    assert_eq!(log.len(), pending);
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_filter_misses_no_deletion_of_what_it_let_through_before_it_was_stuck() {
    let (informer, script) = informer(["wanted".to_owned(), "noise".to_owned()]).await;
    let (go, gate) = mpsc::channel::<()>();
    let (runtime, log) = (other_thread(), Log::new());
    let received = log.clone();
    {
        let _in_runtime = runtime.enter();
        let blocking = handler(move |event: &Event<ConfigMap>| {
            received.push(describe(event));
            gate.recv().unwrap();
        });
        // Versions up to 5,000 match.
        let filter = |object: &Cached<ConfigMap>| {
            object.meta().name() == "wanted" && object.meta().resource_version().parse::<u64>().unwrap() <= 5_000
        };
        informer.add_event_handler(FilteringHandler { filter, handler: blocking }).unwrap();
    }
    let mut sender = Sender { script, informer: informer.clone(), version: 1_000 };
    for round in 0..3_500 {
        sender.modify("noise");
        if round % 500 == 0 {
            sender.applied().await;
        }
    }
    sender.modify("wanted");
    sender.applied().await;
    // The object stops matching, and is then deleted.
    sender.version = 6_000;
    sender.modify("wanted");
    sender.applied().await;
    sender.delete("wanted");
    sender.applied().await;
    for _ in 0..10 {
        let _ = go.send(());
    }
    let received = || log.all().iter().any(|words| words.starts_with("delete wanted"));
    until("its deletion is received", received).await;
    runtime.shutdown_background();
}
