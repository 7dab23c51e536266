//! The structural schema of a custom resource: pruning and defaults.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::format::Format;
use super::paths;
use super::pattern::{self, Compiled};
use crate::request::budget;
use crate::response::status::FieldError;
use crate::rules::schema::{FieldValidation, decode_metadata};

/// The fields of every object, which a schema need not specify.
pub(super) const TYPE_AND_METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(super) root: Node,
}

/// The schema of one value. An absent keyword leaves its field empty and restricts nothing.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// More than one only for `x-kubernetes-int-or-string`.
    pub(super) types: Vec<String>,
    pub(super) nullable: bool,
    pub(super) format: Option<Format>,
    /// Whether `format` is a name other than `byte`, be it known or not.
    pub(super) untyped_text: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) required: Vec<String>,
    pub(super) any_of: Vec<Node>,
    pub(super) all_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
    pub(super) variants: Option<Vec<Value>>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) pattern: Option<Arc<Pattern>>,
    pub(super) preserve_unknown: bool,
    pub(super) embedded_resource: bool,
    pub(super) list: List,
    /// Whether `x-kubernetes-map-type` is `atomic`.
    pub(super) atomic_map: bool,
}

/// The `additionalProperties` keyword.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// Absent: other fields are pruned.
    #[default]
    Absent,
    /// A boolean.
    Allowed(bool),
    Schema(Box<Node>),
}

/// `minimum` or `maximum`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) exclusive: bool,
}

/// `pattern`.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(super) text: String,
    /// The check of the definition compiles it. If there was no check, as for a definition that
    /// waited for its names, the first comparison compiles it. `None` if it is invalid: then
    /// nothing matches.
    regex: OnceLock<Option<Compiled>>,
}

/// The patterns of a definition by their text. Fields with the same pattern share it.
pub(crate) type Patterns = HashMap<String, Arc<Pattern>>;

/// Compiles a pattern and keeps it, unless it is kept already. The error states why it cannot be
/// compiled.
pub(super) fn compile_pattern(patterns: &mut Patterns, text: &str) -> Result<(), String> {
    if !patterns.contains_key(text) {
        let regex = OnceLock::from(Some(pattern::compile(text)?));
        patterns.insert(text.to_owned(), Arc::new(Pattern { text: text.to_owned(), regex }));
    }
    Ok(())
}

/// The known patterns, and those of the schemas that were read.
#[derive(Debug, Default)]
pub(crate) struct PatternReader<'a> {
    known: Vec<&'a Patterns>,
    used: RefCell<Patterns>,
}

impl<'a> PatternReader<'a> {
    pub(crate) fn new(known: Vec<&'a Patterns>) -> Self {
        Self { known, used: RefCell::default() }
    }

    fn read(&self, text: &str) -> Arc<Pattern> {
        let mut used = self.used.borrow_mut();
        if let Some(pattern) = used.get(text) {
            return Arc::clone(pattern);
        }
        let known = self.known.iter().find_map(|known| known.get(text)).cloned();
        let uncompiled = || Arc::new(Pattern { text: text.to_owned(), regex: OnceLock::new() });
        let pattern = known.unwrap_or_else(uncompiled);
        used.insert(text.to_owned(), Arc::clone(&pattern));
        pattern
    }

    /// The patterns of the schemas that were read.
    pub(crate) fn into_used(self) -> Patterns {
        self.used.into_inner()
    }
}

impl Pattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        // The request that wrote the definition was charged for it.
        let compiled = self.regex.get_or_init(|| budget::unmetered(|| pattern::compile(&self.text).ok()));
        compiled.as_ref().is_some_and(|compiled| compiled.is_match(text))
    }
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    #[default]
    Atomic,
    Set,
    /// With the keys of its elements.
    Map(Vec<String>),
}

impl Schema {
    /// Reads an `openAPIV3Schema`. Unknown keywords restrict nothing; [`super::check`] refuses
    /// them.
    pub(crate) fn compile(schema: &Value, patterns: &PatternReader<'_>) -> Self {
        Self { root: Node::read(schema, patterns) }
    }

