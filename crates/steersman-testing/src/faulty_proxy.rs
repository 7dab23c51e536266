use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A TCP proxy in front of any server, such as a [`RealServer`](crate::RealServer), that cuts
/// connections on command.
///
/// It forwards bytes and does not read them, so TLS passes through it. The certificates of
/// [`RealServer`](crate::RealServer) and of `steersman apiserver` are valid for its address. For
/// faults of single requests to an [`Embedded`](crate::Embedded) server, and for paused time, use
/// [`FaultyNetwork`](crate::FaultyNetwork).
#[derive(Debug)]
pub struct FaultyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// None while it is closed.
    traffic: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// The number of orders to cut, and the bytes that each client still receives.
    cut: watch::Sender<(u64, usize)>,
    connections_cut: AtomicUsize,
    limits: Vec<Option<usize>>,
}

impl FaultyProxy {
    /// Listens on a free port of the loopback interface.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        Self::with_limits(server, []).await
    }

    /// Listens on a free port, and cuts connections after these numbers of bytes in one direction,
    /// in turn. `None` is a connection without a limit.
    pub async fn with_limits(server: SocketAddr, limits: impl IntoIterator<Item = Option<usize>>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (cut, connections_cut) = (watch::Sender::default(), AtomicUsize::default());
        let shared = Arc::new(Shared { server, cut, connections_cut, limits: limits.into_iter().collect() });
        let traffic = Mutex::new(Some(tokio::spawn(Arc::clone(&shared).accept(listener))));
        Ok(Self { address, shared, traffic })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every open connection after this number of further bytes to its client. With 0 it cuts
    /// at once.
    pub fn cut_after(&self, bytes: usize) {
        self.shared.cut.send_modify(|cut| *cut = (cut.0 + 1, bytes));
    }

    /// How many connections have been cut after a number of bytes.
    pub fn connections_cut(&self) -> usize {
        self.shared.connections_cut.load(Ordering::Relaxed)
    }

    /// Cuts every connection and refuses new ones, as if the server was down.
    pub async fn close(&self) {
        let traffic = self.traffic().take();
        if let Some(traffic) = traffic {
            traffic.abort();
            // The port is closed when the task has ended.
            let _ = traffic.await;
        }
    }

    /// Accepts connections again after [`close`](Self::close), at the same address.
    pub async fn open(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let traffic = tokio::spawn(Arc::clone(&self.shared).accept(listener));
        *self.traffic() = Some(traffic);
        Ok(())
    }

    fn traffic(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        if let Some(traffic) = self.traffic().take() {
            traffic.abort();
        }
    }
}

impl Shared {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        // The connections are cut when this task ends.
        let mut connections = JoinSet::new();
        let mut limits = self.limits.iter().copied().cycle();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((client, _)) = listener.accept().await else { continue };
            let limit = limits.next().flatten().unwrap_or(usize::MAX);
            let (shared, cut) = (Arc::clone(&self), self.cut.subscribe());
            connections.spawn(async move {
                let Ok(server) = TcpStream::connect(shared.server).await else { return };
                if forward(client, server, limit, cut).await {
                    shared.connections_cut.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
}

/// Forwards bytes in both directions. Returns whether the connection was cut.
async fn forward(client: TcpStream, server: TcpStream, limit: usize, cut: watch::Receiver<(u64, usize)>) -> bool {
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        biased;
        cut = carry(from_server, to_client, limit, Some(cut)) => cut,
        cut = carry(from_client, to_server, limit, None) => cut,
    }
}

/// Forwards bytes in one direction, until the limit is reached, which an order to cut lowers.
/// Returns whether it was reached.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    limit: usize,
    mut cut: Option<watch::Receiver<(u64, usize)>>,
) -> bool {
    let (mut buffer, mut left) = ([0; 4096], limit);
    while left > 0 {
        tokio::select! {
            biased;
            bytes = ordered(&mut cut) => left = left.min(bytes),
            read = from.read(&mut buffer) => match read {
                Ok(length) if length > 0 => {
                    let length = length.min(left);
                    left -= length;
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return false;
                    }
                }
                _ => return false,
            },
        }
    }
    true
}

/// The number of bytes of the next order to cut.
async fn ordered(cut: &mut Option<watch::Receiver<(u64, usize)>>) -> usize {
    if let Some(cut) = cut
        && cut.changed().await.is_ok()
    {
        return cut.borrow_and_update().1;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it reads.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        address
    }

    async fn connect(proxy: &FaultyProxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        stream
    }

    /// What arrives until the connection ends.
    async fn rest(mut stream: TcpStream) -> usize {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes.len()
    }

    #[tokio::test]
    async fn open_connections_are_cut_after_the_ordered_number_of_bytes() {
        let proxy = FaultyProxy::start(echo().await).await.unwrap();
        let (mut one, two) = (connect(&proxy).await, connect(&proxy).await);
        proxy.cut_after(10);
        one.write_all(&[7; 100]).await.unwrap();
        assert_eq!(rest(one).await, 10);
        proxy.cut_after(0);
        assert_eq!(rest(two).await, 0);
        assert_eq!(proxy.connections_cut(), 2);
        connect(&proxy).await;
    }

    #[tokio::test]
    async fn limits_hold_for_connections_in_turn() {
        let proxy = FaultyProxy::with_limits(echo().await, [Some(6), None]).await.unwrap();
        for limited in [true, false, true] {
            let mut stream = connect(&proxy).await;
            stream.write_all(b"four").await.unwrap();
            assert_eq!(stream.read_exact(&mut [0; 4]).await.is_err(), limited);
        }
    }

    #[tokio::test]
    async fn a_closed_proxy_cuts_and_refuses_until_it_is_opened() {
        let proxy = FaultyProxy::start(echo().await).await.unwrap();
        let stream = connect(&proxy).await;
        proxy.close().await;
        assert_eq!(rest(stream).await, 0);
        assert!(TcpStream::connect(proxy.address()).await.is_err());
        proxy.open().await.unwrap();
        connect(&proxy).await;
        proxy.close().await;
        proxy.close().await;
    }
}
