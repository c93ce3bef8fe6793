//! The ends of sessions: by either side, by a timeout, by a reset, by the operator, by a reload.

use super::{echo, greeted, start};
use std::time::Duration;
use testkit::{End, Gateway, Peer, Talk};

/// J3: when either side ends, the session ends after the bytes before that were passed on.
#[test]
fn an_end_of_one_side_ends_the_session() {
    let gateway = start("", "proxy_pass {upstream:0};", [echo()]);
    let mut client = greeted(&gateway);
    client.send("bye");
    assert_eq!(client.rest(), (b"bye".to_vec(), End::Fin));
    gateway.until_totals("the session has ended", |totals| totals.active == 0);

    let mut client = greeted(&gateway);
    client.half_close();
    assert_eq!(client.end(), End::Fin, "what the peer says after the client's end is not waited for");
    gateway.until_totals("the session has ended", |totals| totals.active == 0);
    assert!(gateway.logged("client disconnected").contains("bytes from/to client:5/5"));
}

/// J3
#[test]
fn half_close_lets_the_other_direction_go_on() {
    let gateway = start("", "proxy_half_close on; proxy_pass {upstream:0};", [echo()]);
    let mut client = greeted(&gateway);
    client.half_close();
    assert_eq!(client.rest(), (b"rest".to_vec(), End::Fin));
}

/// J2
#[test]
fn a_reset_is_passed_on() {
    let peer = Peer::script(|mut talk| {
        talk.expect("hello");
        talk.reset();
    });
    let gateway = start("", "proxy_pass {upstream:0};", [peer]);
    let mut client = Talk::connect(gateway.address());
    client.send("hello");
    assert_eq!(client.end(), End::Reset);
    let line = gateway.logged("recv() failed (104: Connection reset by peer) while proxying and reading from upstream");
    assert!(line.contains(" [error] "), "{line}");
    assert!(line.contains(&format!("upstream: \"{}\"", gateway.peers[0].address())), "{line}");
    let gateway = start("", "proxy_pass {upstream:0};", [echo()]);
    greeted(&gateway).reset();
    let line = gateway.logged("recv() failed (104: Connection reset by peer) while proxying and reading from client");
    assert!(line.contains(" [info] "), "{line}");
}

/// A peer that resets behind its answer: the client has the answer, and the log the time of its first byte.
#[test]
fn bytes_before_a_reset_are_passed_on_and_counted() {
    let peer = Peer::script(|mut talk| {
        talk.expect("hello");
        talk.send("answer");
        // What is unread makes the close a reset.
        talk.receives_within(Duration::from_secs(20));
    });
    let stream =
        "log_format line '$bytes_sent $upstream_bytes_received $upstream_first_byte_time'; access_log s.log line;";
    let gateway = start(stream, "proxy_pass {upstream:0};", [peer]);
    let mut client = Talk::connect(gateway.address());
    client.send("hello");
    client.expect("answer");
    client.send("unread");
    client.end();
    let line = gateway.access_lines(1).remove(0);
    assert!(line.starts_with("6 6 0."), "{line}");
}

/// J12
#[test]
fn a_silent_session_ends_after_proxy_timeout() {
    let gateway = start("", "proxy_timeout 300ms; proxy_pass {upstream:0};", [echo()]);
    let mut client = greeted(&gateway);
    assert_eq!(client.end(), End::Fin);
    gateway
        .logged("connection timed out (110: Connection timed out) while proxying connection, bytes from/to client:5/5");
}

/// J13: a reload applies to new sessions, and does not affect running ones.
#[test]
fn a_reload_leaves_sessions_alone() {
    let peer = echo();
    let text = |server: &str| format!("events {{}} stream {{ server {{ listen {{listen}}; {server} }} }}");
    let mut gateway = Gateway::start(&text("proxy_pass {upstream:0};"), &[peer.address()]);
    let mut client = greeted(&gateway);
    gateway.reload(&text("return new;"));
    testkit::until("the reload holds", || {
        let mut other = Talk::connect(gateway.address());
        // The peer of the old configuration waits for the client's bytes.
        let heard = other.receives_within(Duration::from_millis(200));
        (heard && other.whatever_came().as_deref() == Some(b"new")).then_some(())
    });
    client.send("more");
    client.expect("more");
}
