//! The request to explain, and the listener that it would reach.

use crate::downstream::client::{ClientScheme, SupposedClient};
use crate::plan::listener::Serves;
use crate::registry::generation::{BoundListener, Generation, ListenerId};
use reactor::PeerAddress;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of a client that names none: the first of the range for them (RFC 6335).
const CLIENT_PORT: u16 = 49152;

/// The listener that a request reaches.
pub(super) struct ListenerReached {
    pub(super) listener: ListenerId,
    pub(super) client: SupposedClient,
    /// Listeners that it would reach if its host had another address.
    pub(super) others: Vec<String>,
}

/// A request to explain.
#[derive(Debug, Clone)]
pub struct ExplainedRequest {
    /// The method.
    pub method: String,
    /// Whether the URL begins with `https://`.
    pub https: bool,
    /// Host and port of the URL, as written.
    pub authority: String,
    /// The Host field; the same unless it is changed.
    pub host: String,
    /// Path and arguments of the URL.
    pub target: String,
    /// Further fields of the request.
    pub fields: Vec<(String, String)>,
    /// The client's address.
    pub from: IpAddr,
    /// The listening address, as written; `None`: the one that the URL leads to.
    pub listener: Option<String>,
    /// Length of the request's body.
    pub body_bytes: Option<u64>,
}

impl ExplainedRequest {
    /// A GET request without a body from 127.0.0.1. The error says what is wrong with the URL.
    pub fn new(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let https = match &*scheme.to_ascii_lowercase() {
            "http" => false,
            "https" => true,
            _ => return Err(format!("the URL \"{url}\" begins with neither http:// nor https://")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.is_empty() {
            return Err(format!("the URL \"{url}\" names no host; write http://HOST/PATH"));
        }
        // A client keeps the fragment to itself.
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Self {
            method: "GET".to_owned(),
            https,
            authority: authority.to_owned(),
            host: authority.to_owned(),
            target,
            fields: Vec::new(),
            from: Ipv4Addr::LOCALHOST.into(),
            listener: None,
            body_bytes: None,
        })
    }

    /// The head of the request, as a client sends it.
    pub(super) fn head(&self) -> Vec<u8> {
        let has = |name: &str| self.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host);
        // Writing to a string cannot fail.
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(length) = self.body_bytes.filter(|_| !has("content-length") && !has("transfer-encoding")) {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Host and port of the URL; the port is the scheme's own if none is written.
    fn host_and_port(&self) -> Result<(&str, u16), String> {
        let default = if self.https { 443 } else { 80 };
        let after_bracket = self.authority.rfind(']').map_or(0, |bracket| bracket + 1);
        match self.authority[after_bracket..].rfind(':') {
            Some(colon) => {
                let (host, port) = self.authority.split_at(after_bracket + colon);
                let port = port[1..].parse().map_err(|_| format!("\"{}\" has no valid port", self.authority))?;
                Ok((host, port))
            }
            None => Ok((&self.authority, default)),
        }
    }

    /// The listener that the request reaches, and the client there.
    pub(super) fn find_listener(&self, generation: &Generation) -> Result<ListenerReached, String> {
        let all = || {
            generation.listeners.iter().enumerate().filter_map(|(id, listener)| {
                let listener = listener.as_ref().filter(|listener| listener.serves == Serves::Http)?;
                Some((ListenerId(id as u32), listener))
            })
        };
        let known = || all().map(|(_, listener)| listener.address.to_string()).collect::<Vec<_>>().join(", ");
        let (host, port) = self.host_and_port()?;
        let host_ip = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let (id, listener) = match &self.listener {
            Some(wanted) => all()
                .find(|(_, listener)| listener.address.to_string() == *wanted)
                .ok_or_else(|| format!("nothing listens on {wanted}; the listeners are {}", known()))?,
            None => all()
                .filter(|(_, listener)| port_of(listener) == Some(port))
                .min_by_key(|(_, listener)| distance(listener, host_ip))
                .ok_or_else(|| {
                    format!("nothing listens on port {port}; the listeners are {} (--listen names one)", known())
                })?,
        };
        if self.https && !listener.plan.tls {
            return Err(format!("{} has no \"ssl\": a TLS handshake fails there", listener.address));
        }
        let (local_address, local_path) = match &listener.address {
            PeerAddress::Ip(address) => (Some(local(*address, host_ip)), None),
            PeerAddress::Unix(path) => (None, Some(path.clone())),
        };
        let client = SupposedClient {
            listener: id,
            peer: PeerAddress::Ip(SocketAddr::new(self.from, CLIENT_PORT)),
            scheme: if self.https { ClientScheme::Https } else { ClientScheme::Http },
            local_address,
            local_path,
            is_plain_by_mistake: listener.plan.tls && !self.https,
        };
        let has_port = |other: &BoundListener| port_of(other) == Some(port) && other.address != listener.address;
        let others = match (&self.listener, host_ip) {
            (None, None) => {
                all().filter(|(_, other)| has_port(other)).map(|(_, other)| other.address.to_string()).collect()
            }
            _ => Vec::new(),
        };
        Ok(ListenerReached { listener: id, client, others })
    }
}

fn port_of(listener: &BoundListener) -> Option<u16> {
    match &listener.address {
        PeerAddress::Ip(address) => Some(address.port()),
        PeerAddress::Unix(_) => None,
    }
}

/// How far a listener is from a host: the kernel prefers the address itself to a wildcard.
fn distance(listener: &BoundListener, host: Option<IpAddr>) -> u8 {
    let PeerAddress::Ip(address) = &listener.address else { return 3 };
    match host {
        Some(host) if address.ip() == host => 0,
        _ if address.ip() == IpAddr::from(Ipv4Addr::UNSPECIFIED) => 1,
        _ if address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) => 2,
        _ => 3,
    }
}

/// The address of our end: a wildcard takes connections to any address.
fn local(listening: SocketAddr, host: Option<IpAddr>) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let own = if listening.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(host.filter(|host| host.is_ipv4() == listening.is_ipv4()).unwrap_or(own), listening.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_host_port_and_target() {
        let of = |url: &str| {
            let question = ExplainedRequest::new(url).expect("a URL");
            let (host, port) = question.host_and_port().expect("a port");
            (question.https, host.to_owned(), port, question.target.clone())
        };
        assert_eq!(of("http://a.example"), (false, "a.example".into(), 80, "/".into()));
        assert_eq!(of("https://a.example:8443/x?y#z"), (true, "a.example".into(), 8443, "/x?y".into()));
        assert_eq!(of("HTTPS://[::1]/x"), (true, "[::1]".into(), 443, "/x".into()));
        assert_eq!(of("http://[::1]:81?y"), (false, "[::1]".into(), 81, "/?y".into()));
        assert_eq!(of("a.example/x"), (false, "a.example".into(), 80, "/x".into()));
        for url in ["ftp://a.example/", "http:///x", "/x"] {
            assert!(ExplainedRequest::new(url).is_err(), "{url}");
        }
        assert!(ExplainedRequest::new("http://a:b/").expect("a URL").host_and_port().is_err());
    }
}
