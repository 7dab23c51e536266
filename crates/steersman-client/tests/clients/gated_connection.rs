//! The write gate where the bytes of a write leave: at its connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Uri};
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use steersman_client::{Client, Error, GateError, WriteGate};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use super::{MAP, builder, no_timeouts};

const SECOND: Duration = Duration::from_secs(1);
const PATH: &str = "/api/v1/namespaces/default/configmaps/a";

/// The client's end of a connection in memory.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The server's ends of all connections.
type Connections = Arc<Mutex<Vec<DuplexStream>>>;

/// A client whose connections are ready after `wait` and hold `size` unread bytes. Its gate is open
/// until `open` has passed. A write may take twice that time.
fn client(wait: Duration, size: usize, open: Duration) -> (Client, Connections) {
    let connections = Connections::default();
    let servers = Arc::clone(&connections);
    let connector = tower::service_fn(move |_: Uri| {
        let servers = Arc::clone(&servers);
        async move {
            sleep(wait).await;
            let (client, server) = tokio::io::duplex(size);
            servers.lock().unwrap().push(server);
            Ok::<_, io::Error>(Pipe(TokioIo::new(client)))
        }
    });
    let client = builder().timeouts(no_timeouts()).build_with_connector(connector).unwrap();
    let started = Instant::now();
    let gate = WriteGate::new(move || {
        let passed = started.elapsed();
        (passed < open).then(|| (2 * open).saturating_sub(passed))
    });
    (client.with_write_gate(gate), connections)
}

async fn send(client: &Client, method: Method) -> Result<(), Error> {
    let has_body = method == Method::PUT;
    let request = client.rest().verb(method).abs_path(PATH);
    let request = if has_body { request.body("application/json", MAP) } else { request };
    request.send().await.map(drop)
}

/// What the server can still read of the only connection.
async fn received(connections: &Connections) -> String {
    let mut connection = connections.lock().unwrap().pop().expect("there was a connection");
    let mut received = Vec::new();
    connection.read_to_end(&mut received).await.unwrap();
    String::from_utf8(received).unwrap()
}

/// Reads one request of the only connection, and sends a response.
async fn respond(connections: &Connections) -> DuplexStream {
    let mut connection = connections.lock().unwrap().pop().expect("there was a connection");
    let (mut request, mut buffer) = (String::new(), [0; 1024]);
    while !(request.ends_with("\r\n\r\n") || request.ends_with(MAP)) {
        let bytes = connection.read(&mut buffer).await.unwrap();
        assert_ne!(bytes, 0, "the connection ended after {request:?}");
        request.push_str(std::str::from_utf8(&buffer[..bytes]).unwrap());
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", MAP.len());
    connection.write_all(format!("{head}{MAP}").as_bytes()).await.unwrap();
    connection
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_connection_does_not_leave_late() {
    // hyper does not poll a body without content.
    for method in [Method::PUT, Method::DELETE] {
        let (client, connections) = client(5 * SECOND, 4096, 3 * SECOND);
        let started = Instant::now();
        let refused = send(&client, method.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::Gate { gate: GateError::Closed, .. }), "{method}: {refused}");
        assert_eq!((started.elapsed().as_secs(), received(&connections).await), (5, String::new()), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_connection_leaves_in_time() {
    for method in [Method::PUT, Method::DELETE] {
        let (client, connections) = client(5 * SECOND, 4096, 6 * SECOND);
        let serve = async {
            sleep(8 * SECOND).await;
            respond(&connections).await
        };
        // The gate has closed before the response comes.
        let (sent, _connection) = tokio::join!(send(&client, method.clone()), serve);
        sent.unwrap_or_else(|error| panic!("{method}: {error}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_full_socket_does_not_leave_late() {
    const ROOM: usize = 64;
    let (client, connections) = client(Duration::ZERO, ROOM, 3 * SECOND);
    let read_late = async {
        sleep(5 * SECOND).await;
        received(&connections).await
    };
    let (sent, received) = tokio::join!(send(&client, Method::PUT), read_late);
    let cancelled = sent.unwrap_err();
    assert!(matches!(cancelled, Error::Gate { gate: GateError::Cancelled, .. }), "{cancelled}");
    assert_eq!(received.len(), ROOM, "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_on_the_connection_of_an_earlier_write_asks_no_gate() {
    let (client, connections) = client(Duration::ZERO, 4096, 3 * SECOND);
    let serve = async {
        sleep(SECOND).await;
        respond(&connections).await
    };
    let (sent, connection) = tokio::join!(send(&client, Method::PUT), serve);
    sent.unwrap();
    sleep(3 * SECOND).await;
    connections.lock().unwrap().push(connection);
    let (read, _connection) = tokio::join!(send(&client, Method::GET), respond(&connections));
    read.unwrap();
    assert_eq!(connections.lock().unwrap().len(), 0, "there was one connection");
}
