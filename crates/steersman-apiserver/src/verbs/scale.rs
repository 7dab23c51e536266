//! The scale subresource: the desired and actual number of replicas, in one form for every kind
//! that can be scaled.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};
use steersman_wire::LabelSelector;

use crate::request::patch_request::PatchRequest;
use crate::request::write_options::{self, WriteOptions};
use crate::request::{RequestContext, ResourceRequest, Verb};
use crate::response::form::Form;
use crate::response::status::{Errors, FieldError, Named, Status};
use crate::response::{self, HandlerResult};
use crate::rules::crd::{Scale as Paths, Version};
use crate::rules::custom::Custom;
use crate::rules::go_text;
use crate::rules::kinds::{Kind, api_version, builtin};
use crate::rules::managed_fields::{self, Managed, Resource, ScaleFields, Writer};
use crate::rules::metadata;
use crate::rules::schema::Decoded;
use crate::server::Shared;
use crate::store::object::Object;
use crate::verbs::apply::{ApplyRequest, is_apply};
use crate::verbs::write::{self, Write, with_warnings};

/// The name of the subresource, and of its paths.
pub(crate) const SCALE: &str = "scale";

/// The number of replicas that a patch sees if the object has none.
const UNSET: i64 = i32::MIN as i64;

/// The real server's message for every invalid Scale of a custom resource.
const UNREADABLE: &str = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";

impl Shared {
    /// Handles a request for the scale of an object.
    pub(crate) fn scale(&self, request: &RequestContext<'_>) -> HandlerResult {
        let kind = request.kind;
        let scaled = Scaled { kind, scale: scale_kind(kind), paths: self.scale_paths(kind) };
        match request.target.verb {
            Verb::Get => {
                let object = self.seen(kind, &self.current(request)?)?;
                let value = object.value();
                if let Some(paths) = &scaled.paths
                    && paths.wanted(&value).map_err(Status::unexpected)?.is_none()
                {
                    let what = format!("the spec replicas field {:?} does not exist", paths.spec_replicas_path);
                    return Err(Status::internal(&what));
                }
                scaled.respond(request.form, &object)
            }
            Verb::Update => self.update_scale(&scaled, request),
            Verb::Patch => self.patch_scale(&scaled, request),
            _ => Err(Status::no_such_method()),
        }
    }

    /// The paths of the scale's fields in a custom resource; `None` for built-in kinds.
    fn scale_paths(&self, kind: &Kind) -> Option<Paths> {
        self.customs.find(&kind.group, &kind.plural)?.version(&kind.version)?.scale.clone()
    }

