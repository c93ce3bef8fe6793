//! TLS as it is installed: keys that only root can read, workers of another user, certificates that change while it
//! serves, and the clients curl and OpenSSL.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a failed step is the end of a test, and says what it left out

use crate::support;
use crate::support::{Instance, children, until};
use nix::unistd::User;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use testkit::{Authority, Issued, Talk, output_for, peer_or_skip, peer_program};
use tls::{ClientSide, Pair};

/// Users of the workers if the tests run as root.
const WORKERS: [&str; 2] = ["www-data", "nobody"];

struct Scene {
    instance: Instance,
    authority: Authority,
}

impl Scene {
    /// An instance with a certificate for `a.test` and a key that only its owner can read. `top` is at the top level,
    /// `words` in the server.
    fn new(top: &str, words: &str) -> Self {
        let scene = Self { instance: Instance::new("", ""), authority: Authority::new("Test Authority") };
        let keys = scene.instance.path("keys");
        fs::create_dir(&keys).unwrap();
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(scene.instance.path("ca.pem"), scene.authority.pem()).unwrap();
        scene.renew();
        scene.configure(top, words);
        scene
    }

    fn configure(&self, top: &str, words: &str) {
        let is_root = nix::unistd::geteuid().is_root();
        let workers = WORKERS.into_iter().find(|name| User::from_name(name).is_ok_and(|user| user.is_some()));
        let user = if is_root { format!("user {};", workers.unwrap()) } else { String::new() };
        let text = format!(
            "{user}\nerror_log logs/error.log info;\n{top}\nevents {{ worker_connections 256; }}\nhttp {{\n\
             access_log logs/access.log;\nserver {{ listen 127.0.0.1:{} ssl; server_name a.test;\n\
             ssl_certificate keys/a.crt;\nssl_certificate_key keys/a.key;\n{words} }} }}\n",
            self.instance.port
        );
        fs::write(self.instance.path("nginx.conf"), text).unwrap();
    }

