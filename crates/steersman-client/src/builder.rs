//! Putting a client together.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::HeaderValue;
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use kube_client::Config;
use kube_client::client::{AuthError, Body, ConfigExt};
use steersman_world::World;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::error::chain;
use crate::layers::gzip::Gzip;
use crate::layers::headers::Headers;
use crate::layers::observe::{Observe, RequestMetrics};
use crate::layers::rate_limit::{Bucket, RateLimit};
use crate::layers::retry::Retry;
use crate::layers::timeouts::{Timeouts, WithTimeouts};
use crate::layers::token_file::{TokenFile, WithTokenFile};
use crate::layers::{AnswerBody, Transport};
use crate::warning::{LogWarnings, WarningHandler};
use crate::watch_connection::Connections;
use crate::{Client, Error, file};

/// How often a request is sent again at the most, see [`ClientBuilder::retries`].
const RETRIES_DEFAULT: u32 = 10;
/// How long an answer may be that is collected, see [`ClientBuilder::response_bytes_max`].
pub(crate) const RESPONSE_BYTES_MAX: usize = 512 << 20;
/// A connection that has been idle for so long is asked whether it is still alive.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(30);

/// Sets up a [`Client`]: what [`Client::builder`] returns.
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

    /// How often a request is sent again at the most: 10 times. That happens only when the server asks for it (429, or 500
    /// and above, with `Retry-After`), and to reads whose connection was lost. A write is never repeated by guess.
    ///
    /// A `Retry-After` above 60 s, or beyond the request's own [timeout](crate::RestRequest::timeout), is not waited for:
    /// the request ends at once with the server's answer, which holds the delay.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// How many bytes an answer may have that is collected in memory, after it is unpacked. Default: 512 MiB. A longer one
    /// is [`Error::TooLarge`], and the client reads no further.
    ///
    /// This concerns single objects, discovery, [`Api::list`](crate::Api::list) and
    /// [`RestRequest::send`](crate::RestRequest::send). Answers that are read as they arrive have no limit, since they are
    /// not kept: watches, [`Api::list_raw`](crate::Api::list_raw), [`RestRequest::stream`](crate::RestRequest::stream) and
    /// the lists of a cache. There each object is [limited](crate::Limits). Of a refusal only the first MiB is read.
    #[must_use]
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.response_bytes_max = bytes;
        self
    }

    /// Sends at most `qps` requests a second, after `burst` at once. Off by default, as the server sees to fairness itself.
    /// Watches do not count.
    #[must_use]
    pub fn rate_limit(mut self, qps: f64, burst: u32) -> Self {
        self.rate_limit = Some((qps, burst));
        self
    }

    /// Whether lists may come compressed: yes, unless the configuration forbids it. Worth it wherever the network is slower
    /// than a few hundred megabytes a second.
    #[must_use]
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.gzip = gzip;
        self
    }

    /// Whether objects of built-in kinds may come and be sent as protobuf: yes, which spares the server and the network work, and is what Go's
    /// clients do. It is for types that read nothing that is not in the messages of Kubernetes 1.36, as nearly all of `k8s-openapi` do, and for objects of
    /// which only the metadata is read. Everything else is JSON anyway, and so is what the server does not have as protobuf. Two things are
    /// different then: a cache's views and field paths find no fields in such objects that are newer than that release; and a server that is older than
    /// a type does not warn of fields that it does not know.
    #[must_use]
    pub fn protobuf(mut self, protobuf: bool) -> Self {
        self.protobuf = protobuf;
        self
    }

    /// What the client calls itself.
    #[must_use]
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Is told of every attempt of every request.
    #[must_use]
    pub fn metrics(mut self, metrics: impl RequestMetrics + 'static) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Is told of the server's warnings, instead of the log.
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

    /// Sets the client up. Nothing is sent yet.
    pub fn build(mut self) -> Result<Client, Error> {
        let token_file = self.prepare_files()?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEPALIVE));
        connector.set_connect_timeout(self.timeouts.connect);
        let inner = match &self.config.proxy_url {
            None => hyper(&self.config, connector)?,
            Some(proxy) => match proxy.scheme_str() {
                Some("http") => hyper(&self.config, tunnel(proxy, connector)?)?,
                Some("https") => {
                    let connector = self.config.rustls_https_connector_with_connector(connector);
                    hyper(&self.config, tunnel(proxy, connector.map_err(|error| config_error(&self.config, error))?)?)?
                }
                Some("socks5") => hyper(&self.config, socks(proxy, connector))?,
                _ => {
                    // Without the rest of its address, in which there may be a password.
                    let host = proxy.host().unwrap_or_default();
                    let text = format!("the address of the proxy {host} begins neither with http, https nor socks5");
                    return Err(Error::Config(text.into()));
                }
            },
        };
        self.over(with_token_file(inner, token_file))
    }

    /// Sets the client up over another way to make connections: TLS is on top of it where the server's address begins with `https`, and
    /// the proxy of the configuration is not used.
    pub fn build_with_connector<C>(mut self, connector: C) -> Result<Client, Error>
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
        C::Error: std::error::Error + Send + Sync + 'static,
    {
        let token_file = self.prepare_files()?;
        let inner = hyper(&self.config, connector)?;
        self.over(with_token_file(inner, token_file))
    }

    /// Sets the client up over a service that reaches the server by itself, such as a server in this process. The server's
    /// address and the credentials of the configuration do not matter then.
    pub fn build_over<S, B>(self, service: S) -> Result<Client, Error>
    where
        S: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.over(boxed(service))
    }

    /// Takes the token file, and checks the files that kube-client reads for TLS. It has no limits of its own.
    fn prepare_files(&mut self) -> Result<Option<Arc<TokenFile>>, Error> {
        let token_file = TokenFile::take(&mut self.config.auth_info)?;
        if self.config.cluster_url.scheme() == Some(&Scheme::HTTP) && self.config.proxy_url.is_none() {
            return Ok(token_file);
        }
        let auth = &self.config.auth_info;
        let unless_given = |file: &Option<String>, given: bool| file.clone().filter(|_| !given).map(PathBuf::from);
        let files = [
            ("client-certificate", unless_given(&auth.client_certificate, auth.client_certificate_data.is_some())),
            ("client-key", unless_given(&auth.client_key, auth.client_key_data.is_some())),
            ("certificate authority", self.config.root_cert_file.clone()),
        ];
        for (name, path) in files.into_iter().filter_map(|(name, path)| Some((name, path?))) {
            file::check(&path).map_err(|problem| {
                Error::Config(format!("cannot read the {name} {}: {problem}", path.display()).into())
            })?;
        }
        Ok(token_file)
    }

    fn over(self, inner: Transport) -> Result<Client, Error> {
        let bucket = match self.rate_limit {
            None => None,
            Some((qps, burst)) if qps.is_finite() && qps > 0.0 && burst > 0 => Some(Arc::new(Bucket::new(qps, burst))),
            Some((qps, burst)) => {
                let text = format!("a rate limit of {qps} a second with a burst of {burst} would let nothing through");
                return Err(Error::Config(text.into()));
            }
        };
        let user_agent = HeaderValue::from_str(&self.user_agent).map_err(|error| Error::Config(error.into()))?;
        let host: Arc<str> = self.config.cluster_url.authority().map_or("", |authority| authority.as_str()).into();
        let service = Gzip { inner, enabled: self.gzip };
        let service = WithTimeouts { inner: service, timeouts: self.timeouts };
        let service = Observe { inner: service, metrics: self.metrics, warnings: self.warnings, host };
        let service = RateLimit { inner: service, bucket };
        let service = Retry { inner: service, retries: self.retries };
        let service = Headers { inner: service, user_agent };
        let server = self.config.cluster_url.to_string();
        let transport = BoxCloneSyncService::new(service);
        let namespace = &self.config.default_namespace;
        let client = Client::new(transport, &server, namespace, self.protobuf, self.response_bytes_max);
        Ok(client.with_world(self.world))
    }
}

