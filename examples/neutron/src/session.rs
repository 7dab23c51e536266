//! The token of Keystone and the endpoint of its catalogue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use http::header::HeaderMap;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::transport::Transport;
use crate::{Auth, Cloud, Error, IdOrName};

/// A token is replaced this long before it expires, or when a quarter of its life is left,
/// whichever is later. A request takes time, and Neutron checks the token when the request arrives.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

/// The token and the endpoint for a request.
#[derive(Debug)]
pub(crate) struct Access {
    /// The base of all addresses, with the version of the API.
    pub(crate) endpoint: String,
    pub(crate) token: Option<HeaderValue>,
    lease: Option<Lease>,
}

/// The lifetime of a token.
#[derive(Clone, Copy, Debug)]
struct Lease {
    renew_at: Instant,
    ends_at: Instant,
}

/// One login, shared by every clone of a client.
pub(crate) struct Session {
    cloud: Cloud,
    state: Mutex<State>,
}

/// All requests that wait for a login get the same result.
type Login = BoxFuture<'static, Result<Arc<Access>, Error>>;

struct State {
    access: Option<Arc<Access>>,
    /// The pending login, as long as a request waits for it.
    login: Option<WeakShared<Login>>,
}

impl State {
    /// The present token, if it need not be renewed.
    fn usable(&self, refused: Option<&Arc<Access>>) -> Option<Arc<Access>> {
        let fresh = |access: &&Arc<Access>| access.lease.is_none_or(|lease| Instant::now() < lease.renew_at);
        self.not_refused(refused).filter(fresh).cloned()
    }

    /// The present token, if it has not expired.
    fn not_expired(&self, refused: Option<&Arc<Access>>) -> Option<Arc<Access>> {
        let good = |access: &&Arc<Access>| access.lease.is_none_or(|lease| Instant::now() < lease.ends_at);
        self.not_refused(refused).filter(good).cloned()
    }

