//! Access to fields by path. Fields of an unexpected type are left alone.

use serde_json::{Map, Value};

use crate::request::budget;
use crate::response::status::{Errors, FieldError};

/// The memory of a default besides its value: an entry in a map and its name.
const DEFAULT_BYTES: usize = 64;

/// An empty object.
pub(super) fn object() -> Value {
    Value::Object(Map::new())
}

/// The value at a dotted path; null if there is none.
pub(super) fn get<'a>(value: &'a Value, path: &str) -> &'a Value {
    // Every check and every default calls this, so a loop over pairs of items is charged.
    budget::step(1);
    path.split('.').fold(value, |value, step| &value[step])
}

/// The text at a path; empty if there is none, as in Go.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    get(value, path).as_str().unwrap_or_default()
}

/// The number at a path; zero if there is none.
pub(super) fn number(value: &Value, path: &str) -> i64 {
    get(value, path).as_i64().unwrap_or_default()
}

/// The items of the list at a path.
pub(super) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    get(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The members of the map at a path.
pub(super) fn members<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    get(value, path).as_object().into_iter().flatten()
}

/// Whether a field has its zero value, which Go omits.
pub(super) fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The value at a path, mutable.
pub(super) fn get_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(value, |value, step| value.as_object_mut()?.get_mut(step))
}

/// Sets a field that is absent or an empty text. Creates missing objects on the path.
pub(super) fn fill(value: &mut Value, path: &str, default: impl Into<Value>) {
    if budget::is_spent() {
        return;
    }
    let default = default.into();
    put_if(value, path, default, |found| matches!(found, Value::Null) || found.as_str().is_some_and(str::is_empty));
}

/// Sets a field that is absent or zero.
pub(super) fn fill_zero(value: &mut Value, path: &str, default: i64) {
    if !budget::is_spent() {
        put_if(value, path, default.into(), |found| found.is_null() || *found == 0);
    }
}

/// Sets a field. Creates missing objects on the path.
pub(super) fn put(value: &mut Value, path: &str, new: impl Into<Value>) {
    put_if(value, path, new.into(), |_| true);
}

fn put_if(mut value: &mut Value, path: &str, new: Value, wanted: impl Fn(&Value) -> bool) {
    budget::step(1);
    budget::make(DEFAULT_BYTES + budget::shallow(&new));
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        if value.is_null() {
            *value = object();
        }
        let Some(members) = value.as_object_mut() else { return };
        let found = members.entry(step).or_insert(Value::Null);
        if steps.peek().is_none() {
            if wanted(found) {
                *found = new;
            }
            return;
        }
        value = found;
    }
}

/// Removes the field at a path.
pub(super) fn remove(value: &mut Value, path: &str) {
    let (parent, name) = match path.rsplit_once('.') {
        Some((parent, name)) => (get_mut(value, parent), name),
        None => (Some(value), path),
    };
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        members.remove(name);
    }
}

/// Copies the field at a path from `from`, or removes it if it is absent there.
pub(super) fn copy(value: &mut Value, from: &Value, path: &str) {
    match get(from, path) {
        Value::Null => remove(value, path),
        found => put(value, path, found.clone()),
    }
}

/// Calls a function with each item of the list at a path.
pub(super) fn each(value: &mut Value, path: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = get_mut(value, path).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}

/// One default of a table.
pub(super) enum Default {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    Object,
    Null,
}

/// Sets the defaults of a table.
pub(super) fn fill_all(value: &mut Value, defaults: &[(&str, Default)]) {
    for (path, default) in defaults {
        match default {
            Default::Text(text) => fill(value, path, *text),
            Default::Int(number) => fill(value, path, *number),
            Default::Bool(flag) => fill(value, path, *flag),
            Default::Object => fill(value, path, object()),
            Default::Null => fill(value, path, Value::Null),
        }
    }
}

/// Refuses negative numbers. An absent field counts as zero.
pub(super) fn not_negative(value: &Value, at: &str, paths: &[&str], errors: &mut Errors) {
    for path in paths {
        let found = number(value, path);
        if found < 0 {
            errors.push(FieldError::invalid(format!("{at}.{path}"), found, "must be greater than or equal to 0"));
        }
    }
}

/// Refuses a text that is not one of the supported values.
pub(super) fn one_of(value: &Value, at: &str, path: &str, supported: &[&str], errors: &mut Errors) {
    let found = text(value, path);
    if !supported.contains(&found) {
        errors.push(FieldError::not_supported(format!("{at}.{path}"), found, supported));
    }
}

/// Converts the messages of a text check to errors of a field.
pub(super) fn each_wrong(found: &str, field: &str, wrong: Vec<String>, errors: &mut Errors) {
    errors.extend(wrong.into_iter().map(|what| FieldError::invalid(field, found, what)));
}

/// Refuses an invalid port number.
pub(super) fn port_number(port: i64, field: &str, errors: &mut Errors) {
    if !(1..=65535).contains(&port) {
        errors.push(FieldError::invalid(field, port, "must be between 1 and 65535, inclusive"));
    }
}

/// Refuses an invalid port number or port name. A name has at most 15 characters.
pub(super) fn port(port: &Value, field: &str, errors: &mut Errors) {
    match port {
        Value::String(name) => port_name(name, field, errors),
        other => port_number(other.as_i64().unwrap_or_default(), field, errors),
    }
}

/// Refuses an invalid port name.
pub(super) fn port_name(name: &str, field: &str, errors: &mut Errors) {
    let mut refuse = |what: &str| errors.push(FieldError::invalid(field, name, what));
    if name.len() > 15 {
        refuse("must be no more than 15 characters");
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        refuse("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        refuse("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        refuse("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        refuse("must not begin or end with a hyphen");
    }
}
