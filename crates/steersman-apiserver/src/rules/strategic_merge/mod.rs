//! Strategic merge patches of built-in kinds: a merge patch that knows which lists are merged by a
//! key, and directives for what a merge cannot express.
//!
//! | directive | meaning |
//! |---|---|
//! | `$patch: replace` | the map, or the list that the item is in, is replaced |
//! | `$patch: delete` | the map is emptied, or the item with this merge key is removed |
//! | `$retainKeys: [a]` | other fields of the map are removed |
//! | `$setElementOrder/list: […]` | the order of the list's items |
//! | `$deleteFromPrimitiveList/list: […]` | these scalars are removed from the list |
//!
//! [`merge`] is a pure function. Errors have the real server's texts and codes, which depend on the
//! patch as the real server has changed it so far: it takes directives out while it merges. So the
//! patch is mutable here, too.

mod lists;
mod lookup;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::lookup::Schema;
use crate::request::budget;
use crate::rules::go_text;
use crate::rules::schema::{StructId, Type, Types};

/// Marks what is replaced or deleted.
const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

const BAD_PRIMITIVE_LIST: MergeError = MergeError::Malformed("invalid patch format of primitive list");
const BAD_RETAIN_KEYS: MergeError = MergeError::Malformed("invalid patch format of retainKeys");
const BAD_ORDER: MergeError = MergeError::Malformed("invalid patch format of setElementOrder list");

/// Why a patch was not merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MergeError {
    /// A directive has the wrong form.
    #[error("{0}")]
    Malformed(&'static str),
    /// A merged list has lists as items.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The patch does not fit the object. The real server has no code for these.
    #[error("{0}")]
    Other(String),
    /// A merge key or an item is a map or a list, for which the real server ends the connection.
    #[error("invalid strategic merge patch: a merge key, or an item of a list of scalars, is a map or a list")]
    Incomparable,
}

/// Merges `patch` into an object of the type `of`.
pub(crate) fn merge(
    types: &Types,
    of: StructId,
    original: Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<Map<String, Value>, MergeError> {
    let ty = Type::Struct(of);
    merge_map(original, patch, Schema { types, ty: &ty })
}

fn merge_map(
    mut original: Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema<'_>,
) -> Result<Map<String, Value>, MergeError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                copy(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    lists::merge_ordered(&mut original, patch, schema)?;
    for (key, value) in patch.iter_mut() {
        step()?;
        let is_deletion = key.starts_with(DELETE_FROM_PRIMITIVE_LIST);
        let name =
            if is_deletion { directive_field(key, DELETE_FROM_PRIMITIVE_LIST, BAD_PRIMITIVE_LIST)? } else { key };
        let name = if name.is_empty() { key } else { name };
        if value.is_null() {
            original.remove(name);
            continue;
        }
        let merged = match (original.get_mut(name), value) {
            (Some(Value::Object(before)), Value::Object(patch)) => {
                let (schema, strategy) = schema.field(name)?;
                if strategy.replace {
                    Value::Object(copy(patch)?)
                } else {
                    Value::Object(merge_map(std::mem::take(before), patch, schema)?)
                }
            }
            (Some(Value::Array(before)), Value::Array(patch)) => {
                let (item, strategy) = schema.list(name)?;
                let before = std::mem::take(before);
                Value::Array(lists::merge(before, patch, item, strategy, is_deletion)?)
            }
            // Deletions add nothing, and change nothing of another type.
            (before, value)
                if is_deletion
                    && before.as_ref().is_none_or(|before| go_text::type_name(before) != go_text::type_name(value)) =>
            {
                continue;
            }
            (_, value) => {
                discard_nulls(value)?;
                match without_directives(value)? {
                    Some(value) => value,
                    None => {
                        original.remove(name);
                        continue;
                    }
                }
            }
        };
        original.insert(name.to_owned(), merged);
    }
    Ok(original)
}

/// Applies `$retainKeys`.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), MergeError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(names) = directive else { return Err(BAD_RETAIN_KEYS) };
    if names.iter().any(|name| name.is_array() || name.is_object()) {
        return Err(MergeError::Incomparable);
    }
    steps(names.len() + original.len() + patch.len())?;
    let names: std::collections::HashSet<&str> = names.iter().filter_map(Value::as_str).collect();
    let is_named = |(name, value): (&String, &Value)| {
        value.is_null()
            || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            || name.starts_with(SET_ELEMENT_ORDER)
            || names.contains(name.as_str())
    };
    if !patch.iter().all(is_named) {
        return Err(BAD_RETAIN_KEYS);
    }
    original.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// The name of the list in the key of a directive.
fn directive_field<'a>(key: &'a str, prefix: &str, error: MergeError) -> Result<&'a str, MergeError> {
    match key.split_once('/') {
        Some((found, name)) if found == prefix => Ok(name),
        _ => Err(error),
    }
}

/// Removes every null member.
fn discard_nulls(value: &mut Value) -> Result<(), MergeError> {
    step()?;
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().try_for_each(discard_nulls)
        }
        Value::Array(items) => items.iter_mut().try_for_each(discard_nulls),
        _ => Ok(()),
    }
}

/// A copy of a new value without the parts that are marked by `$patch`. Returns nothing if it is
/// marked itself.
fn without_directives(value: &mut Value) -> Result<Option<Value>, MergeError> {
    if let Value::Array(items) = value {
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            if remove_directives(item)? {
                kept.push(copy_value(item)?);
            }
        }
        return Ok(Some(Value::Array(kept)));
    }
    if remove_directives(value)? { copy_value(value).map(Some) } else { Ok(None) }
}

/// Removes the parts that are marked by `$patch`. Returns false if the value is marked itself.
fn remove_directives(value: &mut Value) -> Result<bool, MergeError> {
    step()?;
    let mut result = Ok(true);
    let mut keep = |value: &mut Value| match remove_directives(value) {
        Ok(keep) => keep,
        Err(error) => {
            result = Err(error);
            true
        }
    };
    match value {
        Value::Object(members) if members.contains_key(PATCH) => return Ok(false),
        Value::Object(members) => members.retain(|_, member| keep(member)),
        Value::Array(items) => items.retain_mut(keep),
        _ => {}
    }
    result
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> MergeError {
    let (directive, patch) = (go_text::as_string(directive), map_text(patch));
    MergeError::Other(format!("unknown patch type: {directive} in map: {patch}"))
}

fn map_text(map: &Map<String, Value>) -> String {
    go_text::text(&Value::Object(map.clone()))
}

/// The error about a value of another type than `expected`.
fn wrong_type(expected: &str, found: &Value) -> MergeError {
    let found = if found.is_null() { "%!s(<nil>)" } else { go_text::type_name(found) };
    MergeError::Other(format!("expected a {expected}, but received a {found}"))
}

fn copy(map: &Map<String, Value>) -> Result<Map<String, Value>, MergeError> {
    let values: usize = map.values().map(budget::deep).sum();
    if budget::make(values) { Ok(map.clone()) } else { Err(too_much()) }
}

/// A copy of a part of the patch, charged to the request.
fn copy_value(value: &Value) -> Result<Value, MergeError> {
    if budget::make(budget::deep(value)) { Ok(value.clone()) } else { Err(too_much()) }
}

fn step() -> Result<(), MergeError> {
    steps(1)
}

/// Charges steps. The response to a request that exceeds them does not depend on the error.
fn steps(count: usize) -> Result<(), MergeError> {
    if budget::step(count) { Ok(()) } else { Err(too_much()) }
}

fn too_much() -> MergeError {
    MergeError::Other("the patch takes too many steps".to_owned())
}
