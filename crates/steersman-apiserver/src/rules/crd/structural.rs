//! Checks that a schema is structural, so that it can prune objects and set defaults. The messages
//! are the real server's.

use std::collections::HashSet;

use serde_json::Value;

use super::paths;
use super::schema::{Node, PatternReader, Patterns, compile_pattern, prune};
use super::validate::default_errors;
use crate::request::budget;
use crate::response::status::{Errors, FieldError};

/// Validates the `openAPIV3Schema` at `path`. Its patterns are compiled into `patterns`.
pub(super) fn check(schema: &Value, path: &str, has_status: bool, patterns: &mut Patterns) -> Errors {
    let mut errors = Errors::default();
    if has_status {
        check_root_with_status(schema, path, &mut errors);
    }
    if is_true(schema, "nullable") {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let mut structural = Errors::default();
    invariants(schema, Level::Root, path, patterns, &mut structural);
    complete(schema, schema, path, path, &mut structural);
    structural.sort();
    if structural.is_empty() {
        let node = Node::read(schema, &PatternReader::new(vec![patterns]));
        defaults(schema, &node, path, true, &mut errors);
    }
    errors.extend(structural);
    let place = Position { is_root: true, ..Position::default() };
    open_api(schema, path, &place, &mut errors);
    errors
}

/// The position of a schema, on which some rules depend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema[name].as_str().unwrap_or_default()
}

fn is_true(schema: &Value, name: &str) -> bool {
    schema[name].as_bool().unwrap_or_default()
}

fn list<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    schema[name].as_array().into_iter().flatten()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Whether a keyword is set. Go does not distinguish empty and absent values.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                               MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                               ExternalDocs Example XPreserveUnknownFields XValidations]";

/// With a status subresource, the status is validated separately, so the root must not restrict
/// both.
fn check_root_with_status(schema: &Value, path: &str, errors: &mut Errors) {
    let forbidden = [
        "id",
        "$schema",
        "$ref",
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    ];
    let ty = text(schema, "type");
    if !ty.is_empty() && ty != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), ty, detail));
    } else if forbidden.iter().any(|name| is_set(&schema[*name])) {
        let detail = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path, schema.clone(), detail));
    }
}

fn invariants(schema: &Value, level: Level, path: &str, patterns: &mut Patterns, errors: &mut Errors) {
    let ty = text(schema, "type");
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    let int_or_string = is_true(schema, "x-kubernetes-int-or-string");
    let preserve = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    let items = schema.get("items").filter(|items| items.is_object());
    if ty == "array" && items.is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &paths::field(path, "items"), patterns, errors);
    }
    for (name, schema) in properties(schema) {
        invariants(schema, Level::Field, &paths::property(path, name), patterns, errors);
    }
    let additional = schema.get("additionalProperties").filter(|additional| !additional.is_null());
    if let Some(additional) = additional {
        let path = format!("{path}.additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &path, patterns, errors);
        }
        if embedded {
            errors.push(FieldError::forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set"));
        }
    }
    for (name, set) in [("preserve-unknown-fields", preserve), ("embedded-resource", embedded)] {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.x-kubernetes-{name}"), true, detail));
        }
    }
    let skipped = (is_int_or_string(&schema["anyOf"]), is_int_or_string(&schema["allOf"][0]["anyOf"]));
    branches(schema, skipped, path, patterns, errors);

    let type_path = format!("{path}.type");
    if embedded && ty != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match ty {
            "" => FieldError::required(&type_path, detail),
            ty => FieldError::invalid(&type_path, ty, detail),
        });
    } else if ty.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    if level == Level::Root && !ty.is_empty() && ty != "object" {
        errors.push(FieldError::invalid(&type_path, ty, "must be object at the root"));
    }
    if level == Level::Root || embedded {
        for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            let Some(property) = schema["properties"].get(name) else { continue };
            let ty = text(property, "type");
            if ty != wanted {
                let field = format!("{path}.properties[{name}].type");
                errors.push(FieldError::invalid(field, ty, format!("must be {wanted}")));
            }
        }
    }
    if level == Level::Root
        && let Some(metadata) = schema["properties"].get("metadata")
    {
        let restricts = |(name, value): (&String, &Value)| match name.as_str() {
            "type" | "default" => false,
            "properties" => {
                value.as_object().is_some_and(|names| names.keys().any(|name| name != "name" && name != "generateName"))
            }
            _ => is_set(value),
        };
        if metadata.as_object().into_iter().flatten().any(restricts) {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
        }
    }
    if embedded && !preserve && properties(schema).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

