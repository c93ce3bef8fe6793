//! The rate, and what happens to tunnels before their turn. No test measures speed: a rate of one per second, or of many,
//! tells the two sides of each case apart.

use super::{Scene, close, closes, echo, echoes};
use std::time::{Duration, Instant};
use testkit::Talk;
use websocket::CloseCode;

const RESTART: CloseCode = CloseCode::SERVICE_RESTART;

/// Takes the tunnels that have a close frame out of the list.
fn take_closed(clients: &mut Vec<Talk>) -> Vec<Talk> {
    clients.extract_if(.., |client| client.receives_within(Duration::from_millis(5))).collect()
}

#[test]
fn tunnels_end_one_after_the_other_at_the_rate() {
    const COUNT: usize = 20;
    let mut scene = Scene::new("drain_rate 20;", vec![echo()]);
    let clients: Vec<Talk> = (0..COUNT).map(|_| scene.tunnel("/chat")).collect();
    let begun = Instant::now();
    scene.change_chat("proxy_read_timeout 70s;");
    for mut client in clients {
        // The order of the queue is that of the tunnels.
        closes(&mut client, RESTART);
    }
    // A slow machine may take longer, but never less: 19 intervals, but for what is made up for and the jitter.
    assert!(begun.elapsed().as_millis() >= 50 * (COUNT as u128 - 3), "{:?}", begun.elapsed());
    scene.until_drained();
}

#[test]
fn restored_route_keeps_its_waiting_tunnels() {
    let mut scene = Scene::new("drain_rate 1;", vec![echo()]);
    let mut clients: Vec<Talk> = (0..3).map(|_| scene.tunnel("/chat")).collect();
    scene.change_chat("proxy_read_timeout 70s;");
    let mut first = testkit::until("the first close", || take_closed(&mut clients).pop());
    scene.change_chat("");
    closes(&mut first, RESTART);
    scene.until_drained();
    // A turn may have come between the two reloads on a slow machine.
    for mut late in take_closed(&mut clients) {
        late.expect(close(RESTART));
    }
    clients.iter_mut().for_each(echoes);
    assert!(!clients.is_empty(), "at one per second");
}

#[test]
fn many_tunnels_of_several_workers_share_the_rate() {
    let text =
        super::text("drain_rate 500;", "server {upstream:0};", "").replace("worker_processes 1", "worker_processes 2");
    let peer = echo();
    let gateway = testkit::Gateway::start_workers(2, &text, &[peer.address()]);
    let mut scene = Scene { gateway, peers: vec![peer], drain: "drain_rate 500;" };
    let mut clients: Vec<Talk> = (0..60).map(|_| scene.tunnel("/chat")).collect();
    scene.change_chat("proxy_read_timeout 70s;");
    for client in &mut clients {
        closes(client, RESTART);
    }
    scene.until_drained();
    scene.until_closed(gateway::CloseReason::DrainedRoute, 60);
}
