use serde::{Deserialize, Serialize};

/// A network in a response. Neutron has more fields; these are the ones an operator of networks
/// needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Chosen by Neutron.
    pub id: String,
    /// Not unique: two networks may have the same name.
    #[serde(default)]
    pub name: String,
    /// Free text, and the place for a handle: unlike tags, it can be set in the request that
    /// creates.
    #[serde(default)]
    pub description: String,
    /// The largest packet, in bytes.
    #[serde(default)]
    pub mtu: Option<i32>,
    /// Whether other projects may use it.
    #[serde(default)]
    pub shared: bool,
    /// `ACTIVE`, `DOWN`, `BUILD` or `ERROR`.
    #[serde(default)]
    pub status: String,
    /// The ids of its subnets.
    #[serde(default)]
    pub subnets: Vec<String>,
    /// The project that owns it.
    #[serde(default)]
    pub project_id: String,
    /// Goes up with each change, also with changes of its subnets and tags.
    #[serde(default)]
    pub revision_number: i64,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A network to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewNetwork {
    /// At most 255 characters, as the description.
    pub name: String,
    /// At most 255 characters.
    pub description: String,
    /// The largest packet; Neutron chooses it otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Whether other projects may use it. Only administrators may set it to `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub shared: bool,
    /// The owner, if it is not the project of the token: without Keystone, or as an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

/// The changes of a network. A field that is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkChange {
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A new description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A new limit for packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Whether other projects may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
}

/// Which networks to list: those that match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFilter {
    /// This name.
    pub name: Option<String>,
    /// This description, in full.
    pub description: Option<String>,
    /// The project that owns it.
    pub project_id: Option<String>,
    /// All of these tags.
    pub tags: Vec<String>,
}

/// A subnet in a response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// Chosen by Neutron.
    pub id: String,
    /// Not unique.
    #[serde(default)]
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// The network it is part of.
    pub network_id: String,
    /// Its addresses, with host bits cleared: 10.9.0.5/24 becomes 10.9.0.0/24.
    pub cidr: String,
    /// The gateway; `None` if there is none.
    #[serde(default)]
    pub gateway_ip: Option<String>,
    /// Whether DHCP assigns addresses.
    #[serde(default)]
    pub enable_dhcp: bool,
    /// The DNS servers that DHCP announces.
    #[serde(default)]
    pub dns_nameservers: Vec<String>,
    /// The addresses that Neutron assigns.
    #[serde(default)]
    pub allocation_pools: Vec<AllocationPool>,
    /// 4 or 6.
    pub ip_version: u8,
    /// The project that owns it.
    #[serde(default)]
    pub project_id: String,
    /// Goes up with each change.
    #[serde(default)]
    pub revision_number: i64,
}

/// A range of addresses that Neutron assigns, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationPool {
    /// The first.
    pub start: String,
    /// The last.
    pub end: String,
}

/// The gateway of a subnet in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gateway {
    /// Not given: a new subnet gets the first address of its CIDR, an existing one keeps its
    /// gateway.
    #[default]
    Unsaid,
    /// No gateway.
    Absent,
    /// This address.
    Address(String),
}

/// A subnet to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewSubnet {
    /// The network it is part of.
    pub network_id: String,
    /// At most 255 characters, as the description.
    pub name: String,
    /// At most 255 characters.
    pub description: String,
    /// Its addresses. They must not overlap with another subnet of the network.
    pub cidr: String,
    /// 4 or 6; must match the CIDR.
    pub ip_version: u8,
    /// The gateway.
    #[serde(skip_serializing_if = "Gateway::is_unset")]
    pub gateway_ip: Gateway,
    /// Whether DHCP assigns addresses. Neutron's default is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_dhcp: Option<bool>,
    /// The DNS servers that DHCP announces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns_nameservers: Vec<String>,
    /// The addresses that Neutron assigns. Neutron's default is all but the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_pools: Option<Vec<AllocationPool>>,
    /// The owner, if it is not the project of the token: without Keystone, or as an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

impl NewSubnet {
    /// A subnet of `network_id` with the addresses of `cidr`, and Neutron's defaults.
    pub fn new(network_id: impl Into<String>, cidr: impl Into<String>) -> Self {
        let cidr = cidr.into();
        Self {
            network_id: network_id.into(),
            name: String::new(),
            description: String::new(),
            ip_version: if cidr.contains(':') { 6 } else { 4 },
            cidr,
            gateway_ip: Gateway::Unsaid,
            enable_dhcp: None,
            dns_nameservers: Vec::new(),
            allocation_pools: None,
            project_id: None,
        }
    }
}

/// The changes of a subnet. The CIDR cannot be changed: that takes a new subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubnetChange {
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A new description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Another gateway. One inside the allocation pools is refused, unless the same change has new
    /// pools without it.
    #[serde(skip_serializing_if = "Gateway::is_unset")]
    pub gateway_ip: Gateway,
    /// Whether DHCP assigns addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_dhcp: Option<bool>,
    /// Other DNS servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_nameservers: Option<Vec<String>>,
    /// Other addresses to assign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_pools: Option<Vec<AllocationPool>>,
}

/// Which subnets to list: those that match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetFilter {
    /// Subnets of this network.
    pub network_id: Option<String>,
    /// This description, in full.
    pub description: Option<String>,
}

/// A port: it uses a network, and prevents its deletion.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Port {
    /// Chosen by Neutron.
    pub id: String,
    /// Not unique.
    #[serde(default)]
    pub name: String,
    /// The network it is in.
    pub network_id: String,
    /// Its addresses.
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    /// The owner: `compute:nova`, `network:dhcp`, …
    #[serde(default)]
    pub device_owner: String,
}

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIp {
    /// The subnet that the address belongs to.
    pub subnet_id: String,
    /// The address.
    pub ip_address: String,
}

/// A port to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewPort {
    /// The network it is in.
    pub network_id: String,
    /// At most 255 characters.
    pub name: String,
    /// The owner, if it is not the project of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

impl Gateway {
    fn is_unset(&self) -> bool {
        *self == Self::Unsaid
    }
}

impl Serialize for Gateway {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unsaid | Self::Absent => serializer.serialize_none(),
            Self::Address(address) => serializer.serialize_str(address),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
