//! Create, update and patch.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::addresses::DryRun;
use crate::answer::{self, Answer, Form, Warnings};
use crate::budget;
use crate::builtin;
use crate::convert;
use crate::crd::{self, Patterns};
use crate::delete::{is_definition, is_finished};
use crate::garbage::Work;
use crate::kinds::{self, Kind};
use crate::metadata;
use crate::negotiation::MEDIA_TYPES;
use crate::object::Object;
use crate::ownership;
use crate::patch_request::PatchRequest;
use crate::read::parse_revision;
use crate::request::{Query, ResourceRequest};
use crate::schema::{DecodeError, Decoded, FieldValidation, RequestBody, summary, with_earlier};
use crate::server::Shared;
use crate::status::{Errors, FieldError, Named, Status};
use crate::store::{Key, WriteError};
use crate::yaml;

/// How often a patch is tried when other writers are quicker.
const PATCH_TRIES: usize = 5;

/// What an attempt to write ends with, and its warnings.
type Attempt = (Result<Arc<Object>, Status>, Vec<String>);

/// Tries a patch until no other writer is quicker, within a number of attempts. Each of them may
/// take as many steps as a request may. An error of `attempt` itself ends it at once.
pub(crate) fn with_retries(
    patch: &PatchRequest,
    mut attempt: impl FnMut() -> Result<Attempt, Status>,
) -> Result<Attempt, Status> {
    let mark = budget::mark();
    for _ in 1..PATCH_TRIES {
        match attempt()? {
            (Err(status), _) if status.code == 409 && !patch.insists_on_version() => {}
            result => return Ok(result),
        }
        budget::try_again(mark);
    }
    attempt()
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
        let wish = Wish::read(query, "CreateOptions")?.seen_as(form);
        let Decoded { value, mut warnings } = self.decode(wish.view.unwrap_or(kind), headers, body, wish.validation)?;
        let value = wish.stored(value);
        let answer = self.create_decoded(kind, request, form, wish, value, &mut warnings);
        told(answer, warnings)
    }

    fn create_decoded(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        form: Form,
        wish: Wish,
        mut value: Value,
        warnings: &mut Vec<String>,
    ) -> Answer {
        let dry_run = wish.dry_run;
        let meta = metadata::of(&mut value);
        metadata::settle_namespace(meta, kind, &request.namespace)?;
        if meta.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }
        metadata::generate_name(meta, &self.world);
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.check_namespace(kind, &request.namespace, &name)?;
        if !kind.is_built_in() && self.customs.find(&kind.group, &kind.plural).is_some_and(|custom| custom.terminating)
        {
            return Err(Status::definition_terminating(kind.named(), &name));
        }
        metadata::fill_new(meta, kind, &self.now(), &self.world);
        let mut patterns = Patterns::new();
        warnings.extend(self.prepare(kind, &mut value, None, "", wish, &mut patterns)?);
        self.to_stored(kind, &mut value)?;
        let key = Key { namespace: request.namespace.as_str().into(), name: name.as_str().into() };
        let fields = convert::selectable(kind, &value);
        let object = if dry_run {
            if self.store.get(&kind.id(), &key).is_some() {
                return Err(self.name_is_taken(kind, &key));
            }
            // What was not written has no version.
            let shown = form.view().unwrap_or(kind);
            let mut value = convert::from_stored(shown, value);
            value["kind"] = shown.kind.as_str().into();
            value["apiVersion"] = shown.api_version().into();
            return Ok(answer::json(StatusCode::CREATED, value.to_string()));
        } else {
            let written = self.store.put(&kind.id(), &key, None, |revision| Object::new(&value, revision, fields));
            let object = written.map_err(|error| {
                let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
                builtin::release(kind, &value, None, &mut *addresses);
                match error {
                    // The definition of the kind was deleted meanwhile.
                    WriteError::NotFound => Status::not_found(kind.named(), &name),
                    WriteError::Exists | WriteError::Changed => self.name_is_taken(kind, &key),
                }
            })?;
            self.definition_written(kind, &key, &patterns);
            let mut work = Work::default();
            work.written(kind, None, &object);
            self.collect(work);
            object
        };
        Ok(answer::json(StatusCode::CREATED, form.object(kind, &self.seen(kind, &object))))
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
        let wish = Wish::read(query, "UpdateOptions")?.seen_as(form);
        let Decoded { value, mut warnings } = self.decode(wish.view.unwrap_or(kind), headers, body, wish.validation)?;
        let value = wish.stored(value);
        let written = self.update_decoded(kind, request, wish, value, &mut warnings);
        let seen = written.map(|object| self.seen(kind, &object));
        told(seen.map(|object| answer::json(StatusCode::OK, form.object(kind, &object))), warnings)
    }

    fn update_decoded(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        wish: Wish,
        mut value: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Object>, Status> {
        check_identity(&mut value, kind, request)?;
        let current = self.current(kind, request)?;
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(version, "" | "0") && kind.insists_on_version() {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Status::invalid(kind.named(), &request.name, &[error]));
        }
        check_uid(&value, kind, request, &current)?;
        self.replace(kind, request, &current, value, wish, warnings)
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
        let wish = Wish::read(query, "PatchOptions")?.seen_as(form);
        let view = wish.view.unwrap_or(kind);
        let patch = PatchRequest::read(kind, query, headers, body)?;
        let (written, warnings) = with_retries(&patch, || {
            let current = self.current(kind, request)?;
            let value = patch.apply(convert::from_stored(view, self.seen(kind, &current).value()), view)?;
            let Decoded { value, mut warnings } = self.decode_patched(view, &patch, value, wish.validation)?;
            let mut value = wish.stored(value);
            let meta = metadata::of(&mut value);
            metadata::settle_namespace(meta, kind, &request.namespace)?;
            check_name(meta.get("name").and_then(Value::as_str).unwrap_or_default(), request)?;
            metadata::check_kept(kind, &value, &current.value())?;
            let written = self.replace(kind, request, &current, value, wish, &mut warnings);
            Ok((written, warnings))
        })?;
        let seen = written.map(|object| self.seen(kind, &object));
        told(seen.map(|object| answer::json(StatusCode::OK, form.object(kind, &object))), warnings)
    }

    fn name_is_taken(&self, kind: &Kind, key: &Key) -> Status {
        let status = Status::already_exists(kind.named(), &key.name);
        let deleting = self.store.get(&kind.id(), key).is_some_and(|object| object.is_deleting());
        if deleting { status.being_deleted() } else { status }
    }

    pub(crate) fn current(&self, kind: &Kind, request: &ResourceRequest) -> Result<Arc<Object>, Status> {
        let found = self.store.get(&kind.id(), &request.key());
        found.ok_or_else(|| Status::not_found(kind.named(), &request.name))
    }

    /// Puts `value` in the place of `current`, as far as the request may change it.
    pub(crate) fn replace(
        &self,
        kind: &Kind,
        request: &ResourceRequest,
        current: &Arc<Object>,
        mut value: Value,
        wish: Wish,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Object>, Status> {
        let name = &request.name;
        let old = self.seen(kind, current).value();
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let version = if version.is_empty() { 0 } else { parse_revision(version).map_err(Status::unexpected)? };
        // Zero insists on nothing.
        if version != 0 && version != current.revision() {
            return Err(Status::modified(kind.named(), name));
        }
        if request.subresource == "status" {
            value = with_status(kind, value, &old);
        } else if kind.has_status() {
            match old.get("status") {
                Some(status) => value["status"] = status.clone(),
                None => drop(value.as_object_mut().map(|value| value.remove("status"))),
            }
        }
        let dry_run = wish.dry_run;
        let mut patterns = Patterns::new();
        let old_value = Some(&old);
        warnings.extend(self.prepare(kind, &mut value, old_value, &request.subresource, wish, &mut patterns)?);
        metadata::keep(&mut value, &old, kind);
        self.to_stored(kind, &mut value)?;
        let key = request.key();
        let mut work = Work::default();
        if is_finished(kind, &value, current) && !dry_run {
            self.remove(kind, &key, current, &mut work)?;
            self.collect(work);
            return Ok(Arc::new(Object::new(&value, current.revision(), Vec::new())));
        }
        if metadata::same(&value, &current.value()) {
            return Ok(Arc::clone(current));
        }
        let fields = convert::selectable(kind, &value);
        if dry_run {
            return Ok(Arc::new(Object::new(&value, current.revision(), fields)));
        }
        let put = self.store.put(&kind.id(), &key, Some(current), |revision| Object::new(&value, revision, fields));
        let object = put.map_err(|error| match error {
            WriteError::NotFound => Status::not_found(kind.named(), name),
            WriteError::Exists | WriteError::Changed => Status::modified(kind.named(), name),
        })?;
        self.definition_written(kind, &key, &patterns);
        work.written(kind, Some(current), &object);
        self.collect(work);
        Ok(object)
    }

    /// Fills in what the server decides of an object, and refuses what its kind does not allow. Returns warnings. The patterns of
    /// a definition are compiled into `patterns`.
    fn prepare(
        &self,
        kind: &Kind,
        value: &mut Value,
        old: Option<&Value>,
        subresource: &str,
        wish: Wish,
        patterns: &mut Patterns,
    ) -> Result<Vec<String>, Status> {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut warnings = Vec::new();
        let mut errors = Errors::default();
        if is_definition(kind) {
            crd::fill_stored_versions(value);
            if subresource.is_empty() {
                crd::fill(value);
                crd::prepare(value, old);
                warnings = crd::warnings(value);
                errors.extend(crd::check(value, old, patterns));
            }
        } else if kind.is_built_in() {
            match old {
                None => {
                    builtin::prepare_for_create(kind, value);
                    errors.extend(builtin::validate_create(wish.view.unwrap_or(kind), value));
                }
                Some(old) => {
                    builtin::prepare_for_update(kind, value, old, subresource);
                    match subresource {
                        "" => errors.extend(builtin::validate_update(wish.view.unwrap_or(kind), value, old)),
                        "finalize" => errors.extend(ownership::check_namespace_finalizers(value)),
                        _ => {}
                    }
                }
            }
        } else {
            if let Some(given) = value["kind"].as_str().filter(|given| *given != kind.kind) {
                let error = FieldError::invalid("kind", given, format!("must be {}", kind.kind));
                return Err(Status::invalid(Named { group: &kind.group, resource: given }, &name, &[error]));
            }
            (warnings, errors) = self.check_custom(kind, value, old, subresource);
        }
        let mut all = metadata::check(kind, value, &name);
        all.extend(old.map(|old| metadata::check_finalizers(value, old)).unwrap_or_default());
        if old.is_some() {
            let again = metadata::check_labels(value);
            all.extend((1..kind.label_checks(subresource)).flat_map(|_| again.iter().cloned()));
        }
        all.extend(errors);
        budget::check()?;
        if all.is_empty() && kind.is_built_in() && subresource.is_empty() {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            let allocated = if wish.dry_run {
                builtin::allocate(kind, value, old, &mut DryRun::of(&addresses))
            } else {
                builtin::allocate(kind, value, old, &mut *addresses)
            };
            all = allocated.err().unwrap_or_default();
            if let Some(old) = old.filter(|_| !wish.dry_run) {
                builtin::release(kind, old, Some(value), &mut *addresses);
            }
        }
        if all.is_empty() { Ok(warnings) } else { Err(Status::invalid(kind.named_kind(), &name, &all)) }
    }

    /// A definition is established, and served, as soon as it is written. `patterns` are those that
    /// its check has compiled.
    pub(crate) fn definition_written(&self, kind: &Kind, key: &Key, patterns: &Patterns) {
        if is_definition(kind) {
            budget::unmetered(|| {
                self.establish(kind, key);
                self.serve_definition(kind, key, patterns);
            });
        }
    }

    /// Writes the status of a definition, on its new state if there is one in between.
    fn establish(&self, kind: &Kind, key: &Key) {
        while let Some(object) = self.store.get(&kind.id(), key) {
            let mut value = object.value();
            let status = self.customs.establish(&value, &self.now());
            if status == value["status"] {
                return;
            }
            value["status"] = status;
            let make = |revision| Object::new(&value, revision, Vec::new());
            if self.store.put(&kind.id(), key, Some(&object), make).is_ok() {
                return;
            }
        }
    }

    /// Serves a definition as it is stored, unless it is gone.
    pub(crate) fn serve_definition(&self, kind: &Kind, key: &Key, patterns: &Patterns) {
        while let Some(object) = self.store.get(&kind.id(), key) {
            if self.customs.register(kind, &object, patterns, &self.store) {
                return;
            }
        }
    }

    /// Reads the body of a create or an update.
    pub(crate) fn decode(
        &self,
        kind: &Kind,
        headers: &HeaderMap,
        body: &Bytes,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let document = read_document(kind, headers, body)?;
        if kind.is_built_in() {
            return decode(kind, body, document, validation);
        }
        self.decode_custom(kind, body, document, validation)
    }

    /// Reads what a patch has made of an object.
    pub(crate) fn decode_patched(
        &self,
        kind: &Kind,
        patch: &PatchRequest,
        value: Value,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        match kind.fields {
            Some(fields) => patch.decode(kind, fields, value, validation),
            None => self.decode_patched_custom(kind, patch, value, validation),
        }
    }

    /// Refuses to create objects in a namespace that is not there, or is going.
    pub(crate) fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
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

/// The old object with the status of `value`, and with as much of its metadata as the kind lets through here.
fn with_status(kind: &Kind, mut value: Value, old: &Value) -> Value {
    let mut kept = old.clone();
    match value.as_object_mut().and_then(|value| value.remove("status")) {
        Some(status) => kept["status"] = status,
        None => drop(kept.as_object_mut().map(|kept| kept.remove("status"))),
    }
    if let Some(fields) = kind.metadata_kept_by_status() {
        for field in fields {
            match old["metadata"].get(field) {
                Some(before) => value["metadata"][field] = before.clone(),
                None => drop(metadata::of(&mut value).remove(*field)),
            }
        }
        kept["metadata"] = value["metadata"].take();
    }
    kept
}

/// The name and the namespace of what is written are those of the path.
pub(crate) fn check_identity(value: &mut Value, kind: &Kind, request: &ResourceRequest) -> Result<(), Status> {
    let meta = metadata::of(value);
    metadata::settle_namespace(meta, kind, &request.namespace)?;
    check_name(meta.get("name").and_then(Value::as_str).unwrap_or_default(), request)
}

/// Refuses to put an object in the place of another one of that name.
pub(crate) fn check_uid(value: &Value, kind: &Kind, request: &ResourceRequest, current: &Object) -> Result<(), Status> {
    let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| *uid != current.uid()) else { return Ok(()) };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {uid}, UID in object meta: {}",
        kind.storage_path(&request.key()),
        current.uid()
    );
    Err(Status::conflict(kind.named(), &request.name, &why))
}

