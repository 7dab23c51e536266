//! The replay as its clients see it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_bench::contestant::{start_events, start_events_until};
use steersman_bench::pods::Shape;
use steersman_bench::replay::Replay;
use tokio::net::TcpListener;

const PODS: u64 = 250;
const EVENTS: u64 = 600;

/// A replay that lives as long as this process.
fn serve() -> (SocketAddr, u64) {
    serve_replay(Replay::new(PODS, Shape::Plain, EVENTS))
}

fn serve_replay(replay: Replay) -> (SocketAddr, u64) {
    let list_bytes = replay.list_bytes();
    let (sender, started) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            sender
                .send(listener.local_addr().expect("a listener has an address"))
                .expect("the test waits for the address");
            replay.serve(listener).await
        })
    });
    (started.recv().expect("the replay starts"), list_bytes)
}

/// The body of an answer, line by line as it comes. HTTP/1.0, so that no chunk sizes stand between
/// the lines.
fn get(address: SocketAddr, path: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).expect("the replay accepts connections");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the replay reads the request");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("the replay answers");
        assert_ne!(line, "", "the answer ended within its head");
    }
    reader
}

fn body(address: SocketAddr, path: &str) -> String {
    let mut body = String::new();
    get(address, path).read_to_string(&mut body).expect("the answer ends");
    body
}

fn json(address: SocketAddr, path: &str) -> Value {
    serde_json::from_str(&body(address, path)).expect("the answer is JSON")
}

fn next_event(lines: &mut impl BufRead) -> (String, u64, Value) {
    let mut line = String::new();
    lines.read_line(&mut line).expect("an event comes in time");
    let event: Value = serde_json::from_str(&line).expect("a line of a watch is one event");
    let version = event["object"]["metadata"]["resourceVersion"].as_str().expect("an object has a version");
    (event["type"].as_str().expect("an event has a type").to_owned(), version.parse().expect("a number"), event)
}

/// Waits a little for what must not come.
fn assert_nothing_comes(lines: &mut BufReader<TcpStream>) {
    lines.get_ref().set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout can be set");
    assert!(lines.fill_buf().is_err(), "an event came before it was asked for");
    lines.get_ref().set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list has items");
    items.iter().map(|pod| format!("{}/{}", pod["metadata"]["namespace"], pod["metadata"]["name"])).collect()
}

#[test]
fn a_list_holds_every_pod_and_is_as_long_as_announced() {
    let (address, list_bytes) = serve();
    let body = body(address, "/api/v1/pods");
    assert_eq!(body.len() as u64, list_bytes);
    let list: Value = serde_json::from_str(&body).expect("the list is JSON");
    assert_eq!(list["kind"], "PodList");
    assert_eq!(names(&list).into_iter().collect::<BTreeSet<_>>().len() as u64, PODS);
}

#[test]
fn pages_together_are_the_list() {
    let (address, _) = serve();
    let whole = names(&json(address, "/api/v1/pods"));
    let (mut pages, mut path) = (Vec::new(), "/api/v1/pods?limit=100".to_owned());
    loop {
        let page = json(address, &path);
        let pods = names(&page);
        assert!(pods.len() <= 100, "a page holds {} Pods", pods.len());
        pages.extend(pods);
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        assert_eq!(page["metadata"]["remainingItemCount"], PODS - pages.len() as u64);
        path = format!("/api/v1/pods?limit=100&continue={token}");
    }
    assert_eq!(pages, whole);
}

