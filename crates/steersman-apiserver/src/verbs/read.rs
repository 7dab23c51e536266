//! Get and list.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_wire::base64;

use crate::request::budget;
use crate::request::{Query, RequestContext, Selection};
use crate::response::status::{FieldError, Named, Status};
use crate::response::{self, HandlerResult};
use crate::rules::kinds::Kind;
use crate::server::Shared;
use crate::store::object::Object;
use crate::store::{Key, Revision, Snapshot};

/// The limit for the bytes of all objects in one list that are converted because their schema has
/// changed.
const MADE_BYTES_MAX: usize = if cfg!(test) { 100_000 } else { 256 << 20 };

/// The content of a list.
pub(crate) struct Page {
    pub(crate) metadata: Value,
    pub(crate) objects: Vec<Arc<Object>>,
}

/// The revision of a list.
enum ListVersion {
    /// The latest, or no older than that revision.
    Latest(Option<Revision>),
    Exactly(Revision),
}

/// A revision in a parameter, or the error. Empty and zero mean any.
pub(crate) fn revision(query: &Query) -> Result<Option<Revision>, String> {
    let text = query.get("resourceVersion").unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    parse_revision(text)
        .map(Some)
        .map_err(|what| format!("resourceVersion: Invalid value: {}: {what}", steersman_wire::quote(text)))
}

/// A revision, or Go's error.
pub(crate) fn parse_revision(text: &str) -> Result<Revision, String> {
    text.parse().map_err(|_| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let what = if digits { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {}: {what}", steersman_wire::quote(text))
    })
}

/// The position to continue a list from: after this key, at this revision or, if that is compacted,
/// at the latest.
#[derive(Clone, Debug, PartialEq)]
struct Continue {
    revision: Option<Revision>,
    after: Key,
}

impl Continue {
    fn token(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let start = format!("{}/{}\0", self.after.namespace, self.after.name);
        base64::encode_url(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string().as_bytes())
    }

    fn parse(token: &str) -> Result<Self, Status> {
        let invalid =
            |what: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {what}"));
        let bytes =
            base64::decode_url(token).map_err(|at| invalid(&format!("illegal base64 data at input byte {at}")))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = String::from_utf8_lossy(&bytes).chars().next().map_or(0, u32::from);
            let first = bytes.first().map_or(first, |byte| u32::from(*byte));
            invalid(&format!("invalid character '\\u{first:04x}' looking for beginning of value"))
        })?;
        let version = value["v"].as_str().unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(invalid(&format!("server does not recognize this encoded version {version}")));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if value["rv"].as_i64().unwrap_or_default() == 0 {
            return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        if start.split('/').any(|step| matches!(step, "." | "..")) {
            return Err(invalid(start));
        }
        let key = value["start"].as_str().and_then(|start| start.strip_suffix('\0')?.split_once('/'));
        match (value["rv"].as_i64(), key) {
            (Some(revision), Some((namespace, name))) => Ok(Self {
                revision: u64::try_from(revision).ok(),
                after: Key { namespace: namespace.into(), name: name.into() },
            }),
            _ => Err(invalid(start)),
        }
    }
}

impl Shared {
    pub(crate) fn get(&self, request: &RequestContext<'_>) -> HandlerResult {
        self.check_revision(revision(request.query).map_err(Status::unexpected)?)?;
        let kind = request.kind;
        let object = self.current(request)?;
        let seen = self.seen(kind, &object)?;
        Ok(response::json(StatusCode::OK, request.form.object(kind, &seen)))
    }

    pub(crate) fn list(&self, request: &RequestContext<'_>) -> HandlerResult {
        let Page { metadata, objects } = self.page(request, false)?;
        Ok(request.form.list(request.kind, &metadata, objects))
    }

