//! From kinds to resources and back.

use std::fmt;

use kube_core::{DynamicObject, GroupVersionKind, GroupVersionResource};

use crate::discovery::similar::similar;
use crate::discovery::snapshot::api_version;
use crate::{Api, Client, Discovery, DiscoveryClient, Error, ServedResource};

impl Client {
    /// From kinds to resources and back, by what the server serves.
    pub fn mapper(&self) -> RestMapper {
        RestMapper { discovery: self.discovery() }
    }

    /// The objects of a kind that is known at run time only, in `namespace` or, without one, in all namespaces. Of a
    /// kind without namespaces they are those of the cluster, whatever is given. An empty version means the one the
    /// server prefers.
    ///
    /// ```no_run
    /// # use steersman_client::{GroupVersionKind, ListParams};
    /// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let widgets = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let widgets = client.dynamic_kind(&widgets, Some("default")).await?.list(&ListParams::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn dynamic_kind(
        &self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
    ) -> Result<Api<DynamicObject>, Error> {
        let found = self.mapper().kind(kind).await?;
        Ok(self.dynamic(&found.resource, found.place(namespace)))
    }
}

/// Finds the resource of a kind, the kind of a resource, and what people call them: what Go's `RESTMapper` is.
///
/// Something that is not known makes it ask the server anew, once, because it may have come since; when that happens
/// too often, only every ten seconds.
///
/// ```no_run
/// # use steersman_client::ListParams;
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
/// let deployments = client.mapper().resource("deploy").await?;
/// assert_eq!(deployments.resource.kind, "Deployment");
/// let all = client.dynamic(&deployments.resource, deployments.place(None)).list(&ListParams::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RestMapper {
    discovery: DiscoveryClient,
}

impl RestMapper {
    /// The resource of a kind. An empty version means the one the server prefers.
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ServedResource, Error> {
        let versions = [&*kind.version];
        let versions = if kind.version.is_empty() { &[][..] } else { &versions };
        self.kind_in_versions(&kind.group, &kind.kind, versions).await
    }

    /// The resource of a kind in the first of `versions` that has it. Without versions, in the one the server prefers.
    pub async fn kind_in_versions(&self, group: &str, kind: &str, versions: &[&str]) -> Result<ServedResource, Error> {
        self.look(|served| by_kind(served, group, kind, versions)).await
    }

    /// The resource that somebody names as for kubectl: `deployments`, `deployment`, `deploy` or `Deployment`; and to
    /// say which one is meant `deploy.apps` or `deployments.v1.apps`. Without a version the beginning of the group is
    /// enough. Where several groups have such a resource it is that of the most important one.
    pub async fn resource(&self, name: &str) -> Result<ServedResource, Error> {
        self.look(|served| by_name(served, name)).await
    }

    /// The resource with a name in the plural, in the singular, or a short one. An empty version means the one the
    /// server prefers; an empty group means the most important one that has it.
    pub async fn group_version_resource(&self, wanted: &GroupVersionResource) -> Result<ServedResource, Error> {
        let asked = Asked { name: &wanted.resource, version: &wanted.version, group: &wanted.group };
        let no_match = |served: &Discovery| no_resource(served, &asked.to_string(), &[asked]);
        self.look(|served| by_resource(served, &asked)?.ok_or_else(|| no_match(served))).await
    }

    /// The resources of a category, such as `all`, each in the version the server prefers.
    pub async fn category(&self, category: &str) -> Result<Vec<ServedResource>, Error> {
        self.look(|served| by_category(served, category)).await
    }

    /// Looks in what is known, and if it is not there, in what the server says when it is asked anew.
    async fn look<T>(&self, find: impl Fn(&Discovery) -> Result<T, MappingError>) -> Result<T, Error> {
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

/// Why there is no answer to what the resource of something is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MappingError {
    /// There is no such kind.
    NoKind {
        /// The group that was searched.
        group: String,
        /// The kind that was searched.
        kind: String,
        /// The versions that were searched; all if there are none.
        versions: Vec<String>,
        /// What else there is that may be meant.
        similar: Vec<String>,
        /// Where it could be and could not be searched, and why.
        unknown: Vec<String>,
    },
    /// There is no such resource.
    NoResource {
        /// The name as it was given.
        name: String,
        /// What else there is that may be meant.
        similar: Vec<String>,
        /// Where it could be and could not be searched, and why.
        unknown: Vec<String>,
    },
    /// There is no such category.
    NoCategory {
        /// The name as it was given.
        name: String,
        /// The categories that there are.
        known: Vec<String>,
    },
    /// More than one could be meant, and none is more important than the others.
    Ambiguous {
        /// What was searched.
        name: String,
        /// What was found.
        candidates: Vec<GroupVersionResource>,
    },
    /// The version is there, but the API server cannot reach the server behind it.
    Stale {
        /// The group.
        group: String,
        /// The version.
        version: String,
    },
}

impl MappingError {
    /// There is no such thing; at least not now.
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
                hints(f, similar, unknown)
            }
            Self::NoResource { name, similar, unknown } => {
                write!(f, "the server has no resource {name:?}")?;
                hints(f, similar, unknown)
            }
            Self::NoCategory { name, known } => {
                write!(f, "the server has no category {name:?}; it has: {}", known.join(", "))
            }
            Self::Ambiguous { name, candidates } => {
                let place = |found: &GroupVersionResource| api_version(&found.group, &found.version);
                let shown = |found: &GroupVersionResource| format!("{} in {}", found.resource, place(found));
                let candidates: Vec<String> = candidates.iter().map(shown).collect();
                write!(f, "{name:?} can be any of several resources: {}", candidates.join(", "))
            }
            Self::Stale { group, version } => {
                let version = api_version(group, version);
                write!(f, "what is in {version} is not known: the API server does not reach the server behind it")
            }
        }
    }
}

