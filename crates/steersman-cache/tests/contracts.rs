//! The contracts of the cache. Each test name contains the number.

mod common;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::script::{map_json, scripted};
use common::*;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_cache::{
    Cached, Error, Event, EventHandler, InformerOptions, Lister, Phase, Reason, SharedInformerFactory, StorageOptions,
    handler,
};
use steersman_client::PostParams;
use steersman_testing::Embedded;

/// A factory with a faulty connection, a synced informer of ConfigMaps, and a client without
/// faults.
async fn over_network(
    server: &Embedded,
) -> (steersman_cache::Informer<ConfigMap>, SharedInformerFactory, FaultyNetwork) {
    let (network, client) = faulty_network(server);
    let factory = SharedInformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    (informer, factory, network)
}

#[tokio::test(start_paused = true)]
async fn contract_1_the_states_of_an_object_come_in_their_order() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    maps.create("a", "0").await;
    let (informer, _factory, network) = over_network(&server).await;
    let seen: Log<(String, u64)> = Log::new();
    let received = seen.clone();
    let note = handler(move |event: &Event<ConfigMap>| {
        let meta = event.object().meta();
        received.push((meta.name().to_owned(), meta.resource_version().parse().unwrap()));
    });
    informer.add_event_handler(note).unwrap();
    let mut states: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for round in 0..30 {
        for name in ["a", "b"] {
            let version = match (name, round) {
                ("b", 0) => maps.create("b", "0").await,
                _ => maps.set(name, &format!("{round}")).await,
            };
            states.entry(name.to_owned()).or_default().push(version.parse().unwrap());
        }
        match round % 10 {
            3 => network.cut(),
            6 => {
                server.compact();
                network.cut();
            }
            _ => settle().await,
        }
    }
    let last = states["b"].last().unwrap().to_string();
    informer.lister().wait_for_version(&last, LONG).await.unwrap();
    settle().await;
    for (name, at_server) in states {
        let all = seen.all();
        let versions: Vec<u64> = all.iter().filter(|(seen, _)| *seen == name).map(|(_, version)| *version).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{name}: {versions:?}");
        // The first state of `a` is from the list.
        let known = |version: &u64| at_server.contains(version) || *version < at_server[0];
        assert!(versions.iter().all(known), "{name}: {versions:?} of {at_server:?}");
        assert_eq!(versions.last(), at_server.last());
    }
}

#[tokio::test(start_paused = true)]
async fn contract_2_an_unseen_deletion_is_delivered_as_deleted() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    for name in ["changed", "gone", "same"] {
        maps.create(name, "old").await;
    }
    let (informer, _factory, network) = over_network(&server).await;
    let (log, handle) = listen(&informer);
    assert!(handle.wait_for_sync(LONG).await.is_ok());
    assert_eq!(log.take().len(), 3);

    network.fail("/configmaps", Fault::Refused);
    network.cut();
    settle().await;
    maps.set("changed", "new").await;
    maps.delete("gone").await;
    let last = maps.create("new", "").await;
    server.compact();
    network.mend();

    informer.lister().wait_for_version(&last, LONG).await.unwrap();
    until("the buffer is empty", || handle.pending() == 0).await;
    let mut received = log.take();
    received.sort();
    assert_eq!(received, ["add new", "delete gone unknown", "update changed"]);
    assert!(informer.status()[0].lists >= 2, "the past was forgotten, so it had to list again");
    assert!(informer.lister().get("default", "gone").is_none());
}

#[tokio::test(start_paused = true)]
async fn contract_2_a_watch_that_resumes_delivers_everything_that_was_missed() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    maps.create("gone", "").await;
    let (informer, _factory, network) = over_network(&server).await;
    let (log, handle) = listen(&informer);
    handle.wait_for_sync(LONG).await.unwrap();
    log.take();

    network.fail("/configmaps", Fault::Refused);
    network.cut();
    settle().await;
    maps.create("short", "").await;
    maps.delete("short").await;
    maps.delete("gone").await;
    let last = maps.create("new", "").await;
    network.mend();

    informer.lister().wait_for_version(&last, LONG).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["add short", "delete short", "delete gone", "add new"]);
    assert_eq!(informer.status()[0].lists, 1, "the server knew the version, so there was no need to list");
}

