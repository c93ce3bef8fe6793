//! The targets that an agent may load. An order is checked by the addresses that it connects to: the name in a URL proves nothing,
//! because the order says where that name is. The agent looks names of the list up itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

/// What an operator should write.
const FORM: &str = "HOST, HOST:PORT, ADDRESS/BITS or ADDRESS/BITS:PORT (IPv6 with a port in brackets)";

/// An allowed target.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Network(IpAddr, u8),
    Name(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    text: String,
    place: Place,
    port: Option<u16>,
}

/// The targets that an agent may load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

impl Default for AllowList {
    /// This machine alone.
    fn default() -> Self {
        let loopback = [("127.0.0.0/8", IpAddr::V4(Ipv4Addr::LOCALHOST), 8), ("::1", Ipv6Addr::LOCALHOST.into(), 128)];
        let entry = |(text, address, bits): (&str, IpAddr, u8)| Entry {
            text: text.to_owned(),
            place: Place::Network(address, bits),
            port: None,
        };
        Self(loopback.into_iter().map(entry).collect())
    }
}

impl FromStr for AllowList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries: Result<Vec<_>, _> = text.split(',').map(|entry| Entry::parse(entry.trim())).collect();
        entries.map(Self)
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, entry) in self.0.iter().enumerate() {
            write!(out, "{}{}", if at == 0 { "" } else { ", " }, entry.text)?;
        }
        Ok(())
    }
}

impl AllowList {
    /// Several lists as one.
    pub fn concat(lists: &[Self]) -> Self {
        Self(lists.iter().flat_map(|list| list.0.clone()).collect())
    }

    /// The first of these addresses that is not allowed. Looks names up, which can take long.
    pub(crate) fn refused(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let resolve =
            |name: &str, port: u16| (name, port).to_socket_addrs().map_or_else(|_| Vec::new(), Iterator::collect);
        addresses.iter().copied().find(|address| !self.allows(*address, resolve))
    }

    fn allows(&self, address: SocketAddr, resolve: impl Fn(&str, u16) -> Vec<SocketAddr>) -> bool {
        let ip = address.ip().to_canonical();
        // Linux takes a connection to these to this machine itself.
        if ip.is_unspecified() {
            return false;
        }
        self.0.iter().any(|entry| {
            entry.port.is_none_or(|port| port == address.port())
                && match &entry.place {
                    Place::Network(network, bits) => is_in(ip, *network, *bits),
                    Place::Name(name) => {
                        resolve(name, address.port()).iter().any(|found| found.ip().to_canonical() == ip)
                    }
                }
        })
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no target: write {FORM}");
        let (place, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((place, "")) => (place, None),
            Some((place, port)) => (place, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            // Several colons are an IPv6 address without a port.
            None => match text.split_once(':') {
                Some((place, port)) if !port.contains(':') => (place, Some(port)),
                _ => (text, None),
            },
        };
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?;
        let place = if let Some((address, bits)) = place.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let bits = bits.parse().ok().filter(|bits| *bits <= if address.is_ipv4() { 32 } else { 128 });
            Place::Network(address, bits.ok_or_else(wrong)?)
        } else if let Ok(address) = place.parse::<IpAddr>() {
            Place::Network(address, if address.is_ipv4() { 32 } else { 128 })
        } else if !place.is_empty() && place.chars().all(|letter| letter.is_alphanumeric() || "-._".contains(letter)) {
            Place::Name(place.to_owned())
        } else {
            return Err(wrong());
        };
        Ok(Self { text: text.to_owned(), place, port })
    }
}

/// Whether an address is in a network.
fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |one: u128, other: u128, width: u8| {
        let shift = u32::from(width - bits.min(width));
        one.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => same(u32::from(one).into(), u32::from(other).into(), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.into(), other.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, address: &str) -> bool {
        let resolve = |name: &str, port| match name {
            "shop.example" => vec![SocketAddr::new([192, 0, 2, 7].into(), port)],
            _ => Vec::new(),
        };
        list.parse::<AllowList>().unwrap().allows(address.parse().unwrap(), resolve)
    }

    #[test]
    fn networks_addresses_names_and_ports_are_compared() {
        for (list, address) in [
            ("192.0.2.0/24", "192.0.2.9:80"),
            ("192.0.2.9", "192.0.2.9:80"),
            ("192.0.2.9:80", "192.0.2.9:80"),
            ("10.0.0.0/8:443, 192.0.2.0/24:80", "192.0.2.9:80"),
            ("shop.example:443", "192.0.2.7:443"),
            ("2001:db8::/32", "[2001:db8::1]:80"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            ("0.0.0.0/0", "192.0.2.9:80"),
            ("::/0", "[2001:db8::1]:80"),
        ] {
            assert!(allows(list, address), "{list} {address}");
        }
        for (list, address) in [
            ("192.0.2.0/24", "192.0.3.9:80"),
            ("192.0.2.9:80", "192.0.2.9:81"),
            ("shop.example", "192.0.2.8:443"),
            ("other.example", "192.0.2.7:443"),
            ("2001:db8::/32", "[2001:db9::1]:80"),
            ("0.0.0.0/0", "[2001:db8::1]:80"),
        ] {
            assert!(!allows(list, address), "{list} {address}");
        }
    }

    #[test]
    fn no_form_of_an_address_gets_around_the_list() {
        assert!(!allows("10.0.0.0/8", "[::ffff:192.0.2.1]:80"));
        assert!(allows("192.0.2.0/24", "[::ffff:192.0.2.1]:80"));
        // Linux connects to this machine.
        assert!(!allows("0.0.0.0/0", "0.0.0.0:80") && !allows("::/0", "[::]:80"));
        let loopback = AllowList::default();
        assert_eq!(loopback.refused(&["127.1.2.3:80".parse().unwrap(), "[::1]:1".parse().unwrap()]), None);
        let other: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(loopback.refused(&["127.0.0.1:80".parse().unwrap(), other]), Some(other));
    }

    #[test]
    fn refuses_invalid_targets() {
        for text in ["", "a b", "http://a/", "10.0.0.0/33", "10.0.0.1:99999", "::/129", "[::1]80", "a,,b"] {
            assert!(text.parse::<AllowList>().is_err(), "{text}");
        }
    }
}
