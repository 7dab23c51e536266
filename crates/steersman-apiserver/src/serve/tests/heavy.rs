//! Requests that take long, and requests that panic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tower::Service;

use super::{PATIENCE, eventually, start, tls};
use crate::ApiServer;
use crate::serve::Serving;
use crate::server::test_paths::waiting;

async fn connect(serving: &Serving) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(tls(serving, "http/1.1").await);
    let (sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(serving: &Serving, method: &str, path: &str, body: Vec<u8>) -> http::Request<Full<Bytes>> {
    let request = http::Request::builder().method(method).uri(path).header("host", "localhost");
    request.header("authorization", format!("Bearer {}", serving.token())).body(Full::from(body)).unwrap()
}

/// On one thread: a heavy request on it would leave none for the others.
#[tokio::test(flavor = "current_thread")]
async fn health_checks_are_answered_while_heavy_requests_run() {
    let serving = start().await;
    let mut busy = connect(&serving).await;
    let heavy = tokio::spawn(busy.send_request(request(&serving, "POST", "/wait", vec![b'x'; 20_000])));
    eventually("the heavy request to begin", async || waiting(|waiting| waiting.begun == 1)).await;
    let mut other = connect(&serving).await;
    let health = other.send_request(request(&serving, "GET", "/healthz", Vec::new()));
    let health = tokio::time::timeout(PATIENCE, health).await.expect("the health check waits").unwrap();
    assert_eq!(health.status(), 200);
    assert!(!heavy.is_finished());
    waiting(|waiting| waiting.may_end = true);
    let response = tokio::time::timeout(PATIENCE, heavy).await.expect("the heavy request waits").unwrap().unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_panic_is_answered_and_logged_with_its_number() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let server = ApiServer::new();
    let serving = server.serve().log(move |line| log.lock().unwrap().push(line.to_owned())).start().await.unwrap();
    let mut sender = connect(&serving).await;
    // A small one runs on the connection's own thread, a large one on another.
    for (number, size) in [(1, 0), (2, 20_000)] {
        let response = sender.send_request(request(&serving, "POST", "/panic", vec![b'x'; size])).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"InternalError".into()));
        assert!(!status.to_string().contains("as the test wants"), "{status}");
        let line = format!("POST /panic panicked ({number} since the start): as the test wants");
        assert!(lines.lock().unwrap().contains(&line), "{lines:?}");
    }
    assert_eq!(server.panics(), 2);
    // A panic can also occur outside the handler.
    for (number, path) in [(3, "/panic-before"), (4, "/panic-after")] {
        sender.ready().await.unwrap();
        let response = sender.send_request(request(&serving, "GET", path, Vec::new())).await.unwrap();
        assert_eq!(response.status(), 500, "{path}");
        response.into_body().collect().await.unwrap();
        let line = format!("GET {path} panicked ({number} since the start): as the test wants");
        assert!(lines.lock().unwrap().contains(&line), "{lines:?}");
    }
    // The connection continues.
    sender.ready().await.unwrap();
    assert_eq!(sender.send_request(request(&serving, "GET", "/healthz", Vec::new())).await.unwrap().status(), 200);
}

/// Keeps every request for objects waiting until the value is dropped, or for some time.
struct Held {
    release: mpsc::Sender<()>,
    is_held: Arc<AtomicBool>,
}

impl Held {
    fn new(server: &ApiServer) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let is_held = Arc::new(AtomicBool::new(true));
        let (server, holds) = (server.clone(), Arc::clone(&is_held));
        std::thread::spawn(move || {
            let store = server.shared.store.hold();
            begin.send(()).unwrap();
            // A request on the only thread of the connections would block the test before it
            // reaches this point.
            let _ = released.recv_timeout(PATIENCE);
            holds.store(false, Ordering::SeqCst);
            drop(store);
        });
        begun.recv().unwrap();
        Self { release, is_held }
    }

    fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    fn release(self) {
        let _ = self.release.send(());
    }
}

/// A definition of Things with two versions whose schemas differ: `more` is a field of the first.
fn things(more: &str) -> Value {
    let version = |name: &str, field: &str, stored: bool| {
        let properties = json!({"a": {"type": "string", "pattern": "^[a-z]*$"}, field: {"type": "string"}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": schema}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", more, true), version("v2", "other", false)],
    }})
}

