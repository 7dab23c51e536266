use k8s_openapi::jiff::Timestamp;
use steersman::condition::{new_condition, set_condition};
use steersman::{CachedClient, Resource};

use crate::error::Problem;
use crate::{Network, NetworkStatus, Phase};

/// The condition that everything is told in.
const READY: &str = "Ready";

impl NetworkStatus {
    /// Everything is as generation `generation` wants it.
    pub(crate) fn ready(&mut self, network_id: &str, subnet_id: &str, generation: Option<i64>) {
        self.network_id = Some(network_id.to_owned());
        self.subnet_id = Some(subnet_id.to_owned());
        self.tell(Phase::Ready, true, "Synced", "Neutron has what the spec says", generation);
    }

    /// A network was chosen; the rest is on its way.
    pub(crate) fn claim(&mut self, network_id: &str, generation: Option<i64>) {
        self.network_id = Some(network_id.to_owned());
        self.subnet_id = None;
        self.tell(Phase::Pending, false, "Syncing", "the network is there, the rest is on its way", generation);
    }

    /// Something is wrong. The ids stay: what is there is still there.
    pub(crate) fn failed(&mut self, phase: Phase, reason: &str, message: &str, generation: Option<i64>) {
        self.tell(phase, false, reason, message, generation);
    }

    fn tell(&mut self, phase: Phase, ready: bool, reason: &str, message: &str, generation: Option<i64>) {
        self.phase = Some(phase);
        self.observed_generation = generation;
        let condition = new_condition(READY, ready, reason, message, generation);
        set_condition(&mut self.conditions, condition, Timestamp::now());
    }
}

/// Writes what `change` makes of the status, if that is something else. The write is refused if
/// somebody has changed the object since `network` was read: then nobody's word is overwritten.
/// Gives the object as it is now.
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
