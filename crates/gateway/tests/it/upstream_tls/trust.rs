//! Which certificates of upstreams are trusted, and which certificate the gateway shows.

use crate::upstream_tls::peer::{Authority, Files, Issued, SecurePeer};
use crate::upstream_tls::site::{ask, fails, site, text};
use rcgen::{DnType, SanType, date_time_ymd};
use std::sync::Arc;
use testkit::Gateway;
use tls::{ClientCheck, Protocol, Protocols};

/// A gateway that verifies with this authority and name, and a peer with this certificate.
fn verifying(issued: &Issued, authority: &str, name: &str) -> (SecurePeer, Gateway) {
    let files = Files::new();
    let peer = SecurePeer::counting(issued.side());
    let words = format!(
        "proxy_ssl_verify on; proxy_ssl_name {name}; proxy_ssl_trusted_certificate {};",
        files.write("ca.pem", authority)
    );
    let gateway = site(peer.address(), &words);
    (peer, gateway)
}

#[test]
fn a_certificate_of_the_authority_and_for_the_name_is_believed() {
    let authority = Authority::new("Authority");
    for name in ["a.test", "127.0.0.1", "B.test:8443"] {
        let (peer, gateway) = verifying(&authority.usual(), &authority.pem, name);
        assert_eq!(ask(&gateway, "/").text(), "1", "{name}");
        assert_eq!(peer.met()[0].sni, None);
    }
}

#[test]
fn listed_names_count_in_place_of_the_name_for_sni() {
    let authority = Authority::new("Authority");
    let issued = || {
        authority.issue(&["a.test", "*.wild.test"], |leaf| {
            leaf.subject_alt_names.push(SanType::URI("spiffe://a.test/shop".try_into().unwrap()));
            leaf.distinguished_name.push(DnType::CommonName, "common.test");
        })
    };
    let with_names = |names: &str| {
        let words = format!("sni.test; proxy_ssl_server_name on; proxy_ssl_verify_san {names}");
        verifying(&issued(), &authority.pem, &words)
    };
    for names in [
        "DNS:a.test",
        "DNS:A.Test",
        "DNS:x.wild.test",
        "DNS:*.wild.test",
        "URI:spiffe://a.test/shop",
        "DNS:b.test URI:spiffe://a.test/other DNS:a.test",
    ] {
        let (peer, gateway) = with_names(names);
        assert_eq!(ask(&gateway, "/").text(), "1", "{names}");
        assert_eq!(peer.met()[0].sni.as_deref(), Some("sni.test"));
    }
    for names in [
        "DNS:sni.test",
        "DNS:common.test",
        "DNS:x.y.wild.test",
        "DNS:spiffe://a.test/shop",
        "URI:a.test",
        "URI:spiffe://a.test/SHOP",
        "URI:spiffe://a.test/shop/x",
    ] {
        let (peer, gateway) = with_names(names);
        fails(&gateway, 502, &format!("upstream SSL certificate does not match \"{names}\" while SSL handshaking"));
        assert!(peer.met().iter().all(|met| met.targets.is_empty()), "{names}");
    }
    // The name alone would match; the authority is asked all the same.
    let other = Authority::new("Other");
    let (_peer, gateway) = verifying(&issued(), &other.pem, "a.test; proxy_ssl_verify_san DNS:a.test");
    fails(&gateway, 502, "upstream SSL certificate verify error: (21:unable to verify the first certificate)");
}

