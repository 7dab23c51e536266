//! The requests of discovery.

use std::sync::Arc;

use futures::{StreamExt, future, stream};
use http::StatusCode;
use http::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};

use super::document::{AggregatedGroup, PlainGroup, PlainVersion, ResourceList, Root, RootKind};
use super::snapshot::{Discovery, DiscoveryCause, ServedGroup, ServedVersion};
use crate::{Client, Error, ResponseError};

/// Aggregated discovery: all groups with their contents in one document. Falls back to the old
/// documents.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The documents before aggregated discovery.
const PLAIN: &str = "application/json";
/// How many requests for the old documents run at the same time.
const CONCURRENT_MAX: usize = 16;

/// The result of a fetch.
pub(super) struct Fetched {
    /// The core group first. A group that failed is here with the reason.
    pub(super) groups: Vec<ServedGroup>,
    /// For conditional requests.
    pub(super) etags: Etags,
}

/// The etags of the core group's document and of the other groups' document, if they are
/// aggregated. A document of the old form has none here: it does not change when the contents of a
/// group do.
#[derive(Clone, Debug, Default)]
pub(super) struct Etags {
    core: Option<HeaderValue>,
    named: Option<HeaderValue>,
}

/// Fetches all groups. With the etags of `old`, the server sends only the documents that changed.
pub(super) async fn groups(client: &Client, old: Option<&Discovery>) -> Result<Fetched, Error> {
    let known = old.map(|old| old.etags.clone()).unwrap_or_default();
    let (core, named) = (root(client, "/api", known.core), root(client, "/apis", known.named));
    let (core, named) = match future::join(core, named).await {
        // A server behind an aggregator has no core group, and another may have the core group
        // alone. One of the two exists.
        (Err(core), Err(named)) if core.is_not_found() => return Err(named),
        (core, named) => (absent_is_empty(core)?, absent_is_empty(named)?),
    };
    let mut groups = Vec::new();
    let etags = Etags { core: core.etag.clone(), named: named.etag.clone() };
    for (root, is_core) in [(core, true), (named, false)] {
        match root.document {
            Some(document) if document.kind == RootKind::Aggregated => {
                groups.extend(document.items.into_iter().map(AggregatedGroup::served));
            }
            Some(document) => groups.extend(plain_groups(client, document).await),
            None => {
                let old = old.into_iter().flat_map(Discovery::groups);
                groups.extend(old.filter(|group| root.etag.is_some() && group.name.is_empty() == is_core).cloned());
            }
        }
    }
    Ok(Fetched { groups, etags })
}

/// One of the two root documents. An etag without a document: it has not changed.
#[derive(Default)]
struct RootResponse {
    document: Option<Root>,
    etag: Option<HeaderValue>,
}

fn absent_is_empty(root: Result<RootResponse, Error>) -> Result<RootResponse, Error> {
    match root {
        Err(error) if error.is_not_found() => Ok(RootResponse::default()),
        root => root,
    }
}

async fn root(client: &Client, path: &str, known: Option<HeaderValue>) -> Result<RootResponse, Error> {
    let get = |accept| client.rest().get().abs_path(path).header(ACCEPT, HeaderValue::from_static(accept));
    let mut request = get(AGGREGATED);
    if let Some(etag) = &known {
        request = request.header(IF_NONE_MATCH, etag.clone());
    }
    let response = match request.send().await {
        Err(Error::Decode { problem: ResponseError::Code(StatusCode::NOT_MODIFIED), .. }) if known.is_some() => {
            return Ok(RootResponse { document: None, etag: known });
        }
        Err(error) if error.status().is_some_and(|status| matches!(status.code, 404 | 406)) => {
            get(PLAIN).send().await?
        }
        response => response?,
    };
    let document: Root = response.decode()?;
    let etag = response.headers().get(ETAG).filter(|_| document.kind == RootKind::Aggregated).cloned();
    Ok(RootResponse { document: Some(document), etag })
}

/// The groups of the old documents: one request for each version of each group.
async fn plain_groups(client: &Client, root: Root) -> Vec<ServedGroup> {
    let core = PlainGroup {
        name: String::new(),
        preferred_version: PlainVersion { version: root.versions.first().cloned().unwrap_or_default() },
        versions: root.versions.into_iter().map(|version| PlainVersion { version }).collect(),
    };
    let core = (!core.versions.is_empty()).then_some(core);
    let groups: Vec<PlainGroup> = core.into_iter().chain(root.groups).collect();
    let wanted = groups.iter().flat_map(|group| group.versions.iter().map(|found| (&group.name, &found.version)));
    let wanted: Vec<(String, String)> = wanted.map(|(group, version)| (group.clone(), version.clone())).collect();
    let fetches = wanted.into_iter().map(|(group, version)| plain_version(client, group, version));
    let mut versions = stream::iter(fetches).buffered(CONCURRENT_MAX).collect::<Vec<_>>().await.into_iter();
    let served = |group: PlainGroup| {
        let versions: Vec<ServedVersion> = versions.by_ref().take(group.versions.len()).collect();
        let mut preferred = group.preferred_version.version;
        if preferred.is_empty() {
            preferred = versions.first().map(|first| first.version.clone()).unwrap_or_default();
        }
        ServedGroup { name: group.name, versions, preferred }
    };
    groups.into_iter().map(served).collect()
}

async fn plain_version(client: &Client, group: String, version: String) -> ServedVersion {
    let requests = client.rest_of(&group, &version);
    match requests.get().send_for::<ResourceList>().await {
        Ok(list) => ServedVersion { resources: list.served(&group, &version), version, failure: None },
        Err(error) => {
            ServedVersion { version, resources: Vec::new(), failure: Some(DiscoveryCause::Failed(Arc::new(error))) }
        }
    }
}
