//! The options of a create, update or patch, which are query parameters.

use serde_json::{Value, json};

use crate::request::Query;
use crate::response::form::Form;
use crate::response::status::{FieldError, Named, Status};
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::rules::schema::FieldValidation;

/// The options of a create, update or patch.
#[derive(Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// The kind that the client writes, when it is stored as another.
    pub(crate) view: Option<&'static Kind>,
}

impl WriteOptions {
    /// Reads the parameters of a request, which are these options to the real server.
    pub(crate) fn read(query: &Query, options: &'static str) -> Result<Self, Status> {
        Ok(Self { dry_run: is_dry_run(query, options)?, validation: field_validation(query, options)?, view: None })
    }

    /// The same options of a client that sees objects in this form.
    pub(crate) fn seen_as(mut self, form: Form) -> Self {
        self.view = form.view();
        self
    }

    /// What the client wrote, as it is stored.
    pub(crate) fn stored(self, value: Value) -> Value {
        match self.view {
            Some(view) => convert::to_stored(view, value),
            None => value,
        }
    }
}

/// What a request says of fields that are unknown or come twice.
pub(crate) fn field_validation(query: &Query, options: &'static str) -> Result<FieldValidation, Status> {
    let text = query.get("fieldValidation").unwrap_or_default();
    FieldValidation::parse(text).ok_or_else(|| {
        let error = FieldError::not_supported("fieldValidation", text, &["", "Ignore", "Strict", "Warn"]);
        Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error])
    })
}

/// Whether a write is to be made or only answered.
pub(crate) fn is_dry_run(query: &Query, options: &'static str) -> Result<bool, Status> {
    let values: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let error = FieldError::not_supported("dryRun", json!(values), &["All"]);
        return Err(Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error]));
    }
    Ok(!values.is_empty())
}