    /// Drops the fields that the schema does not specify. Returns them sorted, in the form of
    /// warnings and of strict field validation: `unknown field "spec.foo"`. The metadata of the
    /// object itself stays unchanged; unknown fields in the metadata of embedded objects come last.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        prune(object, Some(&self.root), true, "", &mut unknown);
        unknown.sort();
        let mut of_metadata = Vec::new();
        prune_metadata(object, &self.root, "", &mut of_metadata);
        of_metadata.sort();
        unknown.extend(of_metadata);
        unknown.into_iter().map(|path| format!("unknown field {}", crate::response::status::quote(&path))).collect()
    }

    /// Finds a field of an embedded object that has not the type that it has in every object.
    pub(crate) fn wrong_type_of_embedded(&self, object: &Value) -> Option<FieldError> {
        wrong_type(object, &self.root, "")
    }

    /// Sets defaults. A null that is not allowed is replaced by the default, or dropped.
    pub(crate) fn default(&self, object: &mut Value) {
        drop_nulls(object, Some(&self.root));
        fill(object, &self.root);
    }
}

impl Node {
    pub(super) fn read(schema: &Value, patterns: &PatternReader<'_>) -> Self {
        let read = |schema: &Value| Self::read(schema, patterns);
        let flag = |name: &str| schema[name].as_bool().unwrap_or_default();
        let nodes = |name: &str| schema[name].as_array().into_iter().flatten().map(read).collect();
        let strings = |name: &str| {
            let texts = schema[name].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        let types: Vec<String> = if flag("x-kubernetes-int-or-string") {
            vec!["integer".to_owned(), "string".to_owned()]
        } else {
            schema["type"].as_str().filter(|name| !name.is_empty()).map(str::to_owned).into_iter().collect()
        };
        let bound = |limit: &str, exclusive: &str| {
            schema[limit].as_f64().map(|limit| Bound { limit, exclusive: flag(exclusive) })
        };
        let additional = match schema.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Absent,
            Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
            Some(schema) => Additional::Schema(Box::new(read(schema))),
        };
        let list = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => List::Set,
            Some("map") => List::Map(strings("x-kubernetes-list-map-keys")),
            _ => List::Atomic,
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let pattern = schema["pattern"].as_str().filter(|text| !text.is_empty());
        Self {
            format: schema["format"].as_str().and_then(|name| Format::read(name, &types)),
            untyped_text: schema["format"].as_str().is_some_and(|name| !matches!(name, "" | "byte")),
            types,
            nullable: flag("nullable"),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: properties.map(|(name, schema)| (name.clone(), read(schema))).collect(),
            additional,
            items: schema.get("items").filter(|items| items.is_object()).map(|items| Box::new(read(items))),
            required: strings("required"),
            any_of: nodes("anyOf"),
            all_of: nodes("allOf"),
            one_of: nodes("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(read(not))),
            variants: schema["enum"].as_array().filter(|values| !values.is_empty()).cloned(),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64(),
            min_length: schema["minLength"].as_i64(),
            max_length: schema["maxLength"].as_i64(),
            min_items: schema["minItems"].as_i64(),
            max_items: schema["maxItems"].as_i64(),
            min_properties: schema["minProperties"].as_i64(),
            max_properties: schema["maxProperties"].as_i64(),
            pattern: pattern.map(|text| patterns.read(text)),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            list,
            atomic_map: schema["x-kubernetes-map-type"] == "atomic",
        }
    }

    /// The schema of a field, if there is one.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Additional::Schema(node)) => Some(node),
            (None, _) => None,
        }
    }
}

/// Whether a field is kept, and with what schema.
enum Field<'a> {
    Known(Option<&'a Node>),
    Untouched,
    Unknown,
}

