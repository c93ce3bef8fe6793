//! What two sides tell each other when both keep the rules: requests, answers, trailers, priorities, windows, going away.

use crate::support::*;
use http2::{
    Config, ErrorCode, HeadFault, OpenFault, Priority, Reason, RequestLine, ResetBy, Role, SendFault, StreamId,
};

const ROOM: usize = 1 << 20;

fn line<'a>(method: &'a [u8], path: &'a [u8]) -> RequestLine<'a> {
    RequestLine { method, scheme: b"https", authority: b"a.test", path, protocol: b"" }
}

/// A client and a server that hear each other.
struct Pair {
    client: Side,
    server: Side,
}

impl Pair {
    fn new(client: Config, server: Config) -> Self {
        let mut pair = Self { client: Side::new(Role::Client, client), server: Side::new(Role::Server, server) };
        assert_eq!(pair.at_server(), [Seen::PeerSettings]);
        assert_eq!(pair.at_client(), [Seen::PeerSettings, Seen::SettingsAcked]);
        assert_eq!(pair.at_server(), [Seen::SettingsAcked]);
        pair
    }

    fn at_server(&mut self) -> Vec<Seen> {
        let bytes = std::mem::take(&mut self.client.out);
        self.server.feed(&bytes).unwrap()
    }

    fn at_client(&mut self) -> Vec<Seen> {
        let bytes = std::mem::take(&mut self.server.out);
        self.client.feed(&bytes).unwrap()
    }

    fn open(&mut self, method: &[u8], path: &[u8], end: bool) -> StreamId {
        self.client.engine.open(&line(method, path), end, &mut self.client.out, |_| ()).unwrap()
    }

    fn respond(&mut self, stream: StreamId, status: u16, end: bool, fields: &[(&str, &str)]) {
        let fill = |head: &mut http2::Fields<'_>| {
            for (name, value) in fields {
                head.add(name.as_bytes(), value.as_bytes()).unwrap();
            }
        };
        self.server.engine.respond(stream, status, end, &mut self.server.out, fill).unwrap();
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new(Config::default(), Config::default())
    }
}

fn data(stream: u32, bytes: &[u8], end: bool) -> Seen {
    Seen::Data { stream, bytes: bytes.to_vec(), end }
}

#[test]
fn a_request_is_answered_with_interim_heads_body_and_trailers() {
    let mut pair = Pair::default();
    let stream = pair.open(b"POST", b"/upload?x=1", false);
    assert_eq!(pair.client.engine.send_data(stream, b"hello", false, &mut pair.client.out, ROOM), Ok(5));
    pair.client.engine.send_trailers(stream, &mut pair.client.out, |head| head.add(b"X-Sum", b"5").unwrap()).unwrap();
    let text = "POST https /upload?x=1 | host: a.test".to_owned();
    let trailers = Seen::Trailers { stream: 1, text: "trailers | x-sum: 5".to_owned() };
    let head = Seen::Head { stream: 1, end: false, text };
    assert_eq!(pair.at_server(), [head, data(1, b"hello", false), trailers]);

    pair.respond(stream, 103, false, &[("Link", "</a.css>")]);
    pair.respond(stream, 200, false, &[("Server", "holdfast"), ("content-length", "3")]);
    assert_eq!(pair.server.engine.send_data(stream, b"abc", false, &mut pair.server.out, ROOM), Ok(3));
    pair.server.engine.send_trailers(stream, &mut pair.server.out, |_| ()).unwrap();
    let head = |text: &str| Seen::Head { stream: 1, end: false, text: text.to_owned() };
    let seen = pair.at_client();
    assert_eq!(seen[..2], [head("103 | link: </a.css>"), head("200 | server: holdfast | content-length: 3")]);
    assert_eq!(seen[2..], [data(1, b"abc", false), Seen::Trailers { stream: 1, text: "trailers".to_owned() }]);
    assert_eq!((pair.client.engine.streams(), pair.server.engine.streams()), (0, 0));
}

#[test]
fn heads_above_a_frame_go_in_several() {
    let mut pair = Pair::default();
    let long = "y".repeat(9000);
    pair.open(b"GET", b"/", true);
    pair.at_server();
    pair.respond(StreamId(1), 200, true, &[("set-cookie", &long), ("set-cookie", &long), ("set-cookie", &long)]);
    let kinds: Vec<(u8, u8)> = frames(&pair.server.out).iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(kinds, [(HEADERS, END_STREAM), (CONTINUATION, END_HEADERS)]);
    let seen = pair.at_client();
    assert!(matches!(&seen[..], [Seen::Head { end: true, text, .. }] if text.len() > 27_000), "{}", seen.len());
}

