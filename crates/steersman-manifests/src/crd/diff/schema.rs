//! Schemas, keyword by keyword.

use serde_json::{Map, Value};

use super::change::{Changes, Direction};
use super::definition::compare_values;

/// Lower bounds: a larger one is tighter. `true` for upper bounds.
const BOUNDS: [(&str, bool); 8] = [
    ("minimum", false),
    ("minLength", false),
    ("minItems", false),
    ("minProperties", false),
    ("maximum", true),
    ("maxLength", true),
    ("maxItems", true),
    ("maxProperties", true),
];
/// Restrictions without an order between their values.
const RESTRICTIONS: [&str; 8] = ["pattern", "format", "multipleOf", "not", "oneOf", "anyOf", "allOf", "uniqueItems"];
/// Keywords that change how the server merges or reads a field.
const MEANINGS: [&str; 4] =
    ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-embedded-resource"];

/// Compares two schemas.
pub(super) fn compare(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    compare_types(changes, old, new);
    for (keyword, is_upper) in BOUNDS {
        compare_bound(changes, keyword, is_upper, old, new);
    }
    compare_enum(changes, &old["enum"], &new["enum"]);
    for keyword in RESTRICTIONS {
        compare_restriction(changes, keyword, &old[keyword], &new[keyword]);
    }
    for keyword in MEANINGS {
        compare_values(changes, keyword, &old[keyword], &new[keyword], true);
    }
    compare_flag(changes, "nullable", old, new);
    compare_flag(changes, "x-kubernetes-preserve-unknown-fields", old, new);
    // An object without the field changes its meaning, unless there was no default.
    compare_values(changes, "default", &old["default"], &new["default"], !old["default"].is_null());
    compare_rules(changes, &old["x-kubernetes-validations"], &new["x-kubernetes-validations"]);
    compare_values(changes, "description", &old["description"], &new["description"], false);

    compare_fields(changes, old, new);
    for (keyword, part) in [("items", "[]"), ("additionalProperties", "{}")] {
        let (old, new) = (&old[keyword], &new[keyword]);
        match (old.is_object(), new.is_object()) {
            (true, true) => compare(&mut changes.below(part), old, new),
            (true, false) => changes.push(keyword, Direction::Removed, true, (&Value::Null, &Value::Null)),
            (false, true) => changes.push(keyword, Direction::Added, true, (&Value::Null, &Value::Null)),
            (false, false) => {}
        }
    }
}

/// The type of a field, with integers or strings as a type of their own.
fn type_of(schema: &Value) -> &str {
    match schema["type"].as_str() {
        _ if schema["x-kubernetes-int-or-string"] == true => "int-or-string",
        Some(name) => name,
        None => "any",
    }
}

fn compare_types(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    let (was, is) = (type_of(old), type_of(new));
    if was == is {
        return;
    }
    let includes = |wide: &str, narrow: &str| {
        wide == "any"
            || wide == "number" && narrow == "integer"
            || wide == "int-or-string" && matches!(narrow, "integer" | "string")
    };
    let values = (&Value::from(was), &Value::from(is));
    if includes(is, was) {
        // Clients that read the field know one type of it.
        changes.push("type", Direction::Widened, true, values);
    } else if includes(was, is) {
        changes.push("type", Direction::Narrowed, true, values);
    } else {
        changes.push("type", Direction::Changed, true, values);
    }
}

fn compare_bound(changes: &mut Changes<'_>, keyword: &str, is_upper: bool, old: &Value, new: &Value) {
    let exclusive = match keyword {
        "minimum" => "exclusiveMinimum",
        "maximum" => "exclusiveMaximum",
        _ => "",
    };
    // The bound, and whether the value itself is outside. An upper bound is turned round.
    let read = |schema: &Value| {
        let bound = schema[keyword].as_f64()?;
        Some((if is_upper { -bound } else { bound }, schema[exclusive] == true))
    };
    let values = (&old[keyword], &new[keyword]);
    match (read(old), read(new)) {
        (None, Some(_)) => changes.push(keyword, Direction::Narrowed, true, values),
        (Some(_), None) => changes.push(keyword, Direction::Widened, false, values),
        (Some(old), Some(new)) if new > old => changes.push(keyword, Direction::Narrowed, true, values),
        (Some(old), Some(new)) if new < old => changes.push(keyword, Direction::Widened, false, values),
        _ => {}
    }
}