/// The one allowed use of types in branches: the form of `x-kubernetes-int-or-string` for old
/// clients.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == serde_json::json!([{"type": "integer"}, {"type": "string"}])
}

/// The branches of `anyOf` and the like restrict values, not their structure.
fn branches(
    schema: &Value,
    (skip_any_of, skip_first_any_of): (bool, bool),
    path: &str,
    patterns: &mut Patterns,
    errors: &mut Errors,
) {
    if !skip_any_of {
        for (index, schema) in list(schema, "anyOf").enumerate() {
            nested(schema, false, &paths::branch(path, "anyOf", index), patterns, errors);
        }
    }
    for (index, schema) in list(schema, "allOf").enumerate() {
        nested(schema, skip_first_any_of && index == 0, &paths::branch(path, "allOf", index), patterns, errors);
    }
    for (index, schema) in list(schema, "oneOf").enumerate() {
        nested(schema, false, &paths::branch(path, "oneOf", index), patterns, errors);
    }
    if schema["not"].is_object() {
        nested(&schema["not"], false, &paths::field(path, "not"), patterns, errors);
    }
    let pattern_text = text(schema, "pattern");
    if !pattern_text.is_empty()
        && let Err(why) = compile_pattern(patterns, pattern_text)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), pattern_text, detail));
    }
}

fn nested(schema: &Value, skip_any_of: bool, path: &str, patterns: &mut Patterns, errors: &mut Errors) {
    branches(schema, (skip_any_of, false), path, patterns, errors);
    if schema["items"].is_object() {
        nested(&schema["items"], false, &paths::field(path, "items"), patterns, errors);
    }
    for (name, schema) in properties(schema) {
        nested(schema, false, &paths::property(path, name), patterns, errors);
    }
    let forbidden = [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ];
    for (name, wanted) in forbidden {
        let value = &schema[name];
        let found = if wanted == "undefined" { !value.is_null() } else { is_set(value) };
        if found {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), format!("must be {wanted} to be structural")));
        }
    }
    if schema["properties"].get("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{path}.properties[metadata]"), detail));
    }
}

