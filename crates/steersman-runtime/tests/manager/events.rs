//! Events of a manager, on the embedded server, which checks them as the real one does.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference, Secret};
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use steersman_client::{Client, DeleteParams, ListParams, ObjectMeta, PostParams, World};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, kind, reconcile_fn};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::time::Instant;

use crate::support::{LONG, Maps, eventually, map, named, run, settle, start, traced};

const SECOND: Duration = Duration::from_secs(1);

struct Setup {
    server: Embedded,
    network: FaultyNetwork,
    manager: Manager,
}

fn world() -> World {
    World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap())
}

fn setup() -> Setup {
    let server = Embedded::empty();
    let network = FaultyNetwork::new(&server);
    let manager = Manager::builder(network.client()).world(world()).build();
    Setup { server, network, manager }
}

impl Setup {
    /// The Events of the namespace `default`, by the time of their first occurrence.
    async fn events(&self) -> Vec<Event> {
        events_in(&self.server.client(), "default").await
    }

    /// The requests that wrote Events.
    fn writes(&self) -> usize {
        self.network.requests().iter().filter(|request| is_write(request)).count()
    }
}

fn is_write(request: &str) -> bool {
    request.contains("/apis/events.k8s.io/v1/") && !request.starts_with("GET")
}

async fn events_in(client: &Client, namespace: &str) -> Vec<Event> {
    let mut events = client.namespaced::<Event>(namespace).list(&ListParams::default()).await.unwrap().items;
    events.sort_by_key(|event| (event.event_time.clone().map(|time| time.0), event.metadata.name.clone()));
    events
}

fn count(event: &Event) -> i32 {
    event.series.as_ref().map_or(1, |series| series.count)
}

