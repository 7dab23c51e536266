//! Whether a value fits its type, with the real server's messages.

use serde_json::Value;

use super::items::{Hashed, element_of};
use super::types::{Choice, Scalar, TypeRef};
use crate::request::budget;

/// More errors are not reported.
const ERRORS_MAX: usize = 100;

/// Checks a value. `duplicates` allows several items of a list with the same keys. The error is one
/// text for all that is wrong.
pub(crate) fn validate(ty: TypeRef<'_>, value: &Value, duplicates: bool) -> Result<(), String> {
    let mut walk = Walk { errors: Vec::new(), path: String::new(), duplicates };
    walk.value(ty, value);
    match &walk.errors[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Walk {
    errors: Vec<String>,
    path: String,
    duplicates: bool,
}

impl Walk {
    fn error(&mut self, what: &str) {
        if self.errors.len() < ERRORS_MAX {
            budget::make(self.path.len() + what.len());
            self.errors.push(if self.path.is_empty() { what.to_owned() } else { format!("{}: {what}", self.path) });
        }
    }

    fn within(&mut self, step: &str, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        run(self);
        self.path.truncate(length);
    }

    fn value(&mut self, ty: TypeRef<'_>, value: &Value) {
        if !budget::step(1) {
            return;
        }
        match ty.atom().of(Some(value)).choice() {
            Choice::Scalar(scalar) => {
                if let Some(what) = check_scalar(scalar, value) {
                    self.error(&what);
                }
            }
            Choice::List(list) => {
                let items = match value {
                    Value::Array(items) => items,
                    Value::Null => return,
                    other => return self.error(&format!("expected list, got {}", go_value(other))),
                };
                let mut seen = std::collections::HashSet::new();
                for (place, item) in items.iter().enumerate() {
                    if list.is_atomic() {
                        self.within(&format!("[{place}]"), |walk| walk.value(list.item, item));
                        continue;
                    }
                    let element = match element_of(&list, item) {
                        Ok(element) => element,
                        Err(why) => return self.error(&format!("element {place}: {why}")),
                    };
                    let step = element.to_string();
                    if !seen.insert(Hashed(element)) && !self.duplicates {
                        self.error(&format!("duplicate entries for key {step}"));
                    }
                    self.within(&step, |walk| walk.value(list.item, item));
                }
            }
            Choice::Map(map) => {
                let members = match value {
                    Value::Object(members) => members,
                    Value::Null => return,
                    other => return self.error(&format!("expected map, got {}", go_value(other))),
                };
                for (name, member) in members {
                    match map.member(name) {
                        Some(ty) => self.within(&format!(".{name}"), |walk| walk.value(ty, member)),
                        None => {
                            self.within(&format!(".{name}"), |walk| walk.error("field not declared in schema"));
                            // The real server reports one of them, in no order.
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Why a value is no scalar of that type.
pub(super) fn check_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Number | Scalar::Any, Value::Number(_))
        | (Scalar::Text | Scalar::Any, Value::String(_))
        | (Scalar::Bool | Scalar::Any, Value::Bool(_)) => None,
        (Scalar::Number, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::Text, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_literal(other)))
        }
        (Scalar::Bool, other) => Some(format!("expected boolean, got {}", go_value(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got {}", go_value(other))),
    }
}

/// Go's name for the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go prints the struct around it.
fn go_value(value: &Value) -> String {
    format!("&{{{}}}", go_text(value))
}

fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| format!("{name}:{}", go_text(member)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as a literal of Go.
fn go_literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => steersman_wire::quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, member)| format!("{}:{}", steersman_wire::quote(name), go_literal(member)));
            format!("map[string]interface {{}}{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
