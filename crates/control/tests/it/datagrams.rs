//! Names of peers for datagrams.

use control::Control;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{DatagramPeer, DatagramTalk, Gateway, NameServer};

/// J22: the first datagram waits for its peer, and the others of the client meanwhile do not.
#[test]
fn keeps_only_the_first_datagram_without_a_peer() {
    let peer = DatagramPeer::echo();
    let opened = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&opened);
    let names = NameServer::script(move |question| {
        testkit::until("the gate is open", || gate.load(Ordering::SeqCst).then_some(()));
        vec![question.addresses(60, &["127.0.0.1"])]
    });
    let text = format!(
        "events {{}} stream {{ resolver {} ipv6=off; server {{ listen {{listen}} udp; \
         set $name peer.example:{}; proxy_pass $name; }} }}",
        names.address(),
        peer.address().port()
    );
    let gateway = Gateway::start(&text, &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    let client = DatagramTalk::connect(gateway.address());
    for text in ["first", "second", "third"] {
        client.send(text);
    }
    testkit::until("the name is asked for", || (!names.questions().is_empty()).then_some(()));
    client.expect_silence();
    opened.store(true, Ordering::SeqCst);
    client.expect("first");
    client.send("fourth");
    client.expect("fourth");
    assert_eq!((peer.received(), gateway.totals().accepted), (2, 1));
}
