//! Error responses: a `Status` with a code, a reason, a message and details, with the real server's
//! texts. Clients act on the reason and people on the message.

mod errors;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

pub(crate) use self::errors::Errors;
use crate::request::budget;

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    /// Whether it has empty details, as in responses that concern no resource.
    empty_details: bool,
    /// The token with which an expired list can continue.
    continue_at: Option<String>,
    pub(crate) retry_after: Option<u32>,
    /// The warnings for the client.
    pub(crate) warnings: Box<[String]>,
}

/// A group and a resource (or a kind), as messages name them: `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            empty_details: false,
            continue_at: None,
            retry_after: None,
            warnings: Box::default(),
        }
    }

    fn about(mut self, of: Named<'_>, name: &str) -> Self {
        for (field, value) in [("name", name), ("group", of.group), ("kind", of.resource)] {
            if !value.is_empty() {
                self.details.insert(field.to_owned(), value.into());
            }
        }
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self.retry_after = Some(seconds);
        self
    }

    fn causes(mut self, causes: Vec<Value>) -> Self {
        if !causes.is_empty() {
            self.details.insert("causes".to_owned(), causes.into());
        }
        self
    }

    pub(crate) fn not_found(of: Named<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{of} {} not found", quote(name))).about(of, name)
    }

    /// No such path, or no such resource.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
    }

    fn with_empty_details(mut self) -> Self {
        self.empty_details = true;
        self
    }

    /// An unintended error of the real server: it has no reason.
    pub(crate) fn unexpected(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Adds a token to continue from.
    pub(crate) fn continued_at(mut self, token: String) -> Self {
        self.continue_at = Some(token);
        self
    }

    pub(crate) fn already_exists(of: Named<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{of} {} already exists", quote(name))).about(of, name)
    }

    pub(crate) fn conflict(of: Named<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {of} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).about(of, name)
    }

    /// Another client has written the object since it was read.
    pub(crate) fn modified(of: Named<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(of, name, why)
    }

    pub(crate) fn forbidden(of: Named<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{of} is forbidden: {why}")
        } else {
            format!("{of} {} is forbidden: {why}", quote(name))
        };
        Self::new(403, "Forbidden", message).about(of, name)
    }

    /// The same, with the reason: the object of that name is being deleted.
    pub(crate) fn being_deleted(mut self) -> Self {
        self.message = format!("object is being deleted: {}", self.message);
        self
    }

    /// Forbidden, for no resource.
    pub(crate) fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).with_empty_details()
    }

    /// Nothing new is created in a namespace that is being deleted.
    pub(crate) fn namespace_terminating(of: Named<'_>, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        Self::forbidden(of, name, &why).causes(vec![cause])
    }

    /// An apply would take fields from other managers.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Value>) -> Self {
        Self::new(409, "Conflict", message).causes(causes)
    }

    /// The request is valid but cannot be applied to this object.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with_empty_details()
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn invalid(kind: Named<'_>, name: &str, errors: &[FieldError]) -> Self {
        // Duplicate messages are listed once.
        let mut seen = HashSet::new();
        let texts = errors.iter().map(FieldError::to_string).filter(|text| seen.insert(text.clone()));
        let texts: Vec<String> = texts.collect();
        let why = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes = errors
            .iter()
            .map(|error| json!({"reason": error.kind.reason(), "message": error.body(), "field": error.field}));
        Self::new(422, "Invalid", format!("{kind} {} is invalid: {why}", quote(name)))
            .about(kind, name)
            .causes(causes.collect())
    }

    pub(crate) fn method_not_allowed(of: Named<'_>, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind \"{of}\"");
        Self::new(405, "MethodNotAllowed", message).about(of, "")
    }

    /// No custom resources are created while their definition is being deleted.
    pub(crate) fn definition_terminating(of: Named<'_>, name: &str) -> Self {
        Self::forbidden(of, name, "create not allowed while custom resource definition is terminating")
    }

    /// The server does not support this method at this path.
    pub(crate) fn no_such_method() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_empty_details()
    }

    /// The requested form of an object is not supported.
    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    /// The requested form does not fit the result.
    pub(crate) fn not_acceptable_shape(message: String) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The same refusal, with these warnings before the present ones.
    pub(crate) fn with_warnings(mut self, mut warnings: Vec<String>) -> Self {
        warnings.extend(self.warnings);
        self.warnings = warnings.into();
        self
    }

    /// An internal error of the server.
    pub(crate) fn internal(what: &str) -> Self {
        let status = Self::new(500, "InternalError", format!("Internal error occurred: {what}"));
        status.causes(vec![json!({"message": what})])
    }

    /// A panic in the server. Its message is not for the client: it may quote an object.
    pub(crate) fn panicked() -> Self {
        Self::internal("This request caused apiserver to panic. Look in the logs for details.")
    }

    /// The server has too many requests.
    pub(crate) fn overloaded() -> Self {
        Self::new(429, "TooManyRequests", "Too many requests, please try again later.").retry_after(1)
    }

    /// The requested media type is not supported.
    pub(crate) fn not_available(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::new(406, "NotAcceptable", message).with_empty_details()
    }

    /// The type of the patch is not supported.
    pub(crate) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_empty_details()
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The request took too long, with the message of the real server's own limit.
    pub(crate) fn timeout(why: impl std::fmt::Display) -> Self {
        Self::new(504, "Timeout", format!("Timeout: request did not complete within the allotted timeout: {why}"))
    }

    /// The requested revision is in the future.
    pub(crate) fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::new(504, "Timeout", message).retry_after(1).causes(vec![cause])
    }

    /// The client may retry later.
    pub(crate) fn too_many_requests(message: &str, retry_after: u32, cause: Value) -> Self {
        let status = Self::new(429, "TooManyRequests", message);
        let status = if retry_after > 0 { status.retry_after(retry_after) } else { status };
        status.causes(vec![cause])
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The JSON object of the response.
    pub(crate) fn object(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.details.is_empty() || self.empty_details {
            status["details"] = Value::Object(self.details.clone());
        }
        if self.reason.is_empty() {
            status.as_object_mut().map(|status| status.remove("reason"));
        }
        if let Some(token) = &self.continue_at {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status
    }
}

/// An error of one field of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    field: String,
    kind: FieldErrorKind,
    value: Value,
    /// The printed value, if its members have an order that JSON does not keep.
    literal: Option<String>,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldErrorKind {
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl FieldErrorKind {
    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

impl FieldError {
    fn new(field: impl Into<String>, kind: FieldErrorKind, value: Value, detail: impl Into<String>) -> Self {
        let error = Self { field: field.into(), kind, value, literal: None, detail: detail.into() };
        budget::text(error.field.len() + error.detail.len());
        error
    }

    /// Stands for all further errors.
    fn rest_is_not_shown(errors: usize) -> Self {
        let error = Self::new("<nil>", FieldErrorKind::TooMany, Value::Null, "the rest is not shown");
        Self { literal: Some(format!("more than {errors} errors")), ..error }
    }

    /// Its approximate memory.
    fn size(&self) -> usize {
        self.field.len() + self.detail.len() + self.literal.as_ref().map_or(0, String::len) + budget::deep(&self.value)
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Required, Value::Null, detail)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Invalid, value.into(), detail)
    }

    /// An invalid value that is printed as `literal`.
    pub(crate) fn invalid_literal(field: impl Into<String>, literal: String, detail: impl Into<String>) -> Self {
        let error = Self::new(field, FieldErrorKind::Invalid, Value::Null, detail);
        Self { literal: Some(literal), ..error }
    }

    pub(crate) fn type_invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::TypeInvalid, value.into(), detail)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::Duplicate, value.into(), "")
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Forbidden, Value::Null, detail)
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        Self::new(field, FieldErrorKind::NotSupported, value.into(), detail)
    }

    pub(crate) fn too_long(field: impl Into<String>, max_bytes: usize) -> Self {
        let bytes = if max_bytes == 1 { "byte" } else { "bytes" };
        Self::new(field, FieldErrorKind::TooLong, Value::Null, format!("may not be more than {max_bytes} {bytes}"))
    }

    pub(crate) fn too_many(field: impl Into<String>, count: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self::new(field, FieldErrorKind::TooMany, count.into(), format!("must have at most {max} {items}"))
    }

    /// The error without its field.
    fn body(&self) -> String {
        let words = self.kind.words();
        let mut body = match (self.kind, &self.value) {
            _ if self.literal.is_some() => format!("{words}: {}", self.literal.as_deref().unwrap_or_default()),
            (FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong, _) => words.to_owned(),
            (_, Value::Null) => format!("{words}: null"),
            (_, Value::String(text)) => format!("{words}: {}", quote(text)),
            (_, other) => format!("{words}: {other}"),
        };
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A string as Go's `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    steersman_wire::quote(text)
}
