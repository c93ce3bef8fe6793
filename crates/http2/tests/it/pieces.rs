//! However the bytes are cut, they mean the same; and whatever they are, nothing grows above its bounds.

use crate::support::*;
use http2::{Config, Role, StreamId};
use proptest::prelude::*;

/// Pieces of conversations, most of them allowed, some not.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    // Few, so that frames meet on a stream; 0 and 2 end the connection, mostly.
    let id = prop_oneof![30 => prop::sample::select(vec![1u32, 3, 5]), 1 => prop::sample::select(vec![0u32, 2, 7])];
    prop_oneof![
        4 => id.clone().prop_map(get),
        4 => id.clone().prop_map(post),
        4 => (id.clone(), 0..2u8, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(id, end, bytes)| frame(DATA, end, id, &bytes)),
        2 => (id.clone(), prop::collection::vec(Just(0u8), 3..20)).prop_map(|(id, mut bytes)| {
            bytes[0] = 2;
            frame(DATA, PADDED, id, &bytes)
        }),
        1 => id.clone().prop_map(|id| headers(id, END_STREAM, &[("x", "trailer")])),
        1 => id.clone().prop_map(|id| {
            let (first, second) = (block(&GET[..2]), block(&GET[2..]));
            [frame(HEADERS, END_STREAM, id, &first), frame(CONTINUATION, 0, id, &[]), frame(CONTINUATION, END_HEADERS, id, &second)].concat()
        }),
        1 => id.clone().prop_map(reset),
        1 => (id.clone(), 0..100u32).prop_map(|(id, by)| window_update(id, by)),
        1 => id.clone().prop_map(|id| frame(PRIORITY, 0, id, &[0; 5])),
        1 => Just(frame(PING, 0, 0, b"01234567")),
        1 => Just(settings(&[(4, 70_000)])),
        1 => (any::<u8>(), any::<u8>(), id, prop::collection::vec(any::<u8>(), 0..30))
            .prop_map(|(kind, flags, id, payload)| frame(kind, flags, id, &payload)),
    ]
}

/// What a server sees and sends, with neighbouring pieces of a body as one.
fn outcome(pieces: &[&[u8]]) -> (Vec<Seen>, Vec<u8>, Option<http2::Reason>) {
    let mut server = Side::server();
    let mut seen = Vec::new();
    let mut reason = None;
    for piece in pieces {
        if let Err(closed) = server.feed_into(piece, &mut seen) {
            reason = Some(closed.0);
            break;
        }
    }
    let mut joined: Vec<Seen> = Vec::new();
    for event in seen {
        match (joined.last_mut(), event) {
            (Some(Seen::Data { stream, bytes, end }), Seen::Data { stream: next, bytes: more, end: last })
                if *stream == next && !*end =>
            {
                bytes.extend(more);
                *end = last;
            }
            // An empty piece is an event of its own only at the end.
            (_, event) => joined.push(event),
        }
    }
    (joined, server.out, reason)
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_events(
        frames in prop::collection::vec(any_frame(), 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let bytes = frames.concat();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = outcome(&[&bytes]);
        prop_assert_eq!(&outcome(&pieces), &whole);
        prop_assert_eq!(&outcome(&single), &whole);
    }

    #[test]
    fn no_bytes_exceed_the_bounds(
        frames in prop::collection::vec(any_frame(), 1..60),
        answers in prop::collection::vec(any::<u8>(), 60),
    ) {
        let mut server = Side::server();
        for (frame, answer) in frames.iter().zip(answers) {
            let out_before = server.out.len();
            if server.feed(frame).is_err() {
                break;
            }
            prop_assert!(server.out.len() - out_before <= 2 * frame.len() + 32, "the answer is bounded by what was read");
            prop_assert!(server.engine.streams() <= 128);
            prop_assert!(server.engine.held_bytes() <= 64 * 1024);
            let stream = StreamId(u32::from(answer % 12));
            let Side { engine, out, .. } = &mut server;
            match answer / 12 % 6 {
                0 => drop(engine.respond(stream, 200, answer % 2 == 0, out, |_| ())),
                1 => {
                    let room = out.len() + 500;
                    let sent = engine.send_data(stream, &[0; 2000], answer % 2 == 0, out, room).unwrap_or(0);
                    prop_assert!(sent <= 500 && out.len() <= room.max(out.len()));
                }
                2 => drop(engine.send_trailers(stream, out, |_| ())),
                3 => engine.consume(stream, 10, out),
                4 => engine.reset(stream, http2::ErrorCode::CANCEL, out),
                _ => drop(engine.next_turn(usize::from(answer) * 10)),
            }
            if answer == 255 {
                engine.shut_down(out);
            }
        }
    }

    #[test]
    fn two_engines_exchange_any_bodies(
        bodies in prop::collection::vec((0..150_000usize, any::<bool>(), 0..8u8), 1..12),
        pieces in prop::collection::vec(1..5000usize, 1..20),
        window in 1000..100_000u32,
    ) {
        let config = Config { stream_window: window, ..Config::default() };
        let (mut client, mut server) = (Side::new(Role::Client, config), Side::new(Role::Server, Config::default()));
        let mut left = std::collections::HashMap::new();
        for (len, incremental, urgency) in &bodies {
            let request = http2::RequestLine { method: b"GET", scheme: b"http", authority: b"a", path: b"/", protocol: b"" };
            let priority = format!("u={urgency}{}", if *incremental { ", i" } else { "" });
            let fill = |head: &mut http2::Fields<'_>| head.add(b"priority", priority.as_bytes()).unwrap();
            let stream = client.engine.open(&request, true, &mut client.out, fill).unwrap();
            left.insert(stream.0, (*len, *len));
        }
        let mut pieces = pieces.iter().cycle();
        for _ in 0..100_000 {
            if server.out.is_empty() && client.out.is_empty() && left.is_empty() {
                break;
            }
            let take = |out: &mut Vec<u8>, len: usize| out.drain(..len.min(out.len())).collect::<Vec<u8>>();
            let bytes = take(&mut client.out, *pieces.next().unwrap());
            for event in server.feed(&bytes).unwrap() {
                if let Seen::Head { stream, .. } = event {
                    let id = StreamId(stream);
                    let len = left[&stream].0;
                    server.engine.respond(id, 200, false, &mut server.out, |_| ()).unwrap();
                    let sent = server.engine.send_data(id, &vec![7; len], true, &mut server.out, 20_000).unwrap();
                    left.get_mut(&stream).unwrap().0 -= sent;
                }
            }
            while let Some(id) = server.engine.next_turn(20_000_usize.saturating_sub(server.out.len())) {
                let len = left[&id.0].0;
                let sent = server.engine.send_data(id, &vec![7; len], true, &mut server.out, 20_000).unwrap();
                left.get_mut(&id.0).unwrap().0 -= sent;
            }
            let bytes = take(&mut server.out, *pieces.next().unwrap());
            for event in client.feed(&bytes).unwrap() {
                if let Seen::Data { stream, bytes, end } = event {
                    client.engine.consume(StreamId(stream), bytes.len(), &mut client.out);
                    let owed = left.get_mut(&stream).unwrap();
                    owed.1 -= bytes.len();
                    if end {
                        prop_assert_eq!(owed.1, 0);
                        left.remove(&stream);
                    }
                }
            }
        }
        prop_assert!(left.is_empty(), "bodies that did not arrive: {:?}", left);
        prop_assert_eq!((client.engine.streams(), server.engine.streams()), (0, 0));
    }
}
