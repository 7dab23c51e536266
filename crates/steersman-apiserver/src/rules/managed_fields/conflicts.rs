//! The refusal of an apply that would take fields from other managers, and the conflicts that a
//! migration from client-side apply allows.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::compare;
use super::entries::{Manager, Operation};
use super::fields::fields_of;
use super::resource::Resource;
use super::set::FieldSet;
use super::update::Conflict;
use super::validate::validate;
use crate::response::status::Status;

/// The annotation with the last configuration of a client-side apply.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager whose applies continue client-side ones.
pub(crate) const KUBECTL: &str = "kubectl";

/// The refusal, with a cause for each field.
pub(crate) fn refuse_conflicts(mut conflicts: Vec<Conflict>) -> Status {
    conflicts.sort_by_cached_key(|conflict| conflict.manager.identifier());
    let mut causes = Vec::new();
    let mut message = String::new();
    for conflict in &conflicts {
        let manager = described(&conflict.manager);
        let _ = write!(message, "\nconflicts with {manager}:");
        for path in conflict.fields.paths() {
            let _ = write!(message, "\n- {path}");
            causes.push(json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {manager}"),
                "field": path,
            }));
        }
    }
    let message = match &causes[..] {
        [one] => format!(
            "Apply failed with 1 conflict: {}: {}",
            one["message"].as_str().unwrap_or_default(),
            one["field"].as_str().unwrap_or_default(),
        ),
        many => format!("Apply failed with {} conflicts: {}", many.len(), message.trim_start()),
    };
    Status::apply_conflict(message, causes)
}

fn described(manager: &Manager) -> String {
    let mut text = steersman_wire::quote(&manager.name);
    if !manager.subresource.is_empty() {
        let _ = write!(text, " with subresource {}", steersman_wire::quote(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        let _ = write!(text, " using {}", manager.api_version);
    }
    text
}

/// The conflicts that remain if the fields of the last client-side apply may be taken, as long as
/// they still have the values of that apply. All of them if there was none.
pub(crate) fn left_by_last_applied(resource: &Resource<'_>, live: &Value, conflicts: Vec<Conflict>) -> Vec<Conflict> {
    let Some(allowed) = last_applied_fields(resource, live) else { return conflicts };
    let left = conflicts.into_iter().map(|Conflict { manager, fields }| {
        let fields = fields.difference(&allowed);
        Conflict { manager, fields }
    });
    left.filter(|conflict| !conflict.fields.is_empty()).collect()
}

fn last_applied_fields(resource: &Resource<'_>, live: &Value) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().filter(|text| !text.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    let ty = resource.schema(resource.api_version())?;
    // A configuration of another kind cannot be compared.
    if last["apiVersion"] != *resource.api_version() || last["kind"] != *resource.kind().kind {
        return None;
    }
    validate(ty, live, false).ok()?;
    validate(ty, &last, false).ok()?;
    let comparison = compare(ty, Some(&last), Some(live)).ok()?;
    let fields = fields_of(ty, &last);
    Some(fields.difference(&comparison.written()).difference(&comparison.removed))
}
