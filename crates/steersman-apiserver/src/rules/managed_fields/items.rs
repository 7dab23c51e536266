//! The path elements of list items.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use serde_json::Value;

use super::element::PathElement;
use super::types::{List, ListMerge};
use crate::request::budget;

/// Longer lists are searched by a hash.
const SHORT: usize = 16;

/// The path element of an item. The error states why it has none.
pub(super) fn element_of(list: &List<'_>, item: &Value) -> Result<PathElement, String> {
    budget::step(1);
    match list.merge {
        ListMerge::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListMerge::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
        ListMerge::Keys(names) => {
            let members = match item {
                Value::Object(members) => members,
                Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
                _ => return Err("associative list with keys may not have non-map elements".to_owned()),
            };
            let map = list.item.atom().map;
            let key = |name: &String| {
                let value = members.get(name).cloned().or_else(|| map?.default(name))?;
                Some((name.as_str().into(), value))
            };
            let mut keys: Vec<(Box<str>, Value)> = names.iter().filter_map(key).collect();
            if keys.is_empty() && !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| steersman_wire::quote(name)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                     default values for any key fields)",
                    names.join(" ")
                ));
            }
            keys.sort_by(|(one, _), (other, _)| one.cmp(other));
            Ok(PathElement::Key(keys.into()))
        }
    }
}

/// The items of a list by their elements, in the order of their first appearance.
#[derive(Default)]
pub(super) struct Items<'v> {
    pub(super) groups: Vec<(PathElement, Vec<&'v Value>)>,
    /// The places of the groups, once there are many.
    places: HashMap<Hashed, usize>,
}

impl<'v> Items<'v> {
    /// Groups the items of a list. Each one that has no element is reported with its place.
    pub(super) fn new(list: &List<'_>, values: &'v [Value], mut error: impl FnMut(String)) -> Self {
        let mut items = Self::default();
        for (place, value) in values.iter().enumerate() {
            match element_of(list, value) {
                Ok(element) => items.add(element, value),
                Err(why) => error(format!("element {place}: {why}")),
            }
        }
        items
    }

    fn add(&mut self, element: PathElement, value: &'v Value) {
        if let Some(place) = self.place(&element) {
            self.groups[place].1.push(value);
            return;
        }
        let place = self.groups.len();
        if place == SHORT {
            let keys = self.groups.iter().enumerate().map(|(place, (element, _))| (Hashed(element.clone()), place));
            self.places = keys.collect();
        }
        if place >= SHORT {
            self.places.insert(Hashed(element.clone()), place);
        }
        self.groups.push((element, vec![value]));
    }

    /// The place of an element among the groups.
    pub(super) fn place(&self, element: &PathElement) -> Option<usize> {
        if self.places.is_empty() {
            return self.groups.iter().position(|(own, _)| own == element);
        }
        self.places.get(&Hashed(element.clone())).copied()
    }

    /// The values of an element.
    pub(super) fn get(&self, element: &PathElement) -> &[&'v Value] {
        self.place(element).map_or(&[], |place| &self.groups[place].1)
    }
}

/// An element as the key of a map: equal elements have equal hashes.
#[derive(PartialEq, Eq)]
pub(super) struct Hashed(pub(super) PathElement);

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            PathElement::Field(name) => name.hash(state),
            PathElement::Key(keys) => keys.iter().for_each(|(name, value)| {
                name.hash(state);
                hash(value, state);
            }),
            PathElement::Value(value) => hash(value, state),
            PathElement::Index(index) => index.hash(state),
        }
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    match value {
        Value::String(text) => text.hash(state),
        Value::Bool(value) => value.hash(state),
        // Zero is one number, whatever its sign.
        Value::Number(number) => (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(state),
        Value::Array(items) => items.iter().for_each(|item| hash(item, state)),
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            name.hash(state);
            hash(member, state);
        }),
        Value::Null => {}
    }
}
