//! Servers on loopback sockets that say what they are told to, byte by byte.

use std::net::SocketAddr;

use steersman_client::{Client, ClientBuilder, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::no_timeouts;

/// What a server does after it has read a request.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// It says that, and listens for the next request.
    Say(&'static str),
    /// It says that, and then nothing, but keeps the connection.
    Hang(&'static str),
    /// It says that and closes the connection.
    Close(&'static str),
    /// It drops the connection with a reset.
    Reset,
}

/// A server that does one thing after each request, and the last for ever.
pub struct Loopback {
    pub address: SocketAddr,
    requests: UnboundedReceiver<String>,
}

impl Loopback {
    pub async fn start(script: &'static [Then]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, requests) = unbounded_channel();
        tokio::spawn(async move {
            let mut script = script.iter().copied().peekable();
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                while let Some(request) = read_request(&mut stream).await {
                    let then = script.next().unwrap_or(*script_last(&mut script, Then::Reset));
                    let _ = tell.send(request);
                    match then {
                        Then::Say(text) => stream.write_all(text.as_bytes()).await.unwrap(),
                        Then::Close(text) => {
                            stream.write_all(text.as_bytes()).await.unwrap();
                            break;
                        }
                        Then::Hang(text) => {
                            stream.write_all(text.as_bytes()).await.unwrap();
                            kept.push(stream);
                            break;
                        }
                        Then::Reset => {
                            stream.set_zero_linger().unwrap();
                            break;
                        }
                    }
                }
            }
        });
        Self { address, requests }
    }
}
