//! OCSP for clients' certificates.

use crate::ocsp::{Files, LAST_REQUEST, Scene, s_client};
use std::net::SocketAddr;
use testkit::{Habit, Talk, names_responder, until};

/// Shows the result of the client's verification, also if it is refused.
const VERIFIED: &str = "ssl_verify_client on; ssl_verify_depth 2; ssl_client_certificate {at}/ca.pem; \
     error_page 495 =200 /refused; location = /refused { return 200 \"[$ssl_client_verify]\"; } \
     location / { return 200 \"[$ssl_client_verify]\"; }";

/// The server's answer to a client with this certificate.
fn verified(files: &Files, to: SocketAddr, client: &str) -> String {
    let at = |end: &str| files.folder.path().join(format!("{client}.{end}")).display().to_string();
    let said = s_client(to, &["-cert", &at("crt"), "-key", &at("key"), "-cert_chain", &at("crt")], LAST_REQUEST);
    let rest = said.rsplit_once("\r\n\r\n[").unwrap_or_else(|| panic!("no answer: {said}")).1;
    rest.split_once(']').unwrap().0.to_owned()
}

/// Files with clients: number 20 is good, 21 is revoked, 22 is unknown.
fn files() -> Files {
    let files = Files::new();
    for (name, serial) in [("good", 20), ("revoked", 21), ("unknown", 22)] {
        files.write(name, &files.responder.issue(&files.authority, &["client"], serial));
    }
    files.responder.note(20, 'V');
    files.responder.note(21, 'R');
    files
}

/// Row T8.
#[test]
fn client_certificate_needs_a_good_ocsp_status_as_in_nginx() {
    let words = format!("ssl_ocsp on; {VERIFIED}");
    let scene = Scene::start(files(), &words);
    let nginx = scene.nginx(&words);
    let servers = [Some(scene.gateway.address()), nginx.as_ref().map(|nginx| nginx.address)];
    for (client, expected) in [
        ("good", "SUCCESS"),
        ("revoked", "FAILED:certificate revoked"),
        ("unknown", "FAILED:certificate status unknown"),
    ] {
        for server in servers.into_iter().flatten() {
            assert_eq!(verified(&scene.files, server, client), expected);
        }
    }
    scene
        .gateway
        .logged("client SSL certificate verify error: certificate revoked while reading client request headers");
    scene.files.responder.set(Habit::Says(b"HTTP/1.0 500 No\r\n\r\n".to_vec()));
    for server in servers.into_iter().flatten() {
        assert_eq!(verified(&scene.files, server, "good"), "FAILED:certificate status request failed");
    }
    let line = scene.gateway.logged("OCSP responder sent status 500");
    assert!(line.contains(" [error] ") && line.contains(" while requesting certificate status, responder: "), "{line}");
}

#[test]
fn each_handshake_asks_unless_there_is_a_cache() {
    let asked_for_two = |words: &str| {
        let scene = Scene::start(files(), &format!("ssl_ocsp on; {words} {VERIFIED}"));
        for _ in 0..2 {
            assert_eq!(verified(&scene.files, scene.gateway.address(), "good"), "SUCCESS");
            assert_eq!(verified(&scene.files, scene.gateway.address(), "revoked"), "FAILED:certificate revoked");
        }
        scene.files.responder.asked().len()
    };
    assert_eq!(asked_for_two(""), 4);
    assert_eq!(asked_for_two("ssl_ocsp_cache shared:ocsp:1m;"), 2);
}

#[test]
fn authorities_between_are_asked_about_unless_only_the_leaf_is() {
    let files = files();
    let url = files.responder.url();
    let between = files.authority.under("Between", |params| names_responder(params, 30, &url));
    files.responder.note(30, 'R');
    // The leaf's issuer has a responder of its own.
    let own = testkit::Responder::start(&between);
    own.note(31, 'V');
    let mut leaf = own.issue(&between, &["client"], 31);
    leaf.chain.push_str(&between.pem());
    files.write("leaf", &leaf);
    let scene = Scene::start(files, &format!("ssl_ocsp on; {VERIFIED}"));
    assert_eq!(verified(&scene.files, scene.gateway.address(), "leaf"), "FAILED:certificate revoked");
    assert_eq!((own.asked().len(), scene.files.responder.asked().len()), (1, 1));
    if let Some(nginx) = scene.nginx(&format!("ssl_ocsp on; {VERIFIED}")) {
        assert_eq!(verified(&scene.files, nginx.address, "leaf"), "FAILED:certificate revoked");
    }
    let words = format!("ssl_ocsp leaf; {VERIFIED}");
    let nginx = scene.nginx(&words);
    let scene = Scene::start(scene.files, &words);
    for server in [Some(scene.gateway.address()), nginx.as_ref().map(|nginx| nginx.address)].into_iter().flatten() {
        assert_eq!(verified(&scene.files, server, "leaf"), "SUCCESS");
    }
}

#[test]
fn silent_responder_stalls_only_its_own_clients() {
    let files = files();
    files.responder.set(Habit::Silent);
    let words = VERIFIED.replace("ssl_verify_client on", "ssl_verify_client optional; client_header_timeout 2s");
    let scene = Scene::start(files, &format!("ssl_ocsp on; {words}"));
    let pair = std::fs::read(scene.files.folder.path().join("good.crt")).unwrap();
    let key = std::fs::read(scene.files.folder.path().join("good.key")).unwrap();
    let pair = tls::Pair::from_pem(&pair, &key, b"").unwrap();
    let shown = scene.files.authority.client_with(|side| side.pair(Some(pair)));
    let mut waits = Talk::connect_secure(scene.gateway.address(), &shown, "a.test").unwrap();
    waits.send(LAST_REQUEST);
    until("the responder is asked", || (!scene.files.responder.asked().is_empty()).then_some(()));
    let side = scene.files.authority.client();
    let mut other = Talk::connect_secure(scene.gateway.address(), &side, "a.test").unwrap();
    other.send(LAST_REQUEST);
    assert_eq!(other.response().text(), "[NONE]");
    // The deadline of a handshake ends it, and no part of the request was served.
    assert_eq!(waits.rest().0, b"");
    scene.gateway.logged("client timed out (110: Connection timed out) while SSL handshaking");
}

#[test]
fn a_session_is_asked_about_again_when_it_is_resumed() {
    let scene = Scene::start(files(), &format!("ssl_ocsp on; {VERIFIED}"));
    let read = |end: &str| std::fs::read(scene.files.folder.path().join(format!("good.{end}"))).unwrap();
    let pair = tls::Pair::from_pem(&read("crt"), &read("key"), b"").unwrap();
    let side = scene.files.authority.client_with(|side| side.pair(Some(pair)));
    let ask = || {
        let mut client = Talk::connect_secure(scene.gateway.address(), &side, "a.test").unwrap();
        client.send(LAST_REQUEST);
        let text = client.response().text();
        (client.session().is_resumed(), text)
    };
    assert_eq!(ask(), (false, "[SUCCESS]".to_owned()));
    scene.files.responder.note(20, 'R');
    assert_eq!(ask(), (true, "[FAILED:certificate revoked]".to_owned()));
}
