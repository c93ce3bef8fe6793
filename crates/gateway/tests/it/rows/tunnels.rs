//! W1–W7, W9 and W10: tunnels after an Upgrade.

use crate::site::{GET, HELLO, Site};
use std::time::Duration;
use testkit::{End, Gateway, Peer, Signal, Talk};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const PASS: &str = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
/// More than all buffers between two ends can hold: the kernel's two receive and two send buffers at their largest, and
/// ours.
const FLOOD: usize = 96 << 20;

/// A site with an upstream that switches protocols and then runs the script.
fn switching(location: &str, script: impl Fn(Talk) + Send + Sync + 'static) -> Site {
    Site::with(switching_peer(script), &format!("{PASS} {location}"))
}

fn switching_peer(script: impl Fn(Talk) + Send + Sync + 'static) -> Peer {
    Peer::script(move |mut talk| {
        if let Some(request) = talk.request() {
            assert_eq!(request.value("Upgrade"), Some("websocket"));
            assert_eq!(request.value("Connection"), Some("upgrade"));
            talk.send(SWITCHING);
            script(talk);
        }
    })
}

/// A client in a tunnel.
fn tunnelled(site: &Site) -> Talk {
    let mut client = site.client();
    client.send(UPGRADE);
    let response = client.response();
    assert_eq!(response.status(), 101);
    assert_eq!((response.value("Upgrade"), response.value("Connection")), (Some("websocket"), Some("upgrade")));
    client
}

/// Sends every byte back, and the end.
fn echo(mut talk: Talk) {
    while let Some(bytes) = talk.whatever_came() {
        talk.send(bytes);
    }
}

/// Checks that no tunnel is left, and that other clients are served.
#[track_caller]
fn ended(site: &Site) {
    site.gateway.until_totals("no tunnel is left", |totals| totals.active == 0);
    site.is_alive();
}

#[test]
fn w01_an_upgrade_that_is_answered_with_200_is_ordinary_http() {
    let site = Site::with(Peer::saying(HELLO), PASS);
    let mut client = site.client();
    for _ in 0..2 {
        client.send(UPGRADE);
        let response = client.response();
        assert_eq!((response.text(), response.value("Upgrade")), ("hello".into(), None));
    }
    client.send(GET);
    assert_eq!(client.response().text(), "hello");
    assert_eq!(site.peer.connections(), 1, "the upstream's connection is used again");
}

#[test]
fn w02_bytes_after_the_upgrade_are_held_until_101() {
    let (asked, checked) = (Signal::new(), Signal::new());
    let peer = Peer::script({
        let (asked, checked) = (asked.clone(), checked.clone());
        move |mut talk| {
            talk.request().unwrap();
            asked.raise();
            talk.wait(&checked);
            talk.send(SWITCHING);
            talk.expect("early later");
            talk.send("done");
            assert_eq!(talk.end(), End::Fin);
        }
    });
    let site = Site::with(peer, PASS);
    let mut client = site.client();
    client.send(format!("{UPGRADE}early "));
    asked.wait();
    site.is_alive();
    let received = site.peer.received(0);
    assert!(
        received.ends_with(b"\r\n\r\n"),
        "before its 101 the upstream sees the request alone: {}",
        received.escape_ascii()
    );
    checked.raise();
    assert_eq!(client.response().status(), 101);
    client.send("later");
    client.expect("done");
}

#[test]
fn w02_bytes_with_the_101_come_first() {
    let peer = Peer::script(|mut talk| {
        talk.request().unwrap();
        talk.send(format!("{SWITCHING}early"));
        echo(talk);
    });
    let site = Site::with(peer, PASS);
    let mut client = tunnelled(&site);
    client.expect("early");
    client.send("ping");
    client.expect("ping");
}

