//! A hint for a declared namespace that does not exist: its cache is empty, and nothing else shows
//! why.

use std::sync::Arc;

use steersman_cache::{Object, Subscription};
use steersman_client::{ApiResource, Client, DynamicObject, NamespaceScope};

use crate::access::Registry;
use crate::kind::Identity;

/// A kind that is declared in some namespaces.
pub(super) struct Declared {
    pub(super) kind: String,
    pub(super) namespaces: Vec<String>,
}

/// Logs, after the first list, which of the namespaces of a cache do not exist. Only empty ones are
/// read, once each. A client without permission to read namespaces gets no hint, and neither does a
/// manager that declares other requests than this one.
///
/// A subscription does not shorten the back-off of the informer, unlike a read that waits.
pub(super) async fn warn<K: Object>(
    client: Client,
    access: Arc<Registry>,
    mut objects: Subscription<K>,
    Declared { kind, namespaces }: Declared,
) {
    let Some(objects) = objects.changed().await else { return };
    let is_empty = |namespace: &&String| objects.iter().all(|object| object.meta().namespace() != namespace.as_str());
    let api = client.dynamic(&resource(), NamespaceScope::Cluster).metadata();
    let identity = Identity::of::<DynamicObject, DynamicObject>(&resource(), String::new());
    let may_look = |namespace: &&String| access.permits_hint(&identity, Some(namespace), namespace);
    for namespace in namespaces.iter().filter(is_empty).filter(may_look) {
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
