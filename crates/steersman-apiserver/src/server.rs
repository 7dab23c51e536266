//! The server: a service that answers requests.

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;

use crate::addresses::Pool;
use crate::answer::{self, Answer, Body, Form, Wanted, Warnings};
use crate::budget;
use crate::clock;
use crate::convert;
use crate::custom::Customs;
use crate::discovery;
use crate::identity::Identity;
use crate::kinds::{Kind, builtin};
use crate::negotiation::{self, Encoding};
use crate::protobuf;
use crate::request::{Query, ResourceRequest, Route, Verb};
use crate::review::is_self_review;
use crate::scale::SCALE;
use crate::serve::BodyTimeout;
use crate::status::{Named, Status};
use crate::store::{Retention, Store};
use steersman_world::World;

/// A larger body is refused, as the real server does.
pub(crate) const BODY_MAX: usize = 3 << 20;
/// The body of a large write.
const LARGE_BODY: usize = 16 << 10;
/// The same of a patch, whose operations each may touch a whole object.
const LARGE_PATCH: usize = 2 << 10;
/// A list with a longer query is not light: each requirement of a selector is held against each object.
const LIGHT_QUERY_MAX: usize = 1 << 10;
/// Discovery of more definitions is not light.
const LIGHT_DISCOVERY_MAX: usize = 256;

/// The namespaces of every cluster. The first three cannot be deleted.
pub(crate) const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A Kubernetes API server. Clones are the same server; two servers share nothing.
///
/// It is a [`tower::Service`]: give it to `kube_client::Client::new` and the client calls it with no socket between.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
    /// Who asks when a request does not say so.
    identity: Arc<Identity>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) world: World,
    pub(crate) store: Store,
    pub(crate) customs: Customs,
    pub(crate) addresses: Mutex<Pool>,
    /// How many requests and watches have ended in a panic.
    panics: AtomicU64,
    /// How many requests a handler has begun with.
    #[cfg(test)]
    pub(crate) begun: AtomicU64,
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
        Self::with_world(World::system())
    }

    /// A server that takes creation timestamps, uids and generated names from `world`.
    pub fn with_world(world: World) -> Self {
        let shared = Arc::new(Shared {
            world,
            store: Store::new(Retention::default()),
            customs: Customs::default(),
            addresses: Mutex::default(),
            panics: AtomicU64::new(0),
            #[cfg(test)]
            begun: AtomicU64::new(0),
        });
        shared.create_first_namespaces();
        Self { shared, identity: Arc::new(Identity::admin()) }
    }

    /// The same server, which takes requests in process to come from `identity` unless they carry another one.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity: Arc::new(identity) }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
        let server = self.clone();
        Box::pin(async move {
            let received = server.receive(request).await;
            Ok(server.respond(received))
        })
    }
}

/// A request with all of its body, or why that could not be read.
pub(crate) struct Received {
    parts: Parts,
    body: Result<Bytes, Unread>,
}

enum Unread {
    Refused(Status),
    Panicked(Panicked),
}

/// A panic that was caught. The response to its request has it as an extension, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Panicked {
    /// How many there have been, with this one.
    pub(crate) count: u64,
    pub(crate) message: String,
}

/// Where a request is answered on a socket. In process all are answered inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// By the thread of its connection: the answer is there already, or is made step by step as it is sent.
    Light,
    /// The answer is made of stored objects, which may be many.
    Read,
    /// The request is small. What it does to stored objects, or sets off, may be not.
    SmallWrite,
    LargeWrite,
}

