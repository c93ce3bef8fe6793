//! What the upstream receives, and what the client gets back.

use super::{Case, chunked, pattern};

/// GET requests, by their target.
const GETS: &[&str] = &[
    "/a/",
    "/a/x",
    "/a/x/y?z=1",
    "/a//x",
    "/a/../a/x",
    "/%61/x",
    "/a/%20b",
    "/a",
    "/a?x",
    "/a-no-slash",
    "/a-no-slash/x",
    "/a-no-slashy?q",
    "/a-root/echo/x",
    "/a-root/page",
    "/a-args/x",
    "/a-args/x?y=2",
    "/exact",
    "/exact?q=1",
    "/exact/more",
    "/echo/regex/x?y",
    "/echo/regex/%78/../z",
    "/echo/final/x",
    "/address/x",
    "/set/x?x=%41",
    "/set-host/x",
    "/set-http-host/x",
    "/defaults/x",
    "/one-zero/x",
    "/one-zero-defaults/x",
    "/no-fields/x",
    // Statuses
    "/status/200",
    "/status/201",
    "/status/202",
    "/status/204",
    "/status/206",
    "/status/226",
    "/status/299",
    "/status/300",
    "/status/304",
    "/status/400",
    "/status/401",
    "/status/404",
    "/status/418",
    "/status/429",
    "/status/499",
    "/status/500",
    "/status/502",
    "/status/503",
    "/status/504",
    "/status/599",
    "/status/600",
    "/status/999",
    "/status/abc",
    "/nothing",
    // Response fields
    "/status/200?header=X-A:1&header=x-a:2",
    "/status/200?header=Set-Cookie:a%3D1&header=Set-Cookie:b%3D2%3B%20Path%3D/x",
    "/status/200?header=Connection:X-Hop&header=X-Hop:1&header=X-End:2",
    "/status/200?header=Keep-Alive:timeout%3D9",
    "/status/200?header=Upgrade:x",
    "/status/200?header=Proxy-Connection:x&header=Proxy-Authenticate:Basic",
    "/status/200?header=Trailer:X-Sum&header=TE:x",
    "/status/200?header=Warning:1&header=Via:1.1%20x&header=Age:3&header=Vary:*",
    "/status/200?header=Cache-Control:no-store&header=Expires:0&header=Pragma:no-cache",
    "/status/200?header=ETag:%22x%22&header=Last-Modified:Sun,%2006%20Nov%201994%2008:49:37%20GMT",
    "/status/200?header=Content-Encoding:gzip&header=Content-Language:de",
    "/status/200?header=Accept-Ranges:none",
    "/status/200?header=X-Pad:1&header=Status:201&header=X-Accel-Expires:1&header=X-Accel-Charset:x",
    "/status/200?header=X-Accel-Buffering:no",
    "/status/200?header=X-Accel-Limit-Rate:100000",
    "/status/200?header=Refresh:5%3B%20url%3Dhttp://origin/x",
    "/status/200?header=X_Under:1",
    "/status/200?header=Location:http://origin/status/x",
    "/status/401?header=WWW-Authenticate:Basic%20realm%3Dx",
    "/status/304?header=ETag:%22x%22",
    "/hide/200?header=X-Secret:1&header=X-Other:2&header=X-Open:3",
    "/pass/200?header=X-Accel-Expires:1&header=X-Accel-Charset:x",
    "/hide-and-pass/200?header=X-Secret:1",
    // Redirects of the upstream
    "/r-default/302?header=Location:http://origin/status/x?y",
    "/r-default/302?header=Location:http://origin/other/x",
    "/r-default/302?header=Location:http://ORIGIN/status/x",
    "/r-default/302?header=Location:https://origin/status/x",
    "/r-default/302?header=Location:/status/x",
    "/r-default/302?header=Location:relative",
    "/r-default/301?header=Location:http://elsewhere/status/x",
    "/r-default/200?header=Refresh:3%3B%20url%3Dhttp://origin/status/x",
    "/r-default/201?header=Location:http://origin/status/new",
    "/status/302?header=Location:http://origin/status/x",
    "/status/302?header=Location:http://origin",
    "/r-off/302?header=Location:http://origin/status/x",
    "/r-prefix/302?header=Location:http://origin/old/x",
    "/r-prefix/302?header=Location:http://origin/older",
    "/r-prefix/200?header=Refresh:0%3Burl%3Dhttp://origin/old/x",
    "/r-absolute/302?header=Location:http://origin/x",
    "/r-several/302?header=Location:http://one/x",
    "/r-several/302?header=Location:http://two/x",
    "/r-several/302?header=Location:http://origin/status/x",
    "/r-regex/302?header=Location:http://any.test/p/q",
    "/r-regex/302?header=Location:ftp://any.test/p/q",
    "/r-caseless/302?header=Location:http://origin/p",
    // Bodies
    "/bytes/0",
    "/bytes/1",
    "/bytes/4095",
    "/bytes/4096",
    "/bytes/100000",
    "/bytes/1000000",
    "/chunked/0",
    "/chunked/1",
    "/chunked/10000?chunk=1",
    "/chunked/10000?chunk=100",
    "/chunked/300000?chunk=50000",
    "/chunked/5?trailer=X-Sum:1",
    "/close-delimited/0",
    "/close-delimited/1000",
    "/close-delimited/200000",
    "/slow/20?step=5&every=5",
    "/slow/20?step=5&every=5&framing=chunked",
    "/slow/20?step=5&every=5&framing=close",
    "/delay/20",
    "/unbuffered/bytes/100000",
    "/unbuffered/chunked/10000?chunk=100",
    "/unbuffered/close-delimited/1000",
    "/unbuffered/slow/20?step=5&every=5&framing=chunked",
    "/unbuffered/status/204",
    "/small-buffers/bytes/100000",
    "/small-buffers/chunked/10000?chunk=100",
    "/small-buffers/status/200?header=X-A:1",
    // Bodies that end with an error, by FIN: the bytes before a reset or an invalid chunk depend on how fast each side
    // reads.
    "/bytes/1000?cut=500",
    "/bytes/1000?cut=0",
    "/chunked/1000?cut=500&chunk=100",
    "/unbuffered/bytes/1000?cut=500",
    "/reset/at?point=request",
    "/reset/at?point=head",
    // Failures
    "/dead/x",
    "/two-dead/x",
    "/dead-then-good/x",
    "/backup/x",
    "/down/x",
    "/never-next/x",
    "/next-404/404",
    "/next-404/200",
    "/next-500/500",
    "/next-500/503",
    "/silent/x",
    "/late/delay/600",
    "/late/slow/20?step=5&every=400",
];

