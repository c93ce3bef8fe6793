//! Kept connections, resumed sessions, and certificates that change.

use crate::tls::scene::{Scene, get};
use std::fs;
use testkit::{End, Peer, Talk, until};
use tls::{Protocol, Protocols};

const ONE: &str = "server { listen {listen} ssl; server_name a.test; {a} \
                   location / { return 200 here; } \
                   location /up { proxy_pass http://{upstream:0}; proxy_set_header Upgrade $http_upgrade; \
                       proxy_set_header Connection upgrade; } \
                   location /files/ { alias {at}/; } }";

fn peer() -> Peer {
    Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            if request.value("Upgrade").is_some() {
                talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
                while let Some(bytes) = talk.whatever_came() {
                    talk.send(bytes);
                }
                return;
            }
            let body = request.body.len();
            let text = format!("{body} bytes");
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
        }
    })
}

#[test]
fn connection_serves_files_bodies_and_requests_in_turn() {
    let peer = peer();
    let scene = Scene::new(&ONE.replace("location / {", "client_max_body_size 10m; location / {"), &[peer.address()]);
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    fs::write(scene.path("large"), &large).unwrap();
    let mut client = scene.client("a.test");
    client.send(get("a.test"));
    assert_eq!(client.response().text(), "here");
    client.send("GET /files/large HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.response().body == large);
    client.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", large.len()));
    client.send(&large);
    assert_eq!(client.response().text(), "3000000 bytes");
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().text(), "here");
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn a_tunnel_goes_through_in_both_directions() {
    let peer = peer();
    let scene = Scene::new(ONE, &[peer.address()]);
    let mut client = scene.client("a.test");
    client.send("GET /up HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.response().status(), 101);
    for round in 0..20 {
        let bytes = vec![round; 40_000];
        client.send(&bytes);
        client.expect(&bytes);
    }
    client.close();
    scene.gateway.until_totals("it has ended", |totals| totals.active == 0);
}

#[test]
fn sessions_resume_across_versions_workers_and_reloads() {
    let peer = peer();
    let mut scene = Scene::of_workers(2, ONE, &[peer.address()]);
    for version in [Protocol::Tls13, Protocol::Tls12] {
        let side = scene.authority.client_with(|side| side.protocols(Protocols::only(version)));
        let reused = |scene: &Scene| {
            let mut client = scene.try_client(&side, "a.test").unwrap();
            client.send(get("a.test"));
            assert_eq!(client.response().text(), "here");
            client.session().is_resumed()
        };
        assert!(!reused(&scene));
        for _ in 0..4 {
            assert!(reused(&scene));
        }
        scene.reload(ONE);
        assert!(reused(&scene));
    }
}

/// Row T7.
#[test]
fn a_session_of_one_server_does_not_enter_another() {
    let scene = Scene::new(
        "ssl_session_cache shared:all:1m; ssl_session_tickets off; \
         server { listen {listen} ssl; server_name a.test; {a} return 200 here; } \
         server { listen {listen} ssl; server_name b.test; {b} return 200 here; }",
        &[],
    );
    let side = scene.authority.client();
    let reused = |name: &str| {
        let mut client = scene.try_client(&side, name).unwrap();
        client.send(get(name));
        assert_eq!(client.response().text(), "here");
        client.session().is_resumed()
    };
    assert_eq!([reused("a.test"), reused("a.test"), reused("b.test"), reused("b.test")], [false, true, false, true]);
}

#[test]
fn new_certificates_apply_and_broken_ones_do_not() {
    let scene = Scene::new("server { listen {listen} ssl; server_name a.test; {a} return 200 a; }", &[]);
    let shown = |scene: &Scene| {
        let client = scene.client("a.test");
        client.session().peer_certificate().unwrap().serial()
    };
    let mut kept = scene.client("a.test");
    let first = shown(&scene);
    scene.authority.issue(&["a.test"]).write(scene.folder.path(), "a");
    let changed = [scene.path("a.crt"), scene.path("a.key")];
    let others = scene.gateway.shared().renew_certificates(&[scene.path("b.crt")], &|path| fs::read(path));
    assert_eq!((others, shown(&scene)), (gateway::Renewal::default(), first.clone()), "other files");
    let renewal = scene.gateway.shared().renew_certificates(&changed, &|path| fs::read(path));
    assert_eq!((renewal.renewed.len(), renewal.broken.len()), (1, 0), "{renewal:?}");
    let second = shown(&scene);
    assert_ne!(first, second);
    // A key that does not match the certificate.
    scene.authority.issue(&["a.test"]).write(scene.folder.path(), "other");
    fs::copy(scene.path("other.key"), scene.path("a.key")).unwrap();
    let renewal = scene.gateway.shared().renew_certificates(&changed, &|path| fs::read(path));
    assert!(renewal.renewed.is_empty() && renewal.broken[0].contains("does not belong"), "{renewal:?}");
    assert_eq!(shown(&scene), second);
    kept.send(get("a.test"));
    assert_eq!(kept.response().text(), "a");
}

#[test]
fn names_certificates_that_end_within_thirty_days_once() {
    let scene = Scene::new(
        "server { listen {listen} ssl; server_name a.test; {a} } server { listen {listen} ssl; server_name b.test; {b} }",
        &[],
    );
    let shared = scene.gateway.shared();
    let ends = shared.certificates_in_use().iter().map(|certificate| certificate.not_after).min().unwrap();
    let day = 24 * 3600;
    assert!(shared.ending_certificates(ends - 31 * day).is_empty());
    let warnings = shared.ending_certificates(ends - 29 * day);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("a.crt") && warnings[0].contains("expires in 29 days; renew it"), "{warnings:?}");
    assert!(shared.ending_certificates(ends + day + 1)[1].contains("has expired 1 days ago"));
}

#[test]
fn a_proxy_header_comes_ahead_of_the_handshake() {
    let scene = Scene::new(
        "server { listen {listen} ssl proxy_protocol; server_name a.test; {a} return 200 $proxy_protocol_addr; }",
        &[],
    );
    let mut session = tls::Session::client(&scene.authority.client(), "a.test").unwrap();
    let mut bytes = b"PROXY TCP4 192.0.2.7 192.0.2.8 1000 443\r\n".to_vec();
    let mut hello = Vec::new();
    session.take_output(&mut hello);
    bytes.append(&mut hello);
    let mut client = Talk::connect(scene.gateway.address());
    client.send(bytes);
    client.secure(session).unwrap();
    client.send(get("a.test"));
    assert_eq!(client.response().text(), "192.0.2.7");
}

#[test]
fn a_client_that_leaves_is_noticed_while_the_upstream_works() {
    let (begun, go_on) = (testkit::Signal::new(), testkit::Signal::new());
    let peer = Peer::script({
        let (begun, go_on) = (begun.clone(), go_on.clone());
        move |mut talk| {
            talk.request();
            begun.raise();
            talk.wait(&go_on);
        }
    });
    let scene = Scene::new(ONE, &[peer.address()]);
    let mut client = scene.client("a.test");
    client.send("GET /up HTTP/1.1\r\nHost: a.test\r\n\r\n");
    begun.wait();
    client.close();
    until("it is logged", || scene.gateway.access_lines(1)[0].starts_with("499 ").then_some(()));
    go_on.raise();
}
