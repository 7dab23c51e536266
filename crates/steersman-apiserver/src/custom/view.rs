//! Custom resources as their readers see them: in the version they ask for, by the schema of today.
//!
//! An object is stored as its last writer left it. When the schema has changed since, or when there are versions of another
//! schema, the defaults of the stored version are filled in and what the schemas do not know is left out for whoever reads.

use std::sync::Arc;

use serde_json::Value;

use super::Custom;
use crate::budget;
use crate::kinds::Kind;
use crate::metadata;
use crate::object::Object;
use crate::server::Shared;
use crate::status::Status;
use crate::store::{Change, EventType};

/// How the objects of one kind are seen.
pub(crate) struct View<'a> {
    kind: &'a Kind,
    /// Nothing for built-in kinds, which look as they are stored.
    custom: Option<Arc<Custom>>,
}

impl View<'_> {
    /// The object as it is seen.
    pub(crate) fn of(&self, object: &Arc<Object>) -> Arc<Object> {
        self.written_at(object.revision(), object)
    }

    /// What a watcher sees of a change.
    pub(crate) fn of_change(&self, change: &Change, event: EventType) -> Option<Arc<Object>> {
        let shown = change.shown(event)?;
        // A deleted object has the revision of its deletion, which did not bring it up to date.
        let written = change.after.as_ref().or(change.before.as_ref()).map_or(shown.revision(), |one| one.revision());
        Some(self.written_at(written, &shown))
    }

    fn written_at(&self, revision: u64, object: &Arc<Object>) -> Arc<Object> {
        let Some(custom) = &self.custom else { return Arc::clone(object) };
        if revision > custom.shaped_at && custom.as_stored.contains(&self.kind.version) {
            return Arc::clone(object);
        }
        // Bounded by the objects that are stored. A read must not lose defaults because the request has used up its budget.
        let value = budget::unmetered(|| {
            let mut value = object.value();
            custom.store(&mut value);
            if let Some(version) = custom.version(&self.kind.version).filter(|version| !version.storage) {
                version.schema.prune(&mut value);
            }
            value
        });
        let fields = metadata::selectable(self.kind, &value);
        Arc::new(Object::new(&value, object.revision(), fields))
    }
}

impl Custom {
    /// Makes of an object what the stored version keeps of it.
    fn store(&self, value: &mut Value) {
        if let Some(stored) = self.definition.stored() {
            stored.schema.prune(value);
            stored.schema.default(value);
        }
    }
}

impl Shared {
    /// How objects of this kind are seen at present.
    pub(crate) fn view<'a>(&self, kind: &'a Kind) -> View<'a> {
        let custom = if kind.is_built_in() { None } else { self.customs.find(&kind.group, &kind.plural) };
        View { kind, custom }
    }

    /// The object as a reader of this kind sees it.
    pub(crate) fn seen(&self, kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
        self.view(kind).of(object)
    }

    /// Makes of an object of this kind what is stored of it, unless that takes too much.
    pub(crate) fn to_stored(&self, kind: &Kind, value: &mut Value) -> Result<(), Status> {
        if let Some(custom) = self.view(kind).custom {
            custom.store(value);
        }
        budget::check()
    }
}
