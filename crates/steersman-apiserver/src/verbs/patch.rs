//! Patches: JSON merge patch (RFC 7386) and JSON patch (RFC 6902). Strategic merge patches are in
//! `rules/strategic_merge`, applies in `apply.rs`.

use serde_json::Value;

use crate::request::budget;

/// A JSON patch with more operations is refused.
pub(crate) const OPERATIONS_MAX: usize = 10_000;
/// The limit for the bytes that all copies of a JSON patch add together.
const COPIED_MAX: usize = 3 << 20;
/// The limit for the depth of a value. The real server allows 10,000 levels.
const DEPTH_MAX: usize = crate::rules::schema::DEPTH_MAX;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// It is not a patch.
    #[error("{0}")]
    Malformed(String),
    /// It has too many operations.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooMany(usize),
    /// It does not fit the object.
    #[error("{0}")]
    DoesNotFit(String),
}

/// Applies a merge patch: members of objects are merged, `null` removes, anything else replaces.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, member) in members {
        if member.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), member);
        }
    }
}

/// Applies a JSON patch: all of its operations, or none.
pub(crate) fn apply(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(operations) = patch else {
        let what = "json: cannot unmarshal object into Go value of type jsonpatch.Patch";
        return Err(PatchError::Malformed(what.to_owned()));
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooMany(operations.len()));
    }
    let mut value = target.clone();
    let mut copied = 0;
    for operation in operations {
        apply_one(&mut value, operation, &mut copied)?;
    }
    Ok(value)
}

/// Counts copies, and limits them: each copy could double the object.
fn count_copy(value: &Value, copied: &mut usize) -> Result<(), PatchError> {
    let size = value.to_string().len();
    budget::text(size);
    *copied += size;
    if *copied <= COPIED_MAX {
        return Ok(());
    }
    Err(PatchError::DoesNotFit(format!(
        "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPIED_MAX}"
    )))
}

/// Refuses a value that would be nested too deep.
fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    fn fits(value: &Value, room: usize) -> bool {
        if !budget::step(1) {
            return false;
        }
        let Some(inside) = room.checked_sub(1) else { return !(value.is_object() || value.is_array()) };
        match value {
            Value::Array(items) => items.iter().all(|item| fits(item, inside)),
            Value::Object(members) => members.values().all(|member| fits(member, inside)),
            _ => true,
        }
    }
    let steps = path.bytes().filter(|byte| *byte == b'/').count();
    match DEPTH_MAX.checked_sub(steps) {
        Some(room) if fits(value, room) => Ok(()),
        _ => Err(PatchError::DoesNotFit("exceeded max depth".to_owned())),
    }
}

fn apply_one(target: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), PatchError> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let misfit = |text: String| PatchError::DoesNotFit(text);
    let kind = text("op").unwrap_or("unknown");
    let paths = text("path").map_or(0, str::len) + text("from").map_or(0, str::len);
    if !budget::text(4 * paths) {
        return Err(misfit("the patch takes too many steps".to_owned()));
    }
    let path = text("path").ok_or_else(|| misfit(format!("{kind} operation failed to decode path: missing field")))?;
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => add(target, path, value()),
        "remove" => remove(target, path).map(drop),
        "replace" => replace(target, path, value()),
        "test" => test(target, path, operation.get("value")),
        "move" | "copy" => {
            let from =
                text("from").ok_or_else(|| misfit(format!("{kind} operation failed to decode from: missing field")))?;
            // The whole cannot be moved into a part of itself.
            if from.is_empty() {
                return Err(missing(kind, from));
            }
            let moved = if kind == "move" {
                remove(target, from)?
            } else {
                let found = find(target, from, kind)?;
                count_copy(found, copied)?;
                found.clone()
            };
            add(target, path, moved)
        }
        other => Err(misfit(format!("Unexpected kind: {other}"))),
    }
}

/// The steps of a pointer, unescaped.
fn steps(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// The index of an array element. Negative ones are refused.
fn index(step: &str, len: usize) -> Option<usize> {
    let valid = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    step.parse().ok().filter(|index| valid && *index < len)
}

fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(index(step, items.len())?),
        _ => None,
    }
}

fn find<'a>(target: &'a Value, path: &str, kind: &str) -> Result<&'a Value, PatchError> {
    let found = steps(path).iter().try_fold(target, |value, step| child(value, step));
    found.ok_or_else(|| missing(kind, path))
}

fn missing(kind: &str, path: &str) -> PatchError {
    PatchError::DoesNotFit(format!("{kind} operation does not apply: doc is missing path: {path}: missing value"))
}

/// The container of the last step of `path`, and that step.
fn container<'a>(target: &'a mut Value, path: &str, kind: &str) -> Result<(&'a mut Value, String), PatchError> {
    let mut steps = steps(path);
    let last = steps.pop().ok_or_else(|| missing(kind, path))?;
    let mut value = target;
    for step in &steps {
        value = match value {
            Value::Object(members) => members.get_mut(step),
            Value::Array(items) => {
                let len = items.len();
                index(step, len).and_then(|index| items.get_mut(index))
            }
            _ => None,
        }
        .ok_or_else(|| missing(kind, path))?;
    }
    Ok((value, last))
}

