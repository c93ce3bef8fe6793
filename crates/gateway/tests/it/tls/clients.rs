//! Client certificates: requested, verified, required, and bound to the server that requires them.

use crate::tls::scene::{Scene, get};
use testkit::{Authority, Issued};
use tls::{ClientSide, Pair};

fn with(scene: &Scene, shown: Option<&Issued>) -> ClientSide {
    let pair = shown.map(|shown| Pair::from_pem(shown.chain.as_bytes(), shown.key.as_bytes(), b"").unwrap());
    scene.authority.client_with(|side| side.pair(pair))
}

fn ask(scene: &Scene, side: &ClientSide, name: &str, host: &str) -> (u16, String) {
    let mut client = scene.try_client(side, name).unwrap();
    client.send(get(host));
    let response = client.response();
    (response.status(), response.text())
}

fn server(verify: &str) -> String {
    format!(
        "server {{ listen {{listen}} ssl; server_name a.test; {{a}} ssl_client_certificate {{ca}}; \
         ssl_verify_client {verify}; return 200 here; }}"
    )
}

#[test]
fn a_certificate_can_be_required() {
    let scene = Scene::new(&server("on"), &[]);
    let good = scene.authority.issue(&["client"]);
    assert_eq!(ask(&scene, &with(&scene, Some(&good)), "a.test", "a.test"), (200, "here".to_owned()));
    let (status, text) = ask(&scene, &with(&scene, None), "a.test", "a.test");
    assert!(status == 400 && text.contains("No required SSL certificate was sent"), "{status} {text}");
    scene.gateway.logged("client sent no required SSL certificate");
    let stranger = Authority::new("Test Authority").issue(&["client"]);
    let (status, text) = ask(&scene, &with(&scene, Some(&stranger)), "a.test", "a.test");
    assert!(status == 400 && text.contains("The SSL certificate error"), "{status} {text}");
    scene.gateway.logged("client SSL certificate verify error: (");
}

#[test]
fn a_certificate_can_be_optional() {
    let scene = Scene::new(&server("optional"), &[]);
    assert_eq!(ask(&scene, &with(&scene, None), "a.test", "a.test"), (200, "here".to_owned()));
    let stranger = Authority::new("Another Authority").issue(&["client"]);
    assert_eq!(ask(&scene, &with(&scene, Some(&stranger)), "a.test", "a.test").0, 400);
    let scene = Scene::new(&server("optional_no_ca"), &[]);
    assert_eq!(ask(&scene, &with(&scene, Some(&stranger)), "a.test", "a.test").0, 200);
}

/// Row T7.
#[test]
fn server_with_client_certificates_needs_its_own_handshake() {
    let two = format!("server {{ listen {{listen}} ssl; server_name b.test; {{b}} return 200 b; }} {}", server("on"));
    let scene = Scene::new(&two, &[]);
    let good = scene.authority.issue(&["client"]);
    // A handshake with b.test, which requires nothing, and then a request for a.test.
    assert_eq!(ask(&scene, &with(&scene, Some(&good)), "b.test", "a.test").0, 421);
    scene.gateway.logged("client attempted to request the server name different from the one that was negotiated");
    assert_eq!(ask(&scene, &with(&scene, Some(&good)), "a.test", "b.test"), (200, "b".to_owned()));
    // Without a name the default server's handshake counts, which has seen no certificate.
    let nameless = ask(&scene, &nameless(&good), "127.0.0.1", "a.test");
    assert!(nameless.0 == 400 && nameless.1.contains("No required SSL certificate"), "{nameless:?}");
}

#[test]
fn client_certificate_counts_only_for_its_servers_authority() {
    let two = "server { listen {listen} ssl; server_name b.test; {b} ssl_client_certificate {at}/b.crt; \
                   ssl_verify_client optional_no_ca; return 200 b; } \
               server { listen {listen} ssl; server_name a.test; {a} ssl_client_certificate {ca}; \
                   ssl_verify_client optional; return 200 [$ssl_client_verify,$ssl_client_s_dn]; }";
    let scene = Scene::new(two, &[]);
    let shown = scene.authority.issue(&["client"]);
    assert_eq!(ask(&scene, &with(&scene, Some(&shown)), "a.test", "a.test").1, "[SUCCESS,CN=client]");
    // Without a name the default server requires the certificate, and it trusts another authority.
    assert_eq!(ask(&scene, &nameless(&shown), "127.0.0.1", "a.test").1, "[NONE,]");
}

/// Its handshakes are those of the default server, so requests are checked.
#[test]
fn server_without_certificate_requires_client_certificates() {
    for (verify, with_certificate) in [("off", 400), ("optional", 200), ("on", 200)] {
        let two = format!(
            "{} server {{ listen {{listen}} ssl; server_name b.test; ssl_client_certificate {{ca}}; ssl_verify_client on; \
             return 200 b; }}",
            server(verify)
        );
        let scene = Scene::new(&two, &[]);
        let shown = scene.authority.issue(&["client"]);
        assert_eq!(ask(&scene, &nameless(&shown), "b.test", "b.test").0, with_certificate, "{verify}");
        let none = ClientSide::new(tls::Trust::Anyone).build().unwrap();
        let (status, text) = ask(&scene, &none, "b.test", "b.test");
        assert!(status == 400 && text.contains("No required SSL certificate was sent"), "{verify}: {status} {text}");
    }
}

/// A client that sends no name, since it connects to an IP address.
fn nameless(shown: &Issued) -> ClientSide {
    let pair = Pair::from_pem(shown.chain.as_bytes(), shown.key.as_bytes(), b"").unwrap();
    ClientSide::new(tls::Trust::Anyone).pair(Some(pair)).build().unwrap()
}
