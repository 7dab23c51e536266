//! Networks, subnets and ports, and Neutron's rules about them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::addresses::{Cidr, Range, parse_address, show};
use super::attributes::Kind;
use super::refusal::Refusal;

/// The MTU of a network on VXLAN.
const MTU_MAX: i64 = 1450;
const IPV4_MTU_MIN: i64 = 68;
const IPV6_MTU_MIN: i64 = 1280;
const NAMESERVERS_MAX: usize = 5;
/// The default quota of a project for each kind.
const QUOTA: i64 = 100;
const QUOTA_OF_PORTS: i64 = 500;
/// The project of requests that name none.
const NO_PROJECT: &str = "fake_project_id";
/// Ports of Neutron's own: they do not prevent the deletion of a network.
const OWN_PORTS: [&str; 3] = ["network:dhcp", "network:distributed", "network:floatingip_agent_gateway"];

/// Changes of these do not raise the revision of a subnet.
const UNCOUNTED_OF_SUBNETS: [&str; 2] = ["allocation_pools", "dns_nameservers"];

pub(super) type Fields = Map<String, Value>;

/// All resources, in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct Store {
    networks: Vec<Fields>,
    subnets: Vec<Fields>,
    ports: Vec<Fields>,
    /// By project and kind.
    quotas: BTreeMap<(String, String), i64>,
    /// For projects that have no quota of their own.
    default_quotas: BTreeMap<String, i64>,
}

impl Store {
    pub(super) fn all(&self, kind: Kind) -> &[Fields] {
        match kind {
            Kind::Network => &self.networks,
            Kind::Subnet => &self.subnets,
            Kind::Port => &self.ports,
        }
    }

    fn all_mut(&mut self, kind: Kind) -> &mut Vec<Fields> {
        match kind {
            Kind::Network => &mut self.networks,
            Kind::Subnet => &mut self.subnets,
            Kind::Port => &mut self.ports,
        }
    }

    pub(super) fn find(&self, kind: Kind, id: &str) -> Result<&Fields, Refusal> {
        self.all(kind).iter().find(|fields| text(fields, "id") == id).ok_or_else(|| not_found(kind, id))
    }

    fn find_mut(&mut self, kind: Kind, id: &str) -> Result<&mut Fields, Refusal> {
        self.all_mut(kind).iter_mut().find(|fields| text(fields, "id") == id).ok_or_else(|| not_found(kind, id))
    }

    /// As in a response: a network shows its subnets.
    pub(super) fn view(&self, kind: Kind, fields: &Fields) -> Value {
        let mut shown = fields.clone();
        if kind == Kind::Network {
            let subnets = self.subnets_of(text(fields, "id")).map(|subnet| subnet["id"].clone());
            shown.insert("subnets".to_owned(), subnets.collect());
        }
        Value::Object(shown)
    }

    fn subnets_of<'a>(&'a self, network: &'a str) -> impl Iterator<Item = &'a Fields> {
        self.subnets.iter().filter(move |subnet| text(subnet, "network_id") == network)
    }

    /// Creates a resource from checked attributes.
    pub(super) fn create(&mut self, kind: Kind, mut given: Fields) -> Result<Value, Refusal> {
        let project = given.remove("project_id");
        let project = project.as_ref().and_then(Value::as_str).unwrap_or(NO_PROJECT).to_owned();
        self.check_quota(kind, &project)?;
        let mut fields = match kind {
            Kind::Network => new_network(),
            Kind::Subnet => self.new_subnet(&mut given)?,
            Kind::Port => self.new_port(&given)?,
        };
        fields.insert("id".to_owned(), new_id().into());
        fields.extend(given);
        if kind == Kind::Network {
            check_mtu(&mut fields)?;
        }
        let now = now();
        for (name, value) in
            [("tenant_id", &project), ("project_id", &project), ("created_at", &now), ("updated_at", &now)]
        {
            fields.insert(name.to_owned(), value.as_str().into());
        }
        self.all_mut(kind).push(fields.clone());
        if kind == Kind::Subnet {
            self.raise_revision(Kind::Network, text(&fields, "network_id"));
        }
        Ok(self.view(kind, &fields))
    }

