//! Validation of objects by their schema, with the real server's messages.
//!
//! The messages are part of the contract: people read them and tests compare them. So values are
//! checked in the real server's order, the best branch of `anyOf` and `oneOf` by its count is
//! reported, and errors about no single field have the field `<nil>`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value, json};

use super::contents::{check_embedded, embedded_errors, list_errors};
use super::paths;
use super::schema::{Additional, Bound, List, Node, Schema};
use crate::request::budget;
use crate::response::status::{Errors, FieldError};

impl Schema {
    /// Validates a new object.
    pub(crate) fn validate(&self, object: &Value) -> Errors {
        let mut errors = Check { prefix: "" }.errors(&self.root, object, None);
        errors.extend(embedded_errors(&self.root, object));
        errors.extend(list_errors(&self.root, object));
        errors
    }

    /// Validates an update. Invalid values that did not change are accepted, so that a schema can
    /// become stricter and its objects stay writable.
    pub(crate) fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = Check { prefix: "" }.errors(&self.root, object, Some(old));
        errors.extend(embedded_errors(&self.root, object));
        if list_errors(&self.root, old).is_empty() {
            errors.extend(list_errors(&self.root, object));
        }
        errors
    }

    /// Validates an update of the status. Only the status is checked.
    pub(crate) fn validate_status(&self, object: &Value, old: &Value) -> Errors {
        let (Some(node), Some(status)) = (self.root.properties.get("status"), object.get("status")) else {
            return Errors::default();
        };
        let mut errors = Check { prefix: "status" }.errors(node, status, old.get("status"));
        errors.extend(embedded_errors(&self.root, object));
        if list_errors(&self.root, old).is_empty() {
            errors.extend(list_errors(&self.root, object));
        }
        errors
    }
}

/// Validates a default, which is at `field` in a definition.
pub(super) fn default_errors(node: &Node, default: &Value, field: &str) -> Errors {
    let mut embedded = Errors::default();
    check_embedded(node, default, field, &mut embedded);
    if embedded.is_empty() { Check { prefix: field }.errors(node, default, None) } else { embedded }
}

/// A check of one value and its contents.
struct Check<'a> {
    /// The prefix of the fields of errors. Paths in messages lack it.
    prefix: &'a str,
}

/// The result of a check. Errors with the same message are kept once.
#[derive(Default)]
struct Outcome {
    errors: Vec<(String, FieldError)>,
    messages: HashSet<String>,
    /// How many checks were passed: `anyOf` and `oneOf` report the branch with the most.
    passed: usize,
}

impl Outcome {
    fn add(&mut self, message: String, error: FieldError) {
        // One more than is reported, to detect that there are more.
        if self.errors.len() > Errors::MAX || !budget::text(message.len()) || !budget::make(3 * message.len()) {
            return;
        }
        if self.messages.insert(message.clone()) {
            self.errors.push((message, error));
        }
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        for (message, error) in other.errors {
            self.add(message, error);
        }
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// An error about no single field.
    fn plain(&mut self, message: String) {
        self.add(message.clone(), FieldError::invalid("<nil>", "", message));
    }
}

/// A number as Go decodes it: an integer if it is written as one and fits.
#[derive(Clone, Copy)]
enum Numeric {
    Int(i64),
    Float(f64),
}

impl Numeric {
    fn of(number: &Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::INFINITY)), Self::Int)
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Int(number) => number.into(),
            Self::Float(number) => float_value(number),
        }
    }
}

/// A float as messages print it: without a zero fraction.
fn float_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