#[tokio::test(start_paused = true)]
async fn an_event_has_all_that_kubectl_shows() {
    let setup = setup();
    let maps = Maps::new(&setup.server.client());
    let created = maps.create("web").await;
    let reconcile = |ctx: Context<ConfigMap>, key: ObjectKey| async move {
        let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
        let secret = Secret { metadata: named("token"), ..Secret::default() };
        ctx.events().related(&secret).normal(&*map, "Copied", "Copy", "copied to 3 namespaces");
        Ok(Action::done())
    };
    let primary = kind::<ConfigMap>().namespace("default");
    setup.manager.controller(primary).named("copier").complete(reconcile_fn(reconcile)).unwrap();
    let running = run(&setup.manager).await;
    settle().await;
    let events = setup.events().await;
    let [event] = &*events else { panic!("{events:?}") };
    let event = serde_json::to_value(event).unwrap();
    assert_eq!(
        event["regarding"],
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "web", "uid": created.metadata.uid,
        })
    );
    assert_eq!(event["related"]["name"], "token");
    assert_eq!(event["reportingController"], "copier");
    assert!(event["reportingInstance"].as_str().unwrap().starts_with("copier-"), "{event}");
    let texts = ["type", "reason", "action", "note"].map(|field| event[field].as_str().unwrap());
    assert_eq!(texts, ["Normal", "Copied", "Copy", "copied to 3 namespaces"]);
    assert!(event["eventTime"].as_str().unwrap().starts_with("2026-01-31T10:00:0"), "{event}");
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web.18"), "{event}");
    assert!(event.get("series").is_none(), "{event}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_does_not_wait_for_its_events() {
    let setup = setup();
    Maps::new(&setup.server.client()).create("web").await;
    setup.network.fail("events.k8s.io", Fault::Silence);
    let reconcile = |ctx: Context<ConfigMap>, key: ObjectKey| async move {
        let started = Instant::now();
        for number in 0..100 {
            let web = map(key.name(), "");
            ctx.events().normal(&web, "Counted", "Count", format!("number {number}"));
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
        Ok(Action::done())
    };
    let controller =
        setup.manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconcile_fn(reconcile)).unwrap();
    let running = run(&setup.manager).await;
    eventually("it has reconciled", || controller.metrics().reconciles_total == 1).await;
    assert_eq!(controller.metrics().errors_total, 0);
    // The server recovers, and the attempt that got no response is repeated.
    setup.network.mend();
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(setup.events().await.iter().map(count).sum::<i32>(), 100);
    assert!(setup.manager.event_metrics().retries_total >= 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_of_an_object_come_in_order() {
    let setup = setup();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    for number in 0..5 {
        for object in ["a", "b", "c"] {
            recorder.normal(&map(object, ""), format!("Reason{number}"), "Act", "");
        }
        setup.network.fail("POST", if number == 2 { Fault::Status(500) } else { Fault::RetryAfter(3) });
        settle().await;
        setup.network.mend();
    }
    tokio::time::sleep(60 * SECOND).await;
    for object in ["a", "b", "c"] {
        let events = setup.events().await;
        let mut of_object: Vec<_> = events
            .iter()
            .filter(|event| event.regarding.as_ref().unwrap().name.as_deref() == Some(object))
            .map(|event| {
                (
                    event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap(),
                    event.reason.clone().unwrap(),
                )
            })
            .collect();
        of_object.sort_unstable();
        let reasons: Vec<_> = of_object.into_iter().map(|(_, reason)| reason).collect();
        assert_eq!(reasons, ["Reason0", "Reason1", "Reason2", "Reason3", "Reason4"], "{object}");
    }
    assert!(setup.manager.event_metrics().retries_total >= 2);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_events_stay_within_the_bound() {
    let setup = setup();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    // 4,000 equal ones, 4,000 with notes of their own, and 2,000 with reasons of their own.
    for number in 0..2000 {
        for _ in 0..2 {
            recorder.warning(&map("web", ""), "Failed", "Sync", "always the same");
        }
        for half in 0..2 {
            recorder.warning(&map("web", ""), "Noted", "Sync", format!("number {number}.{half}"));
        }
        recorder.warning(&map("web", ""), format!("Reason{number}"), "Sync", "");
    }
    settle().await;
    assert!(setup.writes() <= 25, "{}", setup.writes());
    tokio::time::sleep(398 * SECOND).await;
    assert!(setup.writes() <= 25 + 40, "{}", setup.writes());
    let events = setup.events().await;
    let sum = |reason: &str| events.iter().filter(|event| event.reason.as_deref() == Some(reason)).map(count).sum();
    let (failed, noted): (i32, i32) = (sum("Failed"), sum("Noted"));
    assert_eq!((failed, noted), (4000, 4000), "{:?}", setup.manager.event_metrics());
    let metrics = setup.manager.event_metrics();
    let others = events.len() - 1 - 11;
    assert_eq!(metrics.rate_limited_total, 2000 - others as u64, "{metrics:?}");
    assert_eq!((metrics.recorded_total, metrics.pending), (10_000, 0));
    assert_eq!(metrics.created_total + metrics.patched_total, setup.writes() as u64);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_are_flushed_when_the_manager_stops() {
    let server = Embedded::empty();
    let network = FaultyNetwork::new(&server);
    let election = LeaderElection::new("operator").identity("one");
    let manager = Manager::builder(network.client()).world(world()).leader_election(election).unwrap().build();
    let running = start(&manager);
    eventually("it leads", || manager.leadership().unwrap().is_leader()).await;
    let recorder = manager.events("test").unwrap();
    for _ in 0..10 {
        recorder.normal(&map("web", ""), "Counted", "Count", "");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    network.take_requests();
    running.stop().await.unwrap();
    let events = events_in(&server.client(), "default").await;
    let seen: Vec<_> = events.iter().map(|event| (event.note.as_deref().unwrap_or_default(), count(event))).collect();
    assert_eq!(seen, [("one became leader", 1), ("", 10), ("one stopped leading", 1)]);
    for event in [&events[0], &events[2]] {
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        let regarding = event.regarding.as_ref().unwrap();
        assert_eq!((regarding.kind.as_deref(), regarding.name.as_deref()), (Some("Lease"), Some("operator")));
        assert!(regarding.uid.is_some());
    }
    let requests = network.take_requests();
    let released = requests.iter().rposition(|request| request.starts_with("PUT") && request.contains("leases"));
    let flushed = requests.iter().position(|request| is_write(request));
    assert!(released.unwrap() < flushed.unwrap(), "{requests:?}");
    // After the end, nothing is written.
    recorder.normal(&map("web", ""), "TooLate", "Count", "");
    settle().await;
    assert_eq!(events_in(&server.client(), "default").await.len(), 3);
    assert_eq!(manager.event_metrics().failed_total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_flush_ends_when_the_server_is_away() {
    let setup = setup();
    let running = run(&setup.manager).await;
    for number in 0..100 {
        setup.manager.events("test").unwrap().normal(&map(&format!("web{number}"), ""), "Counted", "Count", "");
    }
    setup.network.fail("events.k8s.io", Fault::Refused);
    let stopped = Instant::now();
    running.stop().await.unwrap();
    assert!(stopped.elapsed() < 5 * SECOND, "{:?}", stopped.elapsed());
    let metrics = setup.manager.event_metrics();
    assert_eq!((metrics.failed_total, metrics.pending), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_flush_takes_no_longer_than_the_grace_period() {
    let server = Embedded::empty();
    let network = FaultyNetwork::new(&server);
    let manager = Manager::builder(network.client()).grace_period(3 * SECOND).build();
    let running = run(&manager).await;
    network.fail("events.k8s.io", Fault::Silence);
    manager.events("test").unwrap().normal(&map("web", ""), "Counted", "Count", "");
    let stopped = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(stopped.elapsed().as_secs(), 3);
    assert_eq!(manager.event_metrics().failed_total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_counted_and_logged_once() {
    let setup = setup();
    let (logged, _guard) = traced();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    for number in 0..3 {
        recorder.normal(&map(&format!("web{number}"), ""), "", "Count", "without a reason");
    }
    settle().await;
    assert_eq!(setup.manager.event_metrics().refused_total, 3);
    assert_eq!(logged.text().matches("Event refused").count(), 1, "{}", logged.text());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_in_a_namespace_that_is_being_deleted_are_dropped_quietly() {
    let setup = setup();
    let client = setup.server.client();
    let (logged, _guard) = traced();
    let namespaces = client.cluster::<Namespace>();
    let metadata = ObjectMeta { name: Some("old".into()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
    let metadata = ObjectMeta {
        namespace: Some("old".into()),
        name: Some("held".into()),
        finalizers: Some(vec!["example.com/hold".into()]),
        ..ObjectMeta::default()
    };
    let held = ConfigMap { metadata, ..ConfigMap::default() };
    client.namespaced("old").create(&PostParams::default(), &held).await.unwrap();
    namespaces.delete("old", &DeleteParams::default()).await.unwrap();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    recorder.normal(&held, "Held", "Hold", "the namespace is being deleted");
    let gone = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("ConfigMap".into()),
        namespace: Some("nowhere".into()),
        name: Some("gone".into()),
        ..ObjectReference::default()
    };
    recorder.normal(gone, "Held", "Hold", "there is no such namespace");
    settle().await;
    let metrics = setup.manager.event_metrics();
    assert_eq!((metrics.discarded_total, metrics.refused_total), (2, 0), "{metrics:?}");
    assert!(!logged.text().contains("Event"), "{}", logged.text());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn texts_are_cut_to_what_the_server_takes() {
    let setup = setup();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    recorder.normal(&map("web", ""), "R\u{e9}".repeat(100), "A\u{e9}".repeat(100), "n\u{1f600}".repeat(1000));
    settle().await;
    let events = setup.events().await;
    let lengths = |event: &Event| [&event.reason, &event.action, &event.note].map(|text| text.as_ref().unwrap().len());
    assert_eq!(events.iter().map(lengths).collect::<Vec<_>>(), [[127, 127, 1021]]);
    assert_eq!(setup.manager.event_metrics().truncated_total, 3);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_are_in_the_default_namespace() {
    let setup = setup();
    let running = run(&setup.manager).await;
    let metadata = ObjectMeta { name: Some("team".into()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    setup.manager.events("example.com/test").unwrap().normal(&namespace, "Seen", "See", "");
    settle().await;
    assert_eq!(setup.events().await.len(), 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_comes_again_with_its_count() {
    let setup = setup();
    let running = run(&setup.manager).await;
    let recorder = setup.manager.events("test").unwrap();
    recorder.normal(&map("web", ""), "Counted", "Count", "");
    settle().await;
    let name = setup.events().await[0].metadata.name.clone().unwrap();
    let events = setup.server.client().namespaced::<Event>("default");
    events.delete(&name, &DeleteParams::default()).await.unwrap();
    recorder.normal(&map("web", ""), "Counted", "Count", "");
    settle().await;
    assert_eq!(setup.events().await.iter().map(count).collect::<Vec<_>>(), [2]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_controller_is_checked_when_it_is_built() {
    let setup = setup();
    let reconcile = |_: Context<ConfigMap>, _| async { Ok(Action::done()) };
    let controller = setup.manager.controller(kind::<ConfigMap>()).named("harbour master");
    let error = controller.complete(reconcile_fn(reconcile)).unwrap_err();
    assert!(matches!(&error, Error::InvalidName { name, .. } if name == "harbour master"), "{error}");
    assert!(error.to_string().contains("at most 63 letters, digits"), "{error}");
    assert!(setup.manager.events("a/b/c").is_err());
    // It has left nothing behind.
    let running = tokio::time::timeout(LONG, run(&setup.manager)).await.unwrap();
    running.stop().await.unwrap();
}
