//! The parts of a URL that a load needs: the address to connect to, the Host value and the request target. Not a general
//! URL library: it has no relative references and normalises nothing, because the target must see the URL as typed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// An `http://` or `https://` URL, split; or `tcp://` or `tls://` with host and port alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Url {
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// Port; 80 or 443 by default.
    pub port: u16,
    /// Value of the Host field: as typed, without user information.
    pub authority: String,
    /// Path and query as typed; `/` if empty. A fragment is dropped.
    pub path: String,
    /// Whether the scheme is `https` or `tls`.
    #[serde(default)]
    pub tls: bool,
    /// Whether the scheme is `tcp` or `tls`.
    #[serde(default)]
    pub bare: bool,
}

/// Why a URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The scheme is another one or missing.
    #[error("a URL begins with http:// or https://")]
    NotHttp,
    /// The host is missing.
    #[error("a URL has a host behind http://")]
    NoHost,
    /// The scheme is neither `tcp` nor `tls`, or something other than a host and a port follows.
    #[error("write tcp://HOST:PORT, or tls://HOST:PORT for TLS")]
    NotTcp,
    /// The port is not a number from 1 to 65535.
    #[error("`{0}` is no port from 1 to 65535")]
    Port(String),
    /// The URL contains a space or control character.
    #[error("a URL has no spaces or control characters; write them as %20 and so on")]
    Space,
    /// The URL contains user information, which the load would not send.
    #[error("user and password in a URL are not sent; use the header Authorization")]
    UserInformation,
}

impl Url {
    /// Host, port, and whether it is TLS: requests with the same place can share connections.
    pub(crate) fn place(&self) -> (&str, u16, bool) {
        (&self.host, self.port, self.tls)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let tls = lower.starts_with("https://");
        let scheme = if tls { "https://" } else { "http://" };
        let rest = text.get(scheme.len()..).filter(|_| lower.starts_with(scheme)).ok_or(UrlError::NotHttp)?;
        if rest.bytes().any(|byte| byte <= b' ' || byte == 0x7F) {
            return Err(UrlError::Space);
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::UserInformation);
        }
        let (host, port) = split_port(authority, if tls { 443 } else { 80 })?;
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, authority: authority.to_owned(), path, tls, bare: false })
    }
}

impl Url {
    /// Whether the text begins as a URL of TCP: with `tcp://` or `tls://`.
    pub fn is_tcp(text: &str) -> bool {
        let scheme = text.get(..6).unwrap_or_default();
        scheme.eq_ignore_ascii_case("tcp://") || scheme.eq_ignore_ascii_case("tls://")
    }

    /// Parses `tcp://HOST:PORT` or `tls://HOST:PORT`. A port has no default here.
    pub fn parse_tcp(text: &str) -> Result<Self, UrlError> {
        let authority = text.get(6..).filter(|_| Self::is_tcp(text)).ok_or(UrlError::NotTcp)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.bytes().any(|byte| byte <= b' ' || byte == 0x7F || b"/?#@".contains(&byte)) {
            return Err(UrlError::NotTcp);
        }
        let (host, port) = split_port(authority, 0).map_err(|error| match error {
            UrlError::NoHost => UrlError::NotTcp,
            other => other,
        })?;
        if host.is_empty() || port == 0 {
            return Err(UrlError::NotTcp);
        }
        let tls = text.get(..3).is_some_and(|scheme| scheme.eq_ignore_ascii_case("tls"));
        Ok(Self { host: host.to_owned(), port, authority: authority.to_owned(), path: String::new(), tls, bare: true })
    }
}

fn split_port(authority: &str, default: u16) -> Result<(&str, u16), UrlError> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or(UrlError::NoHost)?;
        match behind.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if behind.is_empty() => (host, None),
            None => return Err(UrlError::NoHost),
        }
    } else {
        authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
    };
    match port {
        None | Some("") => Ok((host, default)),
        Some(port) => {
            let number = port.parse().ok().filter(|&number| number != 0);
            Ok((host, number.ok_or_else(|| UrlError::Port(port.to_owned()))?))
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.bare, self.tls) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "tcp",
            (true, true) => "tls",
        };
        write!(out, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, u16, String, String) {
        let url: Url = text.parse().unwrap();
        (url.host, url.port, url.authority, url.path)
    }

    fn parts(host: &str, port: u16, authority: &str, path: &str) -> (String, u16, String, String) {
        (host.into(), port, authority.into(), path.into())
    }

    #[test]
    fn urls_are_split_as_typed() {
        assert_eq!(parsed("http://a.example"), parts("a.example", 80, "a.example", "/"));
        assert_eq!(parsed("HTTP://a:8080/x//y?z=%20#f"), parts("a", 8080, "a:8080", "/x//y?z=%20"));
        assert_eq!(parsed("http://[::1]:81?q"), parts("::1", 81, "[::1]:81", "/?q"));
        assert_eq!(parsed("HTTPS://a/b"), parts("a", 443, "a", "/b"));
        assert_eq!("https://a:1/b".parse::<Url>().unwrap().to_string(), "https://a:1/b");
        assert_eq!(parsed("http://[::1]/"), parts("::1", 80, "[::1]", "/"));
    }

    #[test]
    fn urls_of_tcp_have_a_host_and_a_port() {
        let url = Url::parse_tcp("TCP://[::1]:81/").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.tls, url.to_string().as_str()),
            ("::1", 81, false, "tcp://[::1]:81")
        );
        assert_eq!(Url::parse_tcp("tls://a:1").unwrap().to_string(), "tls://a:1");
        for wrong in
            ["tcp://a", "tcp://:1", "tcp://", "tcp://a:1/x", "tcp://u@a:1", "udp://a:1", "tcp://a:1?b", "tcp:/é"]
        {
            assert_eq!(Url::parse_tcp(wrong), Err(UrlError::NotTcp), "{wrong}");
        }
        assert_eq!(Url::parse_tcp("tcp://a:0"), Err(UrlError::Port("0".to_owned())));
    }

    #[test]
    fn refuses_unusable_urls_with_a_reason() {
        let error = |text: &str| text.parse::<Url>().unwrap_err();
        assert_eq!(error("https:/a/"), UrlError::NotHttp);
        assert_eq!(error("a.example/"), UrlError::NotHttp);
        assert_eq!(error("http://"), UrlError::NoHost);
        assert_eq!(error("http://:80/"), UrlError::NoHost);
        assert_eq!(error("http://a:0/"), UrlError::Port("0".into()));
        assert_eq!(error("http://a:99999/"), UrlError::Port("99999".into()));
        assert_eq!(error("http://a/b c"), UrlError::Space);
        assert_eq!(error("http://u:p@a/"), UrlError::UserInformation);
        assert_eq!(error("http://[::1/"), UrlError::NoHost);
        assert_eq!(error("é"), UrlError::NotHttp);
    }
}
