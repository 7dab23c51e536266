use std::net::IpAddr;

use ipnet::IpNet;
use neutron::{AllocationPool, Gateway, NetworkChange, NewNetwork, NewSubnet, Subnet, SubnetChange};
use steersman::ResourceExt;

use crate::{Handle, Network};

/// The longest name that Neutron accepts.
const NAME_MAX: usize = 255;

/// The state that a [`Network`] wants in Neutron, parsed and checked. It is compared with the
/// actual state.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    handle: String,
    name: String,
    cidr: IpNet,
    gateway: IpAddr,
    mtu: Option<i32>,
    shared: bool,
    dhcp: bool,
    dns_servers: Vec<IpAddr>,
    project_id: Option<String>,
}

/// A spec that no Neutron can fulfil.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSpec(String);

/// A change that makes the actual state the desired one, and what it changes, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<C> {
    /// The request to Neutron.
    pub change: C,
    /// The difference, such as `mtu 1500 → 9000`.
    pub what: String,
}

impl Desired {
    /// Parses the spec of `network`. A real API server has checked it before. A server without CEL
    /// has not.
    pub fn new(network: &Network, handle: &Handle, project_id: Option<&str>) -> Result<Self, InvalidSpec> {
        let spec = &network.spec;
        let cidr: IpNet = spec.cidr.parse().map_err(|_| InvalidSpec(format!("{:?} is not a CIDR", spec.cidr)))?;
        let gateway = address(&spec.gateway)?;
        // Neutron accepts a gateway outside the CIDR, and then no packet leaves the network.
        if !cidr.contains(&gateway) {
            return Err(InvalidSpec(format!("the gateway {gateway} is not within {cidr}")));
        }
        Ok(Self {
            handle: handle.to_string(),
            name: neutron_name(network),
            cidr: cidr.trunc(),
            gateway,
            mtu: spec.mtu,
            shared: spec.shared,
            dhcp: spec.dhcp,
            dns_servers: spec.dns_servers.iter().map(|server| address(server)).collect::<Result<_, _>>()?,
            project_id: project_id.map(ToOwned::to_owned),
        })
    }

    /// The network to create.
    pub fn new_network(&self) -> NewNetwork {
        NewNetwork {
            name: self.name.clone(),
            description: self.handle.clone(),
            mtu: self.mtu,
            shared: self.shared,
            project_id: self.project_id.clone(),
        }
    }

    /// The change that `actual` needs; `None` if it is as desired.
    pub fn network_change(&self, actual: &neutron::Network) -> Option<Difference<NetworkChange>> {
        let mut what = Vec::new();
        let change = NetworkChange {
            name: differs("name", &actual.name, &self.name, &mut what),
            description: differs("description", &actual.description, &self.handle, &mut what),
            // Neutron chooses the values that the spec leaves out.
            mtu: self.mtu.filter(|mtu| actual.mtu != Some(*mtu)),
            shared: differs("shared", &actual.shared, &self.shared, &mut what),
        };
        if let Some(mtu) = change.mtu {
            what.push(format!("mtu {} → {mtu}", actual.mtu.map_or_else(|| "none".to_owned(), |mtu| mtu.to_string())));
        }
        (!what.is_empty()).then(|| Difference { change, what: what.join(", ") })
    }

    /// Whether `actual` has the desired addresses. If not, it needs another subnet.
    pub fn has_cidr(&self, actual: &Subnet) -> bool {
        actual.cidr.parse::<IpNet>().is_ok_and(|cidr| cidr.trunc() == self.cidr)
    }

    /// The subnet to create.
    pub fn new_subnet(&self, network_id: &str) -> NewSubnet {
        NewSubnet {
            name: self.name.clone(),
            description: self.handle.clone(),
            gateway_ip: Gateway::Address(self.gateway.to_string()),
            enable_dhcp: Some(self.dhcp),
            dns_nameservers: self.dns_servers.iter().map(ToString::to_string).collect(),
            project_id: self.project_id.clone(),
            ..NewSubnet::new(network_id, self.cidr.to_string())
        }
    }

