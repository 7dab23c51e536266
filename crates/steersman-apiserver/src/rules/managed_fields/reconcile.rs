//! The adaptation of a set of fields to a schema that changed after it was written.

use super::element::PathElement;
use super::set::{FieldNode, FieldSet};
use super::types::{Choice, TypeRef};
use crate::request::budget;

/// The set with each path below an atomic value replaced by the path to that value. `None` if there
/// is no such path.
pub(crate) fn reconciled(ty: TypeRef<'_>, set: &FieldSet) -> Option<FieldSet> {
    let mut changed = false;
    let set = walk(ty, set, &mut changed);
    changed.then_some(set)
}

fn walk(ty: TypeRef<'_>, set: &FieldSet, changed: &mut bool) -> FieldSet {
    let mut out = FieldSet::default();
    for node in &set.nodes {
        if !budget::step(1) {
            break;
        }
        let below = match (ty.atom().choice(), &node.element) {
            (Choice::Map(map), PathElement::Field(name)) => map.member(name),
            (Choice::List(list), _) => Some(list.item),
            _ => None,
        };
        let is_atomic = |ty: TypeRef<'_>| match ty.atom().choice() {
            Choice::Map(map) => map.atomic && !map.is_deduced(),
            Choice::List(list) => list.is_atomic(),
            Choice::Scalar(_) => false,
        };
        let node = match below {
            Some(ty) if is_atomic(ty) && !node.children.is_empty() => {
                *changed = true;
                FieldNode { element: node.element.clone(), member: true, children: FieldSet::default() }
            }
            Some(ty) => FieldNode { children: walk(ty, &node.children, changed), ..node.clone() },
            None => node.clone(),
        };
        out.push(node);
    }
    out
}
