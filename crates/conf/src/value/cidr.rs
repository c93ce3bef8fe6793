//! Networks: `10.0.0.0/8`, `::1`, and the words `all` and `unix:`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::size::number;
use crate::source::Span;

/// A network: the address with its host bits cleared, and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The first address of the network.
    pub network: IpAddr,
    /// How many leading bits count: at most 32 or 128.
    pub prefix: u8,
}

/// What `allow`, `deny` and `set_real_ip_from` match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CidrPattern {
    /// Every client.
    All,
    /// Clients of Unix sockets.
    Unix,
    /// A network.
    Network(Cidr),
    /// A name, to be resolved at start (`set_real_ip_from` only).
    Name(String, Span),
}

impl Cidr {
    /// Reads an address with an optional prefix. The flag is set if host bits were set, which deserves a warning.
    pub fn parse(text: &[u8]) -> Option<(Self, bool)> {
        let text = std::str::from_utf8(text).ok()?;
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(prefix) => number(prefix.as_bytes()).filter(|&prefix| prefix <= most)?,
        };
        let network = mask(address, prefix as u32);
        Some((Self { network, prefix: prefix as u8 }, network != address))
    }

    /// Whether the address lies in the network. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = if self.network.is_ipv4() { address.to_canonical() } else { address };
        address.is_ipv4() == self.network.is_ipv4() && mask(address, u32::from(self.prefix)) == self.network
    }
}

fn mask(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let bits = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & bits).into()
        }
        IpAddr::V6(ip) => {
            let bits = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & bits).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::Cidr;

    fn parse(text: &str) -> Option<(String, u8, bool)> {
        Cidr::parse(text.as_bytes()).map(|(cidr, loose)| (cidr.network.to_string(), cidr.prefix, loose))
    }

    #[test]
    fn a_network_is_an_address_with_a_prefix() {
        assert_eq!(parse("10.1.0.0/16"), Some(("10.1.0.0".into(), 16, false)));
        assert_eq!(parse("10.1.2.3/16"), Some(("10.1.0.0".into(), 16, true)));
        assert_eq!(parse("::1"), Some(("::1".into(), 128, false)));
        assert_eq!(parse("0.0.0.0/0"), Some(("0.0.0.0".into(), 0, false)));
    }

    #[test]
    fn refuses_invalid_networks() {
        for text in ["", "10.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "name/8"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_address_lies_in_each_of_its_networks(ip: IpAddr, prefix in 0_u8..=128) {
            let prefix = if ip.is_ipv4() { prefix % 33 } else { prefix };
            let (cidr, _) = Cidr::parse(format!("{ip}/{prefix}").as_bytes()).unwrap();
            prop_assert!(cidr.contains(ip) || (ip.is_ipv6() && ip.to_canonical().is_ipv4()));
        }

        #[test]
        fn any_bytes_are_taken_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = Cidr::parse(&bytes);
        }
    }
}
