//! Section R of the catalogue of bad input, row by row, on the parser alone. What needs a connection (a pipelined
//! request after a refused one, draining) is tested again over sockets by the gateway.

use http1::{
    BareLf, BodyFraming, FieldId, Limits, LineFault, Method, Parse, RequestError, RequestHead, Scheme, TargetForm,
    UpgradeKind, Version,
};

/// A request with these lines after the request line; `lines` come with their line ends.
fn post(lines: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

fn parse_with(bytes: &[u8], limits: &Limits) -> Result<RequestHead, RequestError> {
    let mut head = RequestHead::default();
    match http1::request::parse(bytes, limits, &mut head)? {
        Parse::Complete { len } => assert!(len <= bytes.len()),
        Parse::Partial => panic!("not complete: {}", bytes.escape_ascii()),
    }
    Ok(head)
}

fn parse(bytes: impl AsRef<[u8]>) -> Result<RequestHead, RequestError> {
    parse_with(bytes.as_ref(), &Limits::default())
}

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>, error: RequestError, status: u16) {
    let bytes = bytes.as_ref();
    assert_eq!(parse(bytes).map(|_| ()), Err(error), "{}", bytes.escape_ascii());
    assert_eq!(error.status(), status);
    assert!(error.phrase().starts_with("client sent "));
}

#[track_caller]
fn line_refused(line: &str, fault: LineFault) {
    refused(post(&format!("{line}\r\n")), RequestError::InvalidField(fault), 400);
}

#[test]
fn r01_content_length_and_transfer_encoding_are_never_together() {
    let error = RequestError::ContentLengthAndTransferEncoding;
    refused(post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), error, 400);
    refused(post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), error, 400);
}

#[test]
fn r02_transfer_encoding_on_http10() {
    let bytes = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    refused(bytes, RequestError::TransferEncodingOnHttp10, 400);
}

#[test]
fn r03_r04_two_content_lengths() {
    for (a, b) in [("2", "2"), ("2", "3")] {
        let lines = format!("Content-Length: {a}\r\nContent-Length: {b}\r\n");
        refused(post(&lines), RequestError::DuplicateContentLength, 400);
        refused(post(&format!("Content-Length: {a}, {b}\r\n")), RequestError::InvalidContentLength, 400);
    }
}

#[test]
fn r05_r06_content_length_is_digits_and_fits() {
    let bad = ["+2", "-2", "0x2", "", "2 2", "2,", "1e3", "18446744073709551616", "9223372036854775808", "\u{662}"];
    for value in bad {
        refused(post(&format!("Content-Length: {value}\r\n")), RequestError::InvalidContentLength, 400);
    }
    let head = parse(post("Content-Length: 9223372036854775807\r\n")).unwrap();
    assert_eq!(head.framing, BodyFraming::Length(i64::MAX as u64));
    let head = parse(post("Content-Length: \t 007 \t\r\n")).unwrap();
    assert_eq!(head.framing, BodyFraming::Length(7));
}

#[test]
fn r07_unknown_coding() {
    for value in ["gzip", "x", "identity", "gzip, chunked", "xchunked", "chunked, gzip"] {
        refused(post(&format!("Transfer-Encoding: {value}\r\n")), RequestError::UnknownTransferEncoding, 501);
    }
}

#[test]
fn r08_chunked_twice_or_with_something_around_it() {
    for value in ["chunked;q=1", "chunked, chunked", "", ",", "chunked,", ", chunked", "\"chunked\"", "chunked\u{b}"] {
        let error = parse(post(&format!("Transfer-Encoding: {value}\r\n"))).unwrap_err();
        assert_eq!(error.status(), 400, "{value}: {error}");
    }
    assert_eq!(parse(post("Transfer-Encoding: ChunKed\r\n")).unwrap().framing, BodyFraming::Chunked);
}

#[test]
fn r09_two_transfer_encodings() {
    let lines = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    refused(post(lines), RequestError::DuplicateTransferEncoding, 400);
    for (first, second) in [("chunked", "identity"), ("identity", "chunked"), ("gzip", "gzip")] {
        let lines = format!("Transfer-Encoding: {first}\r\nTransfer-Encoding: {second}\r\n");
        refused(post(&lines), RequestError::DuplicateTransferEncoding, 400);
    }
}

#[test]
fn r10_space_before_the_colon() {
    line_refused("Transfer-Encoding : chunked", LineFault::SpaceBeforeColon);
    line_refused("Content-Length\t: 1", LineFault::SpaceBeforeColon);
}

