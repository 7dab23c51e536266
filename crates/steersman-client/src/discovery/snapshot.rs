//! What a server serves, as it was told at one time.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use kube_core::GroupVersionKind;
use kube_core::discovery::ApiResource;

use super::fetch::{Etags, Fetched};
use crate::{Error, MappingError, Place};

/// What a server serves: its groups, the most important first and the core group before all others, their versions and
/// what is in them; and what could not be had.
#[derive(Clone, Debug)]
pub struct Discovery {
    groups: Vec<ServedGroup>,
    /// The number of the fetch that it comes from.
    pub(super) fetch: u64,
    pub(super) etags: Etags,
}

/// A group of kinds. The core group's name is empty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedGroup {
    /// Its name.
    pub name: String,
    /// Its versions, in the order in which the server prefers them.
    pub versions: Vec<ServedVersion>,
    /// The version that clients should use if they know nothing better.
    pub preferred: String,
}

/// A version of a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedVersion {
    /// Its name.
    pub version: String,
    /// What is in it.
    pub resources: Vec<ServedResource>,
    /// Why it is not known what is in it.
    pub failure: Option<Cause>,
}

/// A resource: objects of a kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedResource {
    /// Its group, version, kind and plural name: what [`Client::dynamic`](crate::Client::dynamic) needs.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Its name in the singular.
    pub singular: String,
    /// Short names for it, such as `po`.
    pub short_names: Vec<String>,
    /// The categories it is in, such as `all`.
    pub categories: Vec<String>,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// Its parts that are read and written by themselves.
    pub subresources: Vec<ServedSubresource>,
}

/// A part of objects that is read and written by itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServedSubresource {
    /// Its name, without that of the resource.
    pub name: String,
    /// The kind of what is read and written, which may be in another group.
    pub kind: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

impl ServedResource {
    /// Its kind.
    pub fn kind(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.resource.group, &self.resource.version, &self.resource.kind)
    }

    /// Whether that can be done with it: `get`, `list`, `watch`, `create`, …
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Its part of that name.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|known| known.name == name)
    }

    /// Where its objects are, for somebody in `namespace`; without one, in all. A kind without namespaces is in none,
    /// whatever is given, as for kubectl.
    pub fn place(&self, namespace: Option<&str>) -> Place {
        match namespace {
            _ if !self.namespaced => Place::Cluster,
            Some(namespace) => Place::Namespace(namespace.to_owned()),
            None => Place::AllNamespaces,
        }
    }
}

/// Why it is not known what is in a version of a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The API server cannot reach the server behind it, and knows only what there was some time ago.
    Stale,
    /// The request for it failed.
    Failed(Arc<Error>),
}

impl Cause {
    pub(super) fn error(&self, group: &str, version: &str) -> Error {
        match self {
            Self::Failed(error) => Error::Discovery(error.clone()),
            Self::Stale => {
                Box::new(MappingError::Stale { group: group.to_owned(), version: version.to_owned() }).into()
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale => f.write_str("what the API server knows of it is out of date"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// A version of a group of which it is not known what is in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure<'d> {
    /// The group.
    pub group: &'d str,
    /// The version.
    pub version: &'d str,
    /// Why.
    pub cause: &'d Cause,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", api_version(self.group, self.version), self.cause)
    }
}

/// A group and a version as in `apiVersion`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

impl ServedGroup {
    /// A version.
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

    /// The groups and their versions, also those that failed.
    pub fn groups(&self) -> &[ServedGroup] {
        &self.groups
    }

    /// A group; the core group's name is empty.
    pub fn group(&self, name: &str) -> Option<&ServedGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// What is in a version of a group. `None` if there is no such version, or it failed.
    pub fn resources_of(&self, group: &str, version: &str) -> Option<&[ServedResource]> {
        let version = self.group(group)?.version(version)?;
        version.failure.is_none().then_some(&version.resources)
    }

    /// All resources in all versions: the most important group first, and in it the preferred version first.
    pub fn resources(&self) -> impl Iterator<Item = &ServedResource> {
        self.groups.iter().flat_map(ServedGroup::by_preference).flat_map(|version| &version.resources)
    }

    /// All resources, each once: in the preferred version or, where that does not have it, in the first version that
    /// does.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &ServedResource> {
        let mut seen = HashSet::new();
        self.resources().filter(move |found| seen.insert((&*found.resource.group, &*found.resource.plural)))
    }

    /// The versions of groups of which it is not known what is in them.
    pub fn failures(&self) -> impl Iterator<Item = Failure<'_>> {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().filter_map(|version| {
                let cause = version.failure.as_ref()?;
                Some(Failure { group: &group.name, version: &version.version, cause })
            })
        })
    }
}
