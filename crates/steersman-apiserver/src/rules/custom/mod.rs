//! The kinds of CustomResourceDefinitions, which are served from the establishment of the
//! definition until its deletion.

mod body;
mod deletion;
mod establish;
mod view;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use crate::request::ResourceRequest;
use crate::request::budget;
use crate::rules::crd::{self, Definition, Names, Patterns, Taken, Version};
use crate::rules::kinds::{Group, GroupVersion, Kind, Subresource};
use crate::store::object::Object;
use crate::store::{ResourceId, Revision, Store};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs in discovery while the definition is being deleted.
const VERBS_WHILE_TERMINATING: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// What a kind takes in a document of discovery beside its short names and categories.
const KIND_BYTES: usize = 1 << 10;

/// The short names and the categories of all versions of a definition.
type SharedNames = (Arc<[String]>, Arc<[String]>);

/// One established definition and its kinds, one for each served version.
pub(crate) struct Custom {
    /// The uid of the definition, which distinguishes definitions with the same name.
    uid: String,
    definition: Definition,
    kinds: Vec<Arc<Kind>>,
    /// The memory that a document of discovery takes for the kinds. Estimated.
    listed: usize,
    /// Whether the definition is being deleted.
    pub(crate) terminating: bool,
    /// The fields that decide how objects look, to detect a change.
    shape: Value,
    /// The versions whose objects are sent as they are stored.
    as_stored: BTreeSet<String>,
    /// Objects up to this revision were written before the last change of `shape`.
    shaped_at: Revision,
}

impl Custom {
    fn new(crd: &Value, definition: Definition) -> Self {
        let terminating = crd::has_condition(crd, "Terminating");
        let served = definition.versions.iter().filter(|version| version.served);
        let Names { short_names, categories, .. } = &definition.names;
        let shared_names = (short_names.clone().into(), categories.clone().into());
        let kinds: Vec<_> =
            served.map(|version| Arc::new(kind(&definition, version, &shared_names, terminating))).collect();
        let listed = kinds.len().saturating_mul(KIND_BYTES + definition.names.listed());
        let uid = crd["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Self { uid, kinds, listed, terminating, shape: shape(crd), as_stored: as_stored(crd), shaped_at: 0, definition }
    }

    /// All versions of the definition.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.definition.versions.iter()
    }

    /// One version of the definition, served or not.
    pub(crate) fn any_version(&self, name: &str) -> Option<&Version> {
        self.definition.any(name)
    }

    /// One version of the definition.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.definition.served(name)
    }
}

/// All established definitions, by name.
#[derive(Default)]
pub(crate) struct Customs(RwLock<BTreeMap<String, Arc<Custom>>>);

impl Customs {
    fn read<R>(&self, read: impl FnOnce(&BTreeMap<String, Arc<Custom>>) -> R) -> R {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves a definition in this state if it is established. Returns false, and does nothing, if
    /// the store has another state of it, or none.
    ///
    /// The state is compared under the lock that [`Self::unregister`] takes after the definition is
    /// removed from the store. So a removed definition is never served, in any order of the two
    /// calls.
    pub(crate) fn register(&self, kind: &Kind, object: &Arc<Object>, patterns: &Patterns, store: &Store) -> bool {
        let crd = object.value();
        let name = &object.key().name;
        let is_current = || store.get(&kind.id(), object.key()).is_some_and(|now| Arc::ptr_eq(&now, object));
        if !crd::has_condition(&crd, "Established") {
            return is_current();
        }
        let before = self.read(|customs| customs.get(&**name).cloned());
        let known = before.iter().map(|before| &before.definition.patterns).chain([patterns]).collect();
        let mut definition = Definition::read(&crd, known);
        definition.names = Names::read(&crd["status"]["acceptedNames"]);
        let id =
            ResourceId { group: definition.group.as_str().into(), plural: definition.names.plural.as_str().into() };
        let mut custom = Custom::new(&crd, definition);

        let mut customs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !is_current() {
            return false;
        }
        match customs.get(&**name) {
            Some(before) if before.uid == custom.uid => {
                custom.shaped_at = if before.shape == custom.shape { before.shaped_at } else { store.revision() };
            }
            // The previous definition was deleted, and its resource is not removed yet.
            Some(_) => store.remove(&id),
            None => {}
        }
        store.begin(&id);
        customs.insert(name.as_ref().to_owned(), Arc::new(custom));
        true
    }

    /// Stops serving a definition that was removed from the store, and drops the log of its
    /// objects. Does nothing if another definition with that name is served.
    pub(crate) fn unregister(&self, definition: &Object, store: &Store) {
        let name = &definition.key().name;
        let mut customs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if customs.get(&**name).is_some_and(|custom| custom.uid != definition.uid()) {
            return;
        }
        customs.remove(&**name);
        if let Some((plural, group)) = name.split_once('.') {
            store.remove(&ResourceId { group: group.into(), plural: plural.into() });
        }
    }

    /// Whether objects of this kind are sent as they are stored.
    pub(crate) fn are_seen_as_stored(&self, kind: &Kind) -> bool {
        kind.is_built_in()
            || self
                .find(&kind.group, &kind.plural)
                .is_none_or(|custom| custom.shaped_at == 0 && custom.as_stored.contains(&kind.version))
    }

    /// The memory that a document of discovery takes for all kinds. Estimated.
    pub(crate) fn listed(&self) -> usize {
        self.read(|customs| customs.values().fold(0, |sum, custom| custom.listed.saturating_add(sum)))
    }

    /// The name, the group and the served versions of each definition.
    pub(crate) fn served(&self) -> Vec<(String, String, Vec<String>)> {
        let versions = |custom: &Custom| custom.kinds.iter().map(|kind| kind.version.clone()).collect();
        self.read(|customs| {
            customs.iter().map(|(name, one)| (name.clone(), one.definition.group.clone(), versions(one))).collect()
        })
    }

    /// The definition with this group and plural.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<Arc<Custom>> {
        self.read(|customs| customs.get(&format!("{plural}.{group}")).cloned())
    }

