//! Error responses, with Neutron's messages.

use serde_json::{Value, json};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) type_: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, type_: &'static str, message: impl Into<String>) -> Self {
        Self { status, type_, message: message.into() }
    }

    /// The form of the request is wrong.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "HTTPBadRequest", message)
    }

    /// A value of the request is wrong.
    pub(super) fn invalid_input(reason: impl std::fmt::Display) -> Self {
        Self::new(400, "InvalidInput", format!("Invalid input for operation: {reason}."))
    }

    /// No such path.
    pub(super) fn no_such_path() -> Self {
        Self::new(404, "HTTPNotFound", "The resource could not be found.")
    }

    pub(super) fn body(&self) -> Value {
        json!({"NeutronError": {"type": self.type_, "message": self.message, "detail": ""}})
    }
}
