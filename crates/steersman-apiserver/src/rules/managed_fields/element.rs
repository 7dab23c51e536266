//! One step of a path to a field, in the order and the texts of the real server.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// One step of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathElement {
    /// A member of a map or a struct.
    Field(Box<str>),
    /// The item of a list with these keys, sorted by name.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set with this value.
    Value(Value),
    /// The item at this place. The server itself never writes one.
    Index(i64),
}

impl PathElement {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The place of its variant in the order of elements.
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.cmp(other),
            (Self::Key(one), Self::Key(other)) => {
                let pairs = one.iter().zip(other.iter()).map(|((name, value), (other_name, other_value))| {
                    name.cmp(other_name).then_with(|| compare(value, other_value))
                });
                pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
            }
            (Self::Value(one), Self::Value(other)) => compare(one, other),
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (place, (name, value)) in keys.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", text(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value as messages print it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => steersman_wire::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(members) => members.iter().map(|(name, member)| format!("{name}={}", text(member))).collect(),
        other => other.to_string(),
    }
}

/// The order of values: numbers, texts, booleans, lists, maps, null.
pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (integer(one), integer(other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default()),
        },
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other).map(|(one, other)| compare(one, other));
            pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one
                .iter()
                .zip(other)
                .map(|((name, one), (other_name, other))| name.cmp(other_name).then_with(|| compare(one, other)));
            pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        (one, other) => rank(one).cmp(&rank(other)),
    }
}

/// The integer that a number is. Floats without a fraction are integers too: the order would not be
/// total if some integers were compared exactly and others by their float.
fn integer(number: &Number) -> Option<i128> {
    // The integers of a float are exact as `i128`.
    let of_float = |float: f64| (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128);
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| number.as_f64().and_then(of_float))
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Whether two values are equal. Integers are compared exactly, and with a float as floats.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    crate::request::budget::step(1);
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            // Go reads an integer that is too large as a float.
            _ => one.as_f64() == other.as_f64(),
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = |((name, one), (other_name, other)): ((&String, &Value), (&String, &Value))| {
                name == other_name && same(one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(pairs)
        }
        (one, other) => one == other,
    }
}