impl ApiServer {
    /// How much a request may take, as far as that can be told without a look at stored objects.
    pub(crate) fn weight(&self, Received { parts, body }: &Received) -> Weight {
        // A request that is refused before anything is done is light.
        let Ok(body) = body else { return Weight::Light };
        let (method, headers) = (&parts.method, &parts.headers);
        if body.len() >= if method == Method::PATCH { LARGE_PATCH } else { LARGE_BODY } {
            return Weight::LargeWrite;
        }
        let text = parts.uri.query().unwrap_or_default();
        let query = Query::parse(text);
        let (request, kind) = match Route::parse(method, parts.uri.path(), &query) {
            Err(_) | Ok(Route::Other(_)) => return Weight::Light,
            Ok(Route::Resource(request)) => match self.shared.kind(&request.group, &request.version, &request.plural) {
                Some(kind) => (request, kind),
                None => return Weight::Light,
            },
            Ok(_) if is_rewritten(&query, headers) => return Weight::Read,
            Ok(_) if self.shared.customs.len() > LIGHT_DISCOVERY_MAX => return Weight::Read,
            Ok(_) => return Weight::Light,
        };
        let is_made = || {
            request.subresource == SCALE
                || is_rewritten(&query, headers)
                || convert::served(&kind).is_some()
                || !self.shared.customs.are_seen_as_stored(&kind)
        };
        let is_whole = || {
            let wanted = Wanted::read(negotiation::accept(headers), false);
            wanted.is_ok_and(|wanted| matches!(wanted.form, Form::Whole))
        };
        match request.verb {
            Verb::Watch => Weight::Light,
            Verb::Get if is_made() => Weight::Read,
            Verb::Get => Weight::Light,
            Verb::List if is_made() || text.len() > LIGHT_QUERY_MAX || !is_whole() => Weight::Read,
            Verb::List => Weight::Light,
            _ => Weight::SmallWrite,
        }
    }
}

impl ApiServer {
    /// Reads the body of a request. A panic in the body is an error of the request, not of the caller.
    pub(crate) async fn receive<B>(&self, request: Request<B>) -> Received
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let body = match AssertUnwindSafe(read(body)).catch_unwind().await {
            Ok(body) => body.map_err(Unread::Refused),
            Err(panic) => Err(Unread::Panicked(self.shared.panicked(&*panic))),
        };
        Received { parts, body }
    }

    /// Answers a request. This never waits, and a panic in it is answered with 500.
    pub(crate) fn respond(&self, received: Received) -> Response<Body> {
        let Received { mut parts, body } = received;
        #[cfg(test)]
        self.shared.begun.fetch_add(1, Ordering::Relaxed);
        let identity = parts.extensions.remove::<Identity>().unwrap_or_else(|| Identity::clone(&self.identity));
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let handle = |body: Bytes| {
            let path = parts.uri.path();
            let identity = identity.impersonating(&parts.method, path, &query, &parts.headers)?;
            let answer = self.shared.answer(&identity, &parts.method, path, &query, &parts.headers, &body);
            // What was found before the end of the work is not what is wrong with the request.
            answer.map_err(|status| budget::check().err().unwrap_or(status))
        };
        let (answer, cost) = budget::metered(|| match body {
            Ok(body) => std::panic::catch_unwind(AssertUnwindSafe(|| handle(body)))
                .map_err(|panic| self.shared.panicked(&*panic)),
            Err(Unread::Refused(status)) => Ok(Err(status)),
            Err(Unread::Panicked(panicked)) => Err(panicked),
        });
        let refused = |status: Status| refusal(&status, &query, &parts.headers);
        let mut answer = match answer {
            Ok(answer) => answer.unwrap_or_else(refused),
            Err(panicked) => {
                let mut answer = refused(Status::panicked());
                answer.extensions_mut().insert(panicked);
                answer
            }
        };
        answer.extensions_mut().insert(cost);
        if parts.method == Method::HEAD { answer::without_body(answer) } else { answer }
    }

    /// How many requests have ended in a panic, which is a fault of this server. Each was answered with 500.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
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
        Err(error) if error.is::<BodyTimeout>() => Err(Status::timeout(error.to_string())),
        Err(error) => Err(Status::bad_request(error.to_string())),
    }
}

