//! Requests that take long, and requests that panic.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;

use super::{PATIENCE, eventually, start, tls};
use crate::ApiServer;
use crate::serve::Serving;
use crate::test_paths::waiting;

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
    // One whose answer is a rewritten list is heavy without a body.
    let mut rewritten = connect(&serving).await;
    tokio::spawn(rewritten.send_request(request(&serving, "GET", "/wait?pretty=1", Vec::new())));
    eventually("the heavy requests to begin", async || waiting(|waiting| waiting.begun == 2)).await;
    let mut other = connect(&serving).await;
    let health = other.send_request(request(&serving, "GET", "/healthz", Vec::new()));
    let health = tokio::time::timeout(PATIENCE, health).await.expect("the health check waits").unwrap();
    assert_eq!(health.status(), 200);
    assert!(!heavy.is_finished());
    waiting(|waiting| waiting.may_end = true);
    let answer = tokio::time::timeout(PATIENCE, heavy).await.expect("the heavy request waits").unwrap().unwrap();
    assert_eq!(answer.status(), 200);
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
        let answer = sender.send_request(request(&serving, "POST", "/panic", vec![b'x'; size])).await.unwrap();
        assert_eq!(answer.status(), 500);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"InternalError".into()));
        assert!(!status.to_string().contains("as the test wants"), "{status}");
        let line = format!("POST /panic panicked ({number} since the start): as the test wants");
        assert!(lines.lock().unwrap().contains(&line), "{lines:?}");
    }
    assert_eq!(server.panics(), 2);
    // The connection goes on.
    sender.ready().await.unwrap();
    assert_eq!(sender.send_request(request(&serving, "GET", "/healthz", Vec::new())).await.unwrap().status(), 200);
}
