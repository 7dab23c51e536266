//! The error for one object, which does not affect the objects around it.

use std::fmt;

/// One object cannot be read. Those around it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectError {
    /// The index of the object in its list, or of the event in its watch, if it has one.
    pub index: Option<usize>,
    /// The `namespace/name` of the object, or its name alone without a namespace, if it can be
    /// read.
    pub key: Option<String>,
    /// What is wrong.
    pub fault: ObjectFault,
}

/// What is wrong with an object. Offsets are in bytes from the beginning of the object.
///
/// `Display` includes the message of the decoder, which may quote the object. `Debug` leaves it
/// out.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectFault {
    /// The object has something unexpected.
    #[error("expected {expected} at byte {offset}")]
    Syntax {
        /// The offset in bytes.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {offset}")]
    Utf8 {
        /// The offset in bytes.
        offset: usize,
    },
    /// Objects and lists are nested deeper than the API server accepts.
    #[error("nested deeper than {} levels", crate::codec::json::DEPTH_MAX)]
    TooDeep,
    /// The object is larger than [`Limits`](crate::Limits) allow.
    #[error("larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A field has another type than in every Kubernetes object.
    #[error("{field} is not {expected}")]
    WrongType {
        /// The path of the field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A watch event has an unknown type, or lacks a type or an object.
    #[error("invalid watch event: expected a known type and an object, found {found}")]
    Event {
        /// What the event has instead.
        found: String,
    },
    /// The object does not fit the type into which it is decoded.
    #[error("{message}")]
    Decode {
        /// The message of the decoder, which may quote the object.
        message: String,
        /// The line in the object, from one. Zero if it is not known.
        line: usize,
        /// The column in that line.
        column: usize,
    },
}

impl fmt::Debug for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { message: _, line, column } => {
                f.debug_struct("Decode").field("line", line).field("column", column).finish_non_exhaustive()
            }
            // No other fault quotes the object.
            other => write!(f, "{:?}", other.to_string()),
        }
    }
}

impl ObjectFault {
    /// The same fault, `by` bytes further on.
    pub(crate) fn moved(self, by: usize) -> Self {
        match self {
            Self::Syntax { offset, expected } => Self::Syntax { offset: offset + by, expected },
            Self::Utf8 { offset } => Self::Utf8 { offset: offset + by },
            other => other,
        }
    }
}

impl ObjectError {
    /// The same error, with the index of the object in its list or of the event in its watch.
    #[must_use]
    pub(crate) fn at_index(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}

impl From<ObjectFault> for ObjectError {
    fn from(fault: ObjectFault) -> Self {
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
            write!(f, " (index {index})")?;
        }
        write!(f, " cannot be read: {}", self.fault)
    }
}

impl std::error::Error for ObjectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}