#[test]
fn r11_underscores_are_dropped_and_do_not_frame() {
    let bytes = post("Transfer_Encoding: chunked\r\nContent_Length: 9\r\nContent-Length: 3\r\n");
    let head = parse(&bytes).unwrap();
    assert_eq!((head.framing, head.fields.len(), head.fields_dropped), (BodyFraming::Length(3), 2, 2));

    let kept = Limits { underscores_in_headers: true, ..Limits::default() };
    let head = parse_with(&bytes, &kept).unwrap();
    assert_eq!((head.framing, head.fields.len(), head.fields_dropped), (BodyFraming::Length(3), 4, 0));

    let taken = Limits { ignore_invalid_headers: false, ..Limits::default() };
    let head = parse_with(&bytes, &taken).unwrap();
    assert_eq!((head.framing, head.fields.len(), head.fields_dropped), (BodyFraming::Length(3), 4, 0));
}

#[test]
fn r12_folded_lines() {
    line_refused("A: b\r\n c", LineFault::Folded);
    line_refused("A: b\r\n\tContent-Length: 3", LineFault::Folded);
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", RequestError::InvalidField(LineFault::Folded), 400);
    refused("GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n", RequestError::InvalidField(LineFault::Folded), 400);
}

#[test]
fn r13_bare_lf_is_a_line_end_unless_forbidden_and_never_sent_on() {
    let bytes = b"GET / HTTP/1.1\nHost: a\nX: y\n\n";
    let head = parse(bytes).unwrap();
    let mut out = Vec::new();
    http1::encode::encode_fields(bytes, &head.fields, &mut out);
    assert_eq!(out, b"Host: a\r\nX: y\r\n");

    let strict = Limits { bare_lf: BareLf::Reject, ..Limits::default() };
    assert_eq!(parse_with(bytes, &strict).unwrap_err(), RequestError::InvalidRequestLine);
    let error = RequestError::InvalidField(LineFault::BareLf);
    assert_eq!(parse_with(b"GET / HTTP/1.1\r\nHost: a\n\r\n", &strict).unwrap_err(), error);
    assert_eq!(parse_with(b"GET / HTTP/1.1\r\nHost: a\r\n\n", &strict).unwrap_err(), error);
    assert_eq!(parse_with(b"\nGET / HTTP/1.1\r\n\r\n", &strict).unwrap_err(), RequestError::InvalidRequestLine);
}

#[test]
fn r14_bare_cr() {
    line_refused("A: b\rc", LineFault::BareCr);
    line_refused("A: b\r\rX", LineFault::BareCr);
    line_refused("A: b\r", LineFault::BareCr);
    refused("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", RequestError::InvalidRequestLine, 400);
    refused("GET / HTTP/1.1\rHost: a\r\n\r\n", RequestError::InvalidRequestLine, 400);
    line_refused("A\r: b", LineFault::NoColon);
}

#[test]
fn r15_r16_nul_and_control_bytes_in_a_value() {
    for control in (0u8..=8).chain([0x0B, 0x0C]).chain(0x0E..=0x1F).chain([0x7F]) {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: some text before ".to_vec();
        bytes.extend([control, b'b', b'\r', b'\n', b'\r', b'\n']);
        refused(&bytes, RequestError::InvalidField(LineFault::ValueByte), 400);
    }
}

#[test]
fn r17_high_bytes_and_tabs_in_a_value_pass_unchanged() {
    let value: Vec<u8> = (0x80..=0xFF).chain(*b"a\tb c").collect();
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    bytes.extend(&value);
    bytes.extend(b"\r\n\r\n");
    let head = parse(&bytes).unwrap();
    assert_eq!(head.fields[1].value.of(&bytes), value);
}

#[test]
fn r18_a_line_without_colon() {
    line_refused("Content-Length", LineFault::NoColon);
    line_refused("GET /admin HTTP/1.1", LineFault::SpaceBeforeColon);
}

#[test]
fn r19_bad_or_empty_names() {
    line_refused(": x", LineFault::EmptyName);
    for name in ["a(b", "a@b", "a/b", "a\0b", "a\"b", "é", "a{b", "a=b", "a,b", "\u{b}Transfer-Encoding"] {
        line_refused(&format!("{name}: x"), LineFault::NameByte);
    }
    // A token, but not a name that nginx calls valid.
    assert_eq!(parse(post("a.b: x\r\n")).unwrap().fields_dropped, 1);
}

