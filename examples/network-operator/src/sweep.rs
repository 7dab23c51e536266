use std::collections::HashSet;
use std::time::Duration;

use steersman::runtime::{Index, StopSignal};
use steersman::{CachedClient, ListQuery, ReconcileError};

use crate::Network;
use crate::error::Problem;
use crate::provider::Provider;

/// The index that the sweep uses.
const BY_UID: &str = "uid";

/// Removes networks from Neutron whose Network no longer exists: its finalizer was removed by
/// force, or an abandoned request was executed after all.
///
/// A network is removed only if the API server itself does not have its Network, and that is read
/// after Neutron was. The Network always exists before its network, so a network that was created
/// in between is not mistaken for an orphan.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    pub(crate) provider: Provider,
    pub(crate) client: CachedClient,
    pub(crate) every: Duration,
}

/// The index that a sweep needs.
pub(crate) fn uid_index() -> (&'static str, Index<Network>) {
    (BY_UID, Index::metadata(|meta| vec![meta.uid().to_owned()]))
}

impl Sweep {
    /// Sweeps now and after each resync period, until the manager stops. The manager starts it when
    /// the caches have synced.
    pub(crate) async fn run(self, stop: StopSignal) -> Result<(), ReconcileError> {
        let mut ticks = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                () = stop.stopped() => return Ok(()),
                _ = ticks.tick() => {}
            }
            if let Err(problem) = self.sweep().await {
                tracing::warn!(%problem, "sweep failed, will retry after the resync period");
            }
        }
    }

    async fn sweep(&self) -> Result<(), Problem> {
        let mut suspects = Vec::new();
        for (handle, network) in self.provider.of_cluster().await? {
            if self.client.objects::<Network>().list(&ListQuery::all().index(BY_UID, handle.uid())).await?.is_empty() {
                suspects.push((handle, network));
            }
        }
        if suspects.is_empty() {
            return Ok(());
        }
        let living = self.living().await?;
        for (handle, network) in suspects.iter().filter(|(handle, _)| !living.contains(handle.uid())) {
            match self.provider.neutron.delete_network(&network.id).await {
                Ok(true) => tracing::warn!(
                    id = network.id,
                    name = network.name,
                    uid = handle.uid(),
                    "deleted a network in Neutron whose Network no longer exists"
                ),
                Ok(false) => {}
                // The others can be deleted anyway.
                Err(error) => {
                    tracing::warn!(%error, "cannot delete a network whose Network no longer exists, will retry");
                }
            }
        }
        Ok(())
    }

    /// The uids of all Networks in the API server now.
    async fn living(&self) -> Result<HashSet<String>, Problem> {
        let networks = self.client.live().all_namespaces::<Network>().metadata();
        let listed = networks.list(&steersman::client::ListParams::default()).await?;
        Ok(listed.items.into_iter().filter_map(|network| network.metadata.uid).collect())
    }
}
