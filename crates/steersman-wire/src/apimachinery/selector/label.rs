//! Selectors on the labels of an object.

use std::fmt;

use serde_json::Value;

use super::{SelectorError, SelectorOperator};
use super::{label_json, label_parser};
use crate::apimachinery::names::{is_qualified_name, is_valid_label_value};
use crate::apimachinery::quote::{json_list, quote};

/// Selects objects by their labels: `app=web,tier in (front,back),!canary`.
///
/// All requirements must hold; without any, everything matches. They are sorted by key, and those
/// of one key stay in their order. [`Display`](fmt::Display) writes the canonical text, which
/// parses to a selector that matches the same objects (except for [`LabelSelector::nothing`], which
/// has no text).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// `None` if nothing matches.
    requirements: Option<Vec<LabelRequirement>>,
}

/// One requirement of a [`LabelSelector`], with a valid key and valid values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: SelectorOperator,
    /// Sorted.
    values: Vec<String>,
}

impl LabelSelector {
    /// The selector that matches everything.
    pub fn everything() -> Self {
        LabelSelector { requirements: Some(Vec::new()) }
    }

    /// The selector that matches nothing. An absent structured selector means this.
    pub fn nothing() -> Self {
        LabelSelector { requirements: None }
    }

    /// The selector with all of `requirements`.
    pub fn new(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements: Some(requirements) }
    }

    /// Parses the text of a `labelSelector` parameter. The empty text matches everything.
    ///
    /// Requirements are separated by commas and may have white space anywhere between words:
    /// `key=value`, `key==value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` (exists),
    /// `!key` (does not exist), `key>1`, `key<1`. An omitted value is empty.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(LabelSelector::new(label_parser::parse(text)?))
    }

    /// Reads the structured form, a `metav1.LabelSelector` with `matchLabels` and
    /// `matchExpressions`, as in the spec of an object. Null matches nothing, an empty selector
    /// everything; unknown fields are ignored.
    pub fn from_json(selector: &Value) -> Result<Self, SelectorError> {
        label_json::read(selector)
    }

    /// Whether an object matches. `get` looks up one of its labels.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }

    /// The requirements, sorted by key. A selector that matches everything has none, and neither
    /// has one that matches nothing.
    pub fn requirements(&self) -> &[LabelRequirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether this is [`LabelSelector::nothing`]. Contradicting requirements are not detected.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }
}

impl Default for LabelSelector {
    fn default() -> Self {
        LabelSelector::everything()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl LabelRequirement {
    /// Creates a requirement. Checks the key, the values, and their number: one or more for `In`
    /// and `NotIn`, none for `Exists` and `DoesNotExist`, one for the others. For `GreaterThan` and
    /// `LessThan` it is an integer of 64 bits. The error lists all faults.
    pub fn new(key: &str, operator: SelectorOperator, mut values: Vec<String>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        errors.extend(check_key("key", key).err());
        if let Some(message) = check_count(operator, values.len()) {
            errors.push(format!("values: Invalid value: {}: {message}", json_list(&values)));
        }
        if matches!(operator, SelectorOperator::GreaterThan | SelectorOperator::LessThan) {
            for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                let message = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(invalid(&format!("values[{index}]"), value, message));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let messages = is_valid_label_value(value);
            if !messages.is_empty() {
                errors.push(invalid(&format!("values[{index}][{key}]"), value, &messages.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(SelectorError::aggregate(errors));
        }
        values.sort_unstable();
        Ok(LabelRequirement { key: key.to_owned(), operator, values })
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label relates to the values.
    pub fn operator(&self) -> SelectorOperator {
        self.operator
    }

    /// The values, sorted.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether a label with this value, or an absent one, satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.binary_search_by(|candidate| candidate.as_str().cmp(value)).is_ok();
        match self.operator {
            SelectorOperator::In | SelectorOperator::Equals | SelectorOperator::DoubleEquals => {
                value.is_some_and(among)
            }
            SelectorOperator::NotIn | SelectorOperator::NotEquals => !value.is_some_and(among),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
            SelectorOperator::GreaterThan => self.compare(value, |label, bound| label > bound),
            SelectorOperator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    /// A label that is not an integer satisfies no comparison.
    fn compare(&self, value: Option<&str>, satisfies: impl Fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|value| value.parse().ok());
        let bound = self.values.first().and_then(|value| value.parse().ok());
        label.zip(bound).is_some_and(|(label, bound)| satisfies(label, bound))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            SelectorOperator::Exists => write!(f, "{key}"),
            SelectorOperator::DoesNotExist => write!(f, "!{key}"),
            SelectorOperator::In | SelectorOperator::NotIn => write!(f, "{key} {} ({values})", self.operator),
            SelectorOperator::GreaterThan => write!(f, "{key}>{values}"),
            SelectorOperator::LessThan => write!(f, "{key}<{values}"),
            SelectorOperator::Equals | SelectorOperator::DoubleEquals | SelectorOperator::NotEquals => {
                write!(f, "{key}{}{values}", self.operator)
            }
        }
    }
}

/// The error if `key` is not a valid label key, with the path that messages name.
pub(crate) fn check_key(path: &str, key: &str) -> Result<(), String> {
    let messages = is_qualified_name(key);
    if messages.is_empty() { Ok(()) } else { Err(invalid(path, key, &messages.join("; "))) }
}

fn check_count(operator: SelectorOperator, count: usize) -> Option<&'static str> {
    let (fits, message) = match operator {
        SelectorOperator::In | SelectorOperator::NotIn => {
            (count > 0, "for 'in', 'notin' operators, values set can't be empty")
        }
        SelectorOperator::Equals | SelectorOperator::DoubleEquals | SelectorOperator::NotEquals => {
            (count == 1, "exact-match compatibility requires one single value")
        }
        SelectorOperator::Exists | SelectorOperator::DoesNotExist => {
            (count == 0, "values set must be empty for exists and does not exist")
        }
        SelectorOperator::GreaterThan | SelectorOperator::LessThan => {
            (count == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    (!fits).then_some(message)
}

fn invalid(path: &str, value: &str, message: &str) -> String {
    format!("{path}: Invalid value: {}: {message}", quote(value))
}
