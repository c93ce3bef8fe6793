//! Which name SNI has, and which connections belong to it.

use crate::upstream_tls::peer::{Authority, SecurePeer};
use crate::upstream_tls::site::{ask, site, text};
use testkit::Gateway;

fn peer() -> SecurePeer {
    SecurePeer::counting(Authority::new("Authority").usual().side())
}

/// The names in SNI, one for each connection.
fn names(peer: &SecurePeer) -> Vec<Option<String>> {
    peer.met().into_iter().map(|met| met.sni).collect()
}

#[test]
fn sends_no_name_by_default() {
    let peer = peer();
    let gateway = site(peer.address(), "");
    assert_eq!(ask(&gateway, "/x").text(), "1");
    let met = peer.met().remove(0);
    assert_eq!((met.sni, met.protocol.as_str(), met.targets), (None, "TLSv1.3", vec!["/x".to_owned()]));
}

#[test]
fn sends_the_host_of_proxy_pass_without_its_port() {
    let peer = peer();
    let gateway = site(peer.address(), "proxy_ssl_server_name on;");
    ask(&gateway, "/");
    assert_eq!(names(&peer), [Some("app".to_owned())]);
    let port = peer.address().port();
    let conf = format!(
        "events {{}} http {{ access_log off; server {{ listen {{listen}}; proxy_ssl_server_name on;
            location /name {{ proxy_pass https://localhost:{port}; }}
            location /address {{ proxy_pass https://127.0.0.1:{port}; }}
            location /other {{ proxy_pass https://127.0.0.1:{port}; proxy_ssl_name A.test:99; }}
            location /own {{ proxy_pass https://127.0.0.1:{port}; proxy_ssl_name $arg_name:99; }} }} }}"
    );
    let gateway = Gateway::start(&conf, &[]);
    for target in ["/name", "/address", "/other", "/own?name=b.test", "/own"] {
        assert_eq!(ask(&gateway, target).status(), 200, "{target}");
    }
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(names(&peer)[1..], [name("localhost"), None, name("a.test"), name("b.test"), None]);
}

#[test]
fn p08_connections_of_two_names_are_never_shared() {
    let peer = peer();
    let conf = "events {} http { access_log off; upstream app { server {upstream:0}; keepalive 8; }
        server { listen {listen}; proxy_ssl_server_name on; 
            location /a { proxy_pass https://app; proxy_ssl_name a.test; }
            location /b { proxy_pass https://app; proxy_ssl_name b.test; }
            location /c { proxy_pass https://app; proxy_ssl_name b.test; proxy_ssl_verify_depth 2; }
            location /own { proxy_pass https://app; proxy_ssl_name $arg_name; } } }";
    let mut gateway = Gateway::start(conf, &[peer.address()]);
    let own = ["/a", "/b", "/c", "/own?name=a.test", "/own?name=b.test", "/own?name=c.test"];
    for round in 1..=2 {
        for target in own {
            ask(&gateway, target);
        }
        // Names from requests share connections with equal names that are written.
        assert_eq!(peer.met().len(), 4, "round {round}: {:?}", names(&peer));
    }
    gateway.reload(conf);
    for target in &own[..3] {
        ask(&gateway, target);
    }
    let met = peer.met();
    assert_eq!(met.len(), 4, "a reload keeps the connections");
    for met in met {
        let is_of = |target: &String| match met.sni.as_deref() {
            Some("a.test") => ["/a", "/own?name=a.test"].contains(&target.as_str()),
            Some("b.test") => ["/b", "/c", "/own?name=b.test"].contains(&target.as_str()),
            _ => target == "/own?name=c.test",
        };
        assert!(met.targets.iter().all(is_of), "{met:?}");
    }
}

#[test]
fn a_url_with_variables_leads_over_tls_or_in_clear() {
    let (secure, plain) = (peer(), testkit::Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"));
    let conf = "events {} http { access_log off; upstream app { server {upstream:0}; }
        server { listen {listen}; proxy_ssl_server_name on;
            location /both { proxy_pass $arg_scheme://$arg_to; }
            location /secure { proxy_pass https://$arg_to/x; proxy_set_header X-Port $proxy_port; } } }";
    let gateway = Gateway::start(conf, &[secure.address()]);
    let (to_secure, to_plain) = (secure.address(), plain.address());
    assert_eq!(ask(&gateway, "/both?scheme=https&to=app").text(), "1");
    assert_eq!(ask(&gateway, &format!("/both?scheme=https&to={to_secure}")).status(), 200);
    assert_eq!(ask(&gateway, &format!("/both?scheme=HTTP&to={to_plain}")).text(), "plain");
    // It reuses the connection of the other location.
    assert_eq!(ask(&gateway, &format!("/secure?to={to_secure}")).text(), "2");
    assert_eq!(names(&secure), [Some("app".to_owned()), None]);
    assert_eq!(secure.met()[1].targets[1], "/x");
    assert_eq!(ask(&gateway, "/both?scheme=ftp&to=app").status(), 500);
    gateway.logged("invalid URL prefix in \"ftp://app\"");
}

#[test]
fn a_name_that_is_none_fails_the_request_alone() {
    let peer = peer();
    let gateway =
        Gateway::start(&text(1, "", "proxy_ssl_server_name on; proxy_ssl_name $arg_name;"), &[peer.address()]);
    assert_eq!(ask(&gateway, "/?name=a..test").status(), 502);
    gateway.logged("\"a..test\" is not a host name or an IP address while SSL handshaking to upstream");
    assert_eq!(ask(&gateway, "/?name=a.test").status(), 200);
}