    /// Replaces the current certificate by a new one with a new key.
    fn renew(&self) {
        let (_, key) = self.authority.issue(&["a.test"]).write(&self.instance.path("keys"), "a");
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.instance.port))
    }

    /// The serial number of the certificate that a new client sees.
    fn serial(&self) -> String {
        let talk = Talk::connect_secure(self.address(), &self.authority.client(), "a.test").unwrap();
        talk.session().peer_certificate().unwrap().serial().unwrap()
    }

    /// Whether a request that is answered came over a resumed session.
    fn resumes(&self, side: &ClientSide) -> bool {
        let mut talk = Talk::connect_secure(self.address(), side, "a.test").unwrap();
        talk.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(talk.response().status(), 200);
        talk.session().is_resumed()
    }

    fn hang_up(&self) {
        nix::sys::signal::kill(support::pid(self.instance.pid()), nix::sys::signal::Signal::SIGHUP).unwrap();
    }

    /// The result of `-t` for a second server; `PAIR` means a valid certificate and key.
    fn test_server(&self, name: &str, words: &str) -> (bool, String) {
        let words = words.replace("PAIR", "ssl_certificate keys/a.crt; ssl_certificate_key keys/a.key;");
        let port = self.instance.port;
        self.configure("", &format!("}} server {{ listen 127.0.0.1:{port} ssl; server_name {name};\n{words}"));
        let output = self.instance.run(&["-t"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The result of curl, which trusts the authority.
    fn curl(&self, flags: &[&str]) -> (bool, String) {
        let mut command = Command::new(peer_program("curl"));
        let resolve = format!("a.test:{}:127.0.0.1", self.instance.port);
        command.args(["-sS", "--resolve", &resolve, "--cacert"]).arg(self.instance.path("ca.pem")).args(flags);
        let output = command.arg(format!("https://a.test:{}/", self.instance.port)).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The output of `openssl s_client`.
    fn s_client(&self, flags: &[&str], typed: &str) -> String {
        let mut command = Command::new(peer_program("openssl"));
        let connect = self.address().to_string();
        command.args(["s_client", "-connect", &connect, "-servername", "a.test", "-CAfile"]);
        command.arg(self.instance.path("ca.pem")).args(flags);
        let output = output_for(&mut command, typed);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

const HELLO: &str = "location / { return 200 hello; }";

/// Runs the work with a master and without one, at the same time: the program looks for changed files every two seconds.
fn in_both_models(work: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for top in ["", "master_process off;"] {
            let work = &work;
            scope.spawn(move || work(top));
        }
    });
}

/// Row X8.
#[test]
fn changed_certificates_apply_without_a_reload() {
    in_both_models(|top| {
        let mut scene = Scene::new(top, HELLO);
        scene.instance.start();
        let first = scene.serial();
        scene.renew();
        until("the new certificate is used", || scene.serial() != first);
        scene.instance.wait_for_line("has changed, and the new one is used");
        let second = scene.serial();
        scene.authority.issue(&["a.test"]).write(&scene.instance.path("keys"), "other");
        fs::copy(scene.instance.path("keys/other.key"), scene.instance.path("keys/a.key")).unwrap();
        scene.instance.wait_for_line("the certificate that was read before stays in use");
        assert_eq!(scene.serial(), second, "{top}");
        if top.is_empty() {
            // A child started meanwhile uses the same certificate.
            let child = children(scene.instance.pid())[0];
            nix::sys::signal::kill(support::pid(child), nix::sys::signal::Signal::SIGKILL).unwrap();
            until("another child serves", || children(scene.instance.pid()).first().is_some_and(|it| *it != child));
            assert_eq!(scene.serial(), second);
        }
        // A reload with the broken file changes nothing either. The test sends the signal itself, because `-s` would
        // read the configuration and refuse.
        scene.hang_up();
        scene.instance.wait_for_line("[emerg]");
        assert_eq!(scene.serial(), second, "{top}");
        scene.renew();
        scene.hang_up();
        until("the mended one is used", || scene.serial() != second);
    });
}

/// For clients of two authorities, whether each is served.
fn trusted(scene: &Scene, clients: &[ClientSide]) -> Vec<bool> {
    let is_trusted = |side| {
        let mut talk = Talk::connect_secure(scene.address(), side, "a.test").unwrap();
        talk.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        talk.response().status() == 200
    };
    clients.iter().map(is_trusted).collect()
}

#[test]
fn changed_authorities_apply_without_a_reload() {
    in_both_models(|top| {
        let words = "ssl_client_certificate clients.pem; ssl_verify_client on; location / { return 200 hello; }";
        let mut scene = Scene::new(top, words);
        let authorities = [Authority::new("One"), Authority::new("Other")];
        let clients = authorities.each_ref().map(|authority| {
            let Issued { chain, key } = authority.issue(&["client"]);
            let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes(), b"").unwrap();
            scene.authority.client_with(|side| side.pair(Some(pair)))
        });
        let file = scene.instance.path("clients.pem");
        fs::write(&file, authorities[0].pem()).unwrap();
        scene.instance.start();
        assert_eq!(trusted(&scene, &clients), [true, false], "{top}");
        fs::write(&file, authorities[1].pem()).unwrap();
        until("the new authority counts", || trusted(&scene, &clients) == [false, true]);
        scene.instance.wait_for_line("clients.pem\" changed: the configuration is bound again");
        fs::write(&file, "nonsense").unwrap();
        scene.instance.wait_for_line("the configuration is refused, the old one stays");
        assert_eq!(trusted(&scene, &clients), [false, true], "{top}");
        // Changes of the configuration file itself wait for a reload.
        let text = scene.instance.text("nginx.conf");
        fs::write(scene.instance.path("nginx.conf"), "nonsense").unwrap();
        fs::write(&file, [authorities[0].pem(), authorities[1].pem()].concat()).unwrap();
        until("both authorities count", || trusted(&scene, &clients) == [true, true]);
        fs::write(scene.instance.path("nginx.conf"), text).unwrap();
    });
}

#[test]
fn a_child_that_is_started_anew_has_the_newest_certificate() {
    let mut scene = Scene::new("", HELLO);
    scene.instance.start();
    let first = scene.serial();
    scene.renew();
    until("the new certificate is used", || scene.serial() != first);
    let second = scene.serial();
    let child = children(scene.instance.pid())[0];
    nix::sys::signal::kill(support::pid(child), nix::sys::signal::Signal::SIGKILL).unwrap();
    scene.instance.wait_for_line("the child has died and is started again");
    until("another child serves", || children(scene.instance.pid()).first().is_some_and(|other| *other != child));
    assert_eq!(scene.serial(), second);
}

#[test]
fn sessions_survive_a_child_that_dies() {
    let mut scene = Scene::new("", HELLO);
    scene.instance.start();
    let side = scene.authority.client();
    let is_resumed = || scene.resumes(&side);
    assert_eq!([is_resumed(), is_resumed()], [false, true]);
    let child = children(scene.instance.pid())[0];
    nix::sys::signal::kill(support::pid(child), nix::sys::signal::Signal::SIGKILL).unwrap();
    until("another child serves", || children(scene.instance.pid()).first().is_some_and(|other| *other != child));
    assert!(is_resumed());
}

#[test]
fn ticket_key_files_survive_restart_and_update_live() {
    in_both_models(|top| {
        let mut scene = Scene::new(top, "ssl_session_ticket_key ticket.key; location / { return 200 hello; }");
        let side = scene.authority.client();
        fs::write(scene.instance.path("ticket.key"), [7; 80]).unwrap();
        scene.instance.start();
        assert_eq!([scene.resumes(&side), scene.resumes(&side)], [false, true], "{top}");
        scene.instance.signal("quit");
        scene.instance.wait();
        scene.instance.start();
        assert!(scene.resumes(&side), "{top}");
        fs::write(scene.instance.path("ticket.key"), [9; 80]).unwrap();
        until("the new key counts", || !scene.resumes(&side));
        scene.instance.wait_for_line("ticket.key\" changed: the configuration is bound again");
        assert!(scene.resumes(&side), "{top}");
    });
}

/// Row X8.
#[test]
fn sessions_survive_a_reload_in_one_process() {
    let mut scene = Scene::new("master_process off; worker_processes 2;", HELLO);
    scene.instance.start();
    let side = scene.authority.client();
    let is_resumed = || scene.resumes(&side);
    assert!(!is_resumed());
    assert!((0..6).all(|_| is_resumed()), "the workers share the keys");
    let first = scene.serial();
    scene.renew();
    scene.hang_up();
    until("the reload counts", || scene.serial() != first);
    assert!(is_resumed());
}

#[test]
fn curl_and_openssl_are_served() {
    let words =
        "ssl_client_certificate ca.pem; ssl_verify_client optional; location / { return 200 $ssl_client_s_dn; }";
    let mut scene = Scene::new("", words);
    scene.authority.issue(&["client"]).write(&scene.instance.path("keys"), "client");
    scene.instance.start();
    let (good, text) = scene.curl(&[]);
    assert!(good && text.is_empty(), "{text}");
    let (certificate, key) = (scene.instance.path("keys/client.crt"), scene.instance.path("keys/client.key"));
    let shown = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
        let (good, text) = scene.curl(&[&shown[..], version].concat());
        assert!(good && text == "CN=client", "{text}");
    }
    let (_, head) = scene.curl(&["-I"]);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let said = scene.s_client(&["-alpn", "h2,http/1.1", "-brief", "-ign_eof"], "GET / HTTP/1.0\r\n\r\n");
    assert!(said.contains("Verification: OK") && said.contains("HTTP/1.1 200"), "{said}");
}

#[test]
fn refuses_old_and_dangerous_forms() {
    let mut scene = Scene::new("", HELLO);
    scene.instance.start();
    // Security level 0 lets OpenSSL offer versions that it refuses by default.
    for version in ["-tls1", "-tls1_1"] {
        let said = scene.s_client(&[version, "-cipher", "ALL:@SECLEVEL=0"], "");
        assert!(said.contains("alert protocol version") || said.contains("alert handshake failure"), "{said}");
    }
    for cipher in ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "NULL-SHA256"] {
        let said = scene.s_client(&["-tls1_2", "-cipher", &format!("{cipher}:@SECLEVEL=0")], "");
        assert!(said.contains("alert handshake failure"), "{cipher}: {said}");
    }
    scene.instance.wait_for_line("unsupported protocol");
    scene.instance.wait_for_line("no shared cipher");
    // A renegotiation inside the connection.
    let said = scene.s_client(&["-tls1_2", "-msg"], "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nR\n");
    assert!(!said.contains("HTTP/1.1 200 OK\r\nHTTP/1.1 200"), "{said}");
    assert!(!scene.serial().is_empty());
}

