//! Section S of the catalogue of bad input, as far as it is about heads and framing. What needs sockets (truncation,
//! bytes after the end, an unasked 101) is tested by the gateway.

use http1::{
    Field, FieldId, Limits, LineFault, Parse, RequestKind, ResponseError, ResponseFraming, ResponseHead, ResponseKind,
    Span,
};

use http1::response::Status;

fn parse_for(bytes: &[u8], request: RequestKind) -> Result<ResponseHead, ResponseError> {
    let mut head = ResponseHead::default();
    match http1::response::parse(bytes, &Limits::response(8192), request, &mut head)? {
        Parse::Complete { len } => assert!(len <= bytes.len()),
        Parse::Partial => panic!("not complete: {}", bytes.escape_ascii()),
    }
    Ok(head)
}

fn parse(bytes: impl AsRef<[u8]>) -> Result<ResponseHead, ResponseError> {
    parse_for(bytes.as_ref(), RequestKind::Other)
}

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>, error: ResponseError) {
    let bytes = bytes.as_ref();
    assert_eq!(parse(bytes).map(|_| ()), Err(error), "{}", bytes.escape_ascii());
    assert_eq!(error.status(), 502);
    assert!(error.phrase().starts_with("upstream sent "));
}

/// A 200 with these field lines.
fn ok(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n")
}

#[test]
fn s01_bad_status_lines() {
    for line in [
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 abc",
        "HTTP/2.0 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.10 200 OK",
        "ICY 200 OK",
        "SSH-2.0-OpenSSH_9.2p1",
        "\x16\x03\x01\x02",
        "+PONG",
        "",
        " HTTP/1.1 200 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "<html>",
    ] {
        refused(format!("{line}\r\nA: b\r\n\r\n"), ResponseError::InvalidStatusLine);
    }
    let head = parse("HTTP/1.1 200\r\n\r\n").unwrap();
    assert!(head.reason.is_empty());
    let bytes = "HTTP/1.0 404 N\u{f6} way\r\n\r\n";
    assert_eq!(parse(bytes).unwrap().reason.of(bytes.as_bytes()), "N\u{f6} way".as_bytes());
}

#[test]
fn s02_status_below_100() {
    refused("HTTP/1.1 099 X\r\n\r\n", ResponseError::InvalidStatusLine);
    refused("HTTP/1.1 000 X\r\n\r\n", ResponseError::InvalidStatusLine);
    assert_eq!(parse("HTTP/1.1 999 X\r\n\r\n").unwrap().status, 999);
}

#[test]
fn s03_content_length_and_transfer_encoding() {
    let error = ResponseError::ContentLengthAndTransferEncoding;
    refused(ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), error);
    let bytes = ok("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n");
    assert_eq!(parse_for(bytes.as_bytes(), RequestKind::Head), Err(error));
}

#[test]
fn s04_two_or_bad_content_lengths() {
    refused(ok("Content-Length: 3\r\nContent-Length: 3\r\n"), ResponseError::DuplicateContentLength);
    for value in ["", "+3", "3, 3", "0x3", "99999999999999999999"] {
        refused(ok(&format!("Content-Length: {value}\r\n")), ResponseError::InvalidContentLength);
    }
}