/// Every field in `anyOf` and the like must also be in the structural schema.
fn complete(nested: &Value, schema: &Value, nested_path: &str, path: &str, errors: &mut Errors) {
    let mut within = |nested: &Value, nested_path: String| {
        complete(nested, schema, &nested_path, path, errors);
        if nested["items"].is_object() {
            let (path, nested_path) = (paths::field(path, "items"), paths::field(&nested_path, "items"));
            if schema["items"].is_object() {
                complete_branch(&nested["items"], &schema["items"], &nested_path, &path, errors);
            } else {
                errors.push(FieldError::required(path, format!("because it is defined in {nested_path}")));
            }
        }
        complete_properties(nested, schema, &nested_path, path, errors);
    };
    if nested["not"].is_object() {
        within(&nested["not"], paths::field(nested_path, "not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in list(nested, name).enumerate() {
            within(nested, paths::branch(nested_path, name, index));
        }
    }
}

fn complete_branch(nested: &Value, schema: &Value, nested_path: &str, path: &str, errors: &mut Errors) {
    complete(nested, schema, nested_path, path, errors);
    complete_properties(nested, schema, nested_path, path, errors);
}

fn complete_properties(nested: &Value, schema: &Value, nested_path: &str, path: &str, errors: &mut Errors) {
    for (name, nested) in properties(nested) {
        let (path, nested_path) = (paths::property(path, name), paths::property(nested_path, name));
        match schema["properties"].get(name) {
            Some(schema) => complete_branch(nested, schema, &nested_path, &path, errors),
            None => errors.push(FieldError::required(path, format!("because it is defined in {nested_path}"))),
        }
    }
}

/// Defaults must be valid by their schema and contain nothing that it prunes.
fn defaults(schema: &Value, node: &Node, path: &str, resource: bool, errors: &mut Errors) {
    if let Some(default) = &node.default {
        let field = format!("{path}.default");
        let mut pruned = default.clone();
        prune(&mut pruned, Some(node), false, "", &mut Vec::new());
        if pruned != *default {
            errors.push(FieldError::invalid(&field, default.clone(), "must not have unknown fields"));
        }
        errors.extend(default_errors(node, default, &field));
    }
    if let Some(items) = &node.items {
        defaults(&schema["items"], items, &paths::field(path, "items"), false, errors);
    }
    for (name, property) in &node.properties {
        let of_metadata = resource || node.embedded_resource;
        if of_metadata && super::schema::TYPE_AND_METADATA.contains(&name.as_str()) {
            continue;
        }
        defaults(&schema["properties"][name], property, &paths::property(path, name), false, errors);
    }
}

/// The context of a position in the schema.
#[derive(Clone, Default)]
struct Position {
    is_root: bool,
    in_metadata: bool,
    /// Why defaults are not allowed, if they are not.
    no_defaults: Option<String>,
}

/// Refuses unsupported and contradictory keywords.
fn open_api(schema: &Value, path: &str, place: &Position, errors: &mut Errors) {
    let ty = text(schema, "type");
    let types = ["array", "boolean", "integer", "number", "object", "string"];
    if !ty.is_empty() && !types.contains(&ty) {
        errors.push(FieldError::not_supported(format!("{path}.type"), ty, &types));
    }
    if let Some(why) = place.no_defaults.as_ref().filter(|_| !schema["default"].is_null()) {
        errors.push(FieldError::forbidden(format!("{path}.default"), format!("must not be set {why}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if is_set(&schema[name]) {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), format!("{name} is not supported")));
        }
    }
    if ty == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{path}.type"), detail));
    }
    if schema["items"].is_array() {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    if place.in_metadata && embedded {
        let field = format!("{path}.x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(field, "must not be used inside of resource meta"));
    }
    if is_true(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    let below = Position { is_root: false, ..place.clone() };
    let additional = &schema["additionalProperties"];
    if !additional.is_null() {
        let path = format!("{path}.additionalProperties");
        if properties(schema).next().is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if additional.is_object() {
            let mut below = below.clone();
            if place.in_metadata {
                below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            open_api(additional, &path, &below, errors);
        }
    }
    for (name, property) in properties(schema) {
        let mut below = below.clone();
        if (place.is_root || embedded) && super::schema::TYPE_AND_METADATA.contains(&name.as_str()) {
            below.in_metadata = true;
            if place.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        open_api(property, &paths::property(path, name), &below, errors);
    }
    if schema["not"].is_object() {
        open_api(&schema["not"], &paths::field(path, "not"), &below, errors);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(schema, name).enumerate() {
            open_api(schema, &paths::branch(path, name, index), &below, errors);
        }
    }
    if schema["items"].is_object() {
        open_api(&schema["items"], &paths::field(path, "items"), &below, errors);
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    map_and_list_types(schema, path, errors);
    for (index, rule) in list(schema, "x-kubernetes-validations").enumerate() {
        if text(rule, "rule").trim().is_empty() {
            let field = format!("{path}.x-kubernetes-validations[{index}].rule");
            errors.push(FieldError::required(field, "rule is not specified"));
        }
    }
}

/// `must be … if … is specified`, for a missing or different type.
fn wrong_type(ty: &str, wanted: &str, keyword: &str, path: &str) -> FieldError {
    let detail = format!("must be {wanted} if {keyword} is specified");
    match ty {
        "" => FieldError::required(format!("{path}.type"), detail),
        ty => FieldError::invalid(format!("{path}.type"), ty, detail),
    }
}

fn map_and_list_types(schema: &Value, path: &str, errors: &mut Errors) {
    let ty = text(schema, "type");
    if let Some(map_type) = schema["x-kubernetes-map-type"].as_str() {
        if ty != "object" {
            errors.push(wrong_type(ty, "object", "x-kubernetes-map-type", path));
        }
        let known = ["atomic", "granular"];
        if !known.contains(&map_type) {
            errors.push(FieldError::not_supported(format!("{path}.x-kubernetes-map-type"), map_type, &known));
        }
    }
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let items = &schema["items"];
    if list_type.is_some() && ty != "array" {
        errors.push(wrong_type(ty, "array", "x-kubernetes-list-type", path));
    } else if list_type == Some("set") {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let of_items = &items["x-kubernetes-list-type"];
        match text(items, "type") {
            "array" if !of_items.is_null() && of_items != "atomic" => {
                let field = format!("{path}.items.x-kubernetes-list-type");
                errors.push(FieldError::invalid(field, of_items.clone(), detail));
            }
            "object" if items["x-kubernetes-map-type"] != "atomic" => {
                let field = format!("{path}.items.x-kubernetes-map-type");
                errors.push(FieldError::invalid(field, of_items.clone(), detail));
            }
            _ => {}
        }
    }
    let field = format!("{path}.x-kubernetes-list-type");
    let known = ["atomic", "set", "map"];
    if let Some(list_type) = list_type.filter(|list_type| !known.contains(list_type)) {
        errors.push(FieldError::not_supported(&field, list_type, &known));
    }
    let keys = &schema["x-kubernetes-list-map-keys"];
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if is_set(keys) => errors.push(FieldError::required(&field, detail)),
        Some(list_type) if list_type != "map" && is_set(keys) => {
            errors.push(FieldError::invalid(&field, list_type, detail));
        }
        _ => {}
    }
    if list_type == Some("map") {
        list_map(schema, path, errors);
    }
    if matches!(list_type, Some("set" | "map")) && is_true(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.unwrap_or_default());
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
    if list_type == Some("map") {
        list_map_keys(schema, path, errors);
    }
}

fn list_map(schema: &Value, path: &str, errors: &mut Errors) {
    let keys = &schema["x-kubernetes-list-map-keys"];
    let field = format!("{path}.x-kubernetes-list-map-keys");
    if !is_set(keys) {
        errors.push(FieldError::required(&field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = &schema["items"];
    if items.is_null() {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    }
    let ty = text(items, "type");
    if ty != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), ty, detail));
        return;
    }
    let names: Vec<&str> = list(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str).collect();
    let mut seen = HashSet::new();
    for key in names {
        // Each error prints all keys.
        if errors.is_full() || !budget::step(1) {
            return;
        }
        match items["properties"].get(key) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let field = format!("{path}.items.properties[{key}].type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(field, ty, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&field, keys.clone(), detail));
            }
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(&field, keys.clone(), "must not contain duplicate entries"));
        }
    }
}

/// The keys of a map must always be set.
fn list_map_keys(schema: &Value, path: &str, errors: &mut Errors) {
    let items = &schema["items"];
    let required: HashSet<&str> = list(items, "required").filter_map(Value::as_str).collect();
    for key in list(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str) {
        let Some(property) = items["properties"].get(key) else { continue };
        let path = paths::property(&paths::field(path, "items"), key);
        let why = "this property is in x-kubernetes-list-map-keys, so it";
        if !required.contains(key) && property["default"].is_null() {
            let detail = format!("{why} must have a default or be a required property");
            errors.push(FieldError::required(format!("{path}.default"), detail));
        }
        if is_true(property, "nullable") {
            errors.push(FieldError::forbidden(format!("{path}.nullable"), format!("{why} cannot be nullable")));
        }
    }
}
