//! The figures of leader election.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::families::Families;
use crate::leader_election::Leadership;

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) leadership: Leadership,
}

impl Collector for Lease {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let labels = [("name", &*self.name)];
        families.gauge(
            "leader_election_master_status",
            "Whether this replica holds the lease: 0 means no, 1 means yes.",
            [(labels, u64::from(self.leadership.is_leader()))],
        )?;
        families.counter(
            "leader_election_slowpath",
            "Number of renewals that had to read the lease first.",
            [(labels, self.leadership.slow_path_total())],
        )
    }
}