impl Check<'_> {
    fn errors(&self, node: &Node, value: &Value, old: Option<&Value>) -> Errors {
        self.value(node, "", value, old).errors.into_iter().map(|(_, error)| error).collect()
    }

    /// The field of an error about the value at `path`.
    fn field(&self, path: &str) -> String {
        match (self.prefix, path.strip_prefix('.').unwrap_or(path)) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }

    fn invalid(&self, outcome: &mut Outcome, path: &str, value: Value, message: String) {
        outcome.add(message.clone(), FieldError::invalid(self.field(path), value, message));
    }

    fn type_invalid(&self, outcome: &mut Outcome, path: &str, wanted: &str, found: &str) {
        let message = format!("{path} in body must be of type {wanted}: {}", crate::response::status::quote(found));
        outcome.add(message.clone(), FieldError::type_invalid(self.field(path), found, message));
    }

    /// Checks a value. A value that did not change is valid.
    fn value(&self, node: &Node, path: &str, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = self.changed(node, path, value, old);
        if !outcome.is_valid() && old.is_some_and(|old| budget::same(old, value)) {
            outcome = Outcome { passed: outcome.passed, ..Outcome::default() };
        }
        outcome
    }

    fn changed(&self, node: &Node, path: &str, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        if !budget::text(path.len()) {
            return outcome;
        }
        if !node.types.is_empty() || node.format.is_some() {
            let of_type = self.type_of(node, path, value);
            outcome.merge(of_type);
            outcome.passed += usize::from(!value.is_null());
        }
        if value.is_null() {
            outcome.merge(self.variants(node, path, value));
            return outcome;
        }
        outcome.merge(self.branches(node, path, value, old));
        outcome.passed += 1;
        match value {
            Value::String(text) => {
                outcome.merge(self.text(node, path, text));
                outcome.passed += 1;
                if let Some(format) = &node.format {
                    budget::step(text.len() / 8);
                    if !format.fits(text) {
                        self.type_invalid(&mut outcome, path, &format.name, text);
                    }
                    outcome.passed += 1;
                }
            }
            Value::Number(number) => {
                outcome.merge(self.number(node, path, Numeric::of(number)));
                outcome.passed += 1;
            }
            Value::Array(values) => {
                outcome.merge(self.list(node, path, values, old));
                outcome.passed += 1;
            }
            _ => {}
        }
        outcome.merge(self.variants(node, path, value));
        outcome.passed += 1;
        if let Value::Object(fields) = value {
            outcome.merge(self.fields(node, path, fields, old));
            outcome.passed += 1;
        }
        outcome.passed += 1;
        outcome
    }

    fn type_of(&self, node: &Node, path: &str, value: &Value) -> Outcome {
        let mut outcome = Outcome { passed: 1, ..Outcome::default() };
        let fail = |wanted: &str, found: &str| {
            let mut outcome = Outcome::default();
            self.type_invalid(&mut outcome, path, wanted, found);
            outcome
        };
        let has = |name: &str| node.types.iter().any(|ty| ty == name);
        let wanted = || node.types.join(",");
        let (found, of_number, fits) = match value {
            Value::Null if node.types.is_empty() || node.nullable => return outcome,
            Value::Null => return fail(&wanted(), "null"),
            Value::Bool(_) => ("boolean", "", false),
            Value::String(_) => ("string", "", false),
            Value::Array(_) => ("array", "", false),
            Value::Object(_) => ("object", "", false),
            Value::Number(number) => match Numeric::of(number) {
                Numeric::Int(_) => ("integer", "int64", has("number")),
                Numeric::Float(number) => ("number", "float64", is_integer(number) && has("integer")),
            },
        };
        let fits = fits || has(found);
        if let Some(format) = &node.format {
            if matches!(value, Value::String(_) | Value::Array(_)) {
                if !has("number") && !has("integer") {
                    return outcome;
                }
            } else if !fits && of_number != format.name {
                return fail(&format.name, of_number);
            }
        }
        if !fits {
            outcome = fail(&wanted(), found);
        }
        outcome
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`.
    fn branches(&self, node: &Node, path: &str, value: &Value, old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        let name = crate::response::status::quote(path);
        let outcomes = |nodes: &[Node]| -> Vec<Outcome> {
            nodes.iter().map(|node| self.changed(node, path, value, old)).collect()
        };
        if !node.any_of.is_empty() {
            // Branches after the first valid one are not checked.
            let mut tried = Vec::new();
            let mut valid = None;
            for node in &node.any_of {
                let branch = self.changed(node, path, value, old);
                if branch.is_valid() {
                    valid = Some(branch);
                    break;
                }
                tried.push(branch);
            }
            match valid {
                Some(branch) => outcome.merge(branch),
                None => {
                    outcome.plain(format!("{name} must validate at least one schema (anyOf)"));
                    outcome.merge(best(tried));
                }
            }
        }
        if !node.one_of.is_empty() {
            let (valid, failed): (Vec<_>, Vec<_>) = outcomes(&node.one_of).into_iter().partition(Outcome::is_valid);
            let one_of = "must validate one and only one schema (oneOf)";
            match valid.len() {
                1 => valid.into_iter().for_each(|branch| outcome.merge(branch)),
                0 => {
                    outcome.plain(format!("{name} {one_of}. Found none valid"));
                    outcome.merge(best(failed));
                }
                count => outcome.plain(format!("{name} {one_of}. Found {count} valid alternatives")),
            }
        }
        if !node.all_of.is_empty() {
            let branches = outcomes(&node.all_of);
            let valid = branches.iter().filter(|branch| branch.is_valid()).count();
            branches.into_iter().for_each(|branch| outcome.merge(branch));
            if valid < node.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.plain(format!("{name} must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = &node.not
            && self.changed(not, path, value, old).is_valid()
        {
            outcome.plain(format!("{name} must not validate the schema (not)"));
        }
        outcome.passed += 1;
        outcome
    }

    fn text(&self, node: &Node, path: &str, text: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let length = text.chars().count() as i64;
        if let Some(max) = node.max_length.filter(|max| length > *max) {
            let error = FieldError::too_long(self.field(path), usize::try_from(max).unwrap_or_default());
            outcome.add(format!("{path} in body should be at most {max} chars long"), error);
        } else if let Some(min) = node.min_length.filter(|min| length < *min) {
            let message = format!("{path} in body should be at least {min} chars long");
            self.invalid(&mut outcome, path, text.into(), message);
        } else if let Some(pattern) = &node.pattern
            && !pattern.is_match(text)
        {
            let message = format!("{path} in body should match '{}'", pattern.text);
            self.invalid(&mut outcome, path, text.into(), message);
        }
        outcome
    }

    fn number(&self, node: &Node, path: &str, number: Numeric) -> Outcome {
        let mut outcome = Outcome { passed: 1, ..Outcome::default() };
        let range = |outcome: &mut Outcome, number: Numeric, what: &str| -> bool {
            let Some(message) = out_of_range(node, number, what, path) else { return true };
            outcome.plain(message);
            false
        };
        range(&mut outcome, number, "Checked");
        // Limits are compared as integers only if they are integers.
        let native = |fits: bool| if fits { number } else { Numeric::Float(number.as_f64()) };
        if let Some(factor) = node.multiple_of {
            let fits = range(&mut outcome, Numeric::Float(factor), "MultipleOf");
            // The factor of an integer loses its fraction.
            let whole = factor as i64;
            let (is_positive, is_multiple, shown, value) = match native(fits) {
                Numeric::Int(number) => {
                    (whole > 0, whole > 0 && number % whole == 0, whole.to_string(), Numeric::Int(whole))
                }
                Numeric::Float(number) => {
                    let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
                    (factor > 0.0, is_integer(times), go_float(factor), Numeric::Float(factor))
                }
            };
            if !is_positive {
                let message = format!("factor MultipleOf declared for {path} must be positive: {shown}");
                self.invalid(&mut outcome, path, value.value(), message);
            } else if !is_multiple {
                let message = format!("{path} in body should be a multiple of {shown}");
                self.invalid(&mut outcome, path, native(fits).value(), message);
            }
        }
        let limits = [(node.minimum, "Minimum boundary", "greater"), (node.maximum, "Maximum boundary", "less")];
        for (bound, what, side) in limits {
            let Some(Bound { limit, exclusive }) = bound else { continue };
            let fits = range(&mut outcome, Numeric::Float(limit), what);
            let (order, limit) = match native(fits) {
                Numeric::Int(number) => (number.cmp(&(limit as i64)).into(), (limit as i64).to_string()),
                Numeric::Float(number) => (number.partial_cmp(&limit), go_float(limit)),
            };
            let is_inside = match (order, side) {
                (Some(order), _) if order.is_eq() => !exclusive,
                (Some(order), "less") => order.is_lt(),
                (Some(order), _) => order.is_gt(),
                (None, _) => false,
            };
            if !is_inside {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let message = format!("{path} in body should be {side} than{or_equal} {limit}");
                self.invalid(&mut outcome, path, native(fits).value(), message);
            }
        }
        outcome
    }

    fn list(&self, node: &Node, path: &str, values: &[Value], old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome { passed: 1, ..Outcome::default() };
        if let Some(items) = &node.items {
            // Only the elements of a map keep their identity in an update.
            let keys = if let List::Map(keys) = &node.list { Some(keys) } else { None };
            let mut before: HashMap<String, &Value> = HashMap::new();
            if let (Some(keys), Some(Value::Array(old))) = (keys, old) {
                for old in old {
                    before.entry(identity(old, keys)).or_insert(old);
                }
            }
            for (index, value) in values.iter().enumerate() {
                let old = keys.filter(|_| !before.is_empty()).and_then(|keys| before.get(&identity(value, keys)));
                outcome.merge(self.value(items, &paths::item(path, index), value, old.copied()));
            }
        }
        let count = values.len() as i64;
        if let Some(min) = node.min_items.filter(|min| count < *min) {
            let message = format!("{path} in body should have at least {min} items");
            self.invalid(&mut outcome, path, count.into(), message);
        }
        if let Some(max) = node.max_items.filter(|max| count > *max) {
            let max_items = usize::try_from(max).unwrap_or_default();
            let error = FieldError::too_many(self.field(path), values.len(), max_items);
            outcome.add(format!("{path} in body should have at most {max} items"), error);
        }
        outcome
    }

    /// `enum`.
    fn variants(&self, node: &Node, path: &str, value: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(variants) = &node.variants else { return outcome };
        if !value.is_null() && variants.iter().any(|variant| same(value, variant)) {
            return outcome;
        }
        if !budget::step(variants.len()) {
            return outcome;
        }
        let texts: Vec<String> =
            variants.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = texts.iter().map(String::as_str).collect();
        let error = FieldError::not_supported(self.field(path), value.clone(), &supported);
        outcome.add(format!("{path} in body should be one of [{}]", texts.join(" ")), error);
        outcome
    }

    fn fields(&self, node: &Node, path: &str, fields: &Map<String, Value>, old: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        let count = fields.len() as i64;
        if let Some(min) = node.min_properties.filter(|min| count < *min) {
            let message = format!("{path} in body should have at least {min} properties");
            self.invalid(&mut outcome, path, count.into(), message);
        }
        if let Some(max) = node.max_properties.filter(|max| count > *max) {
            let error = FieldError::too_many(self.field(path), fields.len(), usize::try_from(max).unwrap_or_default());
            outcome.add(format!("{path} in body should have at most {max} properties"), error);
        }
        if !budget::step(fields.len() + node.properties.len() + node.required.len()) {
            return outcome;
        }
        let old_field = |name: &str| old.and_then(|old| old.get(name));
        for (name, value) in fields.iter().filter(|(name, _)| !node.properties.contains_key(*name)) {
            match &node.additional {
                Additional::Schema(node) => {
                    outcome.merge(self.value(node, &paths::field(path, name), value, old_field(name)));
                }
                Additional::Allowed(false) => {
                    let message = format!("{path}.{name} in body is a forbidden property");
                    self.invalid(&mut outcome, path, name.as_str().into(), message);
                }
                Additional::Absent | Additional::Allowed(true) => {}
            }
        }
        for (name, node) in &node.properties {
            let Some(value) = fields.get(name) else { continue };
            let of_type = path.is_empty() && self.prefix.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old_field(name).filter(|_| !of_type);
            let path = paths::child(path, name);
            outcome.merge(self.value(node, &path, value, old));
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
            let path = paths::field(path, name);
            outcome.add(format!("{path} in body is required"), FieldError::required(self.field(&path), ""));
        }
        outcome
    }
}

/// The identity of an element of a list.
fn identity(value: &Value, keys: &[String]) -> String {
    let texts = keys.iter().map(|key| value.get(key).map(Value::to_string));
    let text = format!("{:?}", texts.collect::<Vec<_>>());
    budget::text(text.len());
    text
}

/// The first branch with the most passed checks.
fn best(branches: Vec<Outcome>) -> Outcome {
    let mut best: Option<Outcome> = None;
    for branch in branches {
        if best.as_ref().is_none_or(|best| branch.passed > best.passed) {
            best = Some(branch);
        }
    }
    best.unwrap_or_default()
}

/// Why `number` cannot be a number of the schema's type and format.
fn out_of_range(node: &Node, number: Numeric, what: &str, path: &str) -> Option<String> {
    let [ty] = &node.types[..] else { return None };
    let format = node.format.as_ref().map_or("", |format| format.name.as_str());
    let whole = match number {
        Numeric::Int(number) => Some(number),
        Numeric::Float(number) => {
            (number.fract() == 0.0 && number >= i64::MIN as f64 && number < i64::MAX as f64).then_some(number as i64)
        }
    };
    let fits = match (ty.as_str(), format) {
        ("integer", "int32") => whole.is_some_and(|number| i32::try_from(number).is_ok()),
        ("integer", _) => whole.is_some(),
        ("number", "float") => number.as_f64().abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if fits {
        return None;
    }
    let format = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
    Some(format!("{what} value must be of type {ty} {format} in {path}"))
}

/// Whether a float is an integer that JSON represents exactly.
fn is_integer(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > LARGEST {
        return false;
    }
    let whole = number.trunc();
    let difference = (number - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (number.abs() + whole.abs()) < 1e-9)
}

/// A float as Go prints it.
fn go_float(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Whether a value equals a variant of an `enum`. Numbers are converted to the type of the variant.
fn same(value: &Value, variant: &Value) -> bool {
    match (value, variant) {
        (Value::Number(value), Value::Number(variant)) => match (Numeric::of(value), Numeric::of(variant)) {
            (Numeric::Float(value), Numeric::Int(variant)) => value as i64 == variant,
            (value, Numeric::Float(variant)) => value.as_f64() == variant,
            (Numeric::Int(value), Numeric::Int(variant)) => value == variant,
        },
        (value, variant) => budget::same(value, variant),
    }
}
