//! Faults of peers: each is named with the peer that has it.

use super::scene::{Habit, Load, Recorder, Server, WELL, consequences, figure};
use crate::support::{Instance, until};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::name_server::DnsCode;
use testkit::{NameServer, with_own_network};

const PAUSE: Duration = Duration::from_millis(20);

/// A gateway before two upstreams.
fn before_two(one: &Server, two: &Server, more: &str) -> Instance {
    let mut instance = Instance::new(
        "",
        &format!(
            "upstream app {{ server {} max_fails=0; server {} max_fails=0; }}
             server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://app; {more} }} }}",
            one.address, two.address
        ),
    );
    instance.start();
    instance
}

#[test]
fn a_peer_that_refuses_is_named() {
    with_own_network(|| {
        let (one, mut two) = (Server::start(false), Server::start(false));
        let instance = before_two(&one, &two, "");
        let recorder = Recorder::beside(&instance);
        let _load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let effect_ms = two.stop();
        let claim = recorder.assert_names("peer-refuses", &two.address.to_string(), effect_ms);
        // The last attempts before may be counted in the sample before that of their lines.
        let failed = |text: &str| text.split(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a count");
        let (before, during) = figure(&claim, "failed attempts at");
        assert!(failed(&during) > 10 * failed(&before), "{before}; {during}");
    });
}

#[test]
fn a_peer_that_closes_without_an_answer_is_named() {
    with_own_network(|| {
        let (one, two) = (Server::start(false), Server::start(false));
        let instance = before_two(&one, &two, "");
        let recorder = Recorder::beside(&instance);
        let _load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let effect_ms = one.set(Habit::Closes);
        recorder.assert_names("peer-breaks", &one.address.to_string(), effect_ms);
    });
}

#[test]
fn a_peer_that_does_not_answer_in_time_is_named() {
    with_own_network(|| {
        let (one, two) = (Server::start(false), Server::start(false));
        let instance = before_two(&one, &two, "proxy_read_timeout 500ms; proxy_next_upstream off;");
        let recorder = Recorder::beside(&instance);
        let load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let effect_ms = load.first_failure(one.set(Habit::Keeps));
        recorder.assert_names("peer-silent", &one.address.to_string(), effect_ms);
    });
}

#[test]
fn a_slow_peer_is_named_beside_a_fast_one() {
    with_own_network(|| {
        let (one, two) = (Server::start(false), Server::start(false));
        let instance = before_two(&one, &two, "");
        let recorder = Recorder::beside(&instance);
        let _load = Load::start(instance.port, 4, PAUSE);
        recorder.record_baseline();
        let slow = Duration::from_millis(400);
        let effect_ms = two.set(Habit::Answers(slow, 2)) + 400;
        let claim = recorder.assert_names("peer-slow", &two.address.to_string(), effect_ms);
        let (before, during) = figure(&claim, "time of a response of");
        assert!(before.ends_with(" ms") && during.ends_with(" ms"), "{before}; {during}");
        assert!(figure(&claim, "the other 1 of the group").1.ends_with(" ms"));
    });
}

#[test]
fn a_name_that_is_not_resolved_any_more_is_named() {
    with_own_network(|| {
        let peer = Server::start(false);
        let fails = Arc::new(AtomicBool::new(false));
        let names = NameServer::script({
            let fails = Arc::clone(&fails);
            move |question| {
                let answer = if fails.load(Ordering::SeqCst) {
                    question.code(DnsCode::NameError)
                } else {
                    question.addresses(1, &["127.0.0.1"])
                };
                vec![answer]
            }
        });
        let mut instance = Instance::new(
            "",
            &format!(
                "server {{ listen 127.0.0.1:PORT; resolver {} ipv6=off valid=1s;
                location / {{ set $app app.test; proxy_pass http://$app:{}; }} }}",
                names.address(),
                peer.address.port()
            ),
        );
        instance.start();
        let recorder = Recorder::beside(&instance);
        let load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        fails.store(true, Ordering::SeqCst);
        let effect_ms = load.first_failure(0);
        recorder.assert_names("name-not-resolved", "app.test", effect_ms);
    });
}

#[test]
fn an_upstream_with_an_expired_certificate_is_named() {
    with_own_network(|| {
        let authority = testkit::Authority::new("Test Authority");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, authority.pem()).expect("written");
        let (chain, key) = authority.issue(&["app.test"]).write(folder.path(), "app");
        let mut upstream = Instance::new(
            "",
            &format!(
                "server {{ listen 127.0.0.1:PORT ssl; ssl_certificate {}; ssl_certificate_key {}; return 200 ok; }}",
                chain.display(),
                key.display()
            ),
        );
        upstream.start();
        let peer = format!("127.0.0.1:{}", upstream.port);
        let mut instance = Instance::new(
        "",
        &format!(
            "upstream app {{ server {peer} max_fails=0; }}
             server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass https://app; proxy_ssl_verify on; proxy_ssl_session_reuse off;
                proxy_ssl_name app.test; proxy_set_header Connection close; proxy_ssl_trusted_certificate {}; }} }}",
            ca.display()
        ),
    );
        instance.start();
        let recorder = Recorder::beside(&instance);
        let load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let from_ms = incident::record::wall_clock_ms();
        let ended = authority.issue_with(&["app.test"], |certificate| {
            certificate.not_before = rcgen::date_time_ymd(2020, 1, 1);
            certificate.not_after = rcgen::date_time_ymd(2021, 1, 1);
        });
        ended.write(folder.path(), "app");
        upstream.signal("reload");
        let effect_ms = load.first_failure(from_ms);
        recorder.assert_names("upstream-handshake", &peer, effect_ms);
    });
}

