//! The table of kinds, which discovery, routing and decoding use.
//!
//! The built-in kinds were recorded from a real server by `cargo xtask kinds` and are the same for
//! every server in the process. A [`Kind`] is a value of its own, so that the kinds of
//! CustomResourceDefinitions have the same type.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::response::table::PrinterColumn;
use crate::rules::resource::selectable;
use crate::rules::schema::{StructId, Types};

/// The output of `cargo xtask kinds`.
const RECORDED: &str = include_str!("../../data/kinds.json");

/// The built-in kinds and their types.
#[derive(Debug)]
pub(crate) struct Builtin {
    /// The release that was recorded: `1.36.3`.
    pub(crate) kubernetes: String,
    /// In the order of discovery, the core group first.
    pub(crate) groups: Vec<Group>,
    /// The types of their fields.
    pub(crate) types: Types,
    by_resource: HashMap<(String, String, String), Arc<Kind>>,
    by_kind: HashMap<(String, String, String), Arc<Kind>>,
}

/// One API group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Empty for the core group.
    pub(crate) name: String,
    /// The preferred version.
    pub(crate) preferred: String,
    /// In the order of discovery.
    pub(crate) versions: Vec<GroupVersion>,
}

/// One version of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupVersion {
    pub(crate) version: String,
    /// In the order of discovery.
    pub(crate) kinds: Vec<Arc<Kind>>,
}

/// A served kind and its resource.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The kind of a list of them.
    pub(crate) list_kind: String,
    /// The name of the resource in its path.
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) namespaced: bool,
    /// Sorted, as in discovery.
    pub(crate) verbs: Vec<String>,
    /// Shared by all versions of a definition, as are the categories.
    pub(crate) short_names: Arc<[String]>,
    /// The categories that it is part of: `all`.
    pub(crate) categories: Arc<[String]>,
    /// Set for stored kinds.
    pub(crate) storage_version_hash: Option<String>,
    /// Sorted by name.
    pub(crate) subresources: Vec<Subresource>,
    /// Its fields, when it is a built-in kind.
    pub(crate) fields: Option<StructId>,
    /// The selectable fields besides name and namespace: `spec.nodeName`.
    pub(crate) selectable: Vec<Arc<str>>,
    /// The columns of a custom kind. Those of built-in kinds are data.
    pub(crate) printer_columns: Arc<[PrinterColumn]>,
}

/// A part of a resource with a path of its own: `status`, `scale`.
#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// Group and version of its kind, if they differ from those of the resource: `autoscaling` and
    /// `v1` for a Scale.
    pub(crate) of: Option<(String, String)>,
    /// The kind of its request and response bodies.
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

/// The built-in kinds. The first call parses them.
pub(crate) fn builtin() -> &'static Builtin {
    static BUILTIN: OnceLock<Builtin> = OnceLock::new();
    BUILTIN.get_or_init(|| Builtin::read(RECORDED).expect("the recorded kinds are checked by this crate's tests"))
}

/// The kind of Pods.
pub(crate) fn pods() -> &'static Arc<Kind> {
    builtin().resource("", "v1", "pods").expect("there are Pods")
}

impl Builtin {
    /// The kind of a resource, by group, version and plural.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_resource.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The kind of this name. Of two resources of one kind, the first of discovery.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.by_kind.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
    }

    /// The group of this name.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// All kinds, in the order of discovery.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.kinds)
    }

    fn read(recorded: &str) -> Result<Self, String> {
        let recorded: Value = serde_json::from_str(recorded).map_err(|error| error.to_string())?;
        let types = recorded["types"].as_object().ok_or("no types")?;
        let types = Types::read(types)?;
        let groups = list(&recorded, "groups")?
            .map(|group| {
                let name = string(group, "name")?;
                let versions = list(group, "versions")?
                    .map(|version| {
                        let of_version = string(version, "version")?;
                        let kinds = list(version, "resources")?
                            .map(|resource| Kind::read(&name, &of_version, resource, &types).map(Arc::new));
                        Ok(GroupVersion { kinds: kinds.collect::<Result<_, String>>()?, version: of_version })
                    })
                    .collect::<Result<_, String>>()?;
                Ok(Group { name, preferred: string(group, "preferred")?, versions })
            })
            .collect::<Result<_, String>>()?;
        let (by_resource, by_kind) = (HashMap::new(), HashMap::new());
        let kubernetes = string(&recorded, "kubernetes")?;
        let mut builtin = Self { kubernetes, groups, types, by_resource, by_kind };
        let kinds: Vec<_> = builtin.kinds().cloned().collect();
        for kind in kinds {
            let of = |name: &str| (kind.group.clone(), kind.version.clone(), name.to_owned());
            builtin.by_kind.entry(of(&kind.kind)).or_insert_with(|| Arc::clone(&kind));
            builtin.by_resource.insert(of(&kind.plural), kind);
        }
        Ok(builtin)
    }
}

