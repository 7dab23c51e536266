//! A router on a socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::connection::{Shared, Stopping};
use crate::connections::Connections;
use crate::router::Router;
use crate::tls::{Certificates, Tls};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long nothing is accepted after accepting failed, as it does when the process has too many
/// files open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) handshake: Duration,
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) headers: usize,
    pub(crate) body: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) write: Duration,
}

/// Where a server listens. As text: `:8443` for all interfaces, `127.0.0.1:8080`, `[::1]:0`,
/// `localhost:8080`. Port 0 is any free port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// This port on all interfaces, IPv6 and IPv4.
    AllInterfaces(u16),
    /// One address.
    At(SocketAddr),
}

impl Listen {
    /// A port on the loopback interface.
    pub fn loopback(port: u16) -> Self {
        Self::At((Ipv4Addr::LOCALHOST, port).into())
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

impl FromStr for Listen {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let invalid = || ServeError::InvalidAddress { address: text.to_owned() };
        if let Some(port) = text.strip_prefix(':') {
            return port.parse().map(Self::AllInterfaces).map_err(|_| invalid());
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            return port.parse().map(Self::loopback).map_err(|_| invalid());
        }
        text.parse().map(Self::At).map_err(|_| invalid())
    }
}

/// Where and how a [`Router`] is served: HTTP/1.1, on the loopback interface and a free port by
/// default.
///
/// **What a client can cost** (defaults; the tests of these names are in `tests/serving.rs`).
/// - A head that is not complete after 32 s ends its connection
///   (`headers_that_come_slowly_end_their_connection`), as does an idle time of 90 s. A head of
///   more than 1 MiB is refused with 431 (`huge_headers_are_refused`).
/// - A body of more than 3 MiB is refused with 413. A body that makes no progress for 30 s is
///   refused with 408.
/// - Routes for GET and HEAD read no body (`a_body_that_no_route_wants_is_refused_unread`).
/// - There are at most 256 connections. One more closes the one for which no handler has run for
///   the longest time: one that is idle (`idle_connections_keep_no_client_out`) or whose request is
///   not complete (`bodies_that_trickle_keep_no_client_out`). If handlers run for all of them, the
///   new one is closed itself.
/// - A TLS handshake has 10 s, and a client that reads nothing of its response 60 s.
/// - On shutdown nothing more is accepted, and requests under way have a minute to end
///   (`requests_under_way_are_answered_after_the_stop`).
#[derive(Debug)]
#[must_use]
pub struct Server {
    listen: Listen,
    limits: Limits,
    http2: bool,
    shutdown_timeout: Duration,
    tls: Option<Tls>,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// A server with the default limits.
    pub fn new() -> Self {
        let limits = Limits {
            connections: 256,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            headers: 1 << 20,
            body: 3 << 20,
            body_timeout: Duration::from_secs(30),
            write: Duration::from_secs(60),
        };
        let shutdown_timeout = Duration::from_secs(60);
        Self { listen: Listen::loopback(0), limits, http2: false, shutdown_timeout, tls: None }
    }

    /// Where to listen. Default: a free port on the loopback interface.
    pub fn listen(mut self, listen: impl Into<Listen>) -> Self {
        self.listen = listen.into();
        self
    }

    /// Serves with TLS. Default: plain.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Offers HTTP/2 as well, which needs TLS. Default: off, because a client can make a server
    /// work for requests that it cancels at once.
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// How many connections there may be at a time. Default: 256.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.limits.connections = connections;
        self
    }

    /// How long the head of a request may take. Default: 32 s.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.limits.header = timeout;
        self
    }

    /// How long a connection may be without a request. Default: 90 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.limits.idle = timeout;
        self
    }

    /// How many bytes the head of a request may have, at least 8 KiB. Default: 1 MiB.
    pub fn headers_max(mut self, bytes: usize) -> Self {
        self.limits.headers = bytes.max(8 << 10);
        self
    }

    /// How many bytes the body of a request may have. Default: 3 MiB.
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// How long requests that are under way may take to end after the stop. Default: 60 s.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Listens. Clients can connect from now on, and are answered when the server
    /// [runs](Bound::run). Reads the files of the certificate, if there are any. Needs no runtime.
    pub fn bind(self) -> Result<Bound, ServeError> {
        let (listener, address) = self.listen.bind()?;
        let tls = self.tls.map(|tls| tls.load(self.http2)).transpose()?;
        let (tls, certificates) = tls.map(|(config, certificates)| (TlsAcceptor::from(config), certificates)).unzip();
        let (limits, shutdown_timeout) = (self.limits, self.shutdown_timeout);
        Ok(Bound { listener, address, limits, tls, certificates, shutdown_timeout })
    }
}

impl Listen {
    fn bind(self) -> Result<(std::net::TcpListener, SocketAddr), ServeError> {
        let (address, listener) = match self {
            Self::At(address) => (address, bind(address)),
            Self::AllInterfaces(port) => {
                let address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
                // A kernel without IPv6 has no such socket.
                let listener = match bind(address) {
                    Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                        bind((Ipv4Addr::UNSPECIFIED, port).into())
                    }
                    bound => bound,
                };
                (address, listener)
            }
        };
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local, listener) = bound.map_err(|source| ServeError::Listen { address, source })?;
        Ok((listener, local))
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A server that is started again gets its port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A server that listens.
#[must_use = "a server answers when it runs"]
pub struct Bound {
    listener: std::net::TcpListener,
    address: SocketAddr,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    certificates: Option<Certificates>,
    shutdown_timeout: Duration,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests with the handlers of `router` until `stop` ends, and then those that are
    /// under way.
    pub async fn run(self, router: Router, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let address = self.address;
        let listener = TcpListener::from_std(self.listener).map_err(|source| ServeError::Listen { address, source })?;
        let connections = Connections::new(self.limits.connections);
        let shared = Arc::new(Shared { router, limits: self.limits, tls: self.tls });
        let (stopper, stopping) = watch::channel(());
        let mut open = JoinSet::new();
        let serving = async {
            loop {
                let accepted = listener.accept().await;
                // Forgets the connections that have ended.
                while open.try_join_next().is_some() {}
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let Some(slot) = connections.enter() else { continue };
                open.spawn(Arc::clone(&shared).run(stream, slot, Stopping(stopping.clone())));
            }
        };
        let reloading = async {
            match &self.certificates {
                Some(certificates) => certificates.reload().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = reloading => {}
            () = serving => {}
        }
        drop((listener, stopper));
        let ended = async { while open.join_next().await.is_some() {} };
        // The set cuts off what is left when it is dropped.
        let _ = tokio::time::timeout(self.shutdown_timeout, ended).await;
        Ok(())
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Not an address.
    #[error("invalid address {address:?}: expected :PORT for all interfaces, or IP:PORT")]
    InvalidAddress {
        /// The text.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate {file}: {problem}")]
    Certificate {
        /// The file, or "in memory".
        file: String,
        /// Why.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubebuilder_s_flags_have_them() {
        assert_eq!(":8081".parse::<Listen>().unwrap(), Listen::AllInterfaces(8081));
        assert_eq!("localhost:0".parse::<Listen>().unwrap(), Listen::loopback(0));
        assert_eq!("[::1]:80".parse::<Listen>().unwrap(), Listen::At("[::1]:80".parse().unwrap()));
        for wrong in ["", "0", "8081", ":", ":99999", "example.org:80"] {
            let error = wrong.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("expected :PORT"), "{error}");
        }
    }
}
