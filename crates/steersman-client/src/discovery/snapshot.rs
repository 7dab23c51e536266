//! The result of discovery at one time.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use kube_core::GroupVersionKind;
use kube_core::discovery::ApiResource;

use super::fetch::{Etags, Fetched};
use crate::{Error, MappingError, NamespaceScope};

/// The groups that a server serves, with their versions and resources, and the versions that
/// failed. The core group comes first, then the most important group.
#[derive(Clone, Debug)]
pub struct Discovery {
    groups: Vec<ServedGroup>,
    /// The number of the fetch that returned it.
    pub(super) fetch: u64,
    pub(super) etags: Etags,
}

/// An API group. The core group's name is empty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedGroup {
    /// The name.
    pub name: String,
    /// The versions, in the server's order of preference.
    pub versions: Vec<ServedVersion>,
    /// The version that clients should use by default.
    pub preferred: String,
}

/// A version of an API group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedVersion {
    /// The name, such as `v1`.
    pub version: String,
    /// The resources.
    pub resources: Vec<ServedResource>,
    /// Why discovery of this version failed, if it did.
    pub failure: Option<DiscoveryCause>,
}

/// A resource: the objects of a kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedResource {
    /// The group, version, kind and plural name, as [`Client::dynamic`](crate::Client::dynamic)
    /// takes them.
    pub resource: ApiResource,
    /// Whether the kind has namespaces.
    pub namespaced: bool,
    /// The singular name.
    pub singular: String,
    /// The short names, such as `po`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
    /// The subresources.
    pub subresources: Vec<ServedSubresource>,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedSubresource {
    /// The name, without that of the resource.
    pub name: String,
    /// The kind that is read and written. It may be in another group.
    pub kind: GroupVersionKind,
    /// The verbs.
    pub verbs: Vec<String>,
}

impl ServedResource {
    /// The kind.
    pub fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.resource.group, &self.resource.version, &self.resource.kind)
    }

    /// Whether the resource has a verb: `get`, `list`, `watch`, `create`, …
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|known| known.name == name)
    }

    /// The scope for [`Client::dynamic`](crate::Client::dynamic): `namespace`, or all namespaces
    /// without one. A cluster-scoped kind ignores `namespace`, as kubectl does.
    pub fn scope(&self, namespace: Option<&str>) -> NamespaceScope {
        match namespace {
            _ if !self.namespaced => NamespaceScope::Cluster,
            Some(namespace) => NamespaceScope::Namespace(namespace.to_owned()),
            None => NamespaceScope::AllNamespaces,
        }
    }
}

/// Why discovery of a version failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DiscoveryCause {
    /// The API server cannot reach the server behind it, and has only old data.
    Stale,
    /// The request failed.
    Failed(Arc<Error>),
}

impl DiscoveryCause {
    pub(super) fn error(&self, group: &str, version: &str) -> Error {
        match self {
            Self::Failed(error) => Error::Discovery(error.clone()),
            Self::Stale => {
                Box::new(MappingError::Stale { group: group.to_owned(), version: version.to_owned() }).into()
            }
        }
    }
}

impl fmt::Display for DiscoveryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => f.write_str("the API server cannot reach the server behind it"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// A version of a group whose discovery failed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DiscoveryFailure<'d> {
    /// The group.
    pub group: &'d str,
    /// The version.
    pub version: &'d str,
    /// The reason.
    pub cause: &'d DiscoveryCause,
}

impl fmt::Display for DiscoveryFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", api_version(self.group, self.version), self.cause)
    }
}

/// `group/version` as in `apiVersion`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

impl ServedGroup {
    /// The version of that name.
    pub fn version(&self, version: &str) -> Option<&ServedVersion> {
        self.versions.iter().find(|known| known.version == version)
    }

    /// The versions, the preferred one first.
    pub(crate) fn by_preference(&self) -> impl Iterator<Item = &ServedVersion> {
        let preferred = self.versions.iter().filter(|known| known.version == self.preferred);
        preferred.chain(self.versions.iter().filter(|known| known.version != self.preferred))
    }
}

impl Discovery {
    pub(super) fn new(Fetched { groups, etags }: Fetched, fetch: u64) -> Self {
        Self { groups, fetch, etags }
    }

    /// The groups and their versions, including those that failed.
    pub fn groups(&self) -> &[ServedGroup] {
        &self.groups
    }

    /// The group of that name. The core group's name is empty.
    pub fn group(&self, name: &str) -> Option<&ServedGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The resources in a version of a group. `None` if there is no such version, or if it failed.
    pub fn resources_of(&self, group: &str, version: &str) -> Option<&[ServedResource]> {
        let version = self.group(group)?.version(version)?;
        version.failure.is_none().then_some(&version.resources)
    }

    /// All resources in all versions: the most important group first, and in it the preferred
    /// version first.
    pub fn resources(&self) -> impl Iterator<Item = &ServedResource> {
        self.groups.iter().flat_map(ServedGroup::by_preference).flat_map(|version| &version.resources)
    }

    /// All resources, each once: in the preferred version, or else in the first version that has
    /// it.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &ServedResource> {
        let mut seen = HashSet::new();
        self.resources().filter(move |found| seen.insert((&*found.resource.group, &*found.resource.plural)))
    }

    /// The versions that failed.
    pub fn failures(&self) -> impl Iterator<Item = DiscoveryFailure<'_>> {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().filter_map(|version| {
                let cause = version.failure.as_ref()?;
                Some(DiscoveryFailure { group: &group.name, version: &version.version, cause })
            })
        })
    }
}