#[test]
fn r20_no_host_on_http11_or_an_empty_one() {
    refused("GET / HTTP/1.1\r\n\r\n", RequestError::NoHost, 400);
    refused("GET http://a/ HTTP/1.1\r\n\r\n", RequestError::NoHost, 400);
    for host in ["", " ", ":80"] {
        refused(format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n"), RequestError::InvalidHost, 400);
    }
    assert_eq!(parse("GET / HTTP/1.0\r\n\r\n").unwrap().host, None);
}

#[test]
fn r21_two_hosts_even_if_equal() {
    refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", RequestError::DuplicateHost, 400);
    refused("GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", RequestError::DuplicateHost, 400);
}

#[test]
fn r22_host_with_user_info_path_or_bad_port() {
    let bad = [
        "u@a",
        "a/b",
        "a?b",
        "a#b",
        "a:x",
        "a:65536",
        "a:80:80",
        "a:-1",
        "a b",
        "a\\b",
        "[::1",
        "[]",
        "[x]",
        "[v.a]",
        "[v1.]",
        "[v1a]",
        "[vg.a]",
        "[v1.a%41]",
        "[v1.a/b]",
        "[::1]x",
        "::1",
        "a..b",
        "\u{e9}",
        "<a>",
        "a:999999999999999999999",
    ];
    for host in bad {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), RequestError::InvalidHost, 400);
    }
    for (value, name, port) in [
        ("a_b.example:8080", "a_b.example", Some(8080)),
        ("[::1]:1", "[::1]", Some(1)),
        ("[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", None),
        ("[v1.a:b]:1", "[v1.a:b]", Some(1)),
        ("[VaF.~!$a]", "[VaF.~!$a]", None),
        ("a:", "a", None),
        ("a.", "a.", None),
        ("127.0.0.1:65535", "127.0.0.1", Some(65535)),
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n");
        let host = parse(&bytes).unwrap().host.unwrap();
        assert_eq!((host.name.of(bytes.as_bytes()), host.port), (name.as_bytes(), port));
    }
}

#[test]
fn r23_the_target_wins_over_host() {
    let bytes = b"GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = parse(bytes).unwrap();
    let host = head.host.unwrap();
    assert_eq!((host.raw.of(bytes), host.port, head.host_is_from_target), (&b"b:81"[..], Some(81), true));
    assert_eq!((head.target.form, head.target.scheme), (TargetForm::Absolute, Some(Scheme::Http)));
    assert_eq!(head.target.path.of(bytes), b"/p");
    assert_eq!(head.target.query.unwrap().of(bytes), b"q");

    let same = parse("GET HTTPS://A HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(!same.host_is_from_target && same.target.path.is_empty() && same.target.query.is_none());
    let bytes = b"GET http://a?q/r HTTP/1.0\r\n\r\n";
    let head = parse(bytes).unwrap();
    assert_eq!(head.target.query.unwrap().of(bytes), b"q/r");
    assert!(head.host_is_from_target && head.target.path.is_empty());
    for target in ["http://u@a/", "http:///", "http://a:x/", "http://", "http://[::1/"] {
        refused(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), RequestError::InvalidHost, 400);
    }
}

