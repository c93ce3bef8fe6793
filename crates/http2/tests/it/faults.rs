//! What a peer may not do: which faults end the connection, which end one stream, and with which code (RFC 9113).

use crate::support::*;
use http2::hpack::HpackError;
use http2::{Config, FieldFault, HeadFault, Reason, Role};

/// The reason for which a request with these fields is refused.
fn refused(fields: &[(&str, &str)]) -> HeadFault {
    let mut server = Side::server();
    match server.resets(&headers(1, END_STREAM, fields)) {
        (1, Reason::Head(fault)) => fault,
        other => panic!("{fields:?}: {other:?}"),
    }
}

fn request_with<'a>(extra: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    GET.into_iter().chain(extra.iter().copied()).collect()
}

#[test]
fn names_and_values_that_would_split_a_message_are_refused() {
    for (name, value, fault) in [
        ("Upper", "x", FieldFault::UpperCase),
        ("", "x", FieldFault::EmptyName),
        ("a b", "x", FieldFault::NameByte),
        ("a\r\nb", "x", FieldFault::NameByte),
        ("a\0", "x", FieldFault::NameByte),
        ("a:b", "x", FieldFault::NameByte),
        ("a\u{e9}", "x", FieldFault::NameByte),
        ("a", "x\r\ny", FieldFault::ValueByte),
        ("a", "x\ny", FieldFault::ValueByte),
        ("a", "x\0y", FieldFault::ValueByte),
        ("a", " x", FieldFault::ValueSpace),
        ("a", "x\t", FieldFault::ValueSpace),
        (":unknown", "x", FieldFault::UnknownPseudo),
    ] {
        assert_eq!(refused(&request_with(&[(name, value)])), HeadFault::Field(fault), "{name:?}: {value:?}");
    }
}

#[test]
fn fields_that_concern_one_connection_are_refused() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert_eq!(refused(&request_with(&[(name, "close")])), HeadFault::ConnectionSpecific, "{name}");
    }
    assert_eq!(refused(&request_with(&[("te", "gzip")])), HeadFault::Te);
    assert_eq!(refused(&request_with(&[("te", "trailers, gzip")])), HeadFault::Te);
    let seen = Side::server().feed(&headers(1, END_STREAM, &request_with(&[("te", "trailers")]))).unwrap();
    assert!(matches!(seen[..], [Seen::Head { .. }]), "{seen:?}");
}

#[test]
fn pseudo_header_fields_follow_their_rules() {
    let [method, scheme, authority, path] = GET;
    assert_eq!(refused(&[method, scheme, path, ("a", "b"), authority]), HeadFault::PseudoBehindField);
    assert_eq!(refused(&[("host", "a.test"), method, scheme, path]), HeadFault::PseudoBehindField);
    for repeated in GET {
        assert_eq!(refused(&[method, scheme, authority, path, repeated]), HeadFault::PseudoRepeated, "{repeated:?}");
    }
    for absent in [method, scheme, path] {
        let others: Vec<_> = GET.into_iter().filter(|field| *field != absent).collect();
        assert_eq!(refused(&others), HeadFault::PseudoAbsent, "{absent:?}");
    }
    assert_eq!(refused(&request_with(&[])[..3]), HeadFault::PseudoAbsent);
    assert_eq!(refused(&[(":status", "200"), method, scheme, path]), HeadFault::PseudoNotAllowed);
}

#[test]
fn values_of_pseudo_header_fields_are_checked() {
    let [method, scheme, authority, path] = GET;
    for value in ["", "relative", "/a b", "/\u{7f}", "http://a.test/"] {
        let fault = refused(&[method, scheme, authority, (":path", value)]);
        assert!(matches!(fault, HeadFault::Path | HeadFault::Field(FieldFault::ValueByte)), "{value}: {fault:?}");
    }
    assert_eq!(refused(&[method, scheme, authority, (":path", "*")]), HeadFault::Path);
    for value in ["", "G ET", "GET\t", "G/T", "{GET}"] {
        let fault = refused(&[(":method", value), scheme, authority, path]);
        assert!(matches!(fault, HeadFault::Method | HeadFault::Field(FieldFault::ValueSpace)), "{value}: {fault:?}");
    }
    for value in ["", "user@a.test", "a.test/x", "a b", "a.test?x", "a.test#x", "a\\b"] {
        assert_eq!(refused(&[method, scheme, (":authority", value), path]), HeadFault::Authority, "{value}");
    }
    for value in ["", "ht tp", "1http", "http:"] {
        assert_eq!(refused(&[method, (":scheme", value), authority, path]), HeadFault::Scheme, "{value}");
    }
}

