//! Servers on sockets, and clients that behave badly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use steersman_http::{Bound, Listen, Router, ServeError, Server, Tls, text};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// What is waited for happens long before; only a test that fails waits for so long.
const DEADLINE: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

fn run(server: Bound, router: Router) -> Running {
    let address = server.address();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run(router, async { _ = stopped.await }));
    Running { address, stop, task }
}

fn hello() -> Router {
    Router::new().get("/hello", async |_| text(StatusCode::OK, "hello"))
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("the server listens")
}

/// Reads until the server closes the connection. A reset is an end too.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    rest(stream).await
}

fn assert_hello(response: &str) {
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello"), "{response}");
}

#[tokio::test]
async fn headers_that_come_slowly_end_their_connection() {
    let server = run(Server::new().header_timeout(Duration::from_millis(100)).bind().unwrap(), hello());
    let mut slow = connect(server.address).await;
    slow.write_all(b"GET /hello HTTP/1.1\r\nX-Slow: ").await.unwrap();
    assert_eq!(rest(&mut slow).await, "");
    // One that sends nothing at all.
    assert_eq!(rest(&mut connect(server.address).await).await, "");
    assert_hello(&ask(&mut connect(server.address).await, "/hello").await);
}

#[tokio::test]
async fn an_idle_connection_serves_further_requests_and_is_closed_in_the_end() {
    let server = run(Server::new().idle_timeout(Duration::from_millis(300)).bind().unwrap(), hello());
    let mut stream = connect(server.address).await;
    for _ in 0..3 {
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"hello") {
            assert_ne!(timeout(DEADLINE, stream.read_buf(&mut response)).await.unwrap().unwrap(), 0, "a response");
        }
    }
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let server = run(Server::new().bind().unwrap(), hello());
    let with_header = async |bytes: usize| {
        let mut stream = connect(server.address).await;
        let head = format!("GET /hello HTTP/1.1\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(bytes));
        let (mut reader, mut writer) = stream.split();
        // The server does not read all of it.
        let (_, response) = tokio::join!(writer.write_all(head.as_bytes()), rest(&mut reader));
        response
    };
    assert_hello(&with_header(900 << 10).await);
    let refused = with_header(4 << 20).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431 "), "{refused}");
    let many = "X: y\r\n".repeat(1_000);
    let mut stream = connect(server.address).await;
    stream.write_all(format!("GET /hello HTTP/1.1\r\n{many}\r\n").as_bytes()).await.unwrap();
    let refused = rest(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
}

#[tokio::test]
async fn idle_connections_keep_no_client_out() {
    let server = run(Server::new().connections_max(20).bind().unwrap(), hello());
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(connect(server.address).await);
    }
    // One of them has sent half a head.
    idle[190].write_all(b"GET /hello HTTP/1.1\r\n").await.unwrap();
    for _ in 0..30 {
        assert_hello(&ask(&mut connect(server.address).await, "/hello").await);
    }
    // The oldest had to make room long ago.
    assert_eq!(rest(&mut idle[0]).await, "");
}

#[tokio::test]
async fn a_body_that_no_route_wants_is_refused_unread() {
    let server = run(Server::new().bind().unwrap(), hello());
    for framing in ["Content-Length: 5", "Content-Length: 3000000", "Transfer-Encoding: chunked"] {
        let mut stream = connect(server.address).await;
        // The body never comes, and the response does not wait for it.
        stream.write_all(format!("GET /hello HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n").as_bytes()).await.unwrap();
        let response = rest(&mut stream).await.to_lowercase();
        assert!(response.starts_with("http/1.1 413 ") && response.contains("connection: close\r\n"), "{response}");
    }
    let mut stream = connect(server.address).await;
    let request = b"GET /hello HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    assert_hello(&rest(&mut stream).await);
}

