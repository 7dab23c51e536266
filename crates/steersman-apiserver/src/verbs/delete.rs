//! Delete: preconditions, grace and finalizers. The garbage collector handles the consequences.

use std::sync::{Arc, PoisonError};

use http::StatusCode;
use serde_json::{Value, json};

use crate::clock;
use crate::lifecycle::garbage::Work;
use crate::lifecycle::grace::{self, Grace};
use crate::request::RequestContext;
use crate::request::budget;
use crate::request::delete_options::DeleteOptions;
use crate::response::status::Status;
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::builtin;
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::rules::metadata;
use crate::server::{FIRST_NAMESPACES, Shared};
use crate::store::object::Object;
use crate::store::{Key, WriteError};
use crate::verbs::managed::Controller;
use crate::verbs::read::Page;

/// The result of a delete.
pub(crate) enum Deleted {
    /// The object as it is now: it waits for its finalizers, or has a grace period.
    Pending(Arc<Object>),
    /// The last state of the object.
    Removed(Arc<Object>),
}

impl Shared {
    pub(crate) fn delete(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { kind, form, .. } = *request;
        let options = DeleteOptions::read(request.query, request.body)?;
        let key = request.target.key();
        if kind.is_namespace() && FIRST_NAMESPACES[..3].contains(&&*key.name) {
            return Err(Status::forbidden(kind.named(), &key.name, "this namespace may not be deleted"));
        }
        let mut work = Work::default();
        let deleted = self.delete_one(kind, &key, &options, &mut work);
        self.collect(work);
        let response = match deleted? {
            Deleted::Pending(object) => {
                let code = if options.orphan == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
                // The deletion is done, whether its response can have all defaults or not.
                let seen = self.seen(kind, &object).unwrap_or(object);
                response::json(code, form.object(kind, &seen))
            }
            Deleted::Removed(object) if returns_object(kind) => {
                response::json(StatusCode::OK, form.object(kind, &object))
            }
            Deleted::Removed(object) => {
                let mut details = json!({"name": &*key.name, "kind": kind.plural, "uid": object.uid()});
                if !kind.group.is_empty() {
                    details["group"] = kind.group.as_str().into();
                }
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                response::json(StatusCode::OK, status.to_string())
            }
        };
        Ok(response.warning(&options.warnings(kind)))
    }

    pub(crate) fn delete_collection(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { kind, form, .. } = *request;
        let Page { metadata, objects } = self.page(request, true)?;
        let options = DeleteOptions::read(request.query, request.body)?;
        let mut work = Work::default();
        let deleted = objects.iter().try_for_each(|object| {
            match self.delete_one(kind, object.key(), &options, &mut work) {
                // Another client was faster.
                Err(status) if status.code != 404 => Err(status),
                _ => Ok(()),
            }
        });
        self.collect(work);
        deleted?;
        // As they were when they were found.
        Ok(form.list(kind, &metadata, objects).warning(&options.warnings(kind)))
    }

    /// Deletes an object as far as that is possible at once. The consequences are added to `work`.
    /// They are bounded by the stored objects, and not charged to the request: one of many
    /// deletions must not be refused half-way.
    pub(crate) fn delete_one(
        &self,
        kind: &Kind,
        key: &Key,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        budget::unmetered(|| self.delete_stored(kind, key, options, work))
    }

    fn delete_stored(
        &self,
        kind: &Kind,
        key: &Key,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        loop {
            let current = self.store.get(&kind.id(), key).ok_or_else(|| Status::not_found(kind.named(), &key.name))?;
            options.check(kind, &current)?;
            let tried = if kind.is_namespace() {
                self.try_delete_namespace(kind, &current, options, work)
            } else if kind.is_definition() {
                self.try_delete_definition(kind, &current, options, work)
            } else {
                self.try_delete(kind, &current, options, work)
            };
            match tried {
                // Another client wrote between the read and the deletion: the new state is deleted.
                Err(status) if status.code == 409 => {}
                result => return result,
            }
        }
    }

    pub(crate) fn try_delete(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        options: &DeleteOptions,
        work: &mut Work,
    ) -> Result<Deleted, Status> {
        let mut value = current.value();
        let now = self.seconds();
        let grace = grace::begin(kind, &mut value, options.grace, now);
        if grace == Grace::Pending {
            return Ok(Deleted::Pending(Arc::clone(current)));
        }
        if let Some(wanted) = options.finalizers(kind, finalizers(&value)) {
            set_finalizers(&mut value, wanted);
        }
        let waits = !finalizers(&value).is_empty();
        match grace {
            Grace::None if waits => mark(&mut value, now),
            Grace::None if options.dry_run => return Ok(Deleted::Removed(Arc::clone(current))),
            Grace::None => return Ok(Deleted::Removed(self.remove(kind, current, work)?)),
            _ => {}
        }
        let stays = waits || matches!(grace, Grace::Given(seconds) if seconds > 0);
        if options.dry_run {
            let marked = Arc::new(Object::managed_by(&value, current.managed(), current.revision(), Vec::new()));
            return Ok(if stays { Deleted::Pending(marked) } else { Deleted::Removed(marked) });
        }
        let marked = self.put(kind, current, &value, work)?;
        if stays {
            return Ok(Deleted::Pending(marked));
        }
        Ok(Deleted::Removed(self.remove(kind, &marked, work)?))
    }