    /// Changes a resource by checked attributes, if its revision is the requested one.
    pub(super) fn update(
        &mut self,
        kind: Kind,
        id: &str,
        given: Fields,
        revision: Option<i64>,
    ) -> Result<Value, Refusal> {
        let fields = self.find(kind, id)?;
        match kind {
            Kind::Network => self.check_network_change(id, &given)?,
            Kind::Subnet => check_subnet_change(fields, &given)?,
            Kind::Port => {}
        }
        check_revision(fields, revision)?;
        if kind == Kind::Network && number(&given, "mtu") > MTU_MAX {
            return Err(mtu_too_big());
        }
        let network = text(fields, "network_id").to_owned();
        let is_new = |name: &str, value: &Value| fields.get(name) != Some(value);
        let changed: Vec<String> =
            given.iter().filter(|(name, value)| is_new(name, value)).map(|(name, _)| name.clone()).collect();
        let fields = self.find_mut(kind, id)?;
        fields.extend(given);
        if kind == Kind::Network {
            check_mtu(fields)?;
        }
        // Attributes in separate tables of Neutron do not count, and a description counts only in
        // some resources.
        let counts = |name: &String| kind != Kind::Subnet || !UNCOUNTED_OF_SUBNETS.contains(&name.as_str());
        if changed.iter().any(counts) {
            self.raise_revision(kind, id);
        }
        if kind == Kind::Subnet && changed.iter().any(|name| counts(name) && name != "description") {
            self.raise_revision(Kind::Network, &network);
        }
        Ok(self.view(kind, self.find(kind, id)?))
    }

    /// Deletes a resource, and the subnets of a network.
    pub(super) fn delete(&mut self, kind: Kind, id: &str, revision: Option<i64>) -> Result<(), Refusal> {
        let fields = self.find(kind, id)?;
        let network = text(fields, "network_id").to_owned();
        match kind {
            Kind::Network => {
                self.check_network_unused(id)?;
                check_revision(self.find(kind, id)?, revision)?;
                self.ports.retain(|port| text(port, "network_id") != id);
                self.subnets.retain(|subnet| text(subnet, "network_id") != id);
            }
            Kind::Subnet => {
                self.check_subnet_unused(id)?;
                check_revision(self.find(kind, id)?, revision)?;
                for port in &mut self.ports {
                    release(port, id);
                }
            }
            Kind::Port => check_revision(fields, revision)?,
        }
        self.all_mut(kind).retain(|fields| text(fields, "id") != id);
        if kind == Kind::Subnet {
            self.raise_revision(Kind::Network, &network);
        }
        Ok(())
    }

    /// Sets all tags of a resource.
    pub(super) fn set_tags(&mut self, kind: Kind, id: &str, tags: Vec<String>) -> Result<(), Refusal> {
        let fields = self.find_mut(kind, id)?;
        if fields.insert("tags".to_owned(), tags.clone().into()) != Some(tags.into()) {
            self.raise_revision(kind, id);
        }
        Ok(())
    }

    fn raise_revision(&mut self, kind: Kind, id: &str) {
        if let Ok(fields) = self.find_mut(kind, id) {
            let revision = number(fields, "revision_number") + 1;
            fields.insert("revision_number".to_owned(), revision.into());
            fields.insert("updated_at".to_owned(), now().into());
        }
    }

    pub(super) fn quotas(&self, project: &str) -> Value {
        let limits = Kind::ALL.map(|kind| (kind.name().to_owned(), self.quota(kind, project).into()));
        Value::Object(limits.into_iter().collect())
    }

    fn quota(&self, kind: Kind, project: &str) -> i64 {
        let own = self.quotas.get(&(project.to_owned(), kind.name().to_owned()));
        let usual = if kind == Kind::Port { QUOTA_OF_PORTS } else { QUOTA };
        own.or_else(|| self.default_quotas.get(kind.name())).copied().unwrap_or(usual)
    }