    /// The objects of a list. With `in_pages` all of them are found, but in the state that a list
    /// with a limit would have.
    pub(crate) fn page(&self, request: &RequestContext<'_>, in_pages: bool) -> Result<Page, Status> {
        let RequestContext { kind, query, .. } = *request;
        let selection = Selection::new(request.target, query)?;
        selection.check_fields(kind)?;
        query.number("timeoutSeconds")?;
        if query.get("sendInitialEvents").is_some_and(|value| !value.is_empty()) {
            let error = FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid(LIST_OPTIONS, "", &[error]));
        }
        let mut limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        let token = query.get("continue").filter(|token| !token.is_empty());
        let (snapshot, after) = match token {
            Some(token) => self.continued(request, &selection, token)?,
            None => {
                let version = list_version(query, in_pages)?;
                if let ListVersion::Latest(Some(0)) = version {
                    // Any state is valid, so the real server returns it from a cache, as a whole.
                    limit = 0;
                }
                (self.snapshot(kind, &selection, &version)?, None)
            }
        };
        let Snapshot { revision, objects: mut stored } = snapshot;
        if let Some(after) = after {
            stored.retain(|object| *object.key() > after);
        }
        let mut objects = self.selected(kind, &selection, &stored, limit)?;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !kind.is_built_in() {
            // Lists of custom resources always have a continue token.
            metadata["continue"] = "".into();
        }
        if limit > 0 && objects.len() > limit {
            objects.truncate(limit);
            let last = objects[limit - 1].key().clone();
            metadata["continue"] = Continue { revision: Some(revision), after: last }.token().into();
            // With a selector, the real server does not know how many remain.
            if query.get("labelSelector").is_none_or(str::is_empty)
                && query.get("fieldSelector").is_none_or(str::is_empty)
            {
                metadata["remainingItemCount"] = (stored.len() - limit).into();
            }
        }
        Ok(Page { metadata, objects })
    }

    /// The selected objects, as clients read them. With a limit, at most one more than that.
    fn selected(
        &self,
        kind: &Kind,
        selection: &Selection,
        stored: &[Arc<Object>],
        limit: usize,
    ) -> Result<Vec<Arc<Object>>, Status> {
        let view = self.view(kind);
        let mut selected = Vec::new();
        let mut made_bytes = 0;
        for object in stored {
            if limit > 0 && selected.len() > limit {
                break;
            }
            let seen = view.of(object)?;
            if !selection.matches(&seen) {
                budget::check()?;
                continue;
            }
            if !Arc::ptr_eq(&seen, object) {
                made_bytes += seen.body().len();
            }
            if made_bytes > MADE_BYTES_MAX {
                return Err(Status::too_large(format!(
                    "Request entity too large: the objects of the list take more than {MADE_BYTES_MAX} bytes with the \
                     defaults of their schema, which changed after they were written; use the parameter limit",
                )));
            }
            selected.push(seen);
        }
        budget::check()?;
        Ok(selected)
    }

    fn continued(
        &self,
        request: &RequestContext<'_>,
        selection: &Selection,
        token: &str,
    ) -> Result<(Snapshot, Option<Key>), Status> {
        let RequestContext { kind, query, .. } = *request;
        if query.get("resourceVersionMatch").is_some_and(|text| !text.is_empty()) {
            return Err(forbidden_match("resourceVersionMatch is forbidden when continue is provided"));
        }
        if query.get("resourceVersion").is_some_and(|version| !version.is_empty() && version != "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let from = Continue::parse(token)?;
        let snapshot = match from.revision {
            None => self.store.list(&kind.id(), selection.namespace()),
            Some(revision) => {
                self.check_revision(Some(revision))?;
                let found = self.store.list_at(&kind.id(), selection.namespace(), revision);
                found.map_err(|_| {
                    let anew = Continue { revision: None, after: from.after.clone() };
                    Status::expired(CONTINUE_EXPIRED).continued_at(anew.token())
                })?
            }
        };
        Ok((snapshot, Some(from.after)))
    }

    fn snapshot(&self, kind: &Kind, selection: &Selection, version: &ListVersion) -> Result<Snapshot, Status> {
        match *version {
            ListVersion::Latest(least) => {
                self.check_revision(least)?;
                Ok(self.store.list(&kind.id(), selection.namespace()))
            }
            ListVersion::Exactly(revision) => {
                self.check_revision(Some(revision))?;
                let found = self.store.list_at(&kind.id(), selection.namespace(), revision);
                found.map_err(|_| Status::expired("The resourceVersion for the provided list is too old."))
            }
        }
    }

    /// Refuses a revision in the future.
    pub(crate) fn check_revision(&self, revision: Option<Revision>) -> Result<(), Status> {
        let current = self.store.revision();
        match revision {
            Some(wanted) if wanted > current => Err(Status::too_large_resource_version(wanted, current)),
            _ => Ok(()),
        }
    }
}

