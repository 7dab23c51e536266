//! The expected work of a request, which decides on which thread a socket serves it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http::{HeaderMap, Method};

use super::{ApiServer, CaughtPanic, Received};
use crate::request::negotiation::{self, Encoding};
use crate::request::{Query, Route, Verb};
use crate::response::form::{self, Accepted, Form};
use crate::response::openapi;
use crate::rules::convert;
use crate::verbs::scale::SCALE;

/// The body of a large write.
const LARGE_BODY: usize = 16 << 10;
/// The same for a patch, whose operations each may touch a whole object.
const LARGE_PATCH: usize = 2 << 10;
/// A list with a longer query is not light: each requirement of a selector is compared with each
/// object.
const LIGHT_QUERY_MAX: usize = 1 << 10;
/// Discovery whose document takes more memory is not light: that of about 256 definitions.
const LIGHT_DISCOVERY_MAX: usize = 256 << 10;

/// The thread of a request on a socket. In process all are handled inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The thread of its connection: the response exists already, or is produced while it is sent.
    Light,
    /// The response is produced from stored objects, which may be many.
    Read,
    /// The request is small. Its effect on stored objects, or its consequences, may not be.
    SmallWrite,
    LargeWrite,
}

impl ApiServer {
    /// The weight of a request, as far as it is known without reading stored objects.
    pub(crate) fn weight(&self, received: &Received) -> Result<Weight, CaughtPanic> {
        catch_unwind(AssertUnwindSafe(|| self.weigh(received))).map_err(|panic| self.shared.count_panic(&*panic))
    }

    fn weigh(&self, Received { parts, body }: &Received) -> Weight {
        #[cfg(test)]
        super::test_paths::weigh(parts.uri.path());
        // A request that is refused before anything is done is light.
        let Ok(body) = body else { return Weight::Light };
        let (method, headers) = (&parts.method, &parts.headers);
        if body.len() >= if method == Method::PATCH { LARGE_PATCH } else { LARGE_BODY } {
            return Weight::LargeWrite;
        }
        let text = parts.uri.query().unwrap_or_default();
        let query = Query::parse(text);
        let (request, kind) = match Route::parse(method, parts.uri.path(), &query) {
            Ok(Route::Other(path)) if openapi::is_document(&path) => return Weight::Read,
            Err(_) | Ok(Route::Other(_)) => return Weight::Light,
            Ok(Route::Resource(request)) => match self.shared.kind(&request.group, &request.version, &request.plural) {
                Some(kind) => (request, kind),
                None => return Weight::Light,
            },
            Ok(_) if is_rewritten(&query, headers) => return Weight::Read,
            Ok(_) if self.shared.customs.listed() > LIGHT_DISCOVERY_MAX => return Weight::Read,
            Ok(_) => return Weight::Light,
        };
        let is_made = || {
            request.subresource == SCALE
                || is_rewritten(&query, headers)
                || convert::served(&kind).is_some()
                || !self.shared.customs.are_seen_as_stored(&kind)
        };
        let form = || Accepted::read(negotiation::accept(headers), false).map(|accepted| accepted.form);
        let is_whole = || matches!(form(), Ok(Form::Whole));
        let is_table = || matches!(form(), Ok(Form::Table(_)));
        let is_long = || self.shared.store.is_long(&kind.id());
        match request.verb {
            Verb::Watch if is_long() => Weight::Read,
            Verb::Watch => Weight::Light,
            Verb::Get if is_made() || is_table() => Weight::Read,
            Verb::Get => Weight::Light,
            Verb::List if is_made() || text.len() > LIGHT_QUERY_MAX || !is_whole() || is_long() => Weight::Read,
            Verb::List => Weight::Light,
            _ => Weight::SmallWrite,
        }
    }
}

/// Whether a response is converted to the encoding that the client accepts.
fn is_rewritten(query: &Query, headers: &HeaderMap) -> bool {
    negotiation::negotiate(negotiation::accept(headers), form::is_served).is_some_and(|negotiated| {
        negotiated.encoding == Encoding::Yaml || negotiation::is_pretty(query, headers, &negotiated)
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::Full;
    use serde_json::{Value, json};
    use tower::Service;

    use super::*;

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    async fn weight(server: &ApiServer, path: &str) -> Weight {
        let request = Request::get(path).body(Full::<bytes::Bytes>::default()).unwrap();
        server.weight(&server.receive(request).await).unwrap()
    }

    /// Creates a definition with this many versions and categories.
    async fn define(server: &ApiServer, plural: &str, versions: usize, categories: usize) {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version =
            |at: usize| json!({"name": format!("v{at}"), "served": true, "storage": at == 0, "schema": schema});
        let categories: Vec<String> = (0..categories).map(|at| format!("c{at}")).collect();
        let definition = json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": plural, "kind": plural.to_uppercase(), "categories": categories},
            "versions": (0..versions).map(version).collect::<Value>(),
        }});
        let request = Request::post(DEFINITIONS).header("content-type", "application/json");
        let Ok(response) = server.clone().call(request.body(Full::from(definition.to_string())).unwrap()).await;
        assert_eq!(response.status(), 201);
    }

    #[tokio::test]
    async fn openapi_documents_are_made_on_a_thread_of_their_own() {
        let server = ApiServer::new();
        for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"] {
            assert_eq!(weight(&server, path).await, Weight::Read, "{path}");
        }
    }

    #[tokio::test]
    async fn the_cells_of_an_object_are_made_on_a_thread_of_their_own() {
        let server = ApiServer::new();
        for (accept, expected) in [
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Weight::Read),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Weight::Light),
        ] {
            let request = Request::get("/api/v1/namespaces/default").header("accept", accept);
            let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
            assert_eq!(server.weight(&server.receive(request).await).unwrap(), expected, "{accept}");
        }
    }

    #[tokio::test]
    async fn discovery_is_light_as_long_as_it_is_short() {
        let server = ApiServer::new();
        define(&server, "small", 3, 3).await;
        for path in ["/", "/apis", "/apis/example.com", "/apis/example.com/v1"] {
            assert_eq!(weight(&server, path).await, Weight::Light, "{path}");
        }
        // Neither the versions nor the categories alone make it long.
        define(&server, "large", 100, 40).await;
        for path in ["/", "/apis", "/apis/example.com", "/apis/example.com/v1"] {
            assert_eq!(weight(&server, path).await, Weight::Read, "{path}");
        }
        assert_eq!(weight(&server, "/healthz").await, Weight::Light);
    }
}
