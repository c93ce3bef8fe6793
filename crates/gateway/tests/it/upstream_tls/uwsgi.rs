//! `uwsgi_pass suwsgi://…`: uwsgi over TLS.

use crate::upstream_tls::peer::{Authority, Files, SecurePeer};
use testkit::Gateway;

/// Reads one packet, and answers with its parameters.
fn application(authority: &Authority) -> SecurePeer {
    SecurePeer::script(authority.usual().side(), |mut secure| {
        let mut packet = Vec::new();
        while packet.len() < 4 || packet.len() < 4 + usize::from(u16::from_le_bytes([packet[1], packet[2]])) {
            let Some(bytes) = secure.whatever_comes() else { return };
            packet.extend_from_slice(&bytes);
        }
        let text: String = packet[4..].iter().map(|&byte| if byte < b' ' { '.' } else { char::from(byte) }).collect();
        secure.send(format!("HTTP/1.1 200 OK\r\n\r\n{text}"));
        secure.close();
    })
}

fn gateway(peer: &SecurePeer, pass: &str) -> Gateway {
    let text = format!(
        "events {{}} http {{ upstream app {{ server {{upstream:0}}; }} map $host $to {{ default suwsgi://app; }} \
         map $host $bare {{ default app; }} server {{ listen {{listen}}; location / {{ \
         uwsgi_param WHAT $uri; {pass} }} }} }}"
    );
    Gateway::start(&text, &[peer.address()])
}

fn text(gateway: &Gateway) -> (u16, String) {
    let mut client = gateway.client();
    let response = client.get("/x", "");
    (response.status(), response.text())
}

#[test]
fn a_request_goes_to_the_application_over_tls() {
    let authority = Authority::new("Authority");
    let (peer, folder) = (application(&authority), Files::new());
    let trusted = folder.write("ca.pem", &authority.pem);
    let verified = format!(
        "uwsgi_ssl_verify on; uwsgi_ssl_name a.test; uwsgi_ssl_server_name on; uwsgi_ssl_trusted_certificate {trusted};"
    );
    for pass in [
        "uwsgi_pass suwsgi://app;".to_owned(),
        format!("uwsgi_pass SUWSGI://app; {verified}"),
        "uwsgi_pass $to;".to_owned(),
        "uwsgi_pass suwsgi://$bare;".to_owned(),
    ] {
        let gateway = gateway(&peer, &pass);
        let (status, text) = text(&gateway);
        assert!(status == 200 && text.contains("WHAT") && text.contains("/x"), "{pass}: {status} {text}");
    }
}

#[test]
fn an_application_that_does_not_verify_gets_no_request() {
    let peer = application(&Authority::new("Another"));
    let folder = Files::new();
    let trusted = folder.write("ca.pem", &Authority::new("Authority").pem);
    let pass = format!(
        "uwsgi_pass suwsgi://app; uwsgi_ssl_verify on; uwsgi_ssl_name a.test; uwsgi_ssl_trusted_certificate {trusted};"
    );
    let gateway = gateway(&peer, &pass);
    assert_eq!(text(&gateway).0, 502);
    let line = gateway.logged("upstream SSL certificate verify error");
    assert!(line.contains("upstream: \"suwsgi://127.0.0.1:"), "{line}");
}
