//! `--source`: addresses, ranges, networks and interfaces as lists of addresses.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrIn6;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most addresses: a million connections need 36, and a typo in a prefix length would ask for sixteen million.
const SOURCES_MAX: u32 = 65_536;

/// `10.0.0.1`, `10.0.0.1-10.0.0.9`, `10.0.0.0/24` (without network and broadcast address), `fd00::1`, or `eth0` for all
/// addresses of that interface.
pub(super) fn parse(text: &str) -> Result<Vec<IpAddr>, String> {
    if let Some((network, bits)) = text.split_once('/') {
        let network = parse_v4(network)?;
        let bits: u32 =
            bits.parse().ok().filter(|bits| *bits <= 32).ok_or("a network is ADDRESS/BITS, such as 127.0.0.0/24")?;
        let size = 1u64 << (32 - bits);
        let first = u64::from(network) / size * size;
        // The first and last addresses of a network are its own and the broadcast address.
        let (first, last) = if size > 2 { (first + 1, first + size - 2) } else { (first, first + size - 1) };
        return range(first as u32, last as u32);
    }
    let of_interface = addresses_of(text)?;
    if !of_interface.is_empty() {
        return Ok(of_interface);
    }
    if let Some((first, last)) = text.split_once('-') {
        return range(parse_v4(first)?, parse_v4(last)?);
    }
    text.parse()
        .map(|address| vec![address])
        .map_err(|_| format!("`{text}` is neither an address nor an interface with one"))
}

/// The addresses of an interface; empty if it does not exist. Link-local IPv6 addresses are left out: connecting from
/// one needs a scope besides the address.
fn addresses_of(interface: &str) -> Result<Vec<IpAddr>, String> {
    let all = getifaddrs().map_err(|error| format!("the interfaces cannot be read: {error}"))?;
    let addresses = all.filter(|found| found.interface_name == interface).filter_map(|found| {
        let address = found.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let is_wide = |v6: &Ipv6Addr| !v6.is_unicast_link_local();
        v4.or_else(|| address.as_sockaddr_in6().map(SockaddrIn6::ip).filter(is_wide).map(IpAddr::V6))
    });
    Ok(addresses.collect())
}

fn parse_v4(text: &str) -> Result<u32, String> {
    text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| format!("`{text}` is not an IPv4 address"))
}

fn range(first: u32, last: u32) -> Result<Vec<IpAddr>, String> {
    match last.checked_sub(first) {
        None => Err("the range ends before it begins".to_owned()),
        Some(more) if more >= SOURCES_MAX => Err(format!("more than {SOURCES_MAX} source addresses")),
        Some(_) => Ok((first..=last).map(|address| Ipv4Addr::from(address).into()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(text: &str) -> (usize, String, String) {
        let all = parse(text).unwrap();
        (all.len(), all[0].to_string(), all[all.len() - 1].to_string())
    }

    #[test]
    fn lists_are_spelled_out() {
        assert_eq!(ends("127.0.0.0/24"), (254, "127.0.0.1".into(), "127.0.0.254".into()));
        assert_eq!(ends("127.0.0.9/32"), (1, "127.0.0.9".into(), "127.0.0.9".into()));
        assert_eq!(ends("10.0.0.250-10.0.1.3"), (10, "10.0.0.250".into(), "10.0.1.3".into()));
        assert_eq!(ends("::1"), (1, "::1".into(), "::1".into()));
    }

    #[test]
    fn expands_an_interface_to_its_addresses() {
        let loopback = parse("lo").unwrap();
        assert!(loopback.iter().all(IpAddr::is_loopback) && !loopback.is_empty(), "{loopback:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["x", "1.2.3.4/33", "1.2.3.4-1.2.3.3", "10.0.0.0/8", "::/64", "1.2.3.4/"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