#[test]
fn host_must_be_the_authority() {
    assert_eq!(refused(&request_with(&[("host", "b.test")])), HeadFault::HostDiffers);
    assert_eq!(refused(&request_with(&[("host", "a.test"), ("host", "a.test")])), HeadFault::HostDiffers);
    let [method, scheme, _, path] = GET;
    assert_eq!(refused(&[method, scheme, path, ("host", "a"), ("host", "a")]), HeadFault::HostDiffers);
    assert_eq!(refused(&[method, scheme, path, ("host", "u@a")]), HeadFault::Authority);
    let seen = Side::server().feed(&headers(1, END_STREAM, &request_with(&[("x", "y"), ("host", "A.test")]))).unwrap();
    let text = "GET https / | host: a.test | x: y".to_owned();
    assert_eq!(seen, [Seen::Head { stream: 1, end: true, text }]);
    let seen = Side::server().feed(&headers(1, END_STREAM, &[method, scheme, path, ("host", "b.test")])).unwrap();
    assert_eq!(seen, [Seen::Head { stream: 1, end: true, text: "GET https / | host: b.test".to_owned() }]);
}

#[test]
fn content_length_is_one_number_and_the_length_of_the_body() {
    for value in ["", "+2", "0x2", "2, 2", "-1", "9223372036854775808", "99999999999999999999"] {
        assert_eq!(refused(&request_with(&[("content-length", value)])), HeadFault::ContentLength, "{value}");
    }
    assert_eq!(refused(&request_with(&[("content-length", "0"), ("content-length", "0")])), HeadFault::ContentLength);

    let post_with = |length| headers(1, 0, &[POST[0], POST[1], POST[2], POST[3], ("content-length", length)]);
    let body_fault = |length, frames: &[Vec<u8>]| {
        let mut server = Side::server();
        server.resets(&[&post_with(length)[..], &frames.concat()].concat())
    };
    let data = |flags, bytes: &[u8]| frame(DATA, flags, 1, bytes);
    assert_eq!(body_fault("3", &[data(END_STREAM, b"1234")]), (1, Reason::BodyLength));
    assert_eq!(body_fault("3", &[data(0, b"1234")]), (1, Reason::BodyLength));
    assert_eq!(body_fault("3", &[data(0, b"1"), data(END_STREAM, b"2")]), (1, Reason::BodyLength));
    assert_eq!(body_fault("3", &[data(0, b"1"), headers(1, END_STREAM, &[])]), (1, Reason::BodyLength));
}

#[test]
fn a_request_that_ends_early_or_late_is_refused() {
    let mut server = Side::server();
    let fields = [GET[0], GET[1], GET[2], GET[3], ("content-length", "1")];
    assert_eq!(server.resets(&headers(1, END_STREAM, &fields)), (1, Reason::BodyLength));
    let seen =
        server.feed(&[headers(3, 0, &fields), frame(DATA, 0, 3, b"1"), frame(DATA, END_STREAM, 3, b"")].concat());
    let end = Seen::Data { stream: 3, bytes: Vec::new(), end: true };
    assert_eq!(seen.unwrap().last(), Some(&end));
}

#[test]
fn trailers_have_no_pseudo_header_fields_and_end_the_stream() {
    let mut server = Side::server();
    let bad = [post(1), headers(1, END_STREAM, &[(":path", "/")])].concat();
    assert_eq!(server.resets(&bad), (1, Reason::Head(HeadFault::PseudoNotAllowed)));
    let endless = [post(3), headers(3, 0, &[("a", "b")])].concat();
    assert_eq!(server.resets(&endless), (3, Reason::Head(HeadFault::End)));
    let good = [post(5), headers(5, END_STREAM, &[("a", "b")])].concat();
    let trailers = Seen::Trailers { stream: 5, text: "trailers | a: b".to_owned() };
    assert_eq!(server.feed(&good).unwrap().last(), Some(&trailers));
}

#[test]
fn extended_connect_needs_our_consent() {
    let tunnel = [(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]];
    assert_eq!(refused(&tunnel), HeadFault::Protocol);
    assert_eq!(
        refused(&request_with(&[])[..].iter().copied().chain([(":protocol", "x")]).collect::<Vec<_>>()),
        HeadFault::Protocol
    );
    assert_eq!(refused(&[(":method", "CONNECT"), GET[1], GET[2], GET[3]]), HeadFault::PseudoNotAllowed);
    assert_eq!(refused(&[(":method", "CONNECT")]), HeadFault::PseudoAbsent);
    let mut server = Side::new(Role::Server, Config { extended_connect: true, ..Config::default() });
    server.greet();
    let seen = server.feed(&headers(1, 0, &tunnel)).unwrap();
    assert!(matches!(seen[..], [Seen::Head { stream: 1, end: false, .. }]), "{seen:?}");
    assert_eq!(server.head.protocol.map(|span| span.of(&server.head.bytes)), Some(&b"websocket"[..]));
}