#[tokio::test]
async fn bodies_that_trickle_keep_no_client_out() {
    let router = hello().route("/convert", async |_| text(StatusCode::OK, "converted"));
    let server = run(Server::new().connections_max(4).bind().unwrap(), router);
    let mut trickling = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(server.address).await;
        let head = b"POST /convert HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // The server asks for the body.
        let mut asked = [0; 25];
        timeout(DEADLINE, stream.read_exact(&mut asked)).await.unwrap().unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        trickling.push(stream);
    }
    assert_hello(&ask(&mut connect(server.address).await, "/hello").await);
    assert_eq!(rest(&mut trickling[0]).await, "", "the oldest makes room");
    trickling[3].write_all(b"012345678").await.unwrap();
    let mut response = [0; 15];
    timeout(DEADLINE, trickling[3].read_exact(&mut response)).await.unwrap().unwrap();
    assert_eq!(&response, b"HTTP/1.1 200 OK", "a body that comes in the end is answered");
}

#[tokio::test]
async fn a_connection_is_refused_while_all_others_have_requests() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
        move |_| {
            let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
            async move {
                started.notify_one();
                go_on.notified().await;
                text(StatusCode::OK, "hello")
            }
        }
    };
    let server = run(Server::new().connections_max(1).bind().unwrap(), Router::new().get("/wait", handler));
    let mut stream = connect(server.address).await;
    let asking = tokio::spawn(async move { ask(&mut stream, "/wait").await });
    timeout(DEADLINE, started.notified()).await.unwrap();
    assert_eq!(rest(&mut connect(server.address).await).await, "");
    go_on.notify_one();
    assert_hello(&asking.await.unwrap());
}

#[tokio::test]
async fn requests_under_way_are_answered_after_the_stop() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
        move |_| {
            let (started, go_on) = (Arc::clone(&started), Arc::clone(&go_on));
            async move {
                started.notify_one();
                go_on.notified().await;
                text(StatusCode::OK, "hello")
            }
        }
    };
    let server = run(Server::new().bind().unwrap(), Router::new().get("/wait", handler));
    let mut idle = connect(server.address).await;
    let mut stream = connect(server.address).await;
    let asking = tokio::spawn(async move { ask(&mut stream, "/wait").await });
    timeout(DEADLINE, started.notified()).await.unwrap();
    server.stop.send(()).unwrap();
    assert_eq!(rest(&mut idle).await, "", "an idle connection ends with the server");
    assert!(!server.task.is_finished());
    go_on.notify_one();
    assert_hello(&asking.await.unwrap());
    timeout(DEADLINE, server.task).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_overruns_the_stop_is_cut_off() {
    let router = Router::new().get("/wait", async |_| std::future::pending().await);
    let server = run(Server::new().shutdown_timeout(Duration::from_millis(50)).bind().unwrap(), router);
    let mut stream = connect(server.address).await;
    stream.write_all(b"GET /wait HTTP/1.1\r\n\r\n").await.unwrap();
    server.stop.send(()).unwrap();
    timeout(DEADLINE, server.task).await.unwrap().unwrap().unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

/// A certificate for `localhost` and its key, in files.
fn write_certificate(directory: &std::path::Path) -> RootCertStore {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), signed.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), signed.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    roots
}

#[tokio::test]
async fn a_server_with_tls_has_the_certificate_of_its_files_and_no_http_2() {
    let directory = tempfile::tempdir().unwrap();
    let roots = write_certificate(directory.path());
    let server = run(Server::new().tls(Tls::directory(directory.path())).bind().unwrap(), hello());
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, connect(server.address).await).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_hello(&ask(&mut stream, "/hello").await);
    // Plain text to a port of TLS is no request.
    let answer = ask(&mut connect(server.address).await, "/hello").await;
    assert!(!answer.contains("200"), "{answer}");
}

#[tokio::test]
async fn a_port_on_all_interfaces_answers_on_loopback() {
    let server = run(Server::new().listen(Listen::AllInterfaces(0)).bind().unwrap(), hello());
    assert!(server.address.ip().is_unspecified());
    let loopback = SocketAddr::from(([127, 0, 0, 1], server.address.port()));
    assert_hello(&ask(&mut connect(loopback).await, "/hello").await);
}

#[test]
fn an_address_or_a_certificate_that_cannot_be_used_is_named() {
    let first = Server::new().bind().unwrap();
    let error = Server::new().listen(first.address()).bind().unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {}: ", first.address())), "{error}");
    let error = Server::new().tls(Tls::directory("/nowhere")).bind().unwrap_err().to_string();
    assert!(error.starts_with("cannot use the certificate /nowhere/tls.crt: cannot read"), "{error}");
}
