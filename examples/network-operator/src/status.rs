use k8s_openapi::jiff::Timestamp;
use steersman::condition::{new_condition, set_condition};
use steersman::{CachedClient, Resource};

use crate::error::Problem;
use crate::{Network, NetworkStatus, Phase};

/// The condition that shows all results.
const READY: &str = "Ready";

impl NetworkStatus {
    /// Everything is as generation `generation` declares it.
    pub(crate) fn ready(&mut self, network_id: &str, subnet_id: &str, generation: Option<i64>) {
        self.network_id = Some(network_id.to_owned());
        self.subnet_id = Some(subnet_id.to_owned());
        self.set(Phase::Ready, true, "Synced", "Neutron matches the spec", generation);
    }

    /// A network was chosen; the rest is in progress.
    pub(crate) fn claim(&mut self, network_id: &str, generation: Option<i64>) {
        self.network_id = Some(network_id.to_owned());
        self.subnet_id = None;
        self.set(Phase::Pending, false, "Syncing", "the network is there, the rest is on its way", generation);
    }

    /// Something failed. The ids stay, because the networks still exist.
    pub(crate) fn failed(&mut self, phase: Phase, reason: &str, message: &str, generation: Option<i64>) {
        self.set(phase, false, reason, message, generation);
    }

    fn set(&mut self, phase: Phase, ready: bool, reason: &str, message: &str, generation: Option<i64>) {
        self.phase = Some(phase);
        self.observed_generation = generation;
        let condition = new_condition(READY, ready, reason, message, generation);
        set_condition(&mut self.conditions, condition, Timestamp::now());
    }
}

/// Writes the status that `change` returns, if it is another one. The server refuses the write if
/// the object has changed since `network` was read, so no other change is overwritten. Returns the
/// object as it is now.
pub(crate) async fn update(
    client: &CachedClient,
    network: &Network,
    change: impl FnOnce(&mut NetworkStatus, Option<i64>),
) -> Result<Network, Problem> {
    let mut wanted = network.clone();
    change(wanted.status.get_or_insert_default(), network.meta().generation);
    if wanted.status == network.status {
        return Ok(wanted);
    }
    Ok(client.update_status(&wanted).await?)
}
