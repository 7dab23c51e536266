//! Create, update and patch.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::answer::{self, Answer, Form, Warnings};
use crate::builtin;
use crate::crd;
use crate::delete::is_definition;
use crate::kinds::{self, Kind};
use crate::metadata;
use crate::object::Object;
use crate::patch::{self, PatchError};
use crate::read::parse_revision;
use crate::request::{Query, ResourceRequest};
use crate::schema::{DecodeError, Decoded, FieldValidation, RequestBody, decode_value, read_value};
use crate::server::Shared;
use crate::status::{FieldError, Named, Status};
use crate::store::{Key, WriteError};

/// How often a patch is tried again when somebody else was quicker.
const PATCH_TRIES: usize = 5;

/// Whether a write is to be made or only answered.
pub(crate) fn is_dry_run(query: &Query, options: &'static str) -> Result<bool, Status> {
    let values: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let error = FieldError::not_supported("dryRun", json!(values), &["All"]);
        return Err(Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error]));
    }
    Ok(!values.is_empty())
}

impl Shared {
    pub(crate) fn create(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        let dry_run = is_dry_run(query, "CreateOptions")?;
        let validation = field_validation(query, "CreateOptions")?;
        let Decoded { mut value, mut warnings } = decode(kind, headers, body, validation)?;
        let meta = metadata::of(&mut value);
        metadata::settle_namespace(meta, kind, &request.namespace)?;
        if meta.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }
        metadata::generate_name(meta);
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.check_namespace(kind, &request.namespace, &name)?;
        metadata::fill_new(meta, kind, &self.now());
        warnings.extend(self.prepare(kind, &mut value, None, "", validation)?);
        let key = Key { namespace: request.namespace.as_str().into(), name: name.as_str().into() };
        let fields = metadata::selectable(kind, &value);
        let object = if dry_run {
            if self.store.get(&kind.id(), &key).is_some() {
                return Err(Status::already_exists(kind.named(), &name));
            }
            // What was not written has no version.
            value["kind"] = kind.kind.as_str().into();
            value["apiVersion"] = kind.api_version().into();
            return Ok(answer::json(StatusCode::CREATED, value.to_string()).warning(&warnings));
        } else {
            let written = self.store.put(&kind.id(), &key, None, |revision| Object::new(&value, revision, fields));
            let object = written.map_err(|_| Status::already_exists(kind.named(), &name))?;
            self.definition_written(kind, &key);
            object
        };
        Ok(answer::json(StatusCode::CREATED, form.object(kind, &object)).warning(&warnings))
    }

    pub(crate) fn update(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        let dry_run = is_dry_run(query, "UpdateOptions")?;
        let validation = field_validation(query, "UpdateOptions")?;
        let Decoded { mut value, mut warnings } = decode(kind, headers, body, validation)?;
        let meta = metadata::of(&mut value);
        metadata::settle_namespace(meta, kind, &request.namespace)?;
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
        check_name(name, request)?;
        let current = self.current(kind, request)?;
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(version, "" | "0") && kind.insists_on_version() {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Status::invalid(kind.named(), &request.name, &[error]));
        }
        if let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| *uid != current.uid()) {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                 failed: UID in precondition: {uid}, UID in object meta: {}",
                kind.storage_path(&request.key()),
                current.uid()
            );
            return Err(Status::conflict(kind.named(), &request.name, &why));
        }
        let object = self.replace(kind, request, &current, value, Wish { dry_run, validation }, &mut warnings)?;
        Ok(answer::json(StatusCode::OK, form.object(kind, &object)).warning(&warnings))
    }

    pub(crate) fn patch(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Answer {
        let dry_run = is_dry_run(query, "PatchOptions")?;
        let validation = field_validation(query, "PatchOptions")?;
        let media_type = media_type(headers);
        if !matches!(media_type, "application/json-patch+json" | "application/merge-patch+json") {
            return Err(Status::unsupported_patch());
        }
        if query.is_on("force") {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(Status::invalid(Named { group: "meta.k8s.io", resource: "PatchOptions" }, "", &[error]));
        }
        let patch = read_patch(media_type, body)?;
        for attempt in 1.. {
            let current = self.current(kind, request)?;
            let mut value = current.value();
            value["kind"] = kind.kind.as_str().into();
            value["apiVersion"] = kind.api_version().into();
            if media_type == "application/merge-patch+json" {
                patch::merge(&mut value, patch.clone());
            } else {
                value = patch::apply(&value, &patch).map_err(|error| refuse_patch(&error))?;
            }
            let mut warnings = Vec::new();
            if let Some(fields) = kind.fields {
                let decoded = decode_value(value, fields, validation).map_err(|error| {
                    let error = FieldError::invalid("patch", "<object>", error.to_string());
                    Status::invalid(Named { group: "", resource: "" }, "", &[error])
                })?;
                (value, warnings) = (decoded.value, decoded.warnings);
            }
            let meta = metadata::of(&mut value);
            metadata::settle_namespace(meta, kind, &request.namespace)?;
            check_name(meta.get("name").and_then(Value::as_str).unwrap_or_default(), request)?;
            metadata::check_kept(kind, &value, &current.value())?;
            match self.replace(kind, request, &current, value, Wish { dry_run, validation }, &mut warnings) {
                Err(status) if status.code == 409 && attempt < PATCH_TRIES && !names_version(&patch) => {}
                result => return Ok(answer::json(StatusCode::OK, form.object(kind, &*result?)).warning(&warnings)),
            }
        }
        Err(Status::modified(kind.named(), &request.name))
    }

    fn current(&self, kind: &Kind, request: &ResourceRequest) -> Result<Arc<Object>, Status> {
        let found = self.store.get(&kind.id(), &request.key());
        found.ok_or_else(|| Status::not_found(kind.named(), &request.name))
    }

    /// Puts `value` in the place of `current`, as far as the request may change it.
    fn replace(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        current: &Arc<Object>,
        mut value: Value,
        wish: Wish,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Object>, Status> {
        let name = &request.name;
        let old = current.value();
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let version = if version.is_empty() { 0 } else { parse_revision(version).map_err(Status::unexpected)? };
        // Zero insists on nothing.
        if version != 0 && version != current.revision() {
            return Err(Status::modified(kind.named(), name));
        }
        if request.subresource == "status" {
            let status = value.as_object_mut().and_then(|value| value.remove("status"));
            value = old.clone();
            match status {
                Some(status) => value["status"] = status,
                None => drop(value.as_object_mut().map(|value| value.remove("status"))),
            }
        } else if kind.has_status() {
            match old.get("status") {
                Some(status) => value["status"] = status.clone(),
                None => drop(value.as_object_mut().map(|value| value.remove("status"))),
            }
        }
        let Wish { dry_run, validation } = wish;
        warnings.extend(self.prepare(kind, &mut value, Some(&old), &request.subresource, validation)?);
        metadata::keep(&mut value, &old, kind);
        let key = request.key();
        // An object that is being deleted goes with its last finalizer.
        let finalizers = value["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if current.is_deleting() && !finalizers && value["metadata"]["deletionGracePeriodSeconds"] == 0 && !dry_run {
            self.remove(kind, &key, current)?;
            return Ok(Arc::new(Object::new(&value, current.revision(), Vec::new())));
        }
        if metadata::same(&value, &old) {
            return Ok(Arc::clone(current));
        }
        let fields = metadata::selectable(kind, &value);
        if dry_run {
            return Ok(Arc::new(Object::new(&value, current.revision(), fields)));
        }
        let put = self.store.put(&kind.id(), &key, Some(current), |revision| Object::new(&value, revision, fields));
        let object = put.map_err(|error| match error {
            WriteError::NotFound => Status::not_found(kind.named(), name),
            WriteError::Exists | WriteError::Changed => Status::modified(kind.named(), name),
        })?;
        self.definition_written(kind, &key);
        Ok(object)
    }

    /// Fills in what the server decides of an object, and refuses what its kind does not allow. Returns warnings.
    fn prepare(
        &self,
        kind: &Kind,
        value: &mut Value,
        old: Option<&Value>,
        subresource: &str,
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut warnings = Vec::new();
        let mut errors = Vec::new();
        if is_definition(kind) {
            if subresource.is_empty() {
                crd::fill(value);
                crd::prepare(value, old);
                warnings = crd::warnings(value);
                errors.extend(crd::Definition::read(value).err().unwrap_or_default());
                errors.extend(old.map(|old| crd::check_update(value, old)).unwrap_or_default());
            }
        } else if kind.is_built_in() {
            match old {
                None => {
                    builtin::prepare_for_create(kind, value);
                    errors.extend(builtin::validate_create(kind, value));
                }
                Some(old) => {
                    builtin::prepare_for_update(kind, value, old, subresource);
                    if subresource.is_empty() {
                        errors.extend(builtin::validate_update(kind, value, old));
                    }
                }
            }
        } else if let Some(custom) = self.customs.find(&kind.group, &kind.plural)
            && let Some(version) = custom.version(&kind.version)
        {
            if old.is_none() && kind.has_status() {
                value.as_object_mut().map(|value| value.remove("status"));
            }
            let schema = &version.schema;
            let unknown = schema.prune(value);
            schema.default(value);
            match validation {
                FieldValidation::Ignore => {}
                FieldValidation::Warn => warnings.extend(unknown),
                FieldValidation::Strict if unknown.is_empty() => {}
                FieldValidation::Strict => {
                    let error = DecodeError::Strict(unknown);
                    return Err(Status::bad_request(error.message(&kind.kind, &kind.kind, &kind.version, &[])));
                }
            }
            warnings.extend(version.deprecation_warning.clone());
            errors.extend(match old {
                None => schema.validate(value),
                Some(old) if subresource == "status" => schema.validate_status(value, old),
                Some(old) => schema.validate_update(value, old),
            });
        }
        let mut all = metadata::check(kind, value, &name);
        all.extend(old.map(|old| metadata::check_finalizers(value, old)).unwrap_or_default());
        all.extend(errors);
        if all.is_empty() && kind.is_built_in() && subresource.is_empty() {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            all = builtin::allocate(kind, value, old, &mut *addresses).err().unwrap_or_default();
            if let Some(old) = old {
                builtin::release(kind, old, Some(value), &mut *addresses);
            }
        }
        if all.is_empty() { Ok(warnings) } else { Err(Status::invalid(kind.named_kind(), &name, &all)) }
    }

    /// A definition is established, and served, as soon as it is written.
    fn definition_written(&self, kind: &Kind, key: &Key) {
        if !is_definition(kind) {
            return;
        }
        let Some(object) = self.store.get(&kind.id(), key) else { return };
        let mut value = object.value();
        let status = self.customs.establish(&value, &self.now());
        if status != value["status"] {
            value["status"] = status;
            // Somebody who wrote meanwhile has come here by himself.
            let _ =
                self.store.put(&kind.id(), key, Some(&object), |revision| Object::new(&value, revision, Vec::new()));
        }
        let conditions = value["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True") {
            self.customs.register(&value);
        }
    }

    /// Refuses to create objects in a namespace that is not there, or is going.
    fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
        if !kind.namespaced {
            return Ok(());
        }
        let namespaces = Named { group: "", resource: "namespaces" };
        let found = self.namespace(namespace).ok_or_else(|| Status::not_found(namespaces, namespace))?;
        if found.is_deleting() {
            return Err(Status::namespace_terminating(kind.named(), name, namespace));
        }
        Ok(())
    }
}