/// Drops the fields that `node` does not specify. Without a schema, every field is unknown.
pub(super) fn prune(value: &mut Value, node: Option<&Node>, resource: bool, path: &str, unknown: &mut Vec<String>) {
    let preserve = node.is_some_and(|node| node.preserve_unknown);
    let resource = resource || node.is_some_and(|node| node.embedded_resource);
    match value {
        Value::Object(fields) => {
            let kind_of = |name: &str| {
                let Some(node) = node else { return Field::Unknown };
                if resource && TYPE_AND_METADATA.contains(&name) {
                    return Field::Untouched;
                }
                match (node.properties.get(name), &node.additional) {
                    (Some(node), _) => Field::Known(Some(node)),
                    (None, Additional::Schema(node)) => Field::Known(Some(node)),
                    (None, Additional::Allowed(_)) => Field::Known(None),
                    (None, Additional::Absent) if preserve => Field::Untouched,
                    (None, Additional::Absent) => Field::Unknown,
                }
            };
            let join = |name: &str| paths::child(path, name);
            fields.retain(|name, value| {
                match kind_of(name) {
                    Field::Known(node) => prune(value, node, false, &join(name), unknown),
                    Field::Untouched => {}
                    Field::Unknown => {
                        let name = join(name);
                        if budget::make(name.len()) {
                            unknown.push(name);
                        }
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(values) => {
            let items = node.and_then(|node| node.items.as_deref());
            // A list that preserves unknown fields preserves those of its elements.
            if preserve {
                return;
            }
            for (index, value) in values.iter_mut().enumerate() {
                prune(value, items, false, &paths::item(path, index), unknown);
            }
        }
        _ => {}
    }
}

/// Decodes the metadata of embedded objects as those of every object, which drops unknown fields.
/// Metadata of a wrong type stays unchanged.
fn prune_metadata(value: &mut Value, node: &Node, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let join = |name: &str| paths::child(path, name);
            if node.embedded_resource
                && let Some(metadata) = fields.get_mut("metadata").filter(|metadata| metadata.is_object())
                && let Ok(decoded) = decode_metadata(metadata.clone(), FieldValidation::Warn)
            {
                *metadata = decoded.value;
                if metadata["creationTimestamp"].is_null() {
                    metadata.as_object_mut().map(|metadata| metadata.remove("creationTimestamp"));
                }
                let names = decoded.warnings.iter().filter_map(|text| text.split('"').nth(1));
                unknown.extend(names.map(|name| format!("{}.{name}", join("metadata"))));
            }
            for (name, value) in fields {
                if let Some(node) = node.field(name) {
                    prune_metadata(value, node, &join(name), unknown);
                }
            }
        }
        Value::Array(values) => {
            let Some(node) = &node.items else { return };
            for (index, value) in values.iter_mut().enumerate() {
                prune_metadata(value, node, &paths::item(path, index), unknown);
            }
        }
        _ => {}
    }
}

fn wrong_type(value: &Value, node: &Node, path: &str) -> Option<FieldError> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let field = paths::child(path, name);
            match name.as_str() {
                "apiVersion" | "kind" if node.embedded_resource && !value.is_string() => {
                    return Some(FieldError::invalid(field, value.clone(), "must be a string"));
                }
                "metadata" if node.embedded_resource => {
                    if let Err(error) = decode_metadata(value.clone(), FieldValidation::Ignore) {
                        return Some(FieldError::invalid(field, value.clone(), error.to_string()));
                    }
                }
                _ => {}
            }
            match (node.properties.get(name), &node.additional) {
                (Some(node), _) => wrong_type(value, node, &field),
                (None, Additional::Schema(node)) => wrong_type(value, node, &paths::key(path, name)),
                (None, _) => None,
            }
        }),
        Value::Array(values) => {
            let node = node.items.as_ref()?;
            let mut items = values.iter().enumerate();
            items.find_map(|(index, value)| wrong_type(value, node, &paths::item(path, index)))
        }
        _ => None,
    }
}

/// Drops nulls that the schema does not allow and has no default for.
fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let node = node.and_then(|node| node.field(name));
            if value.is_null() && node.is_some_and(|node| !node.nullable && node.default.is_none()) {
                return false;
            }
            drop_nulls(value, node);
            true
        }),
        Value::Array(values) => {
            let items = node.and_then(|node| node.items.as_deref());
            values.iter_mut().for_each(|value| drop_nulls(value, items));
        }
        _ => {}
    }
}