#[test]
fn crumbs_of_cookies_become_one_field() {
    let fields = request_with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]);
    let seen = Side::server().feed(&headers(1, END_STREAM, &fields)).unwrap();
    let text = "GET https / | host: a.test | cookie: a=1; b=2; c=3 | x: y".to_owned();
    assert_eq!(seen, [Seen::Head { stream: 1, end: true, text }]);
}

#[test]
fn a_head_above_its_limits_is_reported_and_bounded() {
    let config = Config { head_bytes_max: 1000, fields_max: 20, ..Config::default() };
    let many: Vec<(&str, &str)> = request_with(&[("a", "b"); 30]);
    let long = "x".repeat(2000);
    let large = request_with(&[("a", &long)]);
    for fields in [&many, &large] {
        let mut server = Side::new(Role::Server, config);
        server.greet();
        let seen = server.feed(&headers(1, END_STREAM, fields)).unwrap();
        assert!(matches!(seen[..], [Seen::Head { stream: 1, .. }]));
        assert!(server.head.is_too_large);
        assert!(server.head.fields.len() <= 20);
        let seen = server.feed(&get(3)).unwrap();
        assert!(matches!(seen[..], [Seen::Head { stream: 3, .. }]) && !server.head.is_too_large);
    }
}

/// Frames that end the connection whatever came before.
#[test]
fn broken_frames_end_the_connection() {
    for (bytes, reason) in [
        (frame(DATA, 0, 0, b"x"), Reason::FrameStream),
        (frame(HEADERS, END_HEADERS, 0, &block(&GET)), Reason::FrameStream),
        (frame(SETTINGS, 0, 1, &[]), Reason::FrameStream),
        (frame(PING, 0, 1, &[0; 8]), Reason::FrameStream),
        (frame(GOAWAY, 0, 1, &[0; 8]), Reason::FrameStream),
        (frame(RST_STREAM, 0, 0, &[0; 4]), Reason::FrameStream),
        (frame(PING, 0, 0, &[0; 7]), Reason::FrameLength),
        (frame(SETTINGS, 0, 0, &[0; 5]), Reason::FrameLength),
        (frame(SETTINGS, ACK, 0, &[0; 6]), Reason::FrameLength),
        (frame(GOAWAY, 0, 0, &[0; 7]), Reason::FrameLength),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Reason::FrameLength),
        (frame(RST_STREAM, 0, 1, &[0; 5]), Reason::FrameLength),
        (vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1], Reason::FrameTooLarge),
        (frame(SETTINGS, ACK, 0, &[]), Reason::SettingsAck),
        (settings(&[(4, 1 << 31)]), Reason::SettingsWindow),
        (settings(&[(5, 1)]), Reason::SettingsValue),
        (frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 4]), Reason::Push),
        (frame(CONTINUATION, END_HEADERS, 1, &[]), Reason::BlockAbsent),
        (frame(DATA, 0, 1, b"x"), Reason::StreamIdle),
        (window_update(1, 1), Reason::StreamIdle),
        (reset(1), Reason::StreamIdle),
        (frame(DATA, 0, 2, b"x"), Reason::StreamIdle),
        (headers(2, END_STREAM, &GET), Reason::StreamNumber),
        ([get(5), get(3)].concat(), Reason::StreamNumber),
        (window_update(0, 0), Reason::WindowZero),
        (window_update(0, 0x7FFF_FFFF), Reason::WindowOverflow),
        (frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0x82]), Reason::Padding),
        ([post(1), frame(DATA, PADDED, 1, &[5, 1, 2])].concat(), Reason::Padding),
        ([post(1), frame(DATA, PADDED, 1, &[])].concat(), Reason::Padding),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xFF]), Reason::Compression(HpackError::Truncated)),
        (frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2]), Reason::PriorityUpdate),
        (frame(PRIORITY, 0, 1, &[0; 4]), Reason::FrameLength),
    ] {
        assert_eq!(Side::server().fails(&bytes), reason, "{bytes:?}");
    }
}

