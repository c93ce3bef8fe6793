//! Text of variables that exchanges, handshakes and sessions share. Each function appends to a buffer and returns
//! whether there is a value.

use crate::base::close::CloseSide;
use proxyproto::{Addresses, Header, TlvName, write_tlv};
use reactor::PeerAddress;
use rules::variable::Variable;
use std::io::Write as _;
use std::net::IpAddr;

/// Appends a decimal number.
pub(crate) fn number(value: u64, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    true
}

/// Appends milliseconds as seconds with three decimals.
pub(crate) fn seconds(milliseconds: u64, out: &mut Vec<u8>) -> bool {
    number(milliseconds / 1000, out);
    let fraction = milliseconds % 1000;
    out.extend_from_slice(&[
        b'.',
        b'0' + (fraction / 100) as u8,
        b'0' + (fraction / 10 % 10) as u8,
        b'0' + (fraction % 10) as u8,
    ]);
    true
}

/// The same for an optional time: `-` for `None`.
pub(crate) fn time(milliseconds: Option<u64>, out: &mut Vec<u8>) -> bool {
    match milliseconds {
        Some(milliseconds) => seconds(milliseconds, out),
        None => bytes(b"-", out),
    }
}

/// The same for microseconds, with the same three digits.
pub(crate) fn seconds_of_us(microseconds: u64, out: &mut Vec<u8>) -> bool {
    seconds(microseconds / 1000, out)
}

/// The same for an optional time in microseconds.
pub(crate) fn time_of_us(microseconds: Option<u64>, out: &mut Vec<u8>) -> bool {
    time(microseconds.map(|microseconds| microseconds / 1000), out)
}

pub(crate) fn bytes(value: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value);
    true
}

pub(crate) fn optional(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    value.is_some_and(|value| bytes(value, out))
}

pub(crate) fn remote_addr(client: &PeerAddress, out: &mut Vec<u8>) -> bool {
    match client {
        PeerAddress::Ip(address) => write_ip(address.ip(), out),
        PeerAddress::Unix(_) => bytes(b"unix:", out),
    }
}

/// `$binary_remote_addr`
pub(crate) fn write_binary_ip(client: &PeerAddress, out: &mut Vec<u8>) -> bool {
    match client {
        PeerAddress::Ip(address) => match address.ip() {
            IpAddr::V4(ip) => bytes(&ip.octets(), out),
            IpAddr::V6(ip) => bytes(&ip.octets(), out),
        },
        PeerAddress::Unix(_) => bytes(b"unix:", out),
    }
}

/// As in nginx, an unknown port is empty.
pub(crate) fn remote_port(client: &PeerAddress, out: &mut Vec<u8>) -> bool {
    match client {
        PeerAddress::Ip(address) if address.port() > 0 => number(u64::from(address.port()), out),
        PeerAddress::Ip(_) | PeerAddress::Unix(_) => true,
    }
}

pub(crate) fn write_ip(ip: IpAddr, out: &mut Vec<u8>) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, rest @ ..] = ip.octets();
            number(u64::from(first), out);
            for octet in rest {
                out.push(b'.');
                number(u64::from(octet), out);
            }
            true
        }
        // Writing to a vector cannot fail.
        IpAddr::V6(ip) => write!(out, "{ip}").is_ok(),
    }
}

/// `$close_side`
pub(crate) fn close_side(side: CloseSide) -> &'static [u8] {
    match side {
        CloseSide::Client => b"client",
        CloseSide::Gateway => b"gateway",
        CloseSide::Upstream => b"upstream",
    }
}

/// `$proxy_protocol_…`
pub(crate) fn proxy_protocol(header: &Header, variable: &Variable, out: &mut Vec<u8>) -> bool {
    if let Variable::ProxyProtocolTlv(name) = variable {
        return TlvName::parse(name).is_some_and(|name| write_tlv(&header.tlvs, name, out));
    }
    let Some(Addresses { source, destination }) = header.addresses else { return false };
    // Writing to a vector cannot fail.
    match variable {
        Variable::ProxyProtocolAddr => write!(out, "{}", source.ip()).is_ok(),
        Variable::ProxyProtocolPort => write!(out, "{}", source.port()).is_ok(),
        Variable::ProxyProtocolServerAddr => write!(out, "{}", destination.ip()).is_ok(),
        Variable::ProxyProtocolServerPort => write!(out, "{}", destination.port()).is_ok(),
        _ => false,
    }
}
