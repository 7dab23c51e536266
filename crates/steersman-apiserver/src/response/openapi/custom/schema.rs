//! The schemas of a custom kind, from its structural schema.

use serde_json::{Map, Value};

use super::{Names, OBJECT_META};
use crate::request::budget;
use crate::response::openapi::node::{Members, Node, Text};
use crate::response::openapi::schema::{Kinds, Version, definition};
use crate::response::openapi::table::TYPE_META;

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// The work on one schema.
const SCHEMA_STEPS: usize = 16;

/// The members of a schema that are copied, in their order. Those between the blanks need work.
const VALIDATIONS: [&str; 17] = [
    "format",
    "title",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
];
/// The order of the members of a rule.
const RULE: [&str; 6] = ["rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"];

/// One version of a definition.
pub(super) struct Definition<'a> {
    pub(super) names: &'a Names<'a>,
    /// The version in the definition.
    pub(super) own: &'a Value,
    pub(super) of_document: Version,
}

impl Definition<'_> {
    /// The schema of the kind.
    pub(super) fn kind(&self) -> Node {
        let schema = &self.own["schema"]["openAPIV3Schema"];
        let is_v2 = self.of_document == Version::V2;
        // kubectl would refuse every field that such a schema does not have.
        let is_free = is_v2 && schema[PRESERVE] == true;
        let Some(schema) = schema.as_object().filter(|_| !is_free) else {
            let mut object = Members::default().with_text("type", "object");
            self.push_kind(self.names.kind, &mut object);
            return object.build();
        };
        let mut writer = Writer { of_document: self.of_document, extensions: Vec::new() };
        let mut root = schema.clone();
        root.remove(EMBEDDED);
        if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
            for name in ["apiVersion", "kind", "metadata"] {
                properties.remove(name);
            }
        }
        let mut own = Members::default();
        self.push_kind(self.names.kind, &mut own);
        if let Node::Map(own) = own.build() {
            writer.extensions = own;
        }
        writer.schema(&root, SchemaPosition::Root)
    }

    /// The schema of a list of them.
    pub(super) fn list(&self) -> Node {
        let Names { plural, kind, list_kind, .. } = self.names;
        let items = Members::default()
            .with_text("description", format!("List of {plural}. More info: {CONVENTIONS}"))
            .with_text("type", "array")
            .with("items", self.of_document.reference(&self.names.model(kind)));
        let metadata = described(
            self.of_document,
            LIST_META,
            &format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
        );
        let properties = Members::default()
            .with("apiVersion", of_type_meta("apiVersion"))
            .with("items", items.build())
            .with("kind", of_type_meta("kind"))
            .with("metadata", metadata);
        let mut list = Members::default()
            .with_text("description", format!("{list_kind} is a list of {kind}"))
            .with_text("type", "object")
            .with("required", Node::texts(["items"]))
            .with("properties", properties.build());
        self.push_kind(list_kind, &mut list);
        list.build()
    }

    /// The extensions that every schema of a kind has.
    fn push_kind(&self, kind: &str, to: &mut Members) {
        let kind = Members::default()
            .with_text("group", self.names.group.to_owned())
            .with_text("kind", kind.to_owned())
            .with_text("version", self.names.version.to_owned());
        to.push("x-kubernetes-group-version-kind", Node::List(vec![kind.build()]));
        let selectable = self.own["selectableFields"].as_array().filter(|fields| !fields.is_empty());
        if let Some(fields) = selectable {
            let path = |field: &Value| {
                let path = field["jsonPath"].as_str().unwrap_or_default();
                Members::default().with_text("fieldPath", path.trim_start_matches('.').to_owned()).build()
            };
            to.push("x-kubernetes-selectable-fields", Node::List(fields.iter().map(path).collect()));
        }
    }
}

/// A field of the metadata of a type.
fn of_type_meta(field: &str) -> Node {
    let shared = definition(TYPE_META, Version::V3, Kinds::All);
    shared.and_then(|shared| shared.get("properties")?.get(field).cloned()).unwrap_or(Node::Null)
}

/// A reference with a description.
fn described(version: Version, name: &str, description: &str) -> Node {
    let mut field = Members::default().with_text("description", description.to_owned());
    version.refer(name, &mut field);
    field.build()
}

fn object_meta(version: Version) -> Node {
    described(version, OBJECT_META, &format!("Standard object's metadata. More info: {CONVENTIONS}#metadata"))
}

