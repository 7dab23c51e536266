//! The set of fields that a value has, and the removal of fields from a value.

use serde_json::{Map as Members, Value};

use super::element::PathElement;
use super::items::{Items, element_of};
use super::set::{FieldNode, FieldSet};
use super::types::{Choice, TypeRef};
use crate::request::budget;

/// The fields that a value has. An item that comes twice in a list is one field without parts.
pub(crate) fn fields_of(ty: TypeRef<'_>, value: &Value) -> FieldSet {
    walk(ty, value).1
}

/// Whether the value itself is a field of the set, and what is below it.
fn walk(ty: TypeRef<'_>, value: &Value) -> (bool, FieldSet) {
    let mut set = FieldSet::default();
    if !budget::step(1) {
        return (false, set);
    }
    match ty.atom().of(Some(value)).choice() {
        Choice::Scalar(_) => (true, set),
        Choice::List(list) if list.is_atomic() => (true, set),
        Choice::Map(map) if map.atomic => (true, set),
        Choice::List(list) => {
            let Value::Array(items) = value else { return (false, set) };
            let mut groups = Items::new(&list, items, |_| {}).groups;
            groups.sort_by(|(one, _), (other, _)| one.cmp(other));
            for (element, values) in groups {
                let children = match &values[..] {
                    [one] => walk(list.item, one).1,
                    _ => FieldSet::default(),
                };
                set.push(FieldNode { element, member: true, children });
            }
            (false, set)
        }
        Choice::Map(map) => {
            let Value::Object(members) = value else { return (false, set) };
            for (name, member) in members {
                let (own, children) = walk(map.member(name).unwrap_or(TypeRef::Untyped), member);
                let is_empty = member.is_null() || member.as_object().is_some_and(Members::is_empty);
                let member = own || is_empty || map.field(name).is_none();
                set.push(FieldNode { element: PathElement::field(name), member, children });
            }
            (false, set)
        }
    }
}

/// The value without these fields. What is left of nothing is null.
pub(crate) fn without(ty: TypeRef<'_>, value: Value, removed: &FieldSet) -> Value {
    if removed.is_empty() || !budget::step(1) {
        return value;
    }
    match (ty.atom().of(Some(&value)).choice(), value) {
        (Choice::Scalar(_), value) => value,
        (Choice::List(list), Value::Array(items)) if !list.is_atomic() => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let node = element_of(&list, &item).ok().and_then(|element| removed.get(&element));
                match node {
                    Some(node) if node.member => {}
                    Some(node) => kept.push(without(list.item, item, &node.children)),
                    None => kept.push(item),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Choice::Map(map), Value::Object(members)) if !map.atomic => {
            let mut kept = Members::new();
            for (name, member) in members {
                match removed.get(&PathElement::field(&name)) {
                    Some(node) if node.member => {}
                    Some(node) => {
                        let ty = map.member(&name).unwrap_or(TypeRef::Untyped);
                        let member = without(ty, member, &node.children);
                        kept.insert(name, member);
                    }
                    None => drop(kept.insert(name, member)),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        // An atomic value that has parts to remove is removed.
        (Choice::List(_) | Choice::Map(_), _) => Value::Null,
    }
}
