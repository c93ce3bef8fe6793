//! Whose request it is where proxies stand before us: the address that the last trusted one of them names in
//! `X-Forwarded-For`, by nginx's rules. Called for `geo` with `proxy`.

use conf::value::Cidr;
use std::net::{IpAddr, SocketAddr};

/// Addresses of one request's fields that are looked at. More proxies than this in a row are no chain but a trick, and
/// each costs a comparison with all trusted networks.
const HOPS_MAX: usize = 64;

/// The client behind trusted proxies. `peer` is who has connected, `fields` are the values of `X-Forwarded-For` in their
/// order. Without `recursive` only the last address counts; with it, trusted addresses are skipped from the end on, and the
/// first that is not trusted is the client.
pub fn forwarded_address(peer: IpAddr, fields: &[&[u8]], trusted: &[Cidr], recursive: bool) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer;
    for field in fields.iter().rev() {
        let hops = field.rsplit(|byte| matches!(byte, b',' | b' ')).filter(|hop| !hop.is_empty());
        for hop in hops.take(HOPS_MAX) {
            if !is_trusted(client) {
                return client;
            }
            let Some(address) = parse_hop(hop) else { return client };
            client = address;
            if !recursive {
                return client;
            }
        }
    }
    client
}

/// An address with or without a port.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, fields: &[&str], recursive: bool) -> String {
        let trusted = ["10.0.0.0/8", "::1"].map(|network| Cidr::parse(network.as_bytes()).unwrap().0);
        let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
        forwarded_address(peer.parse().unwrap(), &fields, &trusted, recursive).to_string()
    }

    #[test]
    fn the_last_address_counts_if_its_sender_is_trusted() {
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 2.2.2.2"], false), "2.2.2.2");
        assert_eq!(client("9.9.9.9", &["1.1.1.1"], false), "9.9.9.9");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "2.2.2.2"], false), "2.2.2.2");
        assert_eq!(client("10.0.0.1", &[], false), "10.0.0.1");
        assert_eq!(client("::1", &["[2001:db8::1]:443 , "], false), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, nonsense"], false), "10.0.0.1");
    }

    #[test]
    fn recursively_the_first_that_is_not_trusted_counts() {
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 2.2.2.2, 10.0.0.9"], true), "2.2.2.2");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 10.0.0.8", "10.0.0.9"], true), "1.1.1.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.7,10.0.0.8"], true), "10.0.0.7");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, nonsense, 10.0.0.9"], true), "10.0.0.9");
    }
}
