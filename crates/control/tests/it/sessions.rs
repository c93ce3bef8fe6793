//! Names of peers for sessions of TCP.

use control::Control;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Gateway, NameServer, Peer, Talk};

fn echo() -> Peer {
    Peer::script(|mut talk| {
        while let Some(bytes) = talk.whatever_came() {
            talk.send(bytes);
        }
    })
}

/// Whether a new session reaches the peer.
fn is_served(gateway: &Gateway) -> bool {
    let mut client = Talk::connect(gateway.address());
    client.send("hello");
    client.whatever_came().is_some_and(|bytes| bytes == b"hello")
}

#[test]
fn a_variable_names_a_host_that_is_looked_up_for_the_session() {
    let peer = echo();
    let names = NameServer::script(|question| vec![question.addresses(60, &["127.0.0.1"])]);
    let text = format!(
        "events {{}} stream {{ resolver {} ipv6=off; map $remote_addr $name {{ default peer.example:{}; }} \
         server {{ listen {{listen}}; proxy_pass $name; }} }}",
        names.address(),
        peer.address().port()
    );
    let gateway = Gateway::start(&text, &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    assert!(is_served(&gateway) && is_served(&gateway));
    assert_eq!(peer.connections(), 2);
}

/// `server … resolve` in `stream`: new sessions follow the name, and those that are open stay where they are.
#[test]
fn a_group_follows_the_name_of_its_server() {
    let peer = echo();
    let moved = Arc::new(AtomicBool::new(false));
    let has_moved = Arc::clone(&moved);
    let names = NameServer::script(move |question| {
        // No program listens there.
        let address = if has_moved.load(Ordering::SeqCst) { "127.0.0.99" } else { "127.0.0.1" };
        vec![question.addresses(1, &[address])]
    });
    let text = format!(
        "events {{}} stream {{ resolver {} valid=1s ipv6=off; \
         upstream group {{ zone group 64k; server peer.example:{} resolve max_fails=0; }} \
         server {{ listen {{listen}}; proxy_pass group; }} }}",
        names.address(),
        peer.address().port()
    );
    let gateway = Gateway::start(&text, &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    testkit::until("the name is known", || is_served(&gateway).then_some(()));
    let mut open = Talk::connect(gateway.address());
    open.send("hello");
    open.expect("hello");
    moved.store(true, Ordering::SeqCst);
    testkit::until("new sessions go elsewhere", || (!is_served(&gateway)).then_some(()));
    gateway.logged("connect() failed (111: Connection refused) while connecting to upstream");
    open.send("still here");
    open.expect("still here");
}