/// What is wrong with the credentials or the certificates of a server.
fn config_error(config: &Config, error: kube_client::Error) -> Error {
    Error::Config(format!("{}: {}", config.cluster_url, without_credentials(error.into())).into())
}

/// An error of the program that gives the credentials, without its output and environment: they may be in there. What it
/// wrote for people stays.
fn without_credentials(error: BoxError) -> BoxError {
    let program = "the program that the kubeconfig names for credentials";
    let cause = chain(&*error).find_map(|error| error.downcast_ref::<AuthError>());
    match cause {
        Some(AuthError::AuthExecRun { out, .. }) => {
            let said = String::from_utf8_lossy(&out.stderr);
            format!("{program} failed with {}: {}", out.status, said.trim()).into()
        }
        Some(AuthError::AuthExecParse(_)) => format!("{program} did not answer with an ExecCredential").into(),
        _ => error,
    }
}

/// hyper over `connector`, with TLS where the server's address asks for it.
fn hyper<C>(config: &Config, connector: C) -> Result<Transport, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    // Where there is no TLS, the certificates of the system need not be read.
    if config.cluster_url.scheme() == Some(&Scheme::HTTP) {
        return requests_over(config, connector.map_future(Box::pin));
    }
    let connector = config.rustls_https_connector_with_connector(connector);
    requests_over(config, connector.map_err(|error| config_error(config, error))?)
}