#[test]
fn s05_other_codings() {
    refused(ok("Transfer-Encoding: gzip, chunked\r\n"), ResponseError::UnknownTransferEncoding);
    refused(ok("Transfer-Encoding: chunked, chunked\r\n"), ResponseError::InvalidTransferEncoding);
    refused(
        ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ResponseError::DuplicateTransferEncoding,
    );
    let head = parse("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert_eq!((head.framing, head.keepalive), (ResponseFraming::Chunked, false), "it is read, and nothing behind it");
}

#[test]
fn s06_s07_malformed_lines() {
    for (line, fault) in [
        ("Content-Length : 3", LineFault::SpaceBeforeColon),
        ("X: a\0b", LineFault::ValueByte),
        ("X: a\rb", LineFault::BareCr),
        ("X: a\r\n b", LineFault::Folded),
        ("no colon", LineFault::SpaceBeforeColon),
        ("nocolon", LineFault::NoColon),
        (": x", LineFault::EmptyName),
        ("a\0: x", LineFault::NameByte),
    ] {
        refused(ok(&format!("{line}\r\n")), ResponseError::InvalidField(fault));
    }
    // What nginx drops from requests, it passes on from upstreams.
    assert_eq!(parse(ok("X_Y: a\r\nX.Y: b\r\n")).unwrap().fields.len(), 2);
}

#[test]
fn accepts_wrong_responses_that_have_one_meaning() {
    for line in ["X[1]: v", "X/Y: v", "\"X\": v", "X@: v", "X: \x01", "X: a\x1b[0mb", "X: \x7f", "X: \u{e4}\x0b"] {
        let bytes = ok(&format!("{line}\r\nY: z\r\n"));
        let head = parse(&bytes).unwrap();
        let (name, value) = line.split_once(": ").unwrap();
        let found = head.fields.iter().map(|field| (field.name.of(bytes.as_bytes()), field.value.of(bytes.as_bytes())));
        let expected = [(name.as_bytes(), value.as_bytes()), (b"Y", b"z")];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{line}");
        for end in 0..bytes.len() {
            let mut head = ResponseHead::default();
            let part = http1::response::parse(
                &bytes.as_bytes()[..end],
                &Limits::response(8192),
                RequestKind::Other,
                &mut head,
            );
            assert_eq!(part, Ok(Parse::Partial), "{line}: {end} bytes");
        }
    }
    let bytes = ok("HTTP/1.1 200 OK\r\nX: y\r\n");
    assert_eq!(parse(bytes).unwrap().fields.len(), 1, "a status line among the fields is none of them");
    // What frames a message is as strict as ever.
    refused(ok("Content-Length: 5\x01\r\n"), ResponseError::InvalidContentLength);
    refused(ok("Transfer-Encoding: chunked\x0b\r\n"), ResponseError::InvalidTransferEncoding);
    refused(ok("Content-Length\x0b: 5\r\n"), ResponseError::InvalidField(LineFault::NameByte));
}

#[test]
fn s08_a_long_head() {
    refused(ok(&format!("X: {}\r\n", "a".repeat(64 * 1024))), ResponseError::HeadTooLarge);
    refused(ok(&"X: yyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1000)), ResponseError::HeadTooLarge);
    refused(ok(&"X:\r\n".repeat(1500)), ResponseError::TooManyFields);
}

#[test]
fn s09_s10_no_body_whatever_the_fields_say() {
    for status in [204, 304] {
        let bytes = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\nhello");
        let head = parse(&bytes).unwrap();
        assert_eq!((head.framing, head.content_length), (ResponseFraming::None, Some(5)));
    }
    let head = parse_for(ok("Content-Length: 5\r\n").as_bytes(), RequestKind::Head).unwrap();
    assert_eq!((head.framing, head.content_length, head.keepalive), (ResponseFraming::None, Some(5), true));
    let head = parse_for(ok("").as_bytes(), RequestKind::Connect).unwrap();
    assert_eq!((head.framing, head.keepalive), (ResponseFraming::None, false));
}

#[test]
fn s11_s12_s13_distinguishes_interim_heads_and_101() {
    for (status, kind) in [
        (100, ResponseKind::Interim),
        (103, ResponseKind::Interim),
        (199, ResponseKind::Interim),
        (101, ResponseKind::SwitchingProtocols),
        (200, ResponseKind::Final),
    ] {
        let bytes = format!("HTTP/1.1 {status} X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        let head = parse(&bytes).unwrap();
        assert_eq!(head.kind, kind, "{status}");
        assert_eq!(head.upgrade.unwrap().of(bytes.as_bytes()), b"websocket");
        assert_eq!(head.keepalive, !matches!(status, 101 | 200));
    }
}

#[test]
fn s17_s18_finds_the_end_of_the_body() {
    for (bytes, framing, keepalive) in [
        (ok("Content-Length: 3\r\n"), ResponseFraming::Length(3), true),
        (ok("Transfer-Encoding: Chunked\r\n"), ResponseFraming::Chunked, true),
        (ok(""), ResponseFraming::UntilClose, false),
        (ok("Content-Length: 3\r\nConnection: close\r\n"), ResponseFraming::Length(3), false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n".into(), ResponseFraming::Length(3), false),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n".into(),
            ResponseFraming::Length(3),
            true,
        ),
    ] {
        let head = parse(&bytes).unwrap();
        assert_eq!((head.framing, head.keepalive), (framing, keepalive), "{bytes}");
    }
}

#[test]
fn s19_a_head_in_one_byte_writes() {
    let bytes = ok("Content-Length: 3\r\nServer: x\r\n");
    let mut head = ResponseHead::default();
    let limits = Limits::response(8192);
    for len in 0..bytes.len() {
        let parsed = http1::response::parse(&bytes.as_bytes()[..len], &limits, RequestKind::Other, &mut head);
        assert_eq!(parsed, Ok(Parse::Partial), "{len} bytes");
    }
    assert_eq!(parse(&bytes).unwrap().value(FieldId::Server, bytes.as_bytes()), Some(b"x".as_slice()));
}

#[test]
fn hop_by_hop_fields_are_marked() {
    let bytes = ok("Connection: x-a\r\nX-A: 1\r\nKeep-Alive: timeout=5\r\nX-B: 2\r\nContent-Length: 0\r\n");
    let head = parse(&bytes).unwrap();
    let kept: Vec<_> = head.fields.iter().filter(|field| !field.hop).map(|f| f.name.of(bytes.as_bytes())).collect();
    assert_eq!(kept, [b"X-B".as_slice(), b"Content-Length"]);
}

#[test]
fn the_first_of_repeated_fields_counts_where_a_response_has_one() {
    let bytes = ok("ETag: one\r\nVary: a\r\netag: two\r\nVary: b\r\nExpires: 0\r\nExpires: 1\r\nX-A: 1\r\nX-A: 2\r\n");
    let head = parse(&bytes).unwrap();
    let names: Vec<_> =
        head.fields.iter().map(|field| field.name.of(bytes.as_bytes()).escape_ascii().to_string()).collect();
    assert_eq!(names, ["ETag", "Vary", "Vary", "Expires", "X-A", "X-A"]);
    assert_eq!(head.value(FieldId::ETag, bytes.as_bytes()), Some(b"one".as_slice()));
    assert_eq!(head.repeated.map(|again| again.value.of(bytes.as_bytes())), Some(b"two".as_slice()));
    assert_eq!(parse(ok("X-A: 1\r\nX-A: 2\r\n")).unwrap().repeated, None);
}

fn lines_of(text: &[u8]) -> (Vec<u8>, Vec<Field>) {
    let mut bytes = Vec::new();
    let fields = text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        Some(Field::write(FieldId::of_name(name), name, value, &mut bytes))
    });
    let fields = fields.collect();
    (bytes, fields)
}

#[test]
fn a_head_is_assembled_with_the_decisions_of_the_parser() {
    for (text, request) in [
        (&b"content-length: 5\ncontent-type: a/b\nContent-Type: c/d"[..], RequestKind::Other),
        (b"content-length:7\nserver: x ", RequestKind::Head),
        (b"content-length: 5\ncontent-length: 5", RequestKind::Other),
        (b"content-length: five", RequestKind::Other),
        (b"etag: x", RequestKind::Other),
    ] {
        let (bytes, fields) = lines_of(text);
        let limits = Limits::response(4096);
        let status = Status { code: 200, reason: Span::default() };
        let mut assembled = ResponseHead::default();
        let outcome = http1::response::assemble(&bytes, status, &fields, &limits, request, &mut assembled);
        let whole = [b"HTTP/1.1 200 \r\n", &bytes[..], b"\r\n"].concat();
        let mut parsed = ResponseHead::default();
        let expected = http1::response::parse(&whole, &limits, request, &mut parsed).map(drop);
        assert_eq!(outcome, expected, "{}", text.escape_ascii());
        assert_eq!(http1::response::text_bytes(status, &fields), whole.len());
        if outcome.is_ok() {
            let facts = |head: &ResponseHead| (head.framing, head.content_length, head.keepalive, head.seen);
            assert_eq!(facts(&assembled), facts(&parsed), "{}", text.escape_ascii());
            let values = |head: &ResponseHead, bytes: &[u8]| -> Vec<Vec<u8>> {
                head.fields.iter().map(|field| field.value.of(bytes).to_vec()).collect()
            };
            assert_eq!(values(&assembled, &bytes), values(&parsed, &whole));
        }
    }
}

#[test]
fn an_assembled_head_obeys_the_limits() {
    let (bytes, fields) = lines_of(b"a: 1\nb: 2");
    let assemble = |limits: Limits, code| {
        let status = Status { code, reason: Span::default() };
        http1::response::assemble(&bytes, status, &fields, &limits, RequestKind::Other, &mut ResponseHead::default())
    };
    let length = bytes.len() + b"HTTP/1.1 200 \r\n\r\n".len();
    assert_eq!(assemble(Limits::response(length), 200), Ok(()));
    assert_eq!(assemble(Limits::response(length - 1), 200), Err(ResponseError::HeadTooLarge));
    assert_eq!(assemble(Limits { fields_max: 1, ..Limits::response(length) }, 200), Err(ResponseError::TooManyFields));
    assert_eq!(assemble(Limits::response(length), 99), Err(ResponseError::InvalidStatusLine));
}
