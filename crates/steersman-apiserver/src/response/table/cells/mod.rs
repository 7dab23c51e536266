//! The cells of built-in kinds, in the order of their columns.

mod cluster;
mod network;
mod pods;
mod storage;
mod workloads;

use serde_json::{Value, json};
use steersman_wire::LabelSelector;

use super::age::Now;
use crate::rules::kinds::Kind;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// The cells of an object.
pub(super) fn of(kind: &Kind, object: &Value, now: Now) -> Vec<Value> {
    let row = Row { object, now };
    let found = pods::cells(&kind.kind, row)
        .or_else(|| workloads::cells(&kind.kind, row))
        .or_else(|| network::cells(&kind.kind, row))
        .or_else(|| storage::cells(&kind.kind, row))
        .or_else(|| cluster::cells(&kind.kind, row));
    found.unwrap_or_else(|| vec![row.name(), row.text("/metadata/creationTimestamp").into()])
}

/// The conditions of a row: Pods that have ended.
pub(super) fn conditions(kind: &Kind, object: &Value) -> Value {
    let ended = |reason: &str, message: &str| json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
    match (kind.kind.as_str(), object["status"]["phase"].as_str()) {
        ("Pod", Some("Succeeded")) => ended("Succeeded", "The pod has completed successfully."),
        ("Pod", Some("Failed")) => ended("Failed", "The pod failed."),
        _ => Value::Null,
    }
}

/// An object whose cells are made. Absent fields have Go's zero values.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: &'a Value,
    now: Now,
}

impl<'a> Row<'a> {
    fn at(self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The text, or `otherwise` if it is absent or empty.
    fn text_or(self, pointer: &str, otherwise: &'a str) -> &'a str {
        Some(self.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
    }

    /// The text, or `otherwise` if it is absent.
    fn optional(self, pointer: &str, otherwise: &'a str) -> &'a str {
        self.at(pointer).as_str().unwrap_or(otherwise)
    }

    fn number(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    fn flag(self, pointer: &str, otherwise: bool) -> bool {
        self.at(pointer).as_bool().unwrap_or(otherwise)
    }

    fn list(self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    fn count(self, pointer: &str) -> usize {
        match self.at(pointer) {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        }
    }

    /// The texts of a list, joined.
    fn joined(self, pointer: &str) -> String {
        self.list(pointer).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    }

    fn name(self) -> Value {
        self.text("/metadata/name").into()
    }

    fn age(self) -> Value {
        self.since("/metadata/creationTimestamp")
    }

    fn since(self, pointer: &str) -> Value {
        self.now.since(self.at(pointer)).into()
    }

    fn is_deleting(self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    fn annotation(self, name: &str) -> Option<&'a str> {
        self.object["metadata"]["annotations"][name].as_str()
    }

    /// The status of a condition, if it is there.
    fn condition(self, kind: &str) -> Option<&'a str> {
        let conditions = self.list("/status/conditions").iter();
        conditions.filter(|condition| condition["type"] == kind).find_map(|condition| condition["status"].as_str())
    }

    /// The names and the images of containers.
    fn containers(self, pointer: &str) -> [Value; 2] {
        let joined = |field: &str| {
            let texts = self.list(pointer).iter().map(|container| container[field].as_str().unwrap_or_default());
            Value::from(texts.collect::<Vec<_>>().join(","))
        };
        [joined("name"), joined("image")]
    }

    /// Labels as `a=b,c=d`.
    fn labels(self, pointer: &str) -> Value {
        let labels = self.at(pointer).as_object().into_iter().flatten();
        let mut labels: Vec<String> =
            labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
        labels.sort_unstable();
        if labels.is_empty() { NONE.into() } else { labels.join(",").into() }
    }

    /// A label selector, or an error.
    fn selector(self, pointer: &str) -> Result<String, ()> {
        match self.at(pointer) {
            Value::Null => Ok(String::new()),
            selector => LabelSelector::from_json(selector).map(|selector| selector.to_string()).map_err(drop),
        }
    }

    /// A label selector as most kinds print it.
    fn selector_cell(self, pointer: &str) -> Value {
        match self.selector(pointer) {
            Ok(selector) if selector.is_empty() => NONE.into(),
            Ok(selector) => selector.into(),
            Err(()) => "<error>".into(),
        }
    }
}

/// Up to three items, and the number of the others.
fn few(items: &[String], total: usize, otherwise: &str) -> String {
    const SHOWN: usize = 3;
    let shown = items.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match total {
        total if total > SHOWN => format!("{shown} + {} more...", total - SHOWN),
        _ if shown.is_empty() => otherwise.to_owned(),
        _ => shown,
    }
}
