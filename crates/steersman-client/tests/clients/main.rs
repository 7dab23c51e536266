//! The promises of the clients, with servers in this process.

mod conflicts;
mod credentials;
mod debug;
mod embedded;
mod encoding;
mod errors;
mod gate;
mod gated_connection;
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
mod tracing;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube_client::client::Body;
use steersman_client::{Client, ClientBuilder, Config, Timeouts};
use steersman_testing::Log;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

/// The address of the servers in these tests.
const SERVER: &str = "http://server.test:8080";

fn builder() -> ClientBuilder {
    Client::builder(Config::new(SERVER.parse().unwrap()))
}

/// The result of `work` on a thread and a runtime of its own. A read without end fails the test.
fn in_time<T: Send + 'static, F: Future<Output = T>>(work: impl FnOnce() -> F + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        sender.send(runtime.block_on(work())).unwrap();
    });
    receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("the file is read without end")
}

fn make_fifo(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Files that take all time or all memory to read, each with the text of its error. The FIFO is the
/// first: code that reads it stops there, before it fills the memory with zeros.
fn endless_files(folder: &std::path::Path) -> [(std::path::PathBuf, &'static str); 3] {
    let (fifo, huge) = (folder.join("fifo"), folder.join("huge"));
    make_fifo(&fifo);
    // Sparse: it takes no space on the disk.
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    let not_regular = "is not a regular file";
    [(fifo, not_regular), ("/dev/zero".into(), not_regular), (huge, "has 1099511627776 bytes, and at most ")]
}

type Server = BoxCloneSyncService<Request<Body>, Response<Full<Bytes>>, BoxError>;

/// A server that sends `answer(n, request)` to its nth request, and the requests that it has seen.
fn server(
    answer: impl Fn(usize, &Request<()>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
) -> (Server, Log<Request<()>>) {
    let seen = Log::new();
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

/// For tests with paused time: a limit might be reached while bytes are in flight.
fn no_timeouts() -> Timeouts {
    let mut timeouts = Timeouts::default();
    timeouts.connect = None;
    timeouts.response = None;
    timeouts.idle = None;
    timeouts.watch_response = None;
    timeouts.watch_idle = None;
    timeouts
}