    /// The definition of a kind; `None` for built-in ones.
    pub(crate) fn find_custom(&self, kind: &Kind) -> Option<Arc<Custom>> {
        if kind.is_built_in() { None } else { self.find(&kind.group, &kind.plural) }
    }

    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.find(group, plural)?.kinds.iter().find(|kind| kind.version == version).cloned()
    }

    /// The warnings for clients of a deprecated version.
    pub(crate) fn deprecation(&self, request: &ResourceRequest) -> Vec<String> {
        let custom = self.find(&request.group, &request.plural);
        let version = custom.as_ref().and_then(|custom| custom.version(&request.version));
        version
            .filter(|version| version.deprecated)
            .and_then(|version| version.deprecation_warning.clone())
            .into_iter()
            .collect()
    }

    /// A kind of the resource with this group and plural.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.find(group, plural)?.kinds.first().cloned()
    }

    /// The kind with this name.
    pub(crate) fn named(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Kind>> {
        let is_named = |one: &&Arc<Kind>| {
            budget::step(1);
            one.group == group && one.version == version && one.kind == kind
        };
        self.read(|customs| customs.values().flat_map(|custom| &custom.kinds).find(is_named).cloned())
    }

    /// The groups for discovery.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<String, BTreeMap<String, Vec<Arc<Kind>>>> = BTreeMap::new();
        self.read(|customs| {
            for kind in customs.values().flat_map(|custom| &custom.kinds) {
                let versions = groups.entry(kind.group.clone()).or_default();
                versions.entry(kind.version.clone()).or_default().push(Arc::clone(kind));
            }
        });
        let version = |(version, kinds)| GroupVersion { version, kinds };
        let group = |(name, versions): (String, BTreeMap<_, _>)| Group {
            name,
            preferred: String::new(),
            versions: versions.into_iter().map(version).collect(),
        };
        let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
        for group in &mut groups {
            group.versions.sort_by(|one, other| {
                Reverse(crd::priority(&one.version)).cmp(&Reverse(crd::priority(&other.version)))
            });
            group.preferred = group.versions.first().map(|first| first.version.clone()).unwrap_or_default();
        }
        groups
    }

    /// The status of a definition, given the names of the other definitions of its group.
    pub(crate) fn establish(&self, crd: &Value, now: &str) -> Value {
        let own = crd["metadata"]["name"].as_str().unwrap_or_default();
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        let (mut resources, mut kinds) = (Vec::new(), Vec::new());
        self.read(|customs| {
            let others = customs.iter().filter(|(name, custom)| *name != own && custom.definition.group == group);
            for names in others.map(|(_, custom)| &custom.definition.names) {
                budget::step(4 + names.short_names.len());
                resources.extend([names.plural.clone(), names.singular.clone()]);
                resources.extend(names.short_names.clone());
                kinds.extend([names.kind.clone(), names.list_kind.clone()]);
            }
        });
        crd::establish(crd, Taken { resources: &resources, kinds: &kinds }, now)
    }
}

/// The fields that decide how objects look to clients.
fn shape(crd: &Value) -> Value {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let fields = ["name", "storage", "schema", "selectableFields"];
    versions.map(|version| fields.map(|field| version[field].clone()).into_iter().collect::<Value>()).collect()
}

/// The versions with the same schema as the storage version.
fn as_stored(crd: &Value) -> BTreeSet<String> {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(stored) = versions.iter().find(|version| version["storage"] == true) else { return BTreeSet::new() };
    let is_same = |version: &&Value| ["schema", "selectableFields"].iter().all(|field| version[field] == stored[field]);
    let alike = versions.iter().filter(is_same);
    alike.filter_map(|version| version["name"].as_str()).map(str::to_owned).collect()
}

fn kind(definition: &Definition, version: &Version, shared_names: &SharedNames, terminating: bool) -> Kind {
    let names = &definition.names;
    let subresource = |name: &str, of: Option<(String, String)>, kind: &str| Subresource {
        name: name.to_owned(),
        of,
        kind: kind.to_owned(),
        verbs: SUBRESOURCE_VERBS.map(str::to_owned).to_vec(),
    };
    let mut subresources = Vec::new();
    if version.scale.is_some() {
        subresources.push(subresource("scale", Some(("autoscaling".to_owned(), "v1".to_owned())), "Scale"));
    }
    if version.status {
        subresources.push(subresource("status", None, &names.kind));
    }
    Kind {
        group: definition.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        namespaced: definition.namespaced,
        verbs: if terminating { &VERBS_WHILE_TERMINATING[..] } else { &VERBS[..] }
            .iter()
            .map(|verb| (*verb).to_owned())
            .collect(),
        short_names: Arc::clone(&shared_names.0),
        categories: Arc::clone(&shared_names.1),
        storage_version_hash: None,
        subresources,
        fields: None,
        selectable: version.selectable_fields.iter().map(|field| field.as_str().into()).collect(),
        printer_columns: Arc::clone(&version.printer_columns),
    }
}

#[cfg(test)]
mod tests;