/// Where a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// The kind itself.
    Root,
    /// A field, an item or a value.
    Inside,
    /// Below `allOf`, `anyOf`, `oneOf` or `not`.
    Junctor,
}

struct Writer {
    of_document: Version,
    /// More extensions of the root.
    extensions: Vec<(Text, Node)>,
}

impl Writer {
    /// A schema, which has passed the checks of structural schemas.
    fn schema(&mut self, schema: &Map<String, Value>, position: SchemaPosition) -> Node {
        budget::step(SCHEMA_STEPS + schema.len());
        let is_v2 = self.of_document == Version::V2;
        let is = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let is_nullable = is_v2 && is("nullable");
        let is_free = is_v2 && is(PRESERVE);
        // kubectl cannot read items and fields of a value without a type.
        let hides_fields = is_nullable || is_free;
        let has_items = !hides_fields && schema.get("items").is_some_and(Value::is_object);
        let mut kind = text(schema, "type");
        if is_nullable || (is_v2 && kind == "array" && !has_items) || (is_free && kind == "object") {
            kind = "";
        }
        let mut node = Members::default();
        if !text(schema, "description").is_empty() {
            node.push("description", Node::from(&schema["description"]));
        }
        if !kind.is_empty() {
            node.push("type", Node::text(kind.to_owned()));
        }
        if is("nullable") && !is_v2 {
            node.push("nullable", Node::Bool(true));
        }
        for name in VALIDATIONS {
            let is_written = |value: &&Value| if name == "default" { !value.is_null() } else { is_written(value) };
            let Some(value) = schema.get(name).filter(is_written) else { continue };
            if !(is_v2 && name == "default") {
                node.push(name, Node::from(value));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object).filter(|_| !hides_fields);
        let required = self.required(schema, properties, position);
        if !required.is_empty() {
            node.push("required", Node::texts(required));
        }
        if has_items && let Some(items) = schema["items"].as_object() {
            let items = self.schema(items, inside(position));
            node.push("items", items);
        }
        if !is_v2 {
            self.push_junctors(schema, &mut node);
        }
        let properties = self.properties(schema, properties, position);
        if !properties.is_empty() {
            node.push("properties", Node::Map(properties));
        }
        if position != SchemaPosition::Junctor {
            match schema.get("additionalProperties") {
                Some(Value::Object(values)) => {
                    let values = self.schema(values, SchemaPosition::Inside);
                    node.push("additionalProperties", values);
                }
                Some(Value::Bool(allowed)) => node.push("additionalProperties", Node::Bool(*allowed)),
                _ => {}
            }
        }
        if let Some(docs) = schema.get("externalDocs").and_then(Value::as_object) {
            let mut copied = Members::default();
            for name in ["description", "url"].into_iter().filter(|name| !text(docs, name).is_empty()) {
                copied.push(name, Node::from(&docs[name]));
            }
            node.push("externalDocs", copied.build());
        }
        if let Some(example) = schema.get("example").filter(|example| !example.is_null()) {
            node.push("example", Node::from(example));
        }
        self.push_extensions(schema, position, &mut node);
        node.build()
    }

    /// Version 2 requires no field that may be null.
    fn required(
        &self,
        schema: &Map<String, Value>,
        properties: Option<&Map<String, Value>>,
        position: SchemaPosition,
    ) -> Vec<String> {
        let mut required: Vec<String> = strings(schema, "required");
        if self.of_document == Version::V2 {
            let is_nullable = |name: &String| properties.is_some_and(|all| all[name.as_str()]["nullable"] == true);
            let properties = |name: &String| properties.is_some_and(|all| all.contains_key(name));
            required.retain(|name| !(properties(name) && is_nullable(name)));
            if schema.get("additionalProperties").is_some_and(|values| values["nullable"] == true) {
                required.clear();
            }
        }
        if self.is_embedded(schema, position) {
            let missing: Vec<&str> =
                ["kind", "apiVersion"].into_iter().filter(|name| !required.iter().any(|known| known == name)).collect();
            required.extend(missing.into_iter().map(str::to_owned));
        }
        required
    }

    /// Whether the schema gets the fields that every object has.
    fn is_embedded(&self, schema: &Map<String, Value>, position: SchemaPosition) -> bool {
        let is = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        position == SchemaPosition::Inside && is(EMBEDDED) && !(self.of_document == Version::V2 && is(PRESERVE))
    }

    /// The fields, sorted by name.
    fn properties(
        &mut self,
        schema: &Map<String, Value>,
        properties: Option<&Map<String, Value>>,
        position: SchemaPosition,
    ) -> Vec<(Text, Node)> {
        let mut fields: Vec<(Text, Node)> = Vec::new();
        for (name, field) in properties.into_iter().flatten() {
            let Some(field) = field.as_object() else { continue };
            fields.push((name.clone().into(), self.schema(field, inside(position))));
        }
        let mut set = |name: &'static str, value: Node| {
            fields.retain(|(known, _)| known != name);
            fields.push((name.into(), value));
        };
        if position == SchemaPosition::Root {
            set("apiVersion", of_type_meta("apiVersion"));
            set("kind", of_type_meta("kind"));
            set("metadata", object_meta(self.of_document));
        } else if self.is_embedded(schema, position) {
            let field = |description: String| {
                Members::default().with_text("description", description).with_text("type", "string").build()
            };
            set(
                "apiVersion",
                field(format!(
                    "apiVersion defines the versioned schema of this representation of an object. More info: \
                 {CONVENTIONS}#resources"
                )),
            );
            set(
                "kind",
                field(format!(
                    "kind is a string value representing the type of this object. In CamelCase. More info: \
                 {CONVENTIONS}#types-kinds"
                )),
            );
            set("metadata", object_meta(self.of_document));
        }
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        fields
    }

