//! Starts an example with its addresses replaced, with peers that answer with the request they received.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use testkit::{Gateway, Peer, Request, Response};

/// An example that runs.
pub(crate) struct Example {
    pub(crate) gateway: Gateway,
}

/// The folder of examples.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A peer that answers with its name, the request line and the fields that it received.
pub(crate) fn named(name: &'static str) -> Peer {
    Peer::answering(move |request| answer(&summary(name, request), ""))
}

/// A peer's answer to a request.
pub(crate) fn summary(name: &str, request: &Request) -> String {
    let mut fields = String::new();
    for (name, value) in &request.fields {
        let _ = writeln!(fields, "{}: {value}", name.to_ascii_lowercase());
    }
    format!("{name}: {} {}\n{fields}", request.method(), request.target())
}

/// A response with these further field lines.
pub(crate) fn answer(body: &str, lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{lines}\r\n{body}", body.len()).into_bytes()
}

impl Example {
    /// Starts it. `peers` maps the written addresses to those of this test. `files` are written below the prefix.
    pub(crate) fn start(name: &str, peers: &[(&str, SocketAddr)], files: &[(&str, &str)]) -> Self {
        Self::start_below(name, peers, files, None)
    }

    /// The same with a folder of files in place of the one that is written.
    pub(crate) fn start_below(
        name: &str,
        peers: &[(&str, SocketAddr)],
        files: &[(&str, &str)],
        place: Option<(&str, &Path)>,
    ) -> Self {
        let mut text = fs::read_to_string(folder().join(name)).unwrap();
        if let Some((written, place)) = place {
            text = text.replace(written, &place.display().to_string());
        }
        let types = fs::read_to_string(folder().join("mime.types")).unwrap();
        text = text.replace("include mime.types;", &types);
        let mut listened: Vec<String> = Vec::new();
        let words: Vec<String> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("listen "))
            .map(|rest| rest.split([' ', ';']).next().unwrap().to_owned())
            .collect();
        for word in words {
            if !listened.contains(&word) {
                listened.push(word);
            }
        }
        for (index, address) in listened.iter().enumerate() {
            let place = if index == 0 { "{listen}".to_owned() } else { format!("{{listen:{index}}}") };
            text = text.replace(address.as_str(), &place);
        }
        for (index, (written, _)) in peers.iter().enumerate() {
            assert!(text.contains(written), "{name} has no {written}");
            text = text.replace(written, &format!("{{upstream:{index}}}"));
        }
        let addresses: Vec<SocketAddr> = peers.iter().map(|(_, address)| *address).collect();
        let example = Self { gateway: Gateway::start(&text, &addresses) };
        for (path, content) in files {
            example.write(path, content.as_bytes());
        }
        example
    }

    /// Writes a file below the prefix.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.gateway.prefix().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Requests a target with further field lines.
    pub(crate) fn get(&self, target: &str, lines: &str) -> Response {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"))
    }

    /// Sends these bytes on a connection of its own.
    pub(crate) fn ask(&self, bytes: &str) -> Response {
        let mut client = self.gateway.client();
        client.send(bytes);
        client.response()
    }
}
