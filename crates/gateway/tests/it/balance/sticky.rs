//! `sticky`, over real sockets.

use crate::field::{Named, peers, sequence};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use testkit::{Gateway, Peer, Response, Signal, Talk};

use crate::balance::methods::text;

fn start(group: &str, addresses: &[SocketAddr]) -> Gateway {
    Gateway::start(&text(&[("app", group)], ""), addresses)
}

/// The cookie that a response sets, and its attributes.
fn set_cookie(answer: &Response) -> (String, String) {
    let cookie = answer.value("Set-Cookie").expect("a cookie is set");
    let (pair, attributes) = cookie.split_once("; ").unwrap_or((cookie, ""));
    (format!("Cookie: other=1; {pair}\r\n"), attributes.to_owned())
}

#[test]
fn a_cookie_brings_the_session_back_to_its_peer() {
    let (_peers, addresses) = peers(3);
    let gateway =
        start("sticky cookie srv; server {upstream:0}; server {upstream:1}; server {upstream:2};", &addresses);
    let mut client = Talk::connect(gateway.address());
    for name in ["a", "b", "c"] {
        let answer = client.get("/app", "");
        let (cookie, attributes) = set_cookie(&answer);
        assert_eq!((answer.peer().as_str(), attributes.as_str()), (name, ""));
        assert!(cookie.len() == "Cookie: other=1; srv=\r\n".len() + 32, "{cookie}");
        for _ in 0..3 {
            let answer = client.get("/app", &cookie);
            assert_eq!(answer.peer(), name);
            assert_eq!(set_cookie(&answer).0, cookie);
        }
    }
    assert_eq!(client.get("/app", "Cookie: srv=0123\r\n").status(), 200, "an unknown session is a new one");
}

#[test]
fn a_cookie_has_the_attributes_that_were_asked_for() {
    let (_peers, addresses) = peers(1);
    let sets = |parameters: &str| {
        let gateway = start(&format!("sticky cookie srv {parameters}; server {{upstream:0}} route=one;"), &addresses);
        let answer = Talk::connect(gateway.address()).get("/app?site=LAX&evil=no", "");
        answer.value("Set-Cookie").unwrap().to_owned()
    };
    assert_eq!(sets(""), "srv=one");
    assert_eq!(
        sets("domain=.example.com httponly secure samesite=lax path=/x"),
        "srv=one; domain=.example.com; httponly; secure; samesite=lax; path=/x"
    );
    assert_eq!(sets("expires=max"), "srv=one; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000");
    let timed = sets("expires=1h path=/app samesite=$arg_site");
    assert!(
        timed.starts_with("srv=one; expires=") && timed.ends_with(" GMT; max-age=3600; samesite=LAX; path=/app"),
        "{timed}"
    );
    assert_eq!(sets("samesite=$arg_evil domain=$arg_none"), "srv=one; samesite=strict");
}

#[test]
fn a_session_whose_peer_is_gone_gets_another_one() {
    let (mut peers, addresses) = peers(2);
    let servers = "sticky cookie srv; server {upstream:0} fail_timeout=1000s; server {upstream:1};";
    let gateway = start(servers, &addresses);
    let (cookie, _) = set_cookie(&Talk::connect(gateway.address()).get("/app", ""));
    drop(peers.remove(0));
    let answer = Talk::connect(gateway.address()).get("/app", &cookie);
    assert_eq!(answer.peer(), "b");
    let (moved, _) = set_cookie(&answer);
    assert_ne!(moved, cookie);
    assert_eq!(Talk::connect(gateway.address()).get("/app", &moved).peer(), "b");
}

#[test]
fn a_route_is_the_first_variable_that_has_a_value() {
    let (_peers, addresses) = peers(3);
    let gateway = start(
        "sticky route $cookie_route $arg_route; server {upstream:0} route=one; server {upstream:1} route=two; server {upstream:2} route=two;",
        &addresses,
    );
    let mut client = Talk::connect(gateway.address());
    for _ in 0..2 {
        assert_eq!(client.get("/app?route=two", "Cookie: route=one\r\n").peer(), "a");
    }
    // Two peers of one route take turns.
    let shared = sequence(&mut client, "/app?route=two", 4);
    assert!(shared == "bcbc" || shared == "cbcb", "{shared}");
    assert!(client.get("/app?route=two", "").value("Set-Cookie").is_none());
}

