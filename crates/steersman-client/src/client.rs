//! The client handle: one connection that all kinds of clients share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kube_client::Config;
use kube_client::client::Body;
use serde::de::DeserializeOwned;
use steersman_world::World;
use tower::ServiceExt;
use tracing::Instrument;

use crate::api::{Backoff, ProtobufSupport, retry_if};
use crate::builder::{ClientBuilder, RESPONSE_BYTES_MAX};
use crate::discovery::DiscoveryCache;
use crate::error::{Error, RequestInfo, ResponseError};
use crate::layers::gate::{Gate, GateClock, WriteGate};
use crate::layers::headers::UserAgentSuffix;
use crate::layers::observe::{Observe, ObservedBy, Observers, RequestMetrics};
use crate::layers::rate_limit::Unlimited;
use crate::layers::retry::SentOnce;
use crate::layers::timeouts::Deadline;
use crate::layers::warning::NoWarnings;
use crate::layers::write_check::{WriteAction, WriteCheck};
use crate::layers::{ResponseBody, Transport};
use crate::offline::Refused;
use crate::response::{self, BodyLimit};
use crate::trace::{self, TraceContext};
use crate::transport::{self, Lookups};

/// A connection to an API server. Clones share it and are cheap.
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
/// # The life of a request
///
/// - **Retries.** The client sends a request again only if the server asks for it with
///   `Retry-After`, or if it is a read whose connection was lost. A delay above a minute, or beyond
///   the request's own timeout, ends the request at once with the server's response.
/// - **Rate limit.** If there is a [rate limit](ClientBuilder::rate_limit), each request waits in
///   its own future. No request waits behind another.
/// - **Timeouts.** A request fails if the server is silent for longer than
///   [`Timeouts`](crate::Timeouts) allows, or if a collected response is longer than
///   [`ClientBuilder::response_bytes_max`].
/// - **Encoding.** Responses to reads come compressed, and objects of built-in kinds as
///   [protobuf](ClientBuilder::protobuf).
/// - **Observation.** Each attempt is reported to the [metrics](ClientBuilder::metrics), each
///   warning to the [handler](ClientBuilder::warnings).
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    server: Arc<str>,
    default_namespace: Arc<str>,
    pub(crate) discovery_cache: Arc<DiscoveryCache>,
    response_bytes_max: usize,
    pub(crate) protobuf: Arc<ProtobufSupport>,
    world: World,
    lookups: Lookups,
    /// Of an offline client.
    refused: Option<Refused>,
    options: RequestOptions,
}

/// What this handle adds to each of its requests. Other clones of the client do not share it.
#[derive(Clone, Default)]
struct RequestOptions {
    gate: Option<WriteGate>,
    write_check: Option<WriteCheck>,
    metrics: Option<ObservedBy>,
    timeout: Option<Duration>,
    sent_once: bool,
    unlimited: bool,
    trace: Option<Arc<dyn TraceContext>>,
    user_agent_suffix: Option<&'static str>,
}

impl RequestOptions {
    fn apply(&self, request: &mut Request<Body>, world: &World) {
        if let Some(gate) = &self.gate {
            request.extensions_mut().insert(GateClock(world.clone()));
            request.extensions_mut().insert(gate.clone());
        }
        if let Some(metrics) = &self.metrics {
            request.extensions_mut().insert(metrics.clone());
        }
        if let Some(limit) = self.timeout {
            request.extensions_mut().insert(Deadline::new(limit));
        }
        if self.sent_once {
            request.extensions_mut().insert(SentOnce);
        }
        if self.unlimited {
            request.extensions_mut().insert(Unlimited);
        }
        if let Some(suffix) = self.user_agent_suffix {
            request.extensions_mut().insert(UserAgentSuffix(suffix));
        }
    }
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
    /// Builds a client of the server that `config` describes.
    pub fn builder(config: Config) -> ClientBuilder {
        ClientBuilder::new(config)
    }

    /// A client with the configuration of the environment: `KUBECONFIG`, `~/.kube/config`, or the
    /// service account of this Pod. See
    /// [`config_from_environment`](crate::config_from_environment).
    pub async fn from_environment() -> Result<Self, Error> {
        Self::builder(crate::config_from_environment().await?).build()
    }

    /// A client without a server: every request fails with [`Error::Offline`] and is not sent. For
    /// code that sets up a program and sends nothing, such as one that prints manifests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use steersman_client::Client;
    ///
    /// let client = Client::offline();
    /// let error = client.namespaced::<Pod>("shop").get("web").await.unwrap_err();
    /// assert_eq!(error.to_string(), "GET /api/v1/namespaces/shop/pods/web: not sent, because the client is offline");
    /// // Also if the error was ignored:
    /// assert_eq!(client.refused_request().unwrap().url, "/api/v1/namespaces/shop/pods/web");
    /// # }
    /// ```
    pub fn offline() -> Self {
        let refused = Refused::default();
        let client = Self::new(refused.transport(), "", "default", true, RESPONSE_BYTES_MAX);
        Self { refused: Some(refused), ..client }
    }

    /// Whether this client is [offline](Self::offline).
    pub fn is_offline(&self) -> bool {
        self.refused.is_some()
    }