/// Runs nftables' commands in this thread's namespace.
fn nft(commands: &str) {
    let output = Command::new(testkit::peer_program("nft")).arg(commands).output().expect("nft starts");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn lost_packets_are_named_with_their_destination() {
    with_own_network(|| {
        let (one, two) = (Server::start(true), Server::start(true));
        let mut instance = Instance::new(
            "",
            &format!(
                "upstream app {{ server {} max_fails=0; server {} max_fails=0; keepalive 16; }}
                 server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://app; proxy_http_version 1.1;
                    proxy_set_header Connection \"\"; }} }}",
                one.address, two.address
            ),
        );
        instance.start();
        let recorder = Recorder::with_sockets(&instance);
        let load = Load::start(instance.port, 8, PAUSE);
        recorder.record_baseline();
        nft("add table inet test; add chain inet test received { type filter hook input priority 0; }");
        let port = two.address.port();
        nft(&format!("add rule inet test received tcp dport {port} tcp flags & psh == psh drop"));
        // The first repetition comes after the retransmission timeout, 200 ms at least.
        let mut effect_ms = 0;
        until("bytes are sent again", || {
            let samples = recorder.samples();
            let remote = two.address.to_string();
            let repeats = |sample: &&incident::sample::Sample| {
                let rows = sample.sockets.iter().flat_map(|sockets| &sockets.destinations);
                rows.filter(|row| row.remote == remote).any(|row| row.retransmitting > 0)
            };
            effect_ms = samples.iter().find(repeats).map_or(0, |sample| sample.at_ms);
            effect_ms > 0
        });
        let claim = recorder.assert_names("packet-loss", &two.address.to_string(), effect_ms);
        assert!(figure(&claim, "RetransSegs").1 != "0");
        drop(load);
    });
}

#[test]
fn a_restarted_peer_ends_the_incident() {
    with_own_network(|| {
        let (one, two) = (Server::start(false), Server::start(false));
        let instance = before_two(&one, &two, "");
        let recorder = Recorder::beside(&instance);
        let _load = Load::start(instance.port, 2, PAUSE);
        recorder.record_baseline();
        let effect_ms = one.set(Habit::Closes);
        recorder.record(10);
        one.set(WELL);
        recorder.record(20);
        let claim = recorder.assert_names("peer-breaks", &one.address.to_string(), effect_ms);
        assert_eq!(claim["goes_on"], false, "{claim:#}");
        assert_eq!(consequences(&claim), Vec::<String>::new());
    });
}
