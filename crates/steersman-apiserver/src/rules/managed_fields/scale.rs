//! The managers of the number of replicas, as entries of a Scale and as entries of the scaled
//! object.

use super::entries::{Entry, Managed, Manager};
use super::set::FieldSet;
use crate::request::budget;

const SCALE: &str = "autoscaling/v1";
const REPLICAS: &[&str] = &["spec", "replicas"];

/// Where each version of a kind has its number of replicas. `None` for a version without a scale.
pub(crate) struct ScaleFields<'a> {
    pub(crate) api_version: String,
    /// By version.
    pub(crate) paths: Vec<(String, Option<Vec<&'a str>>)>,
}

impl ScaleFields<'_> {
    fn path(&self, api_version: &str) -> Option<Option<&[&str]>> {
        let (_, path) = self.paths.iter().find(|(version, _)| version == api_version)?;
        Some(path.as_deref())
    }

    /// The entries of the Scale: those of managers that have the number of replicas.
    pub(crate) fn of_scale(&self, parent: &Managed) -> Managed {
        let mut scale = Managed::default();
        for mut entry in parent.entries.iter().cloned() {
            // Each manager is looked for among those before it.
            if !budget::step(1 + scale.entries.len()) {
                break;
            }
            let Some(Some(path)) = self.path(&entry.api_version) else { continue };
            if !entry.set().has_fields(path) {
                continue;
            }
            let version = if entry.is_applied() { "" } else { SCALE };
            let manager = Manager { api_version: version.into(), ..entry.manager };
            scale.take(&manager);
            scale.entries.push(Entry::new(manager, SCALE, entry.time, FieldSet::of(&[REPLICAS])));
        }
        scale
    }

    /// The entries of the scaled object, after those of its Scale became `scale`.
    pub(crate) fn of_parent(&self, parent: &Managed, mut scale: Managed) -> Managed {
        let mut managed = Managed::default();
        let times: Vec<_> = parent.entries.iter().map(|entry| (entry.manager.clone(), entry.time.clone())).collect();
        for mut entry in parent.entries.iter().cloned() {
            if !budget::step(1 + scale.entries.len()) {
                break;
            }
            // Entries of versions that do not exist are dropped.
            let Some(path) = self.path(&entry.api_version) else { continue };
            let Some(path) = path.filter(|path| entry.set().has_fields(path)) else {
                managed.entries.push(entry);
                continue;
            };
            // An updater is another one in the version of the Scale.
            if scale.take(&entry.manager).is_none() {
                let left = entry.set().difference(&FieldSet::of(&[path]));
                entry.replace(left);
            }
            managed.entries.push(entry);
        }
        managed.entries.retain(|entry| !entry.is_empty());
        let path = self.path(&self.api_version).flatten();
        for mut entry in scale.entries {
            if !budget::step(times.len()) {
                break;
            }
            if !entry.set().has_fields(REPLICAS) {
                continue;
            }
            let time = times.iter().find(|(manager, _)| *manager == entry.manager).and_then(|(_, time)| time.clone());
            let set = path.map(|path| FieldSet::of(&[path])).unwrap_or_default();
            let version = if entry.is_applied() { "" } else { self.api_version.as_str() };
            let manager = Manager { api_version: version.into(), ..entry.manager };
            managed.entries.push(Entry::new(manager, &self.api_version, time, set));
        }
        managed
    }
}
