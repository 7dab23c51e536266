//! SelfSubjectRulesReview: the rules of the user of a request.

use http::StatusCode;
use serde_json::json;

use crate::request::write_options::{field_validation, is_dry_run};
use crate::request::{RequestContext, budget};
use crate::response::status::Status;
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::server::Shared;

/// The memory of a text of a rule, and of the rule itself.
const RULE_BYTES: usize = 128;

impl Shared {
    pub(super) fn review_rules(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { identity, kind, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let mut review = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        super::settle(&mut review.value, kind, "")?;
        let namespace = review.value["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (rules, error) = self.rules_for(identity, namespace);
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        for rule in rules.iter().flat_map(|rules| rules.iter()) {
            // A role is shown once for each binding to it.
            if !budget::make((1 + rule.size()) * RULE_BYTES) {
                break;
            }
            let (of_resources, of_paths) = rule.shown();
            resources.extend(of_resources);
            paths.extend(of_paths);
        }
        budget::check()?;
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        if let Some(error) = error {
            status["evaluationError"] = error.into();
        }
        let object = json!({
            "kind": kind.kind,
            "apiVersion": kind.api_version(),
            "metadata": {},
            "spec": {},
            "status": status,
        });
        Ok(response::json(StatusCode::CREATED, object.to_string()).warning(&review.warnings))
    }
}