    fn not_refused(&self, refused: Option<&Arc<Access>>) -> Option<&Arc<Access>> {
        self.access.as_ref().filter(|access| refused.is_none_or(|refused| !Arc::ptr_eq(refused, access)))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("cloud", &self.cloud).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(cloud: Cloud) -> Result<Self, Error> {
        for url in [cloud.endpoint.as_deref(), cloud.auth.url()].into_iter().flatten() {
            check_url(url)?;
        }
        let access = match (&cloud.auth, &cloud.endpoint) {
            (Auth::None, Some(endpoint)) => {
                Some(Arc::new(Access { endpoint: neutron_base(endpoint), token: None, lease: None }))
            }
            (Auth::None, None) => {
                return Err(Error::Config("without Keystone, Neutron's endpoint must be given".to_owned()));
            }
            _ => None,
        };
        Ok(Self { cloud, state: Mutex::new(State { access, login: None }) })
    }

    /// Whether a new login may resolve a 401.
    pub(crate) fn can_log_in(&self) -> bool {
        !matches!(self.cloud.auth, Auth::None)
    }

    /// The token and the endpoint for a request. Logs in if there is no token or it expires soon.
    pub(crate) async fn access(&self, transport: &Arc<Transport>) -> Result<Arc<Access>, Error> {
        self.access_other_than(None, transport).await
    }

    /// The same after Neutron has refused `refused`: logs in, unless another request has done so
    /// since.
    pub(crate) async fn renewed(
        &self,
        refused: &Arc<Access>,
        transport: &Arc<Transport>,
    ) -> Result<Arc<Access>, Error> {
        self.access_other_than(Some(refused), transport).await
    }

    async fn access_other_than(
        &self,
        refused: Option<&Arc<Access>>,
        transport: &Arc<Transport>,
    ) -> Result<Arc<Access>, Error> {
        let login: Shared<Login> = {
            let mut state = self.lock();
            if let Some(access) = state.usable(refused) {
                return Ok(access);
            }
            state.login.as_ref().and_then(WeakShared::upgrade).unwrap_or_else(|| {
                let login = log_in(self.cloud.clone(), Arc::clone(transport)).boxed().shared();
                state.login = login.downgrade();
                login
            })
        };
        let result = login.clone().await;
        let mut state = self.lock();
        // The first request that waited stores the result; by now the next login may be pending.
        if state.login.as_ref().and_then(WeakShared::upgrade).is_some_and(|current| current.ptr_eq(&login)) {
            state.login = None;
            if let Ok(access) = &result {
                state.access = Some(Arc::clone(access));
            }
        }
        match result {
            // Renewal is early: until the old token has expired, a Keystone that is down does no
            // harm.
            Err(error) if error.is_unavailable() => state.not_expired(refused).ok_or(error),
            result => result,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests a token from Keystone.
async fn log_in(cloud: Cloud, transport: Arc<Transport>) -> Result<Arc<Access>, Error> {
    let (Some(auth_url), Some(body)) = (cloud.auth.url(), login_request(&cloud.auth)) else {
        return Err(Error::Config("there is no Keystone to log in to".to_owned()));
    };
    let asked_at = Instant::now();
    let url = format!("{}/auth/tokens", keystone_base(auth_url));
    let answer = transport.send(Method::POST, &url, HeaderMap::new(), Some(&body)).await?;
    let TokenAnswer { token } = answer.read()?;
    let mut secret =
        answer.headers.get("x-subject-token").cloned().ok_or_else(|| answer.unreadable("no X-Subject-Token"))?;
    secret.set_sensitive(true);
    let endpoint = match &cloud.endpoint {
        Some(endpoint) => endpoint.as_str(),
        None => token
            .endpoint(&cloud.interface, cloud.region.as_deref())
            .ok_or_else(|| Error::NoEndpoint { interface: cloud.interface.clone(), region: cloud.region.clone() })?,
    };
    check_url(endpoint)?;
    tracing::debug!(keystone = auth_url, endpoint, expires = %token.expires_at, "logged in");
    let lifetime = token.lifetime();
    let renew_at = asked_at + (lifetime - RENEWAL_MARGIN.min(lifetime / 4));
    let lease = Some(Lease { renew_at, ends_at: asked_at + lifetime });
    Ok(Arc::new(Access { endpoint: neutron_base(endpoint), token: Some(secret), lease }))
}

fn login_request(auth: &Auth) -> Option<Value> {
    match auth {
        Auth::None => None,
        Auth::Password { username, password, project, user_domain, project_domain, .. } => {
            let mut scope = named(project);
            if let IdOrName::Name(_) = project {
                scope["domain"] = named(project_domain);
            }
            let user = json!({"name": username, "domain": named(user_domain), "password": password});
            Some(json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": scope},
            }}))
        }
        Auth::ApplicationCredential { id, secret, .. } => Some(json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret},
        }}})),
    }
}

