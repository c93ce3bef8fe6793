//! A client and a server of HTTP/2 that talk to each other, steered by the input: both keep the rules, so neither may find a fault, and
//! everything that is sent arrives. Bytes are delivered in pieces; each byte of the input is a step.
#![no_main]

use http2::{Config, Connection, Event, Head, RequestLine, Role, StreamId};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

/// Bytes that wait in one direction at most.
const OUT_BYTES_MAX: usize = 20_000;

struct Side {
    engine: Connection,
    out: Vec<u8>,
    head: Head,
    is_server: bool,
    /// The highest stream that was opened.
    last: StreamId,
    /// Bytes of bodies that are still to be sent, by stream.
    owed: BTreeMap<u32, usize>,
    /// Bytes that came and were not consumed, by stream.
    kept: BTreeMap<u32, usize>,
    received: usize,
    sent: usize,
    resets: usize,
}

impl Side {
    fn new(role: Role, config: Config) -> Self {
        let mut out = Vec::new();
        let engine = Connection::new(role, config, 0, &mut out);
        let (head, owed, kept) = (Head::default(), BTreeMap::new(), BTreeMap::new());
        let (is_server, last) = (role == Role::Server, StreamId(0));
        Self { engine, out, head, is_server, last, owed, kept, received: 0, sent: 0, resets: 0 }
    }

    fn receive(&mut self, mut bytes: &[u8], answer: usize) {
        while let Some(event) = self.engine.receive(0, &mut bytes, &mut self.head, &mut self.out).expect("no fault") {
            match event {
                Event::Head { stream, .. } if self.is_server => {
                    let end = answer % 5 == 0;
                    if answer % 3 == 0 {
                        self.engine.respond(stream, 103, false, &mut self.out, |_| ()).expect("an interim head");
                    }
                    let fill = |fields: &mut http2::Fields<'_>| fields.add(b"x-answer", b"yes").expect("a field");
                    self.engine.respond(stream, 200, end, &mut self.out, fill).expect("a head");
                    if !end {
                        self.owed.insert(stream.0, answer * 700);
                        self.send(stream);
                    }
                }
                Event::Data { stream, bytes, .. } => {
                    self.received += bytes.len();
                    *self.kept.entry(stream.0).or_default() += bytes.len();
                }
                Event::Reset { stream, .. } => {
                    self.resets += 1;
                    self.owed.remove(&stream.0);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, stream: StreamId) {
        let Some(&owed) = self.owed.get(&stream.0) else { return };
        match self.engine.send_data(stream, &vec![0; owed], true, &mut self.out, OUT_BYTES_MAX) {
            Ok(sent) => {
                self.sent += sent;
                self.owed.insert(stream.0, owed - sent);
                if sent == owed {
                    self.owed.remove(&stream.0);
                }
            }
            Err(_) => drop(self.owed.remove(&stream.0)),
        }
    }

    fn turns(&mut self) {
        while let Some(stream) = self.engine.next_turn(OUT_BYTES_MAX.saturating_sub(self.out.len())) {
            self.send(stream);
        }
    }

    fn consume(&mut self) {
        for (stream, bytes) in std::mem::take(&mut self.kept) {
            self.engine.consume(StreamId(stream), bytes, &mut self.out);
        }
    }
}

fn deliver(from: &mut Side, to: &mut Side, len: usize, answer: usize) {
    let bytes: Vec<u8> = from.out.drain(..len.min(from.out.len())).collect();
    to.receive(&bytes, answer);
}

fuzz_target!(|input: &[u8]| {
    let [windows, streams, steps @ ..] = input else { return };
    let config = |window: u8| Config {
        // Windows of less than 128 bytes count as abuse.
        stream_window: 1000 + 500 * u32::from(window),
        streams_max: 1 + u32::from(streams % 20),
        encoder_table_bytes: 64 * u32::from(window % 40),
        decoder_table_bytes: 128 * u32::from(window % 50),
        ..Config::default()
    };
    let (mut client, mut server) =
        (Side::new(Role::Client, config(*windows)), Side::new(Role::Server, config(windows / 3)));
    let mut cancelled = false;
    for &step in steps {
        let amount = usize::from(step >> 3);
        match step & 7 {
            0 => {
                let line = RequestLine { method: b"POST", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
                let priority = [b'u', b'=', b'0' + (step >> 3) % 8];
                let fill = |fields: &mut http2::Fields<'_>| fields.add(b"priority", &priority).expect("a field");
                if let Ok(stream) = client.engine.open(&line, false, &mut client.out, fill) {
                    client.last = stream;
                    client.owed.insert(stream.0, amount * 900);
                    client.send(stream);
                }
            }
            1 | 2 => deliver(&mut client, &mut server, 1 + amount * amount * 20, amount),
            3 | 4 => deliver(&mut server, &mut client, 1 + amount * amount * 20, amount),
            5 => {
                client.consume();
                server.consume();
            }
            6 => {
                client.turns();
                server.turns();
            }
            _ if amount == 1 => server.engine.shut_down(&mut server.out),
            _ if amount == 2 => {
                cancelled = true;
                let stream = client.last;
                client.engine.reset(stream, http2::ErrorCode::CANCEL, &mut client.out);
                client.owed.remove(&stream.0);
            }
            _ => client.engine.ping([step; 8], &mut client.out),
        }
    }
    // Everything that is under way arrives.
    for _ in 0..100_000 {
        if client.out.is_empty() && server.out.is_empty() && client.owed.is_empty() && server.owed.is_empty() {
            break;
        }
        client.consume();
        server.consume();
        client.turns();
        server.turns();
        deliver(&mut client, &mut server, usize::MAX, 1);
        deliver(&mut server, &mut client, usize::MAX, 1);
    }
    assert!(client.owed.is_empty() && server.owed.is_empty(), "{:?} {:?}", client.owed, server.owed);
    if !cancelled && client.resets == 0 && server.resets == 0 {
        assert_eq!((client.received, server.received), (server.sent, client.sent));
        assert_eq!((client.engine.streams(), server.engine.streams()), (0, 0));
    }
});
