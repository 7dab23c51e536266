//! The one connection that all clients share.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use kube_client::Config;
use kube_client::client::Body;
use kube_core::Status;
use kube_core::response::StatusDetails;
use serde::de::DeserializeOwned;
use steersman_wire::Encoding;
use tower::ServiceExt;

use crate::builder::{ClientBuilder, RESPONSE_BYTES_MAX, boxed};
use crate::conflict::{Backoff, retry_if};
use crate::discovery::Cache;
use crate::encoding::{Spoken, encoding_of};
use crate::error::{Asked, DecodeError, Error, TimeoutError, TransportError, chain};
use crate::layers::{AnswerBody, Transport};
use steersman_world::World;

/// A connection to an API server. Clones share it, and it is cheap to clone.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_client::{Client, ListParams};
///
/// # async fn example() -> Result<(), steersman_client::Error> {
/// let client = Client::from_environment().await?;
/// for pod in client.namespaced::<Pod>("default").list(&ListParams::default()).await?.items {
///     println!("{}", pod.metadata.name.unwrap_or_default());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # What happens to a request
///
/// It is repeated only when the server asks for that with `Retry-After`, or when it is a read and the connection was lost. A
/// delay above a minute, or beyond the request's own timeout, ends it at once with the server's answer. It
/// waits for its turn if there is a [rate limit](ClientBuilder::rate_limit), in its own future: no request waits behind another. It ends
/// with an error when the server is silent for longer than [`Timeouts`](crate::Timeouts) says, or when an answer that is collected is
/// longer than [`ClientBuilder::response_bytes_max`]. Answers to reads come
/// compressed, and objects of built-in kinds as [protobuf](ClientBuilder::protobuf). Every attempt is told to the [metrics](ClientBuilder::metrics), every warning to the
/// [handler](ClientBuilder::warnings).
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    server: Arc<str>,
    default_namespace: Arc<str>,
    /// What the server serves, for all clones.
    pub(crate) served: Arc<Cache>,
    response_bytes_max: usize,
    /// In which encoding it is spoken to, for all clones.
    pub(crate) spoken: Arc<Spoken>,
    world: World,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server)
            .field("default_namespace", &self.default_namespace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Sets up a client of the server that `config` describes.
    pub fn builder(config: Config) -> ClientBuilder {
        ClientBuilder::new(config)
    }

    /// A client as the environment says: `KUBECONFIG`, `~/.kube/config`, or the service account of this Pod.
    pub async fn from_environment() -> Result<Self, Error> {
        Self::builder(crate::config_from_environment().await?).build()
    }

    pub(crate) fn new(
        transport: Transport,
        server: &str,
        default_namespace: &str,
        protobuf: bool,
        response_bytes_max: usize,
    ) -> Self {
        Self {
            transport,
            server: server.trim_end_matches('/').into(),
            default_namespace: default_namespace.into(),
            served: Arc::default(),
            response_bytes_max,
            spoken: Arc::new(Spoken::new(protobuf)),
            world: World::system(),
        }
    }

    /// The same client with other clocks and other randomness.
    #[must_use]
    pub fn with_world(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// The clocks and the randomness of this client.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// As [`retry_on_conflict`](crate::retry_on_conflict), with delays from this client's world.
    pub async fn retry_on_conflict<T, F>(&self, backoff: Backoff, update: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        retry_if(&self.world, backoff, Error::is_conflict, update).await
    }

    /// The namespace of the configuration's context; `default` if it has none.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request as it is and returns the answer as it comes, whatever its code.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<AnswerBody>, Error> {
        let asked = self.asked(&request);
        let response = self.transport.clone().oneshot(request).await.map_err(|error| failure(asked, error))?;
        self.spoken.answered(encoding_of(response.headers()));
        Ok(response)
    }

    /// Sends a request and returns the answer as it comes, if it is one of success.
    pub(crate) async fn send_ok(&self, request: Request<Body>) -> Result<Response<AnswerBody>, Error> {
        let asked = self.asked(&request);
        let response = self.send(request).await?;
        match response.status() {
            status if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS => Ok(response),
            status if status.is_client_error() || status.is_server_error() => {
                let retry_after = response.headers().get(http::header::RETRY_AFTER);
                let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
                let retry_after = retry_after.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
                let (is_text, encoding) = (is_text(response.headers()), encoding_of(response.headers()));
                let body = collect_start(&asked, response.into_body(), REFUSAL_MAX).await?;
                // One that cannot be read is told of by its code.
                let body = encoding.object(&body).unwrap_or_default();
                Err(Error::Api { asked, status: Box::new(status_of(status, &body, is_text, retry_after)) })
            }
            status => Err(Error::Decode { asked, problem: DecodeError::Code(status) }),
        }
    }

    /// Sends a request and reads the whole answer, as JSON.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Result<Bytes, Error> {
        let asked = self.asked(&request);
        let response = self.send_ok(request).await?;
        let encoding = encoding_of(response.headers());
        let body = self.collect(&asked, response.into_body()).await?;
        as_json(&asked, encoding, body)
    }

    /// Sends a request and decodes the answer.
    pub(crate) async fn ask_for<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Error> {
        let asked = self.asked(&request);
        let body = self.ask(request).await?;
        decode(&asked, &body)
    }

    /// Reads a body to its end, within the limit of this client.
    pub(crate) async fn collect(&self, asked: &Asked, mut body: AnswerBody) -> Result<Bytes, Error> {
        let mut left = BytesLeft::new(self.response_bytes_max);
        left.announce(asked, body.size_hint().lower())?;
        let mut chunks = Vec::new();
        while let Some(chunk) = next_chunk(&mut body, asked).await? {
            left.take(asked, chunk.len())?;
            chunks.push(chunk);
        }
        Ok(match chunks.as_mut_slice() {
            [one] => std::mem::take(one),
            _ => chunks.concat().into(),
        })
    }

    /// How many bytes of an answer are collected.
    pub(crate) fn bytes_left(&self) -> BytesLeft {
        BytesLeft::new(self.response_bytes_max)
    }

    /// What a request asks, for errors.
    pub(crate) fn asked<B>(&self, request: &Request<B>) -> Asked {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        Asked { method: request.method().clone(), url: format!("{}{path}", self.server) }
    }
}

