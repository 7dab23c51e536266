//! A set of paths to fields, and the operations on such sets.

use std::cmp::Ordering;

use super::element::PathElement;
use super::types::TypeRef;
use crate::request::budget;

/// A set of paths. Nodes are sorted by their element, and each node is a member or has members
/// below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) nodes: Vec<FieldNode>,
}

/// The paths of a set with one first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldNode {
    pub(super) element: PathElement,
    /// Whether the path that ends here is in the set.
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl FieldNode {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// A copy, whose nodes are charged.
    fn copy(&self) -> Self {
        budget::step(1 + self.children.size());
        self.clone()
    }
}

impl FieldSet {
    /// The set of these paths, whose steps are names of fields.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert_fields(path);
        }
        set
    }

    /// Adds a path whose steps are names of fields.
    pub(crate) fn insert_fields(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node(PathElement::field(first));
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert_fields(rest);
        }
    }

    /// The node of an element, which is added if there is none.
    pub(super) fn node(&mut self, element: PathElement) -> &mut FieldNode {
        let place = match self.nodes.last() {
            Some(last) if last.element < element => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|node| node.element.cmp(&element)),
        };
        let place = place.unwrap_or_else(|place| {
            self.nodes.insert(place, FieldNode { element, member: false, children: Self::default() });
            place
        });
        &mut self.nodes[place]
    }

    /// Adds a node behind all others.
    pub(super) fn push(&mut self, node: FieldNode) {
        debug_assert!(self.nodes.last().is_none_or(|last| last.element < node.element));
        if !node.is_empty() {
            self.nodes.push(node);
        }
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&FieldNode> {
        let place = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[place])
    }

    /// Whether a path of field names is in the set.
    pub(crate) fn has_fields(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let node = self.get(&PathElement::field(first));
        node.is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has_fields(rest) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of nodes.
    pub(crate) fn size(&self) -> usize {
        self.nodes.iter().map(|node| 1 + node.children.size()).sum()
    }

    /// Merges two sets node by node. `both` decides what becomes of nodes in both of them.
    fn zip(&self, other: &Self, keep: (bool, bool), both: &impl Fn(&FieldNode, &FieldNode) -> FieldNode) -> Self {
        let mut out = Self { nodes: Vec::with_capacity(self.nodes.len()) };
        budget::step(self.nodes.len() + other.nodes.len());
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return out,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => one.element.cmp(&other.element),
            };
            let one = if order == Ordering::Greater { None } else { left.next() };
            let other = if order == Ordering::Less { None } else { right.next() };
            match (one, other) {
                (Some(one), Some(other)) => out.push(both(one, other)),
                (Some(one), None) if keep.0 => out.nodes.push(one.copy()),
                (None, Some(other)) if keep.1 => out.nodes.push(other.copy()),
                _ => {}
            }
        }
    }

    /// The paths of either set.
    pub(crate) fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            budget::step(other.size());
            return other.clone();
        }
        self.zip(other, (true, true), &|one, other| FieldNode {
            element: one.element.clone(),
            member: one.member || other.member,
            children: one.children.union(&other.children),
        })
    }

    /// The paths of both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.zip(other, (false, false), &|one, other| FieldNode {
            element: one.element.clone(),
            member: one.member && other.member,
            children: one.children.intersection(&other.children),
        })
    }

    /// The paths of this set that are not in the other one.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.zip(other, (true, false), &|one, other| FieldNode {
            element: one.element.clone(),
            member: one.member && !other.member,
            children: one.children.difference(&other.children),
        })
    }

    /// The paths of this set that neither are in the other one, nor begin with one of its paths.
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, (true, false), &|one, other| FieldNode {
            element: one.element.clone(),
            member: one.member && !other.member,
            children: if other.member { Self::default() } else { one.children.recursive_difference(&other.children) },
        })
    }

    /// The same set, with each named field of a struct that has paths below it.
    pub(crate) fn with_named_fields(&self, ty: Option<TypeRef<'_>>) -> Self {
        budget::step(self.nodes.len());
        let atom = ty.map(TypeRef::atom).unwrap_or_default();
        let nodes = self.nodes.iter().map(|node| {
            let (named, below) = match (&node.element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => (map.field(name).is_some(), map.member(name)),
                (PathElement::Key(_), _, Some(list)) => (false, Some(list.item)),
                _ => (false, None),
            };
            FieldNode {
                element: node.element.clone(),
                member: node.member || (named && !node.children.is_empty()),
                children: node.children.with_named_fields(below),
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// The paths as messages print them: at each level the members come first.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let path = format!("{prefix}{}", node.element);
            budget::make(path.len());
            paths.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            if !budget::step(1) {
                return;
            }
            node.children.collect(&format!("{prefix}{}", node.element), paths);
        }
    }
}
