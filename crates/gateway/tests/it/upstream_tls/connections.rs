//! TLS connections: kept, resumed, opened ahead of demand, moved between workers, turned into tunnels.

use crate::upstream_tls::peer::{Authority, Secure, SecurePeer};
use crate::upstream_tls::site::{GET, ask, site, text};
use testkit::{Gateway, Signal, until};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn counting() -> SecurePeer {
    SecurePeer::counting(Authority::new("Authority").usual().side())
}

fn scripted(script: impl Fn(Secure) + Send + Sync + 'static) -> SecurePeer {
    SecurePeer::script(Authority::new("Authority").usual().side(), script)
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let peer = counting();
    let gateway = site(peer.address(), "");
    for count in 1..=5 {
        assert_eq!(ask(&gateway, "/").text(), count.to_string());
    }
    assert_eq!(peer.met().len(), 1);
    let lines = gateway.access_lines(5);
    // How long the first one takes depends on what else the machine does.
    let connect = |line: &str| line.split("connect=").nth(1)?.split(' ').next()?.parse::<f64>().ok();
    assert!(connect(&lines[0]).is_some() && lines[0].contains("reused=0"), "{lines:?}");
    assert!(connect(&lines[4]) == Some(0.0) && lines[4].contains("reused=1"), "{lines:?}");
}

