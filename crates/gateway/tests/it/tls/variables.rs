//! TLS in templates: `$ssl_…`, `$scheme`, `$https`, and the URLs that the gateway makes itself.

use crate::tls::scene::{Scene, get};
use testkit::Talk;
use tls::Pair;

/// A server that answers with these variables, one per line.
fn server(words: &str, variables: &str) -> String {
    let lines = variables.split(' ').map(|name| format!("{name}=[${name}]\\n")).collect::<Vec<_>>().concat();
    format!(
        "server {{ listen {{listen}} ssl; server_name a.test; {{a}} {words} location / {{ return 200 \"{lines}\"; }} }}"
    )
}

/// The value of a variable in an answer of that server.
#[track_caller]
fn value<'t>(text: &'t str, name: &str) -> &'t str {
    let start = text.find(&format!("{name}=[")).unwrap_or_else(|| panic!("no {name} in {text}")) + name.len() + 2;
    &text[start..start + text[start..].find("]\n").unwrap()]
}

#[test]
fn a_request_knows_its_connection() {
    let names = "ssl_protocol ssl_cipher ssl_curve ssl_server_name ssl_session_reused ssl_early_data ssl_client_verify \
                 ssl_client_s_dn ssl_ciphers scheme https";
    let scene = Scene::new(&server("", names), &[]);
    let side = scene.authority.client();
    let mut client = scene.try_client(&side, "a.test").unwrap();
    client.send(get("a.test"));
    let text = client.response().text();
    let shown = |text: &str| {
        names.split_whitespace().map(|name| format!("{name}={}", value(text, name))).collect::<Vec<_>>().join(" ")
    };
    let cipher = "TLS_AES_256_GCM_SHA384";
    assert!(shown(&text).starts_with(&format!(
        "ssl_protocol=TLSv1.3 ssl_cipher={cipher} ssl_curve=X25519MLKEM768 ssl_server_name=a.test ssl_session_reused=. \
         ssl_early_data= ssl_client_verify=NONE ssl_client_s_dn= ssl_ciphers={cipher}:"
    )), "{text}");
    assert_eq!((value(&text, "scheme"), value(&text, "https")), ("https", "on"));
    client.close();
    let mut client = scene.try_client(&side, "a.test").unwrap();
    client.send(get("a.test"));
    assert_eq!(value(&client.response().text(), "ssl_session_reused"), "r");
}

#[test]
fn a_request_knows_the_clients_certificate() {
    let names = "ssl_client_verify ssl_client_s_dn ssl_client_i_dn ssl_client_serial ssl_client_fingerprint ssl_client_raw_cert";
    let scene = Scene::new(&server("ssl_client_certificate {ca}; ssl_verify_client optional;", names), &[]);
    let issued = scene.authority.issue(&["client"]);
    let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"").unwrap();
    let side = scene.authority.client_with(|side| side.pair(Some(pair)));
    let mut client = scene.try_client(&side, "a.test").unwrap();
    client.send(get("a.test"));
    let text = client.response().text();
    assert_eq!(value(&text, "ssl_client_verify"), "SUCCESS");
    assert_eq!(value(&text, "ssl_client_i_dn"), "CN=Test Authority");
    assert_eq!(value(&text, "ssl_client_fingerprint").len(), 40);
    assert!(issued.chain.replace("\r\n", "\n").starts_with(value(&text, "ssl_client_raw_cert")), "{text}");
}

#[test]
fn subrequest_sees_the_tls_variables() {
    let names = "ssl_protocol ssl_cipher ssl_curve ssl_curves ssl_ciphers ssl_server_name ssl_session_id ssl_session_reused \
                 ssl_alpn_protocol ssl_client_verify ssl_client_s_dn ssl_client_fingerprint ssl_client_raw_cert scheme https \
                 remote_addr remote_port server_addr server_port connection connection_requests request_id request_uri host";
    let lines = names.split_whitespace().map(|name| format!("{name}=[${name}]|")).collect::<Vec<_>>().concat();
    let text = format!(
        "server {{ listen {{listen}} ssl; server_name a.test; {{a}} ssl_client_certificate {{ca}}; ssl_verify_client on;
         location / {{ add_before_body /inside; addition_types *; return 200 \"{lines}\"; }}
         location = /inside {{ return 200 \"{lines}#\"; }} }}"
    );
    let scene = Scene::new(&text, &[]);
    let issued = scene.authority.issue(&["client"]);
    let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"").unwrap();
    let side = scene.authority.client_with(|side| side.pair(Some(pair)));
    let mut client = scene.try_client(&side, "a.test").unwrap();
    client.send(get("a.test"));
    let text = client.response().text();
    let (inside, own) = text.split_once('#').unwrap();
    assert_eq!(inside, own);
    assert!(own.contains("ssl_client_verify=[SUCCESS]") && own.contains("ssl_protocol=[TLSv1.3]"), "{own}");
}

#[test]
fn a_request_knows_what_signatures_the_client_takes() {
    let names = "ssl_sigalgs ssl_sigalg ssl_client_sigalg";
    let scene = Scene::new(&server("", names), &[]);
    let (_, text) = scene.ask("a.test", "a.test");
    let offered = value(&text, "ssl_sigalgs");
    for known in ["ecdsa_secp256r1_sha256", "rsa_pss_rsae_sha256", "ed25519", "rsa_pkcs1_sha256"] {
        assert!(offered.split(':').any(|name| name == known), "{offered}");
    }
    assert_eq!((value(&text, "ssl_sigalg"), value(&text, "ssl_client_sigalg")), ("ecdsa_secp256r1_sha256", ""));
}

/// The servers are lowered in order; offers that only a later one uses must be kept in handshakes of an earlier one
/// too.
#[test]
fn offers_are_kept_if_any_server_asks_for_them() {
    let two = format!(
        "server {{ listen {{listen}} ssl; server_name b.test; {{b}} return 200 b; }} {}",
        server("", "ssl_curves")
    );
    let scene = Scene::new(&two, &[]);
    let (_, text) = scene.ask("b.test", "a.test");
    assert!(value(&text, "ssl_curves").starts_with("X25519MLKEM768:"), "{text}");
}

#[test]
fn plain_http_on_a_tls_port_has_no_values_of_tls() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} error_page 497 =200 @plain; \
         location @plain { return 200 \"$scheme|$https|$ssl_protocol|$status\"; } }",
        &[],
    );
    let mut client = Talk::connect(scene.gateway.address());
    client.send(get("a.test"));
    assert_eq!(client.response().text(), "http|||200");
}

#[test]
fn redirects_have_the_scheme_of_the_connection() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} location = /moved { return 301 /there; } \
         location /dir/ { proxy_pass http://127.0.0.1:1; } }",
        &[],
    );
    let port = scene.gateway.address().port();
    for (path, to) in [("/moved", "/there"), ("/dir", "/dir/")] {
        let mut client = scene.client("a.test");
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.value("Location"), Some(&*format!("https://a.test:{port}{to}")), "{path}");
    }
}
