//! Objects: fields, maps, and the markers of this crate.

use serde_json::{Value, json};

use super::node::{PRESERVE, VALIDATIONS, is_any, is_true, type_of};
use super::{Pass, Position, Schema, cel, marker};

impl Pass {
    pub(super) fn object(&mut self, source: &mut Schema, base: &mut Schema, position: &Position) {
        base.remove("format");
        let required: Vec<String> = names(base.get("required"));
        let mut own = Schema::new();
        if let Some(Value::Object(properties)) = source.remove("properties") {
            for (name, property) in properties {
                let position = position.field(&name);
                let property = self.property(property, required.contains(&name), &position);
                own.insert(name, Value::Object(property));
            }
        }
        if !own.is_empty() {
            // The fields of flattened types are in `base`.
            let own = Schema::from_iter([("properties".to_owned(), Value::Object(own))]);
            self.meet(base, own, position);
        }
        self.map(source, base, position);
        self.mark(base, position);
        let unknown = names(base.get("required")).into_iter().find(|name| {
            !is_true(base, PRESERVE)
                && !base.contains_key("additionalProperties")
                && base.get("properties").is_none_or(|all| all.get(name).is_none())
        });
        if let Some(name) = unknown {
            let problem = format!("the field {name} is required, and has no schema");
            self.problem(position, problem, "add the field, or remove it from `required`");
        }
    }

    fn property(&mut self, property: Value, is_required: bool, position: &Position) -> Schema {
        let node = self.node(property, position);
        if node.is_null {
            self.problem(
                position,
                "the type has no value but null, which a server drops",
                "use an empty struct, or remove the field",
            );
        }
        let mut property = node.schema;
        // The server removes `null` from a field that is not nullable, so `None` needs no mark. In
        // a required field, `null` is the only way to write it.
        if node.admits_null && is_required {
            property.insert("nullable".to_owned(), true.into());
        }
        if !is_true(&property, "nullable") {
            property.remove("nullable");
            if let Some(default) = property.get_mut("default") {
                drop_nulls(default);
            }
        }
        property
    }

    /// Maps, and unknown fields beside known ones.
    fn map(&mut self, source: &mut Schema, base: &mut Schema, position: &Position) {
        let patterns = match source.remove("patternProperties") {
            Some(Value::Object(patterns)) => patterns,
            _ => Schema::new(),
        };
        let rest = source.remove("additionalProperties").or_else(|| source.remove("unevaluatedProperties"));
        if patterns.len() > 1 {
            self.problem(
                position,
                "the keys of the map have several patterns",
                "use a struct, or a map with keys of one type",
            );
            return;
        }
        // A map whose keys are numbers has one pattern for them and refuses other keys.
        let values = match (patterns.into_iter().next(), rest) {
            (Some((_, values)), _) => values,
            (None, Some(Value::Bool(false))) => {
                base.insert(marker::CLOSED.to_owned(), true.into());
                return;
            }
            (None, Some(values)) => values,
            (None, None) => return,
        };
        let values = self.node(values, &position.values());
        if base.contains_key("properties") || is_any(&values.schema) {
            base.insert(PRESERVE.to_owned(), true.into());
            return;
        }
        let mut schema = values.schema;
        if values.is_null {
            self.problem(
                &position.values(),
                "the values of the map can only be null, which a server drops",
                "use a set of the keys",
            );
        } else if values.admits_null {
            schema.insert("nullable".to_owned(), true.into());
        }
        schema.remove("default");
        base.insert("additionalProperties".to_owned(), Value::Object(schema));
    }

