//! What drains a tunnel, and what leaves it alone.

use super::{SWITCHING, Scene, close, closes, echo, echoes, group, masked_close};
use gateway::Message;
use gateway::inspect::PeerMode;
use testkit::{End, Gateway, Http2Talk, Peer, Talk};
use websocket::CloseCode;
use websocket::handshake::Key;

const FAST: &str = "drain_rate 1000;";
const RESTART: CloseCode = CloseCode::SERVICE_RESTART;
const AWAY: CloseCode = CloseCode::GOING_AWAY;

#[test]
fn unchanged_locations_keep_their_tunnels_over_many_reloads() {
    let mut scene = Scene::new(FAST, vec![echo()]);
    let mut kept = scene.tunnel("/kept");
    for round in 0..20 {
        let mut changed = scene.tunnel("/chat");
        scene.change_chat(&format!("proxy_read_timeout {}s;", 70 + round));
        closes(&mut changed, RESTART);
        echoes(&mut kept);
    }
    scene.gateway.until_totals("one is left", |totals| (totals.tunnels, totals.draining) == (1, 0));
    scene.until_closed(gateway::CloseReason::DrainedRoute, 20);
}

#[test]
fn a_location_that_is_removed_is_drained() {
    let mut scene = Scene::new(FAST, vec![echo()]);
    let mut client = scene.tunnel("/chat");
    let text = super::text(FAST, &group(1), "").replace("location /chat", "location /other");
    scene.gateway.reload(&text);
    closes(&mut client, RESTART);
}

#[test]
fn settings_that_do_not_matter_to_a_tunnel_drain_none() {
    let mut scene = Scene::new(FAST, vec![echo(), echo()]);
    let mut client = scene.tunnel("/chat");
    scene.change_chat("gzip on; add_header X-A b; proxy_connect_timeout 7s;");
    scene.change_group("server {upstream:0} weight=3; server {upstream:1}; least_conn;");
    echoes(&mut client);
    let mut further = scene.tunnel("/kept");
    echoes(&mut further);
    assert_eq!(scene.gateway.totals().draining, 0);
}

/// Tunnels to both of two peers, by peer.
fn one_each(scene: &Scene) -> [Talk; 2] {
    let clients = [scene.tunnel("/kept"), scene.tunnel("/kept")];
    assert_eq!([scene.peers[0].connections(), scene.peers[1].connections()], [1, 1], "in turn");
    clients
}

#[test]
fn a_peer_that_is_removed_loses_its_tunnels() {
    let mut scene = Scene::new(FAST, vec![echo(), echo()]);
    let [mut first, mut second] = one_each(&scene);
    scene.change_group("server {upstream:1};");
    closes(&mut first, RESTART);
    echoes(&mut second);
    scene.gateway.logged("tunnel drained: its peer was removed or is drained");
    scene.until_drained();
    scene.until_closed(gateway::CloseReason::DrainedPeer, 1);
}

#[test]
fn a_peer_that_is_marked_drain_loses_its_tunnels() {
    let mut scene = Scene::new(FAST, vec![echo(), echo()]);
    let [mut first, mut second] = one_each(&scene);
    scene.change_group("server {upstream:0} down; server {upstream:1};");
    echoes(&mut first);
    scene.change_group("server {upstream:0} drain; server {upstream:1};");
    closes(&mut first, RESTART);
    echoes(&mut second);
    scene.change_group("server {upstream:0} drain; server {upstream:1}; random;");
    echoes(&mut second);
}

#[test]
fn sticky_tunnel_to_a_drained_peer_stays() {
    let sticky =
        |first: &str| format!("server {{upstream:0}} {first} route=a; server {{upstream:1}}; sticky route $arg_r;");
    let mut scene = Scene::new(FAST, vec![echo(), echo()]);
    scene.change_group(&sticky(""));
    let mut before = scene.tunnel("/kept?r=a");
    scene.change_group(&sticky("drain"));
    closes(&mut before, RESTART);
    let mut after = scene.tunnel("/kept?r=a");
    assert_eq!(scene.peers[0].connections(), 2, "its session leads there");
    scene.change_group(&sticky("drain weight=2"));
    echoes(&mut after);
}

#[test]
fn an_operator_drains_a_peer_and_may_change_their_mind() {
    let scene = Scene::new(FAST, vec![echo(), echo()]);
    let [mut first, mut second] = one_each(&scene);
    let label = scene.peers[0].address().to_string();
    assert!(scene.gateway.shared().set_peer_mode("app", &label, PeerMode::Drain));
    closes(&mut first, RESTART);
    echoes(&mut second);
    scene.until_drained();
    assert!(scene.gateway.shared().set_peer_mode("app", &label, PeerMode::Up));
    let [mut first, mut second] = [scene.tunnel("/kept"), scene.tunnel("/kept")];
    echoes(&mut first);
    echoes(&mut second);
    assert_eq!(scene.gateway.totals().draining, 0);
}

#[test]
fn operator_can_drain_the_only_peer() {
    let scene = Scene::new(FAST, vec![echo()]);
    let mut client = scene.tunnel("/kept");
    let label = scene.peers[0].address().to_string();
    assert!(scene.gateway.shared().set_peer_mode("app", &label, PeerMode::Drain));
    closes(&mut client, RESTART);
}

