//! The HTTP requests of a reflector, and its reading of the responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use steersman_cache::{ApiListerWatcher, Phase, Reason};
use steersman_client::{Client, Config};
use steersman_testing::Log;
use tokio::time::sleep;

use super::script::{HOUR, Running, json, plain, streaming};

/// A response: its code, the chunks of its body, and whether the body then ends.
#[derive(Clone)]
struct Answer {
    code: u16,
    chunks: VecDeque<Bytes>,
    ends: bool,
}

fn whole(code: u16, body: &str) -> Answer {
    Answer { code, chunks: [Bytes::from(body.to_owned())].into(), ends: true }
}

fn list(items: &str, version: &str, token: &str) -> Answer {
    let head = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":"#;
    whole(200, &format!(r#"{head}{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#))
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A watch with these events that then stays open.
fn hangs(events: &str) -> Answer {
    Answer { ends: false, ..whole(200, events) }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.chunks.pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// A lister and watcher of a server with these responses, and its requests. After the last response
/// the server is silent.
fn server(answers: impl IntoIterator<Item = Answer>) -> (ApiListerWatcher<ConfigMap>, Log<String>) {
    let seen = Log::new();
    let log = seen.clone();
    let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
    let service = tower::service_fn(move |request: Request<Body>| {
        log.push(request.uri().to_string());
        let answer = answers.lock().unwrap().pop_front();
        async move {
            let Some(answer) = answer else { return std::future::pending().await };
            Ok::<_, Infallible>(Response::builder().status(answer.code).body(answer).unwrap())
        }
    });
    let client = Client::builder(Config::new("http://server".parse().unwrap())).build_over(service).unwrap();
    (ApiListerWatcher::new(client.namespaced("ns")), seen)
}

/// The sorted query parameters of a request, without the timeout of a watch.
fn parameters(seen: &Log<String>, index: usize) -> Vec<String> {
    let uri = seen.all()[index].clone();
    let (path, query) = uri.split_once('?').unwrap();
    assert_eq!(path, "/api/v1/namespaces/ns/configmaps");
    let mut parameters: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
    parameters.retain(|pair| !pair.starts_with("timeoutSeconds="));
    parameters.sort();
    parameters
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_asks_for_initial_events_and_bookmarks() {
    let end = event(
        "BOOKMARK",
        r#"{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}"#,
    );
    let stream = event("ADDED", &json("a", "5")) + &end + &event("MODIFIED", &json("a", "11"));
    let (lister_watcher, seen) = server([hangs(&stream)]);
    let running: Running = Running::start(lister_watcher.labels("app=web").fields("metadata.name=a"), streaming());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.log(), ["[a@5]=>10", "~a@11"]);
    let expected = [
        "allowWatchBookmarks=true",
        "fieldSelector=metadata.name%3Da",
        "labelSelector=app%3Dweb",
        "resourceVersion=",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "watch=true",
    ];
    assert_eq!(parameters(&seen, 0), expected);
    assert_eq!(
        running.status().resource,
        "/api/v1/namespaces/ns/configmaps with labels app=web with fields metadata.name=a"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_pages_and_watches_are_asked_for_as_the_server_wants_them() {
    let gone = whole(410, r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410}"#);
    let answers = [list("", "10", ""), gone.clone(), gone, list("", "12", "next"), list("", "12", ""), hangs("")];
    let (lister_watcher, seen) = server(answers);
    let _running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(parameters(&seen, 0), ["resourceVersion=0"]);
    assert_eq!(parameters(&seen, 1), ["allowWatchBookmarks=true", "resourceVersion=10", "watch=true"]);
    assert_eq!(parameters(&seen, 2), ["resourceVersion=10"]);
    assert_eq!(parameters(&seen, 3), ["limit=500", "resourceVersion="]);
    assert_eq!(parameters(&seen, 4), ["continue=next", "limit=500"]);
    assert_eq!(parameters(&seen, 5), ["allowWatchBookmarks=true", "resourceVersion=12", "watch=true"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_given_up_and_started_again_from_where_it_was() {
    let answers = [list("", "10", ""), hangs(&event("MODIFIED", &json("a", "11"))), hangs("")];
    let (lister_watcher, seen) = server(answers);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(185)).await;
    assert_eq!(parameters(&seen, 2), ["allowWatchBookmarks=true", "resourceVersion=11", "watch=true"]);
    let error = running.status().last_error.unwrap();
    assert_eq!(error.reason, Reason::Unreachable);
    // The cause comes first, without the query.
    let expected = "/api/v1/namespaces/ns/configmaps cannot be read: http://server: no data from the watch for 180s \
                    (cached objects are still served)";
    assert_eq!(error.to_string(), expected);
    assert_eq!(running.status().phase, Phase::Watching);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_falls_silent_is_given_up_and_asked_for_again() {
    let broken = Answer { ends: false, ..whole(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","items":["#) };
    let (lister_watcher, _) = server([broken, list(&json("a", "5"), "10", ""), hangs("")]);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(65)).await;
    assert_eq!(running.log(), ["[a@5]=>10"]);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_does_not_exist_is_a_kind_that_is_not_installed() {
    let (lister_watcher, _) = server([whole(404, "404 page not found\n")]);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(running.status().last_error.unwrap().reason, Reason::NotInstalled);
}

#[tokio::test(start_paused = true)]
async fn a_table_instead_of_a_list_is_reported_and_asked_for_again() {
    let table = whole(200, r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}"#);
    let (lister_watcher, _) = server([table, list(&json("a", "5"), "10", ""), hangs("")]);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(HOUR).await;
    assert_eq!(running.log()[0], "[a@5]=>10");
    assert_eq!(running.status().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_another_kind_brings_nothing() {
    let secrets = list(r#"{"metadata":{"name":"a","namespace":"ns"}}"#, "10", "");
    let secrets = whole(200, &String::from_utf8(secrets.chunks[0].to_vec()).unwrap().replace("ConfigMap", "Secret"));
    let (lister_watcher, _) = server([secrets, hangs("")]);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.log(), ["[]=>10"]);
    assert_eq!(running.status().object_errors, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_decode_harms_only_its_readers() {
    let broken = json("b", "12").replace(r#""data":{"key":"12"}"#, r#""data":5"#);
    let events = event("ADDED", &broken) + "no event at all\n" + &event("ADDED", &json("c", "13"));
    let (lister_watcher, _) = server([list(&json("a", "5"), "10", ""), hangs(&events)]);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.log(), ["[a@5]=>10", "+b@12", "+c@13"]);
    assert!(running.store.get("b").unwrap().get().is_err());
    assert!(running.store.get("c").unwrap().get().is_ok());
    assert_eq!(running.status().object_errors, 1);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_answers_a_watch_with_a_list_is_listed() {
    let lists = (0..1000).map(|number| list(&json("a", &number.to_string()), &number.to_string(), ""));
    for options in [plain(), streaming()] {
        let (lister_watcher, seen) = server(lists.clone());
        let running: Running = Running::start(lister_watcher, options);
        sleep(HOUR / 2).await;
        let lists = running.status().lists;
        let requests = seen.len();
        assert!(lists >= 5, "{lists} lists in {requests} requests: the cache is frozen at {:?}", running.log());
        assert!(requests <= 120, "{requests} requests in half an hour");
    }
}

/// A network buffer that records when it is freed.
struct Buffer(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_keeps_no_network_buffer_alive() {
    let alive = Arc::new(AtomicUsize::new(0));
    let buffer = |text: String| {
        alive.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Buffer(text.into_bytes(), Arc::clone(&alive)))
    };
    let mut listed = list(&json("a", "5"), "10", "");
    let text = String::from_utf8(listed.chunks[0].to_vec()).unwrap();
    listed.chunks = [buffer(text)].into();
    let mut watch = hangs("");
    watch.chunks =
        (11..31).map(|version| buffer(event("ADDED", &json(&format!("a{version}"), &version.to_string())))).collect();
    let (lister_watcher, _) = server([listed, watch]);
    assert_eq!(alive.load(Ordering::Relaxed), 21);
    let running: Running = Running::start(lister_watcher, plain());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.log().len(), 21);
    // The watch holds the last buffer until the next one arrives.
    assert!(alive.load(Ordering::Relaxed) <= 1, "{} are alive", alive.load(Ordering::Relaxed));
}
