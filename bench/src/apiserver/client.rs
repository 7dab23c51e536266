//! The client of the load: plain requests over HTTP/2 and TLS, or directly into a server in this
//! process.

use std::io::Read;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_client::Config;
use kube_client::client::ConfigExt;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use steersman_apiserver::ApiServer;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::Service;

/// Large enough that no server waits for a window update.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

pub(super) type RequestBody = Full<Bytes>;
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, anyhow::Error>;

/// A request without a body.
pub(super) fn get(path: &str) -> Request<RequestBody> {
    Request::get(path).body(Full::default()).expect("paths here are valid")
}

/// A request with a JSON body.
pub(super) fn post(path: &str, body: Bytes) -> Request<RequestBody> {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    request.body(Full::new(body)).expect("paths here are valid")
}

/// A server-side apply of a JSON body.
pub(super) fn apply(path: &str, body: Bytes) -> Request<RequestBody> {
    let request = Request::patch(path).header(CONTENT_TYPE, "application/apply-patch+yaml");
    request.body(Full::new(body)).expect("paths here are valid")
}

/// A connection to a server.
#[derive(Clone)]
pub(super) enum Client {
    Connection(SendRequest<RequestBody>, Arc<str>),
    InProcess(ApiServer),
}

impl Client {
    /// A new connection.
    pub(super) async fn connect(config: &Config) -> Result<Self> {
        let mut tls: ClientConfig = config.rustls_client_config().context("reading the kubeconfig's credentials")?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let address = config.cluster_url.authority().context("the server's address has no host")?.as_str();
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(config.cluster_url.host().unwrap_or_default().to_owned())?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.context("the TLS handshake")?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .context("the HTTP/2 handshake")?;
        // Pending requests notice the end of the connection by themselves.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self::Connection(sender, address.into()))
    }

    /// Sends a request and returns the response as soon as it begins.
    pub(super) async fn send(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>> {
        match self {
            Self::Connection(sender, address) => {
                let mut request = request;
                let uri = format!("https://{address}{}", request.uri());
                *request.uri_mut() = uri.parse().context("the request's address")?;
                request.headers_mut().remove(HOST);
                let answer = sender.clone().send_request(request).await.context("sending a request")?;
                Ok(answer.map(|body| body.map_err(anyhow::Error::new).boxed_unsync()))
            }
            Self::InProcess(server) => {
                let Ok(answer) = server.clone().call(request).await;
                Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
            }
        }
    }

    /// Sends a request and reads the whole response.
    pub(super) async fn whole(&self, request: Request<RequestBody>) -> Result<Answer> {
        let (head, mut body) = self.send(request).await?.into_parts();
        let gzip = head.headers.get(CONTENT_ENCODING) == Some(&HeaderValue::from_static("gzip"));
        let mut chunks = Vec::new();
        while let Some(frame) = body.frame().await {
            chunks.extend(frame.context("reading an answer")?.into_data());
        }
        Ok(Answer { status: head.status, gzip, chunks })
    }

    /// Sends a request and reads the response, which must be a success, as JSON.
    pub(super) async fn json(&self, request: Request<RequestBody>) -> Result<Value> {
        let answer = self.whole(request).await?;
        ensure!(answer.status == StatusCode::OK, "answered with {}: {}", answer.status, answer.start());
        serde_json::from_slice(&answer.text()?).context("the answer is no JSON")
    }
}

/// Several connections to one server.
pub(super) struct Clients(pub(super) Vec<Client>);

impl Clients {
    /// The connection for this user; users are spread over all of them.
    pub(super) fn one(&self, user: usize) -> Client {
        self.0[user % self.0.len()].clone()
    }
}

/// A whole response.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    gzip: bool,
    chunks: Vec<Bytes>,
}

/// The counted part of a list.
#[derive(Deserialize)]
struct List {
    items: Vec<IgnoredAny>,
}

impl Answer {
    /// How many bytes came.
    pub(super) fn length(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    fn text(&self) -> Result<Vec<u8>> {
        let bytes = self.chunks.concat();
        if !self.gzip {
            return Ok(bytes);
        }
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut text).context("the answer is no gzip")?;
        Ok(text)
    }

    /// The beginning, for errors.
    pub(super) fn start(&self) -> String {
        let text = self.text().unwrap_or_default();
        String::from_utf8_lossy(&text[..text.len().min(500)]).into_owned()
    }

    /// The number of items of the list in it.
    pub(super) fn items(&self) -> Result<u64> {
        let list: List = serde_json::from_slice(&self.text()?).context("the answer is no list")?;
        Ok(list.items.len() as u64)
    }
}
