//! Paths and their handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

use crate::BodyTimeout;

/// The body of a response. [`body`] makes one of bytes.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Answers the requests of a route. Functions that take a request and return the future of a
/// response are handlers.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request, whose body has been read.
    fn handle(&self, request: Request<Bytes>) -> ResponseFuture;
}

impl<F, R> Handler for F
where
    F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    fn handle(&self, request: Request<Bytes>) -> ResponseFuture {
        Box::pin(self(request))
    }
}

/// Decides whether a request is answered, before its body is read.
pub trait Guard: Send + Sync + 'static {
    /// Lets a request through, or returns the response that refuses it.
    fn check<'a>(&'a self, request: &'a Parts)
    -> Pin<Box<dyn Future<Output = Result<(), Response<Body>>> + Send + 'a>>;
}

/// Maps paths to handlers.
///
/// Other paths are answered with 404 and methods that a route does not have with 405. A handler
/// that panics is answered with 500 (test `a_handler_that_panics_is_answered_with_500`).
///
/// A route for GET and HEAD reads no body: a request that has one is refused with 413
/// (test `a_route_that_only_reads_takes_no_body`). A request that is refused before its body is
/// read ends its connection.
#[derive(Clone, Default)]
pub struct Router {
    routes: BTreeMap<String, Route>,
    guard: Option<Arc<dyn Guard>>,
}

#[derive(Clone)]
struct Route {
    handler: Arc<dyn Handler>,
    /// Also for all paths below.
    below: bool,
    reads_only: bool,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes.keys()).finish()
    }
}

impl Router {
    /// A router without routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers GET and HEAD at `path`. A second handler for a path replaces the first.
    #[must_use]
    pub fn get(self, path: impl Into<String>, handler: impl Handler) -> Self {
        self.with(path, Route { handler: Arc::new(handler), below: false, reads_only: true })
    }

    /// Answers GET and HEAD at `path` and at all paths below it that have no handler of their own.
    #[must_use]
    pub fn get_below(self, path: impl Into<String>, handler: impl Handler) -> Self {
        self.with(path, Route { handler: Arc::new(handler), below: true, reads_only: true })
    }

    /// Answers every method at `path`.
    #[must_use]
    pub fn route(self, path: impl Into<String>, handler: impl Handler) -> Self {
        self.with(path, Route { handler: Arc::new(handler), below: false, reads_only: false })
    }

    fn with(mut self, path: impl Into<String>, route: Route) -> Self {
        self.routes.insert(path.into(), route);
        self
    }

    /// Asks `guard` about every request, also about those that no route answers.
    #[must_use]
    pub fn guard(mut self, guard: impl Guard) -> Self {
        self.guard = Some(Arc::new(guard));
        self
    }

    fn find(&self, path: &str) -> Option<&Route> {
        if let Some(route) = self.routes.get(path) {
            return Some(route);
        }
        let mut above = path;
        while let Some((shorter, _)) = above.rsplit_once('/') {
            above = shorter;
            if let Some(route) = self.routes.get(above).filter(|route| route.below) {
                return Some(route);
            }
        }
        None
    }

    /// Answers a request with a body of at most `body_max` bytes. `begin` is called when the
    /// handler is about to run; if it returns false, the handler does not run.
    pub(crate) async fn respond<B>(
        &self,
        request: Request<B>,
        body_max: usize,
        begin: impl FnOnce() -> bool + Send,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path().to_owned();
        // HTTP/2 cancels the stream instead.
        let closes = has_body(request.body()) && request.version() < Version::HTTP_2;
        let responding = AssertUnwindSafe(self.try_respond(request, body_max, begin)).catch_unwind();
        match responding.await {
            Ok(Ok(response)) => response,
            Ok(Err(mut refusal)) => {
                if closes {
                    refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                refusal
            }
            Err(_) => {
                tracing::error!(path, "a handler of an HTTP request panicked");
                text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error\n")
            }
        }
    }

    async fn try_respond<B>(
        &self,
        request: Request<B>,
        body_max: usize,
        begin: impl FnOnce() -> bool + Send,
    ) -> Result<Response<Body>, Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        if let Some(guard) = &self.guard {
            guard.check(&parts).await?;
        }
        let route = self.find(parts.uri.path()).ok_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found\n"))?;
        if route.reads_only && !matches!(parts.method, Method::GET | Method::HEAD) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Err(refused);
        }
        if route.reads_only && has_body(&body) {
            return Err(text(StatusCode::PAYLOAD_TOO_LARGE, "this path takes no request body\n"));
        }
        let body = Limited::new(body, body_max).collect().await.map_err(|error| refuse_body(&*error, body_max))?;
        if !begin() {
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n"));
        }
        Ok(route.handler.handle(Request::from_parts(parts, body.to_bytes())).await)
    }
}

