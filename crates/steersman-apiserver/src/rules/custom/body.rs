//! Decoding of custom resources: metadata as for every object, the rest by the schema.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::Value;

use crate::request::body::with_duplicates;
use crate::request::patch_request::{self, PatchRequest};
use crate::request::yaml;
use crate::response::status::{Errors, Status};
use crate::rules::kinds::Kind;
use crate::rules::metadata;
use crate::rules::schema::{self, DecodeError, Decoded, FieldValidation, RequestBody, decode_metadata, with_earlier};
use crate::server::Shared;

/// Finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

impl Shared {
    /// Decodes the body of a create or an update.
    pub(crate) fn decode_custom(
        &self,
        kind: &Kind,
        body: &Bytes,
        document: Option<yaml::Document>,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let unreadable =
            |error: &DecodeError| Status::bad_request(error.message(&kind.kind, &kind.kind, &kind.version, body));
        let json = document.as_ref().map(|document| Bytes::from(document.value.to_string()));
        let parsed = RequestBody::parse(json.as_ref().unwrap_or(body)).map_err(|error| unreadable(&error))?;
        if parsed.kind.is_empty() {
            let text = String::from_utf8_lossy(body);
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({})",
                kind.kind,
                schema::summary(body),
            )));
        }
        let (given_kind, given_version) = (parsed.kind.clone(), parsed.api_version.clone());
        let version = given_version.rsplit('/').next().unwrap_or_default();
        let refuse = |error: &DecodeError| Status::bad_request(error.message(&kind.kind, &given_kind, version, body));
        // Duplicate fields are reported together with unknown ones.
        let lenient = if validation == FieldValidation::Strict { FieldValidation::Warn } else { validation };
        let mut decoded = parsed.into_value(lenient).map_err(|error| refuse(&error))?;
        let unknown = self.coerce_custom(kind, &mut decoded.value, validation).map_err(|error| refuse(&error))?;
        decoded.warnings.extend(unknown);
        let is_refused = validation == FieldValidation::Strict && !decoded.warnings.is_empty();
        let decoded = if is_refused { Err(DecodeError::Strict(decoded.warnings)) } else { Ok(decoded) };
        let duplicates = document.map_or_else(Vec::new, |document| document.duplicates);
        let mut decoded = with_duplicates(decoded, duplicates, validation).map_err(|error| refuse(&error))?;
        let expected = kind.api_version();
        if given_version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({expected})"
            )));
        }
        metadata::of(&mut decoded.value);
        Ok(decoded)
    }

    /// Decodes the result of a patch.
    pub(crate) fn decode_patched_custom(
        &self,
        kind: &Kind,
        patch: &PatchRequest,
        mut value: Value,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let refuse = |error: &DecodeError| patch_request::refuse(error.to_string());
        let warnings = self.coerce_custom(kind, &mut value, validation).map_err(|error| refuse(&error))?;
        let is_refused = validation == FieldValidation::Strict && !warnings.is_empty();
        let decoded = if is_refused { Err(DecodeError::Strict(warnings)) } else { Ok(Decoded { value, warnings }) };
        with_earlier(decoded, patch.strict_errors(), validation).map_err(|error| refuse(&error))
    }

    /// Prunes unknown fields and sets defaults. Returns the unknown fields, unless field validation
    /// ignores them.
    pub(crate) fn coerce_custom(
        &self,
        kind: &Kind,
        value: &mut Value,
        validation: FieldValidation,
    ) -> Result<Vec<String>, DecodeError> {
        let mut unknown = Vec::new();
        if let Some(metadata) = value.get_mut("metadata").filter(|metadata| !metadata.is_null()) {
            let lenient = if validation == FieldValidation::Strict { FieldValidation::Warn } else { validation };
            let decoded = decode_metadata(metadata.take(), lenient)?;
            *metadata = decoded.value;
            let below = decoded.warnings.iter().map(|text| text.replacen("field \"", "field \"metadata.", 1));
            unknown.extend(below);
        }
        if value["kind"] == *kind.kind
            && value["apiVersion"] == *kind.api_version()
            && let Some(custom) = self.customs.find(&kind.group, &kind.plural)
            && let Some(version) = custom.version(&kind.version)
        {
            if let Some(error) = version.schema.wrong_type_of_embedded(value) {
                return Err(DecodeError::Type(error.to_string()));
            }
            let dropped = version.schema.prune(value);
            version.schema.default(value);
            if validation != FieldValidation::Ignore {
                unknown.extend(dropped);
            }
        }
        Ok(unknown)
    }

    /// Validates an object by its schema. Returns warnings and errors. `old` is the object before,
    /// as clients see it.
    pub(crate) fn check_custom(
        &self,
        kind: &Kind,
        value: &mut Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> (Vec<String>, Errors) {
        let custom = self.customs.find(&kind.group, &kind.plural);
        let Some(version) = custom.as_ref().and_then(|custom| custom.version(&kind.version)) else {
            return (Vec::new(), Errors::default());
        };
        if old.is_none() && kind.has_status() {
            value.as_object_mut().map(|value| value.remove("status"));
        }
        let mut errors = match old {
            None => version.schema.validate(value),
            Some(old) if subresource == "status" => version.schema.validate_status(value, old),
            Some(old) => version.schema.validate_update(value, old),
        };
        if let Some(paths) = &version.scale {
            errors.extend(paths.check(value, subresource == "status"));
        }
        let warnings = if subresource.is_empty() { finalizer_warnings(value, old) } else { Vec::new() };
        (warnings, errors)
    }
}

/// The warnings about the names of new finalizers. Custom resources may have them.
fn finalizer_warnings(value: &Value, old: Option<&Value>) -> Vec<String> {
    let names = |value: &Value| -> Vec<String> {
        let names = value["metadata"]["finalizers"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before: HashSet<String> = old.map(names).unwrap_or_default().into_iter().collect();
    let mut new: Vec<String> = names(value).into_iter().filter(|name| !before.contains(name)).collect();
    new.sort();
    new.dedup();
    let mut warnings = Vec::new();
    for name in new {
        let mut warn =
            |why: &str| warnings.push(format!("metadata.finalizers: {}: {why}", crate::response::status::quote(&name)));
        for why in steersman_wire::is_qualified_name(&name) {
            warn(&why);
        }
        if name.contains('/') || STANDARD_FINALIZERS.contains(&name.as_str()) {
            continue;
        }
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warn(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}
