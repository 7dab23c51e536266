//! Get and list.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_wire::{FieldSelector, LabelSelector, base64};

use crate::answer::{self, Answer, Form};
use crate::kinds::Kind;
use crate::object::Object;
use crate::request::{Query, ResourceRequest};
use crate::server::Shared;
use crate::status::{FieldError, Named, Status};
use crate::store::{Key, Revision, Snapshot};

/// Which objects a list or a watch is about.
pub(crate) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn new(request: &ResourceRequest, query: &Query) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default());
        let mut fields = fields.map_err(|error| Status::bad_request(error.to_string()))?;
        if !request.name.is_empty() {
            // A watch of one object by its path.
            fields = FieldSelector::parse(&format!("metadata.name={}", request.name))
                .map_err(|error| Status::bad_request(error.to_string()))?;
        }
        Ok(Self {
            namespace: Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            labels: labels.map_err(|error| Status::bad_request(error.to_string()))?,
            fields,
        })
    }

    /// Refuses fields that the kind does not select by.
    pub(crate) fn check_fields(&self, kind: &Kind) -> Result<(), Status> {
        for requirement in self.fields.requirements() {
            let field = requirement.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && kind.namespaced)
                || kind.selectable.iter().any(|selectable| **selectable == *field);
            if !known {
                // Kinds with fields of their own have a list of their own, with other words.
                let text = if !kind.selectable.is_empty() || !kind.is_built_in() {
                    format!("field label not supported: {field}")
                } else {
                    let quoted = steersman_wire::quote(field);
                    format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                };
                return Err(Status::bad_request(text));
            }
        }
        Ok(())
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| *object.key().namespace == *namespace)
            && self.labels.matches(|label| object.label(label))
            && self.fields.matches(|field| object.field(field))
    }
}

/// What a list shows.
pub(crate) struct Page {
    pub(crate) metadata: Value,
    pub(crate) objects: Vec<Arc<Object>>,
}

/// Which state of the past a list is about.
enum At {
    /// The latest, or no older than that revision.
    Latest(Option<Revision>),
    Exactly(Revision),
}

/// A revision as a parameter has it, or what is wrong with it. Nothing and zero mean any.
pub(crate) fn revision(query: &Query) -> Result<Option<Revision>, String> {
    let text = query.get("resourceVersion").unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    parse_revision(text)
        .map(Some)
        .map_err(|what| format!("resourceVersion: Invalid value: {}: {what}", steersman_wire::quote(text)))
}

/// A revision, or what Go says is wrong with it.
pub(crate) fn parse_revision(text: &str) -> Result<Revision, String> {
    text.parse().map_err(|_| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        let what = if digits { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseUint: parsing {}: {what}", steersman_wire::quote(text))
    })
}

/// Where a list goes on: after that key, in the state of that revision or, once that is gone, in the latest.
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
    pub(crate) fn get(&self, kind: &Kind, request: &ResourceRequest, query: &Query, form: Form) -> Answer {
        self.wait_for(revision(query).map_err(Status::unexpected)?)?;
        let key = request.key();
        let object = self.store.get(&kind.id(), &key).ok_or_else(|| Status::not_found(kind.named(), &request.name))?;
        Ok(answer::json(StatusCode::OK, form.object(kind, &self.seen(kind, &object))))
    }

    pub(crate) fn list(&self, kind: &Kind, request: &ResourceRequest, query: &Query, form: Form) -> Answer {
        let Page { metadata, objects } = self.page(kind, request, query, false)?;
        Ok(form.list(kind, &metadata, objects))
    }

    /// The objects that a list asks for. With `in_pages` all of them are found, yet of the state that a
    /// list with a limit would be about.
    pub(crate) fn page(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        in_pages: bool,
    ) -> Result<Page, Status> {
        let selection = Selection::new(request, query)?;
        selection.check_fields(kind)?;
        query.number("timeoutSeconds")?;
        if query.get("sendInitialEvents").is_some_and(|value| !value.is_empty()) {
            let error = FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid(LIST_OPTIONS, "", &[error]));
        }
        let mut limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        let token = query.get("continue").filter(|token| !token.is_empty());
        let (snapshot, after) = match token {
            Some(token) => self.continued(kind, &selection, query, token)?,
            None => {
                let at = at(query, in_pages)?;
                if let At::Latest(Some(0)) = at {
                    // Any state will do, so it comes from a cache, whole.
                    limit = 0;
                }
                (self.snapshot(kind, &selection, &at)?, None)
            }
        };
        let Snapshot { revision, objects } = snapshot;
        let view = self.view(kind);
        let objects = objects.iter().map(|object| view.of(object));
        let mut objects: Vec<Arc<Object>> = objects.filter(|object| selection.matches(object)).collect();
        if let Some(after) = after {
            objects.retain(|object| *object.key() > after);
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if !kind.is_built_in() {
            // Lists of custom resources always say where they would go on.
            metadata["continue"] = "".into();
        }
        if limit > 0 && objects.len() > limit {
            let remaining = objects.len() - limit;
            objects.truncate(limit);
            let last = objects[limit - 1].key().clone();
            metadata["continue"] = Continue { revision: Some(revision), after: last }.token().into();
            // With a selector, the real server does not know how many remain.
            if query.get("labelSelector").is_none_or(str::is_empty)
                && query.get("fieldSelector").is_none_or(str::is_empty)
            {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        Ok(Page { metadata, objects })
    }

    fn continued(
        &self,
        kind: &Kind,
        selection: &Selection,
        query: &Query,
        token: &str,
    ) -> Result<(Snapshot, Option<Key>), Status> {
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
                self.wait_for(Some(revision))?;
                let found = self.store.list_at(&kind.id(), selection.namespace(), revision);
                found.map_err(|_| {
                    let anew = Continue { revision: None, after: from.after.clone() };
                    Status::expired(CONTINUE_EXPIRED).continued_at(anew.token())
                })?
            }
        };
        Ok((snapshot, Some(from.after)))
    }

    fn snapshot(&self, kind: &Kind, selection: &Selection, at: &At) -> Result<Snapshot, Status> {
        match *at {
            At::Latest(least) => {
                self.wait_for(least)?;
                Ok(self.store.list(&kind.id(), selection.namespace()))
            }
            At::Exactly(revision) => {
                self.wait_for(Some(revision))?;
                let found = self.store.list_at(&kind.id(), selection.namespace(), revision);
                found.map_err(|_| Status::expired("The resourceVersion for the provided list is too old."))
            }
        }
    }

    /// Refuses a revision that lies in the future.
    pub(crate) fn wait_for(&self, revision: Option<Revision>) -> Result<(), Status> {
        let current = self.store.revision();
        match revision {
            Some(wanted) if wanted > current => Err(Status::too_large_resource_version(wanted, current)),
            _ => Ok(()),
        }
    }
}

/// What `resourceVersion` and `resourceVersionMatch` ask for together.
fn at(query: &Query, in_pages: bool) -> Result<At, Status> {
    let revision = revision(query).map_err(|what| Status::bad_request(format!("invalid resource version: {what}")))?;
    match query.get("resourceVersionMatch").unwrap_or_default() {
        "" => {
            // A version with a limit means exactly that one.
            let limited = in_pages || query.number("limit")?.is_some_and(|limit| limit > 0);
            match revision {
                Some(exact) if limited && exact > 0 => Ok(At::Exactly(exact)),
                other => Ok(At::Latest(other)),
            }
        }
        "NotOlderThan" if revision.is_some() => Ok(At::Latest(revision)),
        "Exact" => match revision {
            Some(exact) if exact > 0 => Ok(At::Exactly(exact)),
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