/// Requests over these connections, with what the configuration adds to each.
fn requests_over<C>(config: &Config, connector: C) -> Result<Transport, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| config_error(config, error))?)
        .layer(config.extra_headers_layer().map_err(|error| config_error(config, error))?)
        .map_err(BoxError::from)
        .service(Connections::new(connector));
    Ok(boxed(service.map_err(without_credentials)))
}

fn with_token_file(inner: Transport, file: Option<Arc<TokenFile>>) -> Transport {
    match file {
        None => inner,
        Some(file) => BoxCloneSyncService::new(WithTokenFile { inner, file }),
    }
}

/// The credentials in the address of a proxy, as they are written there.
fn credentials(proxy: &Uri) -> Option<&str> {
    proxy.authority()?.as_str().rsplit_once('@').map(|(credentials, _)| credentials)
}

/// The way through a SOCKS proxy, with the credentials in its address.
fn socks<C>(proxy: &Uri, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy.clone(), connector);
    let Some(credentials) = credentials(proxy) else { return socks };
    let plain = |text| String::from_utf8_lossy(&crate::text::percent_decoded(text)).into_owned();
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    socks.with_auth(plain(user), plain(password))
}

/// The way through an HTTP proxy, with the credentials in its address.
fn tunnel<C>(proxy: &Uri, connector: C) -> Result<Tunnel<C>, Error> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let Some(user) = credentials(proxy) else { return Ok(tunnel) };
    let mut value = HeaderValue::from_str(&format!(
        "Basic {}",
        steersman_wire::base64::encode(&crate::text::percent_decoded(user))
    ))
    .map_err(|error| Error::Config(error.into()))?;
    value.set_sensitive(true);
    Ok(tunnel.with_auth(value))
}

/// Any service as a transport.
pub(crate) fn boxed<S, B>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service
        .map_response(|response: http::Response<B>| {
            response.map(|body| -> AnswerBody { body.map_err(Into::into).boxed_unsync() })
        })
        .map_err(Into::into);
    BoxCloneSyncService::new(service)
}

/// The program's name, the system, and this crate.
fn default_user_agent() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    // Only what any server takes in a header.
    let program: String = program.unwrap_or("unknown").chars().filter(char::is_ascii_graphic).collect();
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{program} ({system}/{machine}) steersman/{}", env!("CARGO_PKG_VERSION"))
}