/// The meaning of `resourceVersion` and `resourceVersionMatch` together.
fn list_version(query: &Query, in_pages: bool) -> Result<ListVersion, Status> {
    let revision = revision(query).map_err(|what| Status::bad_request(format!("invalid resource version: {what}")))?;
    match query.get("resourceVersionMatch").unwrap_or_default() {
        "" => {
            // A version with a limit means exactly that one.
            let limited = in_pages || query.number("limit")?.is_some_and(|limit| limit > 0);
            match revision {
                Some(exact) if limited && exact > 0 => Ok(ListVersion::Exactly(exact)),
                other => Ok(ListVersion::Latest(other)),
            }
        }
        "NotOlderThan" if revision.is_some() => Ok(ListVersion::Latest(revision)),
        "Exact" => match revision {
            Some(exact) if exact > 0 => Ok(ListVersion::Exactly(exact)),
            Some(_) => Err(forbidden_match("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")),
            None => Err(forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")),
        },
        "NotOlderThan" => Err(forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")),
        other => {
            let error = FieldError::not_supported("resourceVersionMatch", other, &["Exact", "NotOlderThan", ""]);
            Err(Status::invalid(LIST_OPTIONS, "", &[error]))
        }
    }
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
    of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
    modified, or deleted between the time the first chunk was returned and now may show up in the list.";

const LIST_OPTIONS: Named<'static> = Named { group: "meta.k8s.io", resource: "ListOptions" };

fn forbidden_match(detail: &str) -> Status {
    let error = FieldError::forbidden("resourceVersionMatch", detail);
    Status::invalid(LIST_OPTIONS, "", &[error])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use tower::Service;

    use crate::ApiServer;

    use super::*;

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const THINGS: &str = "/apis/example.com/v1/things";

    async fn call(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
        let Ok(response) = server.clone().call(request.body(Full::new(body)).unwrap()).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }

    fn definition(default: Option<&str>) -> Value {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string", "default": default}}});
        json!({"metadata": {"name": "things.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }})
    }

    /// Objects that are sent as they are stored are not counted.
    #[tokio::test]
    async fn what_a_list_makes_is_bounded_and_its_pages_are_not_refused() {
        let server = ApiServer::new();
        assert_eq!(call(&server, "POST", DEFINITIONS, &definition(None)).await.0, 201);
        for at in 0..9 {
            let thing =
                json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": format!("t{at}")}});
            assert_eq!(call(&server, "POST", THINGS, &thing).await.0, 201);
        }
        let patch = json!({"spec": definition(Some(&"x".repeat(MADE_BYTES_MAX / 8)))["spec"]});
        assert_eq!(call(&server, "PATCH", &format!("{DEFINITIONS}/things.example.com"), &patch).await.0, 200);
        let (code, refused) = call(&server, "GET", THINGS, &Value::Null).await;
        assert_eq!(code, 413);
        assert!(refused["message"].as_str().unwrap().ends_with("use the parameter limit"), "{refused}");
        let mut found = 0;
        let mut next = String::new();
        for _ in 0..3 {
            let (_, page) = call(&server, "GET", &format!("{THINGS}?limit=3{next}"), &Value::Null).await;
            found += page["items"].as_array().unwrap().len();
            next = format!("&continue={}", page["metadata"]["continue"].as_str().unwrap());
        }
        assert_eq!((found, next.as_str()), (9, "&continue="));
        // A write stores the converted object.
        for at in 0..9 {
            let patch = json!({"metadata": {"labels": {"a": "b"}}});
            assert_eq!(call(&server, "PATCH", &format!("{THINGS}/t{at}"), &patch).await.0, 200);
        }
        assert_eq!(call(&server, "GET", THINGS, &Value::Null).await.0, 200);
    }
}
