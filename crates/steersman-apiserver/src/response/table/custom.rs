//! The printer columns of a definition.

use std::sync::Arc;

use serde_json::Value;

use super::age::{Now, parse};
use super::columns::{definition, description};
use super::json_path::JsonPath;
use crate::request::budget;
use crate::response::html_safe;
use crate::rules::go_text;
use crate::rules::kinds::Kind;
use steersman_wire::time::{self, Precision};

/// A column of a version of a definition.
#[derive(Debug)]
pub(crate) struct PrinterColumn {
    name: String,
    ty: String,
    format: String,
    description: String,
    priority: i64,
    path: JsonPath,
}

impl PrinterColumn {
    /// The columns of a version. Without any, there is the age. A path that cannot be parsed ends
    /// the columns, as in the real server.
    pub(crate) fn read(version: &Value) -> Arc<[Self]> {
        let text = |column: &Value, name: &str| column[name].as_str().unwrap_or_default().to_owned();
        let given = version["additionalPrinterColumns"].as_array().filter(|columns| !columns.is_empty());
        let Some(given) = given else {
            return JsonPath::parse(".metadata.creationTimestamp")
                .map(|path| Self {
                    name: "Age".to_owned(),
                    ty: "date".to_owned(),
                    format: String::new(),
                    description: description(1),
                    priority: 0,
                    path,
                })
                .into_iter()
                .collect();
        };
        let column = |column: &Value| {
            let json_path = text(column, "jsonPath");
            let described = text(column, "description");
            Some(Self {
                name: text(column, "name"),
                ty: text(column, "type"),
                format: text(column, "format"),
                description: if described.is_empty() {
                    format!("Custom resource definition column (in JSONPath format): {json_path}")
                } else {
                    described
                },
                priority: column["priority"].as_i64().unwrap_or_default(),
                path: JsonPath::parse(&json_path)?,
            })
        };
        given.iter().map_while(column).collect()
    }

    fn cell(&self, object: &Value, now: Now) -> Value {
        let Some(found) = self.path.first(object) else { return Value::Null };
        match (self.ty.as_str(), found) {
            // Containers are printed as JSON.
            ("string", Value::Array(_) | Value::Object(_)) => html_safe(found.to_string()).into(),
            ("string", Value::Null) => "<no value>".into(),
            ("string", _) => go_text::text(found).into(),
            ("integer", Value::Number(number)) => number.as_i64().or_else(|| number.as_f64().map(truncated)).into(),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
            ("date", Value::String(text)) => date(text, found, now).into(),
            _ => Value::Null,
        }
    }
}

/// A floating-point number as Go converts it to an integer.
fn truncated(float: f64) -> i64 {
    if float.abs() < i64::MAX as f64 { float as i64 } else { i64::MIN }
}

fn date(text: &str, found: &Value, now: Now) -> String {
    if text.is_empty() || text == "null" {
        return "<unknown>".to_owned();
    }
    match time::parse(text, Precision::Seconds) {
        Err(_) => "<invalid>".to_owned(),
        Ok(_) if parse(found).is_none() => "<unknown>".to_owned(),
        Ok(_) => now.since(found),
    }
}

/// The column definitions.
pub(super) fn headers(columns: &[PrinterColumn]) -> String {
    let name = definition("Name", "string", "name", &description(0), 0);
    let own = columns
        .iter()
        .map(|column| definition(&column.name, &column.ty, &column.format, &column.description, column.priority));
    let all: Vec<String> = std::iter::once(name).chain(own).collect();
    format!("[{}]", all.join(","))
}

/// The cells of an object.
pub(super) fn cells(columns: &[PrinterColumn], kind: &Kind, mut object: Value, now: Now) -> Vec<Value> {
    object["kind"] = kind.kind.as_str().into();
    object["apiVersion"] = kind.api_version().into();
    let mut cells = Vec::with_capacity(columns.len() + 1);
    cells.push(object["metadata"]["name"].as_str().unwrap_or_default().into());
    let printed = || columns.iter().map(|column| column.cell(&object, now)).collect::<Vec<_>>();
    // Within a request the cells count as its work. An event has no request, and a bound of its
    // own.
    let printed = if budget::is_metered() { Some(printed()) } else { budget::apart(printed) };
    cells.extend(printed.unwrap_or_else(|| vec![Value::Null; columns.len()]));
    cells
}
