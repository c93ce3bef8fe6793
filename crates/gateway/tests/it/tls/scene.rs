//! Servers with certificates of the test's own authority.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use testkit::{Authority, Gateway, Talk};
use tls::{ClientSide, TlsError};

/// A request for the root of a server.
pub(crate) fn get(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// A gateway with certificates in a directory; `{at}` in its configuration is that directory.
pub(crate) struct Scene {
    pub(crate) gateway: Gateway,
    pub(crate) authority: Authority,
    pub(crate) folder: tempfile::TempDir,
}

impl Scene {
    /// A gateway with this text in its `http`. `a.test`, `b.test` and `*.wild.test` have certificates: `{a}`, `{b}` and
    /// `{wild}` are the directives that name them, `{ca}` for the authority's file.
    pub(crate) fn new(http: &str, upstreams: &[SocketAddr]) -> Self {
        Self::of_workers(1, http, upstreams)
    }

    pub(crate) fn of_workers(workers: u16, http: &str, upstreams: &[SocketAddr]) -> Self {
        let (authority, folder) = Self::certificates();
        let text = Self::text(&folder, http);
        Self { gateway: Gateway::start_workers(workers, &text, upstreams), authority, folder }
    }

    /// An authority, and a directory with its certificates.
    pub(crate) fn certificates() -> (Authority, tempfile::TempDir) {
        let (authority, folder) = (Authority::new("Test Authority"), tempfile::tempdir().unwrap());
        for (name, host) in [("a", "a.test"), ("b", "b.test"), ("wild", "*.wild.test")] {
            authority.issue(&[host]).write(folder.path(), name);
        }
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        (authority, folder)
    }

    /// The same with this text behind `events`: blocks of `http` and `stream`.
    pub(crate) fn of_blocks(blocks: &str, upstreams: &[SocketAddr]) -> Self {
        let (authority, folder) = Self::certificates();
        let text = format!("events {{ worker_connections 512; }} {}", Self::filled(&folder, blocks));
        Self { gateway: Gateway::start(&text, upstreams), authority, folder }
    }

    /// Replaces the names of certificates and files.
    pub(crate) fn filled(folder: &tempfile::TempDir, text: &str) -> String {
        let at = folder.path().display().to_string();
        let mut text = text.to_owned();
        for name in ["a", "b", "wild"] {
            let words = format!("ssl_certificate {at}/{name}.crt; ssl_certificate_key {at}/{name}.key;");
            text = text.replace(&format!("{{{name}}}"), &words);
        }
        text.replace("{ca}", &format!("{at}/ca.pem")).replace("{at}", &at)
    }

    fn text(folder: &tempfile::TempDir, http: &str) -> String {
        let http = Self::filled(folder, http);
        format!(
            "events {{ worker_connections 512; }} http {{ log_format line '$status $server_name $scheme'; \
             access_log access.log line; {http} }}"
        )
    }

    pub(crate) fn reload(&mut self, http: &str) {
        let text = Self::text(&self.folder, http);
        self.gateway.reload(&text);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A client that trusts the authority and sends this name.
    pub(crate) fn client(&self, name: &str) -> Talk {
        self.try_client(&self.authority.client(), name).unwrap()
    }

    pub(crate) fn try_client(&self, side: &ClientSide, name: &str) -> Result<Talk, TlsError> {
        Talk::connect_secure(self.gateway.address(), side, name)
    }

    /// One request on a new connection, and its response's status and text.
    pub(crate) fn ask(&self, name: &str, host: &str) -> (u16, String) {
        let mut client = self.client(name);
        client.send(get(host));
        let response = client.response();
        (response.status(), response.text())
    }
}
