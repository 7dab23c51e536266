//! The structured form of label selectors.

use serde_json::{Map, Value};

use super::label::{LabelRequirement, LabelSelector};
use super::{SelectorError, SelectorOperator};
use crate::apimachinery::quote::quote;

/// Reads a `metav1.LabelSelector`. As in Go, all of it is decoded before any of it is checked. Null
/// counts as absent; in a list or map, as an empty value.
pub(crate) fn read(selector: &Value) -> Result<LabelSelector, SelectorError> {
    if selector.is_null() {
        return Ok(LabelSelector::nothing());
    }
    let selector = object(selector, "Go value of type v1.LabelSelector")?;
    let labels = labels(selector)?;
    let expressions = expressions(selector)?;

    let mut requirements = Vec::with_capacity(labels.len() + expressions.len());
    for (key, value) in labels {
        requirements.push(LabelRequirement::new(key, SelectorOperator::Equals, vec![value])?);
    }
    for Expression { key, operator, values } in expressions {
        requirements.push(LabelRequirement::new(key, parse_operator(operator)?, values)?);
    }
    Ok(LabelSelector::new(requirements))
}

/// A `metav1.LabelSelectorRequirement`.
struct Expression<'a> {
    key: &'a str,
    operator: &'a str,
    values: Vec<String>,
}

fn parse_operator(operator: &str) -> Result<SelectorOperator, SelectorError> {
    match operator {
        "In" => Ok(SelectorOperator::In),
        "NotIn" => Ok(SelectorOperator::NotIn),
        "Exists" => Ok(SelectorOperator::Exists),
        "DoesNotExist" => Ok(SelectorOperator::DoesNotExist),
        _ => Err(SelectorError::new(format!("{} is not a valid label selector operator", quote(operator)))),
    }
}

fn labels(selector: &Map<String, Value>) -> Result<Vec<(&str, String)>, SelectorError> {
    let Some(labels) = present(selector, "matchLabels") else { return Ok(Vec::new()) };
    let field = "Go struct field LabelSelector.matchLabels of type";
    let labels = object(labels, &format!("{field} map[string]string"))?.iter();
    labels.map(|(key, value)| Ok((key.as_str(), string(value, &format!("{field} string"))?.to_owned()))).collect()
}

fn expressions(selector: &Map<String, Value>) -> Result<Vec<Expression<'_>>, SelectorError> {
    let Some(expressions) = present(selector, "matchExpressions") else { return Ok(Vec::new()) };
    let field = "Go struct field LabelSelector.matchExpressions of type";
    let expressions = list(expressions, &format!("{field} []v1.LabelSelectorRequirement"))?.iter();
    expressions
        .map(|expression| match expression {
            Value::Null => Ok(Expression { key: "", operator: "", values: Vec::new() }),
            expression => read_expression(object(expression, &format!("{field} v1.LabelSelectorRequirement"))?),
        })
        .collect()
}

fn read_expression(expression: &Map<String, Value>) -> Result<Expression<'_>, SelectorError> {
    let get = |name| expression.get(name).unwrap_or(&Value::Null);
    let field =
        |name, go_type| format!("Go struct field LabelSelectorRequirement.matchExpressions.{name} of type {go_type}");
    let key = string(get("key"), &field("key", "string"))?;
    let operator = string(get("operator"), &field("operator", "v1.LabelSelectorOperator"))?;
    let mut values = Vec::new();
    if let Some(given) = present(expression, "values") {
        for value in list(given, &field("values", "[]string"))? {
            values.push(string(value, &field("values", "string"))?.to_owned());
        }
    }
    Ok(Expression { key, operator, values })
}

fn present<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn object<'a>(value: &'a Value, target: &str) -> Result<&'a Map<String, Value>, SelectorError> {
    value.as_object().ok_or_else(|| cannot_unmarshal(value, target))
}

fn list<'a>(value: &'a Value, target: &str) -> Result<&'a [Value], SelectorError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| cannot_unmarshal(value, target))
}

fn string<'a>(value: &'a Value, target: &str) -> Result<&'a str, SelectorError> {
    match value {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(cannot_unmarshal(value, target)),
    }
}

fn cannot_unmarshal(value: &Value, target: &str) -> SelectorError {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    SelectorError::new(format!("json: cannot unmarshal {kind} into {target}"))
}
