//! Merging of lists: scalars as a set, maps by their merge key. The result has the order of the
//! patch where the patch has one, and the order of the object elsewhere.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::lookup::Schema;
use super::{
    BAD_ORDER, MergeError, PATCH, SET_ELEMENT_ORDER, copy_value, directive_field, map_text, merge_map, step, steps,
    too_much, unknown_directive, without_directives, wrong_type,
};
use crate::request::budget;
use crate::rules::go_text;
use crate::rules::schema::Patch;

/// What identifies an item: its JSON, or that of its merge key.
type Key = String;

/// Merges `patch` into a list of `item`s.
pub(super) fn merge(
    original: Vec<Value>,
    patch: &mut [Value],
    item: Schema<'_>,
    strategy: &Patch,
    is_deletion: bool,
) -> Result<Vec<Value>, MergeError> {
    if !(strategy.merge || is_deletion) {
        return patch.iter().map(copy_value).collect();
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let has_maps = items_are_maps(&[&original, patch])?;
    match &strategy.merge_key {
        Some(key) if has_maps => merge_maps(original, patch, item, key),
        _ if has_maps => Err(MergeError::Other(format!("cannot merge lists without merge key for {}", item.kind()))),
        _ if is_deletion => {
            let deleted = Order::of_scalars(patch)?;
            let is_kept = |value: &Value| !deleted.contains(&value.to_string());
            Ok(original.into_iter().filter(is_kept).collect())
        }
        // Maps alone have the key.
        Some(_) => Err(wrong_type("map[string]interface {}", original.first().unwrap_or(&Value::Null))),
        None => {
            let (by_patch, by_server) = (Order::of_scalars(patch)?, Order::of_scalars(&original)?);
            let mut all = original;
            for value in patch.iter() {
                all.push(copy_value(value)?);
            }
            let items = keyed_scalars(all);
            let mut seen = std::collections::HashSet::new();
            let (patched, others) = items
                .into_iter()
                .filter(|(key, _)| seen.insert(key.clone()))
                .partition(|(key, _)| by_patch.contains(key));
            ordered(patched, others, &by_patch, &by_server)
        }
    }
}

fn merge_maps(
    mut original: Vec<Value>,
    patch: &mut [Value],
    item: Schema<'_>,
    merge_key: &str,
) -> Result<Vec<Value>, MergeError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replaces = false;
    let mut deleted = std::collections::HashSet::new();
    for value in patch.iter_mut().filter_map(Value::as_object_mut) {
        step()?;
        match value.get(PATCH) {
            None => plain.push(value),
            Some(directive) => match directive.as_str() {
                Some("delete") => drop(deleted.insert(key_of(value, merge_key)?)),
                Some("replace") => replaces = true,
                Some("merge") => {
                    return Err(MergeError::Other("merging lists cannot yet be specified in the patch".to_owned()));
                }
                _ => return Err(unknown_directive(directive, value)),
            },
        }
    }
    if replaces {
        original = plain.into_iter().map(|map| super::copy(map).map(Value::Object)).collect::<Result<_, _>>()?;
        plain = Vec::new();
    } else if !deleted.is_empty() {
        original.retain(|value| !optional_key(value, merge_key).is_some_and(|key| deleted.contains(&key)));
    }

    // Of items with the same key, the first one is merged into.
    let by_server = Order::of_maps(&original, merge_key);
    let mut places: HashMap<Key, usize> = by_server.places.clone();
    let mut by_patch = Order::default();
    let mut merged = original;
    for map in plain {
        step()?;
        let key = key_of(map, merge_key)?;
        by_patch.push(key.clone());
        match places.get(&key) {
            Some(place) => {
                if let Some(Value::Object(before)) = merged.get_mut(*place).map(Value::take) {
                    merged[*place] = Value::Object(merge_map(before, map, item)?);
                }
            }
            None => {
                places.insert(key, merged.len());
                merged.push(Value::Object(super::copy(map)?));
            }
        }
    }
    let items = keyed_maps(merged, merge_key)?;
    let (patched, others) = items.into_iter().partition(|(key, _)| by_patch.contains(key));
    ordered(patched, others, &by_patch, &by_server)
}

