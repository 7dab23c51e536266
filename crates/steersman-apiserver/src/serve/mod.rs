//! The server on a socket: TLS with an authority of its own. Every request needs a credential.

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

/// The limit of connections of known clients. New ones beyond it are closed.
const CONNECTIONS_MAX: usize = 1024;
/// The limit of connections without a credential. Beyond it, the oldest is closed.
const UNAUTHENTICATED_MAX: usize = 512;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long pending requests may take to end after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections may wait to be accepted. The system drops more, and a client retries after
/// a second at the earliest.
const BACKLOG: u32 = 4096;
/// The pause after a failed accept, for example if the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The function that gets the log lines of requests.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The options of an [`ApiServer`] on a socket: see [`ApiServer::serve`].
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
    /// This server on a socket: HTTP/1.1 and HTTP/2 over TLS. Default: the loopback interface and a
    /// free port, see [`Serve::address`].
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
    /// The address to listen on. Port 0 is any free port.
    #[must_use]
    pub fn address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// Calls `log` with one line for each response: method, path and query, status, and the time
    /// until it began. A watch is logged when it begins. Credentials are never in it.
    #[must_use]
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// How many connections of clients with a credential there may be at a time. Further ones are
    /// closed at once, without a response. Default: 1,024.
    #[must_use]
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.limits.connections = connections.min(Semaphore::MAX_PERMITS);
        self
    }

    /// How many connections without a credential there may be in addition. A further one closes the
    /// oldest of them. Default: 512.
    #[must_use]
    pub fn unauthenticated_max(mut self, connections: usize) -> Self {
        self.limits.unauthenticated = connections;
        self
    }

    /// How long a TLS handshake may take. Default: 10 s.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.limits.handshake = timeout;
        self
    }

    /// How long the head of a request may take to arrive. A connection without a credential for
    /// this long is closed, too. Default: 30 s.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.limits.header = timeout;
        self
    }

    /// How long the body of a request may make no progress. After its first such time a body has to
    /// come at 16 KiB a second on average. A slower body is answered with 504. Default: 30 s.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.limits.body = timeout;
        self
    }

    /// How long a client may read none of the bytes that are sent to it before its connection is
    /// closed. Default: 60 s.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.limits.write = timeout;
        self
    }

    /// Creates the certificates and listens. From then on, a task of the current runtime handles
    /// requests.
    pub async fn start(self) -> Result<Serving, ListenError> {
        let listen = |source| ListenError::Listen { address: self.address, source };
        let listener = bind(self.address).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        // Clients cannot connect to the unspecified address; the server is reachable on loopback
        // then.
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
        self.server.shared.publish_authority(&parts.authority);

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
    // As tokio's own listener: a restarted server gets its port.
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
        // Drops the connections that have ended.
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
    // Connections that remain are aborted: the set ends its tasks when it is dropped.
    let _ = tokio::time::timeout(STOP_TIMEOUT, ended).await;
}

/// Shows when the server stops.
#[derive(Clone, Debug)]
struct Stopped(watch::Receiver<()>);

impl Stopped {
    /// Returns once the server stops.
    async fn wait(&mut self) {
        // No value is ever sent: the stop is the end of the sender, so that dropping the server
        // stops it, too.
        while self.0.changed().await.is_ok() {}
    }
}

/// A server on a socket, as long as this value lives.
///
/// # Contract
///
/// - Requests are answered from the moment [`Serve::start`] returns.
/// - A request without a certificate of this server's own authority, its token or one of a service
///   account gets 401 (tests: `a_request_without_a_credential_is_refused`,
///   `the_token_of_a_service_account_is_a_credential`).
/// - Invalid bytes hold a connection slot for a bounded time only, and delay no other client
///   (tests: `invalid_bytes_delay_no_other_connection`,
///   `a_connection_without_a_credential_is_closed`, `a_body_that_stops_is_refused`).
/// - Connections without a credential, however many, take no slot from clients with one (test:
///   `silent_connections_lock_no_client_out`).
/// - A client that does not read its responses keeps its connection for a bounded time only (test:
///   `a_client_that_reads_nothing_loses_its_connection`).
/// - The threads of the connections serve what needs no work: health checks, the version,
///   discovery, single objects, lists of up to 2,000 objects in their stored form, and watches.
///   Everything else runs on threads of its own, so that these do not wait for it (tests:
///   `health_checks_are_answered_while_heavy_requests_run`,
///   `health_checks_are_answered_while_small_requests_take_long`). So do events of a watch whose
///   objects are converted for a changed schema (test:
///   `events_that_take_long_are_made_on_other_threads`), and a watch that skips many objects yields
///   (test: `a_watch_that_skips_many_objects_gives_way`).
/// - A burst of connections waits to be accepted (test: `a_burst_of_connections_is_not_dropped`).
/// - There are three kinds of such requests, each with a thread for each processor: reads that are
///   converted (YAML, indented JSON, metadata alone, objects of a schema that has changed), small
///   writes, and writes with a body of 16 KiB or more, or a patch of 2 KiB. More than 400 such
///   reads, or 200 large writes, are refused with 429; small writes wait (test:
///   `small_writes_wait_and_are_not_refused`).
/// - A panic in a handler is a bug of this server. The request gets 500, and the panic is logged
///   with its number (test: `a_panic_is_answered_and_logged_with_its_number`).
/// - After [`stop`](Self::stop), or when the value is dropped, no connection is accepted, watches
///   end as after their timeout, and pending requests are answered. Connections that remain after 2
///   s are closed (test: `watches_end_with_the_server`).
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
    /// Its address: `https://127.0.0.1:…`.
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

    /// A self-contained kubeconfig with all rights: JSON, which is YAML. It contains a private key
    /// and the token.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// A kubeconfig like [that with all rights](Self::kubeconfig), for requests as `identity`.
    ///
    /// It uses impersonation: a reader of the file could leave that out. It is for tests, and does
    /// not restrict access.
    pub fn kubeconfig_as(&self, identity: &Identity) -> String {
        self.kubeconfig_parts.text(Some(identity))
    }

    /// Stops serving, and returns when every connection has ended.
    pub async fn stop(self) {
        drop(self.stop);
        // It is never cancelled, and after a panic it has ended as well.
        let _ = self.task.await;
    }
}

/// Why a server could not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificates or the token could not be created.
    #[error("cannot make the server's credentials: {0}")]
    Credentials(String),
}
