//! Priorities (RFC 9218): which response gets the window of the connection, where several wait for it.

use super::gateway;
use http2::Config;
use testkit::{Gateway, Http2Talk, http2_frame};

/// Bytes of each body: several windows of the connection, and more than is read ahead of a client that does not read.
const BODY_BYTES: usize = 600_000;

/// The connection's window.
const WINDOW_BYTES: usize = 65_535;

/// The client's engine tells the gateway of this many consumed bytes.
const CREDIT_BYTES: usize = WINDOW_BYTES / 2;

/// Bytes that are consumed at once.
const STEP_BYTES: usize = 32_768;

/// A site with large files, one of which calls itself urgent.
fn site() -> Gateway {
    let gateway = gateway("root .; location = /urgent { add_header Priority u=0; }", &[]);
    for name in ["large", "urgent"] {
        std::fs::write(gateway.prefix().join(name), vec![b'x'; BODY_BYTES]).unwrap();
    }
    gateway
}

/// Two responses that share a connection's window, which the test opens step by step.
struct Race {
    client: Http2Talk,
    streams: [u32; 2],
    consumed: [usize; 2],
    /// Bytes that the gateway may have sent.
    granted: usize,
    /// Consumed bytes that it has not been told of.
    credit: usize,
}

impl Race {
    /// Asks for two files, with their priorities. The first response has the whole window, and waits for more, before the second begins.
    fn start(gateway: &Gateway, asked: [(&str, &str); 2]) -> Self {
        let config = Config { stream_window: 1 << 20, connection_window: WINDOW_BYTES as u32, ..Config::default() };
        let mut client = Http2Talk::connect_with(gateway.address(), config);
        client.holds_windows = true;
        let mut open = |(path, priority)| {
            let stream = client.open("GET", path, &[("priority", priority)], true);
            client.until("the head", |talk| talk.so_far(stream).status == 200);
            client.until("the whole window", |talk| talk.so_far(1).body.len() == WINDOW_BYTES);
            stream
        };
        let streams = asked.map(&mut open);
        assert!(client.so_far(streams[1]).body.is_empty(), "the connection has no window for it");
        Self { client, streams, consumed: [0; 2], granted: WINDOW_BYTES, credit: 0 }
    }

    fn received(&self) -> [usize; 2] {
        self.streams.map(|stream| self.client.so_far(stream).body.len())
    }

    /// Opens the window by a step, and waits until all of it was used, or a response is whole.
    fn step(&mut self) {
        let (mut left, received) = (STEP_BYTES, self.received());
        for (at, stream) in self.streams.into_iter().enumerate() {
            let bytes = left.min(received[at] - self.consumed[at]);
            self.client.take_held(stream, bytes);
            (self.consumed[at], left) = (self.consumed[at] + bytes, left - bytes);
            self.credit += bytes;
            if self.credit >= CREDIT_BYTES {
                self.granted += std::mem::take(&mut self.credit);
            }
        }
        let (granted, streams) = (self.granted, self.streams);
        self.client.until("a window's worth", |talk| {
            let answers = streams.map(|stream| talk.so_far(stream));
            answers.iter().any(|answer| answer.is_whole)
                || answers.iter().map(|answer| answer.body.len()).sum::<usize>() == granted
        });
    }

    /// Bytes that have come of each when the first of them is whole.
    fn run(mut self) -> [usize; 2] {
        while !self.received().contains(&BODY_BYTES) {
            self.step();
        }
        self.received()
    }
}

#[test]
fn h101_an_urgent_response_overtakes_one_that_is_not() {
    let [patient, urgent] = Race::start(&site(), [("/large", "u=7"), ("/large", "u=0")]).run();
    assert_eq!(urgent, BODY_BYTES);
    // It gets what is left of a step where the urgent one is read from its file.
    assert!(patient < BODY_BYTES / 2, "{patient} bytes of the other");
    let [urgent, patient] = Race::start(&site(), [("/large", "u=0"), ("/large", "u=7")]).run();
    assert_eq!(urgent, BODY_BYTES);
    assert!(patient < BODY_BYTES / 2, "{patient} bytes of the other");
}

#[test]
fn h102_incremental_responses_share_the_window() {
    let site = site();
    let mut race = Race::start(&site, [("/large", "u=1, i"), ("/large", "u=1, i")]);
    let begun = race.received();
    for _ in 0..6 {
        let before = race.received();
        race.step();
        race.step();
        let after = race.received();
        assert!(after[0] > before[0] && after[1] > before[1], "{before:?} and then {after:?}");
    }
    let [first, second] = race.received();
    let shares = [first - begun[0], second];
    assert!(shares.iter().all(|&bytes| bytes > 12 * STEP_BYTES / 4), "{shares:?}");
}

/// RFC 9218 §8: the upstream may know better what is urgent. §7.1: a client may change its mind.
#[test]
fn h103_response_field_and_priority_update_reorder_streams() {
    let site = site();
    for (path, is_updated) in [("/urgent", false), ("/large", true)] {
        let mut race = Race::start(&site, [("/large", "u=2"), (path, "u=5")]);
        if is_updated {
            race.client.send_raw(&http2_frame(16, 0, 0, &[&race.streams[1].to_be_bytes()[..], b"u=0"].concat()));
            race.client.ping();
        }
        race.step();
        race.step();
        let [patient, urgent] = race.received();
        assert!(urgent > patient - WINDOW_BYTES, "{urgent} bytes of the urgent one, {patient} of the other");
    }
}