    /// Where the versions of a kind have their number of replicas.
    fn scale_fields<'a>(&self, kind: &Kind, custom: Option<&'a Custom>) -> ScaleFields<'a> {
        let paths = match custom {
            Some(custom) => {
                let path = |version: &'a Version| {
                    let path = version.scale.as_ref().map(|paths| paths.spec_replicas_path.trim_start_matches('.'));
                    (api_version(&kind.group, &version.name), path.map(|path| path.split('.').collect()))
                };
                custom.versions().map(path).collect()
            }
            None => {
                // Entries of versions that are no longer served are kept, too.
                let former: &[&str] = match &*kind.plural {
                    "deployments" | "statefulsets" => &["apps/v1beta1", "apps/v1beta2"],
                    "replicasets" => &["apps/v1beta2"],
                    _ => &[],
                };
                let versions = former.iter().map(|&version| version.to_owned()).chain([kind.api_version()]);
                versions.map(|version| (version, Some(vec!["spec", "replicas"]))).collect()
            }
        };
        ScaleFields { api_version: kind.api_version(), paths }
    }

    /// The managed fields of an object after its Scale was updated.
    fn managed_after_scale(
        &self,
        scaled: &Scaled<'_>,
        request: &RequestContext<'_>,
        current: &Object,
        (before, after): (&Value, &Value),
    ) -> Managed {
        let custom = self.customs.find_custom(scaled.kind);
        let fields = self.scale_fields(scaled.kind, custom.as_deref());
        let parent = Managed::stored(current.managed());
        let resource = Resource::new(&scaled.scale, None, SCALE);
        let manager = write_options::manager(request.query, request.headers);
        let writer = Writer { manager: &manager, now: &self.now(), force: false };
        let of_scale = managed_fields::update(&resource, before, after, fields.of_scale(&parent), writer);
        fields.of_parent(&parent, of_scale)
    }

    /// Applies the number of replicas.
    fn apply_scale(&self, scaled: &Scaled<'_>, request: &RequestContext<'_>) -> HandlerResult {
        let options = WriteOptions::read_apply(request.query)?;
        self.current(request)?;
        let apply = ApplyRequest::read(request)?;
        let plain = ResourceRequest { subresource: String::new(), ..request.target.clone() };
        let custom = self.customs.find_custom(scaled.kind);
        let fields = self.scale_fields(scaled.kind, custom.as_deref());
        let (written, warnings) = write::with_retries(apply.insists_on_version(), || {
            let current = self.current(request)?;
            let old = self.seen(scaled.kind, &current)?.value();
            let mut live = scaled.scale_before(&old)?;
            live["kind"] = scaled.scale.kind.as_str().into();
            live["apiVersion"] = scaled.scale.api_version().into();
            let parent = Managed::stored(current.managed());
            let resource = Resource::new(&scaled.scale, None, SCALE);
            let applied = apply.apply(&resource, &live, &fields.of_scale(&parent), &self.now())?;
            if scaled.paths.is_some() && applied.value.is_some() {
                // The real server cannot do it, either.
                let what = "request to convert CR to an invalid group/version: autoscaling/v1";
                return Err(apply.unconverted(what));
            }
            let warnings = apply.check_duplicates(options.validation)?;
            let mut value = self.decode_applied(&scaled.scale, applied.value.unwrap_or(live))?;
            write::check_identity(&mut value, request)?;
            let object = scaled.applied(&value, &old)?;
            let mut write = Write::new(RequestContext { target: &plain, ..*request }, options, warnings);
            write.managed = Some(fields.of_parent(&parent, applied.managed));
            let written = self.replace(&mut write, &current, object);
            Ok((written, write.warnings))
        })?;
        let seen = written.and_then(|object| self.seen(scaled.kind, &object));
        with_warnings(seen.and_then(|object| scaled.respond(request.form, &object)), warnings)
    }

    fn update_scale(&self, scaled: &Scaled<'_>, request: &RequestContext<'_>) -> HandlerResult {
        let options = WriteOptions::read(request.query, "UpdateOptions")?;
        let decoded = self.decode(&scaled.scale, request, options.validation);
        let Decoded { mut value, warnings } = decoded.map_err(|status| match scaled.paths {
            Some(_) if status.code == 400 => Status::bad_request(UNREADABLE),
            _ => status,
        })?;
        write::check_identity(&mut value, request)?;
        let current = self.current(request)?;
        write::check_uid(&value, request, &current)?;
        metadata::take_managed(&mut value);
        let old = self.seen(scaled.kind, &current)?.value();
        let object = scaled.applied(&value, &old)?;
        let before = scaled.scale_before(&old)?;
        let managed = self.managed_after_scale(scaled, request, &current, (&before, &value));
        let plain = ResourceRequest { subresource: String::new(), ..request.target.clone() };
        let mut write = Write::new(RequestContext { target: &plain, ..*request }, options, warnings);
        write.managed = Some(managed);
        let written = self.replace(&mut write, &current, object);
        let seen = written.and_then(|object| self.seen(scaled.kind, &object));
        let response = seen.and_then(|object| scaled.respond(request.form, &object));
        with_warnings(response, write.warnings)
    }

    fn patch_scale(&self, scaled: &Scaled<'_>, request: &RequestContext<'_>) -> HandlerResult {
        if is_apply(request) {
            return self.apply_scale(scaled, request);
        }
        let options = WriteOptions::read(request.query, "PatchOptions")?;
        let patch = PatchRequest::read(request)?;
        let plain = ResourceRequest { subresource: String::new(), ..request.target.clone() };
        let (written, warnings) = write::with_retries(patch.insists_on_version(), || {
            let current = self.current(request)?;
            let old = self.seen(scaled.kind, &current)?.value();
            let before = scaled.scale_before(&old)?;
            let patched = patch.apply(before.clone(), &scaled.scale)?;
            let Decoded { mut value, warnings } =
                self.decode_patched(&scaled.scale, &patch, patched, options.validation)?;
            write::check_identity(&mut value, request)?;
            metadata::take_managed(&mut value);
            let object = scaled.applied(&value, &old)?;
            let mut write = Write::new(RequestContext { target: &plain, ..*request }, options, warnings);
            write.managed = Some(self.managed_after_scale(scaled, request, &current, (&before, &value)));
            let written = self.replace(&mut write, &current, object);
            Ok((written, write.warnings))
        })?;
        let seen = written.and_then(|object| self.seen(scaled.kind, &object));
        with_warnings(seen.and_then(|object| scaled.respond(request.form, &object)), warnings)
    }
}