    /// The change that `actual`, which has the desired addresses, needs; `None` if it is as
    /// desired.
    pub fn subnet_change(&self, actual: &Subnet) -> Option<Difference<SubnetChange>> {
        let mut what = Vec::new();
        let mut change = SubnetChange {
            name: differs("name", &actual.name, &self.name, &mut what),
            description: differs("description", &actual.description, &self.handle, &mut what),
            enable_dhcp: differs("dhcp", &actual.enable_dhcp, &self.dhcp, &mut what),
            ..SubnetChange::default()
        };
        // Compared as addresses: 2001:DB8::1 and 2001:db8:0::1 are equal.
        let gateway: Option<IpAddr> = actual.gateway_ip.as_deref().and_then(|gateway| gateway.parse().ok());
        if gateway != Some(self.gateway) {
            what.push(format!("gateway {} → {}", actual.gateway_ip.as_deref().unwrap_or("none"), self.gateway));
            change.gateway_ip = Gateway::Address(self.gateway.to_string());
            // Neutron refuses a gateway that it could assign to a port, unless the pools change at
            // the same time.
            change.allocation_pools = Some(allocation_pools(self.cidr, self.gateway));
        }
        let servers: Vec<IpAddr> = actual.dns_nameservers.iter().filter_map(|server| server.parse().ok()).collect();
        if servers != self.dns_servers {
            let wanted: Vec<_> = self.dns_servers.iter().map(ToString::to_string).collect();
            what.push(format!("DNS servers [{}] → [{}]", actual.dns_nameservers.join(" "), wanted.join(" ")));
            change.dns_nameservers = Some(wanted);
        }
        (!what.is_empty()).then(|| Difference { change, what: what.join(", ") })
    }
}

/// The name in Neutron. Names are not unique there; it is for readers.
pub(crate) fn neutron_name(network: &Network) -> String {
    let name = format!("{}/{}", network.namespace().unwrap_or_default(), network.name_any());
    name.chars().take(NAME_MAX).collect()
}

fn address(text: &str) -> Result<IpAddr, InvalidSpec> {
    text.parse().map_err(|_| InvalidSpec(format!("{text:?} is not an IP address")))
}

/// The desired value, if two values differ. Appends the difference to `what`.
fn differs<T: Clone + PartialEq + std::fmt::Display>(
    field: &str,
    actual: &T,
    wanted: &T,
    what: &mut Vec<String>,
) -> Option<T> {
    if actual == wanted {
        return None;
    }
    what.push(format!("{field} {actual} → {wanted}"));
    Some(wanted.clone())
}

