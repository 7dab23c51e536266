//! The merge of an applied configuration into an object.

use std::collections::VecDeque;

use serde_json::{Map as Members, Value};

use super::element::PathElement;
use super::items::{Items, element_of};
use super::types::{Choice, List, Map, Scalar, TypeRef};
use super::validate::check_scalar;
use crate::request::budget;

/// Merges `config` into `live`. Fails if they do not fit the type.
pub(crate) fn merge(ty: TypeRef<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    let mut walk = Walk { errors: Vec::new() };
    let merged = walk.value(ty, Some(live), Some(config));
    match &walk.errors[..] {
        [] => Ok(merged.unwrap_or_default()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Walk {
    errors: Vec<String>,
}

/// The value of the configuration, else that of the object.
fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let value = config.or(live)?;
    budget::make(budget::deep(value));
    Some(value.clone())
}

impl Walk {
    fn value(&mut self, ty: TypeRef<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        if !budget::step(1) {
            return None;
        }
        let atom = ty.atom();
        let (of_live, of_config) = (atom.of(live), atom.of(config));
        // A missing value takes the form of the other one.
        let choice = if config.is_none() { of_live.choice() } else { of_config.choice() };
        match choice {
            Choice::Scalar(scalar) => self.scalar(scalar, live, config),
            Choice::List(list) => {
                let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                if list.is_atomic() || items(live) + items(config) == 0 {
                    return leaf(live, config);
                }
                self.list(&list, live, config)
            }
            Choice::Map(map) => {
                let members = |value: Option<&Value>| value.and_then(Value::as_object).map_or(0, Members::len);
                if map.atomic || members(live) + members(config) == 0 {
                    return leaf(live, config);
                }
                self.map(&map, live, config)
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let wrong = |value: Option<&Value>| value.and_then(|value| check_scalar(scalar, value));
        if let (Some(one), Some(other)) = (wrong(live), wrong(config)) {
            self.errors.extend([format!("lhs: {one}"), format!("rhs: {other}")]);
            return None;
        }
        leaf(live, config)
    }

    fn map(&mut self, map: &Map<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let none = Members::new();
        let live = live.and_then(Value::as_object).unwrap_or(&none);
        let config = config.and_then(Value::as_object).unwrap_or(&none);
        let mut merged = Members::new();
        let names = live.keys().chain(config.keys().filter(|name| !live.contains_key(*name)));
        for name in names {
            let ty = map.member(name).unwrap_or(TypeRef::Untyped);
            if let Some(value) = self.value(ty, live.get(name), config.get(name)) {
                merged.insert(name.clone(), value);
            }
        }
        (!merged.is_empty()).then_some(Value::Object(merged))
    }

    /// Merges lists item by item. The order is that of the configuration, with items that only the
    /// object has between their neighbours.
    fn list(&mut self, list: &List<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
        let live = live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let config = config.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut errors = Vec::new();
        let of_config = Items::new(list, config, |error| errors.push(error));
        let of_live = Items::new(list, live, |error| errors.push(error));
        for (element, values) in of_config.groups.iter().filter(|(_, values)| values.len() > 1) {
            errors.extend(vec![format!("duplicate entries for key {element}"); values.len() - 1]);
        }
        if !errors.is_empty() {
            self.errors.append(&mut errors);
            return None;
        }
        let left: Vec<PathElement> = live.iter().filter_map(|item| element_of(list, item).ok()).collect();
        let right: Vec<&PathElement> = of_config.groups.iter().map(|(element, _)| element).collect();
        let mut shared: VecDeque<&PathElement> =
            right.iter().copied().filter(|element| of_live.place(element).is_some()).collect();
        let mut next_shared = shared.pop_front();
        let mut taken = vec![false; right.len()];
        let null = Value::Null;
        // Items that come twice in the object are not merged.
        let from_live = |element: &PathElement| match of_live.get(element) {
            [] => None,
            [one] => Some(*one),
            _ => Some(&null),
        };
        let mut merged = Vec::with_capacity(left.len().max(right.len()));
        let (mut at_left, mut at_right) = (0, 0);
        while at_left < left.len() || at_right < right.len() {
            if !budget::step(1) {
                break;
            }
            if at_left < left.len() && at_right < right.len() {
                let element = &left[at_left];
                if element == right[at_right] {
                    taken[at_right] = true;
                    let config = of_config.get(element).first().copied();
                    merged.extend(self.value(list.item, from_live(element), config));
                    at_left += 1;
                    at_right += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                let is_shared = of_config.place(element).is_some();
                if is_shared && next_shared.is_some_and(|next| next != element) {
                    at_left += 1;
                    continue;
                }
            }
            if at_left < left.len() {
                let element = &left[at_left];
                match of_config.place(element) {
                    None => {
                        merged.extend(self.value(list.item, Some(&live[at_left]), None));
                        at_left += 1;
                        continue;
                    }
                    Some(place) if taken[place] => at_left += 1,
                    Some(_) => {}
                }
            }
            if at_right < right.len() {
                let element = right[at_right];
                taken[at_right] = true;
                let config = of_config.get(element).first().copied();
                merged.extend(self.value(list.item, from_live(element), config));
                at_right += 1;
                if next_shared.is_some_and(|next| next == element) {
                    next_shared = shared.pop_front();
                }
            }
        }
        (!merged.is_empty()).then_some(Value::Array(merged))
    }
}