fn named(thing: &IdOrName) -> Value {
    match thing {
        IdOrName::Id(id) => json!({"id": id}),
        IdOrName::Name(name) => json!({"name": name}),
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    issued_at: jiff::Timestamp,
    expires_at: jiff::Timestamp,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    region_id: Option<String>,
    url: String,
}

impl Token {
    /// The lifetime. Both times are Keystone's: our clock may be wrong.
    fn lifetime(&self) -> Duration {
        Duration::try_from(self.expires_at.duration_since(self.issued_at)).unwrap_or_default()
    }

    fn endpoint(&self, interface: &str, region: Option<&str>) -> Option<&str> {
        let network = self.catalog.iter().filter(|service| service.type_ == "network");
        let mut endpoints = network.flat_map(|service| &service.endpoints);
        let fits = |endpoint: &&Endpoint| {
            endpoint.interface == interface && region.is_none_or(|region| endpoint.region_id.as_deref() == Some(region))
        };
        endpoints.find(fits).map(|endpoint| endpoint.url.as_str())
    }
}

/// Keystone's address with its version, which users often leave out.
fn keystone_base(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v3") { url.to_owned() } else { format!("{url}/v3") }
}

fn neutron_base(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v2.0") { url.to_owned() } else { format!("{url}/v2.0") }
}

fn check_url(url: &str) -> Result<(), Error> {
    let parsed: Result<http::Uri, _> = url.parse();
    match parsed {
        Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none() => Ok(()),
        Ok(_) => Err(Error::Config(format!("{url:?} is not an address: http://HOST:PORT/PATH or https://…"))),
        Err(reason) => Err(Error::Config(format!("{url:?} is not an address: {reason}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_added_to_an_address_that_lacks_it() {
        for given in ["http://k:5000", "http://k:5000/", "http://k:5000/v3", "http://k:5000/v3/"] {
            assert_eq!(keystone_base(given), "http://k:5000/v3", "for {given}");
        }
        assert_eq!(neutron_base("http://n/networking/"), "http://n/networking/v2.0");
        assert_eq!(neutron_base("http://n:9696/v2.0"), "http://n:9696/v2.0");
    }

    #[test]
    fn the_endpoint_is_the_one_of_the_interface_and_the_region() {
        let token: Token = serde_json::from_value(json!({
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2026-01-01T01:00:00.000000Z",
            "catalog": [
                {"type": "identity", "endpoints": [{"interface": "public", "region_id": "one", "url": "http://keystone"}]},
                {"type": "network", "endpoints": [
                    {"interface": "public", "region_id": "one", "region": "one", "url": "http://one"},
                    {"interface": "internal", "region_id": "one", "url": "http://internal"},
                    {"interface": "public", "region_id": "two", "region": "two", "url": "http://two"},
                ]},
            ],
        }))
        .unwrap();
        assert_eq!(token.endpoint("public", None), Some("http://one"));
        assert_eq!(token.endpoint("public", Some("two")), Some("http://two"));
        assert_eq!(token.endpoint("internal", Some("one")), Some("http://internal"));
        assert_eq!(token.endpoint("internal", Some("two")), None);
        assert_eq!(token.lifetime(), Duration::from_secs(3600));
    }

    #[test]
    fn what_is_not_an_address_is_refused_at_once() {
        for url in ["", "neutron", "neutron:9696", "ftp://neutron", "http://neutron?x=y", "http://a b"] {
            let error = Session::new(Cloud { endpoint: Some(url.to_owned()), ..Cloud::new(Auth::None) }).unwrap_err();
            assert!(error.to_string().contains("is not an address"), "{url:?}: {error}");
        }
        assert!(Session::new(Cloud::new(Auth::None)).is_err(), "neither Keystone nor an endpoint");
    }

    /// A session with a token that is due for renewal and expires in `left`, and a Keystone whose
    /// port is closed.
    async fn session_without_keystone(left: Duration) -> Session {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let auth_url = format!("http://{}", listener.local_addr().unwrap());
        let [id, secret] = ["i", "s"].map(str::to_owned);
        let session = Session::new(Cloud::new(Auth::ApplicationCredential { auth_url, id, secret })).unwrap();
        let now = Instant::now();
        let lease = Some(Lease { renew_at: now, ends_at: now + left });
        session.lock().access = Some(Arc::new(Access { endpoint: "http://n/v2.0".to_owned(), token: None, lease }));
        session
    }

    #[tokio::test]
    async fn a_keystone_that_is_down_does_no_harm_until_the_token_has_expired() {
        let transport = Arc::new(Transport::new(None, Duration::from_secs(10)));
        let session = session_without_keystone(Duration::from_secs(3600)).await;
        let access = session.access(&transport).await.unwrap();
        assert_eq!(access.endpoint, "http://n/v2.0");
        let error = session.renewed(&access, &transport).await.unwrap_err();
        assert!(error.is_unavailable(), "a token that Neutron refused is no good: {error}");

        let session = session_without_keystone(Duration::ZERO).await;
        let error = session.access(&transport).await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("/v3/auth/tokens"), "{error}");
    }
}
