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
    /// The kind that the client writes, if it is stored as another.
    pub(crate) view: Option<&'static Kind>,
}

impl WriteOptions {
    /// Parses the query parameters of these options.
    pub(crate) fn read(query: &Query, options: &'static str) -> Result<Self, Status> {
        Ok(Self { dry_run: is_dry_run(query, options)?, validation: field_validation(query, options)?, view: None })
    }

    /// The same options for a client that reads objects in this form.
    pub(crate) fn seen_as(mut self, form: Form) -> Self {
        self.view = form.view();
        self
    }

    /// The object of the client in its stored form.
    pub(crate) fn stored(self, value: Value) -> Value {
        match self.view {
            Some(view) => convert::to_stored(view, value),
            None => value,
        }
    }
}

/// How a request treats unknown or duplicate fields.
pub(crate) fn field_validation(query: &Query, options: &'static str) -> Result<FieldValidation, Status> {
    let text = query.get("fieldValidation").unwrap_or_default();
    FieldValidation::parse(text).ok_or_else(|| {
        let error = FieldError::not_supported("fieldValidation", text, &["", "Ignore", "Strict", "Warn"]);
        Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error])
    })
}

/// Whether a write is stored or a dry run.
pub(crate) fn is_dry_run(query: &Query, options: &'static str) -> Result<bool, Status> {
    let values: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let error = FieldError::not_supported("dryRun", json!(values), &["All"]);
        return Err(Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error]));
    }
    Ok(!values.is_empty())
}
