//! What label selectors and field selectors share.

mod field;
mod label;
mod label_json;
mod label_parser;

use std::fmt;

pub use self::field::{FieldRequirement, FieldSelector};
pub use self::label::{LabelRequirement, LabelSelector};

/// How a requirement of a selector relates a key to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SelectorOperator {
    /// The label is absent: `!key`.
    DoesNotExist,
    /// `key=value`.
    Equals,
    /// `key==value`, which means the same as [`SelectorOperator::Equals`].
    DoubleEquals,
    /// The label is present, with one of the values: `key in (a,b)`.
    In,
    /// `key!=value`. An absent label counts as different.
    NotEquals,
    /// The label is absent, or has none of the values: `key notin (a,b)`.
    NotIn,
    /// The label is present: `key`.
    Exists,
    /// The label is an integer above the value: `key>1`.
    GreaterThan,
    /// The label is an integer below the value: `key<1`.
    LessThan,
}

impl SelectorOperator {
    /// The operators with values, in the order of error messages.
    pub(crate) const BINARY: [SelectorOperator; 7] = [
        SelectorOperator::In,
        SelectorOperator::NotIn,
        SelectorOperator::Equals,
        SelectorOperator::DoubleEquals,
        SelectorOperator::NotEquals,
        SelectorOperator::GreaterThan,
        SelectorOperator::LessThan,
    ];

    /// The name of the operator in messages: `gt` for [`SelectorOperator::GreaterThan`], which a
    /// selector spells `>`.
    pub fn as_str(self) -> &'static str {
        match self {
            SelectorOperator::DoesNotExist => "!",
            SelectorOperator::Equals => "=",
            SelectorOperator::DoubleEquals => "==",
            SelectorOperator::In => "in",
            SelectorOperator::NotEquals => "!=",
            SelectorOperator::NotIn => "notin",
            SelectorOperator::Exists => "exists",
            SelectorOperator::GreaterThan => "gt",
            SelectorOperator::LessThan => "lt",
        }
    }
}

impl fmt::Display for SelectorOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a selector was refused. The text is apimachinery's, and can be the message of a Status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        SelectorError(message.into())
    }

    /// Combines at least one error, written as Go writes an aggregate.
    pub(crate) fn aggregate(mut messages: Vec<String>) -> Self {
        if messages.len() == 1 {
            return SelectorError(messages.remove(0));
        }
        SelectorError(format!("[{}]", messages.join(", ")))
    }
}