/// A client that was set up elsewhere. It keeps its own retries, timeouts and compression; of this crate's layers it has none.
/// A client that is to have them is made with [`Client::builder`].
impl From<kube_client::Client> for Client {
    fn from(client: kube_client::Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Self::new(boxed(service), "", &namespace, true, RESPONSE_BYTES_MAX)
    }
}

/// This connection, with all its layers, for whatever wants kube's client.
impl From<Client> for kube_client::Client {
    fn from(client: Client) -> Self {
        let namespace = client.default_namespace.to_string();
        Self::new(client.transport, namespace)
    }
}

/// Reads a body until it ends or `enough` bytes have come.
async fn collect_start(asked: &Asked, mut body: AnswerBody, enough: usize) -> Result<Bytes, Error> {
    let mut read = BytesMut::new();
    while read.len() < enough {
        let Some(chunk) = next_chunk(&mut body, asked).await? else { break };
        read.extend_from_slice(&chunk);
    }
    Ok(read.freeze())
}

/// The next chunk of a body.
pub(crate) async fn next_chunk(body: &mut AnswerBody, asked: &Asked) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure(asked.clone(), error))?;
        if let Ok(chunk) = frame.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// How many bytes an answer that is collected may still have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesLeft {
    limit: usize,
    left: usize,
}

impl BytesLeft {
    fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// The server has announced that many bytes.
    fn announce(&self, asked: &Asked, bytes: u64) -> Result<(), Error> {
        if bytes > self.limit as u64 { Err(self.exceeded(asked)) } else { Ok(()) }
    }

    /// That many bytes have come.
    pub(crate) fn take(&mut self, asked: &Asked, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.exceeded(asked))?;
        Ok(())
    }

    fn exceeded(&self, asked: &Asked) -> Error {
        Error::TooLarge { asked: asked.clone(), limit: self.limit }
    }
}

/// A body as JSON.
pub(crate) fn as_json(asked: &Asked, encoding: Encoding, body: Bytes) -> Result<Bytes, Error> {
    match encoding.object(&body) {
        Ok(Cow::Borrowed(_)) => Ok(body),
        Ok(Cow::Owned(json)) => Ok(json.into()),
        Err(error) => Err(Error::Object { asked: asked.clone(), error: Box::new(error) }),
    }
}

/// Decodes a body, without a word of it in the error.
pub(crate) fn decode<T: DeserializeOwned>(asked: &Asked, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::Decode { asked: asked.clone(), problem: DecodeError::json::<T>(&error) })
}

/// What a failure below means.
pub(crate) fn failure(asked: Asked, error: tower::BoxError) -> Error {
    let timeout = chain(&*error).find_map(|error| error.downcast_ref::<TimeoutError>().copied());
    match timeout {
        Some(timeout) => Error::Timeout { asked, timeout },
        None => Error::Transport { asked, source: TransportError(error) },
    }
}

/// Of a refusal that is longer, only the beginning is read. A Status has a few kilobytes.
const REFUSAL_MAX: usize = 1 << 20;
/// The longest text that an error takes over from an answer that is no Status.
const TEXT_MAX: usize = 512;

/// Whether an answer says of itself that it is for people, or nothing at all.
fn is_text(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    media_type.is_none_or(|media_type| media_type.starts_with("text/"))
}

/// The server's own Status or, when something else answered, one that says so. Either holds the delay of the answer's head.
fn status_of(code: StatusCode, body: &[u8], is_text: bool, retry_after: Option<u32>) -> Status {
    let own = serde_json::from_slice::<Status>(body).ok().filter(Status::is_failure);
    let mut status = own.unwrap_or_else(|| {
        // Proxies and authenticators answer in plain text. What may be an object is not shown.
        let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_MAX)]);
        let text = text.trim();
        let shown = if !is_text || text.starts_with(['{', '[', '"']) { "" } else { text };
        Status::failure(shown, reason_of(code))
    });
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if let Some(seconds) = retry_after {
        let details = status.details.get_or_insert_with(|| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = seconds;
        }
    }
    status
}

/// The reason that an API server gives with a code.
fn reason_of(code: StatusCode) -> &'static str {
    match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}