/// A refusal in the way the client reads. It is never converted to another kind: who accepts nothing else gets JSON.
fn refusal(status: &Status, query: &Query, headers: &HeaderMap) -> Response<Body> {
    let answer = answer::refusal(status);
    match negotiation::negotiate(negotiation::accept(headers), |conversion| conversion.is_none()) {
        None => answer::indented(answer),
        Some(agreed) if agreed.encoding == Encoding::Yaml => answer::in_yaml(answer),
        Some(agreed) if negotiation::is_pretty(query, headers, &agreed) => answer::indented(answer),
        Some(_) => answer,
    }
}

/// Whether an answer is parsed and written again in the way the client reads.
fn is_rewritten(query: &Query, headers: &HeaderMap) -> bool {
    negotiation::negotiate(negotiation::accept(headers), answer::is_served)
        .is_some_and(|agreed| agreed.encoding == Encoding::Yaml || negotiation::is_pretty(query, headers, &agreed))
}

/// An object in the way the client reads.
fn encoded(answer: Response<Body>, query: &Query, headers: &HeaderMap) -> Response<Body> {
    if !answer::is_json(&answer) {
        return answer;
    }
    match negotiation::negotiate(negotiation::accept(headers), answer::is_served) {
        Some(agreed) if agreed.encoding == Encoding::Yaml => answer::in_yaml(answer),
        Some(agreed) if negotiation::is_pretty(query, headers, &agreed) => answer::indented(answer),
        _ => answer,
    }
}

