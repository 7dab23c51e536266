//! Asking the server what it serves.

use std::sync::Arc;

use futures::{StreamExt, future, stream};
use http::header::{ACCEPT, HeaderValue};

use super::document::{AggregatedGroup, PlainGroup, PlainVersion, ResourceList, Root, RootKind};
use super::snapshot::{Cause, ServedGroup, ServedVersion};
use crate::{Client, Error};

/// All that is in all groups in one document, else the old documents.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The old documents.
const PLAIN: &str = "application/json";
/// How many of the old documents are asked for at once.
const AT_ONCE: usize = 16;

/// All groups, the core group first. A group that cannot be had is there with the reason.
pub(super) async fn groups(client: &Client) -> Result<Vec<ServedGroup>, Error> {
    let (core, named) = future::join(root(client, "/api"), root(client, "/apis")).await;
    let (core, named) = match (core, named) {
        // A server behind an aggregator has no core group, and one may have nothing else; but not neither.
        (Err(core), Err(named)) if core.is_not_found() => return Err(named),
        (core, named) => (absent_is_none(core)?, absent_is_none(named)?),
    };
    let mut groups = Vec::new();
    for root in [core, named].into_iter().flatten() {
        if root.kind == RootKind::Aggregated {
            groups.extend(root.items.into_iter().map(AggregatedGroup::served));
        } else {
            groups.extend(plain_groups(client, root).await);
        }
    }
    Ok(groups)
}

fn absent_is_none(root: Result<Root, Error>) -> Result<Option<Root>, Error> {
    match root {
        Err(error) if error.is_not_found() => Ok(None),
        root => root.map(Some),
    }
}

/// One of the two documents where everything begins.
async fn root(client: &Client, path: &str) -> Result<Root, Error> {
    let ask = |accept| client.rest().get().abs_path(path).header(ACCEPT, HeaderValue::from_static(accept)).send_for();
    match ask(AGGREGATED).await {
        Err(error) if error.status().is_some_and(|status| matches!(status.code, 404 | 406)) => ask(PLAIN).await,
        answer => answer,
    }
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
