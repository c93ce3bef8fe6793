//! The header as this proxy writes it, for the peers behind it.

use crate::{Addresses, SIGNATURE_V2};
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr};

/// Version 2, command PROXY.
const VERSION_AND_COMMAND: u8 = 0x21;
/// The family, the protocol; unknown.
const OVER_IPV4: u8 = 0x10;
const OVER_IPV6: u8 = 0x20;
const TCP: u8 = 1;
const UDP: u8 = 2;
const UNKNOWN: u8 = 0;

/// Appends a header of version 1. Without addresses it says that it does not know. A header has one family: if the addresses
/// differ, the IPv4 one is written as IPv6 (`::ffff:192.0.2.1`), because the client's address must not be lost.
pub fn encode_v1(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let Some(Addresses { source, destination }) = addresses else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let (from_port, to_port) = (source.port(), destination.port());
    // Writing to a vector cannot fail.
    let _ = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => write!(out, "PROXY TCP4 {from} {to} {from_port} {to_port}\r\n"),
        (from, to) => write!(out, "PROXY TCP6 {} {} {from_port} {to_port}\r\n", as_ipv6(from), as_ipv6(to)),
    };
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The same of version 2.
pub fn encode_v2(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    encode(addresses, TCP, out);
}

/// The same of version 2 for a client that sends datagrams.
pub fn encode_v2_datagrams(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    encode(addresses, UDP, out);
}

fn encode(addresses: Option<Addresses>, protocol: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE_V2);
    out.push(VERSION_AND_COMMAND);
    let mut block = Vec::new();
    let family = match addresses.map(|addresses| (addresses, addresses.source.ip(), addresses.destination.ip())) {
        Some((_, IpAddr::V4(from), IpAddr::V4(to))) => {
            block.extend_from_slice(&from.octets());
            block.extend_from_slice(&to.octets());
            OVER_IPV4 | protocol
        }
        Some((_, from, to)) => {
            block.extend_from_slice(&as_ipv6(from).octets());
            block.extend_from_slice(&as_ipv6(to).octets());
            OVER_IPV6 | protocol
        }
        None => UNKNOWN,
    };
    if let (Some(addresses), false) = (addresses, block.is_empty()) {
        block.extend_from_slice(&addresses.source.port().to_be_bytes());
        block.extend_from_slice(&addresses.destination.port().to_be_bytes());
    }
    out.push(family);
    // 36 bytes at most.
    out.extend_from_slice(&(block.len() as u16).to_be_bytes());
    out.extend_from_slice(&block);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, parse};
    use std::net::SocketAddr;

    fn addresses(source: &str, destination: &str) -> Addresses {
        Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn header_survives_a_round_trip() {
        for both in [
            addresses("192.0.2.1:50000", "198.51.100.7:443"),
            addresses("[2001:db8::1]:1", "[2001:db8::2]:65535"),
            addresses("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[::]:0"),
        ] {
            for encode in [encode_v1, encode_v2] {
                let mut header = Vec::new();
                encode(Some(both), &mut header);
                let Ok(Parse::Complete { len, header: read }) = parse(&header) else { panic!("{header:?}") };
                assert_eq!((len, read.addresses), (header.len(), Some(both)));
            }
        }
    }

    #[test]
    fn a_header_for_datagrams_differs_in_its_protocol_only() {
        for (both, family) in [(addresses("192.0.2.1:1", "192.0.2.2:2"), 0x12), (addresses("[::1]:1", "[::2]:2"), 0x22)]
        {
            let (mut stream, mut datagrams) = (Vec::new(), Vec::new());
            encode_v2(Some(both), &mut stream);
            encode_v2_datagrams(Some(both), &mut datagrams);
            assert_eq!(datagrams[13], family);
            stream[13] = family;
            assert_eq!(stream, datagrams);
        }
    }

    #[test]
    fn unknown_addresses_are_written_as_unknown() {
        let mut header = Vec::new();
        encode_v1(None, &mut header);
        assert_eq!(header, b"PROXY UNKNOWN\r\n");
        header.clear();
        encode_v2(None, &mut header);
        assert_eq!(&header[12..], [0x21, 0, 0, 0]);
        assert!(matches!(parse(&header), Ok(Parse::Complete { len: 16, .. })));
    }

    /// The client comes over IPv6, the last proxy over IPv4; or the other way round.
    #[test]
    fn addresses_of_two_families_are_both_written_as_ipv6() {
        for (both, line) in [
            (addresses("[2001:db8::1]:1", "192.0.2.1:2"), "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 1 2\r\n"),
            (addresses("192.0.2.1:1", "[::1]:2"), "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"),
        ] {
            let mut header = Vec::new();
            encode_v1(Some(both), &mut header);
            assert_eq!(String::from_utf8_lossy(&header), line);
            for encode in [encode_v1, encode_v2] {
                let mut header = Vec::new();
                encode(Some(both), &mut header);
                let Ok(Parse::Complete { header: read, .. }) = parse(&header) else { panic!("{header:?}") };
                let read = read.addresses.unwrap();
                let is_same = |one: SocketAddr, other: SocketAddr| {
                    one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port()
                };
                assert!(is_same(read.source, both.source) && is_same(read.destination, both.destination), "{read:?}");
            }
        }
    }
}