    /// The first request that an [offline](Self::offline) client or one of its clones refused.
    pub fn refused_request(&self) -> Option<RequestInfo> {
        self.refused.as_ref()?.first()
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
            discovery_cache: Arc::default(),
            response_bytes_max,
            protobuf: Arc::new(ProtobufSupport::new(protobuf)),
            world: World::system(),
            lookups: Lookups::default(),
            refused: None,
            options: RequestOptions::default(),
        }
    }

    pub(crate) fn with_lookups(self, lookups: Lookups) -> Self {
        Self { lookups, ..self }
    }

    /// The same client with other clocks and other randomness.
    #[must_use]
    pub fn with_world(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// The same client, whose writes pass `gate` before each attempt. A write at a closed gate, or
    /// one that takes longer than the gate allows, is [`Error::Gate`].
    #[must_use]
    pub fn with_write_gate(mut self, gate: WriteGate) -> Self {
        self.options.gate = Some(gate);
        self
    }

    /// The same client, which calls `check` before it sends a write of a resource. If the check
    /// returns an error, the write fails with [`Error::WriteRefused`] and that text.
    #[must_use]
    pub fn with_write_check(
        mut self,
        check: impl Fn(&WriteAction) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.options.write_check = Some(WriteCheck::new(check));
        self
    }

    /// The same client, which reports each attempt of its requests to `metrics` too, beside those
    /// of its [builder](ClientBuilder::metrics).
    #[must_use]
    pub fn with_request_metrics(mut self, metrics: Arc<dyn RequestMetrics>) -> Self {
        self.lookups.add(&metrics);
        self.options.metrics = Some(ObservedBy(metrics));
        self
    }

    /// The same client with a limit for each whole request: all attempts, the waits between them,
    /// and the response. A watch ends after it, too.
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// The same client, which sends each request once.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.options.sent_once = true;
        self
    }

    /// The same client, whose requests neither wait for the
    /// [rate limit](ClientBuilder::rate_limit) nor count towards it.
    #[must_use]
    pub fn without_rate_limit(mut self) -> Self {
        self.options.unlimited = true;
        self
    }

    /// The same client, whose requests carry the trace context of `context`.
    #[must_use]
    pub fn with_trace_context(mut self, context: impl TraceContext + 'static) -> Self {
        self.options.trace = Some(Arc::new(context));
        self
    }

    /// The same client, whose user agent ends with `/` and this suffix. The audit log of the server
    /// then shows which part of a program has sent a request.
    #[must_use]
    pub fn with_user_agent_suffix(mut self, suffix: &'static str) -> Self {
        self.options.user_agent_suffix = Some(suffix);
        self
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

    /// The namespace of the configuration's context. Default: `default`.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request and returns the response with any status code, body unread.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, Error> {
        let info = self.request_info(&request);
        if let Some(check) = &self.options.write_check
            && let Err(problem) = check.check(&request)
        {
            return Err(Error::WriteRefused { request: info, problem });
        }
        self.options.apply(&mut request, &self.world);
        let span = tracing::debug_span!("request", method = %info.method, url = info.url);
        span.in_scope(|| trace::inject(self.options.trace.as_deref(), &self.world, request.headers_mut()));
        let response = self.transport.clone().oneshot(request).instrument(span).await;
        let response = response.map_err(|error| response::transport_error(info, error))?;
        self.protobuf.observe(response::encoding_of(response.headers()));
        Ok(response)
    }

    /// Sends a request and returns a successful response, body unread.
    pub(crate) async fn send_ok(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Error> {
        let info = self.request_info(&request);
        let response = self.send(request).await?;
        match response.status() {
            status if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS => Ok(response),
            status if status.is_client_error() || status.is_server_error() => {
                let status = response::read_status(&info, response).await?;
                Err(Error::Api { request: info, status: Box::new(status) })
            }
            status => Err(Error::Decode { request: info, problem: ResponseError::Code(status) }),
        }
    }

    /// Sends a request and collects the response as JSON.
    pub(crate) async fn send_collect(&self, request: Request<Body>) -> Result<Bytes, Error> {
        let info = self.request_info(&request);
        let response = self.send_ok(request).await?;
        let encoding = response::encoding_of(response.headers());
        let body = self.body_limit().collect(&info, response.into_body()).await?;
        response::to_json(&info, encoding, body)
    }

    /// Sends a request and decodes the response.
    pub(crate) async fn send_decode<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Error> {
        let info = self.request_info(&request);
        let body = self.send_collect(request).await?;
        response::decode(&info, &body)
    }

    /// The limit of a response that is collected.
    pub(crate) fn body_limit(&self) -> BodyLimit {
        BodyLimit::new(self.response_bytes_max)
    }

    pub(crate) fn request_info<B>(&self, request: &Request<B>) -> RequestInfo {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        RequestInfo { method: request.method().clone(), url: format!("{}{path}", self.server) }
    }
}

/// Wraps a client of kube's. It keeps its own retries, timeouts and compression, and has none of
/// this crate's layers but that for metrics: [`Client::builder`] makes a client with them.
impl From<kube_client::Client> for Client {
    fn from(client: kube_client::Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        let inner = Gate { inner: transport::boxed(service) };
        let observers = Observers { metrics: None, host: "".into() };
        let service = Observe { inner, observers, warnings: Arc::new(NoWarnings) };
        Self::new(Transport::new(service), "", &namespace, true, RESPONSE_BYTES_MAX)
    }
}

/// This connection with all its layers, as a client of kube's.
impl From<Client> for kube_client::Client {
    fn from(client: Client) -> Self {
        let namespace = client.default_namespace.to_string();
        Self::new(client.transport, namespace)
    }
}