#[test]
fn bodies_come_whole_in_both_directions() {
    let body = "x".repeat(3_000_000);
    let peer = scripted(move |mut secure| {
        while secure.request().is_some() {
            secure.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    for location in ["", "proxy_request_buffering off;", "client_body_in_file_only clean;"] {
        let gateway = site(peer.address(), &format!("client_max_body_size 10m; {location}"));
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n{}", "y".repeat(2_000_000)));
        assert_eq!(client.response().body.len(), 3_000_000, "{location}");
    }
}

#[test]
fn session_resumes_only_with_its_peer_and_after_a_reload() {
    let once = || {
        scripted(|mut secure| {
            secure.request();
            secure.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            secure.close();
        })
    };
    let resumed = |peer: &SecurePeer| peer.met().iter().map(|met| met.resumed).collect::<Vec<_>>();
    let (one, other) = (once(), once());
    let conf = text(2, "", "proxy_ssl_server_name on; proxy_ssl_name a.test;");
    let mut gateway = Gateway::start(&conf, &[one.address(), other.address()]);
    for _ in 0..4 {
        assert_eq!(ask(&gateway, "/").text(), "ok");
    }
    assert_eq!((resumed(&one), resumed(&other)), (vec![false, true], vec![false, true]));
    gateway.reload(&conf);
    for _ in 0..2 {
        ask(&gateway, "/");
    }
    assert_eq!((resumed(&one)[2], resumed(&other)[2]), (true, true));
    let gateway = site(one.address(), "proxy_ssl_session_reuse off;");
    for _ in 0..2 {
        ask(&gateway, "/");
    }
    assert_eq!(resumed(&one)[3..], [false, false]);
}

#[test]
fn idle_connections_move_between_workers() {
    let peer = counting();
    let gateway = Gateway::start_workers(2, &text(1, "keepalive 4;", ""), &[peer.address()]);
    // The other worker finds the connection only once the first one has given it back.
    let is_idle = || (gateway.shared().pool_rows().first()?.idle == 1).then_some(());
    // The least loaded worker gets a new client, so two concurrent clients have different workers.
    for round in 0..4 {
        let (mut first, mut second) = (gateway.client(), gateway.client());
        gateway.until_totals("both are accepted", |totals| totals.active == 2);
        first.send(GET);
        assert_eq!(first.response().text(), (2 * round + 1).to_string());
        until("the connection is idle", is_idle);
        second.send(GET);
        assert_eq!(second.response().text(), (2 * round + 2).to_string());
        until("the connection is idle again", is_idle);
        drop((first, second));
        gateway.until_totals("both are gone", |totals| totals.active == 0);
    }
    assert_eq!(peer.met().len(), 1);
}

#[test]
fn connections_opened_ahead_handshake_and_read_tickets() {
    let peer = counting();
    let conf = text(1, "keepalive 4 floor=2;", "proxy_ssl_server_name on; proxy_ssl_name a.test;");
    let gateway = Gateway::start(&conf, &[peer.address()]);
    let is_shaken = |met: &crate::upstream_tls::peer::Met| met.sni.as_deref() == Some("a.test");
    until("two handshakes", || (peer.met().iter().filter(|met| is_shaken(met)).count() == 2).then_some(()));
    // The session tickets arrive after the handshake, while the connections are idle: the connections stay.
    for _ in 0..6 {
        ask(&gateway, "/");
    }
    let met = peer.met();
    assert_eq!(met.len(), 2, "{met:?}");
    assert_eq!(met.iter().map(|met| met.targets.len()).sum::<usize>(), 6);
    assert_eq!(gateway.error_log(), "");
}

#[test]
fn data_on_an_idle_connection_and_close_notify_end_it() {
    for closes in [false, true] {
        let sent = Signal::new();
        let peer = scripted({
            let sent = sent.clone();
            move |mut secure| {
                while secure.request().is_some() {
                    secure.send(HELLO);
                    if secure.serial() == 0 {
                        if closes {
                            // The socket stays open: only TLS ends.
                            let stream = secure.stream.try_clone().unwrap();
                            secure.close();
                            sent.raise();
                            let _ = std::io::Read::read(&mut &stream, &mut [0; 100]);
                            return;
                        }
                        secure.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
                        sent.raise();
                    }
                }
            }
        });
        let gateway = site(peer.address(), "");
        assert_eq!(ask(&gateway, "/").text(), "hello");
        sent.wait();
        assert_eq!(ask(&gateway, "/").text(), "hello", "closes: {closes}");
        assert_eq!(peer.met().len(), 2);
        assert_eq!(gateway.error_log(), "");
    }
}

#[test]
fn p03_lost_post_is_repeated_only_with_proof() {
    // The peer has read the whole request, so it may have executed it.
    let peer = scripted(|mut secure| {
        while secure.request().is_some() {
            if secure.serial() == 0 && secure.requests_here() > 1 {
                return secure.close();
            }
            secure.send(HELLO);
        }
    });
    let gateway = site(peer.address(), "retry_unsent on;");
    let mut client = gateway.client();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nworld";
    client.send(post);
    assert_eq!(client.response().text(), "hello");
    client.send(post);
    assert_eq!(client.response().status(), 502);
    assert_eq!(peer.met()[0].targets.len(), 2);
    gateway.logged("while reading response header from upstream, reused connection");
    // An idempotent request is repeated, on a fresh connection.
    let mut client = gateway.client();
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
}

#[test]
fn missing_close_notify_after_an_unsized_body_is_noted() {
    for closes in [true, false] {
        let peer = scripted(move |mut secure| {
            secure.request();
            secure.send("HTTP/1.1 200 OK\r\n\r\nwhole");
            if closes {
                secure.close();
            }
        });
        let gateway = site(peer.address(), "");
        assert_eq!(ask(&gateway, "/").text(), "whole");
        let noted = "without close_notify, and its response has no length while reading upstream";
        if closes {
            assert!(!gateway.error_log().contains("close_notify"), "{}", gateway.error_log());
        } else {
            assert!(gateway.logged(noted).contains("[info]"));
        }
    }
}

#[test]
fn a_response_that_is_cut_in_its_length_is_an_error() {
    let peer = scripted(|mut secure| {
        secure.request();
        secure.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
    });
    let gateway = site(peer.address(), "");
    let mut client = gateway.client();
    client.send(GET);
    client.cut_response();
    gateway.logged("upstream prematurely closed connection while reading upstream");
}

#[test]
fn a_websocket_goes_through_a_tunnel_over_tls() {
    let peer = scripted(|mut secure| {
        secure.request();
        secure.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nearly");
        while let Some(bytes) = secure.whatever_comes() {
            secure.send(bytes);
        }
        secure.close();
    });
    let pass = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    let gateway = site(peer.address(), pass);
    let mut client = gateway.client();
    client.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().status(), 101);
    client.expect("early");
    for _ in 0..3 {
        let text = "z".repeat(50_000);
        client.send(&text);
        client.expect(&text);
    }
    // Its TLS state counts as held memory.
    let held = until("the tunnel is accounted for", || {
        Some(gateway.shared().memory().held_by_tunnels).filter(|&held| held > 0)
    });
    assert!((3500..9000).contains(&held), "{held}");
    client.half_close();
    assert_eq!(client.end(), testkit::End::Fin);
    gateway.until_totals("no tunnel is left", |totals| totals.active == 0);
}

#[test]
fn a_request_that_is_sent_bytewise_over_tls_is_answered() {
    let peer = counting();
    let gateway = site(peer.address(), "proxy_request_buffering off;");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    client.send_bytewise("abcd");
    assert_eq!(client.response().text(), "1");
}
