//! From the path of a request to the verb that handles it.

use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode};

use super::Shared;
use crate::request::identity::Identity;
use crate::request::negotiation::{self, Encoding};
use crate::request::protobuf;
use crate::request::{HttpRequest, Query, RequestContext, ResourceRequest, Route, Verb};
use crate::response::discovery;
use crate::response::form::{self, Accepted};
use crate::response::openapi;
use crate::response::status::{Named, Status};
use crate::response::table::age::Now;
use crate::response::version;
use crate::response::warnings::Warnings;
use crate::response::{self, Body, HandlerResult};
use crate::rules::convert;
use crate::rules::kinds::{Kind, builtin};
use crate::rules::resource::deprecation;
use crate::verbs::review::Review;
use crate::verbs::scale::SCALE;
use crate::verbs::token::TOKEN;

impl Shared {
    pub(super) fn handle(self: &Arc<Self>, identity: &Identity, request: &HttpRequest<'_>) -> HandlerResult {
        let HttpRequest { method, path, query, headers, .. } = *request;
        match Route::parse(method, path, query)? {
            Route::Resource(target) => {
                let mut warnings = self.customs.deprecation(&target);
                warnings.extend(deprecation(&target.group, &target.plural).map(str::to_owned));
                match self.resource(identity, &target, request) {
                    Ok(response) if target.verb == Verb::Watch => Ok(response.warning_first(&warnings)),
                    Ok(response) => Ok(encoded(response, query, headers)?.warning_first(&warnings)),
                    Err(status) => Err(status.with_warnings(warnings)),
                }
            }
            Route::Other(path) if openapi::is_document(&path) => self.openapi(&path, query, headers),
            Route::Other(path) => self.other(method, &path, headers),
            Route::Root => discovery::paths(&self.customs),
            _ if method != Method::GET => Err(Status::no_such_method()),
            route => {
                let accept = negotiation::accept(headers);
                if let Some(response) = discovery::aggregated(&route, &self.customs, accept) {
                    return response;
                }
                encoded(discovery::document(&route, &self.customs, accept)?, query, headers)
            }
        }
    }

    fn resource(
        self: &Arc<Self>,
        identity: &Identity,
        target: &ResourceRequest,
        request: &HttpRequest<'_>,
    ) -> HandlerResult {
        let Some(kind) = self.kind(&target.group, &target.version, &target.plural) else {
            let is_built_in = builtin().group(&target.group).is_some();
            return if is_built_in { Err(Status::no_such_path()) } else { Ok(no_such_page()) };
        };
        let is_across = matches!(target.verb, Verb::List | Verb::Watch) && target.namespace.is_empty();
        if !kind.is_built_in() && kind.namespaced == target.namespace.is_empty() && !is_across {
            return Ok(no_such_page());
        }
        if !kind.namespaced && !target.namespace.is_empty() {
            return Err(Status::no_such_path());
        }
        if kind.namespaced && target.namespace.is_empty() {
            match target.verb {
                Verb::List | Verb::Watch => {}
                Verb::Create | Verb::DeleteCollection => return Err(Status::no_such_method()),
                _ => return Err(Status::no_such_path()),
            }
        }
        self.check_verb(&kind, target)?;
        let (headers, body) = protobuf::in_json(&kind, target.verb, request.headers, request.body)?;
        let accepted = Accepted::read(negotiation::accept(&headers), target.verb == Verb::Watch)?;
        let (kind, form) = match convert::served(&kind) {
            Some((stored, view)) => (stored, accepted.form.of_view(view)),
            None => (kind, accepted.form),
        };
        let form = form.at(Now(self.world.now().as_microsecond()));
        // The real server looks at it after a write, and before a watch.
        let (form, wrong_form) = match form.with_query(request.query) {
            Ok(form) => (form, None),
            Err(status) => (form, Some(status)),
        };
        let request = RequestContext {
            identity,
            kind: &kind,
            target,
            query: request.query,
            headers: &headers,
            body: &body,
            form,
        };
        if let Some(status) = wrong_form.as_ref().filter(|_| target.verb == Verb::Watch) {
            return Err(status.clone());
        }
        let response = match target.verb {
            _ if target.subresource == SCALE => self.scale(&request),
            Verb::Get => self.get(&request),
            Verb::List => self.list(&request),
            Verb::Watch => self.watch(&request),
            Verb::Create if target.subresource == "eviction" => self.evict(&request),
            Verb::Create if target.subresource == "binding" || kind.is_binding() => self.bind(&request),
            Verb::Create if target.subresource == TOKEN => self.request_token(&request),
            Verb::Create => match Review::of(&kind) {
                Some(review) => self.review(review, &request),
                None => self.create(&request),
            },
            Verb::Update => self.update(&request),
            Verb::Patch => self.patch(&request),
            Verb::Delete => self.delete(&request),
            Verb::DeleteCollection => self.delete_collection(&request),
        };
        if response.is_ok() && matches!(target.verb, Verb::Get | Verb::List | Verb::Create | Verb::Update | Verb::Patch)
        {
            accepted.check_shape(&kind, target.verb == Verb::List)?;
        }
        match wrong_form {
            Some(status) if response.is_ok() => Err(status),
            _ => response,
        }
    }

