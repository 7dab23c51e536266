//! Putting a client together.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::HeaderValue;
use http::uri::Scheme;
use http::{Request, Uri};
use hyper_util::client::legacy::connect::Connection;
use kube_client::Config;
use kube_client::client::Body;
use steersman_world::World;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::config::file;
use crate::layers::Transport;
use crate::layers::gate::Gate;
use crate::layers::gzip::Gzip;
use crate::layers::headers::DefaultHeaders;
use crate::layers::observe::{Observe, Observers, RequestMetrics};
use crate::layers::rate_limit::{RateLimit, TokenBucket};
use crate::layers::retry::Retry;
use crate::layers::timeouts::{Timeouts, WithTimeouts};
use crate::layers::token_file::{TokenFile, WithTokenFile};
use crate::layers::warning::{LogWarnings, WarningHandler};
use crate::transport::Lookups;
use crate::{Client, Error, transport};

/// See [`ClientBuilder::retries`].
const RETRIES_DEFAULT: u32 = 10;
/// See [`ClientBuilder::response_bytes_max`].
pub(crate) const RESPONSE_BYTES_MAX: usize = 512 << 20;

/// Builds a [`Client`]: what [`Client::builder`] returns.
#[derive(Clone)]
pub struct ClientBuilder {
    config: Config,
    timeouts: Timeouts,
    retries: u32,
    response_bytes_max: usize,
    rate_limit: Option<(f64, u32)>,
    gzip: bool,
    protobuf: bool,
    user_agent: String,
    metrics: Option<Arc<dyn RequestMetrics>>,
    warnings: Arc<dyn WarningHandler>,
    world: World,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("server", &self.config.cluster_url)
            .field("timeouts", &self.timeouts)
            .field("retries", &self.retries)
            .field("rate_limit", &self.rate_limit)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            gzip: !config.disable_compression,
            config,
            protobuf: true,
            timeouts: Timeouts::default(),
            retries: RETRIES_DEFAULT,
            response_bytes_max: RESPONSE_BYTES_MAX,
            rate_limit: None,
            user_agent: default_user_agent(),
            metrics: None,
            warnings: Arc::new(LogWarnings::default()),
            world: World::system(),
        }
    }

    /// How long the client waits for the server.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How many times a request is sent again. Default: 10. The client retries when the server asks
    /// for it (429, or 500 and above, with `Retry-After`), and repeats a read whose connection was
    /// lost. It never repeats a write on its own guess.
    ///
    /// The client does not wait for a `Retry-After` above 60 s, or beyond the request's own
    /// [timeout](crate::RestRequest::timeout). The request then ends at once with the server's
    /// response, which holds the delay.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The largest response that the client collects in memory, in bytes after decompression.
    /// Default: 512 MiB. A longer one is [`Error::TooLarge`], and the client stops reading it.
    ///
    /// The limit covers single objects, discovery, [`Api::list`](crate::Api::list) and
    /// [`RestRequest::send`](crate::RestRequest::send). It does not cover responses that are read
    /// as they arrive, which are not kept: watches, [`Api::list_raw`](crate::Api::list_raw),
    /// [`RestRequest::stream`](crate::RestRequest::stream) and the lists of a cache. There each
    /// object has a [limit](crate::Limits). Of an error response the client reads the first MiB.
    #[must_use]
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Sends at most `qps` requests a second after a burst of `burst`. Watches do not count.
    /// Default: no limit, since the server has API priority and fairness.
    #[must_use]
    pub fn rate_limit(mut self, qps: f64, burst: u32) -> Self {
        self.rate_limit = Some((qps, burst));
        self
    }

    /// Whether the client accepts gzip for lists. Default: yes, unless the configuration disables
    /// it. It pays wherever the network is slower than a few hundred megabytes a second.
    #[must_use]
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = gzip;
        self
    }

    /// Whether objects of built-in kinds travel as protobuf, as with Go's clients. Default: yes; it
    /// saves work for the server and the network.
    ///
    /// Protobuf is used for types that read no field beyond the messages of Kubernetes 1.36, which
    /// are nearly all of `k8s-openapi`, and for metadata-only objects. Everything else is JSON, and
    /// so is every response that the server does not have as protobuf. Two things differ with
    /// protobuf:
    ///
    /// - The views and field paths of a cache do not find fields that are newer than that release.
    /// - A server that is older than the type does not warn of fields it does not know.
    #[must_use]
    pub fn protobuf(mut self, protobuf: bool) -> Self {
        self.protobuf = protobuf;
        self
    }

    /// The `User-Agent` header. Default: the program, the system and the version of this crate.
    #[must_use]
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Receives a sample for each attempt of each request.
    #[must_use]
    pub fn metrics(mut self, metrics: impl RequestMetrics + 'static) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Handles the server's warnings. Default: [`LogWarnings`].
    #[must_use]
    pub fn warnings(mut self, handler: impl WarningHandler + 'static) -> Self {
        self.warnings = Arc::new(handler);
        self
    }

    /// The clocks and the randomness of the client, and of the manager and the informers over it.
    /// Default: the system's.
    #[must_use]
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Builds the client. Sends nothing.
    pub fn build(mut self) -> Result<Client, Error> {
        let token_file = self.prepare_files()?;
        let lookups = Lookups::default();
        self.metrics.iter().for_each(|metrics| lookups.add(metrics));
        let transport = transport::connect(&self.config, self.timeouts.connect, &lookups)?;
        Ok(self.over(with_token_file(transport, token_file))?.with_lookups(lookups))
    }

    /// Builds the client over a connector. TLS is added unless the server's address begins with
    /// `http:`. The proxy of the configuration is not used.
    pub fn build_with_connector<C>(mut self, connector: C) -> Result<Client, Error>
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
        C::Error: std::error::Error + Send + Sync + 'static,
    {
        let token_file = self.prepare_files()?;
        let transport = transport::with_connector(&self.config, connector)?;
        self.over(with_token_file(transport, token_file))
    }

    /// Builds the client over a service that reaches the server itself, such as a server in this
    /// process. The server's address and the credentials of the configuration are not used.
    pub fn build_over<S, B>(self, service: S) -> Result<Client, Error>
    where
        S: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.over(transport::boxed(service))
    }

    /// Takes the token file out of the configuration, and checks the files that kube-client reads
    /// for TLS: kube-client has no limits of its own.
    fn prepare_files(&mut self) -> Result<Option<Arc<TokenFile>>, Error> {
        let token_file = TokenFile::take(&mut self.config.auth_info)?;
        if self.config.cluster_url.scheme() == Some(&Scheme::HTTP) && self.config.proxy_url.is_none() {
            return Ok(token_file);
        }
        let auth = &self.config.auth_info;
        let unless_inline = |file: &Option<String>, inline: bool| file.clone().filter(|_| !inline).map(PathBuf::from);
        let files = [
            ("client-certificate", unless_inline(&auth.client_certificate, auth.client_certificate_data.is_some())),
            ("client-key", unless_inline(&auth.client_key, auth.client_key_data.is_some())),
            ("certificate authority", self.config.root_cert_file.clone()),
        ];
        for (name, path) in files.into_iter().filter_map(|(name, path)| Some((name, path?))) {
            file::check(&path).map_err(|problem| {
                Error::Config(format!("cannot read the {name} {}: {problem}", path.display()).into())
            })?;
        }
        Ok(token_file)
    }

    /// Adds the layers, innermost first.
    fn over(self, inner: Transport) -> Result<Client, Error> {
        let bucket = match self.rate_limit {
            None => None,
            Some((qps, burst)) if qps.is_finite() && qps > 0.0 && burst > 0 => {
                Some(Arc::new(TokenBucket::new(qps, burst)))
            }
            Some((qps, burst)) => {
                let text =
                    format!("invalid rate limit of {qps} a second with a burst of {burst}: both must be above 0");
                return Err(Error::Config(text.into()));
            }
        };
        let user_agent = HeaderValue::from_str(&self.user_agent).map_err(|error| Error::Config(error.into()))?;
        let host: Arc<str> = self.config.cluster_url.authority().map_or("", |authority| authority.as_str()).into();
        let service = Gzip { inner: Gate { inner }, enabled: self.gzip };
        let service = WithTimeouts { inner: service, timeouts: self.timeouts };
        let observers = Observers { metrics: self.metrics, host };
        let service = Observe { inner: service, observers: observers.clone(), warnings: self.warnings };
        let service = RateLimit { inner: service, bucket, observers: observers.clone() };
        let service = Retry { inner: service, retries: self.retries, observers };
        let service = DefaultHeaders { inner: service, user_agent };
        let server = self.config.cluster_url.to_string();
        let transport = BoxCloneSyncService::new(service);
        let namespace = &self.config.default_namespace;
        let client = Client::new(transport, &server, namespace, self.protobuf, self.response_bytes_max);
        Ok(client.with_world(self.world))
    }
}

fn with_token_file(inner: Transport, file: Option<Arc<TokenFile>>) -> Transport {
    match file {
        None => inner,
        Some(file) => BoxCloneSyncService::new(WithTokenFile { inner, file }),
    }
}

fn default_user_agent() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    // Characters that every server accepts in a header.
    let program: String = program.unwrap_or("unknown").chars().filter(char::is_ascii_graphic).collect();
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{program} ({system}/{machine}) steersman/{}", env!("CARGO_PKG_VERSION"))
}
