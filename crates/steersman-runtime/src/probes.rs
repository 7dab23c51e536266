//! The probes of a manager: `/healthz` and `/readyz`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use http::{Request, Response, StatusCode};
use steersman_http::{Body, Bound, Listen, Router, ServeError, Server, text};

use crate::StopSignal;

/// How many bytes the head of a probe may have: everyone can send one.
const HEADERS_MAX: usize = 16 << 10;

type CheckResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;
type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = CheckResult> + Send>> + Send + Sync>;

/// The probes of a manager, on port 8081 of all interfaces by default.
///
/// - `/healthz` is healthy while the runtime makes progress (`runtime`) and, on a leader, while the
///   lease is renewed (`leader-election`).
/// - `/readyz` is ready once all caches have synced, and until the manager stops (`caches`). An
///   outage of the API server does not change it: the caches still serve reads.
///
/// Each has named checks, and a program can add its own. `/readyz` responds with 200 and `ok`, or
/// with 500 and the names of the failed checks. `?verbose` lists them all, `?exclude=NAME` leaves
/// one out, and `/readyz/NAME` runs one and shows its error.
///
/// ```
/// # use steersman_client::Client;
/// # use steersman_runtime::{Error, Manager, Probes};
/// # async fn ping_neutron() -> Result<(), std::io::Error> { Ok(()) }
/// # fn example(client: Client) -> Result<Manager, Error> {
/// let probes = Probes::new().listen("127.0.0.1:9081".parse()?).ready_check("neutron", ping_neutron);
/// let manager = Manager::builder(client).probes(probes)?.build();
/// # Ok(manager)
/// # }
/// ```
#[must_use]
pub struct Probes {
    listen: Listen,
    pub(crate) health: Checks,
    pub(crate) ready: Checks,
}

impl Default for Probes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, health, ready } = self;
        f.debug_struct("Probes").field("listen", listen).field("health", health).field("ready", ready).finish()
    }
}

impl Probes {
    /// Probes on port 8081 of all interfaces.
    pub fn new() -> Self {
        Self { listen: Listen::AllInterfaces(8081), health: Checks::default(), ready: Checks::default() }
    }

    /// Where to listen. A [`Listen`] is parsed from a text such as `:8081` (all interfaces),
    /// `127.0.0.1:8081` or `localhost:0`; port 0 is any free port.
    /// [`Manager::probes_address`](crate::Manager::probes_address) shows which.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Adds a check to `/healthz`. While it fails, the kubelet restarts the container.
    pub fn health_check<F, R, E>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.health.add(name, check);
        self
    }

    /// Adds a check to `/readyz`. While it fails, Services send no requests to the Pod.
    pub fn ready_check<F, R, E>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.ready.add(name, check);
        self
    }

    pub(crate) fn address(&self) -> Listen {
        self.listen
    }

    pub(crate) fn bind(self) -> Result<BoundProbes, ServeError> {
        let server = Server::new().listen(self.listen).headers_max(HEADERS_MAX).body_max(0).bind()?;
        Ok(BoundProbes { server, health: self.health, ready: self.ready })
    }
}

/// The probes before they run.
#[derive(Debug)]
pub(crate) struct BoundProbes {
    server: Bound,
    pub(crate) health: Checks,
    pub(crate) ready: Checks,
}

impl BoundProbes {
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) async fn run(self, stop: StopSignal) -> Result<(), ServeError> {
        let probe = |path: &'static str, checks: Checks| {
            let checks = Arc::new(checks);
            move |request: Request<Bytes>| {
                let checks = Arc::clone(&checks);
                async move { checks.respond(path, request.uri().path(), request.uri().query().unwrap_or_default()).await }
            }
        };
        let router = Router::new()
            .get_below("/healthz", probe("/healthz", self.health))
            .get_below("/readyz", probe("/readyz", self.ready));
        self.server.run(router, stop.stopped()).await
    }
}