fn check_name(name: &str, request: &ResourceRequest) -> Result<(), Status> {
    if name == request.name {
        return Ok(());
    }
    if name.is_empty() {
        let text =
            format!("the name of the object ({} based on URL) was undeterminable: name must be provided", request.name);
        return Err(Status::bad_request(text));
    }
    let text = format!("the name of the object ({name}) does not match the name on the URL ({})", request.name);
    Err(Status::bad_request(text))
}

/// Whether the writer of a patch insists on a version.
fn names_version(patch: &Value) -> bool {
    !patch["metadata"]["resourceVersion"].is_null()
}

/// A patch of the right shape.
fn read_patch(media_type: &str, body: &Bytes) -> Result<Value, Status> {
    let wrong = |what: String| Status::bad_request(format!("error decoding patch: {what}"));
    let patch = read_value(body).map_err(wrong)?;
    let shape = match &patch {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    };
    let merge = media_type == "application/merge-patch+json";
    match shape {
        "object" if merge => Ok(patch),
        "array" if !merge => {
            check_operations(&patch).map_err(wrong)?;
            Ok(patch)
        }
        "null" => Err(Status::bad_request("Invalid JSON Patch")),
        _ if merge => {
            Err(wrong(format!("json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}")))
        }
        _ => Err(wrong(format!("json: cannot unmarshal {shape} into Go value of type []handlers.jsonPatchOp"))),
    }
}

