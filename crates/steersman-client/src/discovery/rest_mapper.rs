//! The mapping between kinds and resources.

use std::fmt;

use kube_core::{DynamicObject, GroupVersionKind, GroupVersionResource};

use super::similar::similar;
use super::snapshot::api_version;
use super::{Discovery, DiscoveryClient, ServedResource};
use crate::{Api, Client, Error};

impl Client {
    /// The mapping between kinds and resources, by discovery.
    pub fn mapper(&self) -> RestMapper {
        RestMapper { discovery: self.discovery() }
    }

    /// The objects of a kind that is known at run time only, in `namespace`, or in all namespaces
    /// without one. A cluster-scoped kind ignores `namespace`. An empty version means the one that
    /// the server prefers.
    ///
    /// ```no_run
    /// # use steersman_client::{GroupVersionKind, ListParams};
    /// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let widgets = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let widgets = client.dynamic_kind(&widgets, Some("default")).await?;
    /// let list = widgets.list(&ListParams::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn dynamic_kind(
        &self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
    ) -> Result<Api<DynamicObject>, Error> {
        let found = self.mapper().kind(kind).await?;
        Ok(self.dynamic(&found.resource, found.scope(namespace)))
    }
}

/// Maps kinds to resources, resources to kinds, and names such as `deploy` to both, as Go's
/// `RESTMapper` does.
///
/// A lookup that finds nothing refreshes discovery once, because the kind may be new. After five
/// such refreshes in a row there is one every ten seconds.
///
/// ```no_run
/// # use steersman_client::ListParams;
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
/// let deployments = client.mapper().resource("deploy").await?;
/// assert_eq!(deployments.resource.kind, "Deployment");
/// let deployments = client.dynamic(&deployments.resource, deployments.scope(None));
/// let list = deployments.list(&ListParams::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RestMapper {
    discovery: DiscoveryClient,
}

impl RestMapper {
    /// The resource of a kind. An empty version means the one that the server prefers.
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ServedResource, Error> {
        let versions = [&*kind.version];
        let versions = if kind.version.is_empty() { &[][..] } else { &versions };
        self.kind_in_versions(&kind.group, &kind.kind, versions).await
    }

    /// The resource of a kind, in the first of `versions` that has it. Without versions, in the one
    /// that the server prefers.
    pub async fn kind_in_versions(&self, group: &str, kind: &str, versions: &[&str]) -> Result<ServedResource, Error> {
        self.find_or_refresh(|served| by_kind(served, group, kind, versions)).await
    }

    /// The resource of a name as for kubectl: `deployments`, `deployment`, `deploy` or
    /// `Deployment`, and with a group `deploy.apps` or `deployments.v1.apps`. Without a version, a
    /// prefix of the group suffices. If several groups have the resource, the most important one
    /// wins.
    pub async fn resource(&self, name: &str) -> Result<ServedResource, Error> {
        self.find_or_refresh(|served| by_name(served, name)).await
    }

    /// The resource with a plural, singular or short name. An empty version means the one that the
    /// server prefers, an empty group the most important one that has the resource.
    pub async fn group_version_resource(&self, wanted: &GroupVersionResource) -> Result<ServedResource, Error> {
        let wanted = ResourceName { name: &wanted.resource, version: &wanted.version, group: &wanted.group };
        let no_match = |served: &Discovery| no_resource(served, &wanted.to_string(), &[wanted]);
        self.find_or_refresh(|served| by_resource(served, &wanted)?.ok_or_else(|| no_match(served))).await
    }

    /// The resources of a category, such as `all`, each in the version that the server prefers.
    pub async fn category(&self, category: &str) -> Result<Vec<ServedResource>, Error> {
        self.find_or_refresh(|served| by_category(served, category)).await
    }

    /// Searches the cached discovery, and if that finds nothing, a newer one.
    async fn find_or_refresh<T>(&self, find: impl Fn(&Discovery) -> Result<T, MappingError>) -> Result<T, Error> {
        let since = self.discovery.fetches();
        let mut served = self.discovery.get().await?;
        loop {
            let problem = match find(&served) {
                Err(problem) if problem.is_no_match() => problem,
                result => return result.map_err(|problem| Box::new(problem).into()),
            };
            match self.discovery.newer(&served, since).await? {
                Some(newer) => served = newer,
                None => return Err(Box::new(problem).into()),
            }
        }
    }
}