    /// Sets the quota of one project, or the default quota.
    pub(super) fn set_quota(&mut self, project: Option<&str>, kind: &str, limit: i64) {
        match project {
            Some(project) => self.quotas.insert((project.to_owned(), kind.to_owned()), limit),
            None => self.default_quotas.insert(kind.to_owned(), limit),
        };
    }

    /// Resets a project to the default quota.
    pub(super) fn reset_quotas(&mut self, project: &str) {
        self.quotas.retain(|(of, _), _| of != project);
    }

    fn check_quota(&self, kind: Kind, project: &str) -> Result<(), Refusal> {
        let limit = self.quota(kind, project);
        let used = self.all(kind).iter().filter(|fields| text(fields, "project_id") == project).count();
        if limit >= 0 && i64::try_from(used).is_ok_and(|used| used >= limit) {
            let message = format!("Quota exceeded for resources: ['{}'].", kind.name());
            return Err(Refusal::new(409, "OverQuota", message));
        }
        Ok(())
    }

    fn check_network_unused(&self, id: &str) -> Result<(), Refusal> {
        let in_network = self.ports.iter().filter(|port| text(port, "network_id") == id);
        let ports: Vec<_> = in_network.filter(|port| !is_own_port(port)).map(|port| text(port, "id")).collect();
        if ports.is_empty() {
            return Ok(());
        }
        let message = format!(
            "Unable to complete operation on network {id}. There are one or more ports still in use on the network, id for \
             these ports is: {}.",
            ports.join(",")
        );
        Err(Refusal::new(409, "NetworkInUse", message))
    }

    fn check_subnet_unused(&self, id: &str) -> Result<(), Refusal> {
        let uses = |port: &&Fields| addresses(port).any(|(subnet, _)| subnet == id) && !is_own_port(port);
        if !self.ports.iter().any(|port| uses(&port)) {
            return Ok(());
        }
        let message = format!(
            "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
        );
        Err(Refusal::new(409, "SubnetInUse", message))
    }

    fn check_network_change(&self, id: &str, given: &Fields) -> Result<(), Refusal> {
        let Some(mtu) = given.get("mtu").and_then(Value::as_i64) else { return Ok(()) };
        for subnet in self.subnets_of(id) {
            check_mtu_for_subnet(id, mtu, number(subnet, "ip_version"))?;
        }
        Ok(())
    }

    fn new_subnet(&self, given: &mut Fields) -> Result<Fields, Refusal> {
        let Some(cidr) = given.get("cidr").and_then(Value::as_str).and_then(Cidr::parse) else {
            let message = "Bad subnets request: a subnetpool must be specified in the absence of a cidr.";
            return Err(Refusal::new(400, "BadRequest", message));
        };
        given.entry("enable_dhcp").or_insert(Value::Bool(true));
        check_subnet(cidr, number(given, "ip_version"), given, None)?;
        let id = text(given, "network_id").to_owned();
        let network = self.find(Kind::Network, &id)?;
        check_mtu_for_subnet(&id, number(network, "mtu"), number(given, "ip_version"))?;
        if cidr.prefix() == 0 {
            return Err(Refusal::invalid_input("0 is not allowed as CIDR prefix length"));
        }
        let overlaps = |subnet: &Fields| Cidr::parse(text(subnet, "cidr")).is_some_and(|other| other.overlaps(cidr));
        if self.subnets_of(&id).any(overlaps) {
            return Err(Refusal::invalid_input(format_args!(
                "Requested subnet with cidr: {cidr} for network: {id} overlaps with another subnet"
            )));
        }
        let first = if cidr.version() == 4 { (cidr.first() + 1).min(u32::MAX.into()) } else { cidr.first() };
        let gateway = given.entry("gateway_ip").or_insert_with(|| show(cidr.version(), first).into());
        let gateway = gateway.as_str().and_then(parse_address).map(|(_, number)| number);
        if cidr.version() == 4 && cidr.prefix() == 31 && gateway.is_some_and(|gateway| cidr.hosts().contains(gateway)) {
            let gateway = text(given, "gateway_ip");
            let message = format!("Gateway IP {gateway} cannot be the network or broadcast IP address {cidr}");
            return Err(Refusal::new(409, "IpamValueInvalid", message));
        }
        let pools = match given.get("allocation_pools") {
            Some(pools) => {
                let pools = ranges(pools);
                check_pools(&pools, cidr)?;
                check_gateway_outside(gateway, &pools)?;
                pools
            }
            None => cidr.pools(gateway),
        };
        given.insert("allocation_pools".to_owned(), pools.iter().copied().map(pool).collect());
        let defaults = json!({
            "name": "", "description": "", "dns_nameservers": [], "host_routes": [], "subnetpool_id": null,
            "ipv6_ra_mode": null, "ipv6_address_mode": null, "service_types": [], "tags": [], "revision_number": 0,
        });
        Ok(object(defaults))
    }

