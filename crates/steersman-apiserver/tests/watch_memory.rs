//! The memory of a watch: a position in the log and a few events, however much its client leaves
//! unread.

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ServerBody};
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The batch that a watch takes from the log, and so the most that it may hold beside one event.
const BATCH_BYTES: usize = 64 << 10;

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> http::Response<ServerBody> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let Ok(answer) = server.clone().call(request.body(Full::new(body)).unwrap()).await;
    answer
}

/// Creates or replaces a ConfigMap with this much text.
async fn put(server: &ApiServer, name: &str, size: usize) {
    let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(size)}});
    if send(server, "PUT", &format!("{MAPS}/{name}"), &map).await.status() == 404 {
        assert_eq!(send(server, "POST", MAPS, &map).await.status(), 201);
    }
}

async fn watch(server: &ApiServer, from: &str) -> ServerBody {
    let answer = send(server, "GET", &format!("{MAPS}?watch=1&resourceVersion={from}"), &Value::Null).await;
    assert_eq!(answer.status(), 200);
    answer.into_body()
}

/// The version of the server's state.
async fn revision(server: &ApiServer) -> String {
    let list = send(server, "GET", MAPS, &Value::Null).await.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&list).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// A server without a ConfigMap in the namespace `default`.
fn empty() -> ApiServer {
    ApiServer::builder().bootstrap(false).build()
}

/// The available parts of a watch.
fn frames(body: &mut ServerBody) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some(Some(Ok(frame))) = tokio::task::unconstrained(body.frame()).now_or_never() {
        frames.extend(frame.into_data());
    }
    frames
}

/// The available events.
fn events(body: &mut ServerBody) -> Vec<Value> {
    let bytes = frames(body).concat();
    serde_json::Deserializer::from_slice(&bytes).into_iter().map(|event| event.unwrap()).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test]
async fn an_unread_watch_keeps_no_object_of_its_initial_list() {
    let server = empty();
    for index in 0..50 {
        put(&server, &format!("m-{index}"), 1000).await;
    }
    let mut watch = watch(&server, "0").await;
    for index in 0..50 {
        put(&server, &format!("m-{index}"), 1001).await;
    }
    server.compact();
    // The states that the watch began with were dropped, also from its own memory: it ends as
    // expired.
    let events = events(&mut watch);
    assert_eq!(types(&events), ["ERROR"]);
    assert_eq!(events[0]["object"]["code"], 410, "{}", events[0]);
}

#[tokio::test]
async fn the_initial_list_is_that_of_the_beginning_as_long_as_the_log_has_it() {
    let server = empty();
    for index in 0..50 {
        put(&server, &format!("m-{index:02}"), 1000).await;
    }
    let mut watch = watch(&server, "0").await;
    for index in 0..25 {
        put(&server, &format!("m-{index:02}"), 1001).await;
    }
    assert_eq!(send(&server, "DELETE", &format!("{MAPS}/m-49"), &Value::Null).await.status(), 200);
    let events = events(&mut watch);
    assert_eq!(types(&events), [vec!["ADDED"; 50], vec!["MODIFIED"; 25], vec!["DELETED"]].concat());
    let size = |event: &Value| event["object"]["data"]["text"].as_str().unwrap().len();
    assert!(events[..50].iter().all(|event| size(event) == 1000));
}

#[tokio::test]
async fn changes_are_taken_from_the_log_a_few_bytes_at_a_time() {
    const SIZE: usize = 10_000;
    let server = empty();
    let start = revision(&server).await;
    let mut watch = watch(&server, &start).await;
    for index in 0..100 {
        put(&server, &format!("m-{index}"), SIZE).await;
    }
    watch.frame().await.unwrap().unwrap();
    server.compact();
    // The events after the log was dropped were in the watch's own memory.
    let events = events(&mut watch);
    let held = events.iter().filter(|event| event["type"] == "ADDED").count() * SIZE;
    assert!(held <= BATCH_BYTES, "the watch held {held} bytes");
    assert_eq!(types(&events).last(), Some(&"ERROR"));
}

#[tokio::test]
async fn the_bytes_of_a_large_object_are_shared_by_all_watches() {
    const SIZE: usize = 500_000;
    let server = empty();
    let start = revision(&server).await;
    put(&server, "large", SIZE).await;
    for from in ["0", &start] {
        // Held until the end, so that no address is used twice.
        let mut large = Vec::new();
        for _ in 0..3 {
            let frames = frames(&mut watch(&server, from).await);
            let event: Value = serde_json::from_slice(&frames.concat()).unwrap();
            assert_eq!(event["object"]["data"]["text"].as_str().map(str::len), Some(SIZE));
            large.extend(frames.into_iter().filter(|frame| frame.len() > SIZE));
        }
        assert_eq!(large.len(), 3);
        let is_shared = large.iter().all(|frame| frame.as_ptr() == large[0].as_ptr());
        assert!(is_shared, "from {from}: the object is copied for each watch");
    }
}