/// Why a kind or a name has no resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingError {
    /// There is no such kind.
    NoKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// The versions that were searched. Empty: all.
        versions: Vec<String>,
        /// Similar kinds.
        similar: Vec<String>,
        /// The versions that could not be searched because their discovery failed, and why.
        unknown: Vec<String>,
    },
    /// There is no such resource.
    NoResource {
        /// The name.
        name: String,
        /// Similar names.
        similar: Vec<String>,
        /// The versions that could not be searched because their discovery failed, and why.
        unknown: Vec<String>,
    },
    /// There is no such category.
    NoCategory {
        /// The name.
        name: String,
        /// All categories.
        known: Vec<String>,
    },
    /// Several resources match, and none is more important.
    Ambiguous {
        /// The name.
        name: String,
        /// The resources that match.
        candidates: Vec<GroupVersionResource>,
    },
    /// The version exists, but the API server cannot reach the server behind it.
    Stale {
        /// The group.
        group: String,
        /// The version.
        version: String,
    },
}

impl MappingError {
    /// The server serves no such kind, resource or category at this time.
    pub fn is_no_match(&self) -> bool {
        matches!(self, Self::NoKind { .. } | Self::NoResource { .. } | Self::NoCategory { .. })
    }
}

impl std::error::Error for MappingError {}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKind { group, kind, versions, similar, unknown } => {
                let place = match &**versions {
                    [] if group.is_empty() => "the core group".to_owned(),
                    [] => format!("the group {group}"),
                    versions => {
                        versions.iter().map(|version| api_version(group, version)).collect::<Vec<_>>().join(", ")
                    }
                };
                write!(f, "the server has no kind {kind:?} in {place}")?;
                write_hints(f, similar, unknown)
            }
            Self::NoResource { name, similar, unknown } => {
                write!(f, "the server has no resource {name:?}")?;
                write_hints(f, similar, unknown)
            }
            Self::NoCategory { name, known } => {
                write!(f, "the server has no category {name:?}; it has: {}", known.join(", "))
            }
            Self::Ambiguous { name, candidates } => {
                let place = |found: &GroupVersionResource| api_version(&found.group, &found.version);
                let shown = |found: &GroupVersionResource| format!("{} in {}", found.resource, place(found));
                let candidates: Vec<String> = candidates.iter().map(shown).collect();
                write!(f, "{name:?} matches several resources: {}", candidates.join(", "))
            }
            Self::Stale { group, version } => {
                let version = api_version(group, version);
                write!(f, "discovery of {version} failed: the API server cannot reach the server behind it")
            }
        }
    }
}

fn write_hints(f: &mut fmt::Formatter<'_>, similar: &[String], unknown: &[String]) -> fmt::Result {
    if !similar.is_empty() {
        write!(f, "; similar: {}", similar.join(", "))?;
    }
    if !unknown.is_empty() {
        write!(f, "; not searched because discovery failed: {}", unknown.join("; "))?;
    }
    Ok(())
}

/// The parts of a name such as `deployments.v1.apps`. A part that is missing is empty.
#[derive(Clone, Copy, Debug)]
struct ResourceName<'a> {
    name: &'a str,
    version: &'a str,
    group: &'a str,
}

impl fmt::Display for ResourceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.name, self.version, self.group];
        f.write_str(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("."))
    }
}

impl<'a> ResourceName<'a> {
    /// The meanings of `a.b.c`: version `b` of group `c`, or group `b.c`.
    fn interpretations(name: &'a str) -> impl Iterator<Item = Self> {
        let (name, rest) = name.split_once('.').unwrap_or((name, ""));
        let versioned = rest.split_once('.').map(|(version, group)| Self { name, version, group });
        versioned.into_iter().chain([Self { name, version: "", group: rest }])
    }

    /// The resources in the group of exactly this name. Else, if there is no version, those in
    /// groups that begin with it.
    fn candidates<'s>(&self, served: &'s Discovery, is: impl Fn(&ServedResource) -> bool) -> Vec<&'s ServedResource> {
        let versioned = |found: &&ServedResource| self.version.is_empty() || found.resource.version == self.version;
        let mut found: Vec<_> = served.resources().filter(|found| is(found)).filter(versioned).collect();
        let exact = |found: &&ServedResource| found.resource.group == self.group;
        let exactly = !self.version.is_empty() || found.iter().any(exact);
        if !self.group.is_empty() {
            found.retain(|found| if exactly { exact(found) } else { found.resource.group.starts_with(self.group) });
        }
        found
    }
}

