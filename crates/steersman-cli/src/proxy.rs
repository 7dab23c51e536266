//! `steersman proxy`: plain HTTP on loopback, forwarded to an API server with the credentials of a
//! kubeconfig, as `kubectl proxy` does. So curl can talk to the API server.
//!
//! Every local process that can connect to the port uses those credentials. Web pages must not: the
//! proxy listens on loopback only and refuses requests for other host names (DNS rebinding) and
//! from pages of other origins. The rules are in `rules.rs`; docs/security.md states what they do
//! not cover.

mod body;
mod refusal;
mod rules;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::uri::PathAndQuery;
use http::{Request, Response, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube_client::client::Body;
use steersman_client::{Client, config_from_flags};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::interrupt::Interrupt;
use refusal::Refusal;

/// Further connections wait until one ends.
const CONNECTIONS_MAX: usize = 256;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept, which fails when the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The API server, and the port to listen on. The proxy listens on 127.0.0.1 only.
#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Port to listen on; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 8001)]
    port: u16,
    /// Kubeconfig of the server; default: KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Address of the server; default: the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,
}

/// Forwards until the process is interrupted.
///
/// A credential plugin of the kubeconfig blocks the thread that runs it, for as long as it likes.
/// So signals have a thread and a runtime of their own, and the end of the process waits for no
/// plugin.
pub(crate) fn run(args: &Args) -> Result<()> {
    let signals = tokio::runtime::Builder::new_current_thread().enable_io().build().context("cannot start")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let result = signals.block_on(async {
        let mut interrupt = Interrupt::listen().context("cannot listen for signals")?;
        let serving = runtime.spawn(serve(args.clone()));
        tokio::select! {
            biased;
            () = interrupt.wait() => Ok(()),
            served = serving => match served.context("the proxy failed")?? {},
        }
    });
    runtime.shutdown_background();
    result
}

async fn serve(args: Args) -> Result<Infallible> {
    let client = client(&args).await.map_err(|error| anyhow!("{error}"))?;
    let server = client.server().to_owned();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).await.map_err(|error| explain(error, args.port))?;
    print_ready(listener.local_addr()?, &server).context("cannot print that the proxy is ready")?;
    let forwarder = Arc::new(Forwarder { client: client.into(), server });
    Ok(accept(listener, forwarder).await)
}

async fn client(args: &Args) -> Result<Client, steersman_client::Error> {
    let config = config_from_flags(args.master.as_deref(), args.kubeconfig.as_deref()).await?;
    // The proxy sends each request once. The client decides about retries.
    Client::builder(config).retries(0).build()
}

fn explain(error: io::Error, port: u16) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("port {port} is already in use: use --port with another number, or --port 0 for a free port")
        }
        io::ErrorKind::PermissionDenied => {
            format!("no permission to listen on port {port}: use --port with a number above 1023")
        }
        _ => format!("cannot listen on port {port}"),
    };
    anyhow::Error::new(error).context(advice)
}

fn print_ready(address: SocketAddr, server: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "ready: http://{address}")?;
    writeln!(stdout, "Requests go to {server} with your credentials. Try:")?;
    writeln!(stdout, "  curl http://{address}/api/v1/namespaces/default/pods")?;
    stdout.flush()
}

async fn accept(listener: TcpListener, forwarder: Arc<Forwarder>) -> Infallible {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Sends each event of a watch at once.
        let _ = stream.set_nodelay(true);
        let forwarder = Arc::clone(&forwarder);
        tokio::spawn(async move {
            forwarder.connection(stream).await;
            drop(permit);
        });
    }
}

/// Forwards requests to the server.
struct Forwarder {
    client: kube_client::Client,
    server: String,
}

/// The server's response as it arrives, or the proxy's own.
type ProxyResponse = Response<Either<Body, Full<Bytes>>>;

impl Forwarder {
    async fn connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.respond(request).await) });
        // The peer has closed the connection: there is no one left to report an error to.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn respond(&self, request: Request<Incoming>) -> ProxyResponse {
        let response = match rules::check(&request) {
            Ok(()) => self.forward(request).await,
            Err(refusal) => Err(refusal),
        };
        response.unwrap_or_else(|refusal| refusal.response().map(Either::Right))
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<ProxyResponse, Refusal> {
        let (mut parts, body) = request.into_parts();
        let mut forwarded = Request::new(Body::from(body::collect(body).await?));
        *forwarded.method_mut() = parts.method;
        // Without the host: it is the proxy's own.
        let path = parts.uri.path_and_query().cloned();
        *forwarded.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
        remove_connection_headers(&mut parts.headers);
        // The kubeconfig has the credentials.
        for name in [header::HOST, header::CONTENT_LENGTH, header::AUTHORIZATION] {
            parts.headers.remove(name);
        }
        *forwarded.headers_mut() = parts.headers;

        let response = self.client.send(forwarded).await;
        let (mut parts, body) = response.map_err(|error| Refusal::no_response(&self.server, &error))?.into_parts();
        remove_connection_headers(&mut parts.headers);
        parts.version = Version::HTTP_11;
        Ok(Response::from_parts(parts, Either::Left(body)))
    }
}

/// Removes the headers that concern one connection only (RFC 9110, 7.6.1).
fn remove_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    /// The response to a request whose body comes in `parts`, one a second, and the time it took.
    /// The body is never complete, so the proxy does not contact the server.
    async fn answer(parts: impl IntoIterator<Item = Vec<u8>>) -> (String, Duration) {
        let config = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube_client::Client::try_from(config).unwrap();
        let forwarder = Forwarder { client, server: "http://127.0.0.1:1".to_owned() };
        let (near, far) = duplex(1 << 20);
        let connection = tokio::spawn(async move { forwarder.connection(far).await });
        let (mut answers, mut near) = tokio::io::split(near);
        let head = "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Content-Length: 10000000\r\n\r\n";
        let began = Instant::now();
        near.write_all(head.as_bytes()).await.unwrap();
        let parts: Vec<_> = parts.into_iter().collect();
        let sending = async {
            for part in parts {
                // The proxy may have closed the connection.
                let _ = near.write_all(&part).await;
                sleep(Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
        };
        let mut text = Vec::new();
        let receiving = timeout(Duration::from_secs(3600), answers.read_to_end(&mut text));
        tokio::select! {
            biased;
            () = sending => {},
            read = receiving => drop(read.expect("the connection stays open").unwrap()),
        }
        connection.await.unwrap();
        (String::from_utf8(text).unwrap(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_refused() {
        for parts in [vec![], vec![b"{\"metadata\"".to_vec()]] {
            let (answer, took) = answer(parts).await;
            assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("came too slowly"), "{answer}");
            assert_eq!(took.as_secs(), 30);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_refused() {
        let (answer, took) = answer((0..1000).map(|_| vec![b' '])).await;
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        assert_eq!(took.as_secs(), 30);
        // Half the required rate: the body has twice the time.
        let (answer, took) = self::answer((0..1000).map(|_| vec![b' '; 8 << 10])).await;
        assert!(answer.starts_with("HTTP/1.1 504 ") && (31..=60).contains(&took.as_secs()), "{took:?} {answer}");
    }
}
