use std::sync::Arc;

use form_urlencoded::Serializer;
use http::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::session::Session;
use crate::transport::{Answer, Transport};
use crate::{
    Auth, Cloud, Error, Network, NetworkChange, NetworkFilter, NewNetwork, NewPort, NewSubnet, Port, Subnet,
    SubnetChange, SubnetFilter,
};

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// A server whose pages never end is broken.
const PAGES_MAX: usize = 10_000;

/// A client of Neutron. Clones share connections and the token.
///
/// # Contract
///
/// - Every request ends within its time limit (default: 10 s, see [`Cloud::timeout`]), with a
///   response or with an error (test: `a_server_that_never_answers_is_given_up`). A login that is
///   needed first has a limit of its own.
/// - A token is renewed before it expires, and once when Neutron refuses it. Requests that find it
///   expired at the same time share one login (test: `requests_at_once_share_one_login`).
/// - Nothing else is retried: a request that timed out may have been executed, and only the caller
///   knows whether to read first.
#[derive(Clone, Debug)]
pub struct Neutron {
    transport: Arc<Transport>,
    session: Arc<Session>,
}

impl Neutron {
    /// A client of the Neutron at `endpoint`. The catalogue of Keystone is not used.
    pub fn new(endpoint: &str, auth: Auth) -> Result<Self, Error> {
        Self::of(Cloud { endpoint: Some(endpoint.to_owned()), ..Cloud::new(auth) })
    }

    /// A client of the Neutron of this cloud. Nothing is sent yet.
    pub fn of(cloud: Cloud) -> Result<Self, Error> {
        let transport = Arc::new(Transport::new(cloud.ca_file.clone(), cloud.timeout));
        Ok(Self { transport, session: Arc::new(Session::new(cloud)?) })
    }

    /// A client of the Neutron that the variables `OS_*` name ([`Cloud::from_env`]).
    pub fn from_env() -> Result<Self, Error> {
        Self::of(Cloud::from_env()?)
    }

    /// A client of the Neutron of a cloud in `clouds.yaml` ([`Cloud::from_clouds_yaml`]).
    pub fn from_clouds_yaml(name: &str) -> Result<Self, Error> {
        Self::of(Cloud::from_clouds_yaml(name)?)
    }

    /// The networks that match the filter exactly. Equality is also checked here, because a Neutron
    /// on MariaDB ignores case.
    pub async fn networks(&self, filter: &NetworkFilter) -> Result<Vec<Network>, Error> {
        let tags = (!filter.tags.is_empty()).then(|| filter.tags.join(","));
        let query = [
            ("name", filter.name.as_deref()),
            ("description", filter.description.as_deref()),
            ("project_id", filter.project_id.as_deref()),
            ("tags", tags.as_deref()),
        ];
        let mut networks: Vec<Network> = self.list("networks", &query).await?;
        networks.retain(|network| filter.matches(network));
        Ok(networks)
    }

    /// One network; `None` if it does not exist, or belongs to another project.
    pub async fn network(&self, id: &str) -> Result<Option<Network>, Error> {
        self.get("network", id).await
    }

    /// Creates a network.
    pub async fn create_network(&self, new: &NewNetwork) -> Result<Network, Error> {
        self.create("network", new).await
    }

    /// Changes a network; if `revision` is given, only if it still is the newest
    /// ([`Error::is_stale`] otherwise).
    pub async fn update_network(
        &self,
        id: &str,
        change: &NetworkChange,
        revision: Option<i64>,
    ) -> Result<Network, Error> {
        self.update("network", id, change, revision).await
    }

    /// Deletes a network and its subnets. Returns `true` if it existed.
    pub async fn delete_network(&self, id: &str) -> Result<bool, Error> {
        self.delete("network", id).await
    }

    /// The subnets that match the filter exactly.
    pub async fn subnets(&self, filter: &SubnetFilter) -> Result<Vec<Subnet>, Error> {
        let query = [("network_id", filter.network_id.as_deref()), ("description", filter.description.as_deref())];
        let mut subnets: Vec<Subnet> = self.list("subnets", &query).await?;
        subnets.retain(|subnet| filter.matches(subnet));
        Ok(subnets)
    }

    /// One subnet; `None` if it does not exist, or belongs to another project.
    pub async fn subnet(&self, id: &str) -> Result<Option<Subnet>, Error> {
        self.get("subnet", id).await
    }

    /// Creates a subnet.
    pub async fn create_subnet(&self, new: &NewSubnet) -> Result<Subnet, Error> {
        self.create("subnet", new).await
    }

    /// Changes a subnet; if `revision` is given, only if it still is the newest
    /// ([`Error::is_stale`] otherwise).
    pub async fn update_subnet(&self, id: &str, change: &SubnetChange, revision: Option<i64>) -> Result<Subnet, Error> {
        self.update("subnet", id, change, revision).await
    }

    /// Deletes a subnet. Returns `true` if it existed.
    pub async fn delete_subnet(&self, id: &str) -> Result<bool, Error> {
        self.delete("subnet", id).await
    }

    /// The ports in a network.
    pub async fn ports(&self, network_id: &str) -> Result<Vec<Port>, Error> {
        self.list("ports", &[("network_id", Some(network_id))]).await
    }

    /// Creates a port.
    pub async fn create_port(&self, new: &NewPort) -> Result<Port, Error> {
        self.create("port", new).await
    }