/// Merges the lists whose order a `$setElementOrder` sets, and takes both out of the patch.
pub(super) fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema<'_>,
) -> Result<(), MergeError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else { return Err(wrong_type("[]interface {}", &order)) };
        let name = directive_field(&directive, SET_ELEMENT_ORDER, BAD_ORDER)?;
        for list in [original.get(name), patch.get(name)].into_iter().flatten() {
            if !list.is_array() {
                return Err(wrong_type("[]interface {}", list));
            }
        }
        let (item, strategy) = schema.list(name)?;
        let merge_key = strategy.merge_key.as_deref();
        let changes = patch.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        check_order(changes, &order, merge_key)?;

        let before = original.get(name).and_then(Value::as_array).cloned();
        if !budget::make(before.iter().flatten().map(budget::deep).sum()) {
            return Err(too_much());
        }
        let merged = match (&before, patch.get_mut(name)) {
            (None, None) => continue,
            (Some(before), None) => before.clone(),
            (None, Some(changes)) => match without_directives(changes)? {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(before), Some(Value::Array(changes))) => merge(before.clone(), changes, item, strategy, false)?,
            (Some(_), Some(_)) => continue,
        };
        let before = before.unwrap_or_default();
        let sorted = match merge_key {
            None => {
                let by_patch = Order::of_scalars(&order)?;
                if merged.iter().any(is_container) {
                    return Err(MergeError::Incomparable);
                }
                let (patched, others) = keyed_scalars(merged).into_iter().partition(|(key, _)| by_patch.contains(key));
                check_items(&before, patch.get(name))?;
                ordered(patched, others, &by_patch, &Order::of_scalars(&before)?)?
            }
            Some(merge_key) => {
                // The real server looks through the order item by item.
                let wrong = order.iter().position(|item| !item.is_object());
                let known = Order::of_maps(&order[..wrong.unwrap_or(order.len())], merge_key);
                let items = keyed_maps(merged, merge_key)?;
                if let Some(wrong) = wrong.filter(|_| items.iter().any(|(key, _)| !known.contains(key))) {
                    return Err(MergeError::Other(format!("value for key {wrong} is not a map")));
                }
                let (patched, others) = items.into_iter().partition(|(key, _)| known.contains(key));
                check_items(&before, patch.get(name))?;
                for item in &order {
                    match item {
                        Value::Object(item) => drop(key_of(item, merge_key)?),
                        item => return Err(wrong_type("map[string]interface {}", item)),
                    }
                }
                ordered(patched, others, &known, &Order::of_maps(&before, merge_key))?
            }
        };
        original.insert(name.to_owned(), Value::Array(sorted));
        patch.remove(name);
    }
    Ok(())
}

/// The items of a patched list are in its `$setElementOrder`, in the same order.
fn check_order(changes: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), MergeError> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(changes.len());
    for change in changes {
        match (change, merge_key) {
            (Value::Object(change), Some(_)) if change.get(PATCH).is_some_and(|directive| directive == "delete") => {}
            (change, Some(_)) if !change.is_object() => return Err(wrong_type("map[string]interface {}", change)),
            (change, _) => kept.push(change),
        }
    }
    let (mut change, mut place) = (0, 0);
    while change < kept.len() && place < order.len() {
        step()?;
        if kept[change].get(PATCH).is_some() {
            change += 1;
            continue;
        }
        if same_key(kept[change], &order[place], merge_key)? {
            change += 1;
        }
        place += 1;
    }
    if change == kept.len() {
        return Ok(());
    }
    let list = |items: &[Value]| go_text::text(&Value::Array(items.to_vec()));
    let (changes, order) = (list(changes), list(order));
    Err(MergeError::Other(format!(
        "The order in patch list:\n{changes}\n doesn't match {SET_ELEMENT_ORDER} list:\n{order}\n"
    )))
}

fn same_key(one: &Value, other: &Value, merge_key: Option<&str>) -> Result<bool, MergeError> {
    let Some(merge_key) = merge_key else {
        let comparable = !(is_container(one) && go_text::type_name(one) == go_text::type_name(other));
        return if comparable { Ok(one == other) } else { Err(MergeError::Incomparable) };
    };
    let key = |value: &Value| match value {
        Value::Object(value) => key_of(value, merge_key),
        other => Err(wrong_type("map[string]interface {}", other)),
    };
    Ok(key(one)? == key(other)?)
}

/// Refuses lists without items, and those whose items have different types.
fn check_items(before: &[Value], changes: Option<&Value>) -> Result<(), MergeError> {
    let changes = changes.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    items_are_maps(&[before, changes]).map(drop)
}

