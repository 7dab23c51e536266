//! The body of a create or an update, in JSON or YAML.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::request::RequestContext;
use crate::request::budget;
use crate::request::negotiation::MEDIA_TYPES;
use crate::request::patch_request::{PatchRequest, Patched};
use crate::request::yaml;
use crate::response::status::Status;
use crate::rules::kinds::{self, Kind};
use crate::rules::metadata;
use crate::rules::schema::{DecodeError, Decoded, FieldValidation, RequestBody, summary, with_earlier};
use crate::server::Shared;

impl Shared {
    /// Reads the body of a create or an update.
    pub(crate) fn decode(
        &self,
        kind: &Kind,
        request: &RequestContext<'_>,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let document = read_document(kind, request.headers, request.body)?;
        if kind.is_built_in() {
            return decode(kind, request.body, document, validation);
        }
        self.decode_custom(kind, request.body, document, validation)
    }

    /// Decodes the result of a patch.
    pub(crate) fn decode_patched(
        &self,
        kind: &Kind,
        patch: &PatchRequest,
        patched: Patched,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        match kind.fields {
            Some(fields) => patch.decode(kind, fields, patched, validation),
            None => self.decode_patched_custom(kind, patch, patched.value, validation),
        }
    }
}

pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let Some(value) = headers.get(CONTENT_TYPE) else { return "" };
    // A header that is no media type is printed completely: no type matches it.
    let Ok(value) = value.to_str() else { return "?" };
    let mut parts = value.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let right = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            let value = value.trim();
            let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
            quoted || !(value.is_empty() || value.contains('"'))
        }
        _ => parameter.is_empty(),
    };
    if (name.is_empty() && !value.is_empty()) || !parts.all(right) { value } else { name }
}

pub(crate) fn unknown_format(accepted: &str) -> String {
    format!("the body of the request was in an unknown format - accepted media types include: {accepted}")
}

/// Parses the YAML of a body, unless it is JSON.
fn read_document(kind: &Kind, headers: &HeaderMap, body: &Bytes) -> Result<Option<yaml::Document>, Status> {
    match media_type(headers) {
        "" | "application/json" | "*/*" => Ok(None),
        "application/yaml" => read_yaml(kind, body).map(Some),
        _ => Err(Status::unsupported_media_type(unknown_format(MEDIA_TYPES))),
    }
}

/// Reads the body of a create or an update of a built-in kind.
fn decode(
    kind: &Kind,
    body: &Bytes,
    document: Option<yaml::Document>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let refuse = |error: &DecodeError, of: &str, version: &str| {
        Status::bad_request(error.message(&kind.kind, of, version, body))
    };
    let json = document.as_ref().map(|document| Bytes::from(document.value.to_string()));
    let parsed = RequestBody::parse(json.as_ref().unwrap_or(body));
    let parsed = parsed.map_err(|error| refuse(&error, &kind.kind, &kind.version))?;
    let expected = kind.api_version();
    // Bodies of built-in kinds may omit the group, version and kind of the path.
    let given_kind = if parsed.kind.is_empty() { kind.kind.clone() } else { parsed.kind.clone() };
    let given_version = if parsed.api_version.is_empty() { expected.clone() } else { parsed.api_version.clone() };
    if given_kind != kind.kind || given_version != expected {
        return Err(wrong_kind(kind, &given_kind, &given_version));
    }
    let decoded = match kind.fields {
        Some(fields) => parsed.decode(fields, validation),
        None => parsed.into_value(validation),
    };
    let decoded = match document {
        Some(document) => with_duplicates(decoded, document.duplicates, validation),
        None => decoded,
    };
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let mut decoded = decoded.map_err(|error| refuse(&error, &given_kind, version))?;
    metadata::of(&mut decoded.value);
    Ok(decoded)
}

/// Reads a body of YAML.
fn read_yaml(kind: &Kind, body: &Bytes) -> Result<yaml::Document, Status> {
    let read = yaml::read(body);
    budget::check()?;
    read.map_err(|what| {
        let summary = summary(body);
        let kind = &kind.kind;
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {what} ({summary})"))
    })
}

/// Reports duplicate keys in a YAML body before any other error.
pub(crate) fn with_duplicates(
    decoded: Result<Decoded, DecodeError>,
    duplicates: Vec<String>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    if duplicates.is_empty() || validation != FieldValidation::Strict {
        return with_earlier(decoded, duplicates, validation);
    }
    let together = format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "));
    with_earlier(decoded, vec![together], validation)
}

/// The error for a body of another kind than that of the path.
fn wrong_kind(kind: &Kind, given_kind: &str, given_version: &str) -> Status {
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let why = why_wrong_kind(kind, given_kind, given_version);
    Status::bad_request(format!("{given_kind} in version \"{version}\" cannot be handled as a {}: {why}", kind.kind))
}

/// Why an object of that kind does not match the kind of the path.
pub(crate) fn why_wrong_kind(kind: &Kind, given_kind: &str, given_version: &str) -> String {
    let (group, version) = given_version.rsplit_once('/').unwrap_or(("", given_version));
    let known = kinds::builtin().kind(group, version, given_kind).is_some()
        || given_kind.strip_suffix("List").is_some_and(|item| kinds::builtin().kind(group, version, item).is_some());
    if !known {
        return unregistered(given_kind, given_version);
    }
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    format!("converting ({version}.{given_kind}) to ({package}.{}): unknown conversion", kind.kind)
}

/// The real server's message for a kind that it does not know there, including the line of its
/// source.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\"")
}
