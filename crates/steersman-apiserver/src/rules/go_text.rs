//! Values as Go's `fmt` prints them, for messages that quote one.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::request::budget;

/// A value as Go's verb `%v` prints it. The time is charged to the request.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    print(&mut text, value, false);
    text
}

/// A value as Go's verb `%s` prints it: values that are not strings carry their type.
pub(crate) fn as_string(value: &Value) -> String {
    let mut text = String::new();
    print(&mut text, value, true);
    text
}

/// The name of the type that Go decodes the value into. Null has no type.
pub(crate) fn type_name(value: &Value) -> &'static str {
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

fn print(to: &mut String, value: &Value, as_string: bool) {
    if !budget::step(1) {
        return;
    }
    match value {
        Value::Null => to.push_str(if as_string { "%!s(<nil>)" } else { "<nil>" }),
        Value::String(text) => {
            if budget::text(text.len()) && budget::make(text.len()) {
                to.push_str(text);
            }
        }
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    to.push(' ');
                }
                print(to, item, as_string);
            }
            to.push(']');
        }
        Value::Object(members) => {
            to.push_str("map[");
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    to.push(' ');
                }
                to.push_str(name);
                to.push(':');
                print(to, member, as_string);
            }
            to.push(']');
        }
        Value::Bool(_) | Value::Number(_) => {
            let plain = match value {
                Value::Number(number) => self::number(number),
                other => other.to_string(),
            };
            // Writing to a string does not fail.
            let _ = if as_string { write!(to, "%!s({}={plain})", type_name(value)) } else { write!(to, "{plain}") };
        }
    }
}

/// A number as Go's verb `%v` prints it: with an exponent from 1e21 on and below 1e-4.
fn number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if float != 0.0 && !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{float}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_does() {
        for (value, plain, of_string) in [
            (json!(null), "<nil>", "%!s(<nil>)"),
            (json!("a b"), "a b", "a b"),
            (json!(5), "5", "%!s(int64=5)"),
            (json!(true), "true", "%!s(bool=true)"),
            (json!(1.5), "1.5", "%!s(float64=1.5)"),
            (json!(1e30), "1e+30", "%!s(float64=1e+30)"),
            (json!(1.25e-7), "1.25e-07", "%!s(float64=1.25e-07)"),
            (json!(0.001), "0.001", "%!s(float64=0.001)"),
            (
                json!({"b": [1, "x", []], "a": {"c": null}}),
                "map[a:map[c:<nil>] b:[1 x []]]",
                "map[a:map[c:%!s(<nil>)] b:[%!s(int64=1) x []]]",
            ),
        ] {
            assert_eq!((text(&value).as_str(), as_string(&value).as_str()), (plain, of_string));
        }
    }
}
