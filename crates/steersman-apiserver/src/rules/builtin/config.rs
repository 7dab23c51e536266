//! ConfigMaps, Secrets, ServiceAccounts, Namespaces and LimitRanges.

use serde_json::Value;
use steersman_wire::base64;

use super::fields::{self, each, get, get_mut, items, members, object, put, remove, text};
use super::workloads::immutable;
use crate::response::status::{Errors, FieldError};

/// The most bytes of data in a ConfigMap or a Secret.
const SIZE_MAX: usize = 1024 * 1024;

/// The keys that a type of Secret requires. The last member states whether one of them is enough.
const SECRET_TYPES: &[(&str, &[&str], bool)] = &[
    ("kubernetes.io/tls", &["tls.crt", "tls.key"], false),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"], false),
    ("kubernetes.io/dockercfg", &[".dockercfg"], false),
    ("kubernetes.io/basic-auth", &["username", "password"], true),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"], false),
];

pub(super) fn fill_secret(value: &mut Value) {
    let texts: Vec<(String, String)> = members(value, "stringData")
        .map(|(key, text)| (key.clone(), base64::encode(text.as_str().unwrap_or_default().as_bytes())))
        .collect();
    remove(value, "stringData");
    if !texts.is_empty() {
        fields::fill(value, "data", object());
    }
    if let Some(data) = get_mut(value, "data").and_then(Value::as_object_mut) {
        data.extend(texts.into_iter().map(|(key, text)| (key, text.into())));
    }
    fields::fill(value, "type", "Opaque");
}

/// Of the Secrets that a ServiceAccount lists, only names are kept.
pub(super) fn keep_names_of_secrets(value: &mut Value) {
    each(value, "secrets", |secret| {
        if let Some(secret) = secret.as_object_mut() {
            secret.retain(|field, _| field == "name");
        }
    });
}

/// A new Namespace gets the finalizer that keeps it until its contents are deleted.
pub(super) fn reset_namespace(value: &mut Value) {
    let mut finalizers = items(value, "spec.finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    put(value, "spec.finalizers", finalizers);
}

pub(super) fn fill_namespace(value: &mut Value) {
    let name = value["metadata"]["name"].clone();
    fields::fill(value, "metadata.labels", object());
    if let Some(labels) = get_mut(value, "metadata.labels").and_then(Value::as_object_mut) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    fields::fill(value, "status.phase", "Active");
}

pub(super) fn fill_limit_range(value: &mut Value) {
    each(value, "spec.limits", |limit| {
        if limit["type"] != "Container" {
            return;
        }
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            for (name, amount) in members(&limit.clone(), from) {
                fields::fill(limit, to, object());
                if let Some(to) = get_mut(limit, to).and_then(Value::as_object_mut) {
                    to.entry(name.as_str()).or_insert_with(|| amount.clone());
                }
            }
        }
    });
}

fn key(key: &str, field: &str, errors: &mut Errors) {
    let mut refuse = |what: &str| errors.push(FieldError::invalid(format!("{field}[{key}]"), key, what));
    if key.len() > 253 {
        refuse("must be no more than 253 characters");
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        refuse(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        );
    }
    match key {
        "." => refuse("must not be '.'"),
        ".." => refuse("must not be '..'"),
        other if other.starts_with("..") => refuse("must not start with '..'"),
        _ => {}
    }
}

fn decoded_size(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

pub(super) fn validate_config_map(value: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (name, text) in members(value, "data") {
        key(name, "data", errors);
        if !value["binaryData"][name.as_str()].is_null() {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(format!("data[{name}]"), name.as_str(), detail));
        }
        size += text.as_str().unwrap_or_default().len();
    }
    for (name, bytes) in members(value, "binaryData") {
        key(name, "binaryData", errors);
        size += decoded_size(bytes);
    }
    if size > SIZE_MAX {
        errors.push(FieldError::too_long("[]", SIZE_MAX));
    }
}

pub(super) fn validate_secret(value: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (name, bytes) in members(value, "data") {
        key(name, "data", errors);
        size += decoded_size(bytes);
    }
    if size > SIZE_MAX {
        errors.push(FieldError::too_long("data", SIZE_MAX));
    }
    let given = text(value, "type");
    if given == "kubernetes.io/service-account-token" {
        let name = "kubernetes.io/service-account.name";
        if value["metadata"]["annotations"][name].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("metadata.annotations[{name}]"), ""));
        }
    }
    for (_, keys, one) in SECRET_TYPES.iter().filter(|(name, ..)| *name == given) {
        let missing: Vec<_> = keys.iter().filter(|key| value["data"][**key].is_null()).collect();
        if !*one || missing.len() == keys.len() {
            errors.extend(missing.iter().map(|key| FieldError::required(format!("data[{key}]"), "")));
        }
    }
}

pub(super) fn validate_namespace(value: &Value, errors: &mut Errors) {
    for finalizer in items(value, "spec.finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        fields::each_wrong(name, "spec.finalizers", steersman_wire::is_qualified_name(name), errors);
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", name, detail));
        }
    }
}

/// An immutable object stays immutable.
fn keep_immutable(value: &Value, old: &Value, parts: &[&str], errors: &mut Errors) {
    if old["immutable"] != true {
        return;
    }
    let mut refuse = |field: &str| {
        errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
    };
    if value["immutable"] != true {
        refuse("immutable");
    }
    for part in parts {
        let entries = |value: &Value| get(value, part).as_object().cloned().unwrap_or_default();
        if entries(value) != entries(old) {
            refuse(part);
        }
    }
}

pub(super) fn validate_config_map_update(value: &Value, old: &Value, errors: &mut Errors) {
    keep_immutable(value, old, &["data", "binaryData"], errors);
    validate_config_map(value, errors);
}

pub(super) fn validate_secret_update(value: &Value, old: &Value, errors: &mut Errors) {
    immutable(value, old, "type", errors);
    keep_immutable(value, old, &["data"], errors);
    validate_secret(value, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_map_holds_no_more_than_a_mebibyte() {
        let mut errors = Errors::default();
        validate_config_map(&json!({"data": {"a": "x".repeat(SIZE_MAX)}}), &mut errors);
        assert_eq!(*errors, []);
        validate_config_map(&json!({"data": {"a": "x".repeat(SIZE_MAX), "b": "y"}}), &mut errors);
        assert_eq!(*errors, [FieldError::too_long("[]", SIZE_MAX)]);
    }
}