/// The answer with what the client should know besides, be it a refusal or not.
pub(crate) fn told(answer: Answer, warnings: Vec<String>) -> Answer {
    match answer {
        Ok(answer) => Ok(answer.warning(&warnings)),
        Err(status) => Err(status.with_warnings(warnings)),
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

pub(crate) fn media_type(headers: &HeaderMap) -> &str {
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
pub(crate) struct Wish {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// The kind that the client writes, when it is stored as another.
    pub(crate) view: Option<&'static Kind>,
}

impl Wish {
    /// Reads the parameters of a request, which are these options to the real server.
    pub(crate) fn read(query: &Query, options: &'static str) -> Result<Self, Status> {
        Ok(Self { dry_run: is_dry_run(query, options)?, validation: field_validation(query, options)?, view: None })
    }

    /// The same wish of a client that sees objects in this form.
    fn seen_as(mut self, form: Form) -> Self {
        self.view = form.view();
        self
    }

    /// What the client wrote, as it is stored.
    fn stored(self, value: Value) -> Value {
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

pub(crate) fn unknown_format(accepted: &str) -> String {
    format!("the body of the request was in an unknown format - accepted media types include: {accepted}")
}

/// Reads the YAML of a body, unless it is JSON.
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

/// Says what came twice in a body of YAML, before anything else.
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

/// A body of another kind than the path asks for.
fn wrong_kind(kind: &Kind, given_kind: &str, given_version: &str) -> Status {
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let why = why_wrong_kind(kind, given_kind, given_version);
    Status::bad_request(format!("{given_kind} in version \"{version}\" cannot be handled as a {}: {why}", kind.kind))
}

/// Why an object of that kind cannot stand for one of the kind that the path asks for.
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

/// What the real server says of a kind that it does not know there, down to the line of its source.
pub(crate) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch that is tried `conflicts` times before no other writer is quicker, with this many steps each time: what it ends
    /// with, and how often it was tried.
    fn tried(conflicts: usize, steps: usize) -> (u16, usize) {
        let pods = kinds::builtin().resource("", "v1", "pods").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/merge-patch+json"));
        let patch = PatchRequest::read(pods, &Query::default(), &headers, &Bytes::from_static(b"{}"));
        let patch = patch.unwrap_or_else(|status| panic!("{}", status.object()));
        let mut tries = 0;
        let (result, cost) = budget::metered(|| {
            with_retries(&patch, || {
                tries += 1;
                budget::step(steps);
                budget::check()?;
                let written = Arc::new(Object::new(&json!({"metadata": {"name": "a"}}), 1, Vec::new()));
                let result = if tries > conflicts { Ok(written) } else { Err(Status::modified(pods.named(), "a")) };
                Ok((result, Vec::new()))
            })
        });
        assert_eq!(cost.steps, (tries * steps) as u64, "the cost is that of all attempts");
        (result.and_then(|(written, _)| written).map_or_else(|status| status.code, |_| 200), tries)
    }

    #[test]
    fn each_attempt_of_a_patch_has_a_budget_of_its_own() {
        assert_eq!(tried(0, 15_000_000), (200, 1));
        assert_eq!(tried(3, 15_000_000), (200, 4));
        assert_eq!(tried(usize::MAX, 15_000_000), (409, PATCH_TRIES));
        assert_eq!(tried(3, 25_000_000), (413, 1));
    }
}
