//! A hint for a declared namespace that does not exist: its cache is empty, and nothing else shows why.

use std::time::Duration;

use steersman_cache::{Lister, Object};
use steersman_client::{ApiResource, Client, Place};

/// The wait ends before with the informer.
const LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Logs, after the first list, which of the namespaces of a cache do not exist. Only empty ones are asked for, once each. A
/// client that may not read namespaces gets no hint.
pub(super) async fn warn<K: Object>(client: Client, lister: Lister<K>, kind: String, namespaces: Vec<String>) {
    // A version is reached when every namespace has been listed.
    if !lister.wait_until(LIMIT, || !lister.resource_version().is_empty()).await {
        return;
    }
    let api = client.dynamic(&resource(), Place::Cluster).metadata();
    for namespace in namespaces.iter().filter(|namespace| lister.namespace(namespace).is_empty()) {
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