#[test]
fn a_header_block_must_not_be_interrupted() {
    let begun = frame(HEADERS, END_STREAM, 1, &block(&GET));
    for other in [frame(PING, 0, 0, &[0; 8]), get(3), frame(CONTINUATION, END_HEADERS, 3, &[]), frame(99, 0, 0, &[])] {
        assert_eq!(Side::server().fails(&[&begun[..], &other].concat()), Reason::BlockInterrupted);
    }
}

#[test]
fn streams_that_are_over_take_no_more_messages() {
    let mut server = Side::server();
    assert_eq!(server.resets(&[get(1), frame(DATA, 0, 1, b"x")].concat()), (1, Reason::StreamEnded));
    assert_eq!(server.resets(&[get(3), headers(3, END_STREAM, &[("a", "b")])].concat()), (3, Reason::StreamEnded));
    // Those were reset by us: what was under way is ignored.
    assert_eq!(server.feed(&[frame(DATA, 0, 1, b"x"), headers(3, END_STREAM, &[])].concat()), Ok(Vec::new()));
    // These were ended by the client.
    for late in [frame(DATA, 0, 5, b"x"), headers(5, END_STREAM, &[])] {
        let mut server = Side::server();
        server.feed(&[get(5), reset(5)].concat()).unwrap();
        server.feed(&[window_update(5, 1), reset(5), frame(PRIORITY, 0, 5, &[0; 5])].concat()).unwrap();
        assert_eq!(server.fails(&late), Reason::StreamOver);
    }
}

#[test]
fn frames_of_a_refused_stream_are_ignored() {
    let mut server = Side::new(Role::Server, Config { streams_max: 1, ..Config::default() });
    server.feed(&[PREFACE, &settings(&[])].concat()).unwrap();
    assert_eq!(server.resets(&[post(1), post(3)].concat()), (3, Reason::TooManyStreams));
    assert_eq!(server.feed(&frame(DATA, END_STREAM, 3, b"body")), Ok(Vec::new()));
    server.feed(&reset(1)).unwrap();
    assert_eq!(server.resets(&headers(5, 0, &[])), (5, Reason::Head(HeadFault::PseudoAbsent)));
    for id in (7..100).step_by(2) {
        server.feed(&[get(id), reset(id)].concat()).unwrap();
    }
    assert_eq!(server.feed(&frame(DATA, END_STREAM, 5, b"very late")), Ok(Vec::new()));
}

#[test]
fn a_fault_of_one_stream_leaves_the_others() {
    let mut server = Side::server();
    server.feed(&[post(1), post(3)].concat()).unwrap();
    assert_eq!(server.resets(&window_update(1, 0)), (1, Reason::WindowZero));
    assert_eq!(server.resets(&[post(5), window_update(5, 0x7FFF_FFFF)].concat()), (5, Reason::WindowOverflow));
    let with_priority = |stream: u32| [&stream.to_be_bytes()[..], &[16], &block(&GET)].concat();
    let itself = frame(HEADERS, END_HEADERS | WITH_PRIORITY, 7, &with_priority(7));
    assert_eq!(server.resets(&itself), (7, Reason::SelfDependency));
    assert_eq!(
        server.resets(&[post(9), frame(PRIORITY, 0, 9, &[0, 0, 0, 9, 1])].concat()),
        (9, Reason::SelfDependency)
    );
    assert_eq!(server.resets(&[post(11), frame(PRIORITY, 0, 11, &[0; 6])].concat()), (11, Reason::FrameLength));
    let data = Seen::Data { stream: 3, bytes: b"x".to_vec(), end: true };
    assert_eq!(server.feed(&frame(DATA, END_STREAM, 3, b"x")).unwrap(), [data]);
}

#[test]
fn the_first_bytes_must_be_those_of_http2() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXM"] {
        assert_eq!(Side::new(Role::Server, Config::default()).fails(bytes), Reason::Preface);
    }
    let early = [PREFACE, &frame(PING, 0, 0, &[0; 8])].concat();
    assert_eq!(Side::new(Role::Server, Config::default()).fails(&early), Reason::Preface);
    assert_eq!(Side::new(Role::Client, Config::default()).fails(&get(1)), Reason::Preface);
    let acknowledged = [PREFACE, &frame(SETTINGS, ACK, 0, &[])].concat();
    assert_eq!(Side::new(Role::Server, Config::default()).fails(&acknowledged), Reason::Preface);
}

#[test]
fn a_body_must_fit_its_windows() {
    let full = frame(DATA, 0, 1, &[b'x'; 16_384]);
    let four = [&full[..]; 4].concat();
    let mut server = Side::server();
    assert_eq!(server.resets(&[post(1), four].concat()), (1, Reason::WindowExceeded));

    let config = Config { stream_window: 1 << 20, connection_window: 65_535, ..Config::default() };
    let mut server = Side::new(Role::Server, config);
    server.greet();
    assert_eq!(server.fails(&[post(1), [&full[..]; 4].concat()].concat()), Reason::WindowExceeded);
}

