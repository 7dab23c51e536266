//! Create, update and patch.

use std::sync::{Arc, PoisonError};

use http::StatusCode;
use serde_json::Value;

use crate::lifecycle::garbage::Work;
use crate::lifecycle::ownership;
use crate::request::budget;
use crate::request::patch_request::PatchRequest;
use crate::request::write_options::WriteOptions;
use crate::request::{RequestContext, ResourceRequest};
use crate::response::status::{Errors, FieldError, Named, Status};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::builtin;
use crate::rules::convert;
use crate::rules::crd::{self, Patterns};
use crate::rules::kinds::Kind;
use crate::rules::managed_fields::{self, Managed};
use crate::rules::metadata;
use crate::rules::schema::Decoded;
use crate::server::Shared;
use crate::store::addresses::DryRun;
use crate::store::object::Object;
use crate::store::{Key, WriteError};
use crate::verbs::apply::is_apply;
use crate::verbs::delete::is_finished;
use crate::verbs::read::parse_revision;

/// How often a patch is retried after concurrent writes.
const PATCH_TRIES: usize = 5;

/// The result of an attempt to write, and its warnings.
type Attempt = (Result<Arc<Object>, Status>, Vec<String>);

/// Retries a patch after concurrent writes, within a number of attempts. Each of them may take as
/// many steps as a request. An error of `attempt` itself ends it at once.
/// `insists_on_version` ends it after the first one.
pub(crate) fn with_retries(
    insists_on_version: bool,
    mut attempt: impl FnMut() -> Result<Attempt, Status>,
) -> Result<Attempt, Status> {
    let mark = budget::mark();
    for _ in 1..PATCH_TRIES {
        match attempt()? {
            (Err(status), _) if status.code == 409 && !insists_on_version => {}
            result => return Ok(result),
        }
        budget::try_again(mark);
    }
    attempt()
}

/// A create, update or patch, after decoding.
pub(crate) struct Write<'a> {
    pub(super) request: RequestContext<'a>,
    pub(super) options: WriteOptions,
    /// The entries of managed fields, if they are known before the write: those of an apply.
    pub(super) managed: Option<Managed>,
    /// The errors in the entries that the request has set.
    managed_errors: Errors,
    /// The warnings for the client. It gets them with an error as well.
    pub(crate) warnings: Vec<String>,
    /// The patterns that the validation of a definition has compiled.
    patterns: Patterns,
}

impl<'a> Write<'a> {
    pub(crate) fn new(request: RequestContext<'a>, options: WriteOptions, warnings: Vec<String>) -> Self {
        Self { request, options, managed: None, managed_errors: Errors::default(), warnings, patterns: Patterns::new() }
    }
}

impl Shared {
    pub(crate) fn create(&self, request: &RequestContext<'_>) -> HandlerResult {
        let options = WriteOptions::read(request.query, "CreateOptions")?.seen_as(request.form);
        let decoded = self.decode(options.view.unwrap_or(request.kind), request, options.validation)?;
        let mut write = Write::new(*request, options, decoded.warnings);
        let response = self.create_decoded(&mut write, options.stored(decoded.value));
        with_warnings(response, write.warnings)
    }

