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
}

/// J12
#[test]
fn a_silent_session_ends_after_proxy_timeout() {
    let gateway = start("", "proxy_timeout 300ms; proxy_pass {upstream:0};", [echo()]);
    let mut client = greeted(&gateway);
    assert_eq!(client.end(), End::Fin);
    gateway.logged("connection timed out (110: Connection timed out)");
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
        let heard = other.hears_within(Duration::from_millis(200));
        (heard && other.whatever_came().as_deref() == Some(b"new")).then_some(())
    });
    client.send("more");
    client.expect("more");
}