    /// Deletes a port. Returns `true` if it existed.
    pub async fn delete_port(&self, id: &str) -> Result<bool, Error> {
        self.delete("port", id).await
    }

    /// All pages of a list.
    async fn list<T: DeserializeOwned>(&self, kind: &str, filter: &[(&str, Option<&str>)]) -> Result<Vec<T>, Error> {
        let mut query = query_of(filter);
        let mut found = Vec::new();
        for _ in 0..PAGES_MAX {
            let path = if query.is_empty() { format!("/{kind}") } else { format!("/{kind}?{query}") };
            let answer = self.send(Method::GET, &path, None, None).await?;
            let page: Value = answer.read()?;
            let items: Vec<T> = field(&answer, page.get(kind))?;
            found.extend(items);
            let links: Option<Vec<Link>> = field(&answer, page.get(format!("{kind}_links")))?;
            // Only the query of the link is used: behind a proxy its host may be one that only the
            // server knows.
            match links.into_iter().flatten().find(|link| link.rel == "next").map(|link| link.href) {
                Some(next) => next.split_once('?').map_or("", |(_, query)| query).clone_into(&mut query),
                None => return Ok(found),
            }
        }
        Err(Error::Unreadable {
            request: format!("GET /{kind}"),
            reason: format!("a list of more than {PAGES_MAX} pages"),
        })
    }

    async fn get<T: DeserializeOwned>(&self, kind: &str, id: &str) -> Result<Option<T>, Error> {
        let answer = self.send(Method::GET, &path_of(kind, id)?, None, None).await?;
        match one(kind, &answer) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create<T: DeserializeOwned>(&self, kind: &str, new: &impl Serialize) -> Result<T, Error> {
        one(kind, &self.send(Method::POST, &format!("/{kind}s"), None, Some(&wrapped(kind, new)?)).await?)
    }

    async fn update<T: DeserializeOwned>(
        &self,
        kind: &str,
        id: &str,
        change: &impl Serialize,
        revision: Option<i64>,
    ) -> Result<T, Error> {
        one(kind, &self.send(Method::PUT, &path_of(kind, id)?, revision, Some(&wrapped(kind, change)?)).await?)
    }

    async fn delete(&self, kind: &str, id: &str) -> Result<bool, Error> {
        let answer = self.send(Method::DELETE, &path_of(kind, id)?, None, None).await?;
        if answer.status.is_success() {
            return Ok(true);
        }
        let refusal = answer.refusal();
        if refusal.is_not_found() { Ok(false) } else { Err(refusal) }
    }

    /// Sends a request with a token. If the token is refused, sends it once more with a new one.
    async fn send(
        &self,
        method: Method,
        path: &str,
        revision: Option<i64>,
        body: Option<&Value>,
    ) -> Result<Answer, Error> {
        let mut access = self.session.access(&self.transport).await?;
        let mut renewed = !self.session.can_log_in();
        loop {
            let mut headers = HeaderMap::new();
            if let Some(token) = &access.token {
                headers.insert(X_AUTH_TOKEN, token.clone());
            }
            if let Some(revision) =
                revision.and_then(|revision| HeaderValue::try_from(format!("revision_number={revision}")).ok())
            {
                headers.insert(IF_MATCH, revision);
            }
            let answer =
                self.transport.send(method.clone(), &format!("{}{path}", access.endpoint), headers, body).await?;
            if answer.status != StatusCode::UNAUTHORIZED || renewed {
                return Ok(answer);
            }
            renewed = true;
            access = self.session.renewed(&access, &self.transport).await?;
        }
    }
}

/// `{"rel": "next", "href": "http://…?limit=…&marker=…"}`
#[derive(Deserialize)]
struct Link {
    rel: String,
    href: String,
}

/// An id may come from another client: it must not change the path of the request.
fn path_of(kind: &str, id: &str) -> Result<String, Error> {
    if id.is_empty() || !id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
        return Err(Error::Config(format!("{id:?} is not the id of a {kind}")));
    }
    Ok(format!("/{kind}s/{id}"))
}

fn wrapped(kind: &str, body: &impl Serialize) -> Result<Value, Error> {
    let body = serde_json::to_value(body).map_err(|reason| Error::Config(reason.to_string()))?;
    Ok(json!({ kind: body }))
}

fn one<T: DeserializeOwned>(kind: &str, answer: &Answer) -> Result<T, Error> {
    let body: Value = answer.read()?;
    field(answer, body.get(kind))
}

fn field<T: DeserializeOwned>(answer: &Answer, value: Option<&Value>) -> Result<T, Error> {
    T::deserialize(value.unwrap_or(&Value::Null)).map_err(|reason| answer.unreadable(&reason.to_string()))
}

impl NetworkFilter {
    fn matches(&self, network: &Network) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.name, &network.name)
            && is(&self.description, &network.description)
            && is(&self.project_id, &network.project_id)
            && self.tags.iter().all(|tag| network.tags.contains(tag))
    }
}

impl SubnetFilter {
    fn matches(&self, subnet: &Subnet) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.network_id, &subnet.network_id) && is(&self.description, &subnet.description)
    }
}

/// A filter as a query. A separate function, because the builder is not `Sync` and must not be held
/// across an await.
fn query_of(filter: &[(&str, Option<&str>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in filter {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}
