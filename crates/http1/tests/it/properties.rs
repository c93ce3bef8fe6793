//! Properties of the head parsers: pieces make no difference, spans stay inside, what is encoded parses to the same, and
//! what is forwarded means the same to the next reader.

use http1::{Field, HeadEnd, Limits, Parse, RequestError, RequestHead, RequestKind, ResponseHead, Version};
use proptest::prelude::*;

/// Small limits, so that generated heads reach them.
fn limits() -> Limits {
    Limits { head_bytes_max: 200, line_bytes_max: 60, fields_max: 8, ..Limits::default() }
}

fn parse(bytes: &[u8]) -> (Result<Parse, RequestError>, RequestHead) {
    let mut head = RequestHead::default();
    (http1::request::parse(bytes, &limits(), &mut head), head)
}

/// Feeds `bytes` in pieces, by the rule that callers follow.
fn parse_in_pieces(bytes: &[u8], pieces: &[usize]) -> (Result<Parse, RequestError>, RequestHead) {
    let (mut arrived, mut from) = (0, 0);
    let mut lengths = pieces.iter().chain(pieces.last().into_iter().cycle());
    let mut first = true;
    let mut result = parse(b"");
    while arrived < bytes.len() {
        arrived = (arrived + lengths.next().map_or(1, |&len| len.max(1))).min(bytes.len());
        let buffer = &bytes[..arrived];
        loop {
            let end = http1::find_head_end(buffer, from);
            let (HeadEnd::Found(next) | HeadEnd::NotYet(next)) = end;
            from = next;
            let must_parse = first || matches!(end, HeadEnd::Found(_)) || arrived >= limits().head_bytes_max;
            first = false;
            if must_parse {
                result = parse(buffer);
                if result.0 != Ok(Parse::Partial) {
                    return result;
                }
            }
            if matches!(end, HeadEnd::NotYet(_)) {
                break;
            }
        }
    }
    // No more bytes will come: what the bytes so far mean is asked once more.
    if result.0 == Ok(Parse::Partial) { parse(bytes) } else { result }
}

fn assert_inside(fields: &[Field], len: usize) {
    for field in fields {
        assert!(field.name.end() <= field.value.start as usize && field.value.end() < len);
        assert!(!field.name.is_empty());
    }
}

/// Bytes that look like a request more often than noise does.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "GET",
        "POST",
        "CONNECT",
        " ",
        "  ",
        "/",
        "/a?b",
        "*",
        "http://h/p",
        "HTTP/1.1",
        "HTTP/1.0",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "Host: a",
        "Host:b:1",
        "Content-Length: 3",
        "Content-Length: x",
        "Transfer-Encoding: chunked",
        ":",
        "Connection: close, x",
        "X: y",
        "X_Y: z",
        "\t",
        "\0",
        "\u{e9}",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "\r\n\r\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Connection: upgrade",
    ]);
    prop::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat().into_bytes())
}

/// Requests made of whole lines, most of them acceptable.
fn lines_of_a_request() -> impl Strategy<Value = Vec<u8>> {
    let first = prop::sample::select(vec![
        "GET / HTTP/1.1",
        "POST /a?b HTTP/1.1",
        "PURGE /%2e//x HTTP/1.0",
        "OPTIONS * HTTP/1.1",
        "GET http://h/p HTTP/1.1",
    ]);
    let line = prop::sample::select(vec![
        "Content-Length: 3",
        "content-length:\t0 ",
        "Transfer-Encoding: chunked",
        "Connection: close, x",
        "X:y",
        "X_Y: z",
        "X.Y: z",
        "Connection: keep-alive",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Connection: upgrade",
        "Empty:",
        "Padded: \t a \t b \t",
        "TE: trailers",
        "High: \u{e9}",
    ]);
    let ends = prop::collection::vec(prop::sample::select(vec!["\r\n", "\n"]), 8);
    (first, prop::collection::vec(line, 0..5), ends).prop_map(|(first, lines, ends)| {
        let all = [first, "Host: a"].into_iter().chain(lines).chain([""]);
        all.zip(ends).flat_map(|(line, end)| [line.as_bytes(), end.as_bytes()].concat()).collect()
    })
}

