//! `/debug`, a live page, and `/debug/state`, the JSON that it shows.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use steersman_http::{Body, Router, body, text};

use super::DebugQuery;
use crate::Manager;
use crate::manager::WeakManager;

const PAGE: &str = include_str!("page.html");
/// The page loads nothing but the state, from where it came itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Manager {
    /// Adds `/debug` and `/debug/state` to the routes of a server. Protect them: they show the
    /// names of objects and the errors of reconciles.
    #[must_use]
    pub fn debug_routes(&self, router: Router) -> Router {
        routes(router, self.downgrade())
    }
}

/// The routes hold the manager weakly: it holds the server.
pub(crate) fn routes(router: Router, manager: WeakManager) -> Router {
    let manager = Arc::new(manager);
    let state = move |request: Request<Bytes>| {
        let response = state(&manager, &request);
        async move { response }
    };
    let page = |_: Request<Bytes>| async {
        let mut response = response("text/html; charset=utf-8", PAGE);
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        response
    };
    router.get("/debug", page).get("/debug/", page).get("/debug/state", state)
}

fn state(manager: &WeakManager, request: &Request<Bytes>) -> Response<Body> {
    let Ok(manager) = manager.upgrade() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "the manager has ended\n");
    };
    let query = DebugQuery::parse(request.uri().query().unwrap_or_default());
    match serde_json::to_vec(&manager.debug_state(&query)) {
        Ok(json) => response("application/json", json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn response(content_type: &'static str, content: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(body(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
