//! A server whose responses a test sets, for requests one at a time or many at once.

use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server on a loopback port. It ends when it is dropped.
pub(crate) struct Stub {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _serving: JoinSet<()>,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) body: Value,
}

/// The response of a stub.
pub(crate) type Answer = Response<Full<Bytes>>;

impl Stub {
    /// Starts a server with the responses of `answer`, which receives the server's own address.
    pub(crate) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Seen, String) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (answer, log, own) = (Arc::new(answer), Arc::clone(&seen), url.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log, own) = (Arc::clone(&answer), Arc::clone(&log), own.clone());
                connections.spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        let (answer, log, own) = (Arc::clone(&answer), Arc::clone(&log), own.clone());
                        async move {
                            let seen = Seen::read(request).await;
                            log.lock().unwrap().push(seen.clone());
                            Ok::<_, std::convert::Infallible>(answer(seen, own).await)
                        }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, seen, _serving: serving }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of requests for a token.
    pub(crate) fn logins(&self) -> usize {
        self.seen().iter().filter(|seen| seen.is_login()).count()
    }
}

impl Seen {
    async fn read(request: Request<Incoming>) -> Self {
        let (parts, body) = request.into_parts();
        let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let (token, if_match) = (header("x-auth-token"), header("if-match"));
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().unwrap().to_string(),
            token,
            if_match,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }
    }

    pub(crate) fn is_login(&self) -> bool {
        self.path == "/v3/auth/tokens"
    }
}

/// A response with a body.
pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    Response::builder().status(status).body(Full::new(body.into())).unwrap()
}

/// A response with a JSON body.
pub(crate) fn json_answer(status: u16, body: &Value) -> Answer {
    answer(status, body.to_string())
}

/// Keystone's response to a login: a token that is valid for this time, and a catalogue with this
/// endpoint.
pub(crate) fn token_answer(token: &str, seconds: u32, endpoint: &str) -> Answer {
    let expires = jiff::Timestamp::from_second(i64::from(seconds)).unwrap();
    let endpoints = json!([
        {"interface": "internal", "region": "one", "region_id": "one", "url": "http://127.0.0.1:1"},
        {"interface": "public", "region": "one", "region_id": "one", "url": endpoint},
    ]);
    let body = json!({"token": {
        "issued_at": "1970-01-01T00:00:00.000000Z",
        "expires_at": expires.to_string(),
        "catalog": [{"type": "network", "name": "neutron", "endpoints": endpoints}],
    }});
    let mut answer = json_answer(201, &body);
    answer.headers_mut().insert("x-subject-token", token.parse().unwrap());
    answer
}
