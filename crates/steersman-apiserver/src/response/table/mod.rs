//! Tables: objects as rows of cells, which is what `kubectl get` prints.
//!
//! [`TableForm`] writes the Table of one object, of a list or of an event. The columns of built-in
//! kinds are data that was recorded from a real server (`columns`), and their cells are code
//! (`cells`). Kinds of definitions have printer columns (`custom`), which are JSONPaths
//! (`json_path`). Ages (`age`) refer to the clock of the server's `World`.

pub(crate) mod age;
mod cells;
mod columns;
mod custom;
mod json_path;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use self::custom::PrinterColumn;

use self::age::Now;
use crate::request::budget;
use crate::response::form::Form;
use crate::response::status::{FieldError, Status};
use crate::rules::kinds::Kind;
use crate::store::object::Object;

/// The limit for the bytes of one Table.
const BYTES_MAX: usize = 256 << 20;

/// What a row has besides its cells (the query parameter `includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// Parses the query parameter.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "None" => Ok(Self::Nothing),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid("includeObject", other, detail);
                Err(Status::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}

/// How a Table is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableForm {
    /// The apiVersion of Tables and of metadata in them.
    pub(crate) version: &'static str,
    /// The kind that the client reads, if it is stored as another.
    pub(crate) view: Option<&'static Kind>,
    pub(crate) include: Include,
    /// The time that ages refer to.
    pub(crate) now: Now,
    /// Whether the Table has its column definitions. Of a watch, the first event has them.
    pub(crate) has_headers: bool,
}

impl TableForm {
    pub(crate) fn new(version: &'static str) -> Self {
        Self { version, view: None, include: Include::default(), now: Now::default(), has_headers: true }
    }

    /// Writes the Table of one object.
    pub(crate) fn write_object(self, to: &mut Vec<u8>, kind: &Kind, object: &Object) {
        let metadata = match object.value()["metadata"].get("resourceVersion") {
            Some(version) => serde_json::json!({ "resourceVersion": version }),
            None => Value::Object(Map::new()),
        };
        self.write_head(to, kind, &metadata);
        to.push(b'[');
        self.write_row(to, kind, object);
        to.extend_from_slice(b"]}");
    }

    /// The Table of a list.
    pub(crate) fn list(self, kind: &Kind, metadata: &Value, mut objects: Vec<Arc<Object>>) -> Result<Vec<u8>, Status> {
        let mut metadata = metadata.clone();
        if let Some(members) = metadata.as_object_mut() {
            // Unlike a list of custom resources, a Table has no empty token.
            members.retain(|_, member| member != "");
        }
        if kind.is_built_in() && kind.kind == "FlowSchema" {
            // The real server sorts these in the order in which they are tried.
            objects.sort_by_cached_key(|object| {
                let precedence = object.value()["spec"]["matchingPrecedence"].as_i64();
                (precedence, object.key().name.clone())
            });
        }
        let mut text = Vec::new();
        self.write_head(&mut text, kind, &metadata);
        if objects.is_empty() && kind.is_built_in() && !columns::has_own(kind) {
            // The real server's general conversion makes no list for no rows.
            text.extend_from_slice(b"null}");
            return Ok(text);
        }
        text.push(b'[');
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            self.write_row(&mut text, kind, object);
            budget::check()?;
            if text.len() > BYTES_MAX {
                return Err(Status::too_large(format!(
                    "Request entity too large: the Table takes more than {BYTES_MAX} bytes; use the parameter limit"
                )));
            }
        }
        text.extend_from_slice(b"]}");
        Ok(text)
    }

    /// The text up to the rows.
    fn write_head(self, to: &mut Vec<u8>, kind: &Kind, metadata: &Value) {
        let head =
            format!(r#"{{"kind":"Table","apiVersion":"{}","metadata":{metadata},"columnDefinitions":"#, self.version);
        to.extend_from_slice(head.as_bytes());
        // The real server's conversion of APIServices has them each time.
        let always = kind.is_built_in() && kind.kind == "APIService";
        if !(self.has_headers || always) {
            to.extend_from_slice(b"null");
        } else if kind.is_built_in() {
            to.extend_from_slice(columns::of(kind).as_bytes());
        } else {
            to.extend_from_slice(custom::headers(&kind.printer_columns).as_bytes());
        }
        to.extend_from_slice(br#","rows":"#);
    }

    fn write_row(self, to: &mut Vec<u8>, kind: &Kind, object: &Object) {
        let value = object.value();
        let (cells, conditions) = if kind.is_built_in() {
            (cells::of(kind, &value, self.now), cells::conditions(kind, &value))
        } else {
            (custom::cells(&kind.printer_columns, kind, value, self.now), Value::Null)
        };
        to.extend_from_slice(br#"{"cells":"#);
        to.extend_from_slice(Value::Array(cells).to_string().as_bytes());
        if !conditions.is_null() {
            to.extend_from_slice(br#","conditions":"#);
            to.extend_from_slice(conditions.to_string().as_bytes());
        }
        to.extend_from_slice(br#","object":"#);
        let form = match (self.include, self.view) {
            (Include::Nothing, _) => {
                to.extend_from_slice(b"null}");
                return;
            }
            (Include::Metadata, _) => Form::Metadata(self.version, None),
            (Include::Object, None) => Form::Whole,
            (Include::Object, Some(view)) => Form::As(view),
        };
        if kind.kind == "DaemonSet" && kind.is_built_in() && self.include == Include::Metadata {
            to.extend_from_slice(&form.object(kind, &without_generation(object)));
        } else {
            to.extend_from_slice(&form.object(kind, object));
        }
        to.push(b'}');
    }
}

/// A DaemonSet without the annotation that the real server adds in its served version alone.
fn without_generation(object: &Object) -> Object {
    let mut value = object.value();
    if let Some(annotations) = value["metadata"]["annotations"].as_object_mut() {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            value["metadata"].as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
    }
    Object::managed_by(&value, object.managed(), object.revision(), Vec::new())
}