#[test]
fn ending_process_drains_tunnels_if_configured() {
    let scene = Scene::new(FAST, vec![echo()]);
    let mut client = scene.tunnel("/kept");
    scene.gateway.shared().send(0, Message::Drain);
    closes(&mut client, AWAY);
    scene.gateway.logged("tunnel drained: the process ends");
}

#[test]
fn a_process_that_ends_keeps_its_tunnels_by_default() {
    let scene = Scene::new("", vec![echo()]);
    let mut client = scene.tunnel("/kept");
    scene.gateway.shared().send(0, Message::Drain);
    echoes(&mut client);
    assert_eq!(scene.gateway.totals().draining, 0);
    client.send(masked_close(AWAY));
    client.expect(close(AWAY));
    client.half_close();
    assert_eq!(client.end(), End::Fin);
}

#[test]
fn drain_rate_off_leaves_every_tunnel_alone() {
    let mut scene = Scene::new("drain_rate off;", vec![echo(), echo()]);
    let [mut first, mut second] = one_each(&scene);
    scene.change_group("server {upstream:1};");
    let label = scene.peers[1].address().to_string();
    assert!(scene.gateway.shared().set_peer_mode("app", &label, PeerMode::Drain));
    scene.change_group("server 127.0.0.1:1;");
    echoes(&mut first);
    echoes(&mut second);
    assert_eq!(scene.gateway.totals().draining, 0);
}

#[test]
fn tunnel_opened_after_the_reload_is_drained() {
    let (asked, go_on) = (testkit::Signal::new(), testkit::Signal::new());
    let peer = Peer::script({
        let (asked, go_on) = (asked.clone(), go_on.clone());
        move |mut talk| {
            talk.request().unwrap();
            asked.raise();
            talk.wait(&go_on);
            talk.send(SWITCHING);
            assert_eq!(talk.read(8)[..2], *b"\x88\x82");
            talk.send(close(RESTART));
            talk.rest();
        }
    });
    let mut scene = Scene::new(FAST, vec![peer]);
    let mut client = scene.gateway.client();
    client.send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    asked.wait();
    scene.change_chat("proxy_read_timeout 70s;");
    go_on.raise();
    assert_eq!(client.response().status(), 101);
    closes(&mut client, RESTART);
}

#[test]
fn stream_sessions_end_at_the_timeout_if_their_server_changed() {
    let lines = || {
        Peer::script(|mut talk| {
            while let Some(bytes) = talk.whatever_came() {
                talk.send(bytes);
            }
        })
    };
    let (one, two) = (lines(), lines());
    let text = |first: &str| {
        format!(
            "drain_rate 1000; drain_timeout 300ms; events {{}} stream {{
             upstream one {{ server {{upstream:0}}; }} upstream two {{ server {{upstream:1}}; }}
             server {{ listen {{listen}}; proxy_pass one; {first} }} server {{ listen {{listen:1}}; proxy_pass two; }} }}"
        )
    };
    let mut gateway = Gateway::start(&text(""), &[one.address(), two.address()]);
    let session = |at: usize| {
        let mut client = Talk::connect(gateway.address_of(at));
        client.send("hello");
        client.expect("hello");
        client
    };
    let (mut changed, mut kept) = (session(0), session(1));
    gateway.reload(&text("proxy_timeout 7m;"));
    assert_eq!(changed.end(), End::Fin);
    drop(changed);
    gateway.logged("session drained: a reload changed or removed its server");
    kept.send("still");
    kept.expect("still");
    gateway.until_totals("nothing is drained", |totals| (totals.draining, totals.tunnels) == (0, 1));
}

#[test]
fn http2_websocket_drains_and_its_connection_continues() {
    let peer = Peer::script(|mut talk| {
        let Some(request) = talk.request() else { return };
        let key = Key::parse(request.value("Sec-WebSocket-Key").unwrap().as_bytes()).unwrap();
        let accept = String::from_utf8(key.accept().to_vec()).unwrap();
        talk.send(SWITCHING.replace("\r\n\r\n", &format!("\r\nSec-WebSocket-Accept: {accept}\r\n\r\n")));
        assert_eq!(talk.read(8)[..2], *b"\x88\x82");
        talk.send(close(RESTART));
        talk.rest();
    });
    let text = |words: &str| {
        super::text(FAST, "server {upstream:0};", words)
            .replace("location /kept", "http2 on; location /own { return 200 own; } location /kept")
    };
    let mut gateway = Gateway::start(&text(""), &[peer.address()]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.connect_for("websocket", "/chat", &[("sec-websocket-version", "13")]);
    client.until("the head", |talk| talk.so_far(stream).status == 200);
    gateway.reload(&text("proxy_read_timeout 70s;"));
    client.until("a close frame", |talk| talk.so_far(stream).body == close(RESTART));
    client.send(stream, &masked_close(RESTART), true);
    assert_eq!(client.answer(stream).reset, None, "it ends by END_STREAM");
    assert_eq!(client.get("/own").text(), "own");
    gateway.until_totals("nothing is drained", |totals| (totals.draining, totals.tunnels) == (0, 0));
}
