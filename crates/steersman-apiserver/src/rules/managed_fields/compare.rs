//! Which fields differ between two values of a type.

use serde_json::{Map as Members, Value};

use super::element::{PathElement, same};
use super::items::Items;
use super::set::{FieldNode, FieldSet};
use super::types::{Choice, List, Map, Scalar, TypeRef};
use super::validate::check_scalar;
use crate::request::budget;

/// The fields that differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// The comparison without these fields and what is below them.
    pub(crate) fn without(self, excluded: &FieldSet) -> Self {
        if excluded.is_empty() || self.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.recursive_difference(excluded),
            modified: self.modified.recursive_difference(excluded),
            added: self.added.recursive_difference(excluded),
        }
    }

    /// The fields that have a new value.
    pub(crate) fn written(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

/// Compares two values. Fails if neither fits the type.
pub(crate) fn compare(ty: TypeRef<'_>, before: Option<&Value>, after: Option<&Value>) -> Result<Comparison, String> {
    let mut walk = Walk { errors: Vec::new() };
    let out = walk.value(ty, before, after);
    match walk.errors.is_empty() {
        true => Ok(Comparison { removed: out.removed.below, modified: out.modified.below, added: out.added.below }),
        false => Err(walk.errors.join("\n")),
    }
}

/// What became of one field: in each of the sets, whether it is a member and what is below it.
#[derive(Default)]
struct Outcome {
    removed: Part,
    modified: Part,
    added: Part,
}

#[derive(Default)]
struct Part {
    member: bool,
    below: FieldSet,
}

impl Part {
    fn push(&mut self, element: &PathElement, part: Part) {
        if part.member || !part.below.is_empty() {
            self.below.push(FieldNode { element: element.clone(), member: part.member, children: part.below });
        }
    }
}

impl Outcome {
    fn push(&mut self, element: &PathElement, of: Outcome) {
        self.removed.push(element, of.removed);
        self.modified.push(element, of.modified);
        self.added.push(element, of.added);
    }

    fn merge(&mut self, other: Self) {
        for (own, other) in
            [(&mut self.removed, other.removed), (&mut self.modified, other.modified), (&mut self.added, other.added)]
        {
            own.member |= other.member;
            own.below = own.below.union(&other.below);
        }
    }
}

struct Walk {
    errors: Vec<String>,
}

impl Walk {
    fn value(&mut self, ty: TypeRef<'_>, before: Option<&Value>, after: Option<&Value>) -> Outcome {
        let mut outcome = Outcome::default();
        if !budget::step(1) {
            return outcome;
        }
        let atom = ty.atom();
        let (of_before, of_after) = (atom.of(before), atom.of(after));
        let mut in_leaf = false;
        // A missing value takes the form of the other one.
        if after.is_none() {
            in_leaf |= self.choice(of_before.choice(), before, after, &mut outcome);
        } else {
            if before.is_some() && !of_before.is_like(&of_after) {
                let mut first = Outcome::default();
                self.choice(of_before.choice(), before, after, &mut first);
                outcome.merge(first);
            }
            let mut second = Outcome::default();
            in_leaf |= self.choice(of_after.choice(), before, after, &mut second);
            outcome.merge(second);
        }
        if !in_leaf {
            outcome.added.member |= before.is_none();
            outcome.removed.member |= before.is_some() && after.is_none();
        }
        outcome
    }

    /// Compares by one form. Returns whether the value is a leaf.
    fn choice(&mut self, choice: Choice<'_>, before: Option<&Value>, after: Option<&Value>, out: &mut Outcome) -> bool {
        match choice {
            Choice::Scalar(scalar) => self.scalar(scalar, before, after, out),
            Choice::List(list) => {
                let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                if list.is_atomic() || items(before) + items(after) == 0 {
                    leaf(before, after, out);
                    return true;
                }
                self.list(&list, before, after, out);
                false
            }
            Choice::Map(map) => {
                let members = |value: Option<&Value>| value.and_then(Value::as_object).map_or(0, Members::len);
                if map.atomic || members(before) + members(after) == 0 {
                    leaf(before, after, out);
                    return true;
                }
                self.map(&map, before, after, out);
                false
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, before: Option<&Value>, after: Option<&Value>, out: &mut Outcome) -> bool {
        let wrong = |value: Option<&Value>| value.and_then(|value| check_scalar(scalar, value));
        if let (Some(one), Some(other)) = (wrong(before), wrong(after)) {
            self.errors.extend([format!("lhs: {one}"), format!("rhs: {other}")]);
            return false;
        }
        leaf(before, after, out);
        true
    }

    fn map(&mut self, map: &Map<'_>, before: Option<&Value>, after: Option<&Value>, out: &mut Outcome) {
        let none = Members::new();
        let before = before.and_then(Value::as_object).unwrap_or(&none);
        let after = after.and_then(Value::as_object).unwrap_or(&none);
        let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let (name, one, other) = match (left.peek(), right.peek()) {
                (None, None) => return,
                (Some((name, _)), Some((other, _))) if name == other => {
                    let (name, one) = left.next().expect("it was peeked");
                    (name, Some(one), right.next().map(|(_, other)| other))
                }
                (Some((name, _)), Some((other, _))) if name > other => {
                    let (name, other) = right.next().expect("it was peeked");
                    (name, None, Some(other))
                }
                (Some(_), _) => {
                    let (name, one) = left.next().expect("it was peeked");
                    (name, Some(one), None)
                }
                (None, Some(_)) => {
                    let (name, other) = right.next().expect("it was peeked");
                    (name, None, Some(other))
                }
            };
            let ty = map.member(name).unwrap_or(TypeRef::Untyped);
            let outcome = self.value(ty, one, other);
            out.push(&PathElement::field(name), outcome);
        }
    }

    fn list(&mut self, list: &List<'_>, before: Option<&Value>, after: Option<&Value>, out: &mut Outcome) {
        let mut errors = Vec::new();
        let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let after = after.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let before = Items::new(list, before, |error| errors.push(error));
        let after = Items::new(list, after, |error| errors.push(error));
        self.errors.append(&mut errors);
        let elements = before.groups.iter().chain(&after.groups).map(|(element, _)| element);
        let mut elements: Vec<&PathElement> = elements.collect();
        elements.sort();
        elements.dedup();
        for element in elements {
            let (old, new) = (before.get(element), after.get(element));
            let outcome = match (old, new) {
                ([_, _, ..], [_, _, ..]) => {
                    let is_same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                    let mut outcome = Outcome::default();
                    outcome.modified.member = !is_same;
                    outcome
                }
                ([_, _, ..], _) => {
                    let mut outcome = Outcome::default();
                    if let Some(new) = new.first() {
                        outcome = self.value(list.item, None, Some(new));
                    }
                    outcome.removed.member = true;
                    outcome
                }
                (_, [_, _, ..]) => {
                    let mut outcome = Outcome::default();
                    if let Some(old) = old.first() {
                        outcome = self.value(list.item, Some(old), None);
                    }
                    outcome.added.member = true;
                    outcome
                }
                _ => self.value(list.item, old.first().copied(), new.first().copied()),
            };
            out.push(element, outcome);
        }
    }
}

/// Compares values as a whole.
fn leaf(before: Option<&Value>, after: Option<&Value>, out: &mut Outcome) {
    match (before, after) {
        (None, _) => out.added.member = true,
        (_, None) => out.removed.member = true,
        (Some(before), Some(after)) => out.modified.member = !same(before, after),
    }
}