fn by_kind(served: &Discovery, group: &str, kind: &str, versions: &[&str]) -> Result<ServedResource, MappingError> {
    let in_group = |found: &&ServedResource| found.resource.group == group && found.resource.kind == kind;
    let all: Vec<&ServedResource> = served.resources().filter(in_group).collect();
    let candidates = if versions.is_empty() {
        all
    } else {
        let in_version = |version: &str| -> Vec<&ServedResource> {
            all.iter().filter(|found| found.resource.version == version).copied().collect()
        };
        versions.iter().map(|version| in_version(version)).find(|found| !found.is_empty()).unwrap_or_default()
    };
    most_important(kind, &candidates)?.ok_or_else(|| no_kind(served, group, kind, versions))
}

fn by_name(served: &Discovery, name: &str) -> Result<ServedResource, MappingError> {
    for wanted in ResourceName::interpretations(name) {
        if let Some(found) = by_resource(served, &wanted)? {
            return Ok(found);
        }
    }
    for wanted in ResourceName::interpretations(name) {
        let found = wanted.candidates(served, |found| found.resource.kind == wanted.name);
        if let Some(found) = most_important(name, &found)? {
            return Ok(found);
        }
    }
    Err(no_resource(served, name, &ResourceName::interpretations(name).collect::<Vec<_>>()))
}

/// By plural or singular name in any case, else by short name.
fn by_resource(served: &Discovery, wanted: &ResourceName<'_>) -> Result<Option<ServedResource>, MappingError> {
    if wanted.name.is_empty() {
        return Ok(None);
    }
    let lower = wanted.name.to_lowercase();
    let long = wanted.candidates(served, |found| found.resource.plural == lower || found.singular == lower);
    if !long.is_empty() {
        return most_important(wanted.name, &long);
    }
    most_important(
        wanted.name,
        &wanted.candidates(served, |found| found.short_names.iter().any(|short| short == wanted.name)),
    )
}

/// The candidate in the most important group and version. Two in the same one are ambiguous.
fn most_important(name: &str, candidates: &[&ServedResource]) -> Result<Option<ServedResource>, MappingError> {
    let Some(first) = candidates.first() else { return Ok(None) };
    let beside = candidates.iter().filter(|found| found.resource.api_version == first.resource.api_version);
    let beside: Vec<&ServedResource> = beside.copied().collect();
    if let [single] = &*beside {
        return Ok(Some((*single).clone()));
    }
    let resource = |found: &&ServedResource| {
        let found = &found.resource;
        GroupVersionResource::gvr(&found.group, &found.version, &found.plural)
    };
    Err(MappingError::Ambiguous { name: name.to_owned(), candidates: beside.iter().map(resource).collect() })
}

fn by_category(served: &Discovery, category: &str) -> Result<Vec<ServedResource>, MappingError> {
    let inside = |found: &&ServedResource| found.categories.iter().any(|known| known == category);
    let found: Vec<ServedResource> = served.preferred_resources().filter(inside).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let mut known: Vec<String> = served.resources().flat_map(|found| found.categories.iter().cloned()).collect();
    known.sort();
    known.dedup();
    Err(MappingError::NoCategory { name: category.to_owned(), known })
}

fn no_kind(served: &Discovery, group: &str, kind: &str, versions: &[&str]) -> MappingError {
    let shown = |found: &ServedResource| format!("{} in {}", found.resource.kind, found.resource.api_version);
    let known = served.resources().map(|found| (&*found.resource.kind, shown(found)));
    MappingError::NoKind {
        group: group.to_owned(),
        kind: kind.to_owned(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        similar: similar(kind, known),
        unknown: unknown(served, |found, version| {
            found == group && (versions.is_empty() || versions.contains(&version))
        }),
    }
}

fn no_resource(served: &Discovery, name: &str, interpretations: &[ResourceName<'_>]) -> MappingError {
    let shown = |found: &ServedResource| match &*found.resource.group {
        "" => found.resource.plural.clone(),
        group => format!("{}.{group}", found.resource.plural),
    };
    let mut known = Vec::new();
    for found in served.resources() {
        let names = [&found.resource.plural, &found.singular].into_iter().chain(&found.short_names);
        known.extend(names.map(|name| (&**name, shown(found))));
    }
    let could = |wanted: &ResourceName<'_>, group: &str, version: &str| {
        let whole = wanted.group.is_empty() || group == wanted.group;
        if wanted.version.is_empty() { group.starts_with(wanted.group) } else { whole && version == wanted.version }
    };
    MappingError::NoResource {
        name: name.to_owned(),
        similar: similar(interpretations.first().map_or(name, |wanted| wanted.name), known),
        unknown: unknown(served, |group, version| interpretations.iter().any(|wanted| could(wanted, group, version))),
    }
}

/// The failed versions that could have the resource.
fn unknown(served: &Discovery, could: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let failures = served.failures().filter(|failure| could(failure.group, failure.version));
    failures.map(|failure| failure.to_string()).collect()
}