fn hints(f: &mut fmt::Formatter<'_>, similar: &[String], unknown: &[String]) -> fmt::Result {
    if !similar.is_empty() {
        write!(f, "; similar ones are: {}", similar.join(", "))?;
    }
    if !unknown.is_empty() {
        write!(f, "; it could be where the server did not say what there is: {}", unknown.join("; "))?;
    }
    Ok(())
}

/// A name in its parts; those that are empty are not given.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    name: &'a str,
    version: &'a str,
    group: &'a str,
}

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.name, self.version, self.group];
        f.write_str(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("."))
    }
}

impl<'a> Asked<'a> {
    /// What `a.b.c` can mean: the version `b` of the group `c`, or the group `b.c`.
    fn readings(name: &'a str) -> impl Iterator<Item = Self> {
        let (name, rest) = name.split_once('.').unwrap_or((name, ""));
        let versioned = rest.split_once('.').map(|(version, group)| Self { name, version, group });
        versioned.into_iter().chain([Self { name, version: "", group: rest }])
    }

    /// Those in the groups that are meant: of exactly that name, else, if no version is given, those that begin so.
    fn among<'s>(&self, served: &'s Discovery, is: impl Fn(&ServedResource) -> bool) -> Vec<&'s ServedResource> {
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
    the_first(kind, &candidates)?.ok_or_else(|| no_kind(served, group, kind, versions))
}

fn by_name(served: &Discovery, name: &str) -> Result<ServedResource, MappingError> {
    for asked in Asked::readings(name) {
        if let Some(found) = by_resource(served, &asked)? {
            return Ok(found);
        }
    }
    for asked in Asked::readings(name) {
        let found = asked.among(served, |found| found.resource.kind == asked.name);
        if let Some(found) = the_first(name, &found)? {
            return Ok(found);
        }
    }
    Err(no_resource(served, name, &Asked::readings(name).collect::<Vec<_>>()))
}

/// By the plural or singular name, which may be in capitals, else by a short name.
fn by_resource(served: &Discovery, asked: &Asked<'_>) -> Result<Option<ServedResource>, MappingError> {
    if asked.name.is_empty() {
        return Ok(None);
    }
    let lower = asked.name.to_lowercase();
    let long = asked.among(served, |found| found.resource.plural == lower || found.singular == lower);
    if !long.is_empty() {
        return the_first(asked.name, &long);
    }
    the_first(asked.name, &asked.among(served, |found| found.short_names.iter().any(|short| short == asked.name)))
}

/// The candidate in the most important group and version. Two in the same one are an ambiguity.
fn the_first(name: &str, candidates: &[&ServedResource]) -> Result<Option<ServedResource>, MappingError> {
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

fn no_resource(served: &Discovery, name: &str, readings: &[Asked<'_>]) -> MappingError {
    let shown = |found: &ServedResource| match &*found.resource.group {
        "" => found.resource.plural.clone(),
        group => format!("{}.{group}", found.resource.plural),
    };
    let mut known = Vec::new();
    for found in served.resources() {
        let names = [&found.resource.plural, &found.singular].into_iter().chain(&found.short_names);
        known.extend(names.map(|name| (&**name, shown(found))));
    }
    let could = |asked: &Asked<'_>, group: &str, version: &str| {
        let whole = asked.group.is_empty() || group == asked.group;
        if asked.version.is_empty() { group.starts_with(asked.group) } else { whole && version == asked.version }
    };
    MappingError::NoResource {
        name: name.to_owned(),
        similar: similar(readings.first().map_or(name, |asked| asked.name), known),
        unknown: unknown(served, |group, version| readings.iter().any(|asked| could(asked, group, version))),
    }
}

/// The versions that failed of those which could have it.
fn unknown(served: &Discovery, could: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let failures = served.failures().filter(|failure| could(failure.group, failure.version));
    failures.map(|failure| failure.to_string()).collect()
}