impl Kind {
    /// `apps/v1`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The subresource of this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the resource itself, not one of its subresources, has this verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    fn read(group: &str, version: &str, resource: &Value, types: &Types) -> Result<Self, String> {
        let subresource = |value: &Value| {
            let of = match (value["group"].as_str(), value["version"].as_str()) {
                (None, None) => None,
                (group, version) => {
                    Some((group.unwrap_or_default().to_owned(), version.ok_or("no version")?.to_owned()))
                }
            };
            Ok(Subresource {
                name: string(value, "name")?,
                of,
                kind: string(value, "kind")?,
                verbs: strings(value, "verbs"),
            })
        };
        let subresources = resource["subresources"].as_array().into_iter().flatten().map(subresource);
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: string(resource, "kind")?,
            list_kind: format!("{}List", string(resource, "kind")?),
            plural: string(resource, "plural")?,
            singular: string(resource, "singular")?,
            namespaced: resource["namespaced"].as_bool().ok_or("no scope")?,
            verbs: strings(resource, "verbs"),
            short_names: strings(resource, "shortNames").into(),
            categories: strings(resource, "categories").into(),
            storage_version_hash: resource["storageVersionHash"].as_str().map(str::to_owned),
            subresources: subresources.collect::<Result<_, String>>()?,
            fields: fields(resource, types)?,
            selectable: selectable(group, &string(resource, "plural")?),
            printer_columns: Arc::default(),
        })
    }
}

