//! The block of addresses that counts as one peer: an address of IPv4, and of IPv6 the 64 bits that name a network,
//! since a host has all addresses of its network to choose from.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name a network.
const NETWORK_BITS: u32 = 64;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block(IpAddr);

impl Block {
    /// The block of an address; one of IPv4 that came through an IPv6 socket is of IPv4.
    pub fn of(address: IpAddr) -> Block {
        Block(match address.to_canonical() {
            IpAddr::V4(own) => IpAddr::V4(own),
            IpAddr::V6(own) => IpAddr::V6(Ipv6Addr::from_bits(own.to_bits() >> NETWORK_BITS << NETWORK_BITS)),
        })
    }
}

impl fmt::Display for Block {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(own) => write!(into, "{own}"),
            IpAddr::V6(own) => write!(into, "{own}/{NETWORK_BITS}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_block_and_an_address_of_ipv4_is_one() {
        let check = |address: &str, expected: &str| {
            assert_eq!(Block::of(address.parse().unwrap()).to_string(), expected, "{address}");
        };
        check("10.0.0.1", "10.0.0.1");
        check("10.0.0.2", "10.0.0.2");
        check("127.0.0.9", "127.0.0.9");
        check("::ffff:10.0.0.1", "10.0.0.1");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check("2001:db8:1:2:ffff::", "2001:db8:1:2::/64");
        check("2001:db8:1:3::", "2001:db8:1:3::/64");
        check("::1", "::/64");
    }
}
