//! Tunnels that are handed over to another process, and drained there or before. Marks of routes contain the address at
//! which the server listens, so most of these gateways take their own tunnels over.

use super::{Scene, close, closes, echo, echoes, frame, in_a_frame, masked_close, tunnel_of};
use crate::handover::{freeze, move_tunnels};
use gateway::Message;
use testkit::{End, Gateway, Signal, Talk};
use websocket::CloseCode;

const FAST: &str = "drain_rate 1000;";
const RESTART: CloseCode = CloseCode::SERVICE_RESTART;
const AWAY: CloseCode = CloseCode::GOING_AWAY;
const OTHER: &str = "proxy_read_timeout 70s;";

/// Takes the tunnels of a gateway over by itself; returns how many.
fn moved(gateway: &Gateway) -> usize {
    move_tunnels(gateway, gateway)
}

#[test]
fn moved_tunnel_is_drained_between_frames_by_a_later_reload() {
    let (asked, large) = (Signal::new(), frame(&vec![b'x'; 70_000]));
    let mut scene = Scene::new(FAST, vec![in_a_frame(&asked, &large)]);
    let mut client = scene.tunnel("/chat");
    client.expect(&large[..1000]);
    assert_eq!(moved(&scene.gateway), 1);
    scene.change_chat(OTHER);
    asked.wait();
    client.expect(&large[1000..]);
    client.expect(close(RESTART));
    client.send(masked_close(RESTART));
    assert_eq!(client.end(), End::Fin);
    scene.gateway.logged("tunnel drained: a reload changed or removed its location");
}

#[test]
fn moved_tunnel_stays_until_its_peer_is_removed() {
    let mut scene = Scene::new(FAST, vec![echo(), echo()]);
    let mut client = scene.tunnel("/kept");
    let mut other = scene.tunnel("/kept");
    assert_eq!(moved(&scene.gateway), 2);
    scene.change_chat(OTHER);
    echoes(&mut client);
    echoes(&mut other);
    assert_eq!(scene.gateway.totals().draining, 0);
    // The first tunnel has the first peer.
    scene.change_group("server {upstream:1};");
    closes(&mut client, RESTART);
    scene.gateway.logged("tunnel drained: its peer was removed");
    echoes(&mut other);
}

#[test]
fn tunnel_of_an_unknown_route_is_not_moved() {
    let peer = echo();
    let text = |chat: &str| {
        format!(
            "{FAST} events {{}} http {{ access_log off; server {{ listen {{listen}}; location / {{
             proxy_pass http://{{upstream:0}}; {chat} proxy_set_header Upgrade $http_upgrade;
             proxy_set_header Connection upgrade; }} }} }}"
        )
    };
    // They listen on different addresses, so their routes differ.
    let [old, mut new] = [(); 2].map(|()| Gateway::start(&text(""), &[peer.address()]));
    let mut client = tunnel_of(&old, "websocket", "/");
    assert_eq!(move_tunnels(&old, &new), 1);
    let mut own = tunnel_of(&new, "websocket", "/");
    new.reload(&text(OTHER));
    closes(&mut own, RESTART);
    new.until_totals("only its own is drained", |totals| totals.draining == 0 && totals.tunnels == 1);
    echoes(&mut client);
}

#[test]
fn tunnels_that_a_reload_drains_are_not_handed_over() {
    let mut scene = Scene::new("drain_rate 1; drain_timeout 60s;", vec![echo()]);
    let _clients: Vec<Talk> = (0..4).map(|_| scene.tunnel("/chat")).collect();
    let mut kept = scene.tunnel("/kept");
    scene.change_chat(OTHER);
    scene.gateway.until_totals("all wait for their turn", |totals| totals.draining == 4);
    assert_eq!(moved(&scene.gateway), 1);
    echoes(&mut kept);
}

#[test]
fn a_process_that_ends_drains_no_tunnel_that_moves() {
    let scene = Scene::new(FAST, vec![echo()]);
    let mut client = scene.tunnel("/kept");
    let shared = scene.gateway.shared();
    shared.set_tunnels_move(true);
    shared.send(0, Message::Drain);
    let (ids, tunnels) = freeze(&scene.gateway);
    assert_eq!(ids.len(), 1);
    drop(tunnels);
    shared.thaw_tunnels(&ids, false);
    echoes(&mut client);
    scene.until_drained();
    // The other process has ended while it had the tunnel.
    let (ids, tunnels) = freeze(&scene.gateway);
    drop(tunnels);
    shared.set_tunnels_move(false);
    shared.thaw_tunnels(&ids, false);
    closes(&mut client, AWAY);
    scene.gateway.logged("tunnel drained: the process ends");
}

#[test]
fn refused_tunnel_is_drained_by_its_own_process() {
    let scene = Scene::new(FAST, vec![echo()]);
    let [mut refused, mut moving] = [(); 2].map(|()| scene.tunnel("/kept"));
    let shared = scene.gateway.shared();
    shared.set_tunnels_move(true);
    shared.send(0, Message::Drain);
    let (ids, tunnels) = freeze(&scene.gateway);
    drop(tunnels);
    shared.thaw_tunnels(&ids[..1], true);
    shared.thaw_tunnels(&ids[1..], false);
    closes(&mut refused, AWAY);
    echoes(&mut moving);
}
