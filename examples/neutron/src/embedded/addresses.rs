//! Ranges of IP addresses. An address is a number, with its version beside it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A block of addresses: 10.9.0.0/24. Host bits are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    version: u8,
    first: u128,
    prefix: u8,
}

/// Addresses from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) version: u8,
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Cidr {
    /// Reads a block. An address without a length is a block of its own.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let (version, number) = parse_address(address)?;
        let bits = bits(version);
        let prefix = match length {
            Some(length) if !length.starts_with('+') => length.parse().ok().filter(|prefix| *prefix <= bits)?,
            Some(_) => return None,
            None => bits,
        };
        let host = host_mask(bits - prefix);
        Some(Self { version, first: number & !host, prefix })
    }

    pub(super) fn version(self) -> u8 {
        self.version
    }

    pub(super) fn prefix(self) -> u8 {
        self.prefix
    }

    pub(super) fn first(self) -> u128 {
        self.first
    }

    pub(super) fn last(self) -> u128 {
        self.first | host_mask(bits(self.version) - self.prefix)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.version == other.version && self.first <= other.last() && other.first <= self.last()
    }

    /// The addresses that hosts may have: all but the network's own and, in IPv4, the broadcast
    /// address.
    pub(super) fn hosts(self) -> Range {
        let (first, last) = match (self.version, self.prefix) {
            (4, 31..) | (6, 128) => (self.first, self.last()),
            (4, _) => (self.first + 1, self.last() - 1),
            _ => (self.first + 1, self.last()),
        };
        Range { version: self.version, first, last }
    }

    /// The addresses of hosts without that of the gateway.
    pub(super) fn pools(self, gateway: Option<u128>) -> Vec<Range> {
        let hosts = self.hosts();
        let Some(gateway) = gateway.filter(|gateway| self.prefix < bits(self.version) && hosts.contains(*gateway))
        else {
            return vec![hosts];
        };
        let below = (gateway > hosts.first).then(|| Range { last: gateway - 1, ..hosts });
        let above = (gateway < hosts.last).then(|| Range { first: gateway + 1, ..hosts });
        below.into_iter().chain(above).collect()
    }
}

impl Range {
    pub(super) fn contains(self, address: u128) -> bool {
        (self.first..=self.last).contains(&address)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.version == other.version && self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", show(self.version, self.first), self.prefix)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", show(self.version, self.first), show(self.version, self.last))
    }
}

/// The version and the number of an address.
pub(super) fn parse_address(text: &str) -> Option<(u8, u128)> {
    match text.parse().ok()? {
        IpAddr::V4(address) => Some((4, u32::from(address).into())),
        IpAddr::V6(address) => Some((6, address.into())),
    }
}

/// The address with this number.
pub(super) fn show(version: u8, number: u128) -> String {
    match u32::try_from(number) {
        Ok(number) if version == 4 => Ipv4Addr::from(number).to_string(),
        _ => Ipv6Addr::from(number).to_string(),
    }
}

fn bits(version: u8) -> u8 {
    if version == 4 { 32 } else { 128 }
}

fn host_mask(bits: u8) -> u128 {
    1_u128.checked_shl(bits.into()).map_or(u128::MAX, |size| size - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cidr: &str, gateway: Option<&str>) -> String {
        let gateway = gateway.map(|gateway| parse_address(gateway).unwrap().1);
        let pools = Cidr::parse(cidr).unwrap().pools(gateway);
        pools.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn host_bits_are_cleared() {
        for (given, shown) in [
            ("10.9.0.5/24", "10.9.0.0/24"),
            ("10.9.0.0", "10.9.0.0/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8:0::5/64", "2001:db8::/64"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(Cidr::parse(given).map(|cidr| cidr.to_string()).as_deref(), Some(shown), "for {given}");
        }
        for bad in [
            "",
            "/24",
            "10.9.0.0/33",
            "10.9.0.0/-1",
            "10.9.0.0/+1",
            "10.9.0.0/",
            "10.9.0/24",
            "10.9.0.0/24/8",
            "x/8",
            "::/129",
        ] {
            assert_eq!(Cidr::parse(bad), None, "for {bad}");
        }
    }

    #[test]
    fn pools_leave_out_the_gateway_and_what_no_host_may_have() {
        for (cidr, gateway, pools) in [
            ("10.9.0.0/24", Some("10.9.0.1"), "10.9.0.2-10.9.0.254"),
            ("10.9.0.0/24", Some("10.9.0.254"), "10.9.0.1-10.9.0.253"),
            ("10.9.0.0/24", Some("10.9.0.5"), "10.9.0.1-10.9.0.4 10.9.0.6-10.9.0.254"),
            ("10.9.0.0/24", Some("192.168.0.1"), "10.9.0.1-10.9.0.254"),
            ("10.9.0.0/24", None, "10.9.0.1-10.9.0.254"),
            ("10.9.0.0/30", Some("10.9.0.1"), "10.9.0.2-10.9.0.2"),
            ("10.9.0.0/31", None, "10.9.0.0-10.9.0.1"),
            ("2001:db8::/64", Some("2001:db8::"), "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff"),
        ] {
            assert_eq!(shown(cidr, gateway), pools, "for {cidr} with the gateway {gateway:?}");
        }
    }
}