/// A valid request: method, target and fields.
fn valid_request() -> impl Strategy<Value = (String, String, Vec<(String, String)>)> {
    let fields = prop::collection::vec(("[a-zA-Z][a-zA-Z0-9-]{0,8}x", "([!-~]([ -~]{0,10}[!-~])?)?"), 0..5);
    ("[A-Z]{1,7}Y", "/[a-z/.%0-9]{0,20}(\\?[a-z&=]{0,8})?", fields)
}

fn encode_request(method: &str, target: &str, fields: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    http1::encode::encode_request_line(method.as_bytes(), target.as_bytes(), Version::Http11, &mut out);
    http1::encode::encode_field(b"Host", b"a", &mut out);
    for (name, value) in fields {
        http1::encode::encode_field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    http1::encode::encode_head_end(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_request_in_any_pieces_gives_the_same(
        bytes in request_like(),
        pieces in prop::collection::vec(1usize..20, 1..10),
    ) {
        let (whole, in_pieces) = (parse(&bytes), parse_in_pieces(&bytes, &pieces));
        prop_assert_eq!(whole.0, in_pieces.0);
        // After an error the head holds what had arrived by then.
        if matches!(whole.0, Ok(Parse::Complete { .. })) {
            prop_assert_eq!(whole.1, in_pieces.1);
        }
    }

    #[test]
    fn a_prefix_is_partial_or_as_wrong_as_the_whole(bytes in request_like(), cut in 0usize..100) {
        let prefix = &bytes[..cut.min(bytes.len())];
        let (of_prefix, _) = parse(prefix);
        if of_prefix != Ok(Parse::Partial) {
            prop_assert_eq!(of_prefix, parse(&bytes).0);
        }
    }

    #[test]
    fn spans_of_requests_are_inside(bytes in request_like()) {
        let (result, head) = parse(&bytes);
        if let Ok(Parse::Complete { len }) = result {
            assert_inside(&head.fields, len);
            prop_assert!(head.line.end() < len && head.target.raw.end() < len && head.target.path.end() < len);
            prop_assert!(head.fields.len() <= limits().fields_max && len <= limits().head_bytes_max);
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse(&bytes).0.ok();
        let mut head = ResponseHead::default();
        http1::response::parse(&bytes, &limits(), RequestKind::Other, &mut head).ok();
        let with_line = [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat();
        if let Ok(Parse::Complete { len }) =
            http1::response::parse(&with_line, &limits(), RequestKind::Other, &mut head)
        {
            assert_inside(&head.fields, len);
        }
    }

    #[test]
    fn heads_survive_a_round_trip((method, target, fields) in valid_request()) {
        let bytes = encode_request(&method, &target, &fields);
        let mut head = RequestHead::default();
        let parsed = http1::request::parse(&bytes, &Limits::default(), &mut head);
        prop_assert_eq!(parsed, Ok(Parse::Complete { len: bytes.len() }));
        prop_assert_eq!(head.method_name.of(&bytes), method.as_bytes());
        prop_assert_eq!(head.target.raw.of(&bytes), target.as_bytes());
        let found: Vec<_> = head.fields[1..].iter().map(|f| (f.name.of(&bytes), f.value.of(&bytes))).collect();
        let given: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        prop_assert_eq!(found, given);
    }

    #[test]
    fn a_forwarded_request_means_the_same(bytes in lines_of_a_request()) {
        let mut head = RequestHead::default();
        let result = http1::request::parse(&bytes, &Limits::default(), &mut head);
        prop_assume!(matches!(result, Ok(Parse::Complete { .. })));
        let mut out = Vec::new();
        http1::encode::encode_request_line(head.method_name.of(&bytes), head.target.raw.of(&bytes), head.version, &mut out);
        http1::encode::encode_fields(&bytes, &head.fields, &mut out);
        http1::encode::encode_head_end(&mut out);
        let strict = Limits { bare_lf: http1::BareLf::Reject, ignore_invalid_headers: false, ..Limits::default() };
        let mut again = RequestHead::default();
        let parsed = http1::request::parse(&out, &strict, &mut again);
        prop_assert_eq!(parsed, Ok(Parse::Complete { len: out.len() }));
        prop_assert_eq!(
            (again.method, again.framing, again.keepalive, again.expect_continue, again.fields.len()),
            (head.method, head.framing, head.keepalive, head.expect_continue, head.fields.len())
        );
        prop_assert_eq!(again.target.raw.of(&out), head.target.raw.of(&bytes));
    }
}