/// Charges the items of a list that an operation shifts by one.
fn shift(items: usize) {
    budget::step(items / 16);
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match container(target, path, "add")? {
        (Value::Object(members), step) => drop(members.insert(step, value)),
        (Value::Array(items), step) if step == "-" => items.push(value),
        (Value::Array(items), step) => {
            let place = index(&step, items.len() + 1).ok_or_else(|| {
                PatchError::DoesNotFit(format!(
                    "add operation does not apply: doc is missing path: {path}: Unable to access invalid index: {step}: \
                     invalid index referenced"
                ))
            })?;
            shift(items.len() - place);
            items.insert(place, value);
        }
        _ => return Err(missing("add", path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, PatchError> {
    let removed = match container(target, path, "remove")? {
        (Value::Object(members), step) => members.remove(&step),
        (Value::Array(items), step) => index(&step, items.len()).map(|place| {
            shift(items.len() - place);
            items.remove(place)
        }),
        _ => None,
    };
    removed.ok_or_else(|| {
        PatchError::DoesNotFit(format!("remove operation does not apply: doc is missing path: {path}: missing value"))
    })
}

fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    if path.is_empty() {
        if !(value.is_object() || value.is_array()) {
            return Err(missing("replace", path));
        }
        *target = value;
        return Ok(());
    }
    let (container, step) = container(target, path, "replace")?;
    match container {
        // A missing member is added, as in the real server's library.
        Value::Object(members) => drop(members.insert(step, value)),
        Value::Array(items) => {
            let len = items.len();
            let place =
                index(&step, len).and_then(|index| items.get_mut(index)).ok_or_else(|| missing("replace", path))?;
            *place = value;
        }
        _ => return Err(missing("replace", path)),
    }
    Ok(())
}

fn test(target: &Value, path: &str, expected: Option<&Value>) -> Result<(), PatchError> {
    let found = steps(path).iter().try_fold(target, |value, step| child(value, step));
    // A missing value equals null, as in the real server's library.
    if budget::same(found.unwrap_or(&Value::Null), expected.unwrap_or(&Value::Null)) {
        return Ok(());
    }
    Err(PatchError::DoesNotFit(format!("testing value {path} failed: test failed")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_does_what_rfc_7386_shows() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut target, patch, expected) in cases {
            let before = target.clone();
            merge(&mut target, patch.clone());
            assert_eq!(target, expected, "{before} with {patch}");
        }
    }

    #[test]
    fn json_patch_does_each_operation() {
        let target = json!({"a": {"b/c": 1, "m~n": 2}, "l": [1, 2, 3]});
        let cases = [
            (json!([{"op": "add", "path": "/x", "value": 1}]), Some(("/x", json!(1)))),
            (json!([{"op": "add", "path": "/l/1", "value": 9}]), Some(("/l", json!([1, 9, 2, 3])))),
            (json!([{"op": "add", "path": "/l/-", "value": 9}]), Some(("/l", json!([1, 2, 3, 9])))),
            (json!([{"op": "add", "path": "/l/3", "value": 9}]), Some(("/l", json!([1, 2, 3, 9])))),
            (json!([{"op": "remove", "path": "/a/b~1c"}]), Some(("/a", json!({"m~n": 2})))),
            (json!([{"op": "replace", "path": "/a/m~0n", "value": 3}]), Some(("/a/m~0n", json!(3)))),
            (json!([{"op": "move", "from": "/a/b~1c", "path": "/y"}]), Some(("/y", json!(1)))),
            (json!([{"op": "copy", "from": "/l", "path": "/y"}]), Some(("/y", json!([1, 2, 3])))),
            (json!([{"op": "test", "path": "/l/0", "value": 1}]), Some(("/l/0", json!(1)))),
            (json!([{"op": "add", "path": "/l/4", "value": 9}]), None),
            (json!([{"op": "add", "path": "/l/01", "value": 9}]), None),
            (json!([{"op": "add", "path": "/n/x", "value": 9}]), None),
            (json!([{"op": "remove", "path": "/n"}]), None),
            (json!([{"op": "replace", "path": "/n", "value": 1}]), Some(("/n", json!(1)))),
            (json!([{"op": "replace", "path": "/l/3", "value": 1}]), None),
            (json!([{"op": "test", "path": "/l/0", "value": 2}]), None),
            (json!([{"op": "add", "path": "/z", "value": 1}, {"op": "remove", "path": "/n"}]), None),
            (json!([{"op": "frobnicate", "path": "/z"}]), None),
            (json!([{"op": "add"}]), None),
        ];
        for (patch, expected) in cases {
            match (apply(&target, &patch), expected) {
                (Ok(patched), Some((path, value))) => assert_eq!(patched.pointer(path), Some(&value), "{patch}"),
                (Err(PatchError::DoesNotFit(_)), None) => {}
                (result, _) => panic!("{patch}: {result:?}"),
            }
        }
    }

    #[test]
    fn no_patch_grows_without_bound() {
        let copy = |place: usize| json!({"op": "copy", "from": "/a", "path": format!("/a/{place}")});
        let copies: Vec<Value> = (0..100).map(copy).collect();
        assert!(matches!(apply(&json!({"a": {"k": "v"}}), &copies.into()), Err(PatchError::DoesNotFit(_))));
        let deeper = |depth: usize| json!({"op": "add", "path": "/a".repeat(depth), "value": {}});
        let fits: Vec<Value> = (1..DEPTH_MAX).map(deeper).collect();
        assert!(apply(&json!({}), &fits.into()).is_ok());
        let too_deep: Vec<Value> = (1..=DEPTH_MAX).map(deeper).collect();
        assert!(matches!(apply(&json!({}), &too_deep.into()), Err(PatchError::DoesNotFit(_))));
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        assert!(matches!(apply(&json!({}), &json!({})), Err(PatchError::Malformed(_))));
        let many = Value::Array(vec![json!({"op": "test", "path": "/x"}); OPERATIONS_MAX + 1]);
        assert_eq!(apply(&json!({}), &many), Err(PatchError::TooMany(OPERATIONS_MAX + 1)));
    }
}
