//! Custom resources as clients read them: in the requested version, by the current schema.
//!
//! An object is stored as it was last written. If the schema has changed since, or if versions have
//! different schemas, a read sets the defaults of the storage version and prunes what the schemas
//! do not specify.

use std::sync::Arc;

use serde_json::Value;

use super::Custom;
use crate::request::budget;
use crate::response::status::Status;
use crate::rules::kinds::Kind;
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::object::Object;
use crate::store::{Change, EventType};

/// Converts stored objects of one kind for clients.
pub(crate) struct View<'a> {
    kind: &'a Kind,
    /// `None` for built-in kinds, which are sent as they are stored.
    custom: Option<Arc<Custom>>,
}

impl View<'_> {
    /// The object as clients see it.
    pub(crate) fn of(&self, object: &Arc<Object>) -> Result<Arc<Object>, Status> {
        self.written_at(object.revision(), object)
    }

    /// The object of a change as a watch sends it.
    pub(crate) fn of_change(&self, change: &Change, event: EventType) -> Result<Option<Arc<Object>>, Status> {
        let Some(shown) = change.shown(event) else { return Ok(None) };
        // A deleted object has the revision of its deletion, which did not apply the current
        // schema.
        let written = change.after.as_ref().or(change.before.as_ref()).map_or(shown.revision(), |one| one.revision());
        self.written_at(written, &shown).map(Some)
    }

    /// An object that was written before its schema changed may take much more memory than before:
    /// each item of a list can get a default. So each object has limits of its own, and is sent
    /// with all of its defaults or not at all.
    fn written_at(&self, revision: u64, object: &Arc<Object>) -> Result<Arc<Object>, Status> {
        let Some(custom) = &self.custom else { return Ok(Arc::clone(object)) };
        if revision > custom.shaped_at && custom.as_stored.contains(&self.kind.version) {
            return Ok(Arc::clone(object));
        }
        let made = budget::apart(|| {
            let mut value = object.value();
            custom.store(&mut value);
            if let Some(version) = custom.version(&self.kind.version).filter(|version| !version.storage) {
                version.schema.prune(&mut value);
            }
            let fields = metadata::selectable(self.kind, &value);
            // An incomplete object is not encoded.
            (!budget::is_spent()).then(|| Object::managed_by(&value, object.managed(), object.revision(), fields))
        });
        made.flatten().map(Arc::new).ok_or_else(|| {
            let resource = self.kind.named();
            Status::too_large(format!(
                "Request entity too large: {resource} {} was written before its schema changed, and takes too much \
                 memory or too many steps with the defaults that the schema has now: use smaller defaults, or delete \
                 the object",
                steersman_wire::quote(&object.key().name),
            ))
        })
    }
}

impl Custom {
    /// Prunes an object and sets defaults, by the schema of the storage version.
    fn store(&self, value: &mut Value) {
        if let Some(stored) = self.definition.stored() {
            stored.schema.prune(value);
            stored.schema.default(value);
        }
    }
}

impl Shared {
    /// Converts objects of this kind by the current schema.
    pub(crate) fn view<'a>(&self, kind: &'a Kind) -> View<'a> {
        let custom = if kind.is_built_in() { None } else { self.customs.find(&kind.group, &kind.plural) };
        View { kind, custom }
    }

    /// The object as clients of this kind see it.
    pub(crate) fn seen(&self, kind: &Kind, object: &Arc<Object>) -> Result<Arc<Object>, Status> {
        self.view(kind).of(object)
    }

    /// Prunes an object and sets defaults before it is stored. Fails if that exceeds the budget of
    /// the request.
    pub(crate) fn to_stored(&self, kind: &Kind, value: &mut Value) -> Result<(), Status> {
        if let Some(custom) = self.view(kind).custom {
            custom.store(value);
        }
        budget::check()
    }

    /// The same as [`Self::to_stored`] for a write that must not be refused, such as a deletion. An
    /// object that exceeds the limits stays unchanged.
    pub(crate) fn to_stored_if_possible(&self, kind: &Kind, value: &Value) -> Value {
        let Some(custom) = self.view(kind).custom else { return value.clone() };
        let stored = budget::apart(|| {
            let mut value = value.clone();
            custom.store(&mut value);
            value
        });
        stored.unwrap_or_else(|| value.clone())
    }
}
