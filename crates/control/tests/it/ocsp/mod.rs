//! OCSP, with `openssl ocsp` as the responder, `openssl s_client -status` as a client, and nginx for comparison.

mod clients;
mod nginx;
mod staples;

use crate::ocsp::nginx::Nginx;
use control::Control;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use testkit::{Authority, Gateway, Issued, Responder, output_for, peer_program};

/// An authority with its responder, and a gateway with its control plane.
struct Scene {
    _control: Control,
    gateway: Gateway,
    files: Files,
}

/// The files of both servers.
struct Files {
    authority: Authority,
    responder: Responder,
    folder: tempfile::TempDir,
}

impl Files {
    /// `ca.pem`, and `a.crt` with `a.key` for `a.test`: number 10, which is valid.
    fn new() -> Self {
        let authority = Authority::new("Test Authority");
        let (responder, folder) = (Responder::start(&authority), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let files = Self { authority, responder, folder };
        files.write("a", &files.responder.issue(&files.authority, &["a.test"], 10));
        files.responder.note(10, 'V');
        files
    }

    fn write(&self, name: &str, issued: &Issued) {
        issued.write(self.folder.path(), name);
    }

    /// A server for `a.test` with these directives; `{at}` means the folder.
    fn server(&self, words: &str) -> String {
        let words = format!(
            "ssl_certificate {{at}}/a.crt; ssl_certificate_key {{at}}/a.key; ssl_trusted_certificate {{at}}/ca.pem; {words}"
        );
        let words = words.replace("{at}", &self.folder.path().display().to_string());
        format!("server {{ listen {{listen}} ssl; server_name a.test; {words} }}")
    }
}

impl Scene {
    fn start(files: Files, words: &str) -> Self {
        let gateway = Gateway::start(&conf(&files.server(words)), &[]);
        Self { _control: Control::start(gateway.shared()).unwrap(), gateway, files }
    }

    /// nginx with the same directives, if it is installed.
    fn nginx(&self, words: &str) -> Option<Nginx> {
        Nginx::start(&self.files.server(words))
    }
}

fn conf(http: &str) -> String {
    format!("events {{}} http {{ access_log off; {http} }}")
}

/// The output of `openssl s_client` for a handshake with the folder's certificate; `typed` goes to the server.
fn s_client(to: SocketAddr, flags: &[&str], typed: &str) -> String {
    let mut command = Command::new(peer_program("openssl"));
    command.args(["s_client", "-ign_eof", "-connect", &to.to_string(), "-servername", "a.test"]).args(flags);
    let output = output_for(&mut command, typed);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A request after which the connection ends.
const LAST_REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
