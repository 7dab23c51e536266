use std::collections::HashSet;
use std::time::Duration;

use steersman::runtime::{Index, StopSignal};
use steersman::{CachedClient, ListQuery, ReconcileError};

use crate::Network;
use crate::error::Problem;
use crate::provider::Provider;

/// The index by which the sweep asks the cache.
const BY_UID: &str = "uid";

/// Removes from Neutron what belongs to Networks that no longer exist: a finalizer was taken away
/// by force, or a request that was given up was done all the same.
///
/// A network is removed only if the API server itself does not have its Network, asked after
/// Neutron was. The Network is always there before its network, so one that was created meanwhile
/// is not taken for an orphan.
#[derive(Debug)]
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
    /// Sweeps now and after each resync period, until told to stop. The manager starts it when the
    /// caches are filled.
    pub(crate) async fn run(self, stop: StopSignal) -> Result<(), ReconcileError> {
        let mut ticks = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                () = stop.stopped() => return Ok(()),
                _ = ticks.tick() => {}
            }
            if let Err(problem) = self.sweep().await {
                tracing::warn!(%problem, "cannot look for networks that are left over; the next look is after the resync period");
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
                // The others can go all the same.
                Err(error) => tracing::warn!(%error, "a network whose Network no longer exists stays"),
            }
        }
        Ok(())
    }

    /// The uids of all Networks, as the API server has them now.
    async fn living(&self) -> Result<HashSet<String>, Problem> {
        let networks = self.client.live().all_namespaces::<Network>().metadata();
        let listed = networks.list(&steersman::client::ListParams::default()).await?;
        Ok(listed.items.into_iter().filter_map(|network| network.metadata.uid).collect())
    }
}
