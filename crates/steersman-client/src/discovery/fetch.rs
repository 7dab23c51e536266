//! Asking the server what it serves.

use std::sync::Arc;

use futures::{StreamExt, future, stream};
use http::StatusCode;
use http::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};

use super::document::{AggregatedGroup, PlainGroup, PlainVersion, ResourceList, Root, RootKind};
use super::snapshot::{Cause, Discovery, ServedGroup, ServedVersion};
use crate::{Client, DecodeError, Error};

/// All that is in all groups in one document, else the old documents.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The old documents.
const PLAIN: &str = "application/json";
/// How many of the old documents are asked for at once.
const AT_ONCE: usize = 16;

/// What a server answered with.
pub(super) struct Fetched {
    /// The core group first. One that cannot be had is there with the reason.
    pub(super) groups: Vec<ServedGroup>,
    /// By which the server knows again what it told.
    pub(super) etags: Etags,
}

/// Of the document with the core group and of that with all others, if they came in the aggregated form: one of the old
/// form does not change when what is in a group does.
#[derive(Clone, Debug, Default)]
pub(super) struct Etags {
    core: Option<HeaderValue>,
    named: Option<HeaderValue>,
}

/// Asks for everything, or for what is different from `old`.
pub(super) async fn groups(client: &Client, old: Option<&Discovery>) -> Result<Fetched, Error> {
    let known = old.map(|old| old.etags.clone()).unwrap_or_default();
    let (core, named) = (root(client, "/api", known.core), root(client, "/apis", known.named));
    let (core, named) = match future::join(core, named).await {
        // A server behind an aggregator has no core group, and one may have nothing else; but not neither.
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

/// One of the two documents where everything begins; with an etag alone, it has not changed.
#[derive(Default)]
struct Answered {
    document: Option<Root>,
    etag: Option<HeaderValue>,
}

fn absent_is_empty(root: Result<Answered, Error>) -> Result<Answered, Error> {
    match root {
        Err(error) if error.is_not_found() => Ok(Answered::default()),
        root => root,
    }
}

async fn root(client: &Client, path: &str, known: Option<HeaderValue>) -> Result<Answered, Error> {
    let get = |accept| client.rest().get().abs_path(path).header(ACCEPT, HeaderValue::from_static(accept));
    let mut request = get(AGGREGATED);
    if let Some(etag) = &known {
        request = request.header(IF_NONE_MATCH, etag.clone());
    }
    let answer = match request.send().await {
        Err(Error::Decode { problem: DecodeError::Code(StatusCode::NOT_MODIFIED), .. }) if known.is_some() => {
            return Ok(Answered { document: None, etag: known });
        }
        Err(error) if error.status().is_some_and(|status| matches!(status.code, 404 | 406)) => {
            get(PLAIN).send().await?
        }
        answer => answer?,
    };
    let document: Root = answer.decode()?;
    let etag = answer.headers().get(ETAG).filter(|_| document.kind == RootKind::Aggregated).cloned();
    Ok(Answered { document: Some(document), etag })
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
    let mut versions = stream::iter(fetches).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter();
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
        Err(error) => ServedVersion { version, resources: Vec::new(), failure: Some(Cause::Failed(Arc::new(error))) },
    }
}