    /// Turns the markers of this crate into rules.
    fn mark(&mut self, base: &mut Schema, position: &Position) {
        let mut rules = Vec::new();
        for (keyword, wording, comparison) in [
            (marker::AT_MOST_ONE_OF, "at most one", "<= 1"),
            (marker::EXACTLY_ONE_OF, "exactly one", "== 1"),
            (marker::AT_LEAST_ONE_OF, "at least one", ">= 1"),
        ] {
            let Some(groups) = base.remove(keyword) else { continue };
            for group in self.groups(&groups, base, keyword, position) {
                let set: Vec<String> = group.iter().filter_map(|name| cel::has("self", name)).collect();
                let rule = format!("[{}].filter(set, set).size() {comparison}", set.join(", "));
                rules.push(json!({"rule": rule, "message": format!("{wording} of the fields {} must be set", group.join(", "))}));
            }
        }
        let required = names(base.get("required"));
        let fields: Vec<String> =
            base.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned()).collect();
        for name in fields {
            let position = position.field(&name);
            let property = base["properties"][&name].as_object_mut();
            let Some((property, immutable)) = property.and_then(|property| {
                let mark = property.remove(marker::IMMUTABLE)?;
                Some((property, mark))
            }) else {
                continue;
            };
            let presence = match &immutable {
                Value::Bool(false) => continue,
                Value::Bool(true) => Presence::Fixed,
                Value::String(mode) if mode == "once-set" => Presence::OnceSet,
                other => {
                    let problem = format!("invalid value {other} of {}", marker::IMMUTABLE);
                    self.problem(&position, problem, "use true, or \"once-set\" for a field that may be set later");
                    continue;
                }
            };
            let unchanged = json!({"rule": "self == oldSelf", "message": format!("{name} is immutable")});
            push_rule(property, unchanged);
            let has_default = property.contains_key("default");
            if required.contains(&name) || has_default {
                continue;
            }
            let (Some(now), Some(before)) = (cel::has("self", &name), cel::has("oldSelf", &name)) else {
                self.problem(&position, "the name of the field cannot be used in CEL", cel::NAMES);
                continue;
            };
            rules.push(match presence {
                Presence::Fixed => json!({"rule": format!("{now} == {before}"), "message": format!("{name} is immutable: it cannot be added or removed")}),
                Presence::OnceSet => json!({"rule": format!("!{before} || {now}"), "message": format!("{name} is immutable: it cannot be removed")}),
            });
        }
        for rule in rules {
            push_rule(base, rule);
        }
    }

    /// The groups of fields in a one-of marker: one group, or a list of groups.
    fn groups(&mut self, value: &Value, base: &Schema, keyword: &str, position: &Position) -> Vec<Vec<String>> {
        let values = value.as_array().map_or(&[][..], Vec::as_slice);
        let groups: Vec<Vec<String>> = if values.iter().all(Value::is_string) {
            vec![names(Some(value))]
        } else {
            values.iter().map(|group| names(Some(group))).collect()
        };
        let required = names(base.get("required"));
        let mut valid = Vec::new();
        for group in groups {
            let field = |name: &String| base.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object);
            let wrong = group.iter().find_map(|name| match field(name) {
                None => Some(format!("names the field {name}, which does not exist")),
                Some(_) if required.contains(name) => Some(format!("names the field {name}, which is always set")),
                Some(property) if property.contains_key("default") => {
                    Some(format!("names the field {name}, which a default sets always"))
                }
                Some(_) if cel::field(name).is_none() => Some(format!("names the field {name}, which CEL cannot")),
                Some(_) => None,
            });
            let wrong = wrong.or_else(|| (group.len() < 2).then(|| "has fewer than two fields".to_owned()));
            match wrong {
                None => valid.push(group),
                Some(wrong) => {
                    let advice =
                        "list the names of optional fields as they are in JSON, for instance [\"cidr\", \"poolName\"]";
                    self.problem(position, format!("{keyword} {wrong}"), advice);
                }
            }
        }
        valid
    }
}

/// Whether an immutable field may be added later.
enum Presence {
    Fixed,
    OnceSet,
}

fn push_rule(schema: &mut Schema, rule: Value) {
    if let Value::Array(rules) = schema.entry(VALIDATIONS).or_insert_with(|| json!([])) {
        rules.push(rule);
    }
}

fn names(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes fields that are null: serde writes `None` so, and the server would prune it.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Whether the items of a list are conditions, of Kubernetes or of a user's own type.
pub(super) fn is_condition(items: &Schema) -> bool {
    let required = names(items.get("required"));
    let field = |name: &str| items.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object);
    ["type", "status", "lastTransitionTime"]
        .iter()
        .all(|name| field(name).is_some_and(|field| type_of(field) == Some("string")))
        && required.iter().any(|name| name == "type")
}
