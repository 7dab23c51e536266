//! Requests as curl sends them.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The deadline of each step, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Sends a request on a connection of its own.
pub(crate) async fn send(url: &str, request: http::Request<String>) -> http::Response<Incoming> {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    timeout(DEADLINE, sender.send_request(request)).await.expect("no response").unwrap()
}

/// A request to `url` as curl makes it.
pub(crate) fn request(url: &str, method: &str, path: &str) -> http::request::Builder {
    http::Request::builder().method(method).uri(path).header("host", url.strip_prefix("http://").unwrap())
}

/// Sends a request and returns the status code and the JSON body.
pub(crate) async fn fetch(url: &str, request: http::Request<String>) -> (u16, Value) {
    let response = send(url, request).await;
    let status = response.status().as_u16();
    let body = timeout(DEADLINE, response.into_body().collect()).await.expect("the response does not end").unwrap();
    (status, serde_json::from_slice(&body.to_bytes()).unwrap())
}

/// Reads an object.
pub(crate) async fn get(url: &str, path: &str) -> (u16, Value) {
    fetch(url, request(url, "GET", path).body(String::new()).unwrap()).await
}

/// Creates an object.
pub(crate) async fn post(url: &str, path: &str, object: Value) -> (u16, Value) {
    let request = request(url, "POST", path).header("content-type", "application/json");
    fetch(url, request.body(object.to_string()).unwrap()).await
}

/// The lines of a response, as they arrive.
pub(crate) struct Stream {
    body: Incoming,
    read: Vec<u8>,
}

impl Stream {
    pub(crate) async fn get(url: &str, path: &str) -> Self {
        let response = send(url, request(url, "GET", path).body(String::new()).unwrap()).await;
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), read: Vec::new() }
    }

    /// The next line, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match timeout(DEADLINE, self.body.frame()).await.expect("no data") {
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
