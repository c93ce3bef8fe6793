//! Requests to the API server: one connection each, with an administrator's token. kubectl takes a tenth of a second to start,
//! which is too long for what a test asks again and again.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tls::{ClientSide, Trust};

/// A request that takes longer has failed: the server may be paused.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// The list of all Pods of a conformance run is below a megabyte.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// A patch that merges lists by the key of their items, for kinds that Kubernetes itself has.
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// A merge patch.
pub(super) const MERGE: &str = "application/merge-patch+json";
/// An object.
pub(super) const JSON: &str = "application/json";

/// The way to an API server.
#[derive(Clone)]
pub(super) struct Api {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    token: String,
}

/// The path of an object, or of a list if `name` is empty. `resource` is `v1/pods` or `networking.k8s.io/v1/ingresses`; an empty
/// namespace means that of the cluster, or all of them.
pub fn path(resource: &str, namespace: &str, name: &str) -> String {
    let (version, plural) = resource.rsplit_once('/').expect("a resource is VERSION/PLURAL or GROUP/VERSION/PLURAL");
    let root = if version.contains('/') { "apis" } else { "api" };
    let mut path = format!("/{root}/{version}");
    for (before, part) in [("/namespaces/", namespace), ("/", plural), ("/", name)] {
        if !part.is_empty() {
            path.push_str(before);
            path.push_str(part);
        }
    }
    path
}

impl Api {
    pub(super) fn new(port: u16, authority: String, token: &str) -> Self {
        let side = ClientSide::new(Trust::Authorities(authority.into_bytes())).build().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self { address, config: side.to_rustls(), token: token.to_owned() }
    }

    /// Sends a request and returns the status and the body; a body that is not JSON is a string.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn request(&self, method: &str, path: &str, kind: &str, body: &str) -> io::Result<(u16, Value)> {
        let socket = TcpStream::connect_timeout(&self.address, REQUEST_MAX)?;
        socket.set_read_timeout(Some(REQUEST_MAX))?;
        socket.set_write_timeout(Some(REQUEST_MAX))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("kubernetes").expect("a name");
        let session = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        // To HTTP/1.0 the server answers without chunks, and closes the connection.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: kubernetes\r\nAuthorization: Bearer {}\r\nAccept: {JSON}\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let mut response = Vec::new();
        stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response)?;
        parse(&response).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a response"))
    }

    /// The object at a path; `None` if there is none.
    pub(super) fn get(&self, path: &str) -> io::Result<Option<Value>> {
        match self.request("GET", path, JSON, "")? {
            (404, _) => Ok(None),
            (200, object) => Ok(Some(object)),
            (status, answer) => Err(io::Error::other(format!("GET {path}: {status} {answer}"))),
        }
    }
}

fn parse(response: &[u8]) -> Option<(u16, Value)> {
    let head_end = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&response[..head_end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &response[head_end + 4..];
    let value =
        serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    Some((status, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_paths_of_core_and_grouped_resources() {
        assert_eq!(path("v1/nodes", "", "a"), "/api/v1/nodes/a");
        assert_eq!(path("v1/pods", "ns", ""), "/api/v1/namespaces/ns/pods");
        assert_eq!(path("apps/v1/deployments", "ns", "a"), "/apis/apps/v1/namespaces/ns/deployments/a");
    }

    #[test]
    fn response_truncated_in_its_head_is_an_error() {
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\nContent-Type: te"), None);
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nok"), Some((200, Value::String("ok".into()))));
    }
}
