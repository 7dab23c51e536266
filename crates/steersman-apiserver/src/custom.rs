//! The kinds of CustomResourceDefinitions: served from the moment their definition is established until it is deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use crate::crd::{self, Definition, Taken, Version};
use crate::kinds::{Group, GroupVersion, Kind, Subresource};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// One established definition and the kinds that it brings, one for each version that is served.
pub(crate) struct Custom {
    definition: Definition,
    kinds: Vec<Arc<Kind>>,
}

impl Custom {
    fn new(definition: Definition) -> Self {
        let served = definition.versions.iter().filter(|version| version.served);
        let kinds = served.map(|version| Arc::new(kind(&definition, version))).collect();
        Self { definition, kinds }
    }

    /// What the definition says of one version.
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

    /// Serves what the definition says from now on. Its status says whether it is established.
    pub(crate) fn register(&self, crd: &Value) {
        let Ok(definition) = Definition::read(crd) else { return };
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut customs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        customs.insert(name, Arc::new(Custom::new(definition)));
    }

    /// Serves it no longer.
    pub(crate) fn unregister(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The definition of that group and plural.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<Arc<Custom>> {
        self.read(|customs| customs.get(&format!("{plural}.{group}")).cloned())
    }

    pub(crate) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.find(group, plural)?.kinds.iter().find(|kind| kind.version == version).cloned()
    }

    /// One kind of each resource.
    pub(crate) fn resources(&self) -> Vec<Arc<Kind>> {
        self.read(|customs| customs.values().filter_map(|custom| custom.kinds.first().cloned()).collect())
    }

    /// A kind of the resource of that group and plural.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.find(group, plural)?.kinds.first().cloned()
    }

    /// The kind of that name.
    pub(crate) fn named(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Kind>> {
        let is_named = |one: &&Arc<Kind>| one.group == group && one.version == version && one.kind == kind;
        self.read(|customs| customs.values().flat_map(|custom| &custom.kinds).find(is_named).cloned())
    }

    /// The groups as discovery has them.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        self.read(|customs| {
            for kind in customs.values().flat_map(|custom| &custom.kinds) {
                let place = groups.iter().position(|group| group.name == kind.group).unwrap_or_else(|| {
                    let (name, preferred) = (kind.group.clone(), kind.version.clone());
                    groups.push(Group { name, preferred, versions: Vec::new() });
                    groups.len() - 1
                });
                let versions = &mut groups[place].versions;
                match versions.iter_mut().find(|known| known.version == kind.version) {
                    Some(known) => known.kinds.push(Arc::clone(kind)),
                    None => {
                        versions.push(GroupVersion { version: kind.version.clone(), kinds: vec![Arc::clone(kind)] });
                    }
                }
            }
        });
        groups
    }

    /// The status of a definition, given the names that others of its group have.
    pub(crate) fn establish(&self, crd: &Value, now: &str) -> Value {
        let own = crd["metadata"]["name"].as_str().unwrap_or_default();
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        let (mut resources, mut kinds) = (Vec::new(), Vec::new());
        self.read(|customs| {
            let others = customs.iter().filter(|(name, custom)| *name != own && custom.definition.group == group);
            for names in others.map(|(_, custom)| &custom.definition.names) {
                resources.extend([names.plural.clone(), names.singular.clone()]);
                resources.extend(names.short_names.clone());
                kinds.extend([names.kind.clone(), names.list_kind.clone()]);
            }
        });
        crd::establish(crd, Taken { resources: &resources, kinds: &kinds }, now)
    }
}

fn kind(definition: &Definition, version: &Version) -> Kind {
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
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        namespaced: definition.namespaced,
        verbs: VERBS.map(str::to_owned).to_vec(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        storage_version_hash: None,
        subresources,
        fields: None,
        selectable: version.selectable_fields.iter().map(|field| field.as_str().into()).collect(),
    }
}
