//! Where metrics are served, and to whom.

use std::net::SocketAddr;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use steersman_client::Client;
use steersman_http::{Bound, CertificateMetrics, Listen, Router, ServeError, Server, Tls, body};

use super::{Authorization, Metrics, text};
use crate::StopSignal;

/// How a manager serves its metrics: plain on port 8080 of the loopback interface by default.
///
/// ```
/// # use steersman_client::Client;
/// # use steersman_runtime::{Error, Manager, metrics::MetricsServer};
/// use steersman_http::Tls;
///
/// # fn example(client: Client) -> Result<Manager, Error> {
/// let metrics = MetricsServer::new().listen(":8443".parse()?).secure(Tls::self_signed(["localhost"]));
/// let manager = Manager::builder(client).metrics(metrics)?.build();
/// # Ok(manager)
/// # }
/// ```
///
/// A [secure](Self::secure) server asks the API server about each token: by TokenReview who its
/// holder is, and by SubjectAccessReview whether the holder may `get` the path. The manager needs
/// the right to create both; ClusterRole `system:auth-delegator` has it. Responses are remembered:
/// tokens for a minute, permissions for 5 minutes, refusals for 30 s. Without a valid token the
/// response is 401, without the right 403, and 500 if the API server does not answer.
#[derive(Debug)]
#[must_use]
pub struct MetricsServer {
    listen: Listen,
    tls: Option<Tls>,
    debug_pages: bool,
}

impl Default for MetricsServer {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsServer {
    /// A plain server on port 8080 of the loopback interface.
    pub fn new() -> Self {
        Self { listen: Listen::loopback(8080), tls: None, debug_pages: false }
    }

    /// Where to listen. A plain server on other interfaces shows its metrics to everyone who can
    /// reach it.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Serves with TLS, and only to those whom the API server permits.
    pub fn secure(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Serves the live page `/debug` and its `/debug/state` as well, with the protection of the
    /// metrics. They show the names of objects and the errors of reconciles. Default: off.
    pub fn debug_pages(mut self) -> Self {
        self.debug_pages = true;
        self
    }

    pub(crate) fn bind(self, certificates: &CertificateMetrics) -> Result<BoundMetrics, ServeError> {
        let mut server = Server::new().listen(self.listen);
        let is_secure = self.tls.is_some();
        if let Some(tls) = self.tls {
            server = server.tls(tls.metrics(certificates.clone()));
        }
        Ok(BoundMetrics { server: server.bind()?, is_secure, has_debug_pages: self.debug_pages })
    }
}

/// The server of metrics, before it runs.
#[derive(Debug)]
pub(crate) struct BoundMetrics {
    server: Bound,
    is_secure: bool,
    pub(crate) has_debug_pages: bool,
}

impl BoundMetrics {
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves the metrics and the further routes of `router` under the same protection.
    pub(crate) async fn run(
        self,
        metrics: Metrics,
        router: Router,
        client: Client,
        stop: StopSignal,
    ) -> Result<(), ServeError> {
        let mut router = router.get("/metrics", move |_| {
            let metrics = metrics.clone();
            async move {
                let mut response = Response::new(body(metrics.encode()));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
                response
            }
        });
        if self.is_secure {
            router = router.guard(Authorization::new(client));
        }
        self.server.run(router, stop.stopped()).await
    }
}
