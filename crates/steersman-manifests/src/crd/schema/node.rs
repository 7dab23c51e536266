//! One schema, whatever its type.

use serde_json::{Map, Value};

use super::{NODES_MAX, Pass, Position, Schema, definition_name, marker};

/// A rewritten schema.
pub(super) struct Node {
    pub(super) schema: Schema,
    /// Whether `null` is a value, as for an `Option`.
    pub(super) admits_null: bool,
    /// Whether `null` is the only value.
    pub(super) is_null: bool,
}

impl Node {
    /// Any value, kept as it is.
    fn any() -> Self {
        let schema = Map::from_iter([(PRESERVE.to_owned(), Value::Bool(true))]);
        Self { schema, admits_null: false, is_null: false }
    }
}

pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(super) const VALIDATIONS: &str = "x-kubernetes-validations";

/// Keywords that a CRD has no counterpart for, and that restrict values.
const REFUSED: [&str; 12] = [
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
];
/// Keywords that hold schemas: each has code of its own.
const SUBSCHEMAS: [&str; 9] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "oneOf",
    "anyOf",
    "allOf",
];
/// Keywords that stay as they are, besides all that begin with `x-`.
const KEPT: [&str; 19] = [
    "description",
    "title",
    "default",
    "example",
    "externalDocs",
    "format",
    "enum",
    "nullable",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "required",
    "minProperties",
    "maxProperties",
];
const KEPT_OF_ARRAYS: [&str; 3] = ["minItems", "maxItems", "uniqueItems"];
/// Keywords that only describe.
const ANNOTATIONS: [&str; 5] = ["description", "title", "default", "example", "externalDocs"];

/// The type of a rewritten schema.
pub(super) fn type_of(schema: &Schema) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

