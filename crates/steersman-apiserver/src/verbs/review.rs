//! Reviews: objects that are a query, and are answered instead of stored.

use http::StatusCode;
use serde_json::json;

use crate::request::RequestContext;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::kinds::Kind;
use crate::rules::schema::Decoded;
use crate::server::Shared;

/// Whether this is a SelfSubjectReview.
pub(crate) fn is_self_review(kind: &Kind) -> bool {
    kind.group == "authentication.k8s.io" && kind.kind == "SelfSubjectReview"
}

impl Shared {
    /// Returns the user of the request. The content of the body does not matter, as long as it is
    /// valid.
    pub(crate) fn review(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { identity, kind, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let Decoded { warnings, .. } = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        let mut user = json!({"username": identity.name()});
        if !identity.uid().is_empty() {
            user["uid"] = identity.uid().into();
        }
        if !identity.groups().is_empty() {
            user["groups"] = json!(identity.groups());
        }
        if !identity.extra().is_empty() {
            user["extra"] = json!(identity.extra());
        }
        let object = json!({
            "kind": kind.kind,
            "apiVersion": kind.api_version(),
            "metadata": {"creationTimestamp": self.now()},
            "status": {"userInfo": user},
        });
        Ok(response::json(StatusCode::CREATED, object.to_string()).warning(&warnings))
    }
}