#[test]
fn a_response_to_head_announces_a_length_without_a_body() {
    let mut pair = Pair::default();
    let stream = pair.open(b"HEAD", b"/", true);
    pair.at_server();
    pair.respond(stream, 200, true, &[("content-length", "1000")]);
    assert_eq!(pair.at_client().len(), 1);
    assert_eq!(pair.client.engine.streams(), 0);
}

#[test]
fn fields_that_cannot_be_sent_are_left_out_and_reported() {
    let mut pair = Pair::default();
    pair.open(b"GET", b"/", true);
    pair.at_server();
    let mut faults = Vec::new();
    let fields: [(&[u8], &[u8]); 6] = [
        (b"a", b"x\r\ny: z"),
        (b"Connection", b"close"),
        (b"a b", b"c"),
        (b"", b"c"),
        (b"X-\xC4", b"c"),
        (b"ok", b"1"),
    ];
    let fill = |head: &mut http2::Fields<'_>| {
        faults = fields.iter().map(|(name, value)| head.add(name, value).is_err()).collect();
    };
    pair.server.engine.respond(StreamId(1), 200, true, &mut pair.server.out, fill).unwrap();
    assert_eq!(faults, [true, true, true, true, true, false]);
    assert_eq!(pair.at_client(), [Seen::Head { stream: 1, end: true, text: "200 | ok: 1".to_owned() }]);
}

#[test]
fn a_request_line_that_cannot_be_sent_opens_no_stream() {
    let mut client = Side::client();
    for bad in [line(b"GET", b"/a b"), line(b"GET", b"/\r\n"), line(b"G T", b"/")] {
        let opened = client.engine.open(&bad, true, &mut client.out, |_| ());
        assert!(matches!(opened, Err(OpenFault::Head(HeadFault::Path | HeadFault::Authority | HeadFault::Field(_)))));
    }
    assert!(client.out.is_empty());
    assert_eq!(client.engine.streams(), 0);
}

#[test]
fn parts_of_a_message_come_in_their_order() {
    let mut pair = Pair::default();
    let stream = pair.open(b"GET", b"/", true);
    pair.at_server();
    let (engine, out) = (&mut pair.server.engine, &mut pair.server.out);
    assert_eq!(engine.send_data(stream, b"x", false, out, ROOM), Err(SendFault::Order));
    assert_eq!(engine.send_trailers(stream, out, |_| ()), Err(SendFault::Order));
    engine.respond(stream, 200, false, out, |_| ()).unwrap();
    assert_eq!(engine.respond(stream, 200, false, out, |_| ()), Err(SendFault::Order));
    assert_eq!(engine.send_data(stream, b"", true, out, 0), Ok(0));
    assert_eq!(engine.send_data(stream, b"x", true, out, ROOM), Err(SendFault::Over));
    assert_eq!(pair.at_client().last(), Some(&data(1, b"", true)));
}

#[test]
fn windows_stop_a_body_and_updates_release_it() {
    let mut pair = Pair::default();
    let stream = pair.open(b"GET", b"/", true);
    pair.at_server();
    pair.respond(stream, 200, false, &[]);
    let body = vec![b'b'; 200_000];
    let (mut sent, mut received) = (0, 0);
    while received < body.len() {
        if sent < body.len() && (sent == 0 || pair.server.engine.next_turn(ROOM) == Some(stream)) {
            let end = pair.server.engine.send_data(stream, &body[sent..], true, &mut pair.server.out, ROOM).unwrap();
            sent += end;
        }
        assert!(sent - received <= 65_535, "no more than the window is under way");
        for event in pair.at_client() {
            if let Seen::Data { bytes, .. } = event {
                received += bytes.len();
                pair.client.engine.consume(stream, bytes.len(), &mut pair.client.out);
            }
        }
        let updates = frames(&pair.client.out).iter().filter(|frame| frame.kind == WINDOW_UPDATE).count();
        assert!(updates <= 4, "updates are collected");
        pair.at_server();
    }
    assert_eq!(pair.server.engine.streams(), 0);
}

#[test]
fn a_lowered_window_can_be_negative() {
    let mut server = Side::server();
    server.feed(&get(1)).unwrap();
    server.engine.respond(StreamId(1), 200, false, &mut server.out, |_| ()).unwrap();
    assert_eq!(server.engine.send_data(StreamId(1), &[0; 1000], false, &mut server.out, ROOM), Ok(1000));
    server.feed(&settings(&[(4, 500)])).unwrap();
    assert_eq!(server.engine.send_data(StreamId(1), &[0; 10], false, &mut server.out, ROOM), Ok(0));
    server.feed(&window_update(1, 500)).unwrap();
    assert_eq!(server.engine.next_turn(ROOM), None, "the window is 0");
    server.feed(&settings(&[(4, 507)])).unwrap();
    assert_eq!(server.engine.next_turn(ROOM), Some(StreamId(1)));
    assert_eq!(server.engine.send_data(StreamId(1), &[0; 10], false, &mut server.out, ROOM), Ok(7));
}