    /// Writes an object, unless that changes nothing. The consequences are added to `work`. As in
    /// the real server, no manager gets the fields that a deletion or a binding changes.
    pub(crate) fn put(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        value: &Value,
        work: &mut Work,
    ) -> Result<Arc<Object>, Status> {
        self.put_managed(kind, current, (value, current.managed()), work)
    }

    /// The same for a controller, which is the manager of what it changes.
    pub(crate) fn put_by(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        (value, controller): (&Value, Controller),
        work: &mut Work,
    ) -> Result<Arc<Object>, Status> {
        let managed = self.managed_by(controller, kind, current, value);
        self.put_managed(kind, current, (value, &managed), work)
    }

    pub(super) fn put_managed(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        (value, managed): (&Value, &[u8]),
        work: &mut Work,
    ) -> Result<Arc<Object>, Status> {
        let value = self.to_stored_if_possible(kind, value);
        if metadata::same(&value, &current.value()) {
            return Ok(Arc::clone(current));
        }
        let fields = convert::selectable(kind, &value);
        let key = current.key();
        let put = self
            .store
            .put(&kind.id(), key, Some(current), |revision| Object::managed_by(&value, managed, revision, fields));
        let written = put.map_err(|error| refused(&error, kind, key))?;
        work.written(kind, Some(current), &written);
        Ok(written)
    }

    /// Writes an object for a controller, or removes it if it has no finalizers any more.
    pub(crate) fn put_or_remove(
        &self,
        kind: &Kind,
        current: &Arc<Object>,
        (value, controller): (&Value, Controller),
        work: &mut Work,
    ) -> Result<(), Status> {
        if is_finished(kind, value, current) {
            return self.remove(kind, current, work).map(drop);
        }
        self.put_by(kind, current, (value, controller), work).map(drop)
    }

    /// Removes an object. The consequences are added to `work`.
    pub(crate) fn remove(&self, kind: &Kind, current: &Arc<Object>, work: &mut Work) -> Result<Arc<Object>, Status> {
        let key = current.key();
        let gone = self.store.delete(&kind.id(), key, current).map_err(|error| refused(&error, kind, key))?;
        if kind.is_definition() {
            self.forget_custom(&gone, work);
        }
        if kind.is_built_in() {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            builtin::release(kind, &gone.value(), None, &mut *addresses);
        }
        work.removed(kind, &gone);
        Ok(gone)
    }
}

fn refused(error: &WriteError, kind: &Kind, key: &Key) -> Status {
    match error {
        WriteError::NotFound => Status::not_found(kind.named(), &key.name),
        WriteError::Exists | WriteError::Changed => Status::modified(kind.named(), &key.name),
    }
}

/// Marks an object for deletion at this time.
fn mark(value: &mut Value, now: u64) {
    let meta = metadata::of(value);
    let since = meta.get("deletionTimestamp").and_then(Value::as_str).and_then(clock::seconds);
    if since.is_none()
        && let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0)
    {
        meta.insert("generation".to_owned(), (generation + 1).into());
    }
    if since.is_none_or(|since| since > now) {
        meta.insert("deletionTimestamp".to_owned(), clock::rfc3339(now).into());
    }
    meta.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
}

/// The finalizers of an object.
pub(crate) fn finalizers(value: &Value) -> &[Value] {
    value["metadata"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn set_finalizers(value: &mut Value, names: Vec<Value>) {
    let meta = metadata::of(value);
    if names.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".to_owned(), names.into());
    }
}

/// Whether this write removes an object that is being deleted, because it has no finalizers any
/// more.
pub(crate) fn is_finished(kind: &Kind, value: &Value, current: &Object) -> bool {
    let held = || kind.is_namespace() && value["spec"]["finalizers"].as_array().is_some_and(|names| !names.is_empty());
    let has_grace = || current.value()["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) != 0;
    current.is_deleting() && finalizers(value).is_empty() && !held() && !has_grace()
}

/// Kinds whose deletion returns the object.
fn returns_object(kind: &Kind) -> bool {
    let plural = kind.plural.as_str();
    match kind.group.as_str() {
        "" => matches!(
            plural,
            "namespaces"
                | "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        ),
        "storage.k8s.io" => plural != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}
