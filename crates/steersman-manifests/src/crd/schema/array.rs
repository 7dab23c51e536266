//! Lists: their items, and how server-side apply merges them.

use serde_json::{Value, json};

use super::node::{is_any, is_true, type_of};
use super::object::is_condition;
use super::{Pass, Position, Schema};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";

impl Pass {
    pub(super) fn array(&mut self, source: &mut Schema, base: &mut Schema, position: &Position) {
        base.remove("format");
        if base.contains_key("items") {
            // The items come from the variants of an enum.
            return;
        }
        let below = position.items();
        let items = match source.remove("prefixItems") {
            Some(Value::Array(items)) => self.tuple(&items, position),
            _ => source.remove("items").unwrap_or(Value::Bool(true)),
        };
        let node = self.node(items, &below);
        let mut items = node.schema;
        items.remove("default");
        let is_set = is_true(base, "uniqueItems");
        base.remove("uniqueItems");
        if node.is_null {
            self.problem(&below, "the items of the list can only be null", "use a number of items instead");
        } else if node.admits_null {
            items.insert("nullable".to_owned(), true.into());
        }
        if is_set && !base.contains_key(LIST_TYPE) && !is_any(&items) {
            base.insert(LIST_TYPE.to_owned(), "set".into());
            // Items of a set are compared as a whole.
            match type_of(&items) {
                Some("object") => drop(items.insert(MAP_TYPE.to_owned(), "atomic".into())),
                Some("array") => drop(items.insert(LIST_TYPE.to_owned(), "atomic".into())),
                _ => {}
            }
        }
        if is_condition(&items) && !base.contains_key(LIST_TYPE) {
            base.insert(LIST_TYPE.to_owned(), "map".into());
            base.insert(MAP_KEYS.to_owned(), json!(["type"]));
        }
        let list_type = base.get(LIST_TYPE).and_then(Value::as_str);
        if is_true(&items, "nullable") && matches!(list_type, Some("set" | "map")) {
            let problem = format!("the items of a list of the type {} cannot be null", base[LIST_TYPE]);
            self.problem(&below, problem, "remove the Option from the items");
        }
        self.map_keys(base, &items, position);
        base.insert("items".to_owned(), Value::Object(items));
    }

    /// The keys of a list that is a map must be set in every item.
    fn map_keys(&mut self, base: &Schema, items: &Schema, position: &Position) {
        let keys = base.get(MAP_KEYS).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            let property = items.get("properties").and_then(|all| all.get(key));
            let required =
                items.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|name| name == key));
            let advice = "use the names of fields as they are in JSON, of fields that are required or have a default";
            match property {
                None => self.problem(position, format!("the key {key} of the list is no field of its items"), advice),
                Some(property) if !required && property.get("default").is_none() => {
                    let problem = format!("the key {key} of the list may be missing in an item");
                    self.problem(position, problem, advice);
                }
                Some(property) if matches!(property["type"].as_str(), Some("object" | "array")) => {
                    self.problem(position, format!("the key {key} of the list is not a scalar"), advice);
                }
                Some(_) => {}
            }
        }
    }

    /// The schema of the items of a tuple, if all are the same.
    fn tuple(&mut self, items: &[Value], position: &Position) -> Value {
        match items.first() {
            Some(first) if items.iter().all(|item| item == first) => first.clone(),
            _ => {
                self.problem(
                    position,
                    "a CRD has one schema for all items of a list, and those of this tuple differ",
                    "use a struct with named fields",
                );
                Value::Bool(true)
            }
        }
    }
}
