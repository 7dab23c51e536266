//! Patch requests, and the decoding of their results.

use bytes::Bytes;
use serde_json::Value;

use crate::request::RequestContext;
use crate::request::body::{media_type, unknown_format, why_wrong_kind};
use crate::response::status::{FieldError, Named, Status};
use crate::rules::go_text;
use crate::rules::kinds::{self, Kind};
use crate::rules::schema::{
    DecodeError, Decoded, FieldValidation, StructId, decode_value, from_unstructured, read_value, with_earlier,
};
use crate::rules::strategic_merge::{self, MergeError};
use crate::verbs::patch::{self, PatchError};

/// More unknown fields of operations are not reported, as in objects.
const UNKNOWN_MAX: usize = 100;

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// A patch as it was sent.
pub(crate) struct PatchRequest {
    patch_type: PatchType,
    patch: Value,
    /// The unknown or duplicate fields in it.
    strict_errors: Vec<String>,
    /// Why the body is not a strategic merge patch. The real server looks for the object first.
    malformed: Option<Status>,
}

/// An object after a patch, not decoded yet.
pub(crate) struct Patched {
    pub(crate) value: Value,
    /// A strategic merge patch as the merge leaves it, for messages.
    merged: Option<Value>,
}

impl PatchRequest {
    /// Parses a patch of a known type.
    pub(crate) fn read(request: &RequestContext<'_>) -> Result<Self, Status> {
        let media_type = media_type(request.headers);
        let patch_type = match media_type {
            "application/json-patch+json" => PatchType::Json,
            "application/merge-patch+json" => PatchType::Merge,
            "application/strategic-merge-patch+json" if request.kind.is_built_in() => PatchType::Strategic,
            _ => return Err(unsupported(request.kind)),
        };
        if request.query.is_on("force") {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(Status::invalid(Named { group: "meta.k8s.io", resource: "PatchOptions" }, "", &[error]));
        }
        if patch_type == PatchType::Strategic {
            let (Decoded { value: patch, warnings: strict_errors }, malformed) = match read_strategic(request.body) {
                Ok(patch) => (patch, None),
                Err(status) => (Decoded { value: Value::Null, warnings: Vec::new() }, Some(status)),
            };
            return Ok(Self { patch_type, patch, strict_errors, malformed });
        }
        let Decoded { value: patch, warnings: mut strict_errors } =
            read_patch(patch_type == PatchType::Merge, request.body)?;
        if patch_type == PatchType::Json {
            strict_errors.extend(unknown_fields(&patch));
            strict_errors.iter_mut().for_each(|error| error.insert_str(0, "json patch "));
        }
        Ok(Self { patch_type, patch, strict_errors, malformed: None })
    }

    /// The object of that kind after the patch.
    pub(crate) fn apply(&self, mut value: Value, kind: &Kind) -> Result<Patched, Status> {
        value["kind"] = kind.kind.as_str().into();
        value["apiVersion"] = kind.api_version().into();
        match self.patch_type {
            PatchType::Merge => {
                patch::merge(&mut value, self.patch.clone());
                Ok(Patched { value, merged: None })
            }
            PatchType::Json => {
                let value = patch::apply(&value, &self.patch).map_err(|error| refuse_patch(&error))?;
                Ok(Patched { value, merged: None })
            }
            PatchType::Strategic => self.apply_strategic(value, kind),
        }
    }

    fn apply_strategic(&self, value: Value, kind: &Kind) -> Result<Patched, Status> {
        if let Some(status) = &self.malformed {
            return Err(status.clone());
        }
        let (Value::Object(value), Value::Object(mut patch), Some(fields)) = (value, self.patch.clone(), kind.fields)
        else {
            return Err(Status::unsupported_patch());
        };
        let value =
            strategic_merge::merge(&kinds::builtin().types, fields, value, &mut patch).map_err(
                |error| match &error {
                    MergeError::Malformed(text) => Status::bad_request(*text),
                    MergeError::ListOfLists => Status::unprocessable(),
                    MergeError::Other(text) => Status::unexpected(text.as_str()),
                    MergeError::Incomparable => Status::bad_request(error.to_string()),
                },
            )?;
        Ok(Patched { value: Value::Object(value), merged: Some(Value::Object(patch)) })
    }

    /// Whether the patch may read or change the managed fields of the object.
    pub(crate) fn touches_managed_fields(&self) -> bool {
        if self.patch_type != PatchType::Json {
            return self.patch["metadata"].get("managedFields").is_some();
        }
        let touches = |path: &Value| {
            let path = path.as_str().unwrap_or_default();
            matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields")
        };
        let mut operations = self.patch.as_array().into_iter().flatten();
        operations.any(|operation| touches(&operation["path"]) || operation.get("from").is_some_and(touches))
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
        patched: Patched,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        if patched.merged.is_some() {
            return self.decode_merged(kind, fields, patched, validation);
        }
        let value = patched.value;
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

    /// Decodes the result of a strategic merge patch. It keeps its kind, whatever the patch has.
    fn decode_merged(
        &self,
        kind: &Kind,
        fields: StructId,
        patched: Patched,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let Patched { mut value, merged } = patched;
        let refuse = |what: String| {
            let patch = go_text::text(merged.as_ref().unwrap_or(&Value::Null));
            let error = FieldError::invalid("patch", patch, what);
            Status::invalid(Named { group: "", resource: "" }, "", &[error])
        };
        let unknown = from_unstructured(&mut value, fields).map_err(refuse)?;
        let mut warnings = Vec::new();
        if validation != FieldValidation::Ignore {
            warnings = self.strict_errors();
            warnings.extend(unknown);
        }
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            return Err(refuse(DecodeError::Strict(warnings).to_string()));
        }
        value["kind"] = kind.kind.as_str().into();
        value["apiVersion"] = kind.api_version().into();
        let decoded = decode_value(value, fields, FieldValidation::Ignore);
        let Decoded { value, .. } = decoded.map_err(|error| refuse(error.to_string()))?;
        Ok(Decoded { value, warnings })
    }
}

/// Refuses the result of a patch.
pub(crate) fn refuse(what: String) -> Status {
    let error = FieldError::invalid("patch", "<object>", what);
    Status::invalid(Named { group: "", resource: "" }, "", &[error])
}

/// A strategic merge patch. Null is an empty one.
fn read_strategic(body: &Bytes) -> Result<Decoded, Status> {
    let Decoded { value, warnings } = read_value(body).map_err(Status::bad_request)?;
    let found = shape(&value);
    match value {
        Value::Object(_) => Ok(Decoded { value, warnings }),
        Value::Null => Ok(Decoded { value: Value::Object(serde_json::Map::new()), warnings }),
        _ => {
            let what = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
            Err(Status::bad_request(what))
        }
    }
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

/// Refuses a patch by its type.
fn unsupported(kind: &Kind) -> Status {
    if kind.is_built_in() {
        return Status::unsupported_patch();
    }
    // Custom resources have no merge strategies.
    let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Status::unsupported_media_type(unknown_format(accepted))
}