/// Checks by name.
#[derive(Default)]
pub(crate) struct Checks(BTreeMap<String, Check>);

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Checks {
    pub(crate) fn add<F, R, E>(&mut self, name: &str, check: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let check: Check = Arc::new(move || {
            let checking = check();
            Box::pin(async move { checking.await.map_err(Into::into) })
        });
        self.0.insert(name.to_owned(), check);
    }

    /// Responds to a request below `root`, which has the form and the texts of controller-runtime.
    async fn respond(&self, root: &str, path: &str, query: &str) -> Response<Body> {
        match path.strip_prefix(root).unwrap_or_default().trim_matches('/') {
            "" => self.all(root, query).await,
            name => self.one(name).await,
        }
    }

    async fn one(&self, name: &str) -> Response<Body> {
        let Some(check) = self.0.get(name) else { return text(StatusCode::NOT_FOUND, "404 page not found\n") };
        match run(check).await {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n")),
        }
    }

    async fn all(&self, root: &str, query: &str) -> Response<Body> {
        let query: Vec<_> = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        let excluded: Vec<_> = query.iter().filter(|(name, _)| *name == "exclude").map(|(_, value)| *value).collect();
        let checks = self.0.iter().map(|(name, check)| {
            let is_excluded = excluded.contains(&&**name);
            async move { (name, is_excluded, if is_excluded { Ok(()) } else { run(check).await }) }
        });
        let (mut lines, mut failed) = (String::new(), false);
        for (name, is_excluded, result) in join_all(checks).await {
            let outcome = match &result {
                Ok(()) if is_excluded => "excluded: ok",
                Ok(()) => "ok",
                // Everyone can read this; the error is at the path of the check.
                Err(_) => "failed: reason withheld",
            };
            if let Err(error) = result {
                tracing::warn!(probe = root, check = name, %error, "check failed");
                failed = true;
            }
            lines.push_str(&format!("[{}]{name} {outcome}\n", if outcome.starts_with("failed") { '-' } else { '+' }));
        }
        let unknown: Vec<_> = excluded.iter().filter(|name| !self.0.contains_key(**name)).collect();
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        let probe = root.trim_matches('/');
        match failed {
            false if query.iter().any(|(name, _)| *name == "verbose") => {
                text(StatusCode::OK, format!("{lines}{probe} check passed\n"))
            }
            false => text(StatusCode::OK, "ok"),
            true => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{probe} check failed\n")),
        }
    }
}

/// Runs a check. A panic fails it.
async fn run(check: &Check) -> CheckResult {
    let checked = AssertUnwindSafe(async { check().await }).catch_unwind().await;
    checked.unwrap_or_else(|_| Err("the check panicked".into()))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn checks() -> Checks {
        let mut checks = Checks::default();
        checks.add("good", async || Ok::<_, std::io::Error>(()));
        checks
    }

    async fn ask(checks: &Checks, path: &str) -> (u16, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let response = checks.respond("/readyz", path, query).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn probes_respond_as_those_of_controller_runtime() {
        let mut checks = checks();
        let good = [
            ("/readyz", "ok"),
            ("/readyz/", "ok"),
            ("/readyz/good", "ok"),
            ("/readyz?verbose", "[+]good ok\nreadyz check passed\n"),
            ("/readyz?verbose=1&exclude=good", "[+]good excluded: ok\nreadyz check passed\n"),
        ];
        for (path, body) in good {
            assert_eq!(ask(&checks, path).await, (200, body.to_owned()), "{path}");
        }
        assert_eq!(ask(&checks, "/readyz/other").await.0, 404);

        checks.add("bad", async || Err("the post office is closed"));
        let bad = [
            ("/readyz", "[-]bad failed: reason withheld\n[+]good ok\nreadyz check failed\n"),
            ("/readyz/bad", "internal server error: the post office is closed\n"),
            (
                "/readyz?exclude=x",
                "[-]bad failed: reason withheld\n[+]good ok\nwarn: some health checks cannot be excluded: \
                 no matches for \"x\"\nreadyz check failed\n",
            ),
        ];
        for (path, body) in bad {
            assert_eq!(ask(&checks, path).await, (500, body.to_owned()), "{path}");
        }
        assert_eq!(ask(&checks, "/readyz?exclude=bad").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn a_check_that_panics_fails() {
        let mut checks = checks();
        checks.add("wild", async || -> Result<(), std::io::Error> { panic!("on purpose") });
        assert_eq!(ask(&checks, "/readyz/wild").await.0, 500);
    }
}
