//! What curl would do.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What must happen happens within this time, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a request on a connection of its own.
pub(crate) async fn send(url: &str, request: http::Request<String>) -> http::Response<Incoming> {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    timeout(PATIENCE, sender.send_request(request)).await.expect("it does not answer").unwrap()
}

/// A request as curl makes it, to be sent to `url`.
pub(crate) fn request(url: &str, method: &str, path: &str) -> http::request::Builder {
    http::Request::builder().method(method).uri(path).header("host", url.strip_prefix("http://").unwrap())
}

/// The code and the body, which is JSON.
pub(crate) async fn ask(url: &str, request: http::Request<String>) -> (u16, Value) {
    let answer = send(url, request).await;
    let status = answer.status().as_u16();
    let body = timeout(PATIENCE, answer.into_body().collect()).await.expect("its answer does not end").unwrap();
    (status, serde_json::from_slice(&body.to_bytes()).unwrap())
}

/// Reads an object.
pub(crate) async fn get(url: &str, path: &str) -> (u16, Value) {
    ask(url, request(url, "GET", path).body(String::new()).unwrap()).await
}

/// Creates an object.
pub(crate) async fn post(url: &str, path: &str, object: Value) -> (u16, Value) {
    let request = request(url, "POST", path).header("content-type", "application/json");
    ask(url, request.body(object.to_string()).unwrap()).await
}

/// The lines of an answer as they come.
pub(crate) struct Stream {
    body: Incoming,
    read: Vec<u8>,
}

impl Stream {
    pub(crate) async fn get(url: &str, path: &str) -> Self {
        let answer = send(url, request(url, "GET", path).body(String::new()).unwrap()).await;
        assert_eq!(answer.status(), 200);
        Self { body: answer.into_body(), read: Vec::new() }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match timeout(PATIENCE, self.body.frame()).await.expect("nothing comes") {
                Some(Ok(frame)) => self.read.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The type of the next event, and the name of its object.
    pub(crate) async fn event(&mut self) -> (String, String) {
        let event = self.next().await.expect("another event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}
