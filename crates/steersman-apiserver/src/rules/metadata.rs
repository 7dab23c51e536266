//! The metadata of an object through its life: names, identity, times, generations, immutable
//! fields.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_wire::NameFormat;

use crate::lifecycle::ownership;
use crate::response::status::{Errors, FieldError, Status};
use crate::rules::kinds::Kind;
use steersman_world::World;

/// The number of these characters at the end of a generated name.
const SUFFIX_LENGTH: usize = 5;
const SUFFIX_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
/// The prefix of a generated name is cut to leave room for the suffix.
const PREFIX_MAX: usize = 63 - SUFFIX_LENGTH;

/// The limit for the bytes of all names and values of annotations together.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// The metadata of an object; every decoded object has metadata.
pub(crate) fn of(value: &mut Value) -> &mut Map<String, Value> {
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(Map::new());
    }
    match &mut value["metadata"] {
        Value::Object(metadata) => metadata,
        _ => unreachable!("it was made an object above"),
    }
}

/// Sets the namespace of the object to that of the request.
pub(crate) fn settle_namespace(meta: &mut Map<String, Value>, kind: &Kind, namespace: &str) -> Result<(), Status> {
    let given = meta.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if kind.namespaced {
        meta.insert("namespace".to_owned(), namespace.into());
    } else {
        meta.remove("namespace");
    }
    Ok(())
}

/// Removes references to owners that are in the list already, and returns a warning if there are
/// some. `late` is set after managed fields were computed, as in a patch.
pub(crate) fn drop_duplicate_owners(meta: &mut Map<String, Value>, late: bool) -> Option<String> {
    let owners = meta.get_mut("ownerReferences")?.as_array_mut()?;
    if owners.len() < 2 {
        return None;
    }
    let mut seen = HashSet::new();
    let is_new: Vec<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    if !is_new.contains(&false) {
        return None;
    }
    let uid = |owner: &Value| owner["uid"].as_str().unwrap_or_default().to_owned();
    let duplicates: Vec<String> =
        owners.iter().zip(&is_new).filter(|(_, is_new)| !**is_new).map(|(owner, _)| uid(owner)).collect();
    let mut is_new = is_new.into_iter();
    owners.retain(|_| is_new.next().unwrap_or_default());
    let when = if late { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ))
}

/// The name of an object in messages about its create, before a name is generated.
pub(crate) fn wanted_name(meta: &Map<String, Value>) -> &str {
    let text = |name: &str| meta.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("name").or_else(|| text("generateName")).unwrap_or("Unknown")
}

/// Generates a name from `generateName`, unless there is one.
pub(crate) fn generate_name(meta: &mut Map<String, Value>, world: &World) {
    let text = |name: &str| meta.get(name).and_then(Value::as_str).unwrap_or_default();
    if !text("name").is_empty() || text("generateName").is_empty() {
        return;
    }
    let mut name: String = text("generateName").chars().take(PREFIX_MAX).collect();
    for byte in &world.random_bytes()[..SUFFIX_LENGTH] {
        name.push(char::from(SUFFIX_CHARACTERS[usize::from(*byte) % SUFFIX_CHARACTERS.len()]));
    }
    meta.insert("name".to_owned(), name.into());
}

/// The metadata that the server sets in a new object.
pub(crate) fn fill_new(meta: &mut Map<String, Value>, kind: &Kind, now: &str, world: &World) {
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        meta.remove(field);
    }
    meta.insert("uid".to_owned(), uid(world).into());
    meta.insert("creationTimestamp".to_owned(), now.into());
    if kind.has_generation() {
        meta.insert("generation".to_owned(), 1.into());
    }
}