fn compare_enum(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    match (old.as_array(), new.as_array()) {
        (None, Some(_)) => changes.push("enum", Direction::Narrowed, true, (old, new)),
        (Some(_), None) => changes.push("enum", Direction::Widened, false, (old, new)),
        (Some(old), Some(new)) => {
            for removed in old.iter().filter(|value| !new.contains(value)) {
                changes.push("enum value", Direction::Removed, true, (removed, &Value::Null));
            }
            for added in new.iter().filter(|value| !old.contains(value)) {
                changes.push("enum value", Direction::Added, false, (&Value::Null, added));
            }
        }
        (None, None) => {}
    }
}

fn compare_restriction(changes: &mut Changes<'_>, keyword: &str, old: &Value, new: &Value) {
    match (old.is_null(), new.is_null()) {
        (true, false) => changes.push(keyword, Direction::Narrowed, true, (old, new)),
        (false, true) => changes.push(keyword, Direction::Widened, false, (old, new)),
        // A new variant of an enum is one more alternative.
        _ if matches!(keyword, "oneOf" | "anyOf") && contains(new, old) && old != new => {
            changes.push(keyword, Direction::Widened, false, (old, new));
        }
        // Which of the two takes more values is not known.
        _ if old != new => changes.push(keyword, Direction::Changed, true, (old, new)),
        _ => {}
    }
}

/// Whether a list has all values of another one.
fn contains(all: &Value, some: &Value) -> bool {
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    some.as_array().is_some_and(|some| some.iter().all(|value| all.contains(value)))
}

/// Keywords that let more values through.
fn compare_flag(changes: &mut Changes<'_>, keyword: &str, old: &Value, new: &Value) {
    match (old[keyword] == true, new[keyword] == true) {
        (true, false) => changes.push(keyword, Direction::Narrowed, true, (&Value::Null, &Value::Null)),
        (false, true) => changes.push(keyword, Direction::Widened, false, (&Value::Null, &Value::Null)),
        _ => {}
    }
}

fn compare_rules(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    let rules = |list: &Value| -> Vec<Value> {
        list.as_array().into_iter().flatten().map(|rule| rule["rule"].clone()).collect()
    };
    let (old, new) = (rules(old), rules(new));
    for added in new.iter().filter(|rule| !old.contains(rule)) {
        changes.push("rule", Direction::Added, true, (&Value::Null, added));
    }
    for removed in old.iter().filter(|rule| !new.contains(rule)) {
        changes.push("rule", Direction::Removed, false, (removed, &Value::Null));
    }
}

fn compare_fields(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    let none = Map::new();
    let fields = |schema: &'_ Value| schema["properties"].as_object().cloned().unwrap_or_else(|| none.clone());
    let (old_fields, new_fields) = (fields(old), fields(new));
    let is_required = |schema: &Value, name: &str| {
        let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name));
        // A default fills the field before the server looks whether it is there.
        required && schema["properties"][name]["default"].is_null()
    };
    for (name, field) in &old_fields {
        let mut changes = changes.below(&format!(".{name}"));
        let Some(now) = new_fields.get(name) else {
            changes.push("field", Direction::Removed, true, (&Value::Null, &Value::Null));
            continue;
        };
        match (is_required(old, name), is_required(new, name)) {
            (false, true) => changes.push("required", Direction::Narrowed, true, (&Value::Null, &Value::Null)),
            (true, false) => changes.push("required", Direction::Widened, false, (&Value::Null, &Value::Null)),
            _ => {}
        }
        compare(&mut changes, field, now);
    }
    for name in new_fields.keys().filter(|name| !old_fields.contains_key(*name)) {
        let mut changes = changes.below(&format!(".{name}"));
        let required = is_required(new, name);
        let what = if required { "required field" } else { "field" };
        changes.push(what, Direction::Added, required, (&Value::Null, &Value::Null));
    }
}
