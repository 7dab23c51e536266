use std::iter::successors;
use std::net::IpAddr;

use ipnet::IpNet;
use steersman::runtime::Index;

use crate::{Error, Network};

/// The name of the index that finds the Networks of a block.
pub(crate) const BY_BLOCK: &str = "block";
/// More blocks than this are a mistake: searching them takes long.
const BLOCKS_LOG2_MAX: u8 = 16;

/// The addresses of automatic Networks: a CIDR, divided into blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    cidr: IpNet,
    prefix: u8,
}

impl Pool {
    /// The blocks with this prefix length in `cidr`.
    pub fn new(cidr: IpNet, prefix: u8) -> Result<Self, Error> {
        // A block has room for the gateway and one port, besides the addresses that IPv4 reserves.
        let longest = cidr.max_prefix_len() - 2;
        if prefix < cidr.prefix_len() || prefix > longest {
            let problem =
                format!("invalid prefix length {prefix} for blocks of {cidr}: use {} to {longest}", cidr.prefix_len());
            return Err(Error::Options(problem));
        }
        if prefix - cidr.prefix_len() > BLOCKS_LOG2_MAX {
            let most = cidr.prefix_len() + BLOCKS_LOG2_MAX;
            return Err(Error::Options(format!("{cidr} has too many blocks of /{prefix}: use at most /{most}")));
        }
        Ok(Self { cidr: cidr.trunc(), prefix })
    }

    /// The index that finds overlapping Networks: by the block that a Network is in, or by its CIDR
    /// if that is larger.
    pub(crate) fn index(self) -> (&'static str, Index<Network>) {
        let value = move |network: &Network| {
            let cidr = network.spec.cidr.parse().ok();
            cidr.map(|cidr| self.block_of(cidr).to_string()).into_iter().collect()
        };
        (BY_BLOCK, Index::function(value))
    }

    fn block_of(self, cidr: IpNet) -> IpNet {
        let prefix = cidr.prefix_len().min(self.prefix);
        IpNet::new(cidr.addr(), prefix).map_or(cidr, |block| block.trunc())
    }

    /// The blocks, in order.
    pub(crate) fn blocks(self) -> impl Iterator<Item = IpNet> {
        self.cidr.subnets(self.prefix).into_iter().flatten()
    }
}

/// The index values of all Networks that overlap with a block: the block itself, for Networks in
/// the block, and all larger CIDRs that contain it.
pub(crate) fn overlapping(block: IpNet) -> impl Iterator<Item = String> {
    successors(Some(block), IpNet::supernet).map(|cidr| cidr.to_string())
}

impl std::fmt::Display for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in blocks of /{}", self.cidr, self.prefix)
    }
}

/// The gateway of an automatic Network: the first address after that of the block itself.
pub(crate) fn gateway(block: IpNet) -> IpAddr {
    block.hosts().find(|address| *address != block.network()).unwrap_or(block.network())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(cidr: &str, prefix: u8) -> Pool {
        Pool::new(cidr.parse().unwrap(), prefix).unwrap()
    }

    fn first_free(pool: Pool, networks: &[&str]) -> Option<String> {
        let values: Vec<_> = networks.iter().map(|cidr| pool.block_of(cidr.parse().unwrap()).to_string()).collect();
        let free = pool.blocks().find(|block| !overlapping(*block).any(|value| values.contains(&value)));
        free.map(|block| block.to_string())
    }

    #[test]
    fn the_first_block_that_overlaps_with_no_network_is_free() {
        let pool = pool("10.100.0.0/22", 24);
        let cases: [(&[&str], Option<&str>); 7] = [
            (&[], Some("10.100.0.0/24")),
            (&["192.168.0.0/16"], Some("10.100.0.0/24")),
            (&["10.100.0.0/24", "10.100.2.0/24"], Some("10.100.1.0/24")),
            (&["10.100.0.128/25"], Some("10.100.1.0/24")),
            (&["10.100.0.0/23"], Some("10.100.2.0/24")),
            (&["10.0.0.0/8"], None),
            (&["10.100.0.0/24", "10.100.1.7/32", "10.100.2.0/23"], None),
        ];
        for (networks, free) in cases {
            assert_eq!(first_free(pool, networks).as_deref(), free, "{networks:?}");
        }
    }

    #[test]
    fn a_pool_that_makes_no_sense_is_refused() {
        let wrong = |cidr: &str, prefix| Pool::new(cidr.parse().unwrap(), prefix).unwrap_err().to_string();
        assert_eq!(wrong("10.0.0.0/24", 16), "invalid prefix length 16 for blocks of 10.0.0.0/24: use 24 to 30");
        assert_eq!(wrong("10.0.0.0/24", 31), "invalid prefix length 31 for blocks of 10.0.0.0/24: use 24 to 30");
        assert_eq!(wrong("fd00::/32", 64), "fd00::/32 has too many blocks of /64: use at most /48");
    }

    #[test]
    fn the_gateway_is_the_first_address_that_a_host_may_have() {
        assert_eq!(gateway("10.100.3.0/24".parse().unwrap()).to_string(), "10.100.3.1");
        assert_eq!(gateway("fd00:0:0:7::/64".parse().unwrap()).to_string(), "fd00:0:0:7::1");
    }
}