#[tokio::test(start_paused = true)]
async fn contract_2_another_object_of_the_same_name_is_a_delete_then_an_add() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    maps.create("a", "first").await;
    let (informer, _factory, network) = over_network(&server).await;
    let (log, handle) = listen(&informer);
    handle.wait_for_sync(LONG).await.unwrap();
    log.take();

    network.fail("/configmaps", Fault::Refused);
    network.cut();
    settle().await;
    maps.delete("a").await;
    let last = maps.create("a", "second").await;
    server.compact();
    network.mend();

    informer.lister().wait_for_version(&last, LONG).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["delete a unknown", "add a"]);
    assert_eq!(value(&informer.lister().get("default", "a").unwrap()), "second");
}

#[tokio::test(start_paused = true)]
async fn contract_3_a_late_joiner_first_gets_every_object() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    let version = maps.create("b", "").await;
    informer.lister().wait_for_version(&version, LONG).await.unwrap();
    let (log, handle) = listen(&informer);
    maps.set("a", "later").await;
    assert!(handle.wait_for_sync(LONG).await.is_ok());
    until("the change has come", || log.len() > informer.lister().len()).await;
    let mut received = log.take();
    assert_eq!(received.pop().unwrap(), "update a");
    assert_eq!(received.len(), informer.lister().len());
    assert!(received.iter().all(|words| words.starts_with("add") && words.ends_with("initial")), "{received:?}");
}

/// Records violations in the events of a late handler.
struct Joiner {
    known: Arc<Mutex<HashMap<String, u64>>>,
    told_of_later: bool,
    problems: Log<String>,
}

impl EventHandler<ConfigMap> for Joiner {
    fn on_add(&mut self, object: &Cached<ConfigMap>, initial: bool) {
        if initial && self.told_of_later {
            self.problems.push(format!("{object:?} came as initial after later events"));
        }
        self.told_of_later |= !initial;
        let before = self.known.lock().unwrap().insert(object.meta().name().to_owned(), turn_of(object));
        if let Some(before) = before {
            self.problems.push(format!("{object:?} was added, but known at {before}"));
        }
    }

    fn on_update(&mut self, old: &Cached<ConfigMap>, new: &Cached<ConfigMap>) {
        self.told_of_later = true;
        let before = self.known.lock().unwrap().insert(new.meta().name().to_owned(), turn_of(new));
        if before != Some(turn_of(old)) {
            self.problems.push(format!("{old:?} was updated to {new:?}, but known at {before:?}"));
        }
    }

    fn on_delete(&mut self, object: &Cached<ConfigMap>, _: bool) {
        self.told_of_later = true;
        if self.known.lock().unwrap().remove(object.meta().name()).is_none() {
            self.problems.push(format!("{object:?} was deleted, but not known"));
        }
    }
}

