//! Servers on loopback sockets with scripted bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steersman_client::{Client, ClientBuilder, Config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::no_timeouts;

/// What a server does after it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    /// Sends these bytes, and reads the next request.
    Say(Vec<u8>),
    /// Sends these bytes, and keeps the connection open.
    Hang(Vec<u8>),
    /// Sends these bytes and closes the connection.
    Close(Vec<u8>),
    /// Resets the connection.
    Reset,
}

impl Then {
    pub(crate) fn hang(text: &str) -> Self {
        Self::Hang(text.into())
    }

    pub(crate) fn close(text: &str) -> Self {
        Self::Close(text.into())
    }

    /// A response with a JSON body.
    pub(crate) fn json(body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        Self::Say((head + body).into())
    }
}

/// A server that does one step after each request, and repeats the last.
pub(crate) struct Loopback {
    pub(crate) address: SocketAddr,
    requests: UnboundedReceiver<String>,
}

impl Loopback {
    pub(crate) async fn start(script: impl Into<Vec<Then>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, requests) = unbounded_channel();
        let (script, next) = (Arc::new(script.into()), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), next.clone(), tell.clone()));
            }
        });
        Self { address, requests }
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder(self.config())
    }

    /// A client of the server without timeouts.
    pub(crate) fn without_timeouts(&self) -> Client {
        self.client().timeouts(no_timeouts()).build().unwrap()
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    /// Waits for the head and the body of the next request.
    pub(crate) async fn request(&mut self) -> String {
        self.requests.recv().await.unwrap()
    }

    /// How many further requests have come.
    pub(crate) fn more(&self) -> usize {
        self.requests.len()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Vec<Then>>, next: Arc<AtomicUsize>, tell: UnboundedSender<String>) {
    while let Some(request) = read_request(&mut stream).await {
        let at = next.fetch_add(1, Ordering::SeqCst).min(script.len() - 1);
        // The test may have ended.
        let _ = tell.send(request);
        match &script[at] {
            Then::Say(text) => stream.write_all(text).await.unwrap(),
            Then::Close(text) => return stream.write_all(text).await.unwrap(),
            Then::Hang(text) => {
                stream.write_all(text).await.unwrap();
                return std::future::pending().await;
            }
            Then::Reset => return stream.set_zero_linger().unwrap(),
        }
    }
}

/// The head of a message, including the empty line. `None` at the end of the stream.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let head = read_head(stream).await?;
    let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// A header of a request that was read.
pub(crate) fn header<'r>(request: &'r str, name: &str) -> Option<&'r str> {
    let mut lines = request.lines().skip(1).take_while(|line| !line.is_empty());
    lines.find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}