/// Refuses operations of the wrong shape. The words are Go's.
fn check_operations(patch: &Value) -> Result<(), String> {
    let shape = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
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

fn media_type(headers: &HeaderMap) -> &str {
    let Some(value) = headers.get(CONTENT_TYPE) else { return "" };
    // What is no media type at all is shown whole: nobody takes it.
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

/// How a write is wished.
#[derive(Clone, Copy)]
struct Wish {
    dry_run: bool,
    validation: FieldValidation,
}

/// What a request says of fields that are unknown or come twice.
pub(crate) fn field_validation(query: &Query, options: &'static str) -> Result<FieldValidation, Status> {
    let text = query.get("fieldValidation").unwrap_or_default();
    FieldValidation::parse(text).ok_or_else(|| {
        let error = FieldError::not_supported("fieldValidation", text, &["", "Ignore", "Strict", "Warn"]);
        Status::invalid(Named { group: "meta.k8s.io", resource: options }, "", &[error])
    })
}

/// Reads the body of a create or an update.
pub(crate) fn decode(
    kind: &Kind,
    headers: &HeaderMap,
    body: &Bytes,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    if !matches!(media_type(headers), "" | "application/json" | "*/*") {
        let text = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            answer::MEDIA_TYPES
        );
        return Err(Status::unsupported_media_type(text));
    }
    let refuse = |error: &DecodeError, of: &str, version: &str| {
        Status::bad_request(error.message(&kind.kind, of, version, body))
    };
    let parsed = RequestBody::parse(body).map_err(|error| refuse(&error, &kind.kind, &kind.version))?;
    let expected = kind.api_version();
    // Bodies of built-in kinds need not name what the path says.
    let given_kind = if parsed.kind.is_empty() { kind.kind.clone() } else { parsed.kind.clone() };
    let given_version = if parsed.api_version.is_empty() { expected.clone() } else { parsed.api_version.clone() };
    if given_kind != kind.kind || given_version != expected {
        return Err(wrong_kind(kind, &given_kind, &given_version));
    }
    let decoded = match kind.fields {
        Some(fields) => parsed.decode(fields, validation),
        None => parsed.into_value(validation),
    };
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let mut decoded = decoded.map_err(|error| refuse(&error, &given_kind, version))?;
    metadata::of(&mut decoded.value);
    Ok(decoded)
}

/// A body of another kind than the path asks for.
fn wrong_kind(kind: &Kind, given_kind: &str, given_version: &str) -> Status {
    let (group, version) = given_version.rsplit_once('/').unwrap_or(("", given_version));
    let known = kinds::builtin().kind(group, version, given_kind).is_some()
        || given_kind.strip_suffix("List").is_some_and(|item| kinds::builtin().kind(group, version, item).is_some());
    let why = if known {
        let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
        format!("converting ({version}.{given_kind}) to ({package}.{}): unknown conversion", kind.kind)
    } else {
        unregistered(given_kind, given_version)
    };
    let text = format!("{given_kind} in version \"{version}\" cannot be handled as a {}: {why}", kind.kind);
    Status::bad_request(text)
}

/// What the real server says of a kind that it does not know there, down to the line of its source.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\"")
}