/// What every owner does: turns are given until there is none, each with the room that is left.
#[test]
fn turns_end_where_the_room_does() {
    for room in [0, 9, 600, 1032, 1033, 5000, 9009, 10_041, 10_042, 12_000] {
        let mut server = Side::server();
        for id in [1, 3] {
            server.feed(&get(id)).unwrap();
            server.engine.respond(StreamId(id), 200, false, &mut server.out, |_| ()).unwrap();
            assert_eq!(server.engine.send_data(StreamId(id), &[0; 9000], true, &mut server.out, 0), Ok(0));
        }
        let most = server.out.len() + room;
        let (mut left, mut turns) = ([9000; 2], 0);
        while let Some(StreamId(id)) = server.engine.next_turn(most - server.out.len()) {
            let left = &mut left[id as usize / 2];
            let sent = server.engine.send_data(StreamId(id), &vec![0; *left], true, &mut server.out, most).unwrap();
            assert!(sent > 0, "stream {id} has a turn and no room with {room} bytes");
            *left -= sent;
            turns += 1;
            assert!(turns <= 4, "the turns do not end with {room} bytes");
        }
        assert_eq!(server.engine.has_turn(), left.iter().sum::<usize>() > 0, "with {room} bytes: {left:?} left");
    }
}

#[test]
fn a_larger_window_lets_more_of_a_body_come() {
    let mut pair = Pair::default();
    let stream = pair.open(b"POST", b"/", false);
    pair.at_server();
    pair.server.engine.grow_window(stream, 200_000, &mut pair.server.out);
    pair.at_client();
    let body = vec![0; 300_000];
    assert_eq!(pair.client.engine.send_data(stream, &body, false, &mut pair.client.out, ROOM), Ok(200_000));
    pair.at_server();
}

/// Streams in the order in which they send when all wait for the connection's window.
fn turns(priorities: &[Option<&str>]) -> Vec<u32> {
    let mut server = Side::server();
    let bulk = 16_384;
    for (at, priority) in priorities.iter().enumerate() {
        let id = 2 * u32::try_from(at).unwrap() + 1;
        let extra = priority.map(|value| ("priority", value));
        let fields: Vec<_> = GET.into_iter().chain(extra).collect();
        server.feed(&headers(id, END_STREAM, &fields)).unwrap();
        server.engine.respond(StreamId(id), 200, false, &mut server.out, |_| ()).unwrap();
    }
    // The first stream takes the whole window of the connection.
    let blocker = 1;
    let sent = server.engine.send_data(StreamId(blocker), &vec![0; 70_000], false, &mut server.out, ROOM).unwrap();
    assert_eq!(sent, 65_535);
    server.feed(&settings(&[(4, 1 << 20)])).unwrap();
    for at in 1..priorities.len() {
        let id = 2 * u32::try_from(at).unwrap() + 1;
        assert_eq!(server.engine.send_data(StreamId(id), &vec![0; 2 * bulk], false, &mut server.out, ROOM), Ok(0));
    }
    server.engine.reset(StreamId(blocker), ErrorCode::CANCEL, &mut server.out);
    server.feed(&window_update(0, 1 << 20)).unwrap();
    let mut left = vec![2 * bulk; 2 * priorities.len()];
    let mut order = Vec::new();
    while let Some(StreamId(id)) = server.engine.next_turn(ROOM) {
        let at = id as usize;
        let sent = server.engine.send_data(StreamId(id), &vec![0; left[at]], false, &mut server.out, ROOM).unwrap();
        left[at] -= sent;
        order.push(id);
        assert!(order.len() < 100, "{order:?}");
    }
    assert!((3..left.len()).step_by(2).all(|at| left[at] == 0), "all is sent: {left:?}");
    order.dedup();
    order
}

#[test]
fn urgent_streams_go_first_and_incremental_ones_share() {
    assert_eq!(turns(&[None, None, Some("u=0"), Some("u=7"), Some("u=1")]), [5, 9, 3, 7]);
    assert_eq!(turns(&[None, Some("i"), Some("i"), Some("i")])[..4], [3, 5, 7, 3]);
    assert_eq!(turns(&[None, None, None, None]), [3, 5, 7]);
}

