//! A client of OpenStack Neutron, as far as an operator of networks needs one: networks, subnets, ports.

mod client;
mod cloud;
pub mod embedded;
mod error;
pub mod real;
mod session;
mod transport;
mod types;

pub use client::Neutron;
pub use cloud::{Auth, Cloud, IdOrName};
pub use error::{Error, ErrorKind};
pub use types::{
    AllocationPool, FixedIp, Gateway, Network, NetworkChange, NetworkFilter, NewNetwork, NewPort, NewSubnet, Port,
    Subnet, SubnetChange, SubnetFilter,
};
