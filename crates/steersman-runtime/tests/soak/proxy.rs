//! A network between client and server that cuts connections at arbitrary points.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How many bytes connections carry in each direction before they are cut, in turn. None: all.
const CUT_AFTER: [Option<usize>; 5] = [None, Some(300_000), Some(20_000), None, Some(5_000)];

pub(crate) struct Proxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            for cut in CUT_AFTER.into_iter().cycle() {
                while open.try_join_next().is_some() {}
                let Ok((client, _)) = listener.accept().await else { continue };
                open.spawn(async move {
                    let Ok(server) = TcpStream::connect(to).await else { return };
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    tokio::select! {
                        () = carry(from_client, to_server, cut) => {}
                        () = carry(from_server, to_client, cut) => {}
                    }
                });
            }
        });
        Self { address, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut_after: Option<usize>) {
    let (mut buffer, mut carried) = (vec![0; 4096], 0);
    while cut_after.is_none_or(|limit| carried < limit) {
        match from.read(&mut buffer).await {
            Ok(read) if read > 0 && to.write_all(&buffer[..read]).await.is_ok() => carried += read,
            _ => return,
        }
    }
}