/// Group and version in the form of `apiVersion`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn string(value: &Value, name: &str) -> Result<String, String> {
    value[name].as_str().map(str::to_owned).ok_or_else(|| format!("no {name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<impl Iterator<Item = &'a Value>, String> {
    Ok(value[name].as_array().ok_or_else(|| format!("no {name}"))?.iter())
}

fn strings(value: &Value, name: &str) -> Vec<String> {
    value[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn fields(value: &Value, types: &Types) -> Result<Option<StructId>, String> {
    let Some(name) = value["type"].as_str() else { return Ok(None) };
    types.find(name).map(Some).ok_or_else(|| format!("an unknown type: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::schema::{ListType, Patch, Type};

    #[test]
    fn groups_are_in_the_order_of_discovery() {
        let groups: Vec<_> = builtin().groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(groups[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
        let autoscaling = builtin().group("autoscaling").unwrap();
        assert_eq!(autoscaling.preferred, "v2");
        let versions: Vec<_> = autoscaling.versions.iter().map(|version| version.version.as_str()).collect();
        assert_eq!(versions, ["v2", "v1"]);
        assert!(builtin().kubernetes.starts_with("1."), "{}", builtin().kubernetes);
    }

    #[test]
    fn a_kind_is_found_by_its_resource_and_by_its_name() {
        let deployment = builtin().resource("apps", "v1", "deployments").unwrap();
        assert_eq!(deployment.kind, "Deployment");
        assert!(deployment.namespaced);
        assert_eq!(*deployment.short_names, ["deploy"]);
        assert_eq!(*deployment.categories, ["all"]);
        assert_eq!(deployment.api_version(), "apps/v1");
        assert!(deployment.has_verb("deletecollection") && !deployment.has_verb("connect"));
        assert!(deployment.storage_version_hash.is_some());
        assert!(Arc::ptr_eq(deployment, builtin().kind("apps", "v1", "Deployment").unwrap()));
        let namespace = builtin().resource("", "v1", "namespaces").unwrap();
        assert_eq!((namespace.namespaced, namespace.api_version().as_str()), (false, "v1"));
        // Kinds that can only be created are not stored.
        let review = builtin().resource("authorization.k8s.io", "v1", "subjectaccessreviews").unwrap();
        assert_eq!((review.verbs.as_slice(), &review.storage_version_hash), (&["create".to_owned()][..], &None));
        assert!(builtin().resource("apps", "v1", "Deployment").is_none());
        assert!(builtin().resource("apps", "v2", "deployments").is_none());
    }

    #[test]
    fn subresources_know_the_kind_of_what_is_sent_to_them() {
        let deployment = builtin().kind("apps", "v1", "Deployment").unwrap();
        let names: Vec<_> = deployment.subresources.iter().map(|subresource| subresource.name.as_str()).collect();
        assert_eq!(names, ["scale", "status"]);
        let scale = deployment.subresource("scale").unwrap();
        assert_eq!(scale.of, Some(("autoscaling".to_owned(), "v1".to_owned())));
        let status = deployment.subresource("status").unwrap();
        assert_eq!((status.kind.as_str(), &status.of), ("Deployment", &None));
        let pod = builtin().kind("", "v1", "Pod").unwrap();
        assert_eq!(pod.subresource("eviction").unwrap().kind, "Eviction");
        let account = builtin().kind("", "v1", "ServiceAccount").unwrap();
        assert_eq!(account.subresource("token").unwrap().kind, "TokenRequest");
    }

    #[test]
    fn every_kind_has_metadata_and_every_stored_kind_a_type() {
        let types = &builtin().types;
        for kind in builtin().kinds() {
            let fields = types.get(kind.fields.unwrap_or_else(|| panic!("{} has no type", kind.kind)));
            for field in ["apiVersion", "kind", "metadata"] {
                assert!(fields.field(field).is_some(), "{} has no {field}", fields.name);
            }
        }
        assert!(builtin().kinds().count() > 60);
    }

    #[test]
    fn fields_say_how_they_are_merged() {
        let types = &builtin().types;
        let field = |of: &str, name: &str| types.get(types.find(of).unwrap()).field(name).unwrap();
        let ports = field("core.v1.Container", "ports");
        assert_eq!(ports.list, Some(ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()])));
        let patch = Patch { merge: true, merge_key: Some("containerPort".to_owned()), ..Patch::default() };
        assert_eq!(ports.patch, patch);
        assert_eq!(field("meta.v1.ObjectMeta", "finalizers").list, Some(ListType::Set));
        assert!(field("apps.v1.DeploymentSpec", "strategy").patch.retain_keys);
        assert_eq!(field("core.v1.PodSpec", "nodeSelector").atomic, Some(true));
        assert!(types.get(types.find("meta.v1.LabelSelector").unwrap()).atomic);
        assert_eq!(field("core.v1.ServicePort", "protocol").default, Some("TCP".into()));
        assert!(field("apps.v1.DeploymentSpec", "selector").required);
    }

    #[test]
    fn fields_say_what_go_makes_of_them() {
        let types = &builtin().types;
        let ty = |of: &str, name: &str| types.get(types.find(of).unwrap()).field(name).unwrap().ty.clone();
        assert_eq!(ty("apps.v1.DeploymentSpec", "replicas"), Type::Pointer(Box::new(Type::Int32)));
        assert_eq!(ty("apps.v1.DeploymentSpec", "paused"), Type::Bool);
        assert_eq!(ty("core.v1.Secret", "data"), Type::Map(Box::new(Type::Bytes)));
        assert_eq!(ty("core.v1.ServicePort", "targetPort"), Type::IntOrString);
        assert_eq!(ty("coordination.v1.LeaseSpec", "renewTime"), Type::Pointer(Box::new(Type::MicroTime)));
        assert_eq!(ty("meta.v1.ObjectMeta", "creationTimestamp"), Type::Time);
        assert_eq!(types.go_name(&ty("core.v1.ContainerPort", "protocol")), "v1.Protocol");
        assert_eq!(types.go_name(&ty("core.v1.PodSpec", "containers")), "[]v1.Container");
    }
}
