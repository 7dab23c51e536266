//! The fields that are removed from objects before they are stored.

use crate::FieldPath;

/// Paths of fields that are removed from an object.
///
/// The default removes `metadata.managedFields`, which is a third of many objects. Only the API
/// server reads it.
///
/// ```
/// use steersman_wire::{Json, Strip};
///
/// let strip = Strip::default().and(&"metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']".parse()?);
/// let object = br#"{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","a":"b"}}}"#;
/// assert_eq!(Json.scan(object, &strip, None)?.object, r#"{"metadata":{"annotations":{"a":"b"}}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip(Node);

/// The members of an object that are removed, or from which something is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node(Vec<(String, Cut)>);

/// What is removed at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The member itself.
    Whole,
    /// Fields within its value.
    Within(Node),
}

impl Strip {
    /// Removes nothing.
    pub fn nothing() -> Self {
        Self(Node::default())
    }

    /// Removes this field too.
    #[must_use]
    pub fn and(mut self, path: &FieldPath) -> Self {
        let names: Vec<&str> = path.names().collect();
        self.0.add(&names);
        self
    }

    pub(crate) fn root(&self) -> &Node {
        &self.0
    }
}

impl Default for Strip {
    fn default() -> Self {
        let mut strip = Self::nothing();
        strip.0.add(&["metadata", "managedFields"]);
        strip
    }
}

impl Node {
    pub(crate) fn at(&self, name: &[u8]) -> Option<&Cut> {
        self.0.iter().find(|(found, _)| found.as_bytes() == name).map(|(_, cut)| cut)
    }

    /// What is removed within the value of that member.
    pub(crate) fn within(&self, name: &str) -> Option<&Node> {
        match self.at(name.as_bytes())? {
            Cut::Within(node) => Some(node),
            Cut::Whole => None,
        }
    }

    fn add(&mut self, names: &[&str]) {
        let Some((first, rest)) = names.split_first() else { return };
        let place = self.0.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            self.0.push(((*first).to_owned(), Cut::Within(Node::default())));
            self.0.len() - 1
        });
        match &mut self.0[place].1 {
            cut if rest.is_empty() => *cut = Cut::Whole,
            Cut::Within(node) => node.add(rest),
            Cut::Whole => {}
        }
    }
}
