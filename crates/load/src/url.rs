//! The parts of a URL that a load needs: the address to connect to, the Host value and the request target. Not a general
//! URL library: it has no relative references and normalises nothing, because the target must see the URL as typed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// An `http://` or `https://` URL, split.
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
    /// Whether the scheme is `https`.
    #[serde(default)]
    pub tls: bool,
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
        Ok(Self { host: host.to_owned(), port, authority: authority.to_owned(), path, tls })
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
        write!(out, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority, self.path)
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
    fn what_cannot_be_loaded_is_refused_with_its_reason() {
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
