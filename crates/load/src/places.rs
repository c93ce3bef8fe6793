//! Where targets are, if not where their names say: other addresses for a name and a port, or a Unix socket for all.

use reactor::PeerAddress;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a target at a Unix socket.
pub(crate) const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Another address for a name and a port: `shop.example:443:192.0.2.7`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherAddress {
    /// The name in the URL, in lower case.
    pub host: String,
    /// The port in the URL.
    pub port: u16,
    /// Where it is.
    pub address: IpAddr,
}

impl FromStr for OtherAddress {
    type Err = &'static str;

    /// As curl writes it; an IPv6 address may be in brackets.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':');
        let (Some(host), Some(port), Some(address)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("HOST:PORT:ADDRESS, such as shop.example:443:192.0.2.7");
        };
        if host.is_empty() {
            return Err("the name before the port is missing");
        }
        let port = port.parse().map_err(|_| "the port is a number up to 65,535")?;
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let address = bare.parse().map_err(|_| "the address is of IPv4 or IPv6")?;
        Ok(Self { host: host.to_ascii_lowercase(), port, address })
    }
}

/// Where targets are, if not where their names say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Other addresses; the first that fits counts.
    pub others: Vec<OtherAddress>,
    /// The path of a Unix socket at which all targets are.
    pub unix: Option<PathBuf>,
}

impl Places {
    /// Where connections to an address of the plan really go.
    pub(crate) fn peer(&self, address: SocketAddr) -> PeerAddress {
        self.unix.as_ref().map_or_else(|| address.into(), |path| PeerAddress::Unix(path.clone()))
    }

    /// An address of the plan as people read it.
    pub(crate) fn shown(&self, address: SocketAddr) -> String {
        self.peer(address).to_string()
    }

    /// The other address of a name and a port.
    pub(crate) fn other(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let is_it = |other: &&OtherAddress| other.port == port && other.host.eq_ignore_ascii_case(host);
        self.others.iter().find(is_it).map(|other| SocketAddr::new(other.address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_addresses_are_written_as_for_curl() {
        let places = Places {
            others: vec![
                "Shop.example:443:192.0.2.7".parse().unwrap(),
                "shop.example:80:[2001:db8::1]".parse().unwrap(),
            ],
            unix: None,
        };
        assert_eq!(places.other("shop.EXAMPLE", 443), Some("192.0.2.7:443".parse().unwrap()));
        assert_eq!(places.other("shop.example", 80), Some("[2001:db8::1]:80".parse().unwrap()));
        assert_eq!((places.other("shop.example", 81), places.other("example", 443)), (None, None));
        for wrong in ["", "a", "a:1", "a:b:127.0.0.1", "a:1:b", ":1:127.0.0.1", "a:65536:127.0.0.1"] {
            assert!(wrong.parse::<OtherAddress>().is_err(), "{wrong}");
        }
    }
}