    fn new_port(&self, given: &Fields) -> Result<Fields, Refusal> {
        let network = text(given, "network_id").to_owned();
        self.find(Kind::Network, &network)?;
        let mut fixed_ips = Vec::new();
        for version in [4, 6] {
            let mut subnets =
                self.subnets_of(&network).filter(|subnet| number(subnet, "ip_version") == version).peekable();
            if subnets.peek().is_none() {
                continue;
            }
            let found = subnets
                .find_map(|subnet| Some(json!({"subnet_id": subnet["id"], "ip_address": self.free_address(subnet)?})));
            fixed_ips.push(found.ok_or_else(|| {
                let message = format!("No more IP addresses available on network {network}.");
                Refusal::new(409, "IpAddressGenerationFailure", message)
            })?);
        }
        let mac = fastrand::u32(..).to_be_bytes();
        let defaults = json!({
            "name": "", "description": "", "admin_state_up": true, "status": "DOWN", "device_id": "", "device_owner": "",
            "mac_address": format!("fa:16:3e:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2]),
            "fixed_ips": fixed_ips, "tags": [], "revision_number": 1,
        });
        Ok(object(defaults))
    }

    /// The first address of the subnet's pools that is free.
    fn free_address(&self, subnet: &Fields) -> Option<String> {
        let id = text(subnet, "id");
        let taken: Vec<_> = self.ports.iter().flat_map(addresses).filter(|(of, _)| *of == id).collect();
        let pools = ranges(subnet.get("allocation_pools")?);
        let mut free = pools.iter().flat_map(|pool| {
            // One more than are in use is enough to find a free one.
            let last = pool.last.min(pool.first.saturating_add(taken.len() as u128));
            (pool.first..=last).map(|number| show(pool.version, number))
        });
        free.find(|address| !taken.iter().any(|(_, taken)| taken == address))
    }
}

/// Checks the values of a new or changed subnet.
fn check_subnet(cidr: Cidr, ip_version: i64, given: &Fields, current: Option<&Fields>) -> Result<(), Refusal> {
    let check_version = |name: &str, shown: &str, version: u8| {
        if i64::from(version) == ip_version {
            return Ok(());
        }
        Err(Refusal::invalid_input(format_args!("{name} '{shown}' does not match the ip_version '{ip_version}'")))
    };
    check_version("cidr", &cidr.to_string(), cidr.version())?;
    if cidr.version() == 6 && cidr.first() == 0 {
        return Err(Refusal::invalid_input("IPv6 subnet '::' is not supported"));
    }
    let starts_dhcp = flag(given, "enable_dhcp") && !current.is_some_and(|current| flag(current, "enable_dhcp"));
    if starts_dhcp {
        check_dhcp(cidr)?;
    }
    if let Some(gateway) = given.get("gateway_ip").and_then(Value::as_str)
        && let Some((version, number)) = parse_address(gateway)
    {
        check_version("gateway_ip", gateway, version)?;
        // Neutron allows a gateway outside the CIDR: it may be reached over another link.
        if version == 4 && (number == cidr.first() || number == cidr.last()) {
            return Err(Refusal::invalid_input("Gateway is not valid on subnet"));
        }
    }
    let servers = given.get("dns_nameservers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if servers.len() > NAMESERVERS_MAX {
        let whose = current.map_or("new subnet", |current| text(current, "id"));
        let message = format!(
            "Unable to complete operation for {whose}. The number of DNS nameservers exceeds the limit {NAMESERVERS_MAX}."
        );
        return Err(Refusal::new(400, "DNSNameServersExhausted", message));
    }
    for server in servers.iter().filter_map(Value::as_str) {
        let version = parse_address(server).map_or(0, |(version, _)| version);
        check_version("dns_nameserver", server, version)?;
    }
    Ok(())
}

fn check_dhcp(cidr: Cidr) -> Result<(), Refusal> {
    let invalid = |reason| Err(Refusal::invalid_input(reason));
    let longest = if cidr.version() == 4 { 30 } else { 126 };
    if cidr.prefix() > longest {
        return invalid("Subnet has a prefix length that is incompatible with DHCP service enabled");
    }
    let within =
        |block: &str| Cidr::parse(block).is_some_and(|block| block.overlaps(cidr) && block.prefix() <= cidr.prefix());
    if within("224.0.0.0/4") || within("ff00::/8") {
        return invalid("Multicast IP subnet is not supported if enable_dhcp is True");
    }
    if within("127.0.0.0/8") {
        return invalid("Loopback IP subnet is not supported if enable_dhcp is True");
    }
    if cidr.version() == 4 && cidr.first() == 0 {
        return invalid("First IP '0.0.0.0' of network is not supported if enable_dhcp is True.");
    }
    Ok(())
}

fn check_subnet_change(current: &Fields, given: &Fields) -> Result<(), Refusal> {
    let Some(cidr) = Cidr::parse(text(current, "cidr")) else { return Ok(()) };
    check_subnet(cidr, number(current, "ip_version"), given, Some(current))?;
    let pools = given.get("allocation_pools").map(ranges);
    if let Some(pools) = &pools {
        check_pools(pools, cidr)?;
    }
    if pools.is_none() && !given.contains_key("gateway_ip") {
        return Ok(());
    }
    let gateway = given.get("gateway_ip").or_else(|| current.get("gateway_ip"));
    let gateway = gateway.and_then(Value::as_str).and_then(parse_address).map(|(_, number)| number);
    check_gateway_outside(gateway, &pools.unwrap_or_else(|| ranges(&current["allocation_pools"])))
}

fn check_pools(pools: &[Range], cidr: Cidr) -> Result<(), Refusal> {
    let hosts = cidr.hosts();
    for (index, pool) in pools.iter().enumerate() {
        if pool.version != cidr.version() || pool.first > pool.last {
            let message = format!("The allocation pool {pool} is not valid.");
            return Err(Refusal::new(400, "InvalidAllocationPool", message));
        }
        if !hosts.contains(pool.first) || !hosts.contains(pool.last) {
            let message = format!("The allocation pool {pool} spans beyond the subnet cidr {cidr}.");
            return Err(Refusal::new(400, "OutOfBoundsAllocationPool", message));
        }
        if let Some(other) = pools[..index].iter().find(|other| other.overlaps(*pool)) {
            let message = format!("Found overlapping allocation pools: {other} {pool} for subnet {cidr}.");
            return Err(Refusal::new(409, "OverlappingAllocationPools", message));
        }
    }
    Ok(())
}

fn check_gateway_outside(gateway: Option<u128>, pools: &[Range]) -> Result<(), Refusal> {
    let Some((gateway, pool)) = gateway.and_then(|gateway| {
        let pool = pools.iter().find(|pool| pool.contains(gateway))?;
        Some((gateway, pool))
    }) else {
        return Ok(());
    };
    let message = format!("Gateway ip {} conflicts with allocation pool {pool}.", show(pool.version, gateway));
    Err(Refusal::new(409, "GatewayConflictWithAllocationPools", message))
}

fn check_mtu(fields: &mut Fields) -> Result<(), Refusal> {
    match number(fields, "mtu") {
        0 => {
            fields.insert("mtu".to_owned(), MTU_MAX.into());
            Ok(())
        }
        mtu if mtu > MTU_MAX => Err(mtu_too_big()),
        _ => Ok(()),
    }
}

fn mtu_too_big() -> Refusal {
    Refusal::invalid_input(format_args!("Requested MTU is too big, maximum is {MTU_MAX}"))
}

fn check_mtu_for_subnet(network: &str, mtu: i64, ip_version: i64) -> Result<(), Refusal> {
    let needed = if ip_version == 6 && mtu >= IPV4_MTU_MIN { IPV6_MTU_MIN } else { IPV4_MTU_MIN };
    if mtu >= needed {
        return Ok(());
    }
    let message = format!("MTU of {network} is not valid, subnet requires a minimum of {needed}");
    Err(Refusal::new(409, "NetworkMTUSubnetConflict", message))
}

fn check_revision(fields: &Fields, wanted: Option<i64>) -> Result<(), Refusal> {
    let current = number(fields, "revision_number");
    match wanted {
        Some(wanted) if wanted != current => Err(Refusal::new(
            412,
            "RevisionNumberConstraintFailed",
            format!("Constrained to {wanted}, but current revision is {current}"),
        )),
        _ => Ok(()),
    }
}

pub(super) fn not_found(kind: Kind, id: &str) -> Refusal {
    match kind {
        Kind::Network => Refusal::new(404, "NetworkNotFound", format!("Network {id} could not be found.")),
        Kind::Subnet => Refusal::new(404, "SubnetNotFound", format!("Subnet {id} could not be found.")),
        Kind::Port => Refusal::new(404, "PortNotFound", format!("Port {id} could not be found.")),
    }
}

fn new_network() -> Fields {
    object(json!({
        "name": "", "description": "", "admin_state_up": true, "status": "ACTIVE", "shared": false, "mtu": 0,
        "router:external": false, "port_security_enabled": true, "availability_zone_hints": [], "availability_zones": [],
        "tags": [], "revision_number": 1,
    }))
}

/// The ids of the subnets and the addresses of a port.
fn addresses(port: &Fields) -> impl Iterator<Item = (&str, &str)> {
    let fixed_ips = port.get("fixed_ips").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    fixed_ips.iter().filter_map(|ip| Some((ip.get("subnet_id")?.as_str()?, ip.get("ip_address")?.as_str()?)))
}

/// Removes the addresses of a subnet from a port.
fn release(port: &mut Fields, subnet: &str) {
    if let Some(Value::Array(fixed_ips)) = port.get_mut("fixed_ips") {
        fixed_ips.retain(|ip| ip["subnet_id"] != subnet);
    }
}

fn is_own_port(port: &Fields) -> bool {
    OWN_PORTS.contains(&text(port, "device_owner"))
}

fn ranges(pools: &Value) -> Vec<Range> {
    let end = |pool: &Value, name: &str| pool.get(name).and_then(Value::as_str).and_then(parse_address);
    let range = |pool: &Value| {
        let ((version, first), (_, last)) = (end(pool, "start")?, end(pool, "end")?);
        Some(Range { version, first, last })
    };
    pools.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(range).collect()
}

fn pool(range: Range) -> Value {
    json!({"start": show(range.version, range.first), "end": show(range.version, range.last)})
}

pub(super) fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(fields: &Fields, name: &str) -> i64 {
    fields.get(name).and_then(Value::as_i64).unwrap_or_default()
}

fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}

/// To the second, as Neutron has it.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A random UUID.
fn new_id() -> String {
    let number = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}
