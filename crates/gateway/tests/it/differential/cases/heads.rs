//! Requests: methods, targets, fields, bodies, and their errors.

use super::{Case, chunked, pattern};

const METHODS: &[&str] = &[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "PROPFIND",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "PROPPATCH",
    "PURGE",
    "SEARCH",
    "M-SEARCH",
    "BREW",
    "X",
    "TRACE",
    "CONNECT",
    "get",
    "Get",
    "GE_T",
    "G:T",
    "G(T",
    "A-B_C",
    "QUERY",
];

/// Sent by GET to a location that passes the URI on unchanged.
const TARGETS: &[&str] = &[
    "/echo",
    "/echo?",
    "/echo??",
    "/echo?a=1&b=2",
    "/echo?a=%20+%41",
    "/echo?a=/../..//",
    "/echo/%7Euser",
    "/echo/%7euser",
    "/echo/a%2Fb",
    "/echo/a%20b",
    "/echo/%41%42",
    "/echo/%c3%a4",
    "/echo/%25",
    "/echo/%3F?x",
    "/echo/%23",
    "/echo//double",
    "/echo/./dot",
    "/echo/a/../b",
    "/echo/a/%2e%2e/b",
    "/echo/a/.%2e/b",
    "/echo/...",
    "/echo/..a/",
    "/echo/a/..",
    "/echo/a/.",
    "/echo/;p=1",
    "/echo/:@!$&'()*+,=",
    "/echo/[x]",
    "/echo/{x}|^`",
    "/echo/\"quoted\"",
    "/echo/<x>",
    "/echo/back\\slash",
    "/echo/~",
    "/echo/+plus",
    "/echo/#fragment",
    "/echo#fragment",
    "/echo?x#fragment",
    "/echo/%",
    "/echo/%4",
    "/echo/%zz",
    "/echo/%00",
    "/echo/%0a%0d",
    "/echo/%7f",
    "/echo/%ff",
    "/echo/../..",
    "/echo/../../x",
    "/..",
    "/../echo",
    "/./echo",
    "//echo",
    "/echo/a b",
    "echo",
    "*",
    "?x",
    "http://first.test/echo",
    "http://other.test/echo?a",
    "http://first.test:8080/echo",
    "http://first.test",
    "http://first.test?x",
    "HTTP://FIRST.test/echo",
    "https://first.test/echo",
    "ftp://first.test/echo",
    "http:///echo",
    "http://user@first.test/echo",
    "http:/echo",
    "h2ttp://first.test/echo",
    "http://[::1]/echo",
    "http://[::1]:80/echo",
];

/// Sent by GET to a location that replaces a part of the URI, so that the rest is decoded and escaped again.
const REPLACED: &[&str] = &[
    "",
    "x",
    "x?",
    "x?a=1",
    "?a=%20",
    "%7Euser",
    "a%2Fb",
    "a%20b",
    "%25",
    "%3Fno-args",
    "%23",
    "/double//slashes",
    "./dot",
    "a/../b",
    "a/%2e%2e/b",
    "a/./b/.",
    "a/..",
    "%c3%a4",
    "%ff",
    "%7f",
    "%0a",
    "%22%3C%3E%5C",
    "{x}|^`",
    ":@!$&'()*+,;=",
    "[x]",
    "%5Bx%5D",
    "a;b%3B",
    "+plus%2B",
    "a%26b%3D",
];

