//! A hint for a declared namespace that does not exist: its cache is empty, and nothing else shows
//! why.

use steersman_cache::{Object, Subscription};
use steersman_client::{ApiResource, Client, NamespaceScope};

/// Logs, after the first list, which of the namespaces of a cache do not exist. Only empty ones are
/// read, once each. A client without permission to read namespaces gets no hint.
///
/// A subscription does not shorten the back-off of the informer, unlike a read that waits.
pub(super) async fn warn<K: Object>(
    client: Client,
    mut objects: Subscription<K>,
    kind: String,
    namespaces: Vec<String>,
) {
    let Some(objects) = objects.changed().await else { return };
    let is_empty = |namespace: &&String| objects.iter().all(|object| object.meta().namespace() != namespace.as_str());
    let api = client.dynamic(&resource(), NamespaceScope::Cluster).metadata();
    for namespace in namespaces.iter().filter(is_empty) {
        if let Ok(None) = api.get_opt(namespace).await {
            tracing::warn!(
                kind,
                namespace = ?namespace,
                "the declared namespace does not exist: check its name; objects are cached once it is created"
            );
        }
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        plural: "namespaces".to_owned(),
    }
}