/// RFC 9113 §6.9.2: the setting counts for a peer from its acknowledgement on, and for streams that are open already, too.
#[test]
fn a_peer_that_has_not_seen_our_settings_has_the_default_window() {
    let config = Config { stream_window: 1000, ..Config::default() };
    let full = frame(DATA, 0, 1, &[b'x'; 16_000]);
    let hello = [PREFACE, &settings(&[])].concat();
    let acknowledged = frame(SETTINGS, ACK, 0, &[]);

    let mut server = Side::new(Role::Server, config);
    server.feed(&hello).unwrap();
    let seen = server.feed(&[post(1), [&full[..]; 4].concat()].concat()).unwrap();
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert_eq!(server.resets(&frame(DATA, 0, 1, &[b'x'; 2000])), (1, Reason::WindowExceeded));

    let mut server = Side::new(Role::Server, config);
    server.feed(&hello).unwrap();
    server.feed(&[post(1), full].concat()).unwrap();
    server.engine.consume(http2::StreamId(1), 16_000, &mut server.out);
    server.sent();
    server.feed(&acknowledged).unwrap();
    assert_eq!(server.sent(), frames(&window_update(1, 16_000)), "the peer would wait for what was consumed");
    server.feed(&frame(DATA, 0, 1, &[b'x'; 1000])).unwrap();
    assert_eq!(server.resets(&frame(DATA, 0, 1, b"x")), (1, Reason::WindowExceeded));
    assert_eq!(server.resets(&[post(3), frame(DATA, 0, 3, &[b'x'; 1001])].concat()), (3, Reason::WindowExceeded));

    // A window that was made larger meanwhile has the announced size.
    let mut server = Side::new(Role::Server, config);
    server.feed(&[hello, post(1)].concat()).unwrap();
    server.engine.grow_window(http2::StreamId(1), 20_000, &mut server.out);
    server.feed(&acknowledged).unwrap();
    server.feed(&[frame(DATA, 0, 1, &[b'x'; 10_000]), frame(DATA, 0, 1, &[b'x'; 10_000])].concat()).unwrap();
    assert_eq!(server.resets(&frame(DATA, 0, 1, b"x")), (1, Reason::WindowExceeded));
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let config = Config { streams_max: 2, ..Config::default() };
    let mut server = Side::new(Role::Server, config);
    server.greet();
    assert_eq!(server.resets(&[get(1), get(3), get(5)].concat()), (5, Reason::TooManyStreams));
    assert_eq!(server.engine.streams(), 2);
}

#[test]
fn settings_must_be_acknowledged_in_time() {
    let mut server = Side::new(Role::Server, Config::default());
    let deadline = server.engine.deadline_ms().unwrap();
    assert_eq!(server.engine.tick(deadline - 1, &mut server.out), Ok(()));
    let closed = server.engine.tick(deadline, &mut server.out).unwrap_err();
    assert_eq!(closed.0, Reason::SettingsTimeout);
    assert_eq!(Side::server().engine.deadline_ms(), None);
}

#[test]
fn responses_are_checked_as_requests_are() {
    let answered = |head: &[(&str, &str)], flags| {
        let mut client = Side::client();
        let request =
            http2::RequestLine { method: b"GET", scheme: b"https", authority: b"a", path: b"/", protocol: b"" };
        client.engine.open(&request, true, &mut client.out, |_| ()).unwrap();
        client.resets(&headers(1, flags, head)).1
    };
    let head = |fault| Reason::Head(fault);
    assert_eq!(answered(&[], END_STREAM), head(HeadFault::PseudoAbsent));
    assert_eq!(answered(&[(":status", "20")], END_STREAM), head(HeadFault::Status));
    assert_eq!(answered(&[(":status", "101")], 0), head(HeadFault::Status));
    assert_eq!(answered(&[(":status", "099")], 0), head(HeadFault::Status));
    assert_eq!(answered(&[(":status", "103")], END_STREAM), head(HeadFault::End));
    assert_eq!(answered(&[(":status", "200"), (":path", "/")], END_STREAM), head(HeadFault::PseudoNotAllowed));
    assert_eq!(answered(&[(":status", "200"), ("connection", "close")], 0), head(HeadFault::ConnectionSpecific));
    assert_eq!(answered(&[(":status", "200"), ("content-length", "5")], END_STREAM), Reason::BodyLength);
}
