//! The values of a document while it is parsed. A value with an anchor is one node, however many
//! aliases it has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One node, by its place among [`Nodes`].
#[derive(Clone, Copy)]
pub(super) struct NodeId(usize);

pub(super) enum Node {
    Scalar(Value),
    List(Vec<NodeId>),
    Map(BTreeMap<String, NodeId>),
}

/// The size of a node with all aliases expanded.
#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    /// Scalars, lists, maps and the keys of maps.
    pub(super) values: u64,
    /// The approximate bytes of the value as JSON.
    pub(super) bytes: u64,
    /// The depth of nested lists and maps.
    pub(super) depth: usize,
}

impl Size {
    fn of(text: usize) -> Self {
        Self { values: 1, bytes: text as u64 + 2, depth: 0 }
    }

    /// Including its contents.
    fn with(self, key: Option<&str>, inside: Self) -> Self {
        let (keys, key) = key.map_or((0, 0), |key| (1, key.len() as u64 + 3));
        Self {
            values: self.values.saturating_add(keys).saturating_add(inside.values),
            bytes: self.bytes.saturating_add(key).saturating_add(inside.bytes),
            depth: self.depth.max(inside.depth + 1),
        }
    }
}

#[derive(Default)]
pub(super) struct Nodes(Vec<(Node, Size)>);

impl Nodes {
    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.0[id.0].0
    }

    pub(super) fn size(&self, id: NodeId) -> Size {
        self.0[id.0].1
    }

    fn push(&mut self, node: Node, size: Size) -> NodeId {
        self.0.push((node, size));
        NodeId(self.0.len() - 1)
    }

    pub(super) fn scalar(&mut self, value: Value) -> NodeId {
        let size = Size::of(value.as_str().map_or(4, str::len));
        self.push(Node::Scalar(value), size)
    }

    pub(super) fn list(&mut self, items: Vec<NodeId>) -> NodeId {
        let empty = Size { depth: 1, ..Size::of(0) };
        let size = items.iter().fold(empty, |size, item| size.with(None, self.size(*item)));
        self.push(Node::List(items), size)
    }

    pub(super) fn map(&mut self, members: BTreeMap<String, NodeId>) -> NodeId {
        let empty = Size { depth: 1, ..Size::of(0) };
        let size = members.iter().fold(empty, |size, (name, member)| size.with(Some(name), self.size(*member)));
        self.push(Node::Map(members), size)
    }

    /// Merges the members of a map, or of several.
    pub(super) fn merge(&self, members: &mut BTreeMap<String, NodeId>, from: NodeId) -> Result<(), String> {
        let mut extend = |from: NodeId| match self.get(from) {
            Node::Map(others) => {
                members.extend(others.iter().map(|(name, member)| (name.clone(), *member)));
                Ok(())
            }
            _ => Err("yaml: map merge requires map or sequence of maps as the value".to_owned()),
        };
        match self.get(from) {
            // The first one takes precedence.
            Node::List(items) => items.iter().rev().try_for_each(|item| extend(*item)),
            _ => extend(from),
        }
    }

    /// The value of a node. Each alias in it is a copy here.
    pub(super) fn value(&self, id: NodeId) -> Value {
        match self.get(id) {
            Node::Scalar(value) => value.clone(),
            Node::List(items) => items.iter().map(|item| self.value(*item)).collect(),
            Node::Map(members) => {
                let members = members.iter().map(|(name, member)| (name.clone(), self.value(*member)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}