/// Peers that start a session if the request asks for it.
fn logins(count: u8) -> (Vec<Peer>, Vec<SocketAddr>) {
    let peers: Vec<Peer> = (0..count)
        .map(|index| {
            let name = char::from(b'a' + index);
            Peer::answering(move |request| {
                let session = request.target().split_once("login=").map(|(_, session)| session.to_owned());
                let cookie = session.map(|session| format!("Set-Cookie: sid={session}\r\n")).unwrap_or_default();
                format!("HTTP/1.1 200 OK\r\nX-Peer: {name}\r\n{cookie}Content-Length: 0\r\n\r\n").into_bytes()
            })
        })
        .collect();
    let addresses = peers.iter().map(Peer::address).collect();
    (peers, addresses)
}

#[test]
fn sessions_are_learned_from_responses() {
    let (_peers, addresses) = logins(3);
    for header in ["", "header"] {
        let gateway = start(
            &format!(
                "sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:64k timeout=1h {header};
                server {{upstream:0}}; server {{upstream:1}}; server {{upstream:2}};"
            ),
            &addresses,
        );
        let mut client = Talk::connect(gateway.address());
        let homes: Vec<String> = (0..6).map(|user| client.get(&format!("/app?login={user}"), "").peer()).collect();
        assert_eq!(homes.concat(), "abcabc");
        for (user, home) in homes.iter().enumerate() {
            for _ in 0..2 {
                assert_eq!(client.get("/app", &format!("Cookie: sid={user}\r\n")).peer(), *home, "{header}");
            }
        }
        // A name that no peer has issued is no session: the peers take turns.
        let strangers: Vec<String> = (0..6).map(|_| client.get("/app", "Cookie: sid=x\r\n").peer()).collect();
        assert!(["a", "b", "c"].iter().all(|name| strangers.iter().any(|peer| peer == name)), "{strangers:?}");
    }
}

#[test]
fn sessions_survive_a_reload_and_end_with_the_zones_size() {
    let (_peers, addresses) = logins(2);
    // 64 KiB hold 256 sessions.
    let conf = text(
        &[(
            "app",
            "sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:64k; server {upstream:0}; server {upstream:1};",
        )],
        "",
    );
    let mut gateway = Gateway::start(&conf, &addresses);
    let mut client = Talk::connect(gateway.address());
    let first = client.get("/app?login=first", "").peer();
    gateway.reload(&conf.replace("location /app", "location /new"));
    testkit::until("the new configuration", || {
        (Talk::connect(gateway.address()).get("/new", "").status() == 200).then_some(())
    });
    let mut client = Talk::connect(gateway.address());
    for _ in 0..3 {
        assert_eq!(client.get("/new", "Cookie: sid=first\r\n").peer(), first);
    }
    for user in 0..256 {
        client.get(&format!("/new?login={user}"), "");
    }
    let peers: Vec<String> = (0..4).map(|_| client.get("/new", "Cookie: sid=first\r\n").peer()).collect();
    assert!(peers.iter().any(|peer| *peer != first), "it was the one unused for longest: {peers:?}");
    let last = client.get("/new", "Cookie: sid=255\r\n").peer();
    assert_eq!(client.get("/new", "Cookie: sid=255\r\n").peer(), last);
}

#[test]
fn a_header_names_the_peer_and_brings_the_session_back() {
    let (_peers, addresses) = peers(2);
    let gateway =
        start("sticky header X-Server; server {upstream:0} route=one; server {upstream:1} route=two;", &addresses);
    let mut client = Talk::connect(gateway.address());
    for (peer, route) in [("a", "one"), ("b", "two")] {
        let answer = client.get("/app", "");
        assert_eq!((answer.peer().as_str(), answer.value("X-Server")), (peer, Some(route)));
        assert_eq!(client.get("/app", &format!("x-server: {route}\r\n")).peer(), peer);
    }
}