/// Limit of waits in real time.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contract_3_late_joiners_on_several_threads_first_get_every_object() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(10);
    informer.wait_for_sync(PATIENCE).await.unwrap();
    let (problems, stop) = (Log::new(), Arc::new(AtomicBool::new(false)));
    let joins = |_| {
        let (informer, problems, stop) = (informer.clone(), problems.clone(), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || {
            let (mut joiners, mut joined, lister) = (VecDeque::new(), 0, informer.lister());
            while !stop.load(Ordering::Relaxed) {
                // Spread over the whole time, each long enough to receive every object.
                if turns_reached(&lister) < joined * KEYS / 2 {
                    std::thread::yield_now();
                    continue;
                }
                let known = Arc::default();
                let joiner = Joiner { known: Arc::clone(&known), told_of_later: false, problems: problems.clone() };
                joiners.push_back((informer.add_event_handler(joiner).unwrap(), known));
                joined += 1;
                if joiners.len() > 12
                    && let Some((oldest, _)) = joiners.pop_front()
                {
                    oldest.remove();
                }
            }
            joiners
        })
    };
    let joining: Vec<_> = (0..3).map(joins).collect();
    for number in 0..EVENTS {
        // Each object is absent for a while.
        if (number + KEYS) % (3 * KEYS) < KEYS {
            script.deleted(&turn(number));
        } else {
            script.added(&turn(number));
        }
        if number % 97 == 0 {
            tokio::task::yield_now().await;
        }
    }
    informer.lister().wait_for_version(&(FIRST + EVENTS - 1).to_string(), PATIENCE).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let held: HashMap<_, _> =
        informer.lister().list().iter().map(|map| (map.meta().name().to_owned(), turn_of(map))).collect();
    let mut joiners = Vec::new();
    for joined in joining {
        joiners.extend(joined.await.unwrap());
    }
    assert_eq!(held.len() as u64, KEYS);
    assert!(joiners.len() > 10, "{} stayed to the end", joiners.len());
    for (handle, known) in joiners {
        handle.wait_for_sync(PATIENCE).await.unwrap();
        until("every event is received", || handle.pending() == 0).await;
        assert_eq!(*known.lock().unwrap(), held);
    }
    assert_eq!(problems.all(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn contract_4_the_cache_holds_the_state_of_an_event_or_a_later_one() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let (lister, checked) = (informer.lister(), Log::new());
    let note = checked.clone();
    let check = handler(move |event: &Event<ConfigMap>| {
        let meta = event.object().meta();
        let held = lister.get(meta.namespace(), meta.name());
        let number = |version: &str| version.parse::<u64>().unwrap();
        let received = number(meta.resource_version());
        let holds = match event {
            Event::Delete { .. } => held.is_none_or(|held| number(held.meta().resource_version()) > received),
            _ => held.map_or_else(
                || number(&lister.resource_version()) > received,
                |held| number(held.meta().resource_version()) >= received,
            ),
        };
        note.push((describe(event), holds && number(&lister.resource_version()) >= received));
    });
    informer.add_event_handler(check).unwrap();
    let maps = Maps::new(&client);
    for round in 0..20 {
        let name = format!("map-{round}");
        maps.create(&name, "1").await;
        maps.set(&name, "2").await;
        if round % 2 == 0 {
            maps.delete(&name).await;
        }
    }
    until("every event is received", || checked.len() >= 20 * 2 + 10).await;
    assert!(checked.all().iter().all(|(_, holds)| *holds), "{:?}", checked.all());
}

#[tokio::test(start_paused = true)]
async fn contract_7_the_version_reached_means_that_every_event_up_to_it_is_in_the_cache() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(10);
    informer.wait_for_sync(LONG).await.unwrap();
    let lister = informer.lister();
    assert_eq!(lister.resource_version(), "10");
    // One batch, in which `a` is one key with two changes, before `b`.
    script.added(&map_json("a", 11, "1"));
    script.added(&map_json("b", 12, "1"));
    script.modified(&map_json("a", 13, "2"));
    lister.wait_for_version("12", LONG).await.unwrap();
    assert!(lister.get("default", "b").is_some());
    lister.wait_for_version("13", LONG).await.unwrap();
    assert_eq!(lister.get("default", "a").unwrap().meta().resource_version(), "13");
    // A bookmark keeps its place.
    script.deleted(&map_json("b", 14, "1"));
    script.bookmark(20);
    lister.wait_for_version("20", LONG).await.unwrap();
    assert!(lister.get("default", "b").is_none());
}

#[tokio::test(start_paused = true)]
async fn contract_7_no_reader_sees_a_version_before_all_that_came_before_it() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(10);
    informer.wait_for_sync(LONG).await.unwrap();
    // More keys than one batch has, and the first one changes again at the end.
    for number in 0..2_500 {
        script.added(&map_json(&format!("map-{number}"), 1_000 + number, "1"));
    }
    script.modified(&map_json("map-0", 9_000, "2"));
    let (lister, mut steps) = (informer.lister(), std::collections::BTreeSet::new());
    while lister.resource_version() != "9000" {
        let reached: u64 = lister.resource_version().parse().unwrap();
        steps.insert(reached);
        if let Some(number) = reached.checked_sub(1_000) {
            assert!(lister.len() as u64 > number, "at {reached} there are only {}", lister.len());
        }
        tokio::task::yield_now().await;
    }
    assert!(steps.len() > 1, "it went in at once, so nothing was tested: {steps:?}");
    assert_eq!(lister.len(), 2_500);
}

