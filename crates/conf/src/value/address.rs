//! Addresses: `127.0.0.1:80`, `[::1]:80`, `example.com`, `unix:/run/x.sock`, and what `listen` takes. Nothing is
//! resolved here: a name stays a name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::size::number;

/// Longest path that fits a Unix socket address on Linux (`sun_path` is 108 bytes with its NUL).
const UNIX_PATH_MAX: usize = 107;

/// The host of a listener or a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An address as a number.
    Ip(IpAddr),
    /// A name that is not resolved yet; in lower case.
    Name(String),
    /// The path of a Unix socket.
    Unix(String),
}

/// A host with a port. The port of a Unix socket is 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The host.
    pub host: Host,
    /// The port, in host byte order; the caller's default if none was written.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V4(ip)) => write!(out, "{ip}:{}", self.port),
            Host::Ip(IpAddr::V6(ip)) => write!(out, "[{ip}]:{}", self.port),
            Host::Name(name) => write!(out, "{name}:{}", self.port),
            Host::Unix(path) => write!(out, "unix:{path}"),
        }
    }
}

/// An address as written, with an optional port and what follows the host (a URI).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url<'a> {
    /// The host.
    pub host: Host,
    /// The port, where one was written.
    pub port: Option<u16>,
    /// The text after host and port: empty, or begins with `/` or `?`.
    pub uri: &'a [u8],
}

/// The argument of `listen`: an address, or several through a range of ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListenAddress {
    /// The host; `*` and a lone port are 0.0.0.0.
    pub host: Host,
    /// First port.
    pub first_port: u16,
    /// Last port, equal to the first without a range.
    pub last_port: u16,
}

impl ListenAddress {
    /// Every address of the range.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        (self.first_port..=self.last_port).map(|port| Address { host: self.host.clone(), port })
    }
}

/// Why a text is not an address, in nginx's words.
pub type Reason = &'static str;

/// Reads `host[:port][uri]`, `[v6][:port][uri]` or `unix:path[:uri]`.
pub fn parse_url(text: &[u8]) -> Result<Url<'_>, Reason> {
    if text.len() >= 5 && text[..5].eq_ignore_ascii_case(b"unix:") {
        return parse_unix(&text[5..]);
    }
    if let Some(inner) = text.strip_prefix(b"[") {
        let close = inner.iter().position(|&byte| byte == b']').ok_or("invalid host")?;
        let ip: Ipv6Addr = std::str::from_utf8(&inner[..close])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or("invalid IPv6 address")?;
        let rest = &inner[close + 1..];
        let (port, uri) = parse_port(rest, "invalid host")?;
        return Ok(Url { host: Host::Ip(ip.into()), port, uri });
    }
    let end = text.iter().position(|byte| matches!(byte, b':' | b'/' | b'?')).unwrap_or(text.len());
    let (host, rest) = text.split_at(end);
    let (port, uri) = parse_port(rest, "invalid port")?;
    Ok(Url { host: parse_host(host)?, port, uri })
}

fn parse_unix(rest: &[u8]) -> Result<Url<'_>, Reason> {
    // A URI may follow the path behind a colon: `unix:/run/x.sock:/uri`.
    let end = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
    let (path, behind) = rest.split_at(end);
    if path.is_empty() {
        return Err("no path in the unix domain socket");
    }
    if path.len() > UNIX_PATH_MAX {
        return Err("too long path in the unix domain socket");
    }
    let path = std::str::from_utf8(path).map_err(|_| "invalid host")?;
    Ok(Url { host: Host::Unix(path.to_owned()), port: None, uri: behind.strip_prefix(b":").unwrap_or_default() })
}

fn parse_port(rest: &[u8], otherwise: Reason) -> Result<(Option<u16>, &[u8]), Reason> {
    let Some(rest) = rest.strip_prefix(b":") else {
        return match rest.first() {
            None | Some(b'/' | b'?') => Ok((None, rest)),
            Some(_) => Err(otherwise),
        };
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (digits, uri) = rest.split_at(end);
    Ok((Some(port_number(digits)?), uri))
}

fn port_number(digits: &[u8]) -> Result<u16, Reason> {
    number(digits).and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0).ok_or("invalid port")
}

fn parse_host(host: &[u8]) -> Result<Host, Reason> {
    if host.is_empty() {
        return Err("no host");
    }
    let text = std::str::from_utf8(host).map_err(|_| "invalid host")?;
    if text.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
        return Err("invalid host");
    }
    Ok(match text.parse::<Ipv4Addr>() {
        Ok(ip) => Host::Ip(ip.into()),
        Err(_) => Host::Name(text.to_ascii_lowercase()),
    })
}