    /// Requests to the server instead of a resource.
    fn other(self: &Arc<Self>, method: &Method, path: &str, headers: &HeaderMap) -> HandlerResult {
        #[cfg(test)]
        if let Some(response) = super::test_paths::handle(path, self) {
            return Ok(response);
        }
        if let Some(response) = self.open_id(path).filter(|_| method == Method::GET) {
            return Ok(response);
        }
        match path {
            _ if path.trim_end_matches('/') == "/version" => {
                if method != Method::GET {
                    return Err(Status::no_such_method());
                }
                negotiation::check_media_type(negotiation::accept(headers), Encoding::Json.media_type())?;
                version::document()
            }
            _ if path.starts_with("/version/") => Err(Status::no_such_path()),
            _ if discovery::HEALTH.contains(&path) => Ok(response::text(StatusCode::OK, "ok")),
            _ => Ok(no_such_page()),
        }
    }

    fn check_verb(&self, kind: &Kind, request: &ResourceRequest) -> Result<(), Status> {
        let verb = request.verb.name();
        if request.subresource.is_empty() {
            // Custom resources support every verb, whatever discovery shows while their definition
            // is being deleted.
            if kind.is_built_in() && !kind.has_verb(verb) {
                // Objects of a kind that is only created have no paths.
                let has_path = request.name.is_empty() || kind.verbs != ["create"];
                return Err(if has_path { Status::no_such_method() } else { Status::no_such_path() });
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
        if !matches!(request.subresource.as_str(), "status" | "finalize" | "eviction" | "binding" | TOKEN | SCALE) {
            let named = Named { group: &kind.group, resource: &format!("{}/{}", kind.plural, request.subresource) };
            return Err(Status::method_not_allowed(named, verb));
        }
        Ok(())
    }
}

/// A refusal in the encoding that the client accepts. It is never converted to another kind: a
/// client that accepts nothing else gets JSON.
pub(super) fn error_response(status: &Status, query: &Query, headers: &HeaderMap) -> Response<Body> {
    let response = response::error(status);
    let rewritten = match negotiation::negotiate(negotiation::accept(headers), |conversion| conversion.is_none()) {
        None => response::indented(response),
        Some(negotiated) if negotiated.encoding == Encoding::Yaml => response::in_yaml(response),
        Some(negotiated) if negotiation::is_pretty(query, headers, &negotiated) => response::indented(response),
        Some(_) => Ok(response),
    };
    rewritten.unwrap_or_else(|too_large| response::error(&too_large))
}

/// An object in the encoding that the client accepts.
fn encoded(response: Response<Body>, query: &Query, headers: &HeaderMap) -> HandlerResult {
    if !response::is_json(&response) {
        return Ok(response);
    }
    match negotiation::negotiate(negotiation::accept(headers), form::is_served) {
        Some(negotiated) if negotiated.encoding == Encoding::Yaml => response::in_yaml(response),
        Some(negotiated) if negotiation::is_pretty(query, headers, &negotiated) => response::indented(response),
        _ => Ok(response),
    }
}

/// The response without a user.
fn no_such_page() -> Response<Body> {
    response::text(StatusCode::NOT_FOUND, "404 page not found\n")
}