/// The addresses that Neutron may assign: all of `cidr` without the first, the last one of IPv4,
/// and the gateway. Neutron itself chooses these for a new subnet.
fn allocation_pools(cidr: IpNet, gateway: IpAddr) -> Vec<AllocationPool> {
    let (first, last) = (number(cidr.network()), number(cidr.broadcast()));
    let (start, end) = (first.saturating_add(1), last - u128::from(last > first && cidr.network().is_ipv4()));
    // One or two addresses are too few to leave any out.
    if start >= end {
        return vec![pool(cidr, first, last)];
    }
    let gateway = number(gateway);
    let ranges = [(start, gateway.saturating_sub(1).min(end)), (gateway.saturating_add(1).max(start), end)];
    ranges.into_iter().filter(|(start, end)| start <= end).map(|(start, end)| pool(cidr, start, end)).collect()
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn pool(cidr: IpNet, start: u128, end: u128) -> AllocationPool {
    let text = |number: u128| match (cidr, u32::try_from(number)) {
        (IpNet::V4(_), Ok(number)) => IpAddr::from(number.to_be_bytes()).to_string(),
        _ => IpAddr::from(number.to_be_bytes()).to_string(),
    };
    AllocationPool { start: text(start), end: text(end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterId, NetworkSpec};

    fn network(spec: NetworkSpec) -> Network {
        let mut network = Network::new("blue", spec);
        network.metadata.namespace = Some("default".to_owned());
        network
    }

    fn desired(spec: NetworkSpec) -> Result<Desired, InvalidSpec> {
        let cluster: ClusterId = "test".parse().unwrap();
        Desired::new(&network(spec), &Handle::new(&cluster, "1"), None)
    }

    fn actual(subnet: &NewSubnet) -> Subnet {
        let Gateway::Address(gateway) = subnet.gateway_ip.clone() else { panic!("the gateway is always set") };
        Subnet {
            id: "s".to_owned(),
            name: subnet.name.clone(),
            description: subnet.description.clone(),
            network_id: subnet.network_id.clone(),
            cidr: subnet.cidr.clone(),
            gateway_ip: Some(gateway),
            enable_dhcp: subnet.enable_dhcp == Some(true),
            dns_nameservers: subnet.dns_nameservers.clone(),
            allocation_pools: Vec::new(),
            ip_version: subnet.ip_version,
            project_id: String::new(),
            revision_number: 0,
        }
    }

    #[test]
    fn a_spec_that_cannot_be_fulfilled_shows_the_reason() {
        let cases = [
            ("10.0.0.0", "10.0.0.1", "\"10.0.0.0\" is not a CIDR"),
            ("10.0.0.0/24", "gate", "\"gate\" is not an IP address"),
            ("10.0.0.0/24", "10.0.1.1", "the gateway 10.0.1.1 is not within 10.0.0.0/24"),
            ("10.0.0.0/24", "2001:db8::1", "the gateway 2001:db8::1 is not within 10.0.0.0/24"),
        ];
        for (cidr, gateway, problem) in cases {
            assert_eq!(desired(NetworkSpec::new(cidr, gateway)).unwrap_err().to_string(), problem);
        }
        let spec = NetworkSpec { dns_servers: vec!["dns".to_owned()], ..NetworkSpec::new("10.0.0.0/24", "10.0.0.1") };
        assert_eq!(desired(spec).unwrap_err().to_string(), "\"dns\" is not an IP address");
    }

    #[test]
    fn what_was_just_created_is_as_it_should_be() {
        let spec = NetworkSpec {
            dns_servers: vec!["9.9.9.9".to_owned(), "1.1.1.1".to_owned()],
            ..NetworkSpec::new("10.9.0.5/24", "10.9.0.1")
        };
        let desired = desired(spec).unwrap();
        let subnet = actual(&desired.new_subnet("n"));
        assert_eq!(subnet.cidr, "10.9.0.0/24", "host bits are cleared, as Neutron does");
        assert!(desired.has_cidr(&subnet));
        assert_eq!(desired.subnet_change(&subnet), None);
    }

    #[test]
    fn addresses_are_compared_as_addresses() {
        let spec = NetworkSpec {
            dns_servers: vec!["2001:DB8::53".to_owned()],
            ..NetworkSpec::new("2001:DB8::/64", "2001:db8:0::1")
        };
        let desired = desired(spec).unwrap();
        let mut subnet = actual(&desired.new_subnet("n"));
        subnet.dns_nameservers = vec!["2001:db8:0:0::53".to_owned()];
        assert_eq!(subnet.ip_version, 6);
        assert_eq!(desired.subnet_change(&subnet), None);
    }

    #[test]
    fn a_new_gateway_comes_with_pools_that_leave_it_out() {
        let desired = desired(NetworkSpec::new("10.0.0.0/24", "10.0.0.100")).unwrap();
        let mut subnet = actual(&desired.new_subnet("n"));
        subnet.gateway_ip = Some("10.0.0.1".to_owned());
        let Difference { change, what } = desired.subnet_change(&subnet).unwrap();
        assert_eq!(what, "gateway 10.0.0.1 → 10.0.0.100");
        assert_eq!(change.gateway_ip, Gateway::Address("10.0.0.100".to_owned()));
        let pools = change.allocation_pools.unwrap();
        let pools: Vec<_> = pools.iter().map(|pool| (pool.start.as_str(), pool.end.as_str())).collect();
        assert_eq!(pools, [("10.0.0.1", "10.0.0.99"), ("10.0.0.101", "10.0.0.254")]);
        assert_eq!((change.name, change.enable_dhcp, change.dns_nameservers), (None, None, None));
    }

    #[test]
    fn pools_are_those_that_neutron_chooses() {
        let cases = [
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.2-10.0.0.254"),
            ("10.0.0.0/24", "10.0.0.254", "10.0.0.1-10.0.0.253"),
            ("10.0.0.0/30", "10.0.0.1", "10.0.0.2-10.0.0.2"),
            ("10.0.0.0/31", "10.0.0.1", "10.0.0.0-10.0.0.1"),
            ("10.0.0.7/32", "10.0.0.7", "10.0.0.7-10.0.0.7"),
            ("2001:db8::/64", "2001:db8::1", "2001:db8::2-2001:db8::ffff:ffff:ffff:ffff"),
        ];
        for (cidr, gateway, wanted) in cases {
            let pools = allocation_pools(cidr.parse().unwrap(), gateway.parse().unwrap());
            let pools: Vec<_> = pools.iter().map(|pool| format!("{}-{}", pool.start, pool.end)).collect();
            assert_eq!(pools, [wanted], "{cidr} {gateway}");
        }
    }

    #[test]
    fn neutron_chooses_the_mtu_unless_the_spec_has_one() {
        let network = |mtu| neutron::Network {
            id: "n".to_owned(),
            name: "default/blue".to_owned(),
            description: "kubernetes/test/1".to_owned(),
            mtu: Some(mtu),
            shared: false,
            status: "ACTIVE".to_owned(),
            subnets: Vec::new(),
            project_id: String::new(),
            revision_number: 1,
            tags: Vec::new(),
        };
        let spec = NetworkSpec::new("10.0.0.0/24", "10.0.0.1");
        assert_eq!(desired(spec.clone()).unwrap().network_change(&network(1450)), None);
        let said = desired(NetworkSpec { mtu: Some(9000), ..spec }).unwrap();
        let Difference { change, what } = said.network_change(&network(1450)).unwrap();
        assert_eq!(change, NetworkChange { mtu: Some(9000), ..NetworkChange::default() });
        assert_eq!(what, "mtu 1450 → 9000");
        assert_eq!(said.network_change(&network(9000)), None);
    }
}
