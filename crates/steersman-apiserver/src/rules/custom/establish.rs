//! A definition from the write that creates or changes it until it is served.

use crate::request::budget;
use crate::rules::crd::Patterns;
use crate::rules::kinds::Kind;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;
use crate::verbs::managed::Controller;

impl Shared {
    /// A definition is established, and served, as soon as it is written. `patterns` are those that
    /// its check has compiled.
    pub(crate) fn definition_written(&self, kind: &Kind, key: &Key, patterns: &Patterns) {
        if kind.is_definition() {
            budget::unmetered(|| {
                self.establish(kind, key);
                self.serve_definition(kind, key, patterns);
            });
        }
    }

    /// Writes the status of a definition, on its new state if it was written in between.
    fn establish(&self, kind: &Kind, key: &Key) {
        while let Some(object) = self.store.get(&kind.id(), key) {
            let mut value = object.value();
            let status = self.customs.establish(&value, &self.now());
            if status == value["status"] {
                return;
            }
            value["status"] = status;
            let managed = self.managed_by(Controller::STATUS, kind, &object, &value);
            let make = |revision| Object::managed_by(&value, &managed, revision, Vec::new());
            if self.store.put(&kind.id(), key, Some(&object), make).is_ok() {
                return;
            }
        }
    }

    /// Serves a definition as it is stored, unless it was deleted.
    pub(crate) fn serve_definition(&self, kind: &Kind, key: &Key, patterns: &Patterns) {
        while let Some(object) = self.store.get(&kind.id(), key) {
            if self.customs.register(kind, &object, patterns, &self.store) {
                return;
            }
        }
    }
}
