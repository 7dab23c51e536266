use crate::{
    Auth, Cloud, Error, Network, NetworkChange, NetworkFilter, NewNetwork, NewPort, NewSubnet, Port, Subnet,
    SubnetChange, SubnetFilter,
};

/// The client. Clones share connections and the token.
#[derive(Clone, Debug)]
pub struct Neutron {}

impl Neutron {
    /// A client of the Neutron at `endpoint`, whatever Keystone's catalogue says.
    pub fn new(_endpoint: &str, _auth: Auth) -> Result<Self, Error> {
        todo!()
    }

    /// A client of the Neutron of this cloud. Nothing is sent yet.
    pub fn of(_cloud: Cloud) -> Result<Self, Error> {
        todo!()
    }

    /// A client of the Neutron that the variables `OS_*` name.
    pub fn from_env() -> Result<Self, Error> {
        Self::of(Cloud::from_env()?)
    }

    /// A client of the Neutron of a cloud in `clouds.yaml`.
    pub fn from_clouds_yaml(name: &str) -> Result<Self, Error> {
        Self::of(Cloud::from_clouds_yaml(name)?)
    }

    /// The networks that agree with the filter in full: equality is checked here too, because a Neutron on MariaDB takes no
    /// notice of case.
    pub async fn networks(&self, _filter: &NetworkFilter) -> Result<Vec<Network>, Error> {
        todo!()
    }

    /// One network; `None` if it is not there, or of a project that is not ours.
    pub async fn network(&self, _id: &str) -> Result<Option<Network>, Error> {
        todo!()
    }

    /// Creates a network.
    pub async fn create_network(&self, _new: &NewNetwork) -> Result<Network, Error> {
        todo!()
    }

    /// Changes a network; if `revision` is given, only if it still is the newest ([`Error::is_stale`] otherwise).
    pub async fn update_network(
        &self,
        _id: &str,
        _change: &NetworkChange,
        _revision: Option<i64>,
    ) -> Result<Network, Error> {
        todo!()
    }

    /// Deletes a network and its subnets. Says whether it was there.
    pub async fn delete_network(&self, _id: &str) -> Result<bool, Error> {
        todo!()
    }

    /// The subnets that agree with the filter in full.
    pub async fn subnets(&self, _filter: &SubnetFilter) -> Result<Vec<Subnet>, Error> {
        todo!()
    }

    /// One subnet; `None` if it is not there, or of a project that is not ours.
    pub async fn subnet(&self, _id: &str) -> Result<Option<Subnet>, Error> {
        todo!()
    }

    /// Creates a subnet.
    pub async fn create_subnet(&self, _new: &NewSubnet) -> Result<Subnet, Error> {
        todo!()
    }

    /// Changes a subnet; if `revision` is given, only if it still is the newest ([`Error::is_stale`] otherwise).
    pub async fn update_subnet(
        &self,
        _id: &str,
        _change: &SubnetChange,
        _revision: Option<i64>,
    ) -> Result<Subnet, Error> {
        todo!()
    }

    /// Deletes a subnet. Says whether it was there.
    pub async fn delete_subnet(&self, _id: &str) -> Result<bool, Error> {
        todo!()
    }

    /// The ports in a network.
    pub async fn ports(&self, _network_id: &str) -> Result<Vec<Port>, Error> {
        todo!()
    }

    /// Creates a port.
    pub async fn create_port(&self, _new: &NewPort) -> Result<Port, Error> {
        todo!()
    }

    /// Deletes a port. Says whether it was there.
    pub async fn delete_port(&self, _id: &str) -> Result<bool, Error> {
        todo!()
    }
}