/// The cost of a request does not follow from its size: its effect on stored objects counts.
#[tokio::test(flavor = "current_thread")]
async fn health_checks_are_answered_while_small_requests_take_long() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const THINGS: &str = "/apis/example.com/v1/things";
    let server = ApiServer::new();
    let serving = server.serve().start().await.unwrap();
    let call = async |method: &str, path: &str, body: &Value| {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let Ok(response) = server.clone().call(request.body(Full::from(body.to_string())).unwrap()).await;
        assert!(response.status().is_success(), "{method} {path}: {}", response.status());
    };
    call("POST", MAPS, &json!({"metadata": {"name": "one"}})).await;
    let labels = json!({"a": "b"});
    let pods = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": pods});
    call("POST", DEPLOYMENTS, &json!({"metadata": {"name": "one"}, "spec": spec})).await;
    call("POST", DEFINITIONS, &things("first")).await;
    call("POST", THINGS, &json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}})).await;
    let mut changed = things("second");
    changed["metadata"]["resourceVersion"] = server.shared.store.revision().to_string().into();
    let patch = http::Request::patch(format!("{DEFINITIONS}/things.example.com"));
    let patch = patch.header("content-type", "application/merge-patch+json");
    let patch = patch.body(Full::from(json!({"spec": changed["spec"]}).to_string())).unwrap();
    let Ok(response) = server.clone().call(patch).await;
    assert_eq!(response.status(), 200);

    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    for at in 0..=crate::store::LONG {
        call("POST", SECRETS, &json!({"metadata": {"name": format!("s{at}")}})).await;
    }

    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let cases = [
        ("GET", THINGS.to_owned(), "", Value::Null),
        ("GET", format!("{THINGS}/one"), "", Value::Null),
        ("GET", "/apis/example.com/v2/things".to_owned(), "", Value::Null),
        ("GET", MAPS.to_owned(), metadata, Value::Null),
        ("GET", MAPS.to_owned(), "application/yaml", Value::Null),
        ("GET", format!("{MAPS}?pretty=true"), "", Value::Null),
        ("GET", format!("{MAPS}?labelSelector=a%20notin%20({})", "b,".repeat(2_000)), "", Value::Null),
        ("GET", format!("{DEPLOYMENTS}/one/scale"), "", Value::Null),
        ("GET", SECRETS.to_owned(), "", Value::Null),
        ("GET", format!("{SECRETS}?watch=1"), "", Value::Null),
        ("POST", MAPS.to_owned(), "", json!({"metadata": {"name": "two"}})),
        (
            "POST",
            THINGS.to_owned(),
            "",
            json!({
                "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "two"}, "spec": {"a": "b"},
            }),
        ),
        ("PATCH", format!("{MAPS}/one"), "", json!({"data": {"a": "b"}})),
        ("DELETE", format!("{MAPS}/one"), "", Value::Null),
        ("DELETE", MAPS.to_owned(), "", Value::Null),
        ("DELETE", format!("{DEFINITIONS}/things.example.com"), "", Value::Null),
    ];
    for (method, path, accept, body) in cases {
        let (mut busy, mut other) = (connect(&serving).await, connect(&serving).await);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut sent = request(&serving, method, &path, body);
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        for (name, value) in [("content-type", content_type), ("accept", accept)] {
            if !value.is_empty() {
                sent.headers_mut().insert(name, value.parse().unwrap());
            }
        }
        let begun = || server.shared.begun.load(Ordering::Relaxed);
        let before = begun();
        let held = Held::new(&server);
        let busy = tokio::spawn(busy.send_request(sent));
        eventually("the request to begin", async || begun() > before).await;
        let health = other.send_request(request(&serving, "GET", "/healthz", Vec::new()));
        assert_eq!(health.await.unwrap().status(), 200);
        assert!(held.is_held(), "a health check waits for {method} {path}");
        assert!(!busy.is_finished());
        held.release();
        let response = tokio::time::timeout(PATIENCE, busy).await.expect("the request waits").unwrap().unwrap();
        assert!(response.status().is_success(), "{method} {path}: {}", response.status());
    }
}

