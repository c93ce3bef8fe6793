//! The same handshakes with nginx and with the gateway: OpenSSL's client shakes hands and asks with both, and compares what the
//! variables say and how requests without a right certificate are answered.

use super::scene::Scene;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Peer, Signal, Talk, output_for, peer_program};
use tls::{ClientSide, Protocol, Protocols, Trust};

/// Each is the text of a response's line. `$ssl_session_id` is different in each handshake.
const VARIABLES: &str = "ssl_protocol ssl_cipher ssl_ciphers ssl_curve ssl_curves ssl_server_name ssl_session_reused \
    ssl_early_data ssl_alpn_protocol ssl_client_verify ssl_client_s_dn ssl_client_i_dn ssl_client_s_dn_legacy \
    ssl_client_i_dn_legacy ssl_client_serial ssl_client_fingerprint ssl_client_v_start ssl_client_v_end ssl_client_v_remain \
    ssl_client_escaped_cert ssl_client_raw_cert ssl_client_cert ssl_sigalg ssl_client_sigalg scheme https server_name";

/// Words of a server, and flags of `openssl s_client` for its clients.
const CASES: &[(&str, &[&str])] = &[
    ("", &["-tls1_3", "-tls1_2", "-noservername", "-alpn bogus,http/1.1", "-alpn http/1.0", "-groups P-256"]),
    ("", &["-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "-tls1_2 -cipher HIGH", "-sigalgs RSA-PSS+SHA512"]),
    ("", &["-tls1_2 -sigalgs RSA+SHA384", "-sigalgs rsa_pss_rsae_sha384:rsa_pss_rsae_sha512", "-sigalgs ECDSA+SHA256"]),
    ("{ed}", &["-tls1_3", "-tls1_2"]),
    ("", RESUMED),
    ("ssl_session_tickets off; ssl_session_cache shared:variables:1m;", RESUMED),
    ("ssl_verify_client on; ssl_client_certificate {at}/ca.crt;", &["{good} -tls1_2 {resumed}", "{good} {resumed}"]),
    ("ssl_protocols TLSv1.2; ssl_ciphers HIGH:!SHA256:!AES256:!RSA;", &["-tls1_2", "-tls1_2 -cipher aRSA"]),
    ("ssl_ciphers DEFAULT@SECLEVEL=1; ssl_ecdh_curve secp384r1:prime256v1;", &["-tls1_2", "-groups P-256:P-384"]),
    (
        "ssl_conf_command Protocol -TLSv1.2; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;",
        &["", "-tls1_3"],
    ),
    ("ssl_prefer_server_ciphers on; ssl_ciphers AES128+ECDHE:AES256+ECDHE;", &["-tls1_2"]),
    ("ssl_verify_client on; ssl_client_certificate {at}/ca.crt;", CLIENTS),
    ("ssl_verify_client optional; ssl_trusted_certificate {at}/ca.crt; ssl_verify_depth 2;", CLIENTS),
    ("ssl_verify_client on; ssl_client_certificate {at}/ca.crt; ssl_verify_depth 0;", CLIENTS),
    ("ssl_verify_client optional_no_ca;", CLIENTS),
    ("ssl_verify_client on; ssl_client_certificate {at}/ca.crt; ssl_crl {at}/crl.pem;", &["{good}"]),
];

/// Each asks once more with the session of its first handshake.
const RESUMED: &[&str] = &["-tls1_3 {resumed}", "-tls1_2 {resumed}", "-tls1_2 -groups P-256 {resumed}"];

const CLIENTS: &[&str] = &[
    "{rsa}",
    "{rsa} -tls1_2",
    "{ed}",
    "{ed} -tls1_2",
    "",
    "{good}",
    "{good} -tls1_2",
    "{below}",
    "{below} {chain}",
    "{below} {whole}",
    "{own}",
    "{v1}",
    "{odd}",
];

fn openssl(at: &Path, arguments: &str) {
    let mut command = Command::new(peer_program("openssl"));
    let output = command.current_dir(at).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority `ca` with one below it, `middle`, and certificates of servers and clients.
fn certificates(at: &Path) {
    let ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::fs::write(at.join("of_ca"), "basicConstraints=critical,CA:true\n").unwrap();
    std::fs::write(at.join("of_leaf"), "subjectAltName=DNS:a.test\n").unwrap();
    for (name, value) in [("index", ""), ("number", "01\n"), ("ca.cnf", CA)] {
        std::fs::write(at.join(name), value).unwrap();
    }
    openssl(at, &format!("req -x509 {ec} -keyout ca.key -out ca.crt -days 30 -subj /C=DE/O=A,B/CN=Authority"));
    openssl(at, &format!("req -x509 {ec} -keyout own.key -out own.crt -days 30 -subj /CN=own"));
    let issue = |name: &str, key: &str, subject: &str, by: &str, extensions: &str| {
        openssl(at, &format!("req {key} -utf8 -multivalue-rdn -keyout {name}.key -out {name}.csr -subj {subject}"));
        let by = format!("-CA {by}.crt -CAkey {by}.key -days 30 {extensions}");
        openssl(at, format!("x509 -req -in {name}.csr {by} -out {name}.crt").replace("  ", " ").as_str());
    };
    issue("middle", ec, "/CN=Middle", "ca", "-extfile of_ca");
    issue("a", ec, "/CN=a", "ca", "-extfile of_leaf");
    issue("rsa", "-newkey rsa:2048 -nodes", "/CN=rsa", "ca", "-extfile of_leaf");
    issue("ed", "-newkey ed25519 -nodes", "/CN=ed", "ca", "-extfile of_leaf");
    issue("good", ec, "/CN=good", "ca", "-extfile of_leaf");
    issue("below", ec, "/CN=below", "middle", "-extfile of_leaf");
    // OpenSSL 3.0 makes X.509 v1 where no extensions are named.
    issue("v1", ec, "/CN=v1", "ca", "");
    issue("odd", ec, "/C=DE/O=x\\/y,z;<w>/UID=7+CN=Jörg#\"", "ca", "-extfile of_leaf");
    let whole = ["middle.crt", "ca.crt"].map(|name| std::fs::read_to_string(at.join(name)).unwrap()).concat();
    std::fs::write(at.join("whole.crt"), whole).unwrap();
    openssl(at, "ca -config ca.cnf -gencrl -crldays 9 -cert ca.crt -keyfile ca.key -out crl.pem");
}

const CA: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n";

/// The response to a request of `openssl s_client` with these flags, without what differs by date and by program.
fn ask(to: SocketAddr, at: &Path, flags: &str) -> String {
    if flags.contains("{resumed}") {
        let file = format!("{}-{}.session", to.ip(), to.port());
        ask(to, at, &flags.replace("{resumed}", &format!("-sess_out {file}")));
        return ask(to, at, &flags.replace("{resumed}", &format!("-sess_in {file}")));
    }
    let shown = |name: &str| format!("-cert {name}.crt -key {name}.key");
    let mut flags = flags.replace("{chain}", "-cert_chain middle.crt").replace("{whole}", "-cert_chain whole.crt");
    for name in ["good", "below", "own", "v1", "odd", "rsa", "ed"] {
        flags = flags.replace(&format!("{{{name}}}"), &shown(name));
    }
    let name = if flags.contains("-noservername") { "" } else { "-servername a.test" };
    let mut client = Command::new(peer_program("openssl"));
    client.current_dir(at).args(format!("s_client -quiet -connect {to} {name} {flags}").split_whitespace());
    let output = output_for(&mut client, "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    let alert = String::from_utf8_lossy(&output.stderr);
    let alert =
        alert.split_once("SSL alert number ").map(|(_, number)| format!("alert {}", number.lines().next().unwrap()));
    let differs = ["Server:", "Date:", "Content-Length:", "<hr>"];
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !differs.iter().any(|start| line.starts_with(start)));
    alert.into_iter().chain(lines.map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

#[test]
fn handshakes_and_their_variables_are_as_with_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certificates(at);
    let lines = VARIABLES.split_whitespace().map(|name| format!("{name}=[${name}]\\n")).collect::<Vec<_>>().concat();
    // Whichever comes first, the client's order decides.
    let pair = |name: &str| format!("ssl_certificate {{at}}/{name}.crt; ssl_certificate_key {{at}}/{name}.key;");
    let pairs = [pair("a") + &pair("rsa"), pair("rsa") + &pair("a")];
    let mut text = "access_log {side}.log;\n".to_owned();
    for (number, (words, _)) in CASES.iter().enumerate() {
        let ed = words.contains("{ed}").then(|| pair("ed"));
        let (pairs, words) = (ed.as_ref().unwrap_or(&pairs[number % 2]), words.replace("{ed}", ""));
        let place = if number == 0 { "{listen}".to_owned() } else { format!("{{listen:{number}}}") };
        let _ = writeln!(
            text,
            "server {{ listen {place} ssl; server_name a.test; {pairs} {words} return 200 \"{lines}\"; }}"
        );
    }
    let sides = Sides::start(&nginx, &text.replace("{at}", &at.display().to_string()), &[], &[]);
    let mut wrong = String::new();
    for (number, (words, clients)) in CASES.iter().enumerate() {
        for flags in *clients {
            let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| ask(sides.address(side, number), at, flags));
            assert!(!theirs.is_empty(), "{words} {flags}");
            let differs = |one: &str, other: &str| {
                let lines = one.lines().filter(|line| !other.contains(*line));
                lines.map(|line| format!("\n    {line}")).collect::<Vec<_>>().concat()
            };
            if theirs != ours {
                let (theirs, ours) = (differs(&theirs, &ours), differs(&ours, &theirs));
                let _ = writeln!(wrong, "{words} {flags}\n  nginx:{theirs}\n  ours:{ours}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// For how many seconds clients are told that their sessions last, in the last ticket of a connection.
fn hint(to: SocketAddr, at: &Path, version: &str) -> Option<u32> {
    let mut client = Command::new(peer_program("openssl"));
    client.current_dir(at).args([
        "s_client",
        "-ign_eof",
        "-servername",
        "a.test",
        version,
        "-connect",
        &to.to_string(),
    ]);
    let output = output_for(&mut client, "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("here"), "{text}");
    let (_, seconds) = text.rsplit_once("TLS session ticket lifetime hint: ")?;
    seconds.split(' ').next()?.parse().ok()
}

#[test]
fn sessions_last_as_long_as_with_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certificates(at);
    let cached = "ssl_session_tickets off; ssl_session_cache shared:lifetimes:1m;";
    let cases = [
        (String::new(), [Some(300), Some(300)]),
        ("ssl_session_timeout 10m;".to_owned(), [Some(600), Some(600)]),
        ("ssl_session_cache shared:both:1m; ssl_session_timeout 20m;".to_owned(), [Some(1200), Some(1200)]),
        // TLS 1.2 has an id instead of a ticket.
        (cached.to_owned(), [Some(300), None]),
        (format!("{cached} ssl_session_timeout 1h;").replace("lifetimes", "hour"), [Some(3600), None]),
    ];
    let mut text = format!("access_log off; ssl_certificate {0}/a.crt; ssl_certificate_key {0}/a.key;\n", at.display());
    for (number, (words, _)) in cases.iter().enumerate() {
        let _ =
            writeln!(text, "server {{ listen {{listen:{number}}} ssl; server_name a.test; {words} return 200 here; }}");
    }
    let sides = Sides::start(&nginx, &text.replace("{listen:0}", "{listen}"), &[], &[]);
    for (number, (words, expected)) in cases.iter().enumerate() {
        for side in [Side::Nginx, Side::Ours] {
            let found = ["-tls1_3", "-tls1_2"].map(|version| hint(sides.address(side, number), at, version));
            assert_eq!(found, *expected, "{side:?} {words}");
        }
    }
}

/// Under TLS 1.3 a `close_notify` ends one direction only: its client still waits for the answer.
#[test]
fn client_that_sends_only_close_notify_is_answered() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let (_, folder) = Scene::certificates();
    let (asked, go) = ([Signal::new(), Signal::new()], Signal::new());
    let peer = Peer::script({
        let (asked, go) = (asked.clone(), go.clone());
        move |mut talk| {
            let Some(request) = talk.request() else { return };
            asked[usize::from(request.value("X-Side") == Some(Side::Ours.name()))].raise();
            talk.wait(&go);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let text = "access_log off; server { listen {listen} ssl; server_name a.test; {a}
        location / { proxy_set_header X-Side {side}; proxy_pass http://{upstream:0}; }
        location /alive { return 204; } }";
    let sides = Sides::start(&nginx, &Scene::filled(&folder, text), &[peer.address()], &[]);
    let side =
        ClientSide::new(Trust::Anyone).protocols(Protocols::only(Protocol::Tls13)).resume(false).build().unwrap();
    let connect = |of: Side| Talk::connect_secure(sides.address(of, 0), &side, "a.test").unwrap();
    let mut clients: Vec<(Side, Talk)> = Vec::new();
    for (of, asked) in [Side::Nginx, Side::Ours].into_iter().zip(&asked) {
        let mut client = connect(of);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        asked.wait();
        client.end_session();
        // Behind another request, the server has read it.
        assert_eq!(connect(of).get("/alive", "Connection: close\r\n").status(), 204, "{of:?}");
        clients.push((of, client));
    }
    go.raise();
    for (of, mut client) in clients {
        let response = client.response();
        assert_eq!((response.status(), response.text()), (200, "hello".into()), "{of:?}");
    }
}