/// A kind that can be scaled.
struct Scaled<'a> {
    kind: &'a Kind,
    /// The kind of its scale.
    scale: Kind,
    /// The paths of the fields in a custom resource. Built-in kinds have fixed ones.
    paths: Option<Paths>,
}

impl Scaled<'_> {
    fn respond(&self, form: Form, object: &Object) -> HandlerResult {
        let scale = Object::new(&self.scale_of(&object.value())?, object.revision(), Vec::new());
        Ok(response::json(StatusCode::OK, form.object(&self.scale, &scale)))
    }

    /// The scale of an object.
    fn scale_of(&self, value: &Value) -> Result<Value, Status> {
        let (wanted, has, selector) = match &self.paths {
            Some(paths) => {
                let read = || -> Result<_, String> {
                    Ok((paths.wanted(value)?.unwrap_or(0), paths.has(value)?, paths.selector(value)?))
                };
                read().map_err(Status::unexpected)?
            }
            None => {
                let number = |part: &str| value[part]["replicas"].as_i64().unwrap_or(0);
                (number("spec"), number("status"), self.selector(value)?)
            }
        };
        let meta = &value["metadata"];
        let fields = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), meta.get(field)?.clone())));
        let mut scale = json!({
            "metadata": kept.collect::<Map<_, _>>(),
            "spec": {},
            "status": {"replicas": has},
        });
        if wanted != 0 {
            scale["spec"]["replicas"] = wanted.into();
        }
        if !selector.is_empty() {
            scale["status"]["selector"] = selector.into();
        }
        Ok(scale)
    }

    /// The scale of an object as a patch sees it: a custom resource need not have a number.
    fn scale_before(&self, value: &Value) -> Result<Value, Status> {
        let mut scale = self.scale_of(value)?;
        if let Some(paths) = &self.paths
            && paths.wanted(value).map_err(Status::unexpected)?.is_none()
        {
            scale["spec"]["replicas"] = UNSET.into();
        }
        Ok(scale)
    }

    /// The selector of a built-in kind as text.
    fn selector(&self, value: &Value) -> Result<String, Status> {
        let selector = &value["spec"]["selector"];
        let selector = match self.kind.plural.as_str() {
            "replicationcontrollers" => json!({ "matchLabels": selector }),
            _ => selector.clone(),
        };
        let read = LabelSelector::from_json(&selector).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(read.to_string())
    }

    /// The old object with the number of replicas of the scale.
    fn applied(&self, scale: &Value, old: &Value) -> Result<Value, Status> {
        let wanted = scale["spec"]["replicas"].as_i64().unwrap_or(0);
        let mut value = old.clone();
        match &self.paths {
            Some(paths) => {
                if wanted == UNSET {
                    let path = &paths.spec_replicas_path;
                    return Err(Status::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
                }
                set(&mut value, &paths.spec_replicas_path, wanted.into());
            }
            None => {
                self.check(scale, old, wanted)?;
                value["spec"]["replicas"] = wanted.into();
            }
        }
        match scale["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty()) {
            Some(version) => value["metadata"]["resourceVersion"] = version.into(),
            None => drop(metadata::of(&mut value).remove("resourceVersion")),
        }
        Ok(value)
    }

    fn check(&self, scale: &Value, old: &Value, wanted: i64) -> Result<(), Status> {
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let mut errors = metadata::check(&self.scale, scale, name);
        if wanted < 0 {
            errors.push(FieldError::invalid("spec.replicas", wanted, "must be greater than or equal to 0"));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(self.scale.named_kind(), name, &errors));
        }
        let uid = old["metadata"]["uid"].as_str().unwrap_or_default();
        match scale["metadata"]["uid"].as_str().filter(|given| !given.is_empty() && *given != uid) {
            None => Ok(()),
            Some(given) => {
                let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
                let resource = format!("{}/{SCALE}", self.kind.plural);
                Err(Status::conflict(Named { group: &self.kind.group, resource: &resource }, name, &why))
            }
        }
    }
}