/// Methods and targets with answers that depend on the method.
const OTHERS: &[(&str, &str)] = &[
    ("HEAD", "/bytes/1000"),
    ("HEAD", "/chunked/1000"),
    ("HEAD", "/close-delimited/1000"),
    ("HEAD", "/status/204"),
    ("HEAD", "/status/304"),
    ("HEAD", "/status/404"),
    ("HEAD", "/status/302?header=Location:http://origin/x"),
    ("HEAD", "/dead/x"),
    ("HEAD", "/unbuffered/bytes/1000"),
    ("HEAD", "/nothing"),
    ("POST", "/bytes/10"),
    ("POST", "/dead/x"),
    ("POST", "/two-dead/x"),
    ("POST", "/dead-then-good/x"),
    ("POST", "/next-500/500"),
    ("POST", "/status/302?header=Location:http://origin/x"),
    ("POST", "/reset/at?point=request"),
    ("PUT", "/status/201?header=Location:http://origin/status/x"),
    ("DELETE", "/status/204"),
    ("OPTIONS", "/status/200?header=Allow:GET"),
];

/// Requested again by an HTTP/1.0 client, which knows no chunks.
const ON_1_0: &[&str] = &[
    "/echo",
    "/bytes/1000",
    "/chunked/1000",
    "/close-delimited/1000",
    "/status/204",
    "/status/304",
    "/status/404",
    "/unbuffered/chunked/1000",
    "/dead/x",
];