/// Refuses a patch of the identity of an object.
pub(crate) fn check_kept(kind: &Kind, value: &Value, old: &Value) -> Result<(), Status> {
    for field in ["uid", "deletionTimestamp"] {
        let (new, old) = (&value["metadata"][field], &old["metadata"][field]);
        if !new.is_null() && new != old {
            let error = FieldError::invalid(format!("metadata.{field}"), new.clone(), "field is immutable");
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            // The real server checks twice.
            return Err(Status::invalid(kind.named_kind(), name, &[error.clone(), error]));
        }
    }
    Ok(())
}

/// An object that is being deleted gets no new finalizers.
pub(crate) fn check_finalizers(value: &Value, old: &Value) -> Errors {
    let names = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if old["metadata"]["deletionTimestamp"].is_null() {
        return Errors::default();
    }
    let before: HashSet<String> = names(old).iter().map(Value::to_string).collect();
    let new: Vec<String> = names(value).iter().map(Value::to_string).filter(|name| !before.contains(name)).collect();
    if new.is_empty() {
        return Errors::default();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        new.join(", ")
    );
    let error = FieldError::forbidden("metadata.finalizers", detail);
    // The real server checks twice.
    [error.clone(), error].into_iter().collect()
}

/// Keeps the fields that a client may not change, and counts a change of the spec.
pub(crate) fn keep(value: &mut Value, old: &Value, kind: &Kind, subresource: &str) {
    let before = &old["metadata"];
    let meta = of(value);
    for field in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"]
    {
        match before.get(field) {
            Some(kept) => drop(meta.insert(field.to_owned(), kept.clone())),
            None => drop(meta.remove(field)),
        }
    }
    // Of Deployments, annotations count too.
    let is_deployment = kind.group == "apps" && kind.plural == "deployments" && subresource.is_empty();
    let annotations_changed = is_deployment && value["metadata"]["annotations"] != before["annotations"];
    // That of a PriorityClass stays.
    let counts = kind.has_generation() && kind.plural != "priorityclasses";
    if counts && (annotations_changed || spec_changed(value, old, kind)) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        of(value).insert("generation".to_owned(), generation.into());
    }
}

/// Whether anything besides metadata and status differs.
fn spec_changed(value: &Value, old: &Value, kind: &Kind) -> bool {
    let apart: &[&str] = if kind.has_status() {
        &["metadata", "kind", "apiVersion", "status"]
    } else {
        &["metadata", "kind", "apiVersion"]
    };
    !same_members(value, old, apart)
}

/// Whether two objects have the same members, except for these.
fn same_members(value: &Value, old: &Value, except: &[&str]) -> bool {
    fn rest<'a>(value: &'a Value, except: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        value.as_object().into_iter().flatten().filter(|(name, _)| !except.contains(&name.as_str()))
    }
    rest(value, except).eq(rest(old, except))
}

/// Takes the managed fields that a request has out of its object.
pub(crate) fn take_managed(value: &mut Value) -> Option<Value> {
    value.get_mut("metadata")?.as_object_mut()?.remove("managedFields").filter(|given| !given.is_null())
}

/// Whether a write would change nothing but managed fields.
pub(crate) fn same(value: &Value, old: &Value) -> bool {
    same_members(&value["metadata"], &old["metadata"], &["resourceVersion", "managedFields"])
        && same_members(value, old, &["metadata", "kind", "apiVersion"])
}

/// The errors in the name, the labels and the annotations of an object.
pub(crate) fn check(kind: &Kind, value: &Value, name: &str) -> Errors {
    let meta = &value["metadata"];
    let mut errors = Errors::default();
    if let Some(prefix) = meta["generateName"].as_str().filter(|prefix| !prefix.is_empty()) {
        let texts = name_format(kind).validate_prefix(prefix);
        errors.extend(texts.into_iter().map(|what| FieldError::invalid("metadata.generateName", prefix, what)));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let format = name_format(kind);
        errors.extend(format.validate(name).into_iter().map(|what| FieldError::invalid("metadata.name", name, what)));
    }
    errors.extend(check_labels(value));
    errors.extend(ownership::check(kind, meta));
    errors
}

