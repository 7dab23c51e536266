//! One change, and all of them.

use std::fmt;

use serde_json::Value;

/// In which direction a part of a definition has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// It was not there.
    Added,
    /// It is not there any more.
    Removed,
    /// Fewer objects are valid.
    Narrowed,
    /// More objects are valid.
    Widened,
    /// It is another one.
    Changed,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Narrowed => "narrowed",
            Self::Widened => "widened",
            Self::Changed => "changed",
        })
    }
}

/// One change between two definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdChange {
    /// Where: `spec.scope`, or a version and the path of a field, such as `v1.spec.ports[].name`.
    pub path: String,
    /// What has changed there: a keyword of the schema, or a word such as `field`.
    pub what: String,
    /// In which direction.
    pub direction: Direction,
    /// The value before, if it is short and was set.
    pub old: Option<String>,
    /// The value now, if it is short and is set.
    pub new: Option<String>,
    /// Whether objects or clients may break.
    pub is_breaking: bool,
}

impl fmt::Display for CrdChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_breaking { "breaking" } else { "compatible" };
        write!(f, "{mark}: {}: {} {}", self.path, self.what, self.direction)?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, ": {old} → {new}"),
            (Some(value), None) | (None, Some(value)) => write!(f, ": {value}"),
            (None, None) => Ok(()),
        }
    }
}

/// The changes between two definitions, the breaking ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The changes.
    pub changes: Vec<CrdChange>,
}

impl Diff {
    /// The changes that may break objects or clients.
    pub fn breaking(&self) -> impl Iterator<Item = &CrdChange> {
        self.changes.iter().filter(|change| change.is_breaking)
    }

    /// Whether there is a breaking change.
    pub fn is_breaking(&self) -> bool {
        self.breaking().next().is_some()
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(f, "{change}"))
    }
}

/// Collects changes below one path.
pub(super) struct Changes<'a> {
    pub(super) path: String,
    pub(super) all: &'a mut Vec<CrdChange>,
}

impl Changes<'_> {
    pub(super) fn push(&mut self, what: &str, direction: Direction, is_breaking: bool, (old, new): (&Value, &Value)) {
        self.all.push(CrdChange {
            path: self.path.clone(),
            what: what.to_owned(),
            direction,
            old: short(old),
            new: short(new),
            is_breaking,
        });
    }

    /// The changes of a part of this one.
    pub(super) fn below(&mut self, part: &str) -> Changes<'_> {
        Changes { path: format!("{}{part}", self.path), all: self.all }
    }
}

/// A value for a message. Whole schemas are left out.
fn short(value: &Value) -> Option<String> {
    const LENGTH_MAX: usize = 120;
    let text = match value {
        Value::Null | Value::Object(_) => return None,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (text.len() <= LENGTH_MAX).then_some(text)
}