/// Sets the defaults within `value`.
fn fill(value: &mut Value, node: &Node) {
    let replace_null = |value: &mut Value, node: &Node| {
        if value.is_null() && !node.nullable {
            *value = node.default.as_ref().and_then(copied).unwrap_or_default();
        }
    };
    if !budget::step(1) {
        return;
    }
    match value {
        Value::Object(fields) => {
            fill_fields(fields, node);
            for (name, value) in fields {
                let Some(node) = node.field(name) else { continue };
                replace_null(value, node);
                fill(value, node);
            }
        }
        Value::Array(values) => {
            let Some(node) = &node.items else { return };
            for value in values {
                replace_null(value, node);
                fill(value, node);
            }
        }
        _ => {}
    }
}

/// A copy of a default, within the budget of the request. A default may be copied for each item of
/// a list.
fn copied(default: &Value) -> Option<Value> {
    let bytes = budget::deep(default);
    (budget::text(bytes) && budget::make(bytes)).then(|| default.clone())
}

fn fill_fields(fields: &mut Map<String, Value>, node: &Node) {
    if !budget::step(node.properties.len()) {
        return;
    }
    for (name, node) in &node.properties {
        if let Some(default) = &node.default
            && !fields.contains_key(name)
            && let Some(default) = copied(default)
        {
            fields.insert(name.clone(), default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::compile(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "default": {}, "properties": {
                    "size": {"type": "integer", "default": 3},
                    "none": {"type": "string"},
                    "maybe": {"type": "string", "nullable": true, "default": "x"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {
                        "name": {"type": "string"}, "port": {"type": "integer", "default": 80},
                    }}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                        "a": {"type": "integer", "default": 1},
                    }}},
                    "any": {"type": "object", "additionalProperties": true},
                    "kept": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                        "strict": {"type": "object"},
                    }},
                    "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                        "spec": {"type": "object"},
                    }},
                }},
            }}),
            &PatternReader::default(),
        )
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "foo": 1},
            "zzz": 1,
            "spec": {
                "size": 1, "foo": 1,
                "list": [{"name": "a", "bar": 1}],
                "map": {"k": {"a": 1, "b": 2}},
                "any": {"k": {"a": 1}, "n": 1},
                "kept": [{"a": 1}],
                "free": {"x": {"y": 1}, "strict": {"z": 1}},
                "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {"a": 1}, "status": {}},
            },
        });
        let unknown = schema().prune(&mut object);
        let paths = [
            "spec.any.k.a",
            "spec.embedded.spec.a",
            "spec.embedded.status",
            "spec.foo",
            "spec.free.strict.z",
            "spec.list[0].bar",
            "spec.map.k.b",
            "zzz",
            "spec.embedded.metadata.x",
        ];
        assert_eq!(unknown, paths.map(|path| format!("unknown field \"{path}\"")));
        assert_eq!(
            object,
            json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "foo": 1},
                "spec": {
                    "size": 1,
                    "list": [{"name": "a"}],
                    "map": {"k": {"a": 1}},
                    "any": {"k": {}, "n": 1},
                    "kept": [{"a": 1}],
                    "free": {"x": {"y": 1}, "strict": {}},
                    "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}},
                },
            })
        );
    }

    #[test]
    fn defaults_fill_what_is_absent_or_null_where_null_is_not_allowed() {
        let cases = [
            (json!({}), json!({"spec": {"size": 3, "maybe": "x"}})),
            (json!({"spec": {"size": null, "maybe": null}}), json!({"spec": {"size": 3, "maybe": null}})),
            (json!({"spec": {"size": 0, "none": null}}), json!({"spec": {"size": 0, "maybe": "x"}})),
            (
                json!({"spec": {"list": [{"name": "a"}, {"port": 1}], "map": {"k": {}, "n": null}}}),
                json!({"spec": {
                    "size": 3, "maybe": "x",
                    "list": [{"name": "a", "port": 80}, {"port": 1}],
                    "map": {"k": {"a": 1}},
                }}),
            ),
        ];
        for (mut object, wanted) in cases {
            schema().default(&mut object);
            assert_eq!(object, wanted);
        }
    }
}
