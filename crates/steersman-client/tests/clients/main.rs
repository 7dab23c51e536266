//! The clients: what each promises, with servers in this process.

mod conflicts;
mod credentials;
mod debug;
mod embedded;
mod encoding;
mod errors;
mod gzip;
mod in_cluster;
mod interop;
mod kubeconfig;
mod loopback;
mod mounted;
mod objects;
mod observe;
mod proxies;
mod rate_limit;
mod response_size;
mod rest;
mod retries;
mod timeouts;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube_client::client::Body;
use steersman_client::{Client, ClientBuilder, Config, Timeouts};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// Where the servers of these tests are said to be.
const SERVER: &str = "http://server.test:8080";

fn builder() -> ClientBuilder {
    Client::builder(Config::new(SERVER.parse().unwrap()))
}

/// A list that many tasks write to.
#[derive(Clone, Debug)]
struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Seen<T> {
    fn push(&self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }

    fn all(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn len(&self) -> usize {
        self.all().len()
    }
}

type Server = BoxCloneSyncService<Request<Body>, Response<Full<Bytes>>, BoxError>;

/// A server that gives `answer` to the request that comes after so many others, and the requests that it has seen.
fn server(
    answer: impl Fn(usize, &Request<()>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
) -> (Server, Seen<Request<()>>) {
    let seen = Seen::default();
    let service = tower::service_fn({
        let seen = seen.clone();
        move |request: Request<Body>| {
            let (parts, _) = request.into_parts();
            let request = Request::from_parts(parts, ());
            let response = answer(seen.len(), &request);
            seen.push(request);
            std::future::ready(Ok::<_, BoxError>(response))
        }
    });
    (BoxCloneSyncService::new(service), seen)
}

fn answer(code: u16, body: &'static str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Full::from(body)).unwrap()
}

/// A ConfigMap in JSON.
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}"#;

/// For tests in which time stands still until nothing else happens: a limit might be reached while bytes are on their way.
fn no_timeouts() -> Timeouts {
    let mut timeouts = Timeouts::default();
    timeouts.connect = None;
    timeouts.answer = None;
    timeouts.silence = None;
    timeouts.watch_start = None;
    timeouts.watch_silence = None;
    timeouts
}
