//! Whether the owners of objects are in namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_core::GroupVersionResource;
use steersman_client::{Client, Error};
use tokio::time::{Instant, sleep, timeout_at};

use crate::kind::Identity;

/// How long discovery may lag behind a kind that is served already.
const DISCOVERY_MAX: Duration = Duration::from_secs(30);
/// The time between two requests.
const RETRY: Duration = Duration::from_secs(2);

/// The scope of the kind that a controller reconciles, for the functions that find owners. A Rust
/// type has it, and so does a dynamic kind with [`cluster_scoped`](crate::Kind::cluster_scoped).
/// For other dynamic kinds it comes from discovery.
#[derive(Debug, Clone)]
pub(crate) struct OwnerScope {
    owner: Identity,
    namespaced: Arc<AtomicBool>,
}

impl OwnerScope {
    pub(crate) fn of(owner: &Identity) -> Self {
        Self { owner: owner.clone(), namespaced: Arc::new(AtomicBool::new(owner.namespaced)) }
    }

    pub(crate) fn owner(&self) -> &Identity {
        &self.owner
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.namespaced.load(Ordering::Relaxed)
    }

    /// Reads the scope from discovery if it is not known. If that fails, the owners are assumed to
    /// be namespaced, as most are.
    pub(crate) async fn discover(&self, client: &Client, controller: &str) {
        if self.owner.scope_known {
            return;
        }
        let mut path = self.owner.path.rsplit('/');
        let (plural, version) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
        let wanted = GroupVersionResource::gvr(&self.owner.group, version, plural);
        let deadline = Instant::now() + DISCOVERY_MAX;
        let error = loop {
            let error = match timeout_at(deadline, client.mapper().group_version_resource(&wanted)).await {
                Ok(Ok(found)) => {
                    self.namespaced.store(found.namespaced, Ordering::Relaxed);
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => break format!("no response within {DISCOVERY_MAX:?}"),
            };
            // A kind can be served before it is in discovery.
            let may_change = error.is_retryable() || matches!(&error, Error::Mapping(error) if error.is_no_match());
            if !may_change || Instant::now() + RETRY >= deadline {
                break error.to_string();
            }
            sleep(RETRY).await;
        };
        let kind = &*self.owner.kind;
        tracing::warn!(
            controller,
            kind,
            error,
            "scope of the owners not found in discovery, assumed to be namespaced: call cluster_scoped() if they are not"
        );
    }
}
