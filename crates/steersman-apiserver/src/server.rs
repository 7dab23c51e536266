//! The server: a service that answers requests.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;

use crate::addresses::Pool;
use crate::answer::{self, Answer, Body, Form};
use crate::clock;
use crate::custom::Customs;
use crate::discovery;
use crate::identity::Identity;
use crate::kinds::{Kind, builtin};
use crate::request::{Query, ResourceRequest, Route, Verb};
use crate::review::{is_self_review, review};
use crate::status::{Named, Status};
use crate::store::{Retention, Store};

/// A larger body is refused, as the real server does.
const BODY_MAX: usize = 3 << 20;

/// The namespaces of every cluster. The first three cannot be deleted.
pub(crate) const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A Kubernetes API server. Clones are the same server; two servers share nothing.
///
/// It is a [`tower::Service`]: give it to `kube_client::Client::new` and the client calls it with no socket between.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
    /// Who asks when a request does not say so.
    identity: Arc<Identity>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) customs: Customs,
    pub(crate) addresses: Mutex<Pool>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.shared.store.revision()).finish_non_exhaustive()
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    /// A server with the namespaces that every cluster has, and nothing else.
    pub fn new() -> Self {
        let shared = Arc::new(Shared {
            store: Store::new(Retention::default()),
            customs: Customs::default(),
            addresses: Mutex::default(),
        });
        shared.create_first_namespaces();
        Self { shared, identity: Arc::new(Identity::admin()) }
    }

    /// The same server, which takes requests in process to come from `identity` unless they carry another one.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity: Arc::new(identity) }
    }

    /// Forgets the past, as etcd does now and then: whoever asks for an earlier version gets 410 Gone.
    pub fn compact(&self) {
        self.shared.store.compact(self.shared.store.revision());
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (shared, identity) = (Arc::clone(&self.shared), Arc::clone(&self.identity));
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let identity = parts.extensions.remove::<Identity>().unwrap_or_else(|| Identity::clone(&identity));
            let answer = match read(body).await {
                Ok(body) => {
                    let query = Query::parse(parts.uri.query().unwrap_or_default());
                    let path = parts.uri.path();
                    identity.impersonating(&parts.method, path, &query, &parts.headers).and_then(|identity| {
                        shared.answer(&identity, &parts.method, path, &query, &parts.headers, &body)
                    })
                }
                Err(status) => Err(status),
            };
            Ok(answer.unwrap_or_else(|status| answer::refusal(&status)))
        })
    }
}

async fn read<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::too_large(format!("Request entity too large: limit is {BODY_MAX}")))
        }
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

impl Shared {
    fn answer(
        self: &Arc<Self>,
        identity: &Identity,
        method: &Method,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        let mut answer = self.answer_plainly(identity, method, path, query, headers, body)?;
        if query.is_on("pretty") && query.get("watch").is_none() {
            answer = answer::indented(answer);
        }
        Ok(answer)
    }

    fn answer_plainly(
        self: &Arc<Self>,
        identity: &Identity,
        method: &Method,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        match Route::parse(method, path, query)? {
            Route::Resource(request) => self.resource(identity, &request, query, headers, body),
            Route::Other(path) => other(&path),
            _ if method != Method::GET => Err(Status::no_such_method()),
            route => discovery::answer(&route, &self.customs),
        }
    }

    fn resource(
        self: &Arc<Self>,
        identity: &Identity,
        request: &ResourceRequest,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        let kind = self.kind(&request.group, &request.version, &request.plural).ok_or_else(Status::no_such_path)?;
        if !kind.namespaced && !request.namespace.is_empty() {
            return Err(Status::no_such_path());
        }
        if kind.namespaced && request.namespace.is_empty() {
            match request.verb {
                Verb::List | Verb::Watch => {}
                Verb::Create | Verb::DeleteCollection => return Err(Status::no_such_method()),
                _ => return Err(Status::no_such_path()),
            }
        }
        self.check_verb(&kind, request)?;
        let form = Form::accepted(headers.get(ACCEPT), request.verb == Verb::Watch)?;
        match request.verb {
            Verb::Get => self.get(&kind, request, query, form),
            Verb::List => self.list(&kind, request, query, form),
            Verb::Watch => self.watch(&kind, request, query, form),
            Verb::Create if is_self_review(&kind) => review(identity, &kind, query, headers, body, &self.now()),
            Verb::Create => self.create(&kind, request, query, form, headers, body),
            Verb::Update => self.update(&kind, request, query, form, headers, body),
            Verb::Patch => self.patch(&kind, request, query, form, headers, body),
            Verb::Delete => self.delete(&kind, request, query, form, body),
            Verb::DeleteCollection => self.delete_collection(&kind, request, query, form, body),
        }
    }

    /// The kind that is served there.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        builtin().resource(group, version, plural).cloned().or_else(|| self.customs.kind(group, version, plural))
    }

    /// The time, as objects have it.
    pub(crate) fn now(&self) -> String {
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        clock::rfc3339(elapsed.as_secs())
    }

    fn create_first_namespaces(&self) {
        let kind = self.kind("", "v1", "namespaces").expect("there are namespaces");
        for name in FIRST_NAMESPACES {
            let request = ResourceRequest {
                verb: Verb::Create,
                group: String::new(),
                version: "v1".to_owned(),
                plural: kind.plural.clone(),
                namespace: String::new(),
                name: String::new(),
                subresource: String::new(),
            };
            let body = json!({"metadata": {"name": name}}).to_string().into();
            let created = self.create(&kind, &request, &Query::default(), Form::Whole, &HeaderMap::new(), &body);
            debug_assert!(created.is_ok(), "{name}");
        }
    }

    fn check_verb(&self, kind: &Kind, request: &ResourceRequest) -> Result<(), Status> {
        let verb = request.verb.name();
        if request.subresource.is_empty() {
            if !kind.has_verb(verb) {
                return Err(Status::no_such_method());
            }
            return Ok(());
        }
        let subresource = kind.subresource(&request.subresource).ok_or_else(Status::no_such_path)?;
        if !subresource.verbs.iter().any(|known| known == verb) {
            return Err(Status::no_such_method());
        }
        if request.subresource != "status" {
            let named = Named { group: &kind.group, resource: &format!("{}/{}", kind.plural, request.subresource) };
            return Err(Status::method_not_allowed(named, verb));
        }
        Ok(())
    }
}

/// What is asked of the server rather than of a resource.
fn other(path: &str) -> Answer {
    match path {
        "/version" | "/version/" => {
            let version = &builtin().kubernetes;
            let mut numbers = version.split('.');
            let body = json!({
                "major": numbers.next(),
                "minor": numbers.next(),
                "gitVersion": format!("v{version}"),
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "",
                "goVersion": "",
                "compiler": "rustc",
                "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            });
            Ok(answer::json(StatusCode::OK, body.to_string()))
        }
        "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping" | "/readyz/ping" => {
            Ok(answer::text(StatusCode::OK, "ok"))
        }
        _ => Ok(answer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}