/// The output of `sslyze` for a server without known faults.
const SOUND: [&str; 9] = [
    "SSL 3.0 Cipher Suites:\n     Attempted to connect using 80 cipher suites; the server rejected all",
    "TLS 1.0 Cipher Suites:\n     Attempted to connect using 80 cipher suites; the server rejected all",
    "TLS 1.1 Cipher Suites:\n     Attempted to connect using 80 cipher suites; the server rejected all",
    "Forward Secrecy                    OK - Supported",
    "OK - Compression disabled",
    "OK - Not vulnerable to OpenSSL CCS injection",
    "TLS_FALLBACK_SCSV:                 OK - Supported",
    "OK - Not vulnerable to Heartbleed",
    "Client Renegotiation DoS Attack:   OK - Not vulnerable",
];

#[test]
fn a_scanner_finds_the_defaults_sound_and_weak_settings_not() {
    let Some(sslyze) = peer_or_skip(&["sslyze"]) else { return };
    let mut scene = Scene::new("", HELLO);
    // Mozilla's recommendation also limits the lifetime of certificates.
    let now = time::OffsetDateTime::now_utc();
    let issued = scene.authority.issue_with(&["a.test"], |params| {
        params.not_before = now - time::Duration::days(1);
        params.not_after = now + time::Duration::days(60);
    });
    issued.write(&scene.instance.path("keys"), "a");
    scene.instance.start();
    let scan = |level: &str| {
        let mut command = Command::new(&sslyze);
        command.args(["--mozilla_config", level, "--sni", "a.test"]).arg(scene.address().to_string());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    // No public list contains the authority of this test. This is the only fault.
    let faults = |said: &str| {
        let faults = said.lines().filter_map(|line| line.trim().strip_prefix("* ")?.split_once(": ")).map(|(of, _)| of);
        faults.filter(|of| *of != "certificate_path_validation").map(str::to_owned).collect::<Vec<_>>()
    };
    let said = scan("intermediate");
    assert!(said.contains("Not compliant.\n        * certificate_path_validation: "), "{said}");
    assert_eq!(faults(&said), Vec::<String>::new(), "{said}");
    for line in SOUND {
        assert!(said.contains(line), "{line:?} is not in:\n{said}");
    }
    // The scanner does find faults: the modern recommendation forbids TLS 1.2.
    let said = scan("modern");
    assert!(faults(&said).iter().any(|fault| fault == "tls_versions"), "{said}");
}

/// Concurrent half-open handshakes.
const HALF_OPEN: usize = 10_000;
/// Most memory of one: the struct of a waiting connection, its slots, and the first bytes of a message (ADR 46).
const HALF_OPEN_BYTES_MAX: usize = 3 * 1024;

/// Row T5.
#[test]
fn ten_thousand_half_open_handshakes_hold_little_and_end() {
    let (_, hard) = reactor::descriptor_limit().unwrap();
    reactor::raise_descriptor_limit(hard).unwrap();
    let count = HALF_OPEN.min(usize::try_from(hard).unwrap().saturating_sub(500));
    if count < HALF_OPEN {
        println!("{count} in place of {HALF_OPEN}: this process may have {hard} descriptors");
    }
    let mut scene =
        Scene::new("worker_processes 1; worker_rlimit_nofile 12000;", "client_header_timeout 8s; return 200 hello;");
    let text = scene.instance.text("nginx.conf").replace("worker_connections 256", "worker_connections 11000");
    fs::write(scene.instance.path("nginx.conf"), text).unwrap();
    scene.instance.start();
    let worker = children(scene.instance.pid())[0];
    assert!(!scene.serial().is_empty());
    let before = resident_bytes(worker);
    let mut hello = Vec::new();
    tls::Session::client(&scene.authority.client(), "a.test").unwrap().take_output(&mut hello);
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = std::net::TcpStream::connect(scene.address()).unwrap();
        stream.write_all(&hello[..100]).unwrap();
        held.push(stream);
    }
    // Other clients can complete handshakes meanwhile.
    assert!(!scene.serial().is_empty());
    let grown = resident_bytes(worker).saturating_sub(before);
    assert!(grown < count * HALF_OPEN_BYTES_MAX, "{grown} bytes for {count}");
    // A handshake has the time limit of a request head.
    scene.instance.wait_for_line("client timed out (110: Connection timed out) while SSL handshaking");
    for stream in &mut held {
        stream.set_read_timeout(Some(support::DEADLINE)).unwrap();
        let mut rest = [0; 16];
        while matches!(stream.read(&mut rest), Ok(1..)) {}
    }
    until("all are closed", || descriptors(worker) < 100);
    assert!(!scene.serial().is_empty());
}