impl Shared {
    /// Counts a panic.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) -> Panicked {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let count = self.panics.fetch_add(1, Ordering::Relaxed) + 1;
        Panicked { count, message: text.to_owned() }
    }

    fn answer(
        self: &Arc<Self>,
        identity: &Identity,
        method: &Method,
        path: &str,
        query: &Query,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        match Route::parse(method, path, query)? {
            Route::Resource(request) => {
                let warnings = self.customs.deprecation(&request);
                match self.resource(identity, &request, query, headers, body) {
                    Ok(answer) if request.verb == Verb::Watch => Ok(answer.warning_first(&warnings)),
                    Ok(answer) => Ok(encoded(answer, query, headers).warning_first(&warnings)),
                    Err(status) => Err(status.with_warnings(warnings)),
                }
            }
            Route::Other(path) => self.other(method, &path, headers),
            Route::Root => Ok(discovery::paths(&self.customs)),
            _ if method != Method::GET => Err(Status::no_such_method()),
            route => {
                let accept = negotiation::accept(headers);
                if let Some(answer) = discovery::aggregated(&route, &self.customs, accept) {
                    return Ok(answer);
                }
                Ok(encoded(discovery::answer(&route, &self.customs, accept)?, query, headers))
            }
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
        let Some(kind) = self.kind(&request.group, &request.version, &request.plural) else {
            let is_built_in = builtin().group(&request.group).is_some();
            return if is_built_in { Err(Status::no_such_path()) } else { Ok(no_such_page()) };
        };
        let is_across = matches!(request.verb, Verb::List | Verb::Watch) && request.namespace.is_empty();
        if !kind.is_built_in() && kind.namespaced == request.namespace.is_empty() && !is_across {
            return Ok(no_such_page());
        }
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
        let (headers, body) = protobuf::in_json(&kind, request.verb, headers, body)?;
        let (headers, body) = (&*headers, &*body);
        let wanted = Wanted::read(negotiation::accept(headers), request.verb == Verb::Watch)?;
        let (kind, form) = match convert::served(&kind) {
            Some((stored, view)) => (stored, wanted.form.of_view(view)),
            None => (kind, wanted.form),
        };
        let answer = match request.verb {
            _ if request.subresource == SCALE => self.scale(&kind, request, query, form, headers, body),
            Verb::Get => self.get(&kind, request, query, form),
            Verb::List => self.list(&kind, request, query, form),
            Verb::Watch => self.watch(&kind, request, query, form),
            Verb::Create if request.subresource == "eviction" => self.evict(request, query, headers, body),
            Verb::Create if request.subresource == "binding" || is_bindings(&kind) => {
                self.bind(request, query, headers, body)
            }
            Verb::Create if is_self_review(&kind) => self.review(identity, &kind, query, headers, body),
            Verb::Create => self.create(&kind, request, query, form, headers, body),
            Verb::Update => self.update(&kind, request, query, form, headers, body),
            Verb::Patch => self.patch(&kind, request, query, form, headers, body),
            Verb::Delete => self.delete(&kind, request, query, form, body),
            Verb::DeleteCollection => self.delete_collection(&kind, request, query, form, body),
        };
        if answer.is_ok() && matches!(request.verb, Verb::Get | Verb::List | Verb::Create | Verb::Update | Verb::Patch)
        {
            wanted.check_shape(&kind, request.verb == Verb::List)?;
        }
        answer
    }

    /// What is asked of the server rather than of a resource.
    fn other(self: &Arc<Self>, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        #[cfg(test)]
        if let Some(answer) = crate::test_paths::answer(path, self) {
            return Ok(answer);
        }
        match path {
            _ if path.trim_end_matches('/') == "/version" => {
                if method != Method::GET {
                    return Err(Status::no_such_method());
                }
                negotiation::check_media_type(negotiation::accept(headers), Encoding::Json.media_type())?;
                Ok(version())
            }
            _ if path.starts_with("/version/") => Err(Status::no_such_path()),
            _ if discovery::HEALTH.contains(&path) => Ok(answer::text(StatusCode::OK, "ok")),
            _ => Ok(no_such_page()),
        }
    }

    /// The kind that is served there.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        builtin().resource(group, version, plural).cloned().or_else(|| self.customs.kind(group, version, plural))
    }

    /// The time, as objects have it.
    pub(crate) fn now(&self) -> String {
        clock::rfc3339(self.seconds())
    }

    /// The time in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        u64::try_from(self.world.now().as_second()).unwrap_or_default()
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
            // Custom resources take every verb, whatever discovery says while their definition is being deleted.
            if kind.is_built_in() && !kind.has_verb(verb) {
                return Err(Status::no_such_method());
            }
            return Ok(());
        }
        let subresource = kind.subresource(&request.subresource).ok_or_else(|| {
            if kind.is_built_in() { Status::no_such_path() } else { Status::not_found(kind.named(), &request.name) }
        })?;
        if !subresource.verbs.iter().any(|known| known == verb) {
            let of_custom = || Status::method_not_allowed(kind.named(), verb);
            return Err(if kind.is_built_in() { Status::no_such_method() } else { of_custom() });
        }
        if !matches!(request.subresource.as_str(), "status" | "finalize" | "eviction" | "binding" | SCALE) {
            let named = Named { group: &kind.group, resource: &format!("{}/{}", kind.plural, request.subresource) };
            return Err(Status::method_not_allowed(named, verb));
        }
        Ok(())
    }
}

/// The answer of nobody in particular.
fn no_such_page() -> Response<Body> {
    answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// The architecture, as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Which release the server behaves as. What it says of its build is our own.
fn version() -> Response<Body> {
    let version = &builtin().kubernetes;
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // The oldest release that it can be rolled back to: the one before.
    let before = minor.parse().unwrap_or(1_u32).saturating_sub(1).to_string();
    let body = json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": before,
        "gitVersion": format!("v{version}"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    answer::indented(answer::json(StatusCode::OK, body.to_string()))
}

/// The older way to bind a Pod.
fn is_bindings(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "bindings"
}

#[cfg(test)]
mod tests {
    use tower::Service;

    use super::*;

    /// A body that panics when it is read.
    struct Broken;

    impl http_body::Body for Broken {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            panic!("as the test wants")
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_in_process_too() {
        let mut server = ApiServer::new();
        let Ok(answer) = server.call(Request::post("/api/v1/namespaces").body(Broken).unwrap()).await;
        assert_eq!(answer.status(), 500);
        let Ok(answer) = server.call(Request::get("/panic").body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(answer.status(), 500);
        assert_eq!(server.panics(), 2);
    }
}