/// The errors in the labels and the annotations of an object.
pub(crate) fn check_labels(value: &Value) -> Errors {
    let meta = &value["metadata"];
    let mut errors = Errors::default();
    for (key, value) in meta["labels"].as_object().into_iter().flatten() {
        let texts = steersman_wire::is_qualified_name(key);
        errors.extend(texts.into_iter().map(|what| FieldError::invalid("metadata.labels", key.as_str(), what)));
        let text = value.as_str().unwrap_or_default();
        let texts = steersman_wire::is_valid_label_value(text);
        errors.extend(texts.into_iter().map(|what| FieldError::invalid("metadata.labels", text, what)));
    }
    for key in meta["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let texts = steersman_wire::is_qualified_name(&key.to_lowercase());
        errors.extend(texts.into_iter().map(|what| FieldError::invalid("metadata.annotations", key.as_str(), what)));
    }
    if meta["annotations"].as_object().is_some_and(annotations_are_too_long) {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_MAX));
    }
    errors
}

/// Whether all annotations together are too long.
pub(crate) fn annotations_are_too_long(annotations: &Map<String, Value>) -> bool {
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    size > ANNOTATIONS_MAX
}

fn name_format(kind: &Kind) -> NameFormat {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces" | "services") | ("apps", "statefulsets") => NameFormat::DnsLabel,
        ("rbac.authorization.k8s.io", _) => NameFormat::PathSegment,
        _ => NameFormat::DnsSubdomain,
    }
}

/// The values of the selectable fields.
pub(crate) fn selectable(kind: &Kind, value: &Value) -> Vec<(Arc<str>, Box<str>)> {
    let of = |path: &Arc<str>| {
        let (place, unset) = if kind.is_built_in() { builtin_field(path) } else { (&**path, "") };
        let found = place.split('.').fold(value, |value, step| match step.parse::<usize>() {
            Ok(index) => &value[index],
            Err(_) => &value[step],
        });
        let text = match found {
            Value::String(text) => text.clone(),
            Value::Null => unset.to_owned(),
            other => other.to_string(),
        };
        (Arc::clone(path), text.into_boxed_str())
    };
    kind.selectable.iter().map(of).collect()
}

/// The place of a selectable field of a built-in kind, and the value of one that is not set: Go
/// writes an empty boolean and an empty number as text.
fn builtin_field(path: &str) -> (&str, &'static str) {
    match path {
        "spec.hostNetwork" | "spec.unschedulable" => (path, "false"),
        "status.replicas" => (path, "0"),
        "status.successful" => ("status.succeeded", "0"),
        "status.podIP" => ("status.podIPs.0.ip", ""),
        _ => (path, ""),
    }
}

/// A random uid.
pub(crate) fn uid(world: &World) -> String {
    let mut bytes = world.random_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            text.push(char::from(HEX_DIGITS[usize::from(digit)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_that_come_twice_are_dropped() {
        let owner = |uid: &str, controller: Value| json!({"name": "a", "uid": uid, "controller": controller});
        let dropped = |owners: Value, late| {
            let mut value = json!({"metadata": {"ownerReferences": owners}});
            let warning = drop_duplicate_owners(of(&mut value), late).unwrap_or_default();
            (value["metadata"]["ownerReferences"].as_array().map(Vec::len), warning)
        };
        let (a, b) = (owner("a", json!(true)), owner("b", json!(true)));
        assert_eq!(dropped(json!([a, b, owner("a", json!(false))]), false), (Some(3), String::new()));
        let (left, warning) = dropped(json!([a, b, b, a, a]), false);
        assert_eq!(left, Some(2));
        assert!(warning.ends_with("duplicate UID(s) observed: b, a, a"), "{warning}");
        assert!(warning.starts_with(".metadata.ownerReferences contains duplicate entries; API server"), "{warning}");
        let (_, warning) = dropped(json!([a, a]), true);
        assert!(warning.contains("entries after mutating admission happens; API server dedups"), "{warning}");
    }
}