fn resident_bytes(process: u32) -> usize {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Directives of a server, the error, and the hint.
const MISTAKES: [(&str, &str, &str); 17] = [
    (
        "ssl_certificate none.crt; ssl_certificate_key keys/a.key;",
        "none.crt\": open() failed (2: No such file",
        "make the file",
    ),
    (
        "ssl_certificate keys/a.crt; ssl_certificate_key none.key;",
        "none.key\": open() failed (2: No such file",
        "make the file",
    ),
    (
        "ssl_certificate keys/a.crt; ssl_certificate_key keys/other.key;",
        "does not belong to the certificate",
        "name the key",
    ),
    ("ssl_certificate keys/a.crt; ssl_certificate_key keys/encrypted.key;", "encrypted.key", "ssl_password_file"),
    ("ssl_certificate nginx.conf; ssl_certificate_key keys/a.key;", "there is no certificate", "PEM"),
    ("PAIR ssl_ecdh_curve nonsense;", "unknown curve \"nonsense\"", "X25519"),
    ("PAIR ssl_session_ticket_key short;", "must be 48 or 80 bytes", "openssl rand 80"),
    ("PAIR ssl_protocols TLSv1 TLSv1.1;", "leaves no version that is spoken", "TLSv1.3"),
    ("PAIR ssl_ciphers bogus;", "SSL_CTX_set_cipher_list(\"bogus\") failed", "HIGH:!aNULL:!MD5"),
    (
        "PAIR ssl_protocols TLSv1.2; ssl_ciphers AES128-SHA;",
        "no cipher is left for \"ssl_protocols\"",
        "HIGH:!aNULL:!MD5",
    ),
    ("PAIR ssl_conf_command Ciphersuites bogus;", "SSL_CONF_cmd(\"Ciphersuites\", \"bogus\") failed", "Ciphersuites"),
    ("PAIR ssl_trusted_certificate none.pem;", "none.pem\" failed (2: No such file", "ssl_trusted_certificate"),
    ("PAIR ssl_trusted_certificate nginx.conf;", "there is no certificate", "PEM"),
    ("PAIR ssl_crl none.pem;", "none.pem\" failed (2: No such file", "ssl_crl"),
    ("PAIR ssl_stapling on; ssl_stapling_file ca.pem;", "d2i_OCSP_RESPONSE_bio(", "in DER"),
    (
        "PAIR ssl_client_certificate ca.pem; ssl_verify_client on; ssl_ocsp on; ssl_ocsp_responder https://a;",
        "invalid URL prefix in OCSP responder \"https://a\"",
        "http://",
    ),
    (
        "PAIR ssl_crl ca.pem; ssl_client_certificate ca.pem; ssl_verify_client on;",
        "revocation lists cannot be read",
        "X509 CRL",
    ),
];

#[test]
fn mistakes_are_named_at_their_place_with_what_to_do() {
    let scene = Scene::new("", HELLO);
    let mut command = Command::new(peer_program("openssl"));
    command.args(["pkcs8", "-topk8", "-passout", "pass:secret", "-in"]).arg(scene.instance.path("keys/a.key"));
    assert!(command.arg("-out").arg(scene.instance.path("keys/encrypted.key")).status().unwrap().success());
    scene.authority.issue(&["a.test"]).write(&scene.instance.path("keys"), "other");
    fs::write(scene.instance.path("short"), "12345").unwrap();
    for (words, message, hint) in MISTAKES {
        let (good, said) = scene.test_server("b.test", words);
        assert!(!good, "{words}: {said}");
        assert!(said.contains(message) && said.contains(hint) && said.contains("nginx.conf:"), "{words}: {said}");
    }
}

#[test]
fn expired_or_misnamed_certificate_serves_with_a_warning() {
    let scene = Scene::new("", HELLO);
    let expired = scene.authority.issue_with(&["b.test"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    expired.write(&scene.instance.path("keys"), "expired");
    let words = "ssl_certificate keys/expired.crt; ssl_certificate_key keys/expired.key;";
    let (good, said) = scene.test_server("c.test", words);
    assert!(good && said.contains("has expired"), "{said}");
    assert!(said.contains("no certificate of this server is for \"c.test\""), "{said}");
}

/// Words of a server that have no effect, and what `-t` notes.
const WITHOUT_EFFECT: [(&str, &str); 6] = [
    ("PAIR ssl_early_data on;", "\"ssl_early_data\" has no effect: a ticket could be used twice"),
    (
        "PAIR ssl_early_data on; ssl_session_tickets off; ssl_session_cache shared:s:1m; ssl_client_certificate ca.pem; \
         ssl_verify_client on;",
        "\"ssl_early_data\" has no effect with \"ssl_verify_client\"",
    ),
    (
        "ssl_certificate keys/$ssl_server_name.crt; ssl_certificate_key keys/a.key; ssl_stapling on;",
        "\"ssl_stapling\" has no effect for certificates that variables name",
    ),
    (
        "ACME ssl_stapling on; } acme_issuer le { uri https://acme-v02.api.letsencrypt.org/directory; state_path off; \
         accept_terms_of_service;",
        "\"ssl_stapling\" has no effect for certificates of Let's Encrypt",
    ),
    (
        "ACME ssl_stapling on; ssl_stapling_file ca.pem; } acme_issuer le { uri https://ca.test/; state_path off; \
         accept_terms_of_service;",
        "\"ssl_stapling_file\" has no effect for a certificate by ACME",
    ),
    ("PAIR ssl_early_data on; ssl_session_tickets off; ssl_session_cache shared:s:1m;", ""),
];

#[test]
fn words_without_effect_are_noted() {
    let scene = Scene::new("", HELLO);
    let acme = "acme_certificate le; ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;";
    for (words, note) in WITHOUT_EFFECT {
        let (good, said) = scene.test_server("b.test", &words.replace("ACME", acme));
        assert!(good, "{words}: {said}");
        assert_eq!((said.contains(note), said.contains("no effect")), (true, !note.is_empty()), "{words}: {said}");
    }
}
