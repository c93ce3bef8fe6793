//! Version 2: a binary header.

use crate::{Addresses, HEADER_BYTES_MAX, Header, HeaderError, Parse, SIGNATURE_V2, begins_with};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Signature, version and command, family and transport, length of the rest.
const FIXED_BYTES: usize = 16;
/// LOCAL: the proxy connects for itself, for example for a health check.
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
/// Family and transport of the address families that carry TCP.
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

pub(crate) fn parse(bytes: &[u8]) -> Result<Parse, HeaderError> {
    if !begins_with(bytes, SIGNATURE_V2) {
        return Err(HeaderError::NotAHeader);
    }
    let &[version_command, family, high, low] = match bytes.get(SIGNATURE_V2.len()..FIXED_BYTES) {
        Some(fixed) => fixed.first_chunk().ok_or(HeaderError::TooShort)?,
        None => return Ok(Parse::Partial),
    };
    let (version, command) = (version_command >> 4, version_command & 0xf);
    if version != 2 {
        return Err(HeaderError::UnknownVersion(version));
    }
    if !matches!(command, LOCAL | PROXY) {
        return Err(HeaderError::UnknownCommand(command));
    }
    let len = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(rest) = bytes.get(FIXED_BYTES..len) else { return Ok(Parse::Partial) };
    let header = match (command, family) {
        (PROXY, TCP_V4) => with_addresses(ipv4(rest))?,
        (PROXY, TCP_V6) => with_addresses(ipv6(rest))?,
        // As in nginx, addresses of another protocol than TCP are ignored.
        _ => Header::default(),
    };
    Ok(Parse::Complete { len, header })
}

fn with_addresses(read: Option<(Addresses, &[u8])>) -> Result<Header, HeaderError> {
    let (addresses, tlvs) = read.ok_or(HeaderError::TooShort)?;
    Ok(Header { addresses: Some(addresses), tlvs: tlvs.into() })
}

fn ipv4(rest: &[u8]) -> Option<(Addresses, &[u8])> {
    let (source, rest) = rest.split_first_chunk::<4>()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let (ports, rest) = ports(rest)?;
    let address = |octets: [u8; 4], port| SocketAddr::new(Ipv4Addr::from(octets).into(), port);
    Some((Addresses { source: address(*source, ports[0]), destination: address(*destination, ports[1]) }, rest))
}

fn ipv6(rest: &[u8]) -> Option<(Addresses, &[u8])> {
    let (source, rest) = rest.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let (ports, rest) = ports(rest)?;
    let address = |octets: [u8; 16], port| SocketAddr::new(Ipv6Addr::from(octets).into(), port);
    Some((Addresses { source: address(*source, ports[0]), destination: address(*destination, ports[1]) }, rest))
}

fn ports(rest: &[u8]) -> Option<([u16; 2], &[u8])> {
    let (source, rest) = rest.split_first_chunk::<2>()?;
    let (destination, rest) = rest.split_first_chunk::<2>()?;
    Some(([u16::from_be_bytes(*source), u16::from_be_bytes(*destination)], rest))
}
