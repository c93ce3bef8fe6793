//! Names of peers for sessions of `stream` over TCP: groups with `resolve`, also by `service=`.

use control::Control;
use std::sync::{Arc, Mutex};
use testkit::name_server::{A, SRV};
use testkit::{Gateway, NameServer, Peer, Signal, Talk, until};

/// A gateway with its control plane. The control plane ends first.
struct Site {
    _control: Control,
    gateway: Gateway,
}

impl Site {
    /// A group `app` with this line, whose names this server knows.
    fn start(line: &str, names: &NameServer) -> Self {
        let text = format!(
            "events {{}} stream {{ resolver {} valid=1s ipv6=off; upstream app {{ zone app 64k; {line} }} \
             server {{ listen {{listen}}; proxy_pass app; }} }}",
            names.address()
        );
        let gateway = Gateway::start(&text, &[]);
        let control = Control::start(gateway.shared()).unwrap();
        Self { _control: control, gateway }
    }

    /// A session that has got its peer's name of three letters.
    fn session(&self) -> (Talk, String) {
        let mut client = Talk::connect(self.gateway.address());
        let name = String::from_utf8(client.read(3)).unwrap();
        (client, name)
    }
}

/// A peer that sends its name, and echoes.
fn named(name: &'static str) -> Peer {
    Peer::script(move |mut talk| {
        talk.send(name);
        while let Some(bytes) = talk.whatever_came() {
            talk.send(bytes);
        }
    })
}

#[test]
fn peers_come_and_go_and_open_sessions_stay() {
    let (one, two) = (named("one"), named("two"));
    let targets = Arc::new(Mutex::new(vec![one.address().port()]));
    let known = Arc::clone(&targets);
    let names = NameServer::script(move |question| match question.kind {
        SRV if question.name == "_app._tcp.app.test" => {
            let ports = known.lock().unwrap().clone();
            let all: Vec<_> = ports.iter().map(|port| (1, 1, *port, "host.test")).collect();
            vec![question.services(1, &all)]
        }
        A if question.name == "host.test" => vec![question.addresses(1, &["127.0.0.1"])],
        _ => vec![question.absent(1)],
    });
    let site = Site::start("server app.test service=app resolve;", &names);
    let (mut kept, name) = site.session();
    assert_eq!(name, "one");

    targets.lock().unwrap().push(two.address().port());
    until("a session with the second peer", || (site.session().1 == "two").then_some(()));
    until("a session with the first peer again", || (site.session().1 == "one").then_some(()));

    targets.lock().unwrap().remove(0);
    until("the second peer alone", || (0..4).all(|_| site.session().1 == "two").then_some(()));
    kept.send("still here");
    kept.expect("still here");
}

#[test]
fn the_first_session_waits_for_the_first_lookup() {
    let peer = named("one");
    let go = Signal::new();
    let names = NameServer::script({
        let go = go.clone();
        move |question| {
            go.wait();
            vec![question.addresses(30, &["127.0.0.1"])]
        }
    });
    let site = Site::start(&format!("server app.test:{} resolve;", peer.address().port()), &names);
    let mut client = Talk::connect(site.gateway.address());
    client.send("early");
    until("the session is under way", || (site.gateway.totals().active == 1).then_some(()));
    assert_eq!(peer.connections(), 0);
    go.raise();
    client.expect("one");
    client.expect("early");
}

#[test]
fn sessions_end_until_their_missing_name_exists() {
    let peer = named("one");
    let exists = Arc::new(Mutex::new(false));
    let known = Arc::clone(&exists);
    let names = NameServer::script(move |question| {
        let exists = *known.lock().unwrap();
        vec![if exists { question.addresses(1, &["127.0.0.1"]) } else { question.absent(1) }]
    });
    let site = Site::start(&format!("server app.test:{} resolve;", peer.address().port()), &names);
    assert_eq!(Talk::connect(site.gateway.address()).rest().0, b"");
    site.gateway.logged("no live upstreams while connecting to upstream");
    *exists.lock().unwrap() = true;
    until("the peer", || {
        let came = Talk::connect(site.gateway.address()).whatever_came();
        (came.as_deref() == Some(b"one")).then_some(())
    });
}
