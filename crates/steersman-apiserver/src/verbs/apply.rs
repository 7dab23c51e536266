//! Server-side apply: a patch that is the desired state of the fields that its manager has.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::request::RequestContext;
use crate::request::body::media_type;
use crate::request::budget;
use crate::request::write_options::{self, WriteOptions};
use crate::request::yaml;
use crate::response::status::Status;
use crate::response::{self, HandlerResult, html_safe};
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::rules::managed_fields::{self, Applied, ApplyError, Managed, Resource, Writer};
use crate::rules::metadata;
use crate::rules::schema::{FieldValidation, decode_value};
use crate::server::Shared;
use crate::store::object::Object;
use crate::verbs::write::{Write, check_identity, with_retries, with_warnings};

const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// A configuration as it was sent.
pub(super) struct ApplyRequest {
    config: Value,
    manager: String,
    force: bool,
    /// The keys that come twice in it.
    duplicates: Vec<String>,
}

/// Whether a patch is an apply.
pub(crate) fn is_apply(request: &RequestContext<'_>) -> bool {
    media_type(request.headers) == MEDIA_TYPE
}

impl ApplyRequest {
    /// Parses the body.
    pub(super) fn read(request: &RequestContext<'_>) -> Result<Self, Status> {
        let wrong = |what: &str| Status::bad_request(format!("error decoding YAML: {what}"));
        let document = yaml::read(request.body);
        budget::check()?;
        let document = document.map_err(|what| wrong(&format!("error converting YAML to JSON: {what}")))?;
        let found = match &document.value {
            Value::Object(_) | Value::Null => None,
            Value::Array(_) => Some("array"),
            Value::String(_) => Some("string"),
            Value::Number(_) => Some("number"),
            Value::Bool(_) => Some("bool"),
        };
        if let Some(found) = found {
            return Err(wrong(&format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                 map[string]interface {{}}"
            )));
        }
        let config = if document.value.is_null() { json!({}) } else { document.value };
        Ok(Self {
            config,
            manager: write_options::manager(request.query, request.headers),
            force: request.query.is_on("force"),
            duplicates: document.duplicates,
        })
    }

    /// Whether it requires a version of the object.
    pub(super) fn insists_on_version(&self) -> bool {
        !self.config["metadata"]["resourceVersion"].is_null()
    }

    /// Applies it to an object in the version of the request.
    pub(super) fn apply(
        &self,
        resource: &Resource<'_>,
        live: &Value,
        managed: &Managed,
        now: &str,
    ) -> Result<Applied, Status> {
        let (given, kind) = (kind_of(&self.config), resource.kind());
        if given != described(&kind.group, &kind.version, &kind.kind) {
            return Err(Status::bad_request(format!("invalid object type: {given}")));
        }
        if self.config["metadata"]["managedFields"].is_array() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let apply = |force| {
            let writer = Writer { manager: &self.manager, now, force };
            managed_fields::apply(resource, live, &self.config, managed.clone(), writer)
        };
        let mut applied = apply(self.force);
        if let Err(ApplyError::Conflicts(conflicts)) = &applied
            && self.manager == managed_fields::KUBECTL
        {
            // What kubectl has applied by itself, it may apply again.
            let left = managed_fields::left_by_last_applied(resource, live, conflicts.clone());
            applied = if left.is_empty() { apply(true) } else { Err(ApplyError::Conflicts(left)) };
        }
        budget::check()?;
        applied.map_err(|error| match error {
            ApplyError::Conflicts(conflicts) => managed_fields::refuse_conflicts(conflicts),
            ApplyError::Patch(what) => {
                Status::unexpected(format!("failed to create typed patch object {}: {what}", self.described()))
            }
            ApplyError::Live(what) => {
                Status::unexpected(format!("failed to create typed live object {}: {what}", self.described()))
            }
            ApplyError::Other(what) => Status::unexpected(what),
        })
    }

    /// The configuration as messages name it.
    fn described(&self) -> String {
        let text = |name: &str| self.config["metadata"][name].as_str().unwrap_or_default();
        format!("({}/{}; {})", text("namespace"), text("name"), kind_of(&self.config))
    }

    /// The refusal if the merged object cannot be decoded.
    pub(super) fn unconverted(&self, what: &str) -> Status {
        let object = self.described();
        Status::unexpected(format!("failed to convert new object {object} to proper version: {what}"))
    }

    /// Keeps the annotation of client-side applies in step with those of kubectl here.
    fn record(&self, value: &mut Value) {
        let Some(annotations) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
            return;
        };
        let has_annotation =
            annotations.get(managed_fields::LAST_APPLIED).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if self.manager != managed_fields::KUBECTL || !has_annotation {
            return;
        }
        let mut config = self.config.clone();
        if let Some(own) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            own.remove(managed_fields::LAST_APPLIED);
        }
        let text = html_safe(config.to_string()) + "\n";
        budget::make(text.len());
        annotations.insert(managed_fields::LAST_APPLIED.to_owned(), text.into());
        if metadata::annotations_are_too_long(annotations) {
            annotations.remove(managed_fields::LAST_APPLIED);
        }
    }

    /// Refuses keys that come twice, or returns the warnings about them.
    pub(super) fn check_duplicates(&self, validation: FieldValidation) -> Result<Vec<String>, Status> {
        if self.duplicates.is_empty() || validation == FieldValidation::Ignore {
            return Ok(Vec::new());
        }
        let duplicates = self.duplicates.join("\n  ");
        let what = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {duplicates}");
        match validation {
            FieldValidation::Strict => Err(Status::bad_request(format!("error strict decoding YAML: {what}"))),
            _ => Ok(self.duplicates.clone()),
        }
    }
}