/// The versions of a script in which event `n` changes the keys of `KEYS` in turn.
const FIRST: u64 = 1_000;
const KEYS: u64 = 50;
const EVENTS: u64 = 20_000;

fn turn(number: u64) -> serde_json::Value {
    map_json(&format!("map-{}", number % KEYS), FIRST + number, "")
}

fn turn_of(object: &Cached<ConfigMap>) -> u64 {
    object.meta().resource_version().parse::<u64>().unwrap() - FIRST
}

/// The number of events that the cache has reached.
fn turns_reached(lister: &Lister<ConfigMap>) -> u64 {
    lister.resource_version().parse::<u64>().unwrap_or(0).saturating_sub(FIRST - 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contracts_2_4_and_7_hold_for_readers_and_handlers_on_other_threads() {
    let (informer, script) = scripted::<ConfigMap>(StorageOptions::default());
    let (lister, received, stale) = (informer.lister(), Arc::new(AtomicU64::new(0)), Log::new());
    let (cache, count, note) = (lister.clone(), Arc::clone(&received), stale.clone());
    let check = handler(move |event: &Event<ConfigMap>| {
        let object = event.object();
        let held = cache.get("default", object.meta().name()).as_ref().map(turn_of);
        if held.is_none_or(|held| held < turn_of(object)) {
            note.push(format!("{event:?} was received while the cache held {held:?}"));
        }
        count.fetch_add(1, Ordering::SeqCst);
    });
    let handle = informer.add_event_handler(check).unwrap();
    informer.start().unwrap();
    until("it watches", || script.is_watched()).await;
    script.listed(10);
    informer.wait_for_sync(PATIENCE).await.unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let told_of_all = {
        let (lister, stop, received) = (lister.clone(), Arc::clone(&stop), Arc::clone(&received));
        tokio::task::spawn_blocking(move || {
            while !stop.load(Ordering::Relaxed) {
                let reached = turns_reached(&lister);
                if handle.pending() == 0 {
                    let received = received.load(Ordering::SeqCst);
                    assert!(
                        received >= reached,
                        "{reached} events are in the cache, nothing waits, and {received} were received"
                    );
                }
            }
        })
    };
    let reached_means_applied = {
        let (lister, stop) = (lister.clone(), Arc::clone(&stop));
        tokio::task::spawn_blocking(move || {
            while !stop.load(Ordering::Relaxed) {
                let reached = turns_reached(&lister);
                let held: HashMap<_, _> = lister.list().iter().map(|map| (turn_of(map) % KEYS, turn_of(map))).collect();
                for number in reached.saturating_sub(KEYS)..reached {
                    let held = held.get(&(number % KEYS));
                    assert!(held.is_some_and(|held| *held >= number), "{reached} events, but {held:?}, not {number}");
                }
            }
        })
    };
    for number in 0..EVENTS {
        script.added(&turn(number));
        // Many batches, some with several changes of one key.
        if number % 97 == 0 {
            tokio::task::yield_now().await;
        }
    }
    lister.wait_for_version(&(FIRST + EVENTS - 1).to_string(), PATIENCE).await.unwrap();
    until("every event is received", || received.load(Ordering::SeqCst) == EVENTS).await;
    stop.store(true, Ordering::Relaxed);
    told_of_all.await.unwrap();
    reached_means_applied.await.unwrap();
    assert_eq!(stale.all(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn contract_8_a_resync_delivers_all_objects_again_to_one_handler() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, _factory, _) = maps_informer(&server).await;
    let (plain, _) = listen(&informer);
    let (often, seldom) = (Log::new(), Log::new());
    informer.add_event_handler_with_resync(recording(&often), Duration::from_secs(10)).unwrap();
    informer.add_event_handler_with_resync(recording(&seldom), Duration::from_secs(25)).unwrap();
    settle().await;
    let objects = informer.lister().len();
    for log in [&plain, &often, &seldom] {
        assert_eq!(log.take().len(), objects);
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(plain.take(), Vec::<String>::new());
    let again = |log: &Log<String>| {
        let received = log.take();
        assert!(received.iter().all(|words| words.starts_with("again")), "{received:?}");
        received.len()
    };
    assert_eq!(again(&often), 3 * objects);
    assert_eq!(again(&seldom), objects);
}

#[tokio::test(start_paused = true)]
async fn contract_9_a_dead_connection_is_noticed_and_cached_reads_go_on() {
    let server = Embedded::empty();
    let maps = Maps::new(&client(&server));
    maps.create("a", "1").await;
    let (informer, _factory, network) = over_network(&server).await;
    network.fail("/configmaps", Fault::Silence);
    network.cut();
    let version = maps.set("a", "2").await;
    let lister = informer.lister();
    let error = lister.wait_for_version(&version, Duration::from_secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("/configmaps") && error.contains(&version), "{error}");
    assert_eq!(value(&lister.get("default", "a").unwrap()), "1");
    until("the silence is noticed", || {
        informer.status()[0].last_error.as_ref().is_some_and(|error| error.reason == Reason::Unreachable)
    })
    .await;
    network.mend();
    lister.wait_for_version(&version, LONG).await.unwrap();
    assert_eq!(value(&lister.get("default", "a").unwrap()), "2");
}

#[tokio::test(start_paused = true)]
async fn contract_9_a_watch_that_fails_does_not_slow_another() {
    let server = Embedded::empty();
    let (network, client_of_informers) = faulty_network(&server);
    network.fail("/secrets", Fault::Silence);
    let factory = SharedInformerFactory::new(client_of_informers);
    let secrets = factory.informer::<Secret>(InformerOptions::all()).unwrap();
    let informer = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    informer.wait_for_sync(Duration::from_secs(1)).await.unwrap();
    let maps = Maps::new(&client(&server));
    let started = tokio::time::Instant::now();
    for round in 0..10 {
        let version = maps.create(&format!("map-{round}"), "").await;
        informer.lister().wait_for_version(&version, Duration::from_secs(1)).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(1));
    let error = factory.wait_for_cache_sync(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(error.contains("/api/v1/secrets") && !error.contains("configmaps"), "{error}");
    assert!(!secrets.has_synced());
}

#[tokio::test(start_paused = true)]
async fn contract_9_nothing_hangs_after_the_stop() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    network.fail("/configmaps", Fault::Silence);
    let factory = SharedInformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    let (_, handle) = listen(&informer);
    let (lister, mut subscription) = (informer.lister(), informer.subscribe());
    let waits = async {
        tokio::join!(
            informer.wait_for_sync(LONG),
            lister.wait_for_version("1000", LONG),
            handle.wait_for_sync(LONG),
            subscription.changed(),
            async {
                settle().await;
                informer.stop().await.unwrap();
            },
        )
    };
    let started = tokio::time::Instant::now();
    let (sync, reached, synced, set, ()) = waits.await;
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(matches!(sync, Err(Error::Stopped { .. })), "{sync:?}");
    let reached = reached.unwrap_err().to_string();
    assert!(reached.contains("1000") && reached.ends_with("its informer is stopped"), "{reached}");
    assert!(synced.is_err() && set.is_none());
    // Also waits that begin later.
    assert!(informer.wait_for_sync(LONG).await.is_err());
    assert!(lister.wait_for_version("1000", LONG).await.is_err());
    assert!(handle.wait_for_sync(LONG).await.is_err());
    assert!(informer.subscribe().changed().await.is_none());
    assert_eq!(informer.status()[0].phase, Phase::Stopped);
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn contract_11_a_cached_read_never_starts_a_watch() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    let factory = SharedInformerFactory::new(client.clone());
    let error = factory.lister::<ConfigMap>().unwrap_err().to_string();
    assert!(error.contains("SharedInformerFactory::informer::<ConfigMap>(InformerOptions::all())"), "{error}");
    factory.start().unwrap();
    settle().await;
    assert_eq!(network.requests(), Vec::<String>::new());
    // An informer of some objects is not one of all.
    factory.informer::<ConfigMap>(InformerOptions::all().namespace("default")).unwrap();
    assert!(factory.lister::<ConfigMap>().is_err());
    // With an informer, it is read.
    factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    assert!(factory.lister::<ConfigMap>().unwrap().is_empty());
    client.namespaced::<ConfigMap>("default").create(&PostParams::default(), &map("a", "")).await.unwrap();
    assert_eq!(network.requests().len(), 1, "only the test's own");
}
