//! The documents of discovery. Null and missing are empty, as in Go.

use kube_core::{GroupVersionKind, discovery::ApiResource};
use serde::{Deserialize, Deserializer};

use super::snapshot::{DiscoveryCause, ServedGroup, ServedResource, ServedSubresource, ServedVersion};

/// The document at `/api` and `/apis`, in any of its forms. Each form has its own fields.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Root {
    pub(super) kind: RootKind,
    /// Of an `APIGroupDiscoveryList`: groups with their contents.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) items: Vec<AggregatedGroup>,
    /// Of `APIVersions`: the versions of the core group.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) versions: Vec<String>,
    /// Of an `APIGroupList`: groups and their versions.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) groups: Vec<PlainGroup>,
}

/// The form. Any other kind, such as the page of a proxy, is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum RootKind {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated,
    #[serde(rename = "APIGroupList", alias = "APIVersions")]
    Plain,
}

/// A group of an `APIGroupDiscoveryList`. v2beta1 and v2 do not differ in these fields.
#[derive(Debug, Deserialize)]
pub(super) struct AggregatedGroup {
    #[serde(default)]
    metadata: Name,
    #[serde(default, deserialize_with = "null_is_empty")]
    versions: Vec<AggregatedVersion>,
}

#[derive(Debug, Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource {
    subresource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default, deserialize_with = "null_is_empty")]
    verbs: Vec<String>,
}

/// The kind of the responses.
#[derive(Debug, Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

impl ResponseKind {
    /// `None` if there is no kind. Without a version, the kind is in the group version that serves
    /// it.
    fn within(self, group: &str, version: &str) -> Option<GroupVersionKind> {
        match self {
            Self { kind, .. } if kind.is_empty() => None,
            Self { version: none, kind, .. } if none.is_empty() => Some(GroupVersionKind::gvk(group, version, &kind)),
            Self { group, version, kind } => Some(GroupVersionKind { group, version, kind }),
        }
    }
}

impl AggregatedGroup {
    /// A stale version is one that failed: its contents may be long out of date.
    pub(super) fn served(self) -> ServedGroup {
        let name = self.metadata.name;
        let version = |found: AggregatedVersion| {
            if found.freshness == "Stale" {
                return ServedVersion {
                    version: found.version,
                    resources: Vec::new(),
                    failure: Some(DiscoveryCause::Stale),
                };
            }
            let resources = found.resources.into_iter();
            let resources = resources.filter_map(|resource| resource.served(&name, &found.version)).collect();
            ServedVersion { version: found.version, resources, failure: None }
        };
        let versions: Vec<ServedVersion> = self.versions.into_iter().map(version).collect();
        let preferred = versions.iter().find(|version| version.failure.is_none()).or(versions.first());
        let preferred = preferred.map(|version| version.version.clone()).unwrap_or_default();
        ServedGroup { name, versions, preferred }
    }
}

impl AggregatedResource {
    /// `None` for a resource without a kind: only its subresources can be read and written.
    fn served(self, group: &str, version: &str) -> Option<ServedResource> {
        let kind = self.response_kind?.within(group, version)?.kind;
        let subresources = self.subresources.into_iter().filter_map(|part| {
            let kind = part.response_kind?.within(group, version)?;
            Some(ServedSubresource { name: part.subresource, kind, verbs: part.verbs })
        });
        Some(ServedResource {
            subresources: subresources.collect(),
            singular: singular(self.singular_resource, &kind),
            resource: api_resource(group, version, &kind, &self.resource),
            namespaced: self.scope == "Namespaced",
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
        })
    }
}

/// A group of an `APIGroupList`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlainGroup {
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) versions: Vec<PlainVersion>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) preferred_version: PlainVersion,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct PlainVersion {
    #[serde(default)]
    pub(super) version: String,
}

/// An `APIResourceList`: the contents of one version of a group.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceList {
    #[serde(default, deserialize_with = "null_is_empty")]
    resources: Vec<PlainResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    categories: Vec<String>,
}

impl ResourceList {
    /// The resources, each with its subresources, which the list has as `pods/log`.
    pub(super) fn served(self, group: &str, version: &str) -> Vec<ServedResource> {
        let (parts, wholes): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|resource| resource.name.contains('/'));
        let mut served: Vec<ServedResource> = wholes.into_iter().map(|whole| whole.served(group, version)).collect();
        for part in parts {
            let Some((of, name)) = part.name.split_once('/') else { continue };
            let Some(whole) = served.iter_mut().find(|resource| resource.resource.plural == of) else { continue };
            // Group and version are set only if they are not those of the list.
            let elsewhere = !part.version.is_empty();
            let (group, version) = if elsewhere { (&*part.group, &*part.version) } else { (group, version) };
            let kind = GroupVersionKind::gvk(group, version, &part.kind);
            whole.subresources.push(ServedSubresource { name: name.to_owned(), kind, verbs: part.verbs });
        }
        served
    }
}

impl PlainResource {
    fn served(self, group: &str, version: &str) -> ServedResource {
        ServedResource {
            singular: singular(self.singular_name, &self.kind),
            resource: api_resource(group, version, &self.kind, &self.name),
            namespaced: self.namespaced,
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: Vec::new(),
        }
    }
}

fn api_resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Old servers do not send the singular name.
fn singular(name: String, kind: &str) -> String {
    if name.is_empty() { kind.to_lowercase() } else { name }
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
