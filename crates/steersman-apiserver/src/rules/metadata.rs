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
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"] {
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
pub(crate) fn keep(value: &mut Value, old: &Value, kind: &Kind) {
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
    meta.remove("managedFields");
    if kind.has_generation() && spec_changed(value, old, kind) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        of(value).insert("generation".to_owned(), generation.into());
    }
}

/// Whether anything besides metadata and status differs.
fn spec_changed(value: &Value, old: &Value, kind: &Kind) -> bool {
    let rest = |value: &Value| -> Map<String, Value> {
        let members = value.as_object().cloned().unwrap_or_default();
        let kept = members.into_iter().filter(|(name, _)| {
            let apart = name == "status" && kind.has_status();
            !apart && !matches!(name.as_str(), "metadata" | "kind" | "apiVersion")
        });
        kept.collect()
    };
    rest(value) != rest(old)
}

/// Whether a write would change nothing.
pub(crate) fn same(value: &Value, old: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        of(&mut value).remove("resourceVersion");
        if let Some(members) = value.as_object_mut() {
            members.remove("kind");
            members.remove("apiVersion");
        }
        value
    };
    rest(value) == rest(old)
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
    let annotations = meta["annotations"].as_object().into_iter().flatten();
    let size: usize = annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_MAX));
    }
    errors
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
        let found = path.split('.').fold(value, |value, step| &value[step]);
        let text = match found {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        (Arc::clone(path), text.into_boxed_str())
    };
    kind.selectable.iter().map(of).collect()
}

/// A random uid.
fn uid(world: &World) -> String {
    let mut bytes = world.random_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
