//! Finds the client's address behind trusted proxies: the address that the last trusted proxy names, by nginx's rules. It
//! takes field values and returns an address. Used for `set_real_ip_from`, and for `geo` with `proxy`.

use conf::value::Cidr;
use std::net::{IpAddr, SocketAddr};

/// Most addresses of one field that are looked at. A longer chain is an attack, because each address is compared with all
/// trusted networks.
const HOPS_MAX: usize = 64;

/// The client behind trusted proxies. `peer` is the address that connected; `fields` are the values of `X-Forwarded-For` in
/// their order. Without `recursive` only the last address counts. With it, trusted addresses are skipped from the end, and
/// the first one that is not trusted is the client.
pub fn forwarded_address(peer: IpAddr, fields: &[&[u8]], trusted: &[Cidr], recursive: bool) -> IpAddr {
    let is_trusted = |hop: Hop| hop.is_some_and(|ip| trusted.iter().any(|network| network.contains(ip)));
    let values = fields.iter().rev().copied();
    client_behind(Some(peer), values, recursive, is_trusted).map_or(peer, |client| client.ip())
}

/// One sender in the chain: an address, or `None` for the other end of a Unix socket.
pub type Hop = Option<IpAddr>;

/// The client's address, as the trusted proxies give it.
///
/// `values` are the fields that name the client, the last one first. Each is a list, and every proxy appends to its end.
/// With `recursive`, trusted addresses of the list are skipped. A port of 0 means that no port was given. `None`: no trusted
/// proxy named a client.
pub fn client_behind<'v>(
    sender: Hop,
    values: impl IntoIterator<Item = &'v [u8]>,
    recursive: bool,
    is_trusted: impl Fn(Hop) -> bool,
) -> Option<SocketAddr> {
    let mut found = None;
    let mut hop = sender;
    for value in values {
        let mut rest = value;
        for _ in 0..HOPS_MAX {
            if !is_trusted(hop) {
                return found;
            }
            let (before, last) = split_last(rest);
            let Some(address) = parse_address(last) else { return found };
            found = Some(address);
            hop = Some(address.ip());
            if !recursive {
                return found;
            }
            if before.is_empty() {
                break;
            }
            rest = before;
        }
    }
    found
}

/// The last entry of a list, and what is before it. Spaces and commas separate.
fn split_last(list: &[u8]) -> (&[u8], &[u8]) {
    let end = list.iter().rposition(|byte| !separates(byte)).map_or(0, |at| at + 1);
    let list = &list[..end];
    let start = list.iter().rposition(separates).map_or(0, |at| at + 1);
    let before = &list[..start];
    let end = before.iter().rposition(|byte| !separates(byte)).map_or(0, |at| at + 1);
    (&before[..end], &list[start..])
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape of the closures that iterators take
fn separates(byte: &u8) -> bool {
    matches!(byte, b' ' | b',')
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`; as in newer nginx brackets need no port.
fn parse_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).filter(|inner| inner.contains(':'));
    if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    // A scope is of no use on another machine.
    text.parse().ok().filter(|address: &SocketAddr| !text.contains('%') && address.port() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// Trusts 10.0.0.0/8 and Unix sockets.
    fn trusted(hop: Hop) -> bool {
        match hop {
            None => true,
            Some(IpAddr::V4(ip)) => ip.octets()[0] == 10,
            Some(IpAddr::V6(_)) => false,
        }
    }

    /// The fields as they were sent, from the first to the last.
    fn behind(sender: &str, fields: &[&str], recursive: bool) -> String {
        let values = fields.iter().rev().map(|field| field.as_bytes());
        client_behind(sender.parse().ok(), values, recursive, trusted).map_or("-".into(), |found| found.to_string())
    }

    #[test]
    fn the_last_address_counts_and_only_from_a_trusted_sender() {
        assert_eq!(behind("10.0.0.1", &["192.0.2.1"], false), "192.0.2.1:0");
        assert_eq!(behind("10.0.0.1", &["192.0.2.1, 192.0.2.2"], false), "192.0.2.2:0");
        assert_eq!(behind("10.0.0.1", &["192.0.2.1", "192.0.2.2,"], false), "192.0.2.2:0");
        assert_eq!(behind("192.0.2.9", &["192.0.2.1"], true), "-");
        assert_eq!(behind("unix", &["192.0.2.1:80"], false), "192.0.2.1:80");
        assert_eq!(behind("10.0.0.1", &[], true), "-");
    }

    #[test]
    fn trusted_addresses_are_passed_over() {
        assert_eq!(behind("10.0.0.1", &["192.0.2.1, 192.0.2.2, 10.0.0.3, 10.0.0.2"], true), "192.0.2.2:0");
        assert_eq!(behind("10.0.0.1", &["192.0.2.1", "192.0.2.2,10.9.9.9", "10.0.0.2"], true), "192.0.2.2:0");
        assert_eq!(behind("10.0.0.1", &["10.0.0.4", "10.0.0.3"], true), "10.0.0.4:0", "all of them: the first");
        assert_eq!(behind("10.0.0.1", &["unknown, 10.0.0.3"], true), "10.0.0.3:0", "what can be read");
        assert_eq!(behind("10.0.0.1", &["192.0.2.1", "junk"], true), "-");
    }

    #[test]
    fn addresses_have_many_forms() {
        for (text, expected) in [
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("[2001:db8::1]", "[2001:db8::1]:0"),
            ("2001:db8::1", "[2001:db8::1]:0"),
            ("  192.0.2.1 ,", "192.0.2.1:0"),
            ("192.0.2.1:0", "-"),
            ("192.0.2.1:65536", "-"),
            ("[192.0.2.1]", "-"),
            ("unix:/x", "-"),
            ("", "-"),
            (",", "-"),
        ] {
            assert_eq!(behind("10.0.0.1", &[text], false), expected, "{text:?}");
        }
    }

    proptest! {
        /// An address is only taken from a trusted sender: the first untrusted address is final.
        #[test]
        fn untrusted_addresses_cannot_name_a_client(
            hops in prop::collection::vec((any::<bool>(), any::<u8>()), 1..8),
            junk in prop::option::of("[ -~]{0,10}"),
        ) {
            let texts: Vec<String> = hops.iter().map(|(inside, last)| {
                if *inside { format!("10.0.0.{last}") } else { format!("192.0.2.{last}") }
            }).collect();
            let list = format!("{}, {}", junk.unwrap_or_default(), texts.join(", "));
            let found = behind("10.0.0.1", &[&list], true);
            if let Some(last_outside) = hops.iter().rposition(|(inside, _)| !inside) {
                prop_assert_eq!(found, format!("{}:0", texts[last_outside]));
            }
        }

        #[test]
        fn any_bytes_are_read(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4), recursive: bool) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let _ = client_behind(None, values, recursive, trusted);
        }
    }
}
