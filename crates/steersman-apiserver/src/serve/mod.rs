//! The server on a socket: TLS with an authority of its own, and nobody answered without a
//! credential.

mod certificates;
mod connection;
mod connection_slots;
mod kubeconfig;
mod kubeconfig_file;
mod subject;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::ApiServer;
use crate::request::identity::Identity;
use certificates::Authority;
use connection::{Connections, Lanes};
use connection_slots::ConnectionSlots;
use kubeconfig::Kubeconfig;

pub use kubeconfig_file::KubeconfigFile;

/// When there are as many connections of known clients, new ones are closed as they come.
const CONNECTIONS_MAX: usize = 1024;
/// Of more connections without a credential, the oldest is closed.
const UNAUTHENTICATED_MAX: usize = 512;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long requests that are under way may take to end after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections may wait to be accepted. The system drops what comes beyond that, and a
/// client tries again after a second at the earliest.
const BACKLOG: u32 = 4096;
/// How long nothing is accepted after accepting failed, as it does when the process has too many
/// files open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is told to whoever asked for a log of the requests.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// How an [`ApiServer`] is put on a socket: by [`ApiServer::serve`].
pub struct Serve {
    server: ApiServer,
    address: SocketAddr,
    log: Option<Log>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    unauthenticated: usize,
    handshake: Duration,
    header: Duration,
    body: Duration,
    write: Duration,
}

impl std::fmt::Debug for Serve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serve").field("address", &self.address).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// This server on a socket: HTTP/1.1 and HTTP/2 over TLS, on the loopback interface and a free
    /// port unless [`Serve::address`] says otherwise.
    pub fn serve(&self) -> Serve {
        let limits = Limits {
            connections: CONNECTIONS_MAX,
            unauthenticated: UNAUTHENTICATED_MAX,
            handshake: HANDSHAKE_TIMEOUT,
            header: HEADER_TIMEOUT,
            body: BODY_TIMEOUT,
            write: WRITE_TIMEOUT,
        };
        Serve { server: self.clone(), address: (Ipv4Addr::LOCALHOST, 0).into(), log: None, limits }
    }
}

impl Serve {
    /// Where to listen. Port 0 is any free port.
    #[must_use]
    pub fn address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// Calls `log` with one line for each answer: method, path and query, status, and how long it
    /// took to begin. A watch is told of when it begins. Credentials are never in it.
    #[must_use]
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// How many connections of clients with a credential there may be at a time. Default: 1,024.
    /// One more is closed at once, without an answer.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.limits.connections = connections.min(Semaphore::MAX_PERMITS);
        self
    }

    /// How many connections there may be beside those, on which no credential has been shown.
    /// Default: 512. One more closes the oldest of them.
    #[must_use]
    pub fn unauthenticated_max(mut self, connections: usize) -> Self {
        self.limits.unauthenticated = connections;
        self
    }

    /// How long a TLS handshake may take, rather than 10 s.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.limits.handshake = timeout;
        self
    }

    /// How long the head of a request may take to arrive, rather than 30 s. A connection on which
    /// nobody has shown a credential for this long is closed too.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.limits.header = timeout;
        self
    }

    /// How long the body of a request may make no progress. Default: 30 s. After its first such
    /// time a body has to come at 16 KiB a second on average. A body that is slower is answered
    /// with 504.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.limits.body = timeout;
        self
    }

    /// How long a client may take none of the bytes that are sent to it before its connection is
    /// closed. Default: 60 s.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.limits.write = timeout;
        self
    }

    /// Makes the certificates and listens. From then on, requests are answered by a task of the
    /// runtime we are in.
    pub async fn start(self) -> Result<Serving, ServeError> {
        let listen = |source| ServeError::Listen { address: self.address, source };
        let listener = bind(self.address).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        // Nobody can connect to "any address"; we can be found on loopback then.
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let url = format!("https://{}", SocketAddr::new(host, address.port()));

        let authority = Authority::new()?;
        let admin = authority.user(&Identity::admin())?;
        let tls = authority.tls(host)?;
        let token = certificates::token()?;
        let authority = authority.certificate();
        let parts = Kubeconfig { url: url.clone(), authority: authority.clone(), admin, token: token.clone() };
        let kubeconfig = parts.text(None);

        let (stop, stopped) = watch::channel(());
        let connections = Arc::new(Connections {
            server: self.server,
            tls: TlsAcceptor::from(Arc::new(tls)),
            token: token.clone(),
            log: self.log,
            limits: self.limits,
            stopped: Stopped(stopped),
            lanes: Lanes::new(),
        });
        let task = tokio::spawn(accept(listener, connections));
        Ok(Serving { url, authority, token, kubeconfig, kubeconfig_parts: parts, stop, task })
    }
}

