//! The Host field, or the authority of an absolute-form target: is it well formed, and which name does it carry. Stricter
//! than nginx where RFC 9110 section 7.2 and RFC 3986 section 3.2 are: userinfo, path characters and bad ports are refused
//! (catalogue R20 to R22). Called by the gateway once for each exchange, before `server_name`.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// A valid host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host<'a> {
    /// Lower-case name or address without port and without a trailing dot; an IPv6 address keeps its brackets. This is
    /// nginx's `$host`. Borrowed unless a letter had to be lowered.
    pub name: Cow<'a, [u8]>,
    /// The port, if one was written.
    pub port: Option<u16>,
}

/// Why a host was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostError {
    /// Nothing before the port.
    Empty,
    /// A byte that no host may hold, or two dots in a row.
    Name,
    /// Brackets around something that is no IPv6 address.
    Address,
    /// Not digits, or above 65535.
    Port,
}

impl HostError {
    /// What to log behind `client sent invalid host header`.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Empty => "the host is empty",
            Self::Name => "the host name has a character that is not allowed",
            Self::Address => "the brackets hold no IPv6 address",
            Self::Port => "the port is not a number up to 65535",
        }
    }
}

/// Checks and splits `raw`.
pub fn parse_host(raw: &[u8]) -> Result<Host<'_>, HostError> {
    let (name, rest) = if raw.first() == Some(&b'[') {
        let close = memchr::memchr(b']', raw).ok_or(HostError::Address)?;
        let inner = std::str::from_utf8(&raw[1..close]).map_err(|_| HostError::Address)?;
        inner.parse::<Ipv6Addr>().map_err(|_| HostError::Address)?;
        raw.split_at(close + 1)
    } else {
        let end = memchr::memchr(b':', raw).unwrap_or(raw.len());
        let (name, rest) = raw.split_at(end);
        (check_name(name)?, rest)
    };
    let port = match rest.split_first() {
        None => None,
        Some((b':', digits)) => parse_port(digits)?,
        Some(_) => return Err(HostError::Address),
    };
    let name = if name.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    Ok(Host { name, port })
}

/// The bytes of RFC 3986 `unreserved` and `sub-delims` without the dot.
const NAME_BYTES: [bool; 256] = {
    let mut allowed = [false; 256];
    let others = b"-_~!$&'()*+,;=";
    let mut byte = 0;
    while byte < 256 {
        allowed[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        allowed[others[at] as usize] = true;
        at += 1;
    }
    allowed
};

/// RFC 3986 `reg-name`, not empty, without two dots in a row; returned without one trailing dot.
fn check_name(name: &[u8]) -> Result<&[u8], HostError> {
    for (at, &byte) in name.iter().enumerate() {
        if NAME_BYTES[usize::from(byte)] {
            continue;
        }
        let allowed = match byte {
            b'.' => name.get(at + 1) != Some(&b'.'),
            b'%' => name.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)),
            _ => false,
        };
        if !allowed {
            return Err(HostError::Name);
        }
    }
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() { Err(HostError::Empty) } else { Ok(name) }
}

/// Digits up to 65535. RFC 3986 allows the empty port of `example.com:`, which counts as no port.
fn parse_port(digits: &[u8]) -> Result<Option<u16>, HostError> {
    if digits.is_empty() {
        return Ok(None);
    }
    let mut port = 0_u16;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return Err(HostError::Port);
        }
        port =
            port.checked_mul(10).and_then(|port| port.checked_add(u16::from(digit - b'0'))).ok_or(HostError::Port)?;
    }
    Ok(Some(port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name_and_port(raw: &str) -> (String, Option<u16>) {
        let host = parse_host(raw.as_bytes()).unwrap();
        (String::from_utf8(host.name.into_owned()).unwrap(), host.port)
    }

    #[test]
    fn port_and_trailing_dot_are_stripped_and_letters_lowered() {
        assert_eq!(name_and_port("Example.COM:8080"), ("example.com".into(), Some(8080)));
        assert_eq!(name_and_port("example.com.:80"), ("example.com".into(), Some(80)));
        assert_eq!(name_and_port("example.com:"), ("example.com".into(), None));
        assert_eq!(name_and_port("a_b.c"), ("a_b.c".into(), None));
        assert!(matches!(parse_host(b"example.com").unwrap().name, Cow::Borrowed(_)));
    }

    #[test]
    fn an_ipv6_address_keeps_its_brackets() {
        assert_eq!(name_and_port("[::1]"), ("[::1]".into(), None));
        assert_eq!(name_and_port("[2001:DB8::1]:443"), ("[2001:db8::1]".into(), Some(443)));
        assert_eq!(name_and_port("[::ffff:10.0.0.1]"), ("[::ffff:10.0.0.1]".into(), None));
    }

    #[test]
    fn malformed_hosts_are_refused() {
        for (raw, why) in [
            ("", HostError::Empty),
            (":80", HostError::Empty),
            (".", HostError::Empty),
            ("user@example.com", HostError::Name),
            ("user:secret@example.com", HostError::Port),
            ("example.com/path", HostError::Name),
            ("example.com?x", HostError::Name),
            ("example.com#x", HostError::Name),
            ("exa mple.com", HostError::Name),
            ("a\\b", HostError::Name),
            ("a..b", HostError::Name),
            ("a%zz", HostError::Name),
            ("a\u{e9}", HostError::Name),
            ("a\0b", HostError::Name),
            ("example.com:http", HostError::Port),
            ("example.com:80:80", HostError::Port),
            ("example.com:-1", HostError::Port),
            ("example.com:65536", HostError::Port),
            ("[::1", HostError::Address),
            ("[::1]x", HostError::Address),
            ("[::1%25eth0]", HostError::Address),
            ("[]", HostError::Address),
            ("::1", HostError::Empty),
        ] {
            assert_eq!(parse_host(raw.as_bytes()), Err(why), "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_and_a_valid_name_is_stable(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(host) = parse_host(&raw) {
                let again = parse_host(&host.name).unwrap();
                // One trailing dot is stripped; two in a row were refused, so a second pass changes nothing.
                prop_assert_eq!(&again.name, &host.name);
                prop_assert!(!host.name.iter().any(u8::is_ascii_uppercase));
            }
        }
    }
}
