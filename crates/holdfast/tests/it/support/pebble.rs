//! Pebble, a small authority for tests of ACME clients, on loopback with its own ports.

use super::DEADLINE;
use rcgen::generate_simple_self_signed;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{NameServer, Running, free_port, peer_program};

/// How it validates and issues.
pub(crate) struct Settings {
    /// Port where it validates `http-01`.
    pub(crate) http_port: u16,
    /// Port where it validates `tls-alpn-01`.
    pub(crate) tls_port: u16,
    /// How long certificates are valid, in seconds.
    pub(crate) validity_s: u32,
    /// Whether it requires accounts to be bound by the key `kid`.
    pub(crate) bound_accounts: bool,
}

/// The MAC key of `kid` in base64url.
pub(crate) const MAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// An authority. Its directory is at `https://127.0.0.1:{port}/dir`, and its own certificate is in
/// `{folder}/pebble.pem`.
pub(crate) struct Pebble {
    /// It ends before its folder is removed.
    running: Option<Running>,
    pub(crate) port: u16,
    management_port: u16,
    folder: tempfile::TempDir,
    settings: Settings,
    /// Resolves every name to 127.0.0.1, except that `nowhere.test` has no address.
    names: NameServer,
}

impl Pebble {
    /// Makes its files without starting it.
    pub(crate) fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
        fs::write(folder.path().join("pebble.pem"), made.cert.pem()).expect("written");
        fs::write(folder.path().join("pebble.key"), made.signing_key.serialize_pem()).expect("written");
        let names = NameServer::script(|question| {
            if question.name == "nowhere.test" {
                return vec![question.absent(60)];
            }
            vec![question.addresses(60, &["127.0.0.1"])]
        });
        Self { running: None, port: free_port(), management_port: free_port(), folder, settings, names }
    }

    /// A new authority that runs.
    pub(crate) fn started(settings: Settings) -> Self {
        let mut pebble = Self::new(settings);
        pebble.start();
        pebble
    }

    pub(crate) fn start(&mut self) {
        let Settings { http_port, tls_port, validity_s, bound_accounts } = self.settings;
        let config = format!(
            r#"{{ "pebble": {{ "listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}",
                "certificate": "{3}/pebble.pem", "privateKey": "{3}/pebble.key", "httpPort": {http_port},
                "tlsPort": {tls_port}, "externalAccountBindingRequired": {bound_accounts},
                "externalAccountMACKeys": {{ "kid": "{MAC_KEY}" }}, "keyAlgorithm": "ecdsa",
                "profiles": {{ "default": {{ "description": "usual", "validityPeriod": {2} }} }} }} }}"#,
            self.port,
            self.management_port,
            validity_s,
            self.folder.path().display()
        );
        let path = self.folder.path().join("pebble.json");
        fs::write(&path, config).expect("written");
        let log = fs::File::create(self.folder.path().join("log")).expect("made");
        let child = Command::new(peer_program("pebble"))
            .arg("-config")
            .arg(path)
            .args(["-dnsserver", &self.names.address().to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            // Of good nonces 1 in 100 is rejected instead of 1 in 20: three rejections in a row fail an order, and the
            // next attempt comes after a minute.
            .env("PEBBLE_WFE_NONCEREJECT", "1")
            // Each order gets new challenges.
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("cloned"))
            .stderr(log)
            .spawn()
            .expect("pebble starts");
        self.running = Some(Running::of(child));
        super::until("pebble listens", || {
            TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], self.port)), DEADLINE).is_ok()
        });
    }

    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// `acme_issuer ca` with this authority, and further directives.
    pub(crate) fn issuer(&self, words: &str) -> String {
        format!(
            "acme_issuer ca {{ uri https://127.0.0.1:{}/dir; ssl_trusted_certificate {}/pebble.pem; {words} }}\n",
            self.port,
            self.folder.path().display()
        )
    }

    /// Makes the authority ask for immediate renewal of a certificate, as it does before it revokes one.
    pub(crate) fn ask_to_renew(&self, certificate: &str) {
        let window = r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;
        let body = serde_json::json!({ "Certificate": certificate, "ARIResponse": window }).to_string();
        let output = Command::new(peer_program("curl"))
            .args(["--silent", "--fail", "--insecure", "--data-binary", &body])
            .arg(format!("https://127.0.0.1:{}/set-renewal-info/", self.management_port))
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The root certificate of the issuing authority, which a browser would trust.
    pub(crate) fn root(&self) -> String {
        let output = Command::new(peer_program("curl"))
            .args(["--silent", "--fail", "--insecure"])
            .arg(format!("https://127.0.0.1:{}/roots/0", self.management_port))
            .output()
            .expect("curl runs");
        String::from_utf8(output.stdout).expect("PEM is ASCII")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Every user may read the certificate.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