fn has_body(body: &impl http_body::Body) -> bool {
    !body.is_end_stream() && body.size_hint().exact() != Some(0)
}

fn refuse_body(error: &(dyn std::error::Error + Send + Sync + 'static), body_max: usize) -> Response<Body> {
    if error.is::<LengthLimitError>() {
        return text(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {body_max} bytes\n"));
    }
    let is_slow = error.is::<BodyTimeout>();
    let status = if is_slow { StatusCode::REQUEST_TIMEOUT } else { StatusCode::BAD_REQUEST };
    text(status, format!("{error}\n"))
}

/// A body of bytes.
pub fn body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A response of plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(body(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Text of an error may quote the request.
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(router: &Router, method: Method, path: &str, sent: &'static str) -> (u16, String) {
        let body = Full::new(Bytes::from_static(sent.as_bytes()));
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let response = router.respond(request, 10, || true).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn named(name: &'static str) -> impl Handler {
        move |request: Request<Bytes>| async move {
            text(StatusCode::OK, format!("{name} {} {}", request.uri().path(), request.body().len()))
        }
    }

    fn router() -> Router {
        Router::new()
            .get("/metrics", named("metrics"))
            .get_below("/readyz", named("readyz"))
            .get("/readyz/own", named("own"))
            .route("/convert", named("convert"))
    }

    #[tokio::test]
    async fn a_path_finds_its_route_and_no_other() {
        let router = router();
        let cases = [
            ("/metrics", (200, "metrics /metrics 0")),
            ("/metrics?name=x", (200, "metrics /metrics 0")),
            ("/metrics/", (404, "404 page not found\n")),
            ("/metricsx", (404, "404 page not found\n")),
            ("/", (404, "404 page not found\n")),
            ("/readyz", (200, "readyz /readyz 0")),
            ("/readyz/", (200, "readyz /readyz/ 0")),
            ("/readyz/a/b", (200, "readyz /readyz/a/b 0")),
            ("/readyz/own", (200, "own /readyz/own 0")),
            ("/readyzz", (404, "404 page not found\n")),
        ];
        for (path, (status, text)) in cases {
            assert_eq!(ask(&router, Method::GET, path, "").await, (status, text.to_owned()), "{path}");
        }
    }

    #[tokio::test]
    async fn methods_and_large_bodies_are_refused() {
        let router = router();
        assert_eq!(ask(&router, Method::POST, "/metrics", "").await.0, 405);
        assert_eq!(ask(&router, Method::HEAD, "/metrics", "").await.0, 200);
        assert_eq!(ask(&router, Method::POST, "/convert", "0123456789").await.1, "convert /convert 10");
        let (status, text) = ask(&router, Method::POST, "/convert", "0123456789a").await;
        assert_eq!((status, &*text), (413, "the body is larger than 10 bytes\n"));
    }

    #[tokio::test]
    async fn a_route_that_only_reads_takes_no_body() {
        let router = router();
        for path in ["/metrics", "/readyz/own"] {
            let (status, text) = ask(&router, Method::GET, path, "0").await;
            assert_eq!((status, &*text), (413, "this path takes no request body\n"), "{path}");
        }
        assert_eq!(ask(&router, Method::HEAD, "/metrics", "0").await.0, 413);
    }

    #[tokio::test]
    async fn a_handler_does_not_run_for_an_evicted_connection() {
        let request = Request::new(Full::new(Bytes::new()));
        let router = Router::new().get("/", async |_| panic!("it runs"));
        assert_eq!(router.respond(request, 0, || false).await.status(), 503);
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_with_500() {
        let router = Router::new().get("/", async |_| panic!("on purpose"));
        assert_eq!(ask(&router, Method::GET, "/", "").await.0, 500);
    }

    struct Closed;

    impl Guard for Closed {
        fn check<'a>(
            &'a self,
            request: &'a Parts,
        ) -> Pin<Box<dyn Future<Output = Result<(), Response<Body>>> + Send + 'a>> {
            let open = request.headers.contains_key("authorization");
            Box::pin(async move { if open { Ok(()) } else { Err(text(StatusCode::UNAUTHORIZED, "Unauthorized\n")) } })
        }
    }

    #[tokio::test]
    async fn a_guard_is_asked_before_a_route_is_looked_for() {
        let router = router().guard(Closed);
        for path in ["/metrics", "/nowhere", "/readyz/own"] {
            assert_eq!(ask(&router, Method::GET, path, "").await.0, 401, "{path}");
        }
        let request = Request::builder().uri("/metrics").header("authorization", "Bearer x");
        let response = router.respond(request.body(Full::new(Bytes::new())).unwrap(), 0, || true).await;
        assert_eq!(response.status(), 200);
    }
}
