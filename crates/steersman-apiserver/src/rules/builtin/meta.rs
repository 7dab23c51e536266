//! Validation that several kinds share: labels and selectors.

use serde_json::Value;
use steersman_wire::{LabelSelector, is_qualified_name, is_valid_label_value};

use super::fields::{each_wrong, items, members, text};
use crate::response::status::{Errors, FieldError};

/// Refuses invalid label keys and values.
pub(super) fn labels(labels: &Value, field: &str, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        each_wrong(key, field, is_qualified_name(key), errors);
        let value = value.as_str().unwrap_or_default();
        each_wrong(value, field, is_valid_label_value(value), errors);
    }
}

/// Refuses invalid selectors.
pub(super) fn selector(selector: &Value, field: &str, errors: &mut Errors) {
    for (key, value) in members(selector, "matchLabels") {
        let field = format!("{field}.matchLabels");
        each_wrong(key, &field, is_qualified_name(key), errors);
        let value = value.as_str().unwrap_or_default();
        each_wrong(value, &field, is_valid_label_value(value), errors);
    }
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let values = items(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), detail));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), detail));
            }
            "Exists" | "DoesNotExist" => {}
            other => {
                let field = format!("{field}.operator");
                errors.push(FieldError::invalid(field, other, "not a valid selector operator"));
            }
        }
        let key = text(expression, "key");
        each_wrong(key, &format!("{field}.key"), is_qualified_name(key), errors);
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            each_wrong(value, &format!("{field}.values[{at}]"), is_valid_label_value(value), errors);
        }
    }
}

/// Whether a selector has no requirements.
pub(super) fn is_empty(selector: &Value) -> bool {
    members(selector, "matchLabels").next().is_none() && items(selector, "matchExpressions").is_empty()
}

/// Whether a selector matches labels. Null selects nothing. `None` if the selector is invalid.
pub(super) fn matches(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let selector = LabelSelector::from_json(selector).ok()?;
    Some(selector.matches(|key| labels[key].as_str()))
}
