//! Where metrics are served, and to whom.

use std::net::SocketAddr;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use steersman_client::Client;
use steersman_http::{Bound, CertificateMetrics, Listen, Router, ServeError, Server, Tls, body};

use super::{Authorization, LoopbackOnly, Metrics, text};
use crate::StopSignal;

/// How many bytes the head of a request may have: room for a large token.
const HEADERS_MAX: usize = 64 << 10;

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
/// response is 401, without the right 403, and 500 if the API server does not answer. At most 8
/// unknown tokens are reviewed at a time; one that waits for longer than 2 s is refused with 503
/// (test `made_up_tokens_keep_no_known_one_out`).
///
/// A plain server on the loopback interface refuses with 403 what a page of another site sends
/// through a browser: requests whose `Host` is not `localhost`, `127.0.0.1`, `[::1]` or the address
/// of the server, and those with `Sec-Fetch-Site: cross-site`
/// (test `pages_of_other_sites_read_nothing_from_a_plain_server_on_loopback`). A plain server on
/// other interfaces checks nothing.
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

    /// Where to listen. A [`Listen`] is parsed from a text such as `:8443` (all interfaces),
    /// `127.0.0.1:8080` or `localhost:0`; port 0 is any free port.
    /// [`Manager::metrics_address`](crate::Manager::metrics_address) shows which.
    ///
    /// A plain server on other interfaces shows its metrics to everyone who can reach it.
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

    pub(crate) fn address(&self) -> Listen {
        self.listen
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn bind(self, certificates: &CertificateMetrics) -> Result<BoundMetrics, ServeError> {
        let mut server = Server::new().listen(self.listen).headers_max(HEADERS_MAX).body_max(0);
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
    pub(crate) is_secure: bool,
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
        let address = self.server.address().ip();
        if self.is_secure {
            router = router.guard(Authorization::new(client));
        } else if address.is_loopback() {
            router = router.guard(LoopbackOnly { address });
        }
        self.server.run(router, stop.stopped()).await
    }
}
