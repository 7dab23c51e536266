//! SelfSubjectReview: the user of a request.

use http::StatusCode;
use serde_json::json;

use super::user_info;
use crate::request::RequestContext;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::schema::Decoded;
use crate::server::Shared;

impl Shared {
    /// Returns the user of the request. The content of the body does not matter, as long as it is
    /// valid.
    pub(super) fn review_self(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { identity, kind, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let Decoded { warnings, .. } = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        let object = json!({
            "kind": kind.kind,
            "apiVersion": kind.api_version(),
            "metadata": {"creationTimestamp": self.now()},
            "status": {"userInfo": user_info(identity)},
        });
        Ok(response::json(StatusCode::CREATED, object.to_string()).warning(&warnings))
    }
}