/// Field lines added to a GET with a Host.
const FIELDS: &[(&str, &str)] = &[
    ("case of names", "x-lower: 1\r\nX-UPPER: 2\r\nX-MiXeD: 3\r\n"),
    ("same name twice", "X-A: 1\r\nX-A: 2\r\n"),
    ("same name in two cases", "X-A: 1\r\nx-a: 2\r\n"),
    ("white space around", "X-A:   1 2\t3  \r\nX-B:\tb\t\r\n"),
    ("no white space", "X-A:1\r\n"),
    ("empty value", "X-A:\r\nX-B: \r\n"),
    ("colons in the value", "X-A: a:b::c\r\n"),
    ("high bytes", "X-A: \u{e4}\u{f6}\r\n"),
    ("quotes", "X-A: \"a, b\"; c='d'\r\n"),
    ("digits and dashes in the name", "X-1-2-3: a\r\n9: b\r\n"),
    ("token characters in the name", "X!#$%&'*+.^`|~: a\r\n"),
    ("underscore", "X_A: 1\r\nX-B: 2\r\n"),
    (
        "user agent and accept",
        "User-Agent: a/1 (b; c)\r\nAccept: */*\r\nAccept-Encoding: gzip, br\r\nAccept-Language: de\r\n",
    ),
    ("referer and origin", "Referer: http://a/b?c#d\r\nOrigin: null\r\n"),
    ("authorization", "Authorization: Basic dTpw\r\nProxy-Authorization: Basic eA==\r\n"),
    ("one cookie", "Cookie: c=1\r\n"),
    ("several cookies", "Cookie: c=1; d=2\r\nCookie: e=3\r\n"),
    ("forwarded", "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 x\r\n"),
    (
        "conditions",
        "If-None-Match: \"a\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1\r\nIf-Range: \"a\"\r\n",
    ),
    ("connection close", "Connection: close\r\n"),
    ("connection keep-alive", "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n"),
    ("connection names a field", "Connection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n"),
    ("connection names several", "Connection: close, X-Hop\r\nX-Hop: 1\r\n"),
    ("connection names host", "Connection: Host\r\n"),
    ("proxy-connection", "Proxy-Connection: keep-alive\r\n"),
    ("te", "TE: trailers, deflate\r\n"),
    ("trailer", "Trailer: X-Sum\r\n"),
    ("upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ("upgrade h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
    ("upgrade without connection", "Upgrade: websocket\r\n"),
    ("max-forwards", "Max-Forwards: 3\r\n"),
    ("priority", "Priority: u=1\r\n"),
    ("content-type without body", "Content-Type: text/plain\r\n"),
    ("content-length 0", "Content-Length: 0\r\n"),
    ("unknown expectation", "Expect: something\r\n"),
    // Errors.
    ("no colon", "X-A\r\n"),
    ("empty name", ": a\r\n"),
    ("space in the name", "X A: a\r\n"),
    ("space before the colon", "X-A : a\r\n"),
    ("obs-fold", "X-A: a\r\n b\r\n"),
    ("bare LF", "X-A: a\nX-B: b\r\n"),
    ("bare CR in a value", "X-A: a\rb\r\n"),
    ("control byte in a value", "X-A: a\u{1}b\r\n"),
    ("tab in a value", "X-A: a\tb\r\n"),
    ("delete byte in a value", "X-A: a\u{7f}b\r\n"),
    ("bad character in the name", "X(A): a\r\n"),
    ("second Host", "Host: other.test\r\n"),
    ("the same Host again", "Host: first.test\r\n"),
];

/// Values of Host in a request of version 1.1.
const HOSTS: &[&str] = &[
    "first.test",
    "FIRST.TEST",
    "first.test.",
    "first.test:80",
    "first.test:",
    "first.test:x",
    "first.test:99999",
    "first.test:80:80",
    "127.0.0.1",
    "[::1]",
    "[::1]:8080",
    "[::1",
    "a_b.test",
    "-a.test",
    "a..test",
    ".test",
    "user@first.test",
    "first.test/path",
    "first.test?x",
    "first.test\\x",
    "a b",
    "",
    " ",
    "*",
    "%41.test",
    "\u{e4}.test",
    "a,b",
];

/// Whole heads that are invalid, or barely valid.
const HEADS: &[(&str, &str)] = &[
    ("no host on 1.1", "GET /echo HTTP/1.1\r\n\r\n"),
    ("no host on 1.0", "GET /echo HTTP/1.0\r\n\r\n"),
    ("host on 1.0", "GET /echo HTTP/1.0\r\nHost: first.test\r\n\r\n"),
    ("1.0 with keep-alive", "GET /echo HTTP/1.0\r\nHost: first.test\r\nConnection: keep-alive\r\n\r\n"),
    ("1.0 with Keep-Alive in capitals", "GET /echo HTTP/1.0\r\nHost: first.test\r\nConnection: Keep-Alive\r\n\r\n"),
    ("HEAD on 1.0", "HEAD /bytes/10 HTTP/1.0\r\n\r\n"),
    ("0.9", "GET /echo\r\n"),
    ("2.0", "GET /echo HTTP/2.0\r\nHost: first.test\r\n\r\n"),
    ("1.2", "GET /echo HTTP/1.2\r\nHost: first.test\r\n\r\n"),
    ("1.10", "GET /echo HTTP/1.10\r\nHost: first.test\r\n\r\n"),
    ("01.1", "GET /echo HTTP/01.1\r\nHost: first.test\r\n\r\n"),
    ("lower case version", "GET /echo http/1.1\r\nHost: first.test\r\n\r\n"),
    ("no version number", "GET /echo HTTP/\r\nHost: first.test\r\n\r\n"),
    ("HTTQ", "GET /echo HTTQ/1.1\r\nHost: first.test\r\n\r\n"),
    ("double space", "GET  /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("double space before version", "GET /echo  HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("tab in the request line", "GET\t/echo\tHTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("space behind the version", "GET /echo HTTP/1.1 \r\nHost: first.test\r\n\r\n"),
    ("leading space", " GET /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("leading empty line", "\r\nGET /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("two leading empty lines", "\r\n\r\nGET /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("all bare LF", "GET /echo HTTP/1.1\nHost: first.test\n\n"),
    ("bare CR behind the line", "GET /echo HTTP/1.1\rHost: first.test\r\n\r\n"),
    ("CR CR LF", "GET /echo HTTP/1.1\r\r\nHost: first.test\r\n\r\n"),
    ("folded first field", "GET /echo HTTP/1.1\r\n Host: first.test\r\n\r\n"),
    ("asterisk by OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("empty method", " /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("empty request line", "\r\n \r\n\r\n"),
    ("tls hello", "\u{16}\u{3}\u{1}\u{0}\u{5}hello\r\n\r\n"),
    ("proxy line", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /echo HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ("CONNECT to an authority", "CONNECT first.test:80 HTTP/1.1\r\nHost: first.test:80\r\n\r\n"),
    ("absolute form without host", "GET http://first.test/echo HTTP/1.1\r\n\r\n"),
    ("absolute form with another host", "GET http://first.test/echo HTTP/1.1\r\nHost: other.test\r\n\r\n"),
    ("absolute form on 1.0", "GET http://first.test/echo HTTP/1.0\r\n\r\n"),
];

/// Fields that frame a body, and the bytes after the head of a POST.
const FRAMINGS: &[(&str, &str, &str)] = &[
    ("length", "Content-Length: 5\r\n", "hello"),
    ("length with zeros", "Content-Length: 005\r\n", "hello"),
    ("chunked", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    ("chunked in capitals", "Transfer-Encoding: CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    (
        "chunk sizes in capitals and with zeros",
        "Transfer-Encoding: chunked\r\n",
        "0005\r\nhello\r\nA\r\n0123456789\r\n000\r\n\r\n",
    ),
    ("chunk extension", "Transfer-Encoding: chunked\r\n", "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n"),
    ("space behind the chunk size", "Transfer-Encoding: chunked\r\n", "5 \r\nhello\r\n0\r\n\r\n"),
    ("empty chunked body", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ("trailers", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
    ("trailer with host", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nHost: x\r\nContent-Length: 1\r\n\r\n"),
    ("trailer without colon", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nbroken\r\n\r\n"),
    ("no framing at all", "", ""),
    ("length and chunked", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ("chunked and length", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
    ("two equal lengths", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
    ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
    ("list of lengths", "Content-Length: 5, 5\r\n", "hello"),
    ("signed length", "Content-Length: +5\r\n", "hello"),
    ("negative length", "Content-Length: -5\r\n", "hello"),
    ("hexadecimal length", "Content-Length: 0x5\r\n", "hello"),
    ("empty length", "Content-Length:\r\n", "hello"),
    ("length with a space inside", "Content-Length: 5 5\r\n", "hello"),
    ("length above 2^64", "Content-Length: 18446744073709551617\r\n", "hello"),
    ("length above 2^63", "Content-Length: 9223372036854775808\r\n", "hello"),
    ("unknown coding", "Transfer-Encoding: zip\r\n", "hello"),
    ("identity", "Transfer-Encoding: identity\r\n", ""),
    ("gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
    ("chunked, chunked", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
    ("chunked, identity", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
    ("two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ("an unknown coding and chunked", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ("chunked, gzip", "Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
    ("coding with a space before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
    ("coding with an underscore", "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello"),
    ("empty coding", "Transfer-Encoding:\r\n", ""),
    ("chunk size in 0x", "Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n"),
    ("negative chunk size", "Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"),
    ("empty chunk size", "Transfer-Encoding: chunked\r\n", "\r\nhello\r\n0\r\n\r\n"),
    ("leading space at the chunk size", "Transfer-Encoding: chunked\r\n", " 5\r\nhello\r\n0\r\n\r\n"),
    ("overflowing chunk size", "Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ("bare LF behind the chunk size", "Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n"),
    ("bare LF behind the chunk", "Transfer-Encoding: chunked\r\n", "5\r\nhello\n0\r\n\r\n"),
    ("no line end behind the chunk", "Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\n"),
    ("expect", "Expect: 100-continue\r\nContent-Length: 5\r\n", "hello"),
    ("expect and chunked", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
    ("expect in capitals", "Expect: 100-CONTINUE\r\nContent-Length: 5\r\n", "hello"),
    ("expect without body", "Expect: 100-continue\r\nContent-Length: 0\r\n", ""),
    ("unknown expectation", "Expect: 200-ok\r\nContent-Length: 5\r\n", "hello"),
];

/// Locations for bodies, and lengths at the limits of buffers.
const BODIES: &[(&str, &[usize])] = &[
    ("/echo", &[1, 1023, 1024, 8191, 16_383, 16_384, 16_385, 32_769, 102_399, 102_400, 102_401, 300_000]),
    ("/small/", &[0, 9, 10, 11, 5000]),
    ("/endless/", &[200_000, 1_100_000]),
    ("/streamed/", &[1, 4096, 16_385, 102_400, 102_401]),
    ("/spilled/", &[1, 1023, 1024, 1025, 20_000, 102_401]),
    ("/no-body/", &[1, 1000, 70_000, 102_401]),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in METHODS {
        // The echo's length depends on earlier requests, and the answer to HEAD states only its length.
        let target = if *method == "HEAD" { "/bytes/10" } else { "/echo" };
        cases.push(Case::simple(method, "first.test", target).named("method"));
    }
    for target in TARGETS {
        cases.push(Case::simple("GET", "first.test", target).named("target"));
    }
    for rest in REPLACED {
        cases.push(Case::simple("GET", "first.test", &format!("/kept-names/{rest}")).named("replaced"));
    }
    for host in HOSTS {
        cases.push(Case::raw(format!("host {host:?}"), latin1(&format!("GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n"))));
    }
    for (name, lines) in FIELDS {
        let text = format!("GET /echo HTTP/1.1\r\nHost: first.test\r\n{lines}\r\n");
        cases.push(Case::raw(format!("field: {name}"), latin1(&text)));
    }
    for host in ["first.test", "underscores.test"] {
        let text = format!("GET /echo HTTP/1.1\r\nHost: {host}\r\nX_A: 1\r\nX-B_C: 2\r\nX-D: 3\r\n\r\n");
        cases.push(Case::raw(format!("field: underscores for {host} on one address"), text));
        for length in [7000, 9000, 20_000] {
            let long = "y".repeat(length);
            let text = format!("GET /echo HTTP/1.1\r\nHost: {host}\r\nX-A: {long}\r\n\r\n");
            cases.push(Case::raw(format!("long: field of {length} for {host} on one address"), text));
        }
    }
    cases.push(Case::raw("field: underscores allowed", "GET /echo HTTP/1.1\r\nHost: a\r\nX_A: 1\r\n\r\n").on(2));
    for (name, text) in HEADS {
        cases.push(Case::raw(format!("head: {name}"), latin1(text)));
    }
    for (name, fields, body) in FRAMINGS {
        let text = format!("POST /echo HTTP/1.1\r\nHost: first.test\r\n{fields}\r\n{body}");
        cases.push(Case::raw(format!("framing: {name}"), text));
    }
    for (name, fields, body) in &FRAMINGS[..4] {
        let text = format!("GET /echo HTTP/1.1\r\nHost: first.test\r\n{fields}\r\n{body}");
        cases.push(Case::raw(format!("GET with a body: {name}"), text));
    }
    let chunked_on_1_0 = "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    cases.push(Case::raw("framing: chunked on 1.0", chunked_on_1_0));
    cases.push(Case::raw("framing: length on 1.0", "POST /echo HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello"));
    for (target, lengths) in BODIES {
        for &length in *lengths {
            body_cases(target, length, &mut cases);
        }
    }
    variables(&mut cases);
    long_heads(&mut cases);
    pipelines(&mut cases);
    cases
}

fn body_cases(target: &str, length: usize, cases: &mut Vec<Case>) {
    let body = pattern(length);
    let head = format!("POST {target} HTTP/1.1\r\nHost: first.test\r\n");
    let counted = [head.as_bytes(), format!("Content-Length: {length}\r\n\r\n").as_bytes(), &body].concat();
    cases.push(Case::raw(format!("body: {length} by length to {target}"), counted));
    for chunk in [length, 700] {
        let bytes = [head.as_bytes(), b"Transfer-Encoding: chunked\r\n\r\n", &chunked(&body, chunk)].concat();
        cases.push(Case::raw(format!("body: {length} in chunks of {chunk} to {target}"), bytes));
    }
}

fn variables(cases: &mut Vec<Case>) {
    for (name, text) in [
        ("plain", "GET /vars HTTP/1.1\r\nHost: first.test\r\n\r\n"),
        ("args", "GET /vars?a=1&b=%20&a=2 HTTP/1.1\r\nHost: first.test\r\n\r\n"),
        ("empty args", "GET /vars? HTTP/1.1\r\nHost: first.test\r\n\r\n"),
        ("escaped path", "GET /%76ars?a HTTP/1.1\r\nHost: first.test\r\n\r\n"),
        ("host with port", "GET /vars HTTP/1.1\r\nHost: FIRST.test:8080\r\n\r\n"),
        (
            "fields",
            "GET /vars HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\nX-One: 1\r\nX-One: 2\r\nCookie: b=0; c=9; d=1\r\n\r\n",
        ),
        ("body", "POST /vars HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Type: a/b\r\n\r\nhi"),
        ("1.0", "GET /vars HTTP/1.0\r\n\r\n"),
        ("absolute", "GET http://other.test/vars?x HTTP/1.1\r\nHost: first.test\r\n\r\n"),
        ("head", "HEAD /vars HTTP/1.1\r\nHost: first.test\r\n\r\n"),
    ] {
        cases.push(Case::raw(format!("variables: {name}"), text));
    }
}

fn long_heads(cases: &mut Vec<Case>) {
    for length in [500, 600, 1000, 1024, 1100, 2100, 5000] {
        let target = "x".repeat(length);
        cases.push(
            Case::raw(
                format!("long: line of {length}, small buffers"),
                format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n"),
            )
            .on(1),
        );
        cases.push(
            Case::raw(
                format!("long: field of {length}, small buffers"),
                format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {target}\r\n\r\n"),
            )
            .on(1),
        );
    }
    for length in [1000, 4000, 7000, 8100, 8300, 20_000] {
        let long = "y".repeat(length);
        cases.push(Case::raw(
            format!("long: line of {length}"),
            format!("GET /echo/{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
        ));
        cases.push(Case::raw(
            format!("long: query of {length}"),
            format!("GET /echo?{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
        ));
        cases.push(Case::raw(
            format!("long: field of {length}"),
            format!("GET /echo HTTP/1.1\r\nHost: a\r\nX-A: {long}\r\n\r\n"),
        ));
        cases.push(Case::raw(
            format!("long: cookie of {length}"),
            format!("GET /echo HTTP/1.1\r\nHost: a\r\nCookie: c={long}\r\n\r\n"),
        ));
    }
    for count in [50, 90, 400] {
        let lines: String = (0..count)
            .flat_map(|at| ["X-".to_owned(), at.to_string(), ": zzzzzzzzzzzzzzzzzzzz\r\n".to_owned()])
            .collect();
        cases.push(Case::raw(format!("long: {count} fields"), format!("GET /echo HTTP/1.1\r\nHost: a\r\n{lines}\r\n")));
    }
}

fn pipelines(cases: &mut Vec<Case>) {
    let get: &[u8] = b"GET /echo?1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let head: &[u8] = b"HEAD /bytes/7 HTTP/1.1\r\nHost: a\r\n\r\n";
    let post: &[u8] = b"POST /echo?3 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let chunks: &[u8] =
        b"POST /echo?4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let own: &[u8] = b"GET /no-body/ HTTP/1.1\r\nHost: a\r\n\r\n";
    let own_post: &[u8] = b"POST /no-body/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let bad: &[u8] = b"BAD\x01 / HTTP/1.1\r\n\r\n";
    let close: &[u8] = b"GET /echo?5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let missing: &[u8] = b"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n";
    let line: &[u8] = b"\r\n";
    for (name, requests) in [
        ("two", vec![get, get]),
        ("get head post chunks", vec![get, head, post, chunks]),
        ("posts", vec![post, chunks, post]),
        ("own answers", vec![own, own_post, own, head]),
        ("good then bad", vec![get, bad, get]),
        ("own then bad", vec![own, bad]),
        ("close in the middle", vec![get, close, get]),
        ("missing in the middle", vec![get, missing, get]),
        ("ten", vec![get; 10]),
    ] {
        cases.push(Case::pipeline(format!("pipeline: {name}"), &requests));
    }
    let mut spaced = Case::pipeline("pipeline: an empty line between", &[get, line, get]);
    spaced.to_head.pop();
    cases.push(spaced);
}

/// Characters up to U+00FF as one byte each.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|char| char as u8).collect()
}