#[test]
fn w03_a_client_that_does_not_read_stops_the_upstream() {
    let (stuck, drained) = (Signal::new(), Signal::new());
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let site = switching("", {
        let (stuck, drained, taken) = (stuck.clone(), drained.clone(), taken.clone());
        move |mut talk| {
            taken.store(talk.flood(FLOOD), std::sync::atomic::Ordering::SeqCst);
            stuck.raise();
            talk.wait(&drained);
            talk.send("end");
        }
    });
    let mut client = tunnelled(&site);
    stuck.wait();
    let taken = taken.load(std::sync::atomic::Ordering::SeqCst);
    assert!(taken < FLOOD, "the client did not read, and {taken} bytes were taken");
    site.is_alive();
    // No byte is lost, and the tunnel continues.
    assert!(client.read(taken).iter().all(|byte| *byte == b'x'));
    drained.raise();
    client.expect("end");
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn w03_an_upstream_that_does_not_read_stops_the_client() {
    let (stuck, all) = (Signal::new(), Signal::new());
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let site = switching("", {
        let (stuck, all, taken) = (stuck.clone(), all.clone(), taken.clone());
        move |mut talk| {
            talk.wait(&stuck);
            let taken = taken.load(std::sync::atomic::Ordering::SeqCst);
            assert!(talk.read(taken).iter().all(|byte| *byte == b'x'));
            talk.expect("end");
            all.raise();
        }
    });
    let mut client = tunnelled(&site);
    let count = client.flood(FLOOD);
    assert!(count < FLOOD, "the client did not read, and {count} bytes were taken");
    site.is_alive();
    taken.store(count, std::sync::atomic::Ordering::SeqCst);
    stuck.raise();
    client.send("end");
    all.wait();
}

#[test]
fn w04_a_half_close_goes_on_and_the_other_direction_lives() {
    let site = switching("", |mut talk| {
        assert_eq!(talk.rest(), (b"last words".to_vec(), End::Fin));
        talk.send("an answer ");
        talk.send("to them");
        talk.close();
    });
    let mut client = tunnelled(&site);
    client.send("last words");
    client.half_close();
    client.expect("an answer to them");
    assert_eq!(client.end(), End::Fin);
    ended(&site);
}

#[test]
fn w04_the_upstream_half_closes_and_listens_on() {
    let heard = Signal::new();
    let site = switching("", {
        let heard = heard.clone();
        move |mut talk| {
            talk.send("last words");
            talk.half_close();
            assert_eq!(talk.rest(), (b"an answer to them".to_vec(), End::Fin));
            heard.raise();
        }
    });
    let mut client = tunnelled(&site);
    assert_eq!(client.rest(), (b"last words".to_vec(), End::Fin));
    client.send("an answer ");
    client.send("to them");
    client.close();
    heard.wait();
    ended(&site);
}

/// More than the worker closes in one turn.
#[test]
fn w04_tunnels_left_all_at_once_end_and_others_go_on() {
    let peer = switching_peer(echo);
    let conf = testkit::site::text(1, "", PASS).replace("worker_connections 64", "worker_connections 1024");
    let site = Site { gateway: Gateway::start(&conf, &[peer.address()]), peer };
    let mut stays = tunnelled(&site);
    let crowd: Vec<Talk> = (0..200).map(|_| tunnelled(&site)).collect();
    site.gateway.until_totals("all are open", |totals| totals.tunnels == 201);
    drop(crowd);
    stays.send("here");
    stays.expect("here");
    site.gateway.until_totals("one is left", |totals| totals.tunnels == 1);
    stays.send("still here");
    stays.expect("still here");
    drop(stays);
    ended(&site);
}

#[test]
fn w05_a_reset_by_the_client_is_a_reset_for_the_upstream() {
    let reset = Signal::new();
    let site = switching("", {
        let reset = reset.clone();
        move |mut talk| {
            talk.expect("hello");
            talk.send("hello");
            assert_eq!(talk.end(), End::Reset);
            reset.raise();
        }
    });
    let mut client = tunnelled(&site);
    client.send("hello");
    client.expect("hello");
    client.reset();
    reset.wait();
    ended(&site);
}

#[test]
fn w05_a_reset_by_the_upstream_is_a_reset_for_the_client() {
    let site = switching("", |mut talk| {
        talk.expect("hello");
        talk.reset();
    });
    let mut client = tunnelled(&site);
    client.send("hello");
    assert_eq!(client.end(), End::Reset);
    ended(&site);
}

#[test]
fn w05_a_reset_passes_a_direction_that_is_stuck() {
    // The client does not read, so the upstream's bytes are stuck here; the reset must not wait behind them.
    let stuck = Signal::new();
    let reset = Signal::new();
    let site = switching("", {
        let (stuck, reset) = (stuck.clone(), reset.clone());
        move |mut talk| {
            talk.flood(FLOOD);
            stuck.raise();
            assert_eq!(talk.rest().1, End::Reset);
            reset.raise();
        }
    });
    let mut client = tunnelled(&site);
    stuck.wait();
    client.reset();
    reset.wait();
    ended(&site);
}

#[test]
fn w06_a_silent_tunnel_is_closed_at_both_ends() {
    let closed = Signal::new();
    let site = switching("proxy_read_timeout 1s;", {
        let closed = closed.clone();
        move |mut talk| {
            talk.end();
            closed.raise();
        }
    });
    let mut client = tunnelled(&site);
    assert_eq!(client.end(), End::Fin);
    closed.wait();
    let line = site.gateway.logged("upstream timed out (110: Connection timed out) while proxying upgraded connection");
    assert!(line.contains(" [info] "), "{line}");
    ended(&site);
}

#[test]
fn w06_tunnel_timeout_is_apart_from_the_read_timeout() {
    let site = switching("proxy_read_timeout 20s; tunnel_timeout 200ms;", |mut talk| {
        talk.end();
    });
    let mut client = tunnelled(&site);
    assert_eq!(client.end(), End::Fin);
    ended(&site);
}

/// The idle timeout of the ping tests, and the pause between two pings: five pauses are longer than the timeout.
const LIMIT: &str = "proxy_read_timeout 2500ms;";
const PAUSE: Duration = Duration::from_millis(600);

#[test]
fn w07_bytes_from_the_client_keep_a_tunnel_open() {
    let site = switching(LIMIT, |mut talk| {
        talk.expect("ping".repeat(5));
        talk.send("enough");
        talk.end();
    });
    let mut client = tunnelled(&site);
    for _ in 0..5 {
        client.send("ping");
        client.receives_within(PAUSE);
    }
    client.expect("enough");
}

#[test]
fn w07_bytes_from_the_upstream_keep_a_tunnel_open() {
    let site = switching(LIMIT, |mut talk| {
        for _ in 0..5 {
            talk.send("ping");
            talk.receives_within(PAUSE);
        }
        talk.expect("enough");
    });
    let mut client = tunnelled(&site);
    client.expect("ping".repeat(5));
    client.send("enough");
}

#[test]
fn w09_any_bytes_in_any_pieces_pass_unaltered_both_ways() {
    let site = switching("", echo);
    let mut client = tunnelled(&site);
    // Frames that no decoder would accept: reserved bits, control frames of 2^63 bytes, unmasked, truncated.
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes.extend(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n0\r\n\r\n");
    client.send_bytewise(&bytes);
    client.expect(&bytes);
    for size in [1, 2, 3, 1000, 4096, 70_000, 300_000] {
        let frame: Vec<u8> = (0..size).map(|number: u32| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        client.send(&frame);
        client.expect(&frame);
    }
    client.half_close();
    assert_eq!(client.end(), End::Fin);
    ended(&site);
}

#[test]
fn w10_a_plain_get_to_such_a_location_is_ordinary_http() {
    let site = Site::with(Peer::saying(HELLO), PASS);
    let mut client = site.client();
    for _ in 0..2 {
        client.send(GET);
        assert_eq!(client.response().text(), "hello");
    }
    assert_eq!(site.peer.requests()[0].1.value("Upgrade"), None);
    assert_eq!(site.peer.connections(), 1);
}

#[test]
fn w10_a_tunnel_is_counted_and_logged_once_it_has_ended() {
    let site = switching("", echo);
    let mut client = tunnelled(&site);
    client.send("ping");
    client.expect("ping");
    let totals = site.gateway.totals();
    assert_eq!((totals.active, totals.writing), (1, 1));
    assert_eq!(site.gateway.access_log(), "", "its bytes are not known yet");
    client.close();
    let lines = site.gateway.access_lines(1);
    assert!(lines[0].starts_with("101 side=client "), "{lines:?}");
    let sent: usize = lines[0].split("bytes=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap();
    assert!(sent > SWITCHING.len(), "the bytes of the tunnel are among those sent: {lines:?}");
    ended(&site);
}

#[test]
fn w08_a_tunnel_survives_a_reload() {
    let mut site = switching("", echo);
    let mut client = tunnelled(&site);
    client.send("before");
    client.expect("before");
    let conf = crate::site::text(1, "", "").replace("return 200 alive", "return 200 renewed");
    site.gateway.reload(&conf);
    testkit::until("the new configuration", || {
        let mut other = site.client();
        other.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
        (other.response().text() == "renewed").then_some(())
    });
    client.send("after");
    client.expect("after");
    client.half_close();
    assert_eq!(client.end(), End::Fin);
    site.gateway.until_totals("no tunnel is left", |totals| totals.active == 0);
}