    pub(super) fn create_decoded(&self, write: &mut Write<'_>, mut value: Value) -> HandlerResult {
        let RequestContext { kind, target, form, .. } = write.request;
        let meta = metadata::of(&mut value);
        metadata::settle_namespace(meta, kind, &target.namespace)?;
        write.warnings.extend(metadata::drop_duplicate_owners(meta, false));
        self.check_namespace(kind, &target.namespace, metadata::wanted_name(meta))?;
        self.check_escalation(&write.request, &value, None)?;
        let meta = metadata::of(&mut value);
        metadata::generate_name(meta, &self.world);
        let name = meta.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !kind.is_built_in() && self.customs.find(&kind.group, &kind.plural).is_some_and(|custom| custom.terminating)
        {
            return Err(Status::definition_terminating(kind.named(), &name));
        }
        let now = self.now();
        metadata::fill_new(meta, kind, &now, &self.world);
        let given = metadata::take_managed(&mut value);
        self.complete(write, &mut value, true)?;
        let (is_given, is_apply) = (given.is_some(), write.managed.is_some());
        let mut managed = match write.managed.take() {
            Some(managed) => managed,
            None => self.managed_of_new(write, &value, given, &now),
        };
        if is_given {
            write.managed_errors = managed.errors();
        }
        let managed = managed.text();
        self.prepare(write, &mut value, None)?;
        let release = |value: &Value| {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            builtin::release(kind, value, None, &mut *addresses);
        };
        let authorized = if is_apply { self.authorize_create(&write.request) } else { Ok(()) };
        let admitted = authorized.and_then(|()| self.check_owner_references(&write.request, &value, None));
        if let Err(refusal) = admitted {
            if !write.options.dry_run {
                release(&value);
            }
            return Err(refusal);
        }
        self.to_stored(kind, &mut value)?;
        let key = Key { namespace: target.namespace.as_str().into(), name: name.as_str().into() };
        if write.options.dry_run {
            if self.store.get(&kind.id(), &key).is_some() {
                return Err(self.already_exists(kind, &key));
            }
            // An object that was not written has no version but the one that the client sent.
            let shown = form.view().unwrap_or(kind);
            let mut value = convert::from_stored(shown, value);
            if !managed.is_empty() {
                value["metadata"]["managedFields"] = serde_json::from_slice(&managed).unwrap_or_default();
            }
            value["kind"] = shown.kind.as_str().into();
            value["apiVersion"] = shown.api_version().into();
            return Ok(response::json(StatusCode::CREATED, value.to_string()));
        }
        // The real server's storage refuses it, after all other checks.
        if value["metadata"]["resourceVersion"].as_str().is_some_and(|text| text.parse::<u64>().is_ok_and(|at| at != 0))
        {
            release(&value);
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }
        let fields = convert::selectable(kind, &value);
        let written =
            self.store.put(&kind.id(), &key, None, |revision| Object::managed_by(&value, &managed, revision, fields));
        let object = written.map_err(|error| {
            release(&value);
            match error {
                // The definition of the kind was deleted in between.
                WriteError::NotFound => Status::not_found(kind.named(), &name),
                WriteError::Exists | WriteError::Changed => self.already_exists(kind, &key),
            }
        })?;
        self.definition_written(kind, &key, &write.patterns);
        let mut work = Work::default();
        work.written(kind, None, &object);
        self.collect(work);
        let seen = self.seen(kind, &object)?;
        Ok(response::json(StatusCode::CREATED, form.object(kind, &seen)))
    }

    pub(crate) fn update(&self, request: &RequestContext<'_>) -> HandlerResult {
        let kind = request.kind;
        let options = WriteOptions::read(request.query, "UpdateOptions")?.seen_as(request.form);
        let decoded = self.decode(options.view.unwrap_or(kind), request, options.validation)?;
        let mut write = Write::new(*request, options, decoded.warnings);
        let written = self.update_decoded(&mut write, options.stored(decoded.value));
        let seen = written.and_then(|object| self.seen(kind, &object));
        let response = seen.map(|object| response::json(StatusCode::OK, request.form.object(kind, &object)));
        with_warnings(response, write.warnings)
    }

    fn update_decoded(&self, write: &mut Write<'_>, mut value: Value) -> Result<Arc<Object>, Status> {
        let request = write.request;
        check_identity(&mut value, &request)?;
        write.warnings.extend(metadata::drop_duplicate_owners(metadata::of(&mut value), false));
        let current = self.current(&request)?;
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(version, "" | "0") && request.kind.insists_on_version() {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(Status::invalid(request.kind.named(), &request.target.name, &[error]));
        }
        check_uid(&value, &request, &current)?;
        self.replace(write, &current, value)
    }

    pub(crate) fn patch(&self, request: &RequestContext<'_>) -> HandlerResult {
        let kind = request.kind;
        if is_apply(request) {
            return self.apply(request);
        }
        let options = WriteOptions::read(request.query, "PatchOptions")?.seen_as(request.form);
        let view = options.view.unwrap_or(kind);
        let patch = PatchRequest::read(request)?;
        let (written, warnings) = with_retries(patch.insists_on_version(), || {
            let current = self.current(request)?;
            let mut value = convert::from_stored(view, self.seen(kind, &current)?.value());
            if patch.touches_managed_fields() && !current.managed().is_empty() {
                value["metadata"]["managedFields"] = serde_json::from_slice(current.managed()).unwrap_or_default();
            }
            let value = patch.apply(value, view)?;
            let Decoded { value, warnings } = self.decode_patched(view, &patch, value, options.validation)?;
            let mut value = options.stored(value);
            check_identity(&mut value, request)?;
            metadata::check_kept(kind, &value, &current.value())?;
            let mut write = Write::new(*request, options, warnings);
            let written = self.replace(&mut write, &current, value);
            Ok((written, write.warnings))
        })?;
        let seen = written.and_then(|object| self.seen(kind, &object));
        let response = seen.map(|object| response::json(StatusCode::OK, request.form.object(kind, &object)));
        with_warnings(response, warnings)
    }