#[test]
fn two_upstreams_cannot_have_one_zone() {
    let (_peers, addresses) = peers(1);
    let learn = "sticky learn create=$upstream_cookie_s lookup=$cookie_s zone=same:64k; server {upstream:0};";
    let conf = text(&[("app", learn), ("other", learn)], "");
    let refused = std::panic::catch_unwind(|| Gateway::start(&conf, &addresses)).err().expect("refused");
    let message = refused.downcast_ref::<String>().expect("a message");
    assert!(message.contains("the zone \"same\" of \"sticky learn\" belongs to another upstream"), "{message}");
}

#[test]
fn a_session_that_names_a_backup_goes_to_the_primaries_when_they_are_well() {
    let (_peers, addresses) = peers(2);
    let servers = "server {upstream:0} route=one; server {upstream:1} route=two backup;";
    for (sticky, field) in [
        ("cookie srv", "Cookie: srv=two\r\n"),
        ("route $cookie_srv", "Cookie: srv=two\r\n"),
        ("header X-Server", "X-Server: two\r\n"),
    ] {
        let gateway = start(&format!("sticky {sticky}; {servers}"), &addresses);
        let mut client = Talk::connect(gateway.address());
        assert_eq!((0..3).map(|_| client.get("/app", field).peer()).collect::<String>(), "aaa", "{sticky}");
    }
}

#[test]
fn a_learned_session_returns_from_the_backup() {
    let is_ill = Arc::new(AtomicBool::new(true));
    let primary = Peer::script({
        let is_ill = Arc::clone(&is_ill);
        move |mut talk| {
            while talk.request().is_some() {
                if is_ill.load(Ordering::Relaxed) {
                    return talk.close();
                }
                talk.send("HTTP/1.1 200 OK\r\nX-Peer: primary\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    let (_peers, backups) = logins(2);
    let gateway = start(
        "sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=back:64k timeout=1h;
         server {upstream:0} fail_timeout=1s; server {upstream:1} backup; server {upstream:2} backup;",
        &[primary.address(), backups[0], backups[1]],
    );
    let mut client = Talk::connect(gateway.address());
    let ask = |client: &mut Talk| client.get("/app", "Cookie: sid=me\r\n").peer();
    let home = client.get("/app?login=me", "").peer();
    assert_eq!((0..3).map(|_| ask(&mut client)).collect::<String>(), home.repeat(3), "bound among the backups");
    is_ill.store(false, Ordering::Relaxed);
    testkit::until("the session to return", || (ask(&mut client) == "primary").then_some(()));
    assert_eq!(ask(&mut client), "primary");
}

/// A session that the backup has served goes back to the primary when that works again, and gets its cookie.
#[test]
fn a_session_leaves_the_backup_as_with_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let works = Signal::new();
    let primary = Peer::script({
        let works = works.clone();
        move |mut talk| {
            while talk.request().is_some() && works.is_raised() {
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nprimary");
            }
        }
    });
    let backup = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbackup");
    let text = "access_log off; proxy_http_version 1.1; proxy_set_header Connection '';
        upstream app { sticky cookie srv; server {upstream:0} fail_timeout=1s; server {upstream:1} backup; }
        server { listen {listen}; location / { proxy_pass http://app; } }";
    let sides = Sides::start(&nginx, text, &[primary.address(), backup.address()], &[]);
    let ask = |side: Side, cookie: &str| {
        let response = Talk::connect(sides.address(side, 0)).get("/", &format!("Cookie: {cookie}\r\n"));
        let cookie = response.value("Set-Cookie").and_then(|value| value.split(';').next()).unwrap_or_default();
        (response.text(), cookie.to_owned())
    };
    let both = [Side::Nginx, Side::Ours];
    let first = both.map(|side| ask(side, "srv=none"));
    assert!(first.iter().all(|(peer, cookie)| peer == "backup" && cookie.starts_with("srv=")), "{first:?}");
    works.raise();
    for (side, (_, of_backup)) in both.into_iter().zip(&first) {
        let back = testkit::until("the primary is tried again", || {
            let (peer, cookie) = ask(side, of_backup);
            (peer == "primary").then_some(cookie)
        });
        assert!(back.starts_with("srv=") && back != *of_backup, "{side:?} {back}");
        assert_eq!(ask(side, &back).0, "primary", "{side:?}");
    }
}