#[test]
fn a_streaming_list_ends_with_the_bookmark() {
    let (address, _) = serve();
    let mut lines = get(address, "/api/v1/pods?watch=true&sendInitialEvents=true&allowWatchBookmarks=true");
    for index in 0..PODS {
        let (kind, version, _) = next_event(&mut lines);
        assert_eq!((kind.as_str(), version), ("ADDED", 1_000_000 + index));
    }
    let (kind, version, event) = next_event(&mut lines);
    assert_eq!((kind.as_str(), version), ("BOOKMARK", 1_000_000 + PODS));
    assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[test]
fn events_wait_until_they_are_asked_for_and_come_in_order() {
    let (address, _) = serve();
    let version = 1_000_000 + PODS;
    let mut lines = get(address, &format!("/api/v1/pods?watch=1&resourceVersion={version}"));
    assert_nothing_comes(&mut lines);
    start_events(&format!("http://{address}")).expect("the replay starts its events");
    for event in 1..=EVENTS {
        let (kind, seen, _) = next_event(&mut lines);
        assert_eq!((kind.as_str(), seen), ("MODIFIED", version + event));
    }
}

#[test]
fn some_events_can_be_asked_for_before_the_rest() {
    let (address, _) = serve();
    let (url, version) = (format!("http://{address}"), 1_000_000 + PODS);
    let mut lines = get(address, &format!("/api/v1/pods?watch=1&resourceVersion={version}"));
    start_events_until(&url, 70).expect("the replay starts its events");
    for event in 1..=70 {
        assert_eq!(next_event(&mut lines).1, version + event);
    }
    assert_nothing_comes(&mut lines);
    start_events(&url).expect("the replay starts the rest");
    for event in 71..=EVENTS {
        assert_eq!(next_event(&mut lines).1, version + event);
    }
}

#[test]
fn events_with_a_rate_come_no_faster() {
    let (address, _) = serve_replay(Replay::new(PODS, Shape::Diverse, 100).with_rate(400));
    let version = 1_000_000 + PODS;
    let mut lines = get(address, &format!("/api/v1/pods?watch=1&resourceVersion={version}"));
    let started = Instant::now();
    start_events(&format!("http://{address}")).expect("the replay starts its events");
    for event in 1..=100 {
        assert_eq!(next_event(&mut lines).1, version + event);
    }
    assert!(started.elapsed() >= Duration::from_millis(250), "100 events came in {:?}", started.elapsed());
}

#[test]
fn a_watch_sends_only_what_comes_after_its_version() {
    let (address, _) = serve();
    start_events(&format!("http://{address}")).expect("the replay starts its events");
    let seen = 1_000_000 + PODS + EVENTS - 2;
    let mut lines = get(address, &format!("/api/v1/pods?watch=true&resourceVersion={seen}&timeoutSeconds=1"));
    assert_eq!(next_event(&mut lines).1, seen + 1);
    assert_eq!(next_event(&mut lines).1, seen + 2);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("the watch ends when its time is over");
    assert_eq!(rest, "");
}

#[test]
fn small_objects_of_ten_kinds_are_listed_watched_and_discovered() {
    let (address, _) = serve_replay(Replay::of_small_objects(30, 10));
    let groups = json(address, "/apis");
    let groups = groups["groups"].as_array().expect("there are groups");
    assert_eq!(groups.iter().map(|group| &group["name"]).collect::<Vec<_>>(), ["apps", "batch", "networking.k8s.io"]);
    let mut paths = vec!["/api/v1".to_owned()];
    for group in groups {
        let version = group["preferredVersion"]["groupVersion"].as_str().expect("a group has a version");
        let name = group["name"].as_str().expect("a group has a name");
        assert_eq!(json(address, &format!("/apis/{name}"))["preferredVersion"]["groupVersion"], version);
        paths.push(format!("/apis/{version}"));
    }
    let mut kinds = BTreeSet::new();
    for path in paths {
        let described = json(address, &path);
        for resource in described["resources"].as_array().expect("a group has kinds") {
            let kind = resource["kind"].as_str().expect("a kind has a name").to_owned();
            let path = format!("{path}/{}", resource["name"].as_str().expect("a kind has a plural"));
            let list = json(address, &path);
            assert_eq!(
                (&list["kind"], &list["apiVersion"]),
                (&format!("{kind}List").into(), &described["groupVersion"])
            );
            assert_eq!(names(&list).into_iter().collect::<BTreeSet<_>>().len(), 30, "{kind}");
            let mut lines = get(address, &format!("{path}?watch=true&sendInitialEvents=true"));
            for index in 0..30 {
                let (event, version, object) = next_event(&mut lines);
                assert_eq!((event.as_str(), version), ("ADDED", 1_000_000 + index));
                assert_eq!(object["object"]["kind"], kind);
            }
            assert_eq!(next_event(&mut lines).0, "BOOKMARK");
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
}

#[test]
fn of_one_kind_of_small_objects_there_is_nothing_else() {
    let (address, _) = serve_replay(Replay::of_small_objects(3, 1));
    assert_eq!(names(&json(address, "/api/v1/configmaps")).len(), 3);
    assert_eq!(json(address, "/api/v1/secrets")["code"], 404);
    assert_eq!(json(address, "/apis")["groups"], serde_json::json!([]));
}

#[test]
fn discovery_names_pods_and_nothing_else_exists() {
    let (address, _) = serve();
    assert_eq!(json(address, "/api")["versions"][0], "v1");
    assert_eq!(json(address, "/api/v1")["resources"][0]["name"], "pods");
    assert_eq!(json(address, "/apis")["groups"], serde_json::json!([]));
    assert_eq!(json(address, "/version")["major"], "1");
    assert_eq!(json(address, "/api/v1/nodes")["code"], 404);
}