/// Whether the items of all lists are maps. They all have the same type.
fn items_are_maps(lists: &[&[Value]]) -> Result<bool, MergeError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let first = items.next().ok_or_else(|| MergeError::Other("no elements in any of the given slices".to_owned()))?;
    match first {
        Value::Null => return Err(MergeError::Incomparable),
        Value::Array(_) => return Err(MergeError::ListOfLists),
        _ => {}
    }
    for item in items {
        step()?;
        if go_text::type_name(item) != go_text::type_name(first) {
            let lists = lists.iter().map(|list| Value::Array(list.to_vec())).collect();
            let lists = go_text::text(&Value::Array(lists));
            return Err(MergeError::Other(format!("list element types are not identical: {lists}")));
        }
    }
    Ok(first.is_object())
}

fn is_container(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// The merge key of an item, which has one.
fn key_of(item: &Map<String, Value>, merge_key: &str) -> Result<Key, MergeError> {
    match item.get(merge_key) {
        Some(value) if is_container(value) => Err(MergeError::Incomparable),
        Some(value) => Ok(value.to_string()),
        None => {
            Err(MergeError::Other(format!("map: {} does not contain declared merge key: {merge_key}", map_text(item))))
        }
    }
}

fn optional_key(item: &Value, merge_key: &str) -> Option<Key> {
    item.get(merge_key).filter(|value| !is_container(value)).map(Value::to_string)
}

fn keyed_maps(items: Vec<Value>, merge_key: &str) -> Result<Vec<(Key, Value)>, MergeError> {
    let keyed = |item| match item {
        Value::Object(map) => Ok((key_of(&map, merge_key)?, Value::Object(map))),
        other => Err(wrong_type("map[string]interface {}", &other)),
    };
    items.into_iter().map(keyed).collect()
}

fn keyed_scalars(items: Vec<Value>) -> Vec<(Key, Value)> {
    items.into_iter().map(|item| (item.to_string(), item)).collect()
}

/// The first place of each key in a list.
#[derive(Default)]
struct Order {
    places: HashMap<Key, usize>,
    len: usize,
}

impl Order {
    fn of_scalars(items: &[Value]) -> Result<Self, MergeError> {
        if items.iter().any(is_container) {
            return Err(MergeError::Incomparable);
        }
        let mut order = Self::default();
        items.iter().for_each(|item| order.push(item.to_string()));
        Ok(order)
    }

    fn of_maps(items: &[Value], merge_key: &str) -> Self {
        let mut order = Self::default();
        for item in items {
            match optional_key(item, merge_key) {
                Some(key) => order.push(key),
                None => order.len += 1,
            }
        }
        order
    }

    fn push(&mut self, key: Key) {
        self.places.entry(key).or_insert(self.len);
        self.len += 1;
    }

    fn contains(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    fn place(&self, key: &str) -> Option<usize> {
        self.places.get(key).copied()
    }
}

/// The items of the patch in its order, with the other items between them: each one before the
/// first item that follows it in the object.
fn ordered(
    mut patched: Vec<(Key, Value)>,
    mut others: Vec<(Key, Value)>,
    by_patch: &Order,
    by_server: &Order,
) -> Result<Vec<Value>, MergeError> {
    steps(patched.len() + others.len())?;
    sort(&mut patched, by_patch)?;
    sort(&mut others, by_server)?;
    let mut merged = Vec::with_capacity(patched.len() + others.len());
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    while let (Some((patch_key, _)), Some((other_key, _))) = (patched.peek(), others.peek()) {
        let is_before = match (by_server.place(other_key), by_server.place(patch_key)) {
            (Some(other), Some(patch)) => other < patch,
            _ => false,
        };
        merged.extend(if is_before { others.next() } else { patched.next() }.map(|(_, value)| value));
    }
    merged.extend(patched.chain(others).map(|(_, value)| value));
    Ok(merged)
}

/// Sorts as the real server does, which moves an item that is not in the order to the front.
fn sort(items: &mut [(Key, Value)], order: &Order) -> Result<(), MergeError> {
    if items.iter().all(|(key, _)| order.contains(key)) {
        items.sort_by_cached_key(|(key, _)| order.place(key));
        return Ok(());
    }
    for end in 1..items.len() {
        let mut place = end;
        while place > 0 {
            // Each comparison looks for two keys.
            steps(8)?;
            let is_less = match (order.place(&items[place].0), order.place(&items[place - 1].0)) {
                (Some(one), Some(other)) => one < other,
                _ => true,
            };
            if !is_less {
                break;
            }
            items.swap(place, place - 1);
            place -= 1;
        }
    }
    Ok(())
}