#[test]
fn connections_are_not_shared_between_different_listed_names() {
    let (authority, files) = (Authority::new("Authority"), Files::new());
    let peer = SecurePeer::counting(authority.usual().side());
    let trusted = files.write("ca.pem", &authority.pem);
    let conf = format!(
        "events {{}} http {{ access_log off; upstream app {{ server {{upstream:0}}; keepalive 8; }}
            proxy_ssl_verify on; proxy_ssl_name a.test; proxy_ssl_trusted_certificate {trusted};
            server {{ listen {{listen}};
                location /good {{ proxy_pass https://app; proxy_ssl_verify_san DNS:b.test; }}
                location /same {{ proxy_pass https://app; proxy_ssl_verify_san DNS:b.test; }}
                location /bad {{ proxy_pass https://app; proxy_ssl_verify_san DNS:c.test; }} }} }}"
    );
    let gateway = Gateway::start(&conf, &[peer.address()]);
    for (target, status) in [("/good", 200), ("/bad", 502), ("/same", 200), ("/bad", 502)] {
        assert_eq!(ask(&gateway, target).status(), status, "{target}");
    }
    let served = peer.met().into_iter().filter(|met| !met.targets.is_empty()).collect::<Vec<_>>();
    assert_eq!(served.len(), 1, "{served:?}");
    assert_eq!(served[0].targets, ["/good", "/same"]);
}

#[test]
fn certificates_that_do_not_verify_are_named_as_in_nginx() {
    let (authority, other) = (Authority::new("Authority"), Authority::new("Other"));
    let place = "while SSL handshaking to upstream";
    let (_peer, gateway) = verifying(&authority.usual(), &other.pem, "a.test");
    let unknown = "upstream SSL certificate verify error: (21:unable to verify the first certificate)";
    fails(&gateway, 502, &format!("{unknown} {place}"));
    let (_peer, gateway) = verifying(&authority.usual(), &authority.pem, "c.test");
    fails(&gateway, 502, &format!("upstream SSL certificate does not match \"c.test\" {place}"));
    let old = authority.issue(&["a.test"], |leaf| {
        leaf.not_before = date_time_ymd(2001, 1, 1);
        leaf.not_after = date_time_ymd(2002, 1, 1);
    });
    let (_peer, gateway) = verifying(&old, &authority.pem, "a.test");
    fails(&gateway, 502, &format!("upstream SSL certificate verify error: (10:certificate has expired) {place}"));
    let own = self_signed();
    let (_peer, gateway) = verifying(&own, &authority.pem, "a.test");
    fails(&gateway, 502, &format!("upstream SSL certificate verify error: (18:self-signed certificate) {place}"));
}

fn self_signed() -> Issued {
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    // As `openssl req -x509` generates them.
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    Issued { chain: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

#[test]
fn a_self_signed_certificate_is_believed_where_it_is_named() {
    let own = self_signed();
    let (_peer, gateway) = verifying(&own, &own.chain, "a.test");
    assert_eq!(ask(&gateway, "/").text(), "1");
    let (_peer, gateway) = verifying(&own, &own.chain, "b.test");
    fails(&gateway, 502, "upstream SSL certificate does not match \"b.test\"");
}

#[test]
fn a_common_name_counts_where_no_other_name_is_listed() {
    let authority = Authority::new("Authority");
    let named = |name: &str| authority.issue(&[], |leaf| leaf.distinguished_name.push(DnType::CommonName, name));
    let (_peer, gateway) = verifying(&named("old.test"), &authority.pem, "old.test");
    assert_eq!(ask(&gateway, "/").text(), "1");
    let (_peer, gateway) = verifying(&named("*.old.test"), &authority.pem, "x.old.test");
    assert_eq!(ask(&gateway, "/").text(), "1");
    let both = authority.issue(&["a.test"], |leaf| leaf.distinguished_name.push(DnType::CommonName, "old.test"));
    let (_peer, gateway) = verifying(&both, &authority.pem, "old.test");
    fails(&gateway, 502, "upstream SSL certificate does not match \"old.test\"");
}

#[test]
fn client_certificate_sent_on_request() {
    let (authority, clients) = (Authority::new("Authority"), Authority::new("Clients"));
    let shown = clients.issue(&["gateway.test"], |_| ());
    let files = Files::new();
    let (chain, key) = (files.write("client.pem", &shown.chain), files.write("client.key", &shown.key));
    let check = || Arc::new(ClientCheck::new(clients.pem.as_bytes(), b"").unwrap());
    let peer = SecurePeer::counting(authority.usual().side().client_check(check()));
    let conf = format!(
        "events {{}} http {{ access_log off; upstream app {{ server {{upstream:0}}; keepalive 8; }}
            server {{ listen {{listen}}; location /without {{ proxy_pass https://app; }}
                location /with {{ proxy_pass https://app; proxy_ssl_certificate {chain}; proxy_ssl_certificate_key {key}; }} }} }}"
    );
    let gateway = Gateway::start(&conf, &[peer.address()]);
    for target in ["/with", "/without", "/with", "/without"] {
        assert_eq!(ask(&gateway, target).status(), 200);
    }
    let met: Vec<_> = peer.met().into_iter().map(|met| (met.client, met.targets)).collect();
    let twice = |target: &str| vec![target.to_owned(), target.to_owned()];
    assert_eq!(met, [("SUCCESS".to_owned(), twice("/with")), ("NONE".to_owned(), twice("/without"))]);
}

#[test]
fn client_certificate_from_a_variable_separates_connections() {
    let (authority, clients) = (Authority::new("Authority"), Authority::new("Clients"));
    let files = Files::new();
    for name in ["one", "two"] {
        let shown = clients.issue(&[name], |_| ());
        files.write(&format!("{name}.crt"), &shown.chain);
        files.write(&format!("{name}.key"), &shown.key);
    }
    let check = || Arc::new(ClientCheck::new(clients.pem.as_bytes(), b"").unwrap());
    let peer = SecurePeer::counting(authority.usual().side().client_check(check()));
    let words = format!(
        "proxy_ssl_certificate $chain; proxy_ssl_certificate_key {0}/$arg_who.key; proxy_ssl_certificate_cache max=9;",
        files.path()
    );
    let map = format!("map $arg_who $chain {{ default {}/$arg_who.crt; '' ''; }}", files.path());
    let conf = text(1, "keepalive 8;", &words).replacen("http {", &format!("http {{ {map}"), 1);
    let gateway = Gateway::start(&conf, &[peer.address()]);
    for target in ["/?who=one", "/?who=two", "/", "/?who=one", "/?who=two", "/"] {
        assert_eq!(ask(&gateway, target).status(), 200);
    }
    let mut met: Vec<_> = peer.met().into_iter().map(|met| (met.targets, met.client)).collect();
    met.sort();
    let of = |target: &str, client: &str| (vec![target.to_owned(); 2], client.to_owned());
    assert_eq!(met, [of("/", "NONE"), of("/?who=one", "SUCCESS"), of("/?who=two", "SUCCESS")]);
    assert_eq!(ask(&gateway, "/?who=three").status(), 500);
    let line = gateway.logged("three.crt\": open() failed (2: No such file or directory)");
    assert!(line.contains("cannot load certificate") && line.contains("while SSL handshaking to upstream"), "{line}");
    assert_eq!(ask(&gateway, "/?who=one").status(), 200);
}

#[test]
fn protocols_are_those_that_both_want() {
    let authority = Authority::new("Authority");
    let old = || authority.usual().side().protocols(Protocols::only(Protocol::Tls12));
    let peer = SecurePeer::counting(old());
    let gateway = site(peer.address(), "");
    assert_eq!(ask(&gateway, "/").text(), "1");
    assert_eq!(peer.met()[0].protocol, "TLSv1.2");
    let peer = SecurePeer::counting(old());
    let gateway = site(peer.address(), "proxy_ssl_protocols TLSv1.3;");
    fails(&gateway, 502, "SSL_do_handshake() failed (SSL: error:0A");
    let peer = SecurePeer::counting(authority.usual().side());
    let gateway = site(peer.address(), "proxy_ssl_conf_command MaxProtocol TLSv1.2;");
    assert_eq!(ask(&gateway, "/").text(), "1");
    assert_eq!(peer.met()[0].protocol, "TLSv1.2");
}
