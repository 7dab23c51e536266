use neutron::{NetworkFilter, Neutron, Subnet, SubnetFilter};

use crate::cluster::Cluster;
use crate::error::Problem;
use crate::{Desired, Difference, Handle};

/// All changes of the operator in Neutron: the actual state, and the steps to the desired one. Of
/// Kubernetes, it knows only the handles.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) neutron: Neutron,
    pub(crate) cluster: Cluster,
    /// The project to create networks in, if there is no login.
    pub(crate) project_id: Option<String>,
}

/// The networks of one object.
pub(crate) struct ObjectNetworks {
    /// The one to keep.
    pub(crate) kept: neutron::Network,
    /// Those to remove: two operators created at the same time.
    pub(crate) duplicates: Vec<neutron::Network>,
}

impl Provider {
    pub(crate) async fn handle(&self, uid: &str) -> Result<Handle, Problem> {
        Ok(Handle::new(self.cluster.id().await?, uid))
    }

    /// The networks with a handle. If there is none, the one whose id is `known`, provided that it
    /// has the name that the operator gives: then its handle was removed by hand.
    async fn of_handle(
        &self,
        handle: &Handle,
        known: Option<&str>,
        name: &str,
    ) -> Result<Vec<neutron::Network>, neutron::Error> {
        let filter = NetworkFilter { description: Some(handle.to_string()), ..NetworkFilter::default() };
        let mut networks = self.neutron.networks(&filter).await?;
        if let (true, Some(id)) = (networks.is_empty(), known) {
            networks.extend(self.neutron.network(id).await?.filter(|network| network.name == name));
        }
        Ok(networks)
    }

    /// The networks of an object, if there are any. The one that is `known` is kept, so that all
    /// operators agree; otherwise the one with the smallest id.
    pub(crate) async fn find(
        &self,
        handle: &Handle,
        known: Option<&str>,
        name: &str,
    ) -> Result<Option<ObjectNetworks>, neutron::Error> {
        let mut networks = self.of_handle(handle, known, name).await?;
        networks.sort_by(|one, other| {
            let rank = |network: &neutron::Network| (Some(network.id.as_str()) != known, network.id.clone());
            rank(one).cmp(&rank(other))
        });
        let mut networks = networks.into_iter();
        Ok(networks.next().map(|kept| ObjectNetworks { kept, duplicates: networks.collect() }))
    }

    /// Creates the network.
    pub(crate) async fn create(&self, desired: &Desired) -> Result<neutron::Network, neutron::Error> {
        let network = self.neutron.create_network(&desired.new_network()).await?;
        tracing::info!(id = network.id, "created the network in Neutron");
        Ok(network)
    }

    /// Changes the network to the desired state.
    pub(crate) async fn repair(&self, desired: &Desired, network: &neutron::Network) -> Result<(), neutron::Error> {
        if let Some(Difference { change, what }) = desired.network_change(network) {
            self.neutron.update_network(&network.id, &change, Some(network.revision_number)).await?;
            tracing::info!(id = network.id, what, "changed the network in Neutron");
        }
        Ok(())
    }

    pub(crate) async fn subnets(&self, network_id: &str) -> Result<Vec<Subnet>, neutron::Error> {
        let filter = SubnetFilter { network_id: Some(network_id.to_owned()), ..SubnetFilter::default() };
        self.neutron.subnets(&filter).await
    }

    /// Creates the subnet, or changes it to the desired state. Returns its id.
    pub(crate) async fn ensure_subnet(
        &self,
        desired: &Desired,
        network_id: &str,
        actual: Option<&Subnet>,
    ) -> Result<String, neutron::Error> {
        let Some(subnet) = actual else {
            let subnet = self.neutron.create_subnet(&desired.new_subnet(network_id)).await?;
            tracing::info!(id = subnet.id, cidr = subnet.cidr, "created the subnet in Neutron");
            return Ok(subnet.id);
        };
        if let Some(Difference { change, what }) = desired.subnet_change(subnet) {
            self.neutron.update_subnet(&subnet.id, &change, Some(subnet.revision_number)).await?;
            tracing::info!(id = subnet.id, what, "changed the subnet in Neutron");
        }
        Ok(subnet.id.clone())
    }

    pub(crate) async fn remove_subnet(&self, subnet: &Subnet) -> Result<(), neutron::Error> {
        if self.neutron.delete_subnet(&subnet.id).await? {
            tracing::info!(id = subnet.id, cidr = subnet.cidr, "deleted the subnet in Neutron");
        }
        Ok(())
    }

    pub(crate) async fn remove_duplicate(&self, network: &neutron::Network) -> Result<(), neutron::Error> {
        if self.neutron.delete_network(&network.id).await? {
            tracing::warn!(id = network.id, "deleted a second network of the same object in Neutron");
        }
        Ok(())
    }

    /// Deletes all networks of an object, with their subnets.
    pub(crate) async fn release(&self, handle: &Handle, known: Option<&str>, name: &str) -> Result<(), neutron::Error> {
        for network in self.of_handle(handle, known, name).await? {
            if self.neutron.delete_network(&network.id).await? {
                tracing::info!(id = network.id, "deleted the network in Neutron");
            }
        }
        Ok(())
    }

    /// All networks with a handle of our cluster. Neutron cannot search for the beginning of a
    /// description.
    pub(crate) async fn of_cluster(&self) -> Result<Vec<(Handle, neutron::Network)>, Problem> {
        let cluster = self.cluster.id().await?;
        let networks = self.neutron.networks(&NetworkFilter::default()).await?;
        let ours = |network: neutron::Network| Some((Handle::parse(cluster, &network.description)?, network));
        Ok(networks.into_iter().filter_map(ours).collect())
    }
}
