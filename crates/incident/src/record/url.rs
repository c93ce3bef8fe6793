//! Fetches a status over HTTP: the JSON of a `status_page`, or nginx's `stub_status`. Plain HTTP on this machine or its network.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// A status comes from memory; the recorder waits no longer for it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a status: thousands of peers.
const BYTES_MAX: u64 = 16 << 20;

/// A parsed `http://HOST[:PORT]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusUrl {
    host: String,
    port: u16,
    target: String,
}

impl StatusUrl {
    /// Parses the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no URL such as http://127.0.0.1:8080/status");
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, 80),
        };
        let is_clean = !host.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_clean || authority.contains('@') {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, target: path.to_owned() })
    }

    /// Fetches it.
    pub fn fetch(&self) -> Result<Vec<u8>, String> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses = (host, self.port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        let address = addresses.next().ok_or_else(|| format!("{host} has no address"))?;
        let failed = |error: std::io::Error| format!("no status from {address}: {error}");
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        // HTTP/1.0: the body is not chunked, and the connection ends with it.
        let Self { host, port, target } = self;
        write!(
            stream,
            "GET {target} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json, text/plain;q=0.1\r\n\r\n"
        )
        .map_err(failed)?;
        let mut bytes = Vec::new();
        stream.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        body_of(bytes).map_err(|problem| format!("no status from {address}: {problem}"))
    }
}

fn body_of(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or("the answer has no end of its head")?;
    let first = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first).into_owned();
    if first.split(' ').nth(1) != Some("200") {
        return Err(format!("it answers {first:?}"));
    }
    Ok(bytes.split_off(end + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_answers_are_parsed() {
        let url = StatusUrl::parse("http://[::1]:8080/status/json").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.target.as_str()), ("[::1]", 8080, "/status/json"));
        assert_eq!(StatusUrl::parse("http://a").map(|url| (url.port, url.target)), Ok((80, "/".to_owned())));
        for wrong in ["https://a/", "a", "http://", "http://a b/", "http://user:pw@a/", "http://a:99999/"] {
            assert!(StatusUrl::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}".to_vec()), Ok(b"{}".to_vec()));
        assert!(body_of(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec()).unwrap_err().contains("403"));
        assert!(body_of(b"x".to_vec()).is_err());
    }
}