    /// `allOf` and its like, and what `x-kubernetes-int-or-string` stands for.
    fn push_junctors(&mut self, schema: &Map<String, Value>, node: &mut Members) {
        let of = |name: &str| schema.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let (mut all, mut any) = (of("allOf"), of("anyOf"));
        if schema.get(INT_OR_STRING) == Some(&Value::Bool(true)) {
            let either = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
            let is_known = either.as_array() == Some(&any)
                || all.first().is_some_and(|first| *first == serde_json::json!({"anyOf": either}));
            if !is_known && any.is_empty() {
                any = either.as_array().cloned().unwrap_or_default();
            } else if !is_known {
                all.insert(0, serde_json::json!({"anyOf": either}));
            }
        }
        for (name, schemas) in [("allOf", all), ("oneOf", of("oneOf")), ("anyOf", any)] {
            let schemas: Vec<Node> = schemas
                .iter()
                .filter_map(Value::as_object)
                .map(|one| self.schema(one, SchemaPosition::Junctor))
                .collect();
            if !schemas.is_empty() {
                node.push(name, Node::List(schemas));
            }
        }
        if let Some(not) = schema.get("not").and_then(Value::as_object) {
            let not = self.schema(not, SchemaPosition::Junctor);
            node.push("not", not);
        }
    }

    fn push_extensions(&mut self, schema: &Map<String, Value>, position: SchemaPosition, node: &mut Members) {
        let mut extensions =
            if position == SchemaPosition::Root { std::mem::take(&mut self.extensions) } else { Vec::new() };
        for name in [EMBEDDED, INT_OR_STRING, PRESERVE] {
            if schema.get(name) == Some(&Value::Bool(true)) {
                extensions.push((name.into(), Node::Bool(true)));
            }
        }
        for name in ["x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
            let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || value.is_null();
            if let Some(value) = schema.get(name).filter(|value| !is_empty(value)) {
                extensions.push((name.into(), Node::from(value)));
            }
        }
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).filter(|all| !all.is_empty());
        if let Some(rules) = rules {
            let rules = rules.iter().map(|rule| self.rule(rule)).collect();
            extensions.push(("x-kubernetes-validations".into(), Node::List(rules)));
        }
        extensions.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in extensions {
            node.push(name, value);
        }
    }

    fn rule(&self, rule: &Value) -> Node {
        let mut order = RULE;
        if self.of_document == Version::V2 {
            order.sort_unstable();
        }
        let mut ordered = Members::default();
        for name in order {
            if let Some(value) = rule.get(name).filter(|value| !value.is_null()) {
                ordered.push(name, Node::from(value));
            }
        }
        ordered.build()
    }
}

fn inside(position: SchemaPosition) -> SchemaPosition {
    if position == SchemaPosition::Junctor { SchemaPosition::Junctor } else { SchemaPosition::Inside }
}

fn text<'a>(schema: &'a Map<String, Value>, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn strings(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    schema
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Go leaves out empty texts and lists, and what is false.
fn is_written(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
