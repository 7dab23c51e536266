//! Patch requests, and the decoding of their results.

use bytes::Bytes;
use serde_json::Value;

use crate::request::RequestContext;
use crate::request::body::{media_type, unknown_format, why_wrong_kind};
use crate::response::status::{FieldError, Named, Status};
use crate::rules::kinds::{self, Kind};
use crate::rules::schema::{Decoded, FieldValidation, StructId, decode_value, read_value, with_earlier};
use crate::verbs::patch::{self, PatchError};

/// More unknown fields of operations are not reported, as in objects.
const UNKNOWN_MAX: usize = 100;

/// A patch as it was sent.
pub(crate) struct PatchRequest {
    merge: bool,
    patch: Value,
    /// The unknown or duplicate fields in it.
    strict_errors: Vec<String>,
}

impl PatchRequest {
    /// Parses a patch of a known type.
    pub(crate) fn read(request: &RequestContext<'_>) -> Result<Self, Status> {
        let media_type = media_type(request.headers);
        if !matches!(media_type, "application/json-patch+json" | "application/merge-patch+json") {
            return Err(unsupported(request.kind, media_type));
        }
        if request.query.is_on("force") {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(Status::invalid(Named { group: "meta.k8s.io", resource: "PatchOptions" }, "", &[error]));
        }
        let merge = media_type == "application/merge-patch+json";
        let Decoded { value: patch, warnings: mut strict_errors } = read_patch(merge, request.body)?;
        if !merge {
            strict_errors.extend(unknown_fields(&patch));
            strict_errors.iter_mut().for_each(|error| error.insert_str(0, "json patch "));
        }
        Ok(Self { merge, patch, strict_errors })
    }

    /// The object of that kind after the patch.
    pub(crate) fn apply(&self, mut value: Value, kind: &Kind) -> Result<Value, Status> {
        value["kind"] = kind.kind.as_str().into();
        value["apiVersion"] = kind.api_version().into();
        if self.merge {
            patch::merge(&mut value, self.patch.clone());
            return Ok(value);
        }
        patch::apply(&value, &self.patch).map_err(|error| refuse_patch(&error))
    }

    /// Whether the patch requires a version of the object.
    pub(crate) fn insists_on_version(&self) -> bool {
        !self.patch["metadata"]["resourceVersion"].is_null()
    }

    /// The unknown or duplicate fields in it.
    pub(crate) fn strict_errors(&self) -> Vec<String> {
        self.strict_errors.clone()
    }

    /// Decodes the result of a patch. It may have another kind, and is decoded as such.
    pub(crate) fn decode(
        &self,
        kind: &Kind,
        fields: StructId,
        value: Value,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let given_kind = text("kind").unwrap_or_else(|| kind.kind.clone());
        let given_version = text("apiVersion").unwrap_or_else(|| kind.api_version());
        if given_version.matches('/').count() > 1 {
            return Err(refuse(format!("unexpected GroupVersion string: {given_version}")));
        }
        if given_kind == kind.kind && given_version == kind.api_version() {
            let decoded = with_earlier(decode_value(value, fields, validation), self.strict_errors(), validation);
            return decoded.map_err(|error| refuse(error.to_string()));
        }
        let (group, version) = given_version.rsplit_once('/').unwrap_or(("", &given_version));
        if let Some(fields) = kinds::builtin().kind(group, version, &given_kind).and_then(|other| other.fields) {
            decode_value(value, fields, validation).map_err(|error| refuse(error.to_string()))?;
        }
        Err(refuse(why_wrong_kind(kind, &given_kind, &given_version)))
    }
}

/// Refuses the result of a patch.
pub(crate) fn refuse(what: String) -> Status {
    let error = FieldError::invalid("patch", "<object>", what);
    Status::invalid(Named { group: "", resource: "" }, "", &[error])
}

/// A patch of the right shape.
fn read_patch(merge: bool, body: &Bytes) -> Result<Decoded, Status> {
    let wrong = |what: String| Status::bad_request(format!("error decoding patch: {what}"));
    let patch = read_value(body).map_err(wrong)?;
    let found = shape(&patch.value);
    match found {
        "object" if merge => Ok(patch),
        "array" if !merge => {
            check_operations(&patch.value).map_err(wrong)?;
            Ok(patch)
        }
        "null" => Err(Status::bad_request("Invalid JSON Patch")),
        _ if merge => {
            Err(wrong(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")))
        }
        _ => Err(wrong(format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"))),
    }
}

/// Go's name for a type of value.
fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The unknown fields of operations.
fn unknown_fields(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let fields =
        operations.flat_map(|(at, one)| one.as_object().into_iter().flatten().map(move |(name, _)| (at, name)));
    let unknown = fields.filter(|(_, name)| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
    unknown.map(|(at, name)| format!("unknown field \"[{at}].{name}\"")).take(UNKNOWN_MAX).collect()
}

/// Refuses operations of the wrong shape, with Go's message.
fn check_operations(patch: &Value) -> Result<(), String> {
    for operation in patch.as_array().into_iter().flatten() {
        if !(operation.is_object() || operation.is_null()) {
            let found = shape(operation);
            return Err(format!("json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"));
        }
        for field in ["op", "from", "path"] {
            let value = &operation[field];
            if !(value.is_string() || value.is_null()) {
                let found = shape(value);
                return Err(format!(
                    "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{field} of type string"
                ));
            }
        }
    }
    Ok(())
}

fn refuse_patch(error: &PatchError) -> Status {
    match error {
        PatchError::Malformed(text) => Status::bad_request(text.clone()),
        PatchError::TooMany(_) => Status::too_large(format!("Request entity too large: {error}")),
        PatchError::DoesNotFit(_) => Status::unprocessable(),
    }
}

/// Refuses a patch by its type. The real server supports two types that this one does not: the
/// message names the supported ones.
fn unsupported(kind: &Kind, media_type: &str) -> Status {
    let missing = match media_type {
        "application/apply-patch+yaml" | "application/apply-patch+cbor" => "server-side apply",
        "application/strategic-merge-patch+json" if kind.is_built_in() => "strategic merge patch",
        _ if kind.is_built_in() => return Status::unsupported_patch(),
        // Custom resources have no merge strategies.
        _ => {
            let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Status::unsupported_media_type(unknown_format(accepted));
        }
    };
    Status::unsupported_media_type(format!(
        "{missing} is not supported by steersman's embedded API server: send a merge patch \
         (application/merge-patch+json), a JSON patch (application/json-patch+json), or create and update the whole \
         object (kubectl create --validate=false -f FILE, kubectl replace --validate=false -f FILE)"
    ))
}
