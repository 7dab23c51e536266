//! Numbers and strings: formats, bounds and patterns.

use serde_json::{Number, Value};

use super::{Pass, Position, Schema, marker};

/// The formats of strings that servers check, as they write them in their documentation.
///
/// `duration` is not among them: servers take Go's durations, such as `1h30m`, and the Rust types
/// that schemars describes with this format are written by ISO 8601, such as `PT1H30M`.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// The format of a Rust integer in a CRD, and the upper bound that schemars leaves to the format.
/// It writes all other bounds.
fn integer_format(format: &str) -> Option<(&'static str, Option<i64>)> {
    Some(match format {
        "int8" | "int16" | "int32" | "uint8" | "uint16" => ("int32", None),
        "uint32" => ("int64", Some(u32::MAX.into())),
        // The server reads numbers that need a 64th bit as floats.
        "int64" | "int" | "uint64" | "uint" => ("int64", None),
        _ => return None,
    })
}

impl Pass {
    pub(super) fn integer(&mut self, schema: &mut Schema, position: &Position) {
        if let Some(Value::String(format)) = schema.remove("format") {
            if let Some((format, max)) = integer_format(&format) {
                schema.insert("format".to_owned(), format.into());
                if let Some(max) = max {
                    limit_maximum(schema, max);
                }
            } else if format.ends_with("int128") {
                let advice = "use a smaller integer, or a String";
                self.problem(position, format!("a server does not store integers of the format {format}"), advice);
            }
        }
        self.numbers(schema, position);
    }

    pub(super) fn number(&mut self, schema: &mut Schema, position: &Position) {
        let allowed = schema.remove(marker::ALLOW_FLOAT).is_some_and(|allow| allow == true);
        if !allowed && !self.options.floats {
            self.problem(
                position,
                "a float does not come back as it was written from every client",
                "use an integer of a smaller unit, a Quantity or a String, or allow the float with \
                 #[schemars(extend(\"x-steersman-allow-float\" = true))] or CrdBuilder::allow_floats",
            );
        }
        if schema.get("format").is_some_and(|format| format != "float" && format != "double") {
            schema.remove("format");
        }
        self.numbers(schema, position);
    }

    /// Bounds. In JSON schema, an exclusive bound is a number of its own; in a CRD, it is a mark on
    /// the other bound.
    pub(super) fn numbers(&mut self, schema: &mut Schema, position: &Position) {
        for (bound, exclusive, is_tighter) in [
            ("minimum", "exclusiveMinimum", (|one, other| one >= other) as fn(f64, f64) -> bool),
            ("maximum", "exclusiveMaximum", |one, other| one <= other),
        ] {
            let Some(Value::Number(limit)) = schema.get(exclusive).cloned() else { continue };
            let inclusive = schema.get(bound).and_then(Value::as_f64);
            if inclusive.is_none_or(|inclusive| is_tighter(limit.as_f64().unwrap_or_default(), inclusive)) {
                schema.insert(bound.to_owned(), Value::Number(limit));
                schema.insert(exclusive.to_owned(), true.into());
            } else {
                schema.remove(exclusive);
            }
        }
        for name in ["minimum", "maximum", "multipleOf"] {
            if let Some(Value::Number(number)) = schema.get_mut(name) {
                *number = whole(number);
            }
        }
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let (Some(min), Some(max)) = (bound("minimum"), bound("maximum"))
            && min > max
        {
            let problem = format!("no number is at least {} and at most {}", schema["minimum"], schema["maximum"]);
            self.problem(position, problem, "correct #[schemars(range(…))], within the range of the Rust type");
        }
    }

    pub(super) fn string(&mut self, schema: &mut Schema, position: &Position) {
        match schema.get("format").and_then(Value::as_str) {
            // Both families, which schemars has one word for.
            Some("ip") => {
                schema.remove("format");
                if !schema.contains_key("anyOf") {
                    let families = serde_json::json!([{"format": "ipv4"}, {"format": "ipv6"}]);
                    schema.insert("anyOf".to_owned(), families);
                }
            }
            Some(format) if !STRING_FORMATS.contains(&format) => {
                schema.remove("format");
            }
            _ => {}
        }
        self.pattern(schema, position);
    }

    /// The server compiles patterns, and refuses a definition with one that is invalid.
    pub(super) fn pattern(&mut self, schema: &Schema, position: &Position) {
        let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return };
        if let Err(error) = regex::Regex::new(pattern) {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let advice = "servers use Go's regular expressions, without look-around and back-references";
            self.problem(position, format!("invalid pattern {pattern:?}: {reason}"), advice);
        }
    }
}

/// Sets the upper bound, unless the schema has a tighter one.
fn limit_maximum(schema: &mut Schema, max: i64) {
    #[expect(clippy::cast_precision_loss, reason = "the limit has 32 bits")]
    if schema.get("maximum").and_then(Value::as_f64).is_none_or(|given| given > max as f64) {
        schema.insert("maximum".to_owned(), max.into());
    }
}

/// The number, as an integer if it is one.
pub(in crate::crd) fn whole(number: &Number) -> Number {
    match number.as_f64() {
        // Integers up to here are exact in a float.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "it is an integer within the range")]
            Number::from(float as i64)
        }
        _ => number.clone(),
    }
}
