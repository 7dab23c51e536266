//! A client of OpenStack Neutron with the parts that an operator of networks needs: networks,
//! subnets, ports.
//!
//! [`Neutron`] is the client. It is created from a [`Cloud`], which has the address and the
//! credentials, as in the variables `OS_*` and `clouds.yaml`. Requests are typed: [`NewNetwork`]
//! has the attributes of a new network, [`NetworkChange`] those that can change, [`Network`] those
//! of a response. An [`Error`] has the message of the server and its class ([`ErrorKind`]).
//!
//! There are two Neutrons for tests: [`embedded`] runs in this process, [`real`] runs the real one.
//! One suite of requests is sent to both (`tests/real_neutron.rs`).
//!
//! ```
//! use neutron::embedded::EmbeddedNeutron;
//! use neutron::{NetworkFilter, NewNetwork, NewSubnet};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = EmbeddedNeutron::start().await?;
//! let neutron = server.client();
//!
//! // Names are not unique, and Neutron chooses the ids: a mark in the description tells ours from the others.
//! let mark = "cluster-1/4e0c7a8d";
//! let ours = NetworkFilter { description: Some(mark.to_owned()), ..Default::default() };
//! let network = match neutron.networks(&ours).await?.into_iter().next() {
//!     Some(network) => network,
//!     None => {
//!         let new = NewNetwork { name: "web".to_owned(), description: mark.to_owned(), ..Default::default() };
//!         neutron.create_network(&new).await?
//!     }
//! };
//! let subnet = neutron.create_subnet(&NewSubnet::new(&network.id, "10.9.0.5/24")).await?;
//! assert_eq!(subnet.cidr, "10.9.0.0/24");
//! assert_eq!(subnet.gateway_ip.as_deref(), Some("10.9.0.1"));
//!
//! let error = neutron.create_subnet(&NewSubnet::new(&network.id, "10.9.0.128/25")).await.unwrap_err();
//! assert!(error.is_bad_input() && error.to_string().contains("overlaps with another subnet"), "{error}");
//! # Ok(())
//! # }
//! ```

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