impl Shared {
    /// Creates or changes an object by an apply.
    pub(crate) fn apply(&self, request: &RequestContext<'_>) -> HandlerResult {
        let kind = request.kind;
        let options = WriteOptions::read_apply(request.query)?.seen_as(request.form);
        // Only the object itself is created.
        if !request.target.subresource.is_empty() {
            self.current(request)?;
        }
        let apply = ApplyRequest::read(request)?;
        let mut created = None;
        let (written, warnings) = with_retries(apply.insists_on_version(), || {
            let current = self.store.get(&kind.id(), &request.target.key());
            let (value, managed, warnings) = self.applied(&apply, request, options, current.as_ref())?;
            let mut write = Write::new(*request, options, warnings);
            write.managed = Some(managed);
            match current {
                Some(current) => {
                    let written = self.replace(&mut write, &current, value);
                    Ok((written, write.warnings))
                }
                None => {
                    let response = self.create_decoded(&mut write, value);
                    let response = with_warnings(response, write.warnings);
                    // Another request may have created it.
                    if let Err(status) = response.as_ref()
                        && status.code == 409
                        && self.store.get(&kind.id(), &request.target.key()).is_some()
                    {
                        return Ok((Err(status.clone()), Vec::new()));
                    }
                    created = Some(response?);
                    // The response is made already.
                    Ok((Ok(Arc::new(Object::new(&Value::Null, 0, Vec::new()))), Vec::new()))
                }
            }
        })?;
        if let Some(created) = created {
            return Ok(created);
        }
        let seen = written.and_then(|object| self.seen(kind, &object));
        let response = seen.map(|object| response::json(http::StatusCode::OK, request.form.object(kind, &object)));
        with_warnings(response, warnings)
    }

    /// The object after an apply, in its stored form, with its managed fields and the warnings.
    fn applied(
        &self,
        apply: &ApplyRequest,
        request: &RequestContext<'_>,
        options: WriteOptions,
        current: Option<&Arc<Object>>,
    ) -> Result<(Value, Managed, Vec<String>), Status> {
        let kind = request.kind;
        let view = options.view.unwrap_or(kind);
        let custom = self.customs.find_custom(kind);
        let resource = Resource::new(view, custom.as_deref(), &request.target.subresource);
        let (live, managed) = match current {
            Some(current) => {
                let mut live = convert::from_stored(view, self.seen(kind, current)?.value());
                live["kind"] = view.kind.as_str().into();
                live["apiVersion"] = view.api_version().into();
                (live, Managed::stored(current.managed()))
            }
            None => (resource.empty(), Managed::default()),
        };
        let applied = apply.apply(&resource, &live, &managed, &self.now())?;
        let mut value = applied.value.unwrap_or(live);
        apply.record(&mut value);
        let warnings = apply.check_duplicates(options.validation)?;
        let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
        if current.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(kind.named(), &request.target.name, &why));
        }
        let value = self.decode_applied(view, value)?;
        let mut value = options.stored(value);
        check_identity(&mut value, request)?;
        match current {
            Some(current) => metadata::check_kept(kind, &value, &current.value())?,
            // There is nothing yet that could have this version.
            None => drop(metadata::of(&mut value).remove("resourceVersion")),
        }
        Ok((value, applied.managed, warnings))
    }

    /// Decodes a merged object. Its fields are known, or it would not have been merged.
    pub(super) fn decode_applied(&self, kind: &Kind, value: Value) -> Result<Value, Status> {
        let decoded = match kind.fields {
            Some(fields) => decode_value(value, fields, FieldValidation::Ignore).map(|decoded| decoded.value),
            None => {
                let mut value = value;
                self.coerce_custom(kind, &mut value, FieldValidation::Ignore).map(|_| value)
            }
        };
        decoded.map_err(|error| Status::unexpected(error.to_string()))
    }
}

/// The group, version and kind of an object, as messages print them.
fn kind_of(value: &Value) -> String {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let api_version = text("apiVersion");
    if api_version.matches('/').count() > 1 {
        return described("", "", "");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    described(group, version, text("kind"))
}

fn described(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}
