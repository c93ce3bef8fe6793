//! Version 1: one line of text.

use crate::{Addresses, Header, HeaderError, Parse, SIGNATURE_V1, begins_with};
use std::net::{IpAddr, SocketAddr};

/// The longest line with its end, as the specification counts it.
const LINE_BYTES_MAX: usize = 107;

pub(crate) fn parse(bytes: &[u8]) -> Result<Parse, HeaderError> {
    if !begins_with(bytes, SIGNATURE_V1) {
        return Err(HeaderError::NotAHeader);
    }
    let seen = bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes);
    // The first control byte ends the line, or is what breaks it.
    let end = match seen.iter().position(|&byte| byte < b' ') {
        None if seen.len() == LINE_BYTES_MAX => return Err(HeaderError::TooLong),
        None => return Ok(Parse::Partial),
        Some(end) => end,
    };
    match seen.get(end..) {
        Some([b'\r', b'\n', ..]) => {}
        Some([b'\r']) if seen.len() == LINE_BYTES_MAX => return Err(HeaderError::TooLong),
        Some([b'\r']) => return Ok(Parse::Partial),
        _ => return Err(HeaderError::BrokenLine),
    }
    let rest = seen.get(SIGNATURE_V1.len()..end).ok_or(HeaderError::BrokenLine)?;
    let addresses = if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        None
    } else {
        Some(parse_addresses(rest).ok_or(HeaderError::BrokenLine)?)
    };
    Ok(Parse::Complete { len: end + 2, header: Header { addresses, tlvs: Box::default() } })
}

/// `TCP4 source destination port port`
fn parse_addresses(words: &[u8]) -> Option<Addresses> {
    let mut words = std::str::from_utf8(words).ok()?.split(' ');
    let family = words.next()?;
    let source = words.next()?;
    let source = match family {
        "TCP4" => IpAddr::V4(source.parse().ok()?),
        "TCP6" => IpAddr::V6(source.parse().ok()?),
        _ => return None,
    };
    // nginx writes the family of the client, and its own address as it is: a client that an earlier proxy named may have
    // another family than the connection.
    let destination = words.next()?.parse().ok()?;
    let (source_port, destination_port) = (parse_port(words.next()?)?, parse_port(words.next()?)?);
    words.next().is_none().then_some(Addresses {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

/// Digits and nothing else: `u16` would take a sign.
fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
