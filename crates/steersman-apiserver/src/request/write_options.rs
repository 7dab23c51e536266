//! The options of a create, update or patch, which are query parameters.

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Value, json};

use crate::request::Query;
use crate::response::form::Form;
use crate::response::status::{FieldError, Named, Status};
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::rules::schema::FieldValidation;

/// The query parameter that names the manager of the fields that a request writes.
const MANAGER: &str = "fieldManager";
/// The limit for the bytes of that name.
const MANAGER_MAX: usize = 128;

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
        let errors = check_manager("fieldManager", query.get(MANAGER).unwrap_or_default());
        Self::read_after(errors, query, options)
    }

    /// The same for an apply, which has to name its manager.
    pub(crate) fn read_apply(query: &Query) -> Result<Self, Status> {
        let manager = query.get(MANAGER).unwrap_or_default();
        let required = || FieldError::required("fieldManager", "is required for apply patch");
        let mut errors: Vec<FieldError> = manager.is_empty().then(required).into_iter().collect();
        errors.extend(check_manager("fieldManager", manager));
        Self::read_after(errors, query, "PatchOptions")
    }

    fn read_after(mut errors: Vec<FieldError>, query: &Query, options: &'static str) -> Result<Self, Status> {
        let dry_run = dry_run(query).unwrap_or_else(|error| {
            errors.push(error);
            false
        });
        let validation = validation(query).unwrap_or_else(|error| {
            errors.push(error);
            FieldValidation::default()
        });
        match errors.is_empty() {
            true => Ok(Self { dry_run, validation, view: None }),
            false => Err(Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &errors)),
        }
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
    validation(query).map_err(|error| Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error]))
}

fn validation(query: &Query) -> Result<FieldValidation, FieldError> {
    let text = query.get("fieldValidation").unwrap_or_default();
    let error = || FieldError::not_supported("fieldValidation", text, &["", "Ignore", "Strict", "Warn"]);
    FieldValidation::parse(text).ok_or_else(error)
}

/// Whether a write is stored or a dry run.
pub(crate) fn is_dry_run(query: &Query, options: &'static str) -> Result<bool, Status> {
    dry_run(query).map_err(|error| Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error]))
}

fn dry_run(query: &Query) -> Result<bool, FieldError> {
    let values: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        return Err(FieldError::not_supported("dryRun", json!(values), &["All"]));
    }
    Ok(!values.is_empty())
}

/// The name of the manager that a request writes as: the query parameter, else the beginning of the
/// user agent.
pub(crate) fn manager(query: &Query, headers: &HeaderMap) -> String {
    if let Some(given) = query.get(MANAGER).filter(|given| !given.is_empty()) {
        return given.to_owned();
    }
    let agent = headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut name = String::new();
    for character in agent.iter().flat_map(|agent| agent.chars()).take_while(|character| *character != '/') {
        if !is_printable(character) {
            continue;
        }
        if name.len() + character.len_utf8() > MANAGER_MAX {
            break;
        }
        name.push(character);
    }
    name
}

/// The errors in the name of a manager.
pub(crate) fn check_manager(field: &str, name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.len() > MANAGER_MAX {
        errors.push(FieldError::too_long(field, MANAGER_MAX));
    }
    let unprintable = name.char_indices().filter(|(_, character)| !is_printable(*character));
    errors.extend(unprintable.take(MANAGER_MAX).map(|(at, character)| {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        FieldError::invalid(field, name, detail)
    }));
    errors
}

/// Whether a character is printable as Go defines it.
fn is_printable(character: char) -> bool {
    let escapes = || steersman_wire::quote(&character.to_string()).contains('\\');
    if character.is_ascii() { matches!(character, ' '..='~') } else { !escapes() }
}
