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
/// The time between two questions.
const RETRY: Duration = Duration::from_secs(2);

/// The scope of the kind that a controller reconciles, for the functions that find owners. A Rust
/// type has it, and so has a dynamic kind with [`cluster_scoped`](crate::Kind::cluster_scoped);
/// of another dynamic kind discovery knows it.
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

    /// Asks discovery if the scope is not known. Without an answer, the owners are taken to be in
    /// namespaces, as most are.
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
            // The kind may be served already and not be in discovery yet.
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
            "discovery does not show the scope of the owners: taken to be namespaced; if not, call cluster_scoped()"
        );
    }
}
