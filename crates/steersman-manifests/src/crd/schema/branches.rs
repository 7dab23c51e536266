//! `oneOf`, `anyOf`, `allOf` and `not`: enums, `Option`s and flattened fields.

use serde_json::{Map, Value, json};

use super::node::{Node, VALIDATIONS, bare, is_any, type_of};
use super::{Pass, Position, Schema, marker};

/// Keywords that restrict values. All others make up the structure, or describe it.
const RESTRICTIONS: [&str; 20] = [
    "format",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "required",
    "minProperties",
    "maxProperties",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "uniqueItems",
];

/// What a schema restricts, without its structure.
pub(super) fn restrictions(schema: &Schema) -> Schema {
    let mut restricting: Schema = schema
        .iter()
        .filter(|(name, _)| RESTRICTIONS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Value::Object(items)) = schema.get("items") {
        let items = restrictions(items);
        if !items.is_empty() {
            restricting.insert("items".to_owned(), Value::Object(items));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let properties: Schema = properties
        .filter_map(|(name, property)| Some((name.clone(), Value::Object(restrictions(property.as_object()?)))))
        .filter(|(_, property)| property.as_object().is_some_and(|property| !property.is_empty()))
        .collect();
    if !properties.is_empty() {
        restricting.insert("properties".to_owned(), Value::Object(properties));
    }
    restricting
}

impl Pass {
    /// Moves types and properties of the branches into `base`. What is left of the branches
    /// restricts values.
    pub(super) fn branches(&mut self, source: &mut Schema, base: &mut Schema, node: &mut Node, position: &Position) {
        for keyword in ["oneOf", "anyOf"] {
            if let Some(Value::Array(branches)) = source.remove(keyword) {
                self.alternatives(keyword, branches, source, base, node, position);
            }
        }
        if let Some(Value::Array(branches)) = source.remove("allOf") {
            for branch in branches {
                let branch = self.node(branch, position);
                if !is_any(&branch.schema) {
                    self.meet(base, branch.schema, position);
                }
            }
        }
        if let Some(refused) = source.remove("not") {
            let refused = restrictions(&self.node(refused, position).schema);
            if refused.is_empty() {
                let advice = "write a rule in CEL: #[x_kube(validation = …)]";
                self.problem(position, "a CRD cannot refuse values by their type", advice);
            } else {
                base.insert("not".to_owned(), Value::Object(refused));
            }
        }
    }

    fn alternatives(
        &mut self,
        keyword: &str,
        branches: Vec<Value>,
        source: &Schema,
        base: &mut Schema,
        node: &mut Node,
        position: &Position,
    ) {
        let mut members = Vec::new();
        for branch in branches {
            let branch = self.node(branch, position);
            node.admits_null |= branch.admits_null || branch.is_null;
            if !branch.is_null {
                members.push(branch.schema);
            }
        }
        let has_structure = type_of(base).is_some() || source.contains_key("properties");
        if has_structure {
            // Beside other fields, a branch that takes any value adds nothing: it comes from a
            // flattened `Option`.
            let all = members.len();
            members.retain(|member| !is_any(member));
            let always_true = members.len() < all && keyword == "anyOf";
            if always_true {
                if let Some((outer, _)) = self.union(&members, position) {
                    self.meet(base, outer, position);
                }
                return;
            }
        }
        match members.as_slice() {
            [] => node.is_null = node.admits_null,
            [only] => self.meet(base, only.clone(), position),
            members if members.iter().any(is_any) => {
                // An untagged enum with a variant for any value.
                base.insert(super::node::PRESERVE.to_owned(), true.into());
            }
            members => {
                if merge_plain_enum(members, base) {
                    return;
                }
                let Some((outer, restrictions)) = self.union(members, position) else { return };
                self.meet(base, outer, position);
                restrict(base, keyword, restrictions);
            }
        }
    }

    /// Adds to `base` what `other` has, where both hold.
    pub(super) fn meet(&mut self, base: &mut Schema, other: Schema, position: &Position) {
        for (keyword, value) in other {
            let Some(there) = base.get_mut(&keyword) else {
                base.insert(keyword, value);
                continue;
            };
            match (keyword.as_str(), there, value) {
                ("description" | "title" | "default" | "example" | marker::CLOSED, ..) => {}
                ("properties", Value::Object(there), Value::Object(more)) => {
                    let mut twice = Vec::new();
                    for (name, property) in more {
                        match there.get(&name) {
                            None => drop(there.insert(name, property)),
                            Some(known) if same(known, &property) => {}
                            Some(_) => twice.push(name),
                        }
                    }
                    for name in twice {
                        let problem = "a flattened type has a field of this name with another schema";
                        self.problem(&position.field(&name), problem, "rename one of the fields");
                    }
                }
                ("required" | VALIDATIONS, Value::Array(there), Value::Array(more)) => {
                    for value in more {
                        if !there.contains(&value) {
                            there.push(value);
                        }
                    }
                }
                ("allOf", Value::Array(there), Value::Array(more)) => there.extend(more),
                ("oneOf" | "anyOf" | "not", there, value) if *there != value => {
                    let second = json!({ keyword: value });
                    if let Value::Array(all) = base.entry("allOf").or_insert_with(|| json!([])) {
                        all.push(second);
                    }
                }
                (_, there, value) if *there == value => {}
                (_, there, value) => {
                    let problem = format!("two schemas apply, with {keyword} {there} and {value}");
                    self.problem(position, problem, "make them equal");
                }
            }
        }
    }
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => bare(one) == bare(other),
        (one, other) => one == other,
    }
}

/// The variants of an enum without fields, with their descriptions. `false` for other enums.
fn merge_plain_enum(members: &[Schema], base: &mut Schema) -> bool {
    let is_plain =
        |member: &Schema| member.contains_key("enum") && bare(member).len() == 2 && type_of(member).is_some();
    if !members.iter().all(|member| is_plain(member) && type_of(member) == type_of(&members[0])) {
        return false;
    }
    let mut values: Vec<Value> = Vec::new();
    for member in members {
        for value in member["enum"].as_array().into_iter().flatten() {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if let Some(text) = member.get("description").and_then(Value::as_str) {
            let named: Vec<&str> = member["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            describe(base, &named.join(", "), text);
        }
    }
    base.insert("type".to_owned(), members[0]["type"].clone());
    base.insert("enum".to_owned(), Value::Array(values));
    true
}

/// Adds the description of a variant to the description of its enum.
pub(super) fn describe(schema: &mut Schema, variant: &str, text: &str) {
    let line = format!("- {variant}: {text}");
    match schema.get_mut("description") {
        Some(Value::String(description)) => {
            let gap = if description.lines().last().is_some_and(|last| last.starts_with("- ")) { "\n" } else { "\n\n" };
            description.push_str(gap);
            description.push_str(&line);
        }
        _ => {
            schema.insert("description".to_owned(), line.into());
        }
    }
}

/// Adds the alternatives to a schema, if they restrict anything.
fn restrict(base: &mut Schema, keyword: &str, alternatives: Vec<Schema>) {
    let nothing = |alternative: &Schema| alternative.is_empty();
    if alternatives.iter().all(nothing) || keyword == "anyOf" && alternatives.iter().any(nothing) {
        return;
    }
    let alternatives = Value::Array(alternatives.into_iter().map(Value::Object).collect());
    if base.contains_key(keyword) {
        let second = Value::Object(Map::from_iter([(keyword.to_owned(), alternatives)]));
        if let Value::Array(all) = base.entry("allOf").or_insert_with(|| json!([])) {
            all.push(second);
        }
    } else {
        base.insert(keyword.to_owned(), alternatives);
    }
}
