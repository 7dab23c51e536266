//! What is wrong with one object, which is never its neighbours' fault.

use std::fmt;

/// One object could not be read. Those around it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectError {
    /// Which object of a list or event of a watch it is, counted from zero, where that is known.
    pub index: Option<usize>,
    /// The object's `namespace/name`, or its name when it is in no namespace, where they could be read all the same.
    pub key: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with an object. Offsets are in bytes from the object's beginning.
///
/// `Display` has the decoder's words, which may quote the object. `Debug` leaves them out.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Something else should stand there.
    #[error("expected {expected} at byte {offset}")]
    Syntax {
        /// Where.
        offset: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {offset}")]
    Utf8 {
        /// Where.
        offset: usize,
    },
    /// Objects and lists are nested deeper than the API server itself would read.
    #[error("nested deeper than {} levels", crate::codec::json::DEPTH_MAX)]
    TooDeep,
    /// The object is larger than the reader allows; [`Limits`](crate::Limits) sets how large one may be.
    #[error("larger than the limit of {limit} bytes")]
    TooLarge {
        /// How large it may be.
        limit: usize,
    },
    /// A field is of another type than every Kubernetes object has there.
    #[error("{field} is not {expected}")]
    WrongType {
        /// The field's path.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A watch event has a type that is not known, or lacks a type or an object.
    #[error("a watch event without a known type and an object, but {found}")]
    Event {
        /// What was there instead.
        found: String,
    },
    /// The object does not fit the type that it was to be decoded into.
    #[error("{message}")]
    Decode {
        /// The decoder's words, which may quote the object.
        message: String,
        /// In which line of the object, counted from one; zero if that is not known.
        line: usize,
        /// Where in that line.
        column: usize,
    },
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { message: _, line, column } => {
                f.debug_struct("Decode").field("line", line).field("column", column).finish_non_exhaustive()
            }
            // No other fault has a part of the object in its text.
            other => write!(f, "{:?}", other.to_string()),
        }
    }
}

impl Fault {
    /// The same at a place that many bytes further on.
    pub(crate) fn moved(self, by: usize) -> Self {
        match self {
            Self::Syntax { offset, expected } => Self::Syntax { offset: offset + by, expected },
            Self::Utf8 { offset } => Self::Utf8 { offset: offset + by },
            other => other,
        }
    }
}

impl ObjectError {
    /// The same error, saying which object of its list or event of its watch it is about.
    #[must_use]
    pub fn at_index(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}

impl From<Fault> for ObjectError {
    fn from(fault: Fault) -> Self {
        Self { index: None, key: None, fault }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("object")?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        if let Some(index) = self.index {
            write!(f, " (number {index}, counted from 0)")?;
        }
        write!(f, " cannot be read: {}", self.fault)
    }
}

impl std::error::Error for ObjectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}
