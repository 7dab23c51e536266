//! Custom resources as their readers see them: in the version they ask for, by the schema of today.
//!
//! An object is stored as its last writer left it. When the schema has changed since, or when there are versions of another
//! schema, the defaults of the stored version are filled in and what the schemas do not know is left out for whoever reads.

use std::sync::Arc;

use serde_json::Value;

use super::Custom;
use crate::kinds::Kind;
use crate::metadata;
use crate::object::Object;
use crate::server::Shared;

impl Custom {
    /// Whether objects of this version look as they are stored.
    fn is_stored_as(&self, kind: &Kind) -> bool {
        let of = |name: &str| self.shape.as_array().into_iter().flatten().find(|version| version[0] == name);
        let stored = self.definition.stored().and_then(|stored| of(&stored.name));
        // Its schema and the fields to select by.
        let look = |version: &Value| (version[2].clone(), version[3].clone());
        of(&kind.version).map(look) == stored.map(look)
    }

    fn seen(&self, kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
        let is_stored_version = self.definition.stored().is_some_and(|stored| stored.name == kind.version);
        if object.revision() > self.shaped_at && (is_stored_version || self.is_stored_as(kind)) {
            return Arc::clone(object);
        }
        let mut value = object.value();
        self.store(&mut value);
        if let Some(version) = self.version(&kind.version).filter(|_| !is_stored_version) {
            version.schema.prune(&mut value);
        }
        let fields = metadata::selectable(kind, &value);
        Arc::new(Object::new(&value, object.revision(), fields))
    }

    /// Makes of an object what the stored version keeps of it.
    fn store(&self, value: &mut Value) {
        if let Some(stored) = self.definition.stored() {
            stored.schema.prune(value);
            stored.schema.default(value);
        }
    }
}

impl Shared {
    /// The object as a reader of this kind sees it.
    pub(crate) fn seen(&self, kind: &Kind, object: &Arc<Object>) -> Arc<Object> {
        if kind.is_built_in() {
            return Arc::clone(object);
        }
        match self.customs.find(&kind.group, &kind.plural) {
            Some(custom) => custom.seen(kind, object),
            None => Arc::clone(object),
        }
    }

    /// Makes of an object of this kind what is stored of it.
    pub(crate) fn to_stored(&self, kind: &Kind, value: &mut Value) {
        if kind.is_built_in() {
            return;
        }
        if let Some(custom) = self.customs.find(&kind.group, &kind.plural) {
            custom.store(value);
        }
    }
}