    fn already_exists(&self, kind: &Kind, key: &Key) -> Status {
        let status = Status::already_exists(kind.named(), &key.name);
        let deleting = self.store.get(&kind.id(), key).is_some_and(|object| object.is_deleting());
        if deleting { status.being_deleted() } else { status }
    }

    /// The stored object of the path.
    pub(crate) fn current(&self, request: &RequestContext<'_>) -> Result<Arc<Object>, Status> {
        let RequestContext { kind, target, .. } = *request;
        self.store.get(&kind.id(), &target.key()).ok_or_else(|| Status::not_found(kind.named(), &target.name))
    }

    /// Replaces `current` by `value`, as far as the request may change it.
    pub(crate) fn replace(
        &self,
        write: &mut Write<'_>,
        current: &Arc<Object>,
        mut value: Value,
    ) -> Result<Arc<Object>, Status> {
        let RequestContext { kind, target, .. } = write.request;
        let name = &target.name;
        let seen = self.seen(kind, current)?;
        let old = seen.value();
        self.check_escalation(&write.request, &value, Some(&old))?;
        let given = metadata::take_managed(&mut value);
        self.complete(write, &mut value, false)?;
        let is_given = given.is_some();
        let mut managed = match write.managed.take() {
            Some(managed) => managed,
            None => {
                let before = managed_fields::before(current.managed(), given.as_ref(), !target.subresource.is_empty());
                self.managed_after(write, &old, &value, before)
            }
        };
        // Those of an update are gone by now: this is for patches.
        write.warnings.extend(metadata::drop_duplicate_owners(metadata::of(&mut value), true));
        if is_given {
            write.managed_errors = managed.errors();
        }
        let managed = managed.text();
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let version = if version.is_empty() { 0 } else { parse_revision(version).map_err(Status::unexpected)? };
        // Zero is no precondition.
        if version != 0 && version != current.revision() {
            return Err(Status::modified(kind.named(), name));
        }
        if target.subresource == "status" {
            value = with_status(kind, value, &old);
        } else if kind.has_status() {
            match old.get("status") {
                Some(status) => value["status"] = status.clone(),
                None => drop(value.as_object_mut().map(|value| value.remove("status"))),
            }
        }
        self.prepare(write, &mut value, Some(&old))?;
        metadata::keep(&mut value, &old, kind, &target.subresource);
        self.to_stored(kind, &mut value)?;
        let dry_run = write.options.dry_run;
        let mut work = Work::default();
        if is_finished(kind, &value, current) && !dry_run {
            self.remove(kind, current, &mut work)?;
            self.collect(work);
            return Ok(Arc::new(Object::managed_by(&value, &managed, current.revision(), Vec::new())));
        }
        let stored = if Arc::ptr_eq(&seen, current) { old } else { current.value() };
        // A write of nothing but times is no write.
        if metadata::same(&value, &stored) && managed_fields::same_but_times(&managed, current.managed()) {
            return Ok(Arc::clone(current));
        }
        let fields = convert::selectable(kind, &value);
        if dry_run {
            return Ok(Arc::new(Object::managed_by(&value, &managed, current.revision(), fields)));
        }
        let key = current.key();
        let put = self
            .store
            .put(&kind.id(), key, Some(current), |revision| Object::managed_by(&value, &managed, revision, fields));
        let object = put.map_err(|error| match error {
            WriteError::NotFound => Status::not_found(kind.named(), name),
            WriteError::Exists | WriteError::Changed => Status::modified(kind.named(), name),
        })?;
        self.definition_written(kind, key, &write.patterns);
        work.written(kind, Some(current), &object);
        self.collect(work);
        Ok(object)
    }

    /// Sets the defaults of the kind in a decoded object.
    fn complete(&self, write: &Write<'_>, value: &mut Value, is_new: bool) -> Result<(), Status> {
        let RequestContext { kind, target, .. } = write.request;
        if kind.is_definition() {
            crd::check_listed_names(value)?;
            crd::fill_stored_versions(value);
            if target.subresource.is_empty() {
                crd::fill(value);
            }
        } else if kind.is_built_in() {
            builtin::complete(kind, value, is_new);
        }
        Ok(())
    }