/// Conditions and ranges that the upstream answers.
const CONDITIONS: &[&str] = &[
    "Range: bytes=0-9",
    "Range: bytes=5-",
    "Range: bytes=-5",
    "Range: bytes=700-",
    "Range: bytes=0-1,3-4",
    "Range: lines=0-1",
    "If-None-Match: *",
    "If-None-Match: \"no\"",
    "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    "If-Modified-Since: Fri, 31 Dec 2100 08:49:37 GMT",
    "If-Match: \"no\"",
    "If-Range: \"no\"\r\nRange: bytes=0-9",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = GETS.iter().map(|target| Case::simple("GET", "first.test", target)).collect();
    cases.extend(OTHERS.iter().map(|(method, target)| {
        let length = if *method == "POST" { "Content-Length: 2\r\n\r\nhi" } else { "\r\n" };
        Case::raw(format!("{method} {target}"), format!("{method} {target} HTTP/1.1\r\nHost: first.test\r\n{length}"))
    }));
    for target in ON_1_0 {
        for connection in ["", "Connection: keep-alive\r\n"] {
            let name = if connection.is_empty() { "1.0" } else { "1.0 keep-alive" };
            let text = format!("GET {target} HTTP/1.0\r\nHost: first.test\r\n{connection}\r\n");
            cases.push(Case::raw(format!("{name}: {target}"), text));
        }
    }
    for (path, length) in
        [("one-zero", 5), ("one-zero", 20_000), ("one-zero-streamed", 5), ("one-zero-streamed", 20_000)]
    {
        let head = format!("POST /{path}/x HTTP/1.1\r\nHost: first.test\r\nTransfer-Encoding: chunked\r\n\r\n");
        let bytes = [head.as_bytes(), &chunked(&pattern(length), 1000)].concat();
        cases.push(Case::raw(format!("chunked body of {length} to {path}"), bytes));
    }
    for (name, target, length) in [
        ("kept", "/dead-then-good/x", 20_000),
        ("sent twice", "/next-500/500", 5000),
        ("streamed", "/unbuffered/echo", 5000),
    ] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: first.test\r\nContent-Length: {length}\r\n\r\n");
        cases.push(Case::raw(format!("body {name}"), [head.as_bytes(), &pattern(length)].concat()));
    }
    for condition in CONDITIONS {
        for path in ["page", "bytes/1000"] {
            let text = format!("GET /{path} HTTP/1.1\r\nHost: first.test\r\n{condition}\r\n\r\n");
            cases.push(Case::raw(format!("{path} {condition}"), text));
        }
    }
    for (name, lines) in [
        ("with forwarded", "X-Forwarded-For: 1.2.3.4\r\nX-Real-IP: 5.6.7.8\r\nX-Forwarded-Proto: https\r\n"),
        ("with all that is set", "X-Empty: 1\r\nX-Absent: 1\r\nx-mixed: 1\r\nAccept-Encoding: gzip\r\nX-Twice: 0\r\n"),
        ("with two forwarded", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n"),
        ("with absent", "Absent: here\r\n"),
    ] {
        let text = format!("GET /set/x HTTP/1.1\r\nHost: first.test:81\r\n{lines}\r\n");
        cases.push(Case::raw(format!("set: {name}"), text));
    }
    for host in ["first.test:81", "FIRST.test", "127.0.0.1"] {
        for path in ["set", "set-http-host", "a"] {
            let text = format!("GET /{path}/x HTTP/1.1\r\nHost: {host}\r\n\r\n");
            cases.push(Case::raw(format!("{path} for {host}"), text));
        }
    }
    cases.push(Case::raw(
        "no fields: with a body",
        "POST /no-fields/x HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nContent-Length: 2\r\nContent-Type: a/b\r\n\r\nhi",
    ));
    cases
}
