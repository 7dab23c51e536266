//! The addresses and ports of Services.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::rules::builtin::Addresses;

/// The same as in the servers that the tests start.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
const NETWORK_BITS: u32 = 16;
/// The port before the first that a dry run returns.
const DRY_PORT: i64 = 32_768;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// The allocated addresses and ports.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<i64>,
    next_address: u32,
    next_port: i64,
}

/// Whether a Service could have the address: not the network's own and not the last one.
fn is_in_network(address: Ipv4Addr) -> bool {
    let size = 1_u32 << (32 - NETWORK_BITS);
    let place = address.to_bits().wrapping_sub(NETWORK.to_bits());
    (1..size - 1).contains(&place)
}

/// The first address, which is the API server's own.
fn is_taken_by_the_server(address: Ipv4Addr) -> bool {
    address.to_bits() == NETWORK.to_bits() + 1
}

impl Addresses for Pool {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, String> {
        if let Some(wanted) = wanted {
            let address = wanted
                .parse()
                .ok()
                .filter(|address| is_in_network(*address))
                .ok_or_else(|| "the provided network does not match the current range".to_owned())?;
            if is_taken_by_the_server(address) || !self.addresses.insert(address) {
                return Err("provided IP is already allocated".to_owned());
            }
            return Ok(address.to_string());
        }
        let size = 1_u32 << (32 - NETWORK_BITS);
        if self.addresses.len() >= size as usize - 3 {
            return Err("range is full".to_owned());
        }
        for _ in 0..size {
            // Neither the network's own address, nor the first, which is the API server's, nor the
            // last.
            self.next_address = self.next_address % (size - 3) + 1;
            let address = Ipv4Addr::from_bits(NETWORK.to_bits() + self.next_address + 1);
            if self.addresses.insert(address) {
                return Ok(address.to_string());
            }
        }
        Err("range is full".to_owned())
    }

    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        if let Some(wanted) = wanted {
            if !NODE_PORTS.contains(&wanted) {
                let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                ));
            }
            if !self.ports.insert(wanted) {
                return Err("provided port is already allocated".to_owned());
            }
            return Ok(wanted);
        }
        let size = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        if self.ports.len() as i64 >= size {
            return Err("range is full".to_owned());
        }
        for _ in 0..size {
            self.next_port = (self.next_port + 1) % size;
            let port = NODE_PORTS.start() + self.next_port;
            if self.ports.insert(port) {
                return Ok(port);
            }
        }
        Err("range is full".to_owned())
    }

    fn release_cluster_ip(&mut self, address: &str) {
        if let Ok(address) = address.parse() {
            self.addresses.remove(&address);
        }
    }

    fn release_node_port(&mut self, port: i64) {
        self.ports.remove(&port);
    }
}

/// Allocates nothing, for a dry run: no free address is searched, and no address is in use.
pub(crate) struct DryRun<'a> {
    pool: &'a Pool,
    ports: BTreeSet<i64>,
}

impl<'a> DryRun<'a> {
    pub(crate) fn of(pool: &'a Pool) -> Self {
        Self { pool, ports: BTreeSet::new() }
    }
}

impl Addresses for DryRun<'_> {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, String> {
        let Some(wanted) = wanted else { return Ok(NETWORK.to_string()) };
        match wanted.parse() {
            Ok(address) if is_in_network(address) => Ok(address.to_string()),
            _ => Err(format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is \
                 {NETWORK}/{NETWORK_BITS}"
            )),
        }
    }

    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        let port = wanted.unwrap_or_else(|| self.ports.last().copied().unwrap_or(DRY_PORT) + 1);
        if wanted.is_some() && (self.pool.ports.contains(&port) || self.ports.contains(&port)) {
            return Err("provided port is already allocated".to_owned());
        }
        self.ports.insert(port);
        Ok(port)
    }

    fn release_cluster_ip(&mut self, _: &str) {}

    fn release_node_port(&mut self, _: i64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_and_what_is_released_can_be_had_again() {
        let mut pool = Pool::default();
        let first = pool.cluster_ip(None).unwrap();
        assert_ne!(pool.cluster_ip(None).unwrap(), first);
        assert!(pool.cluster_ip(Some(&first)).is_err());
        pool.release_cluster_ip(&first);
        assert_eq!(pool.cluster_ip(Some(&first)), Ok(first));
        assert!(pool.cluster_ip(Some("192.0.2.1")).unwrap_err().contains("does not match the current range"));

        for taken in ["10.0.0.0", "10.0.0.1", "10.0.255.255", "10.1.0.1"] {
            assert!(pool.cluster_ip(Some(taken)).is_err(), "{taken}");
        }

        let port = pool.node_port(None).unwrap();
        assert!(pool.node_port(Some(port)).is_err() && pool.node_port(Some(80)).is_err());
        pool.release_node_port(port);
        assert_eq!(pool.node_port(Some(port)), Ok(port));
    }
}