    /// Sets the fields that the server decides, and refuses what the kind does not allow. A refused
    /// write has no warnings of its kind.
    fn prepare(&self, write: &mut Write<'_>, value: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let Write { request: RequestContext { kind, target, .. }, options, .. } = *write;
        let subresource = target.subresource.as_str();
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut warnings = Vec::new();
        let mut errors = Errors::default();
        if kind.is_definition() {
            if subresource.is_empty() {
                crd::prepare(value, old);
                warnings = crd::warnings(value);
                errors.extend(crd::check(value, old, &mut write.patterns));
            }
        } else if kind.is_built_in() {
            match old {
                None => {
                    builtin::prepare_for_create(kind, value);
                    errors.extend(builtin::validate_create(options.view.unwrap_or(kind), value));
                }
                Some(old) => {
                    builtin::prepare_for_update(kind, value, old, subresource);
                    match subresource {
                        "" => errors.extend(builtin::validate_update(options.view.unwrap_or(kind), value, old)),
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
        all.extend(write.managed_errors.iter().cloned());
        all.extend(old.map(|old| metadata::check_finalizers(value, old)).unwrap_or_default());
        if old.is_some() {
            let mut again = metadata::check_labels(value);
            again.extend(write.managed_errors.iter().cloned());
            all.extend((1..kind.label_checks(subresource)).flat_map(|_| again.iter().cloned()));
        }
        all.extend(errors);
        budget::check()?;
        if all.is_empty()
            && let Some(old) = old
        {
            self.check_owner_references(&write.request, value, Some(old))?;
        }
        if all.is_empty() && kind.is_built_in() && subresource.is_empty() {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            let allocated = if options.dry_run {
                builtin::allocate(kind, value, old, &mut DryRun::of(&addresses))
            } else {
                builtin::allocate(kind, value, old, &mut *addresses)
            };
            all = allocated.err().unwrap_or_default();
            if let Some(old) = old.filter(|_| !options.dry_run) {
                builtin::release(kind, old, Some(value), &mut *addresses);
            }
        }
        if !all.is_empty() {
            return Err(Status::invalid(kind.named_kind(), &name, &all));
        }
        write.warnings.extend(warnings);
        Ok(())
    }

    /// Refuses to create objects in a namespace that does not exist, or is being deleted.
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

/// The old object with the status of `value`, and with the metadata that the kind allows to change
/// here.
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

/// The name and the namespace of a written object are those of the path.
pub(crate) fn check_identity(value: &mut Value, request: &RequestContext<'_>) -> Result<(), Status> {
    let meta = metadata::of(value);
    metadata::settle_namespace(meta, request.kind, &request.target.namespace)?;
    check_name(meta.get("name").and_then(Value::as_str).unwrap_or_default(), request.target)
}

/// Refuses to replace another object of that name.
pub(crate) fn check_uid(value: &Value, request: &RequestContext<'_>, current: &Object) -> Result<(), Status> {
    let RequestContext { kind, target, .. } = *request;
    let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| *uid != current.uid()) else { return Ok(()) };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {uid}, UID in object meta: {}",
        kind.storage_path(&target.key()),
        current.uid()
    );
    Err(Status::conflict(kind.named(), &target.name, &why))
}

/// The response or refusal with these warnings.
pub(crate) fn with_warnings(response: HandlerResult, warnings: Vec<String>) -> HandlerResult {
    match response {
        Ok(response) => Ok(response.warning(&warnings)),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::kinds;

    /// A patch that is retried after `conflicts` concurrent writes, with this many steps each time:
    /// its result, and the number of attempts.
    fn tried(conflicts: usize, steps: usize) -> (u16, usize) {
        let pods = kinds::builtin().resource("", "v1", "pods").unwrap();
        let written = Arc::new(Object::new(&json!({"metadata": {"name": "a"}}), 1, Vec::new()));
        let mut tries = 0;
        let (result, cost) = budget::metered(|| {
            with_retries(false, || {
                tries += 1;
                budget::step(steps);
                budget::check()?;
                let result =
                    if tries > conflicts { Ok(Arc::clone(&written)) } else { Err(Status::modified(pods.named(), "a")) };
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