#[test]
fn an_update_changes_the_priority_of_a_stream_that_waits() {
    let mut server = Side::server();
    server.feed(&[get(1), frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=6, i")].concat()).unwrap();
    let expected = Priority { urgency: 6, incremental: true };
    assert_eq!(server.engine.priority(StreamId(1)), Some(expected));
}

#[test]
fn going_away_takes_two_steps_and_loses_no_request() {
    let mut pair = Pair::default();
    let first = pair.open(b"GET", b"/1", true);
    pair.at_server();
    pair.server.engine.shut_down(&mut pair.server.out);
    // This request was under way when the server began to go.
    let second = pair.open(b"GET", b"/2", true);
    assert_eq!(pair.at_server().len(), 1);
    assert_eq!(pair.at_client(), [Seen::GoAway { last: 0x7FFF_FFFF, code: 0 }]);
    let refused = pair.client.engine.open(&line(b"GET", b"/3"), true, &mut pair.client.out, |_| ());
    assert_eq!(refused, Err(OpenFault::Going));
    pair.at_server();
    assert_eq!(pair.at_client(), [Seen::GoAway { last: second.0, code: 0 }]);
    for stream in [first, second] {
        assert!(!pair.server.engine.is_finished());
        pair.respond(stream, 200, true, &[]);
    }
    assert!(pair.server.engine.is_finished());
    assert_eq!(pair.at_client().len(), 2);
    assert!(pair.client.engine.is_finished());
}

#[test]
fn streams_that_come_too_late_are_ignored() {
    let mut server = Side::server();
    server.feed(&get(1)).unwrap();
    server.engine.shut_down(&mut server.out);
    server.engine.shut_down(&mut server.out);
    let late = [post(3), frame(DATA, 0, 3, b"late"), window_update(3, 1), frame(DATA, END_STREAM, 3, b""), get(5)];
    assert_eq!(server.feed(&late.concat()), Ok(Vec::new()));
    assert_eq!(server.fails(&frame(PING, 0, 0, &[])), Reason::FrameLength);
    assert_eq!(server.sent().pop().unwrap().payload[..4], [0, 0, 0, 1], "only the first was looked at");
}

#[test]
fn small_pieces_that_are_consumed_make_few_updates() {
    let mut server = Side::server();
    server.feed(&[post(1), frame(DATA, 0, 1, &[0; 16_000]), frame(DATA, 0, 1, &[0; 16_000])].concat()).unwrap();
    server.feed(&frame(DATA, 0, 1, &[0; 16_000])).unwrap();
    for _ in 0..480 {
        server.engine.consume(StreamId(1), 100, &mut server.out);
    }
    let updates: Vec<(u32, usize)> = server.sent().iter().map(|frame| (frame.stream, frame.payload.len())).collect();
    assert_eq!(updates, [(1, 4)], "one, when half of the window is consumed");
}

#[test]
fn streams_above_the_last_one_are_reported_as_unprocessed() {
    let mut client = Side::client();
    for _ in 0..3 {
        client.engine.open(&line(b"GET", b"/"), true, &mut client.out, |_| ()).unwrap();
    }
    let seen = client.feed(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])).unwrap();
    let unprocessed = |stream| Seen::Reset { stream, by: ResetBy::Us(Reason::Unprocessed) };
    assert_eq!(seen, [Seen::GoAway { last: 1, code: 0 }, unprocessed(5), unprocessed(3)]);
    let seen = client.feed(&headers(1, END_STREAM, &[(":status", "200")])).unwrap();
    assert_eq!(seen, [Seen::Head { stream: 1, end: true, text: "200".to_owned() }]);
    assert!(client.engine.is_finished());
}

#[test]
fn client_respects_the_servers_stream_limit() {
    let mut pair = Pair::new(Config::default(), Config { streams_max: 1, ..Config::default() });
    let first = pair.open(b"GET", b"/", true);
    let second = pair.client.engine.open(&line(b"GET", b"/"), true, &mut pair.client.out, |_| ());
    assert_eq!(second, Err(OpenFault::TooMany));
    pair.client.engine.reset(first, ErrorCode::CANCEL, &mut pair.client.out);
    assert_eq!(pair.open(b"GET", b"/", true), StreamId(3));
    let cancelled = Seen::Reset { stream: 1, by: ResetBy::Peer(ErrorCode::CANCEL) };
    assert_eq!(pair.at_server()[1], cancelled);
}

#[test]
fn pings_are_answered() {
    let mut pair = Pair::default();
    pair.client.engine.ping(*b"01234567", &mut pair.client.out);
    assert_eq!(pair.at_server(), []);
    assert_eq!(pair.at_client(), [Seen::Pong(*b"01234567")]);
}

#[test]
fn marks_stay_with_their_streams() {
    let mut server = Side::server();
    server.feed(&[get(1), get(3)].concat()).unwrap();
    server.engine.set_token(StreamId(1), 17);
    assert_eq!((server.engine.token(StreamId(1)), server.engine.token(StreamId(3))), (Some(17), Some(0)));
    server.feed(&reset(1)).unwrap();
    assert_eq!(server.engine.token(StreamId(1)), None);
}
