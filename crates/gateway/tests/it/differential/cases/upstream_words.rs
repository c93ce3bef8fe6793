//! Directives that change an upstream's response, or the request that it receives.

use super::Case;

/// Cookies for the origin to set.
const COOKIES: &[&str] = &[
    "one=1",
    "two=2; Path=/app/x",
    "two=2; path=/apple",
    "two=2; PATH=/old/a/b?c",
    "x=1; Path=/up/there; Path=/app/",
    "x=1; Path=/f/z",
    "x=1; Path",
    "x=1; Path=",
    "x=1; Domain=inside.test",
    "x=1; Domain=.Inside.Test; Path=/app/",
    "x=1;Domain=dotted.test;Secure",
    "x=1; Domain=.dotted.test",
    "x=1; Domain=a.sub7.test",
    "x=1; Domain=from.test; Domain=inside.test",
    "x=1; Domain",
    "one=1; Secure",
    "ONE=1; HttpOnly; SameSite=None",
    "one=; samesite=strict; Max-Age=1",
    "two=2; HttpOnly; secure",
    "three; Secure",
    "x=1; secure; httponly; SameSite=Lax",
    "x=1; secure; Path=/; secure",
    "x=1;",
    "x=1; ; y",
    "x = 1 ;  Path = /app/x ; z",
    "=1; Path=/app/",
    "x=a=b; Path=/app/=",
    "x=\"1; 2\"; Path=/app/",
    "x=1; Expires=Wed, 21 Oct 2037 07:28:00 GMT; Path=/app/",
    "x",
];

const RANGES: &[&str] = &[
    "",
    "Range: bytes=0-9",
    "Range: bytes=5-",
    "Range: bytes=-5",
    "Range: bytes=0-",
    "Range: bytes=700-",
    "Range: bytes=70000-",
    "Range: bytes=9-3",
    "Range: bytes=0-1,3-4",
    "Range: bytes=0-0,700000-",
    "Range: bytes=",
    "Range: lines=0-1",
    "Range: bytes=0-99999",
    "Range: bytes=2-4\r\nIf-Range: \"no\"",
    "Range: bytes=2-4\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT",
    "Range: bytes=2-4\r\nIf-Range: x",
    "Range: bytes=2-4\r\nIf-None-Match: *",
    "Range: bytes=2-4\r\nAccept-Encoding: gzip",
    "Accept-Encoding: gzip",
];

const RANGED: &[&str] = &[
    "/forced/page",
    "/forced/bytes/1000",
    "/forced/bytes/100000",
    "/forced/bytes/0",
    "/forced/chunked/100",
    "/forced/close-delimited/100",
    "/forced/status/404",
    "/forced/status/200?header=Accept-Ranges:none&header=ETag:%22no%22",
    "/forced/status/200?header=Last-Modified:Sun,%2006%20Nov%201994%2008:49:37%20GMT",
    "/passed/bytes/1000",
    "/not-forced/bytes/1000",
    "/unranged/bytes/1000",
    "/unbuffered/bytes/100000",
    "/packed/bytes/1000",
    "/paged/bytes/1000",
];

const OTHERS: &[&str] = &[
    "/method-put/x",
    "/method-variable/x?method=PATCH",
    "/method-variable/x",
    "/body/x",
    "/body-empty/x",
    "/body-and-method/x?a=b",
    "/no-body/x",
    "/untyped/x",
];

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for cookie in COOKIES {
        for (name, rest) in [
            ("domain", "&from=from.test"),
            ("path", "&from=f&to=t"),
            ("flags", "&cookie=x&flag=secure"),
            ("flags", "&cookie=none"),
            ("all", ""),
            ("all/off", ""),
            ("all/own", ""),
        ] {
            let target = format!("/{name}/200?header=Set-Cookie:{}{rest}", encoded(cookie));
            let text = format!("GET {target} HTTP/1.1\r\nHost: words.test\r\n\r\n");
            cases.push(Case::raw(format!("cookie {cookie:?} by {name}{rest}"), text));
        }
    }
    let two =
        "GET /all/200?header=Set-Cookie:a%3D1&header=set-cookie:b%3D2%3BPath%3D/x HTTP/1.1\r\nHost: words.test\r\n\r\n";
    cases.push(Case::raw("two cookies", two));
    cases.push(Case::simple("GET", "words.test", "/accel/x"));
    for target in RANGED {
        for range in RANGES {
            for method in ["GET", "HEAD"] {
                let fields = if range.is_empty() { String::new() } else { format!("{range}\r\n") };
                let text = format!("{method} {target} HTTP/1.1\r\nHost: words.test\r\n{fields}\r\n");
                cases.push(Case::raw(format!("{method} {target} {range}"), text));
            }
        }
    }
    for target in OTHERS {
        for (method, body) in [("GET", ""), ("POST", "hello"), ("DELETE", "hello")] {
            let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            let text = format!("{method} {target} HTTP/1.1\r\nHost: words.test\r\n{length}\r\n{body}");
            cases.push(Case::raw(format!("{method} {target}"), text));
        }
    }
    cases.push(Case::simple("HEAD", "words.test", "/method-get/100"));
    cases
}
