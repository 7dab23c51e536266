//! Connections through a proxy.

use std::net::SocketAddr;

use steersman_client::{Client, Config, Error};
use steersman_testing::Log;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::loopback::{Loopback, Then, header, read_head};
use super::{MAP, no_timeouts};

/// A name that the proxy alone can resolve, so that every request goes through it.
const NAME: &str = "server.invalid";

fn config(proxy: &str) -> Config {
    let mut config = Config::new(format!("http://{NAME}:8001").parse().unwrap());
    config.proxy_url = Some(proxy.parse().unwrap());
    config
}

fn client(proxy: &str) -> Client {
    Client::builder(config(proxy)).timeouts(no_timeouts()).build().unwrap()
}

async fn version(client: &Client) -> Result<(), Error> {
    client.rest().get().abs_path("/version").send().await.map(drop)
}

/// A proxy that connects every CONNECT with `server`, or refuses it with `refusal`.
async fn http_proxy(server: SocketAddr, refusal: Option<&'static str>) -> (SocketAddr, Log<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Log::new());
    let heads = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            heads.push(read_head(&mut stream).await.unwrap());
            if let Some(refusal) = refusal {
                stream.write_all(refusal.as_bytes()).await.unwrap();
                continue;
            }
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            join(stream, server);
        }
    });
    (address, seen)
}

/// Copies everything between a stream and a server.
fn join(mut stream: TcpStream, server: SocketAddr) {
    tokio::spawn(async move {
        let mut other = TcpStream::connect(server).await.unwrap();
        // Ends when one side closes.
        let _ = copy_bidirectional(&mut stream, &mut other).await;
    });
}

#[tokio::test]
async fn an_http_proxy_is_asked_to_connect() {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let (proxy, seen) = http_proxy(server.address, None).await;
    version(&client(&format!("http://{proxy}"))).await.unwrap();
    let request = server.request().await;
    assert!(request.starts_with("GET /version HTTP/1.1"), "the server sees a request as ever: {request}");
    assert_eq!(header(&request, "host"), Some("server.invalid:8001"));
    let heads = seen.all();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].starts_with("CONNECT server.invalid:8001 HTTP/1.1\r\n"), "{}", heads[0]);
    assert_eq!(header(&heads[0], "proxy-authorization"), None);
}

#[tokio::test]
async fn an_http_proxy_gets_the_credentials_and_the_server_does_not() {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let (proxy, seen) = http_proxy(server.address, None).await;
    version(&client(&format!("http://user:p%40ss@{proxy}"))).await.unwrap();
    assert_eq!(header(&seen.all()[0], "proxy-authorization"), Some("Basic dXNlcjpwQHNz"));
    assert_eq!(header(&server.request().await, "proxy-authorization"), None);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_an_error() {
    let server = Loopback::start([Then::json(MAP)]).await;
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
    let (proxy, _) = http_proxy(server.address, Some(refusal)).await;
    let error = version(&client(&format!("http://user:hidden@{proxy}"))).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(matches!(error, Error::Transport { .. }), "{text}");
    assert!(text.contains("GET http://server.invalid:8001/version"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
    assert_eq!(server.more(), 0);
}

/// A SOCKS5 proxy that records the target and the credentials of each request.
async fn socks_proxy(server: SocketAddr, wants_password: bool) -> (SocketAddr, Log<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Log::new());
    let asked = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            asked.push(socks_handshake(&mut stream, wants_password).await.unwrap());
            join(stream, server);
        }
    });
    (address, seen)
}

async fn read_text(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut text = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8(text).unwrap())
}

async fn socks_handshake(stream: &mut TcpStream, wants_password: bool) -> std::io::Result<String> {
    assert_eq!(stream.read_u8().await?, 5, "the version");
    let mut methods = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut methods).await?;
    let method = if wants_password { 2 } else { 0 };
    assert!(methods.contains(&method), "{methods:?}");
    stream.write_all(&[5, method]).await?;
    let mut asked = String::new();
    if wants_password {
        assert_eq!(stream.read_u8().await?, 1, "the version of this part");
        asked = format!("{}/{}@", read_text(stream).await?, read_text(stream).await?);
        stream.write_all(&[1, 0]).await?;
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    assert_eq!(request, [5, 1, 0, 3], "to connect, by name");
    asked += &read_text(stream).await?;
    let port = stream.read_u16().await?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(format!("{asked}:{port}"))
}

#[tokio::test]
async fn a_socks_proxy_is_asked_to_connect_by_name() {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let (proxy, seen) = socks_proxy(server.address, false).await;
    version(&client(&format!("socks5://{proxy}"))).await.unwrap();
    assert!(server.request().await.starts_with("GET /version HTTP/1.1"));
    assert_eq!(seen.all(), ["server.invalid:8001"]);
}

#[tokio::test]
async fn a_socks_proxy_gets_the_credentials() {
    let server = Loopback::start([Then::json(MAP)]).await;
    let (proxy, seen) = socks_proxy(server.address, true).await;
    version(&client(&format!("socks5://user:p%40ss@{proxy}"))).await.unwrap();
    assert_eq!(seen.all(), ["user/p@ss@server.invalid:8001"]);
}

#[test]
fn other_proxies_are_refused_without_their_password() {
    let error = Client::builder(config("ftp://user:hidden@proxy.test:1")).build().unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("proxy.test") && text.contains("socks5"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
}
