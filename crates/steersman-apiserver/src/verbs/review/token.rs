//! TokenReview: the user of a token.

use http::StatusCode;
use serde_json::{Value, json};

use super::user_info;
use crate::access::tokens::ISSUER;
use crate::request::RequestContext;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::status::Status;
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::server::Shared;

impl Shared {
    pub(super) fn review_token(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { kind, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let mut review = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        super::settle(&mut review.value, kind, "")?;
        self.set_managed(request, kind, &mut review.value);
        let value = &mut review.value;
        let spec = &value["spec"];
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let wanted: Vec<&str> = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let wanted = if wanted.is_empty() { vec![ISSUER] } else { wanted };
        value["status"] = match self.authenticate(token, &wanted) {
            Ok(found) => {
                json!({"authenticated": true, "user": user_info(&found.user), "audiences": found.audiences})
            }
            Err(why) => json!({"user": {}, "error": why.in_review()}),
        };
        Ok(response::json(StatusCode::CREATED, review.value.to_string()).warning(&review.warnings))
    }
}
