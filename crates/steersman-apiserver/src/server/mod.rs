//! The server: a service that handles requests.

mod builder;
mod dispatch;
mod open_id;
#[cfg(test)]
pub(crate) mod test_paths;
mod weight;

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
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

pub use self::builder::ApiServerBuilder;
use self::dispatch::error_response;
pub(crate) use self::weight::Weight;
use crate::access::Access;
use crate::access::action::names_nothing;
use crate::access::record::RequestRecord;
use crate::clock;
use crate::request::budget;
use crate::request::identity::Identity;
use crate::request::{HttpRequest, Query};
use crate::response::status::Status;
use crate::response::{self, Body};
use crate::rules::custom::Customs;
use crate::rules::kinds::{Kind, builtin};
use crate::store::Store;
use crate::store::addresses::Pool;
use steersman_http::BodyTimeout;
use steersman_world::World;

/// A larger body is refused, as the real server does.
pub(crate) const BODY_MAX: usize = 3 << 20;
/// The namespaces of every cluster. The first three cannot be deleted.
pub(crate) const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A Kubernetes API server. Clones are the same server; two servers share nothing.
///
/// It is a [`tower::Service`]: give it to `kube_client::Client::new` and the client calls it with
/// no socket between.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
    /// The user of requests without one.
    identity: Arc<Identity>,
}

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) world: World,
    pub(crate) store: Store,
    pub(crate) customs: Customs,
    pub(crate) addresses: Mutex<Pool>,
    pub(crate) access: Access,
    /// Whether there are the objects of every cluster.
    pub(crate) bootstrap: bool,
    /// Whether the work of kube-controller-manager is done.
    pub(crate) controllers: bool,
    /// Whether created objects get managed fields.
    pub(crate) managed_fields: bool,
    /// Whether a watch can begin with all objects.
    pub(crate) streaming_lists: bool,
    /// Whether the admission plugin for owner references is on.
    pub(crate) enforces_owner_references: bool,
    /// The certificate of the authority of the server on a socket.
    pub(crate) authority: Mutex<String>,
    /// The number of requests and watches that have ended in a panic.
    panics: AtomicU64,
    /// The number of requests that a handler has started.
    #[cfg(test)]
    pub(crate) begun: AtomicU64,
    /// The threads on which events of watches were encoded.
    #[cfg(test)]
    pub(crate) encoders: Mutex<Vec<std::thread::ThreadId>>,
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
    /// A server with the objects that every cluster has.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A server that takes creation timestamps, uids and generated names from `world`.
    pub fn with_world(world: World) -> Self {
        Self::builder().world(world).build()
    }

    /// The same server. Requests in process come from `identity` unless they have another one.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { shared: Arc::clone(&self.shared), identity: Arc::new(identity) }
    }

    /// The same server with RBAC: a request is refused unless a role permits it. Without it every
    /// user may do everything.
    ///
    /// It is that of kube-apiserver with `--authorization-mode=RBAC`, and begins with the roles
    /// and bindings that are stored. Members of `system:masters`, such as the
    /// [default user](Identity::admin), need no role. It holds for all clones of the server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use http_body_util::Full;
    /// use steersman_apiserver::{ApiServer, Identity};
    /// use tower::Service;
    ///
    /// let server = ApiServer::new().with_rbac();
    /// let mut jane = server.acting_as(Identity::new("jane", ["developers"]));
    /// let request = http::Request::get("/api/v1/pods").body(Full::<bytes::Bytes>::default()).unwrap();
    /// assert_eq!(jane.call(request).await.unwrap().status(), 403);
    /// # }
    /// ```
    #[must_use]
    pub fn with_rbac(self) -> Self {
        self.shared.access.use_rbac();
        self
    }

    /// The same server with a record of its requests, for all of its clones: see
    /// [`requests`](Self::requests).
    #[must_use]
    pub fn with_request_record(self) -> Self {
        self.shared.access.start_record();
        self
    }

    /// The requests since [`with_request_record`](Self::with_request_record), each once with the
    /// number of its repetitions. Empty without it.
    ///
    /// A request is recorded as authorization sees it, with RBAC or without, also if it is refused
    /// or fails later. An impersonation is recorded as the permissions that it needs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use http_body_util::Full;
    /// use steersman_apiserver::ApiServer;
    /// use tower::Service;
    ///
    /// let mut server = ApiServer::new().with_request_record();
    /// let request = http::Request::get("/api/v1/pods?watch=1").body(Full::<bytes::Bytes>::default()).unwrap();
    /// server.call(request).await.unwrap();
    /// let record = server.requests();
    /// assert_eq!((record.requests[0].verb.as_str(), record.requests[0].resource.as_str()), ("watch", "pods"));
    /// assert_eq!((record.requests[0].user.as_str(), record.requests[0].allowed), ("steersman-admin", true));
    /// # }
    /// ```
    pub fn requests(&self) -> RequestRecord {
        self.shared.access.record()
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Compacts the history, as etcd does now and then: a request for an earlier version gets 410
    /// Gone.
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

/// A request with its whole body, or why that could not be read.
pub(crate) struct Received {
    parts: Parts,
    body: Result<Bytes, BodyError>,
}

enum BodyError {
    Refused(Status),
    CaughtPanic(CaughtPanic),
}

/// A panic that was caught. The response to its request has it as an extension, for the log.
#[derive(Clone, Debug)]
pub(crate) struct CaughtPanic {
    /// The number of panics, including this one.
    pub(crate) count: u64,
    pub(crate) message: String,
}

impl CaughtPanic {
    /// The answer to the request that it ended.
    pub(crate) fn response(self) -> Response<Body> {
        let mut response = response::error(&Status::panicked());
        response.extensions_mut().insert(self);
        response
    }
}

impl ApiServer {
    /// Reads the body of a request. A panic in the body is an error of the request, not of the
    /// caller.
    pub(crate) async fn receive<B>(&self, request: Request<B>) -> Received
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let body = match AssertUnwindSafe(read(body)).catch_unwind().await {
            Ok(body) => body.map_err(BodyError::Refused),
            Err(panic) => Err(BodyError::CaughtPanic(self.shared.count_panic(&*panic))),
        };
        Received { parts, body }
    }

    /// The user of the bearer token in these headers, if they have one and it is valid.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Option<Identity> {
        self.shared.bearer(headers)?.ok()
    }

    /// Handles a request. This never waits, and a panic in it is answered with 500.
    pub(crate) fn respond(&self, received: Received) -> Response<Body> {
        // A panic in a handler is caught within, where the way in which the client reads is known.
        let responded = std::panic::catch_unwind(AssertUnwindSafe(|| self.handled(received)));
        responded.unwrap_or_else(|panic| self.shared.count_panic(&*panic).response())
    }

    fn handled(&self, received: Received) -> Response<Body> {
        let Received { mut parts, body } = received;
        #[cfg(test)]
        self.shared.begun.fetch_add(1, Ordering::Relaxed);
        let identity = parts.extensions.remove::<Identity>();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let handle = |body: Bytes| {
            let request = HttpRequest {
                method: &parts.method,
                path: parts.uri.path(),
                query: &query,
                headers: &parts.headers,
                body: &body,
            };
            if names_nothing(request.path) {
                let uri = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
                return Ok(response::unreadable(uri));
            }
            let identity = match identity {
                Some(identity) => identity,
                None => match self.shared.bearer(request.headers) {
                    Some(authenticated) => authenticated?,
                    None => Identity::clone(&self.identity),
                },
            };
            let identity = self.shared.impersonated(identity, &request)?;
            self.shared.authorize(&identity, &request)?;
            let response = self.shared.handle(&identity, &request);
            // Errors that were found before the limit was reached are not the reason of the
            // refusal.
            response.map_err(|status| budget::check().err().unwrap_or(status))
        };
        let (response, cost) = budget::metered(|| match body {
            Ok(body) => std::panic::catch_unwind(AssertUnwindSafe(|| handle(body)))
                .map_err(|panic| self.shared.count_panic(&*panic)),
            Err(BodyError::Refused(status)) => Ok(Err(status)),
            Err(BodyError::CaughtPanic(panicked)) => Err(panicked),
        });
        #[cfg(test)]
        test_paths::answer(parts.uri.path());
        let refused = |status: Status| error_response(&status, &query, &parts.headers);
        let mut response = match response {
            Ok(response) => response.unwrap_or_else(refused),
            Err(panicked) => {
                let mut response = refused(Status::panicked());
                response.extensions_mut().insert(panicked);
                response
            }
        };
        response.extensions_mut().insert(cost);
        if parts.method == Method::HEAD { response::without_body(response) } else { response }
    }

    /// The number of requests that have ended in a panic, which is a bug of this server. Each got
    /// 500.
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

impl Shared {
    /// Counts a panic.
    pub(crate) fn count_panic(&self, panic: &(dyn Any + Send)) -> CaughtPanic {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let count = self.panics.fetch_add(1, Ordering::Relaxed) + 1;
        CaughtPanic { count, message: text.to_owned() }
    }

    /// The kind that is served there.
    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        builtin().resource(group, version, plural).cloned().or_else(|| self.customs.kind(group, version, plural))
    }

    /// The time in the form of objects.
    pub(crate) fn now(&self) -> String {
        clock::rfc3339(self.seconds())
    }

    /// The time in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        u64::try_from(self.world.now().as_second()).unwrap_or_default()
    }
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
        let Ok(response) = server.call(Request::post("/api/v1/namespaces").body(Broken).unwrap()).await;
        assert_eq!(response.status(), 500);
        let Ok(response) = server.call(Request::get("/panic").body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(response.status(), 500);
        assert_eq!(server.panics(), 2);
    }
}