pub(super) fn is_true(schema: &Schema, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a schema takes any value.
pub(super) fn is_any(schema: &Schema) -> bool {
    type_of(schema).is_none() && is_true(schema, PRESERVE)
}

/// The schema without what only describes.
pub(super) fn bare(schema: &Schema) -> Schema {
    schema
        .iter()
        .filter(|(name, _)| !ANNOTATIONS.contains(&name.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

impl Pass {
    /// Rewrites a schema. On a problem, the result is a schema that takes any value.
    pub(super) fn node(&mut self, value: Value, position: &Position) -> Node {
        self.nodes += 1;
        if self.nodes >= NODES_MAX {
            if self.nodes == NODES_MAX {
                self.problem(
                    position,
                    format!("the definition has more than {NODES_MAX} schemas"),
                    "store large embedded types as objects of any shape, with \
                     #[schemars(extend(\"x-kubernetes-preserve-unknown-fields\" = true))] on a serde_json::Value",
                );
            }
            return Node::any();
        }
        let mut source = match value {
            Value::Object(source) => source,
            Value::Bool(false) => {
                self.problem(position, "no value is possible", "remove the field");
                return Node::any();
            }
            _ => return Node::any(),
        };
        if let Some(Value::String(reference)) = source.remove("$ref") {
            return self.referenced(&reference, source, position);
        }
        if let Some(keyword) = REFUSED.iter().find(|keyword| source.contains_key(**keyword)) {
            self.problem(
                position,
                format!("a CRD has no keyword {keyword}"),
                "write a rule in CEL: #[x_kube(validation = …)]",
            );
        }

        let mut base = keep(&mut source);
        let mut node = Node { schema: Map::new(), admits_null: false, is_null: false };
        self.types(&mut source, &mut base, &mut node, position);
        if node.is_null {
            return node;
        }
        self.branches(&mut source, &mut base, &mut node, position);
        if node.is_null {
            return node;
        }
        if base.get("description").is_none() && is_true(&source, "deprecated") {
            base.insert("description".to_owned(), "Deprecated.".into());
        } else if is_true(&source, "deprecated")
            && let Some(Value::String(text)) = base.get_mut("description")
            && !text.to_ascii_lowercase().starts_with("deprecated")
        {
            text.insert_str(0, "Deprecated. ");
        }
        self.finish(source, &mut base, position);
        node.schema = base;
        node
    }

    /// A named type. What stands beside the reference comes on top of the type.
    fn referenced(&mut self, reference: &str, beside: Schema, position: &Position) -> Node {
        let name = definition_name(reference);
        let target = name.as_deref().and_then(|name| self.definitions.get(name));
        let inner = name.as_deref().and_then(|name| position.enter(name));
        let (Some(name), Some(Value::Object(target)), Some(inner)) = (&name, target, inner) else {
            let advice = "break the cycle: refer to another object by its name, or store the inner value as a \
                          serde_json::Value with #[schemars(with = \"serde_json::Value\")]";
            let cycle = name.map_or_else(|| "the type of the custom resource".to_owned(), |name| position.cycle(&name));
            self.problem(
                position,
                format!("the type contains itself, and a CRD cannot be recursive ({cycle})"),
                advice,
            );
            return Node::any();
        };
        let mut merged = target.clone();
        // k8s-openapi describes both as an object without properties.
        let preserves = if name.ends_with(".RawExtension") {
            merged.insert(PRESERVE.to_owned(), true.into());
            true
        } else if name.ends_with("apiextensions.v1.JSON") {
            merged.remove("type");
            true
        } else {
            false
        };
        if preserves {
            merged.remove("additionalProperties");
        }
        for (keyword, value) in beside {
            match (merged.get_mut(&keyword), value) {
                (Some(Value::Object(there)), Value::Object(more)) if keyword == "properties" => there.extend(more),
                (Some(Value::Array(there)), Value::Array(more)) if keyword == "required" || keyword == VALIDATIONS => {
                    there.extend(more.into_iter().filter(|name| !there.contains(name)).collect::<Vec<_>>());
                }
                (_, value) => {
                    merged.insert(keyword, value);
                }
            }
        }
        self.node(Value::Object(merged), &inner)
    }

    /// Reads `type`, and takes `null` out of it and of `enum`.
    fn types(&mut self, source: &mut Schema, base: &mut Schema, node: &mut Node, position: &Position) {
        let mut types: Vec<String> = match source.remove("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let named = types.len();
        types.retain(|name| name != "null");
        node.admits_null = types.len() < named;
        node.is_null = node.admits_null && types.is_empty();
        if let Some(Value::Array(values)) = base.get_mut("enum") {
            let all = values.len();
            values.retain(|value| !value.is_null());
            node.admits_null |= values.len() < all;
            node.is_null |= values.is_empty();
            if types.is_empty() {
                types.extend(values.first().and_then(json_type).map(str::to_owned));
            }
        }
        if types.is_empty() {
            let implied = [
                ("object", ["properties", "additionalProperties", "patternProperties", "required"]),
                ("array", ["items", "prefixItems", "minItems", "uniqueItems"]),
            ];
            let named = |keyword: &&str| source.contains_key(*keyword) || base.contains_key(*keyword);
            let implied = implied.iter().find(|(_, keywords)| keywords.iter().any(named));
            types.extend(implied.map(|(name, _)| (*name).to_owned()));
        }
        types.sort();
        types.dedup();
        match types.as_slice() {
            [] => {}
            [one] => {
                base.insert("type".to_owned(), one.as_str().into());
            }
            [integer, string] if integer == "integer" && string == "string" => {
                base.insert(INT_OR_STRING.to_owned(), true.into());
            }
            [integer, number] if integer == "integer" && number == "number" => {
                base.insert("type".to_owned(), "number".into());
            }
            _ => self.problem(
                position,
                format!("values of the types {} are possible, and a CRD has one type for each field", types.join(", ")),
                "use a struct or a tagged enum",
            ),
        }
    }

    /// Completes a schema whose branches have been moved into it.
    fn finish(&mut self, mut source: Schema, base: &mut Schema, position: &Position) {
        if is_true(base, "x-kubernetes-embedded-resource") {
            base.insert("type".to_owned(), "object".into());
            if !base.contains_key("properties") && !source.contains_key("properties") {
                base.insert(PRESERVE.to_owned(), true.into());
            }
        }
        if is_true(base, INT_OR_STRING) {
            base.remove("type");
            // The format is that of an integer.
            base.remove("format");
            self.numbers(base, position);
            self.pattern(base, position);
            return;
        }
        match type_of(base) {
            Some("object") => self.object(&mut source, base, position),
            Some("array") => self.array(&mut source, base, position),
            Some("integer") => self.integer(base, position),
            Some("number") => self.number(base, position),
            Some("string") => self.string(base, position),
            Some("boolean") => {
                base.remove("format");
            }
            Some(other) => {
                let problem = format!("a CRD has no type {other}");
                self.problem(position, problem, "use another Rust type");
            }
            None => {
                base.insert(PRESERVE.to_owned(), true.into());
            }
        }
    }
}

/// Takes the keywords that stay out of a schema.
fn keep(source: &mut Schema) -> Schema {
    let stays = |name: &str| KEPT.contains(&name) || KEPT_OF_ARRAYS.contains(&name) || name.starts_with("x-");
    let names: Vec<String> = source.keys().filter(|name| stays(name)).cloned().collect();
    let mut kept: Schema = names.into_iter().filter_map(|name| source.remove_entry(&name)).collect();
    kept.remove(marker::CLOSED);
    source.retain(|name, _| {
        SUBSCHEMAS.contains(&name.as_str()) || ["type", "not", "deprecated"].contains(&name.as_str())
    });
    kept
}

fn json_type(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    }
}