/// Listens at an address, with room for a burst of connections.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As tokio's own listener: a server that is started again gets its port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the stop, then waits for them to end.
async fn accept(listener: TcpListener, connections: Arc<Connections>) {
    let slots = ConnectionSlots::new(connections.limits.connections, connections.limits.unauthenticated);
    let mut open = JoinSet::new();
    let mut stopped = connections.stopped.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped.wait() => break,
            accepted = listener.accept() => accepted,
        };
        // Forgets the connections that have ended.
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(slot) = slots.enter() else { continue };
        open.spawn(Arc::clone(&connections).run(stream, slot));
    }
    drop(listener);
    let ended = async { while open.join_next().await.is_some() {} };
    // Whoever is left after that is cut off: the set ends its tasks when it is dropped.
    let _ = tokio::time::timeout(STOP_TIMEOUT, ended).await;
}

/// Tells when the server stops.
#[derive(Clone, Debug)]
struct Stopped(watch::Receiver<()>);

impl Stopped {
    /// Returns once the server stops.
    async fn wait(&mut self) {
        // Nothing is ever sent: the stop is the end of the sender, so that a value that is dropped
        // stops the server too.
        while self.0.changed().await.is_ok() {}
    }
}

/// A server on a socket, for as long as this value lives.
///
/// # What is promised
///
/// - Requests are answered from the moment [`Serve::start`] returns.
/// - Nothing is answered without a certificate of this server's own authority or its token; all
///   else gets 401 (test: `a_request_without_a_credential_is_refused`).
/// - Bytes that lead nowhere hold a slot among the connections for a bounded time only, and hold
///   up
///   no other client (tests: `invalid_bytes_delay_no_other_connection`,
///   `a_connection_without_a_credential_is_closed`, `a_body_that_stops_is_refused`).
/// - Connections without a credential, however many, take no slot from clients with one (test:
///   `silent_connections_lock_no_client_out`).
/// - A client that leaves its answers unread keeps its connection for a bounded time only (test:
///   `a_client_that_reads_nothing_loses_its_connection`).
/// - The threads of the connections answer what is there already: health checks, the version,
///   discovery, single objects, lists of up to 2,000 objects in their stored form, and watches. All
///   else is answered on threads of its own, so that these do not wait for it (tests:
///   `health_checks_are_answered_while_heavy_requests_run`,
///   `health_checks_are_answered_while_small_requests_take_long`). So are events of a watch that
///   are made for a changed schema (test: `events_that_take_long_are_made_on_other_threads`), and a
///   watch that skips many objects gives way (test: `a_watch_that_skips_many_objects_gives_way`).
/// - A burst of connections waits to be accepted (test: `a_burst_of_connections_is_not_dropped`).
/// - There are three kinds of such requests, each with a thread for each processor: reads that are
///   made anew (YAML, indented JSON, metadata alone, objects of a schema that has changed), small
///   writes, and writes with a body of 16 KiB or more, or a patch of 2 KiB. More than 400 such
///   reads, or 200 large writes, are refused with 429; small writes wait (test:
///   `small_writes_wait_and_are_not_refused`).
/// - A panic in a handler is a bug of this server. It is answered with 500 and logged with its
///   number (test: `a_panic_is_answered_and_logged_with_its_number`).
/// - On [`stop`](Self::stop), or when the value is dropped, nothing more is accepted, watches end
///   as if their time was up, and requests under way are answered. What is left after 2 s is cut
///   off (test: `watches_end_with_the_server`).
///
/// The objects stay: the [`ApiServer`] may be called in process, or served again with new
/// credentials.
pub struct Serving {
    url: String,
    authority: String,
    token: String,
    kubeconfig: String,
    kubeconfig_parts: Kubeconfig,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Serving {
    /// Where it listens, as `https://127.0.0.1:…`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate of its authority, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The bearer token with all rights.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A kubeconfig with all rights, complete in itself: JSON, which is YAML. It holds a private
    /// key and the token.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// A kubeconfig like [that with all rights](Self::kubeconfig), whose holder asks as `identity`
    /// does.
    ///
    /// It does so by impersonation: whoever reads the file could do without. It is for tests, not
    /// for keeping people out.
    pub fn kubeconfig_as(&self, identity: &Identity) -> String {
        self.kubeconfig_parts.text(Some(identity))
    }

    /// Stops serving, and returns when every connection has ended.
    pub async fn stop(self) {
        drop(self.stop);
        // It is never cancelled, and what a panic in it would mean for us is that it has ended.
        let _ = self.task.await;
    }
}

/// Why a server could not be put on a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificates or the token could not be made.
    #[error("cannot make the server's credentials: {0}")]
    Credentials(String),
}
