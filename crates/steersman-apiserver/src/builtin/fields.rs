//! Ways to reach into an object by path, that leave alone what is not of the expected type.

use serde_json::{Map, Value};

use crate::budget;
use crate::status::{Errors, FieldError};

/// What a default takes besides its value: a place in a map and the name that it has there.
const DEFAULT_BYTES: usize = 64;

/// An empty object.
pub(super) fn object() -> Value {
    Value::Object(Map::new())
}

/// What stands at a path of dots; null when nothing does.
pub(super) fn get<'a>(value: &'a Value, path: &str) -> &'a Value {
    // Every check and every default comes here: a loop over pairs of items is seen in the count.
    budget::step(1);
    path.split('.').fold(value, |value, step| &value[step])
}

/// The text at a path, empty when there is none: Go does not tell the two apart.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    get(value, path).as_str().unwrap_or_default()
}

/// The number at a path, zero when there is none.
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

/// Whether a field is as if it were left out.
pub(super) fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What stands at a path, to be changed.
pub(super) fn get_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(value, |value, step| value.as_object_mut()?.get_mut(step))
}

/// Puts a value where nothing is, or an empty text; objects on the way are made.
pub(super) fn fill(value: &mut Value, path: &str, default: impl Into<Value>) {
    if budget::is_spent() {
        return;
    }
    let default = default.into();
    put_if(value, path, default, |found| matches!(found, Value::Null) || found.as_str().is_some_and(str::is_empty));
}

/// Puts a number where nothing is, or a zero.
pub(super) fn fill_zero(value: &mut Value, path: &str, default: i64) {
    if !budget::is_spent() {
        put_if(value, path, default.into(), |found| found.is_null() || *found == 0);
    }
}

/// Puts a value, whatever was there; objects on the way are made.
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

/// Takes away what stands at a path.
pub(super) fn remove(value: &mut Value, path: &str) {
    let (parent, name) = match path.rsplit_once('.') {
        Some((parent, name)) => (get_mut(value, parent), name),
        None => (Some(value), path),
    };
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        members.remove(name);
    }
}

/// Makes what stands at a path the same as in `from`.
pub(super) fn copy(value: &mut Value, from: &Value, path: &str) {
    match get(from, path) {
        Value::Null => remove(value, path),
        found => put(value, path, found.clone()),
    }
}

/// Does something to each item of the list at a path.
pub(super) fn each(value: &mut Value, path: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = get_mut(value, path).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}

/// A default in a table.
pub(super) enum Default {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    Object,
    Null,
}

/// Fills what a table says.
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

/// Refuses numbers below zero; what is left out is none.
pub(super) fn not_negative(value: &Value, at: &str, paths: &[&str], errors: &mut Errors) {
    for path in paths {
        let found = number(value, path);
        if found < 0 {
            errors.push(FieldError::invalid(format!("{at}.{path}"), found, "must be greater than or equal to 0"));
        }
    }
}

/// Refuses a text that is none of the supported ones.
pub(super) fn one_of(value: &Value, at: &str, path: &str, supported: &[&str], errors: &mut Errors) {
    let found = text(value, path);
    if !supported.contains(&found) {
        errors.push(FieldError::not_supported(format!("{at}.{path}"), found, supported));
    }
}

/// Turns what a check of a text says into errors of a field.
pub(super) fn each_wrong(found: &str, field: &str, wrong: Vec<String>, errors: &mut Errors) {
    errors.extend(wrong.into_iter().map(|what| FieldError::invalid(field, found, what)));
}

/// Refuses a port that is none.
pub(super) fn port_number(port: i64, field: &str, errors: &mut Errors) {
    if !(1..=65535).contains(&port) {
        errors.push(FieldError::invalid(field, port, "must be between 1 and 65535, inclusive"));
    }
}

/// Refuses a port, by number or by name, that is none. A name has no more than 15 characters.
pub(super) fn port(port: &Value, field: &str, errors: &mut Errors) {
    match port {
        Value::String(name) => port_name(name, field, errors),
        other => port_number(other.as_i64().unwrap_or_default(), field, errors),
    }
}

/// Refuses a name of a port that is none.
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