#[test]
fn r24_other_schemes() {
    for target in ["ftp://a/", "://a/", "h ttp://a/", "httpx://a/", "file:///etc/passwd"] {
        let error = parse(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap_err();
        assert_eq!(error.status(), 400, "{target}: {error}");
    }
    refused("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::UnsupportedScheme, 400);
}

#[test]
fn r25_the_asterisk_is_for_options() {
    refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidTarget, 400);
    refused("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidTarget, 400);
    refused("GET x HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidTarget, 400);
    assert_eq!(parse("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().target.form, TargetForm::Asterisk);
}

#[test]
fn r26_connect_and_trace() {
    refused("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::MethodNotAllowed, 405);
    refused("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::MethodNotAllowed, 405);
    refused("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidTarget, 400);
}

#[test]
fn r27_lowercase_method() {
    refused("get / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidMethod, 400);
    refused("Get / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidMethod, 400);
}

#[test]
fn r28_unknown_method_tokens_are_forwarded() {
    for method in ["PURGE", "M-SEARCH", "X_1", "BASELINE-CONTROL", "GETX"] {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = parse(&bytes).unwrap();
        assert_eq!((head.method, head.method_name.of(bytes.as_bytes())), (Method::Other, method.as_bytes()));
        assert!(!head.method.is_idempotent());
    }
}

#[test]
fn r29_delimiters_in_a_method() {
    for method in ["G/T", "G(T", "GET:", "G\"T", "G{T", "G@T", "G\0T", "É", ""] {
        refused(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), RequestError::InvalidMethod, 400);
    }
}

#[test]
fn r30_versions() {
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", RequestError::UnsupportedVersion, 505);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", RequestError::InvalidTarget, 400);
    for version in ["HTTP/1.10", "HTTP/01.1", "HTTP/1.", "HTTP/1", "HTTP/1.1x", "http/1.1", "HTTP/1,1", "HTTP/1.a"] {
        refused(format!("GET / {version}\r\nHost: a\r\n\r\n"), RequestError::MalformedVersion, 400);
    }
    assert_eq!(parse("GET / HTTP/1.2\r\nHost: a\r\n\r\n").unwrap().version, Version::Http11);
}

#[test]
fn r31_http09() {
    refused("GET /\r\n", RequestError::NoVersion, 400);
    refused("GET /\n", RequestError::NoVersion, 400);
    refused("GET / HTTP/0.9\r\n\r\n", RequestError::MalformedVersion, 400);
}

#[test]
fn r32_r33_exactly_one_space_and_none_in_the_target() {
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /a b HTTP/1.1",
        "GET / HTTP/1.1 HTTP/1.1",
        "GET /a\u{b}b HTTP/1.1",
    ] {
        let error = parse(format!("{line}\r\nHost: a\r\n\r\n")).unwrap_err();
        assert_eq!(error.status(), 400, "{line}: {error}");
    }
}

#[test]
fn r34_r35_bytes_that_no_target_has() {
    for byte in [0u8, 1, 0x1F, 0x7F, b'#'] {
        for target in [&[b'/', b'a', byte, b'b'][..], &[b'/', b'?', byte], b"http://a/\x7f"] {
            let bytes = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            refused(&bytes, RequestError::TargetByte, 400);
        }
    }
    for (path, plain) in
        [("/a/b.c", true), ("/", true), ("/a%00", false), ("/../a", false), ("//", false), ("/a/.b", false)]
    {
        let head = parse(format!("GET {path}?%2e//.. HTTP/1.1\r\nHost: a\r\n\r\n")).unwrap();
        assert_eq!(head.target.path_is_plain, plain, "{path}");
    }
}

#[test]
fn r36_a_long_request_line() {
    let bytes = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(20_000));
    refused(&bytes, RequestError::RequestLineTooLong, 414);
    refused(&bytes[..8192], RequestError::RequestLineTooLong, 414);
    let mut head = RequestHead::default();
    assert_eq!(http1::request::parse(&bytes.as_bytes()[..8191], &Limits::default(), &mut head), Ok(Parse::Partial));
    let just_fits = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(8192 - 16));
    assert_eq!(parse(&just_fits).unwrap().line.len, 8190);
}

/// Whose error page is shown, and what it may say of the URI.
#[test]
fn r37_fault_reports_host_and_target_read_so_far() {
    let long = "a".repeat(20_000);
    for (bytes, host, target) in [
        (format!("GET /x HTTP/1.1\r\nHost: b\r\nX: {long}\r\n\r\n"), "b", "/x"),
        (format!("GET /x HTTP/1.1\r\nX: {long}\r\nHost: b\r\n\r\n"), "", "/x"),
        (format!("GET http://c/x HTTP/1.1\r\nHost: b\r\nX: {long}\r\n\r\n"), "c", "http://c/x"),
        ("GET /x HTTP/1.1\r\nHost: b\r\nHost: c\r\n\r\n".to_owned(), "b", "/x"),
        ("GET /x HTTP/1.1\r\nHost: b/c\r\n\r\n".to_owned(), "", "/x"),
        ("GET /x HTTP/1.1\r\nHost: .\r\n\r\n".to_owned(), "", "/x"),
        (format!("GET /{long} HTTP/1.1\r\nHost: b\r\n\r\n"), "", ""),
        ("GET /x  HTTP/1.1\r\nHost: b\r\n\r\n".to_owned(), "", ""),
    ] {
        let mut head = RequestHead::default();
        let bytes = bytes.as_bytes();
        let error = http1::request::parse(bytes, &Limits::default(), &mut head).unwrap_err();
        let known = head.host.map_or(&b""[..], |host| host.name.of(bytes));
        assert_eq!((known, head.target.raw.of(bytes)), (host.as_bytes(), target.as_bytes()), "{error}");
        assert_eq!(error.is_too_large(), error == RequestError::FieldLineTooLong);
    }
}

#[test]
fn r37_a_long_field_a_long_head_many_fields() {
    refused(post(&format!("X: {}\r\n", "a".repeat(20_000))), RequestError::FieldLineTooLong, 400);
    let line = format!("X: {}\r\n", "a".repeat(6000));
    refused(post(&line.repeat(10)), RequestError::HeadTooLarge, 400);
    refused(post(&"X: y\r\n".repeat(2000)), RequestError::TooManyFields, 400);
    // Fields that are dropped are paid for like others.
    refused(post(&"X_: y\r\n".repeat(2000)), RequestError::TooManyFields, 400);
    let head = parse(post(&"X: y\r\n".repeat(999))).unwrap();
    assert_eq!(head.fields.len(), 1000);
}

#[test]
fn r45_get_with_a_body_is_framed() {
    let head = parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!(head.framing, BodyFraming::Length(5));
}

#[test]
fn r46_expectations() {
    assert!(parse(post("Expect: 100-Continue\r\nContent-Length: 1\r\n")).unwrap().expect_continue);
    assert!(!parse(post("Expect: 100-continue\r\n")).unwrap().expect_continue);
    refused(post("Expect: x\r\nContent-Length: 1\r\n"), RequestError::UnknownExpectation, 417);
    refused(post("Expect: 100-continue\r\nExpect: 100-continue\r\n"), RequestError::DuplicateField, 400);
    let http10 = parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n").unwrap();
    assert!(!http10.expect_continue);
}

#[test]
fn r47_h2c_is_not_forwarded() {
    let bytes = post("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n");
    let head = parse(&bytes).unwrap();
    assert_eq!(head.upgrade.unwrap().kind, UpgradeKind::H2c);
    let kept: Vec<_> = head.fields.iter().filter(|field| !field.hop).map(|field| field.id).collect();
    assert_eq!(kept, [FieldId::Host]);
}

#[test]
fn r48_an_upgrade_needs_its_connection_option_and_http11() {
    let head = parse(post("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n")).unwrap();
    assert_eq!(head.upgrade.unwrap().kind, UpgradeKind::WebSocket);
    assert!(parse(post("Upgrade: websocket\r\n")).unwrap().upgrade.is_none());
    assert!(parse(post("Connection: upgrade\r\n")).unwrap().upgrade.is_none());
    let http10 = parse("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    assert!(http10.upgrade.is_none());
}

#[test]
fn r49_connection_removes_named_fields_but_not_framing() {
    let lines = "Connection: Host, Content-Length, X-A, close\r\nX-A: 1\r\nx-a: 2\r\nX-B: 3\r\nContent-Length: 0\r\n\
                 Keep-Alive: 1\r\nTE: trailers\r\nProxy-Connection: x\r\nConnection: x-b\r\n";
    let bytes = post(lines);
    let head = parse(&bytes).unwrap();
    let kept: Vec<_> = head.fields.iter().filter(|field| !field.hop).map(|field| field.id).collect();
    assert_eq!(kept, [FieldId::Host, FieldId::ContentLength]);
    assert!(head.connection.close && head.connection.named && !head.keepalive);

    refused(post(&format!("Connection: {}\r\n", "a,".repeat(33))), RequestError::InvalidConnection, 400);
    refused(post("Connection: a b\r\n"), RequestError::InvalidConnection, 400);
}

#[test]
fn r50_a_valid_head_ends_where_the_invalid_one_begins() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost a\r\n\r\n";
    let mut head = RequestHead::default();
    let Ok(Parse::Complete { len }) = http1::request::parse(bytes, &Limits::default(), &mut head) else {
        panic!("the first request is valid")
    };
    refused(&bytes[len..], RequestError::InvalidField(LineFault::SpaceBeforeColon), 400);
}

#[test]
fn r51_tls_and_proxy_protocol_on_a_plain_port() {
    refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", RequestError::InvalidMethod, 400);
    refused("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n", RequestError::InvalidTarget, 400);
    refused(b"\r\n\r\n\0\r\nQUIT\n!", RequestError::InvalidMethod, 400);
}

#[test]
fn keepalive_follows_version_and_connection() {
    for (version, connection, keepalive) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive\r\nConnection: close\r\n", false),
    ] {
        let head = parse(format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n")).unwrap();
        assert_eq!(head.keepalive, keepalive, "{version} {connection}");
    }
}

#[test]
fn r35_bytes_from_0x80_are_part_of_a_target() {
    for byte in 0x80..=0xFF {
        for target in [&[b'/', b'a', byte, b'b'][..], &[b'/', b'?', byte], &[b"http://a/", &[byte][..]].concat()] {
            let bytes = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert_eq!(parse(&bytes).unwrap().target.raw.of(&bytes), target, "{}", bytes.escape_ascii());
        }
    }
    refused(b"GET http://\x80/ HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::InvalidHost, 400);
}

#[test]
fn leading_empty_lines_are_skipped_but_not_for_ever() {
    let bytes = b"\r\n\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(parse(bytes).unwrap().line.of(bytes), b"GET / HTTP/1.1");
    refused("\r\n".repeat(9), RequestError::InvalidRequestLine, 400);
    refused("\rGET / HTTP/1.1\r\n\r\n", RequestError::InvalidRequestLine, 400);
}

#[test]
fn the_line_of_a_refused_request_is_known_for_the_log() {
    for bytes in [&b"\r\nget / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"GET /# HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n:\r\n"]
    {
        let mut head = RequestHead::default();
        http1::request::parse(bytes, &Limits::default(), &mut head).unwrap_err();
        assert!(head.line.of(bytes).to_ascii_uppercase().starts_with(b"GET /"), "{}", bytes.escape_ascii());
        assert!(!head.line.of(bytes).contains(&b'\r'));
    }
}

#[test]
fn a_recycled_head_keeps_its_memory_and_nothing_else() {
    let mut head = parse(post("Connection: close\r\nContent-Length: 3\r\nExpect: 100-continue\r\n")).unwrap();
    let capacity = head.fields.capacity();
    http1::request::parse(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", &Limits::default(), &mut head).unwrap();
    assert_eq!(head.fields.capacity(), capacity);
    assert_eq!(head, parse("GET / HTTP/1.1\r\nHost: b\r\n\r\n").unwrap());
}

#[test]
fn shared_head_is_checked_against_its_servers_limits() {
    let wide = Limits { underscores_in_headers: true, ..Limits::from_buffers(64, 4, 4096, 1000) };
    let own = Limits::from_buffers(64, 4, 1024, 3);
    let read = |text: &str| {
        let mut head = RequestHead::default();
        assert!(matches!(http1::request::parse(text.as_bytes(), &wide, &mut head), Ok(Parse::Complete { .. })));
        head
    };
    let text = "GET / HTTP/1.1\r\nHost: a\r\nX_A: 1\r\nX-B: 2\r\n\r\n";
    let mut head = read(text);
    assert_eq!((head.narrow(text.as_bytes(), &own), head.fields.len(), head.fields_dropped), (Ok(()), 2, 1));
    let mut head = read(text);
    assert_eq!((head.narrow(text.as_bytes(), &wide), head.fields.len()), (Ok(()), 3));
    let taking = Limits { ignore_invalid_headers: false, ..own };
    let mut head = read(text);
    assert_eq!((head.narrow(text.as_bytes(), &taking), head.fields.len()), (Ok(()), 3));
    // Read for one that takes any name, and meant for one that does not.
    let odd = "GET / HTTP/1.1\r\nHost: a\r\nX.A: 1\r\n\r\n";
    let mut head = RequestHead::default();
    http1::request::parse(odd.as_bytes(), &wide.widened(&taking), &mut head).unwrap();
    assert_eq!(head.fields.len(), 2);
    assert_eq!((head.narrow(odd.as_bytes(), &own), head.fields.len(), head.fields_dropped), (Ok(()), 1, 1));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(3));
    assert_eq!(read(&many).narrow(many.as_bytes(), &own), Err(RequestError::TooManyFields));
    let line = |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(length - 5));
    assert_eq!(read(&line(1024)).narrow(line(1024).as_bytes(), &own), Ok(()));
    assert_eq!(read(&line(1025)).narrow(line(1025).as_bytes(), &own), Err(RequestError::FieldLineTooLong));
    let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(2000));
    assert_eq!(read(&target).narrow(target.as_bytes(), &own), Err(RequestError::RequestLineTooLong));
    let small = Limits { head_bytes_max: 60, ..own };
    assert_eq!(read(&line(100)).narrow(line(100).as_bytes(), &small), Err(RequestError::HeadTooLarge));
}
