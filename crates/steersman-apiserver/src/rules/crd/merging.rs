//! The parts of a schema that decide how values are compared and merged.

use serde_json::Value;

use super::schema::{Additional, List, Node, Schema};

/// What a schema permits beside its properties.
pub(crate) enum MoreFields<'a> {
    /// It does not specify that.
    Unspecified,
    Forbidden,
    Allowed,
    /// Values of this schema.
    Schema(&'a Node),
}

impl Schema {
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }
}

impl Node {
    /// The type, if there is just one.
    pub(crate) fn single_type(&self) -> Option<&str> {
        if let [one] = &self.types[..] { Some(one) } else { None }
    }

    /// Whether a text has a format, known or not, for which a value of any type is merged.
    pub(crate) fn is_untyped_text(&self) -> bool {
        self.untyped_text
    }

    pub(crate) fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        self.properties.get(name)
    }

    pub(crate) fn item(&self) -> Option<&Node> {
        self.items.as_deref()
    }

    pub(crate) fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    pub(crate) fn list_type(&self) -> &List {
        &self.list
    }

    /// Whether a map is replaced as a whole.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic_map
    }

    pub(crate) fn preserves_unknown(&self) -> bool {
        self.preserve_unknown
    }

    /// Whether it is an object with metadata of its own.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded_resource
    }

    pub(crate) fn additional_properties(&self) -> MoreFields<'_> {
        match &self.additional {
            Additional::Absent => MoreFields::Unspecified,
            Additional::Allowed(true) => MoreFields::Allowed,
            Additional::Allowed(false) => MoreFields::Forbidden,
            Additional::Schema(node) => MoreFields::Schema(node),
        }
    }
}
