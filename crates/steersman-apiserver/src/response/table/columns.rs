//! The columns of built-in kinds, which `cargo xtask record` asks a real server for.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::rules::kinds::Kind;

/// The columns by kind: name, type, format, priority and the index of the description.
const RECORDED: &str = include_str!("../../../data/columns.json");

/// The columns of the kinds that have none of their own.
const GENERAL: &str = "";

/// The column definitions of a kind, as JSON.
pub(super) fn of(kind: &Kind) -> &'static str {
    let columns = recorded();
    columns.get(kind.kind.as_str()).or_else(|| columns.get(GENERAL)).map_or("[]", String::as_str)
}

/// Whether the kind has columns of its own.
pub(super) fn has_own(kind: &Kind) -> bool {
    recorded().contains_key(kind.kind.as_str())
}

/// The columns by kind, as JSON. The first call parses them.
pub(super) fn recorded() -> &'static HashMap<String, String> {
    static COLUMNS: OnceLock<HashMap<String, String>> = OnceLock::new();
    COLUMNS.get_or_init(|| read(RECORDED).expect("the recorded columns are checked by this crate's tests"))
}

fn read(text: &str) -> Option<HashMap<String, String>> {
    let recorded: Value = serde_json::from_str(text).ok()?;
    let column = |column: &Value| -> Option<String> {
        let description = recorded["descriptions"].get(usize::try_from(column[4].as_u64()?).ok()?)?;
        let (name, ty, format, priority) = (&column[0], &column[1], &column[2], &column[3]);
        let text = Value::to_string;
        Some(written(&text(name), &text(ty), &text(format), &text(description), priority.as_i64()?))
    };
    let of_kind = |(kind, columns): (&String, &Value)| {
        let columns = columns.as_array()?.iter().map(column).collect::<Option<Vec<_>>>()?;
        Some((kind.clone(), format!("[{}]", columns.join(","))))
    };
    recorded["columns"].as_object()?.iter().map(of_kind).collect()
}

/// The definition of a column of a custom kind, as JSON.
pub(super) fn definition(name: &str, ty: &str, format: &str, description: &str, priority: i64) -> String {
    let text = |text: &str| Value::from(text).to_string();
    written(&text(name), &text(ty), &text(format), &text(description), priority)
}

/// The definition with these values, which are JSON, in the order of the real server.
fn written(name: &str, ty: &str, format: &str, description: &str, priority: i64) -> String {
    format!(r#"{{"name":{name},"type":{ty},"format":{format},"description":{description},"priority":{priority}}}"#)
}

/// The description of a general column: of the name, or of the time of creation.
pub(super) fn description(index: usize) -> String {
    let general: Value = recorded().get(GENERAL).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    general[index]["description"].as_str().unwrap_or_default().to_owned()
}