/// Reads the argument of `listen`: `8080`, `*:80`, `8000-8010`, or an address with a port. The port is optional if
/// there is a default.
pub(crate) fn parse_listen(text: &[u8], default_port: Option<u16>) -> Result<ListenAddress, Reason> {
    const ANY: Host = Host::Ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if text.len() >= 5 && text[..5].eq_ignore_ascii_case(b"unix:") {
        let url = parse_unix(&text[5..])?;
        if !url.uri.is_empty() {
            return Err("invalid host");
        }
        return Ok(ListenAddress { host: url.host, first_port: 0, last_port: 0 });
    }
    if text.first().is_some_and(u8::is_ascii_digit) && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') {
        let (first_port, last_port) = parse_ports(text)?;
        return Ok(ListenAddress { host: ANY, first_port, last_port });
    }
    let (host, ports) = if let Some(inner) = text.strip_prefix(b"[") {
        let close = inner.iter().position(|&byte| byte == b']').ok_or("invalid host")?;
        (parse_url(&text[..close + 2])?.host, &inner[close + 1..])
    } else {
        let end = text.iter().position(|&byte| byte == b':').unwrap_or(text.len());
        let host = if &text[..end] == b"*" { ANY } else { parse_host(&text[..end])? };
        (host, &text[end..])
    };
    if matches!(&host, Host::Name(name) if name.contains(['/', '?'])) {
        return Err("invalid host");
    }
    let (first_port, last_port) = match ports.strip_prefix(b":") {
        Some(ports) => parse_ports(ports)?,
        None if ports.is_empty() => default_port.map(|port| (port, port)).ok_or("no port")?,
        None => return Err("invalid host"),
    };
    Ok(ListenAddress { host, first_port, last_port })
}

fn parse_ports(text: &[u8]) -> Result<(u16, u16), Reason> {
    let Some(dash) = text.iter().position(|&byte| byte == b'-') else {
        let port = port_number(text)?;
        return Ok((port, port));
    };
    let (first, last) = (port_number(&text[..dash])?, port_number(&text[dash + 1..])?);
    if first > last { Err("invalid port range") } else { Ok((first, last)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Host, parse_listen, parse_url};

    fn listen(text: &str) -> String {
        parse_listen(text.as_bytes(), Some(80)).map_or_else(str::to_owned, |listen| {
            let addresses: Vec<_> = listen.addresses().map(|address| address.to_string()).collect();
            addresses.join(" ")
        })
    }

    #[test]
    fn listen_takes_ports_addresses_and_ranges() {
        assert_eq!(listen("8080"), "0.0.0.0:8080");
        assert_eq!(listen("*:81"), "0.0.0.0:81");
        assert_eq!(listen("127.0.0.1"), "127.0.0.1:80");
        assert_eq!(listen("[::1]:82"), "[::1]:82");
        assert_eq!(listen("[::]"), "[::]:80");
        assert_eq!(listen("LocalHost"), "localhost:80");
        assert_eq!(listen("unix:/run/x.sock"), "unix:/run/x.sock");
        assert_eq!(listen("127.0.0.1:8000-8002"), "127.0.0.1:8000 127.0.0.1:8001 127.0.0.1:8002");
        assert_eq!(listen("8000-8001"), "0.0.0.0:8000 0.0.0.0:8001");
    }

    #[test]
    fn listen_errors_name_the_fault() {
        assert_eq!(listen("99999"), "invalid port");
        assert_eq!(listen("0"), "invalid port");
        assert_eq!(listen("1.2.3.4:x"), "invalid port");
        assert_eq!(listen(":80"), "no host");
        assert_eq!(listen("[::zz]:80"), "invalid IPv6 address");
        assert_eq!(listen("[::1"), "invalid host");
        assert_eq!(listen("9-8"), "invalid port range");
        assert_eq!(listen("unix:"), "no path in the unix domain socket");
    }

    #[test]
    fn url_keeps_its_uri_and_explicit_port() {
        let url = parse_url(b"backend/x?y").unwrap();
        assert_eq!((url.host, url.port, url.uri), (Host::Name("backend".into()), None, &b"/x?y"[..]));
        let url = parse_url(b"[::1]:81/").unwrap();
        assert_eq!((url.port, url.uri), (Some(81), &b"/"[..]));
        let url = parse_url(b"unix:/run/a.sock:/b").unwrap();
        assert_eq!((url.host, url.uri), (Host::Unix("/run/a.sock".into()), &b"/b"[..]));
        assert_eq!(parse_url(b"127.0.0.1:65536"), Err("invalid port"));
        assert_eq!(parse_url(b":80"), Err("no host"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = (parse_url(&bytes), parse_listen(&bytes, Some(80)));
        }

        #[test]
        fn any_ip_and_port_comes_back(ip: std::net::IpAddr, port in 1_u16..) {
            let text = std::net::SocketAddr::new(ip, port).to_string();
            let url = parse_url(text.as_bytes()).unwrap();
            prop_assert_eq!((url.host, url.port), (Host::Ip(ip), Some(port)));
        }
    }
}
