//! Rules about several fields of a value: embedded objects have a kind, and lists that are sets or
//! maps have no duplicates.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::paths::{self, child};
use super::schema::{Additional, List, Node};
use crate::request::budget;
use crate::response::status::{Errors, FieldError};

/// Validates the embedded objects of an object.
pub(super) fn embedded_errors(node: &Node, value: &Value) -> Errors {
    let mut errors = Errors::default();
    check_embedded(node, value, "", &mut errors);
    errors
}

pub(super) fn check_embedded(node: &Node, value: &Value, path: &str, errors: &mut Errors) {
    match value {
        Value::Object(fields) => {
            if node.embedded_resource {
                check_resource(fields, path, errors);
            }
            for (name, value) in fields {
                if let Some(node) = node.properties.get(name) {
                    check_embedded(node, value, &child(path, name), errors);
                } else if let Additional::Schema(node) = &node.additional {
                    check_embedded(node, value, &paths::key(path, name), errors);
                }
            }
        }
        Value::Array(values) => {
            let Some(node) = &node.items else { return };
            for (index, value) in values.iter().enumerate() {
                check_embedded(node, value, &paths::item(path, index), errors);
            }
        }
        _ => {}
    }
}

/// An embedded object needs `apiVersion` and `kind`. Its metadata may be absent.
fn check_resource(fields: &Map<String, Value>, path: &str, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        match fields.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
            Some(Value::String(text)) => {
                let wrong = steersman_wire::is_dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other.clone(), "must be a string")),
        }
    }
    let Some(Value::Object(metadata)) = fields.get("metadata") else { return };
    let path = child(path, "metadata");
    if let Some(Value::String(name)) = metadata.get("name") {
        let wrong = steersman_wire::is_path_segment_name(name);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(format!("{path}.name"), name.as_str(), why)));
    }
    let field = format!("{path}.labels");
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        let wrong = steersman_wire::is_qualified_name(key);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, key.as_str(), why)));
        let wrong = steersman_wire::is_valid_label_value(value.as_str().unwrap_or_default());
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, value.clone(), why)));
    }
}

/// Finds duplicates in the lists of an object that are sets or maps.
pub(super) fn list_errors(node: &Node, value: &Value) -> Errors {
    let mut errors = Errors::default();
    check_lists(node, value, "", &mut errors);
    errors
}

fn check_lists(node: &Node, value: &Value, path: &str, errors: &mut Errors) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Additional::Schema(node) = &node.additional {
                    check_lists(node, value, &paths::key(path, name), errors);
                }
                if let Some(node) = node.properties.get(name) {
                    check_lists(node, value, &child(path, name), errors);
                }
            }
        }
        Value::Array(values) => {
            check_unique(&node.list, values, path, errors);
            let Some(node) = &node.items else { return };
            for (index, value) in values.iter().enumerate() {
                check_lists(node, value, &paths::item(path, index), errors);
            }
        }
        _ => {}
    }
}

fn check_unique(list: &List, values: &[Value], path: &str, errors: &mut Errors) {
    // Equal values have equal texts.
    let identities: Vec<Cow<'_, Value>> = match list {
        List::Atomic => return,
        List::Set => values.iter().map(Cow::Borrowed).collect(),
        List::Map(keys) => {
            let non_object = values.iter().position(|value| !value.is_null() && !value.is_object());
            if let Some(index) = non_object {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(format!("{path}[{index}]"), values[index].clone(), detail));
                return;
            }
            let identity = |value: &Value| {
                let present = keys.iter().filter_map(|key| Some((key.clone(), value.get(key)?.clone())));
                Cow::Owned(Value::Object(present.collect()))
            };
            values.iter().map(identity).collect()
        }
    };
    // Only the second element with the same identity is reported.
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, identity) in identities.into_iter().enumerate() {
        let text = identity.to_string();
        if !budget::text(text.len()) {
            return;
        }
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(paths::item(path, index), identity.into_owned()));
        }
    }
}