/// The kind of the body for the scale of `kind`.
fn scale_kind(kind: &Kind) -> Kind {
    Kind {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        list_kind: "ScaleList".to_owned(),
        plural: "scales".to_owned(),
        singular: "scale".to_owned(),
        namespaced: kind.namespaced,
        verbs: Vec::new(),
        short_names: Arc::default(),
        categories: Arc::default(),
        storage_version_hash: None,
        subresources: Vec::new(),
        fields: builtin().types.find("autoscaling.v1.Scale"),
        selectable: Vec::new(),
        printer_columns: Arc::default(),
    }
}

impl Paths {
    /// The desired number of replicas, if it is set.
    fn wanted(&self, value: &Value) -> Result<Option<i64>, String> {
        number(value, &self.spec_replicas_path)
    }

    /// The actual number of replicas.
    fn has(&self, value: &Value) -> Result<i64, String> {
        Ok(number(value, &self.status_replicas_path)?.unwrap_or(0))
    }

    fn selector(&self, value: &Value) -> Result<String, String> {
        let Some(path) = &self.label_selector_path else { return Ok(String::new()) };
        match find(value, path)? {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(accessor_error(path, other, "string")),
        }
    }

    /// The errors in the fields that the scale of a custom resource is read from.
    pub(crate) fn check(&self, value: &Value, status_alone: bool) -> Errors {
        let mut errors = Errors::default();
        let mut check_number = |path: &str| match number(value, path) {
            Err(what) => errors.push(FieldError::invalid(path, 0, what)),
            Ok(Some(below)) if below < 0 => {
                errors.push(FieldError::invalid(path, below, "should be a non-negative integer"));
            }
            Ok(Some(above)) if above > i64::from(i32::MAX) => {
                let what = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(path, above, what));
            }
            Ok(_) => {}
        };
        if !status_alone {
            check_number(&self.spec_replicas_path);
        }
        check_number(&self.status_replicas_path);
        if let (Err(what), Some(path)) = (self.selector(value), &self.label_selector_path) {
            errors.push(FieldError::invalid(path.as_str(), "", what));
        }
        errors
    }
}

fn number(value: &Value, path: &str) -> Result<Option<i64>, String> {
    match find(value, path)? {
        None => Ok(None),
        Some(found) => found.as_i64().map(Some).ok_or_else(|| accessor_error(path, found, "int64")),
    }
}

/// The value at a path like `.spec.replicas`, or Go's error about a step that is no object.
fn find<'a>(value: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut found = value;
    let mut so_far = String::new();
    for step in path.trim_start_matches('.').split('.') {
        let Value::Object(members) = found else {
            return Err(accessor_error(&so_far, found, "map[string]interface{}"));
        };
        match members.get(step) {
            None => return Ok(None),
            Some(member) => found = member,
        }
        so_far = format!("{so_far}.{step}");
    }
    Ok(Some(found))
}

fn accessor_error(path: &str, found: &Value, expected: &str) -> String {
    format!(
        "{path} accessor error: {} is of the type {}, expected {expected}",
        go_text::text(found),
        go_text::type_name(found)
    )
}

/// Sets the value at a path like `.spec.replicas`.
fn set(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for step in path.trim_start_matches('.').split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[step];
    }
    *place = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        Paths {
            spec_replicas_path: ".spec.replicas".to_owned(),
            status_replicas_path: ".status.replicas".to_owned(),
            label_selector_path: Some(".status.selector".to_owned()),
        }
    }

    #[test]
    fn fields_of_another_type_are_reported_as_by_go() {
        let value =
            json!({"spec": {"replicas": "five"}, "status": {"replicas": 1.5, "selector": {"b": ["x", 1], "a": null}}});
        let errors: Vec<String> = paths().check(&value, false).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: five is of the type string, expected int64",
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: 1.5 is of the type float64, expected int64",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: map[a:<nil> b:[x 1]] is of the \
                 type map[string]interface {}, expected string",
            ]
        );
        let value = json!({"spec": 5});
        assert_eq!(
            paths().wanted(&value).unwrap_err(),
            ".spec accessor error: 5 is of the type int64, expected map[string]interface{}"
        );
        assert_eq!(paths().check(&json!({"spec": {"replicas": 3_000_000_000_i64}}), false).len(), 1);
        assert!(paths().check(&json!({"spec": {"replicas": -1}}), true).is_empty());
    }

    #[test]
    fn a_field_is_set_where_nothing_was() {
        let mut value = json!({"metadata": {}});
        set(&mut value, ".spec.replicas", 3.into());
        assert_eq!(value, json!({"metadata": {}, "spec": {"replicas": 3}}));
    }
}