/// On one thread: an event that it encodes would make the others wait.
#[tokio::test(flavor = "current_thread")]
async fn events_that_take_long_are_made_on_other_threads() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let server = ApiServer::new();
    let serving = server.serve().start().await.unwrap();
    let mut sender = connect(&serving).await;
    let mut send = async |method: &str, path: &str, body: &Value| {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut sent = request(&serving, method, path, body);
        sent.headers_mut().insert("content-type", "application/json".parse().unwrap());
        sender.ready().await.unwrap();
        let answer = sender.send_request(sent).await.unwrap();
        assert!(answer.status().is_success(), "{method} {path}: {}", answer.status());
        answer
    };
    let whole = async |answer: http::Response<hyper::body::Incoming>| answer.into_body().collect().await.unwrap();
    whole(send("POST", DEFINITIONS, &things("first")).await).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}});
    whole(send("POST", "/apis/example.com/v1/things", &thing).await).await;
    let encoders = || std::mem::take(&mut *server.shared.encoders.lock().unwrap());
    // Things of the first version are sent as they are stored, those of the second are converted.
    for (version, is_made) in [("v1", false), ("v2", true)] {
        let mut watching = connect(&serving).await;
        let path = format!("/apis/example.com/{version}/things?watch=1");
        let watch = watching.send_request(request(&serving, "GET", &path, Vec::new())).await.unwrap();
        let event = watch.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(event.starts_with(br#"{"type":"ADDED""#), "{}", event.escape_ascii());
        let is_elsewhere: Vec<bool> = encoders().iter().map(|id| *id != std::thread::current().id()).collect();
        assert_eq!(is_elsewhere, [is_made], "{version}");
    }
}

/// As many as would be refused if they were large.
#[tokio::test(flavor = "current_thread")]
async fn small_writes_wait_and_are_not_refused() {
    const WRITES: usize = 450;
    let server = ApiServer::new();
    let serving = server.serve().start().await.unwrap();
    let mut senders = Vec::new();
    for _ in 0..5 {
        let stream = TokioIo::new(tls(&serving, "h2").await);
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        senders.push(sender);
    }
    let send = |at: usize, size: usize| {
        let text = "x".repeat(size);
        let map = json!({"metadata": {"name": format!("m-{size}-{at}")}, "data": {"text": text}});
        let uri = format!("{}/api/v1/namespaces/default/configmaps", serving.url());
        let request = http::Request::post(uri).header("authorization", format!("Bearer {}", serving.token()));
        let request = request.header("content-type", "application/json").body(Full::from(map.to_string())).unwrap();
        let mut sender: hyper::client::conn::http2::SendRequest<Full<Bytes>> = senders[at % senders.len()].clone();
        tokio::spawn(async move { sender.send_request(request).await.unwrap().status().as_u16() })
    };
    let held = Held::new(&server);
    let large: Vec<_> = (0..WRITES).map(|at| send(at, 20_000)).collect();
    // The surplus of large ones is refused; only then do all others wait for their turn.
    let refused = || large.iter().filter(|sent| sent.is_finished()).count();
    eventually("large writes to be refused", async || refused() == WRITES - 200).await;
    let small: Vec<_> = (0..WRITES).map(|at| send(at, 0)).collect();
    held.release();
    for sent in small {
        assert_eq!(sent.await.unwrap(), 201);
    }
    let mut answers = std::collections::BTreeMap::new();
    for sent in large {
        *answers.entry(sent.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(answers, [(201, 200), (429, WRITES - 200)].into());
}

#[tokio::test]
async fn a_panic_in_a_watch_is_logged_with_its_path() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let server = ApiServer::new();
    let serving = server.serve().log(move |line| log.lock().unwrap().push(line.to_owned())).start().await.unwrap();
    let mut sender = connect(&serving).await;
    let response = sender.send_request(request(&serving, "GET", "/panic-in-watch?watch=1", Vec::new())).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let event: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &500.into()));
    let line = "GET /panic-in-watch?watch=1 panicked (1 since the start): as the test wants";
    assert!(lines.lock().unwrap().iter().any(|logged| logged == line), "{lines:?}");
}
